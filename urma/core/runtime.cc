// SPDX-License-Identifier: MIT
#include "urma/core/runtime.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/core/files.h"

namespace urma::core {
namespace {

constexpr uint32_t kMaxIndex = 65535;
constexpr uint32_t kMaxUasid = 0xffffff;
constexpr int kUasidTries = 64;

const char* kind_name(IdKind kind) {
  static constexpr const char* kNames[kIdKinds] = {"jfc", "jfs", "jfr", "jetty", "group", "token"};
  return kNames[static_cast<uint32_t>(kind)];
}

std::string chosen_name(IdKind kind, uint32_t eid_index, uint32_t id) {
  return urma::format("id-{}-{}-{}", kind_name(kind), eid_index, id);
}

RuntimeDir open_swept(const Settings& settings, const PeerUsers& peers) {
  auto dir = open_runtime_dir(settings, peers);
  sweep_all(dir.fd.get());
  return dir;
}

// The descriptor with the slot's lock; not valid where another process has the slot.
Fd try_slot(const RuntimeDir& dir, const std::string& name) {
  // Open for writing: closing such a descriptor is what the janitors of others hear.
  const mode_t mode = file_mode(dir.fd.get());
  Fd fd(::openat(dir.fd.get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode));
  // EACCES: made a moment ago under a umask that forbids even the owner.
  if (!fd.valid() && errno != EACCES && errno != ELOOP && errno != EISDIR && errno != ENXIO) {
    fail_no_fd(urma::format("making {}/{}", dir.path, name));
  }
  if (!fd.valid() || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return Fd();
  // Whoever clears up may have removed the file between the opening and the locking.
  struct stat opened, named;
  const bool same = ::fstat(fd.get(), &opened) == 0 &&
                    ::fstatat(dir.fd.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                    opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
  if (!same) return Fd();
  ::fchmod(fd.get(), mode);
  return fd;
}

// A socket whose name nobody else in this network namespace can have while it is open; not valid
// where somebody has it.
Fd bind_abstract(const std::string& name) {
  Fd fd = checked_fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "making a socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return fd;
  if (errno == EADDRINUSE) return Fd();
  fail_no_fd(urma::format("binding the socket @{}", name));
}

}  // namespace

ProcessRuntime::Held::Held(const RuntimeDir& dir, std::string name, Fd fd)
    : dir(dir.fd.get()), name(std::move(name)), fd(std::move(fd)) {}

ProcessRuntime::Held::~Held() {
  // Unlinked while still locked, so that it cannot be a new owner's.
  if (fd.valid()) ::unlinkat(dir, name.c_str(), 0);
}

ProcessRuntime::ProcessRuntime(Service& service, const Settings& settings, uint32_t uasid)
    : peers_(settings.text("URMA_SHM_PEERS")),
      dir_(open_swept(settings, peers_)),
      slot_(take_slot(dir_)),
      nonce_(random_number()),
      eids_(load_eid_table(dir_, temporary_name())),
      uasid_(reserve_uasid(uasid)),
      janitor_(service, dir_.fd.get(), slot_.number) {
  for (auto& pool : pools_) pool = std::make_unique<IdPool>(kMaxIndex);
}

ProcessRuntime::~ProcessRuntime() {
  guarded(URMA_LOG_SITE, [&] { remove_sockets(dir_.fd.get(), slot_.number); });
}

ProcessRuntime::Slot ProcessRuntime::take_slot(const RuntimeDir& dir) {
  // From a random place, so that ids of a process that has ended seldom meet a new one.
  const auto start = static_cast<uint32_t>(random_number() % kMaxSlot);
  for (uint32_t i = 0; i < kMaxSlot; ++i) {
    const uint32_t number = (start + i) % kMaxSlot + 1;
    const auto name = slot_name(number);
    Fd fd = try_slot(dir, name);
    if (!fd.valid()) continue;
    remove_sockets(dir.fd.get(), number);
    return {number, Held(dir, name, std::move(fd))};
  }
  fail(URMA_FAIL, "all {} slots of {} are in use", kMaxSlot, dir.path);
}

std::string ProcessRuntime::temporary_name() {
  // Relaxed: the number need only differ.
  return urma::format("tmp-{}-{}", slot_.number,
                      temporary_names_.fetch_add(1, std::memory_order_relaxed));
}

ProcessRuntime::Held ProcessRuntime::reserve(const std::string& name, const std::string& what) {
  return Held(dir_, name,
              reserve_name(dir_.fd.get(), name, temporary_name(),
                           urma::format("{}\n", slot_.number), what));
}

uint32_t ProcessRuntime::reserve_uasid(uint32_t wished) {
  for (int i = 0; i < kUasidTries; ++i) {
    const auto number =
        wished != 0 ? wished : static_cast<uint32_t>(random_number() % kMaxUasid + 1);
    if (number > kMaxUasid) fail(URMA_EINVAL, "uasid {:#x} is over 24 bits", number);
    try {
      reserve_uasid_number(number);
      return number;
    } catch (const Error& error) {
      if (wished != 0 || error.status() != URMA_EEXIST) throw;
    }
  }
  fail(URMA_FAIL, "no free uasid was found in {}", dir_.path);
}

// Processes of other users, and of other directories, see the name too.
void ProcessRuntime::reserve_uasid_number(uint32_t number) {
  Fd name = bind_abstract(urma::format("urma-uasid-{:06x}", number));
  const auto what = urma::format("uasid {:#x}", number);
  if (!name.valid()) fail(URMA_EEXIST, "{} is taken by a living process of this host", what);
  uasid_file_.emplace(reserve(urma::format("uasid-{:06x}", number), what));
  uasid_name_ = std::move(name);
}

uint32_t ProcessRuntime::alloc_id(IdKind kind) {
  const auto index = pools_[static_cast<uint32_t>(kind)]->take();
  if (!index) fail(URMA_ENOMEM, "all {} ids of kind {} are in use", kMaxIndex, kind_name(kind));
  return slot_.number << 16 | *index;
}

void ProcessRuntime::reserve_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (id == 0 || id > kMaxChosenId || eid_index >= eids_.size()) {
    fail(URMA_EINVAL, "id {} of EID {} cannot be chosen by a program", id, eid_index);
  }
  auto held =
      reserve(chosen_name(kind, eid_index, id), urma::format("{} id {}", kind_name(kind), id));
  const MutexLock lock(chosen_mutex_);
  chosen_.emplace(ChosenId{kind, eid_index, id}, std::move(held));
}

void ProcessRuntime::free_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (id > kMaxChosenId) {
    if (id >> 16 == slot_.number) pools_[static_cast<uint32_t>(kind)]->give_back(id & 0xffff);
    return;
  }
  const MutexLock lock(chosen_mutex_);
  chosen_.erase({kind, eid_index, id});
}

std::optional<uint32_t> ProcessRuntime::owner_slot(IdKind kind, const urma_eid_t& eid,
                                                   uint32_t id) {
  const auto found = std::find_if(eids_.begin(), eids_.end(), [&](const urma_eid_t& other) {
    return std::memcmp(&other, &eid, sizeof eid) == 0;
  });
  if (found == eids_.end() || id == 0) return std::nullopt;
  std::optional<uint32_t> slot = id >> 16;
  if (id <= kMaxChosenId) {
    const auto name = chosen_name(kind, static_cast<uint32_t>(found - eids_.begin()), id);
    if (!is_held(dir_.fd.get(), name)) return std::nullopt;
    auto text = read_small_file(dir_.fd.get(), name);
    if (!text || text->empty() || text->back() != '\n') return std::nullopt;
    text->pop_back();
    slot = parse_decimal(*text, kMaxSlot);
  }
  if (!slot || (*slot != slot_.number && !is_held(dir_.fd.get(), slot_name(*slot)))) {
    return std::nullopt;
  }
  return slot;
}

std::string ProcessRuntime::socket_name(uint32_t slot, const char* provider) const {
  return urma::format("{}.{}", slot, provider);
}

}  // namespace urma::core
