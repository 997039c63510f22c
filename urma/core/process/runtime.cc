// SPDX-License-Identifier: MIT
#include "urma/core/process/runtime.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/held_name.h"
#include "urma/core/process/files.h"

namespace urma::core {
namespace {

constexpr uint32_t kMaxTokens = 65535;
constexpr uint32_t kMaxUasid = 0xffffff;
constexpr int kUasidTries = 64;

const char* kind_name(IdKind kind) {
  static constexpr const char* kNames[kIdKinds] = {"jfc", "jfs", "jfr", "jetty", "group", "token"};
  return kNames[static_cast<uint32_t>(kind)];
}

RuntimeDir open_swept(const Settings& settings, const PeerUsers& peers) {
  auto dir = open_runtime_dir(settings, peers);
  sweep_all(dir.fd.get());
  return dir;
}

// The descriptor with the slot's lock; not valid if another process has the slot.
OwnFd try_slot(const RuntimeDir& dir, const std::string& name) {
  // Open for writing: closing such a descriptor notifies the janitors of others.
  const mode_t mode = file_mode(dir.fd.get());
  constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;
  OwnFd fd(dir.fd.get(), name.c_str(), kFlags | O_CREAT | O_EXCL, mode);
  const bool made = fd.valid();
  if (!made && errno == EEXIST) {
    fd = OwnFd(dir.fd.get(), name.c_str(), kFlags);
    // Removed meanwhile, or not openable by this process: try another slot.
    constexpr int kTaken[] = {ENOENT, EACCES, ELOOP, EISDIR, ENXIO};
    if (!fd.valid() && std::ranges::count(kTaken, errno) != 0) return OwnFd();
  }
  if (!fd.valid()) fail_no_fd(urma::format("making {}/{}", dir.path, name));
  try {
    if (!try_flock(fd.get(), LOCK_EX, urma::format("{}/{}", dir.path, name))) return OwnFd();
  } catch (...) {
    if (made) ::unlinkat(dir.fd.get(), name.c_str(), 0);
    throw;
  }
  // A process that cleans up may have removed the file between opening and locking.
  if (!is_still_named(dir.fd.get(), name, fd)) return OwnFd();
  ::fchmod(fd.get(), mode);
  return fd;
}

}  // namespace

ProcessRuntime::Held::Held(const RuntimeDir& dir, std::string name, OwnFd fd)
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
      id_file_(dir_, temporary_name(), slot_.number),
      ids_(&id_file_, random_number()),
      tokens_(kMaxTokens),
      janitor_(service, dir_.fd.get(), slot_.number) {}

ProcessRuntime::~ProcessRuntime() {
  guarded(URMA_LOG_SITE, [&] { remove_entries(dir_.fd.get(), slot_.number); });
}

ProcessRuntime::Slot ProcessRuntime::take_slot(const RuntimeDir& dir) {
  // From a random slot, so that a new process seldom gets the ids of one that ended.
  const auto start = static_cast<uint32_t>(random_number() % kMaxSlot);
  for (uint32_t i = 0; i < kMaxSlot; ++i) {
    const uint32_t number = (start + i) % kMaxSlot + 1;
    const auto name = slot_name(number);
    OwnFd fd = try_slot(dir, name);
    if (!fd.valid()) continue;
    remove_entries(dir.fd.get(), number);
    return {number, Held(dir, name, std::move(fd))};
  }
  fail(URMA_FAIL, "all {} slots of {} are in use", kMaxSlot, dir.path);
}

std::string ProcessRuntime::temporary_name() {
  // Relaxed: the number only has to differ.
  return urma::format("tmp-{}-{}", slot_.number,
                      temporary_names_.fetch_add(1, std::memory_order_relaxed));
}

uint32_t ProcessRuntime::reserve_uasid(uint32_t wished) {
  for (int i = 0; i < kUasidTries; ++i) {
    const auto number =
        wished != 0 ? wished : static_cast<uint32_t>(random_number() % kMaxUasid + 1);
    if (number > kMaxUasid) fail(URMA_EINVAL, "uasid {:#x} exceeds 24 bits", number);
    try {
      reserve_uasid_number(number);
      return number;
    } catch (const Error& error) {
      if (wished != 0 || error.status() != URMA_EEXIST) throw;
    }
  }
  fail(URMA_FAIL, "no free uasid was found in {}", dir_.path);
}

// Processes of other users and other directories also see the name.
void ProcessRuntime::reserve_uasid_number(uint32_t number) {
  auto name = hold_name(urma::format("urma-uasid-{:06x}", number));
  const auto what = urma::format("uasid {:#x}", number);
  if (name == nullptr) fail(URMA_EEXIST, "{} is taken by a living process of this host", what);
  auto file = urma::format("uasid-{:06x}", number);
  OwnFd fd =
      reserve_name(dir_.fd.get(), file, temporary_name(), urma::format("{}\n", slot_.number), what);
  uasid_file_.emplace(dir_, std::move(file), std::move(fd));
  uasid_name_ = std::move(name);
}

uint32_t ProcessRuntime::alloc_id(IdKind kind) {
  if (kind == IdKind::kToken) {
    const auto index = tokens_.take();
    if (!index) fail(URMA_ENOMEM, "all {} token ids of the process are in use", kMaxTokens);
    return slot_.number << 16 | *index;
  }
  const auto id = ids_.take(kind);
  if (!id) {
    fail(URMA_ENOMEM,
         "all {} ids of kind {} are taken by the processes that share {}; delete some objects, or "
         "give some processes another URMA_RUNTIME_DIR",
         kClaimableIds, kind_name(kind), dir_.path);
  }
  return *id;
}

void ProcessRuntime::reserve_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (id == 0 || id > kMaxChosenId || eid_index >= eids_.size() || kind == IdKind::kToken) {
    fail(URMA_EINVAL, "{} id {} of EID {} cannot be chosen by a program", kind_name(kind), id,
         eid_index);
  }
  ids_.choose(kind, eid_index, id);
}

void ProcessRuntime::free_id(IdKind kind, uint32_t eid_index, uint32_t id) {
  if (kind != IdKind::kToken) return ids_.give_back(kind, eid_index, id);
  if (id >> 16 == slot_.number) tokens_.give_back(id & 0xffff);
}

std::optional<uint32_t> ProcessRuntime::owner_slot(IdKind kind, const urma_eid_t& eid,
                                                   uint32_t id) {
  const auto found = std::find_if(eids_.begin(), eids_.end(), [&](const urma_eid_t& other) {
    return std::memcmp(&other, &eid, sizeof eid) == 0;
  });
  if (found == eids_.end()) return std::nullopt;
  if (kind == IdKind::kToken) {
    const uint32_t slot = id >> 16;
    if (slot == slot_.number || is_held(dir_.fd.get(), slot_name(slot))) return slot;
    return std::nullopt;
  }
  if (id == 0 || id > kMaxChosenId) return std::nullopt;
  const auto eid_index = static_cast<uint32_t>(found - eids_.begin());
  if (ids_.owns(kind, eid_index, id)) return slot_.number;
  return id_file_.owner(kind, eid_index, id);
}

std::string ProcessRuntime::socket_name(uint32_t slot, const char* provider) const {
  return urma::format("{}.{}", slot, provider);
}

}  // namespace urma::core
