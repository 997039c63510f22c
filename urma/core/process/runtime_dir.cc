// SPDX-License-Identifier: MIT
#include "urma/core/process/runtime_dir.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/ip.h"
#include "urma/base/log.h"
#include "urma/core/process/files.h"

namespace urma::core {
namespace {

constexpr char kEidFile[] = "eids";
constexpr size_t kOwnEids = 2;
constexpr std::string_view kSlotPrefix = "slot-";
constexpr std::string_view kTemporaryPrefix = "tmp-";

bool make_dir(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    // The program's umask may have removed bits.
    ::chmod(path.c_str(), 0700);
    return true;
  }
  return errno == EEXIST;
}

// By specification the user owns XDG_RUNTIME_DIR; after su or sudo it may still be another user's,
// and a directory that root made in there would lock its owner out.
bool is_own_dir(const char* path) {
  struct stat info;
  return ::stat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid();
}

// The program may change its working directory later.
std::string absolute(const std::string& path) {
  std::error_code error;
  const auto found = std::filesystem::absolute(path, error);
  if (error) fail(URMA_FAIL, "finding URMA_RUNTIME_DIR {}: {}", path, error.message());
  return found.string();
}

std::string choose_path(const Settings& settings) {
  auto asked = settings.text("URMA_RUNTIME_DIR");
  if (!asked.empty()) {
    asked = absolute(asked);
    if (!make_dir(asked)) fail_errno(URMA_FAIL, urma::format("making URMA_RUNTIME_DIR {}", asked));
    URMA_LOG(DEBUG, "the runtime directory is {}, as URMA_RUNTIME_DIR says", asked);
    return asked;
  }
  const char* xdg = ::secure_getenv("XDG_RUNTIME_DIR");
  if (xdg != nullptr && xdg[0] == '/' && is_own_dir(xdg)) {
    auto path = urma::format("{}/urma", xdg);
    if (make_dir(path)) {
      URMA_LOG(DEBUG, "the runtime directory is {}, in XDG_RUNTIME_DIR", path);
      return path;
    }
  }
  const char* const why = xdg == nullptr ? "is not set" : "is not a directory of this user";
  for (const char* parent : {"/run", "/tmp"}) {
    auto path = urma::format("{}/urma-{}", parent, ::geteuid());
    if (!make_dir(path)) continue;
    URMA_LOG(DEBUG, "the runtime directory is {}: URMA_RUNTIME_DIR is not set, XDG_RUNTIME_DIR {}",
             path, why);
    return path;
  }
  fail(URMA_FAIL, "no runtime directory can be made in /run or /tmp: set URMA_RUNTIME_DIR");
}

// One step of splitmix64.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// 64 bits derived from the 128 of the machine id, which must not be disclosed.
uint64_t machine_number() {
  const auto id = read_small_file(AT_FDCWD, "/etc/machine-id");
  if (!id || id->size() < 32) return random_number();
  uint64_t number = 0;
  for (const char c : id->substr(0, 32)) number = mix(number ^ static_cast<uint8_t>(c));
  return number;
}

std::string make_eid_text() {
  std::string text;
  uint64_t number = machine_number();
  for (size_t i = 0; i < kOwnEids; ++i) {
    number = mix(number);
    const urma_eid_t eid = directory_eid(number);
    char line[INET6_ADDRSTRLEN];
    ::inet_ntop(AF_INET6, eid.raw, line, sizeof line);
    text += line;
    text += '\n';
  }
  return text;
}

bool has_eid(const std::vector<urma_eid_t>& eids, const urma_eid_t& eid) {
  return std::any_of(eids.begin(), eids.end(), [&](const urma_eid_t& other) {
    return std::memcmp(&other, &eid, sizeof eid) == 0;
  });
}

// The EID of aggregated devices is derived from the last one, so that all processes get the same.
urma_eid_t aggregated_eid(const std::vector<urma_eid_t>& eids) {
  uint64_t number;
  std::memcpy(&number, eids.back().raw + 8, sizeof number);
  urma_eid_t eid;
  do {
    number = mix(number);
    eid = directory_eid(number);
  } while (has_eid(eids, eid));
  return eid;
}

std::vector<urma_eid_t> parse_eids(std::string_view text, const std::string& path) {
  const auto damaged = [&](const char* how) {
    fail(URMA_FAIL, "{} {}: remove it while no program that uses URMA runs", path, how);
  };
  std::vector<urma_eid_t> eids;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) damaged("ends in the middle of a line");
    urma_eid_t eid;
    if (::inet_pton(AF_INET6, std::string(text.substr(0, end)).c_str(), eid.raw) != 1) {
      damaged("has a line that is not an IPv6 address");
    }
    if (is_zero(eid.raw) || has_eid(eids, eid)) {
      damaged("has an address that is zero or listed twice");
    }
    eids.push_back(eid);
    text.remove_prefix(end + 1);
  }
  if (eids.size() < kOwnEids || eids.size() > URMA_MAX_EID_CNT) {
    damaged("has too few or too many lines");
  }
  return eids;
}

bool has_prefix(std::string_view name, std::string_view prefix) {
  return name.substr(0, prefix.size()) == prefix;
}

bool is_reservation(std::string_view name) {
  return has_prefix(name, "uasid-") || has_prefix(name, kTemporaryPrefix) ||
         has_prefix(name, "ur-");
}

// The result of one listing of the directory.
struct Listing {
  std::set<uint32_t> slots;
  std::multimap<uint32_t, std::string> entries;  // of a slot, such as sockets
  std::vector<std::string> reservations;
};

Listing list(int dir) {
  Listing listing;
  for (auto& name : list_names(dir)) {
    if (const auto slot = parse_slot_name(name)) {
      listing.slots.insert(*slot);
    } else if (is_reservation(name)) {
      listing.reservations.push_back(std::move(name));
    } else if (const auto owner = parse_decimal(name.substr(0, name.find('.')), kMaxSlot)) {
      listing.entries.emplace(*owner, std::move(name));
    }
  }
  return listing;
}

// Whether it is a temporary file of a living process. It may not be locked yet, and many processes
// that clean up would keep its owner from ever locking it.
bool is_being_made(int dir, std::string_view name) {
  if (!has_prefix(name, kTemporaryPrefix)) return false;
  name.remove_prefix(kTemporaryPrefix.size());
  const auto slot = parse_decimal(name.substr(0, name.find('-')), kMaxSlot);
  return slot && is_held(dir, slot_name(*slot));
}

void remove_entries(int dir, const Listing& listing, uint32_t slot) {
  const auto [first, last] = listing.entries.equal_range(slot);
  for (auto entry = first; entry != last; ++entry) {
    if (::unlinkat(dir, entry->second.c_str(), 0) == 0 || errno != EISDIR) continue;
    // Device files that a killed process was removing.
    std::error_code ignored;
    std::filesystem::remove_all(urma::format("/proc/self/fd/{}/{}", dir, entry->second), ignored);
  }
}

// False if the slot is, or seems, in use.
bool sweep_slot(int dir, const Listing& listing, uint32_t slot) {
  const auto name = slot_name(slot);
  const auto lock = lock_abandoned(dir, name);
  if (!lock) return ::faccessat(dir, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0;
  remove_entries(dir, listing, slot);
  ::unlinkat(dir, name.c_str(), 0);
  return true;
}

std::set<uint32_t> sweep(int dir, const Listing& listing, const std::set<uint32_t>& slots) {
  std::set<uint32_t> in_use;
  for (const uint32_t slot : slots) {
    if (!sweep_slot(dir, listing, slot)) in_use.insert(slot);
  }
  for (const auto& name : listing.reservations) {
    if (!is_being_made(dir, name)) remove_if_abandoned(dir, name);
  }
  return in_use;
}

// A directory for several users belongs to a group, and so does everything made in it.
constexpr mode_t kOwnMode = 0700;
constexpr mode_t kGroupMode = 02770;

// `shared`: it may be meant for several users.
void check_runtime_dir(const RuntimeDir& dir, const PeerUsers& peers, bool shared) {
  struct stat info;
  if (::fstat(dir.fd.get(), &info) != 0) {
    fail_errno(URMA_FAIL, urma::format("examining {}", dir.path));
  }
  if (info.st_uid != ::geteuid() && !(shared && peers.contains(info.st_uid))) {
    fail(URMA_FAIL,
         "runtime directory {} belongs to user {}, not to {}: remove it, or set "
         "URMA_RUNTIME_DIR to another path",
         dir.path, info.st_uid, ::geteuid());
  }
  const mode_t mode = info.st_mode & 07777;
  if ((mode & 0777) == kOwnMode || (shared && mode == kGroupMode)) return;
  if (shared) {
    fail(URMA_FAIL,
         "runtime directory {} has mode {:04o}, not {:04o} for several users: give it a group that "
         "all of them are in, and run \"chmod {:04o} {}\"",
         dir.path, mode, kGroupMode, kGroupMode, dir.path);
  }
  fail(URMA_FAIL, "runtime directory {} has mode {:04o}, not 0700: run \"chmod 0700 {}\"", dir.path,
       mode, dir.path);
}

}  // namespace

RuntimeDir open_runtime_dir(const Settings& settings, const PeerUsers& peers) {
  RuntimeDir dir;
  dir.path = choose_path(settings);
  Fd fd(::open(dir.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() && (errno == ELOOP || errno == ENOTDIR)) {
    fail(URMA_FAIL,
         "runtime directory {} is a symbolic link or no directory: remove it, or set "
         "URMA_RUNTIME_DIR to another path",
         dir.path);
  }
  dir.fd = checked_fd(fd.release(), urma::format("opening the runtime directory {}", dir.path));
  // A directory that no setting names may have been made by any user.
  check_runtime_dir(dir, peers, peers.wide() && !settings.text("URMA_RUNTIME_DIR").empty());
  // systemd-tmpfiles keeps everything below a locked directory, however old. If locks are refused,
  // this fails before anything is made.
  try_flock(dir.fd.get(), LOCK_SH, dir.path);
  return dir;
}

std::vector<urma_eid_t> load_eid_table(const RuntimeDir& dir, const std::string& temporary_name) {
  auto text = read_small_file(dir.fd.get(), kEidFile);
  if (!text) {
    // Only one link succeeds; the other processes read that file.
    LockedFile(dir.fd.get(), temporary_name, make_eid_text()).link_as(kEidFile);
    text = read_small_file(dir.fd.get(), kEidFile);
  }
  const auto path = urma::format("{}/{}", dir.path, kEidFile);
  if (!text) fail_no_fd(urma::format("reading {}", path));
  auto eids = parse_eids(*text, path);
  eids.push_back(aggregated_eid(eids));
  return eids;
}

std::string slot_name(uint32_t slot) { return urma::format("{}{}", kSlotPrefix, slot); }

std::optional<uint32_t> parse_decimal(std::string_view text, uint32_t max) {
  uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value == 0 || value > max || text.front() == '0') {
    return std::nullopt;
  }
  return value;
}

std::optional<uint32_t> parse_slot_name(std::string_view name) {
  if (!has_prefix(name, kSlotPrefix)) return std::nullopt;
  return parse_decimal(name.substr(kSlotPrefix.size()), kMaxSlot);
}

void remove_entries(int dir, uint32_t slot) { remove_entries(dir, list(dir), slot); }

std::set<uint32_t> sweep_slots(int dir, const std::set<uint32_t>& slots) {
  return sweep(dir, list(dir), slots);
}

void sweep_all(int dir) {
  const Listing listing = list(dir);
  sweep(dir, listing, listing.slots);
}

uint64_t random_number() {
  uint64_t number = 0;
  // Fails only before the kernel has gathered randomness, right after boot.
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) != sizeof number) {
    number = mix(monotonic_ns() ^ (static_cast<uint64_t>(::getpid()) << 32));
  }
  return number;
}

}  // namespace urma::core
