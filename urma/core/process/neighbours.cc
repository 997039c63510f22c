// SPDX-License-Identifier: MIT
#include "urma/core/process/neighbours.h"

#include <poll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/text.h"
#include "urma/core/process/files.h"
#include "urma/core/process/runtime_dir.h"

namespace urma::core {
namespace {

constexpr uint64_t kPatienceNs = 1'000'000'000;
constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr uint64_t kNsPerMs = 1'000'000;
// Between two attempts to connect to a process whose queue of connections is full.
constexpr timespec kBetweenTries{0, 1'000'000};
// Index of the start time (ticks since boot) among the numbers behind the name in /proc/PID/stat.
constexpr int kStartField = 19;

struct Neighbour {
  uint32_t slot;
  PeerCredentials peer;
  OwnFd socket;
};

uint64_t clock_ns(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

// Nothing if no process serves this slot before the deadline.
std::optional<Neighbour> connect_to_slot(const Runtime& runtime, uint32_t slot, uint64_t deadline) {
  Neighbour found = {slot, {}, OwnFd()};
  for (;;) {
    const auto name = runtime.socket_name(slot, kInspectName);
    const Connect connected = connect_to(runtime.dir_fd(), name.c_str(), &found.socket);
    if (connected == Connect::kDone) break;
    if (connected == Connect::kRefused || monotonic_ns() >= deadline) return std::nullopt;
    ::nanosleep(&kBetweenTries, nullptr);
  }
  MessageSocket connection(std::move(found.socket));
  found.peer = connection.credentials();
  found.socket = connection.release();
  // A process of another pid namespace has no pid here.
  if (found.peer.uid != ::geteuid() || found.peer.pid <= 0) return std::nullopt;
  return found;
}

std::vector<uint32_t> slots_in_use(const Runtime& runtime) {
  std::vector<uint32_t> slots;
  for (const auto& name : list_names(runtime.dir_fd())) {
    const auto slot = parse_slot_name(name);
    if (slot && *slot != runtime.slot() && is_held(runtime.dir_fd(), name)) slots.push_back(*slot);
  }
  return slots;
}

// Slot by slot, from the files that hold the uasids.
std::map<uint32_t, uint32_t> uasids(int dir) {
  constexpr std::string_view kPrefix = "uasid-";
  std::map<uint32_t, uint32_t> found;
  for (const auto& name : list_names(dir)) {
    if (name.rfind(kPrefix, 0) != 0) continue;
    uint32_t uasid = 0;
    const char* end = name.data() + name.size();
    if (std::from_chars(name.data() + kPrefix.size(), end, uasid, 16).ptr != end) continue;
    const auto text = read_small_file(dir, name);
    if (!text || text->empty() || text->back() != '\n') continue;
    const auto slot = parse_decimal(std::string_view{*text}.substr(0, text->size() - 1), kMaxSlot);
    if (slot) found[*slot] = uasid;
  }
  return found;
}

// Name and start time from the kernel.
void describe(pid_t pid, urma_ext_process_t* process) {
  const auto stat = read_small_file(AT_FDCWD, urma::format("/proc/{}/stat", pid));
  if (!stat) return;
  const size_t open = stat->find('('), close = stat->rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return;
  copy_text(process->program, std::string_view{*stat}.substr(open + 1, close - open - 1));
  size_t at = close + 1;
  for (int field = 0; field < kStartField && at != std::string::npos; ++field) {
    at = stat->find(' ', at + 1);
  }
  uint64_t ticks = 0;
  if (at == std::string::npos) return;
  std::from_chars(stat->data() + at + 1, stat->data() + stat->size(), ticks);
  const auto per_second = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  const uint64_t age = clock_ns(CLOCK_BOOTTIME) - ticks * (kNsPerSecond / per_second);
  process->start_time_ns = clock_ns(CLOCK_REALTIME) - age;
}

urma_ext_process_t describe(uint32_t slot, pid_t pid, const std::map<uint32_t, uint32_t>& known) {
  urma_ext_process_t process = {};
  process.pid = static_cast<uint32_t>(pid);
  process.uid = ::geteuid();
  process.slot = slot;
  const auto uasid = known.find(slot);
  if (uasid != known.end()) process.uasid = uasid->second;
  describe(pid, &process);
  return process;
}

Neighbour find(const Runtime& runtime, uint32_t pid, uint64_t deadline) {
  // A stopped process with a full queue of connections must not use up the time for the others.
  for (const uint64_t patience : {uint64_t{0}, deadline}) {
    for (const uint32_t slot : slots_in_use(runtime)) {
      auto neighbour = connect_to_slot(runtime, slot, patience);
      if (neighbour && static_cast<uint32_t>(neighbour->peer.pid) == pid) {
        return std::move(*neighbour);
      }
    }
  }
  fail(URMA_ENOPERM,
       "no process of user {} with pid {} uses the runtime directory {}; see "
       "urma_ext_list_processes",
       ::geteuid(), pid, runtime.path());
}

void wait_readable(int fd, uint32_t pid, uint64_t deadline) {
  for (;;) {
    const uint64_t now = monotonic_ns();
    if (now >= deadline) break;
    pollfd answer = {fd, POLLIN, 0};
    const auto left = static_cast<int>((deadline - now + kNsPerMs - 1) / kNsPerMs);
    if (::poll(&answer, 1, left) > 0) return;
  }
  fail(URMA_ETIMEOUT, "process {} does not answer; it may be stopped", pid);
}

// The content of a memfd that no process can change any more.
std::vector<char> read_sealed(const Fd& fd, uint64_t bytes, uint32_t pid) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  struct stat info;
  if (seals < 0 || (seals & kInspectSeals) != kInspectSeals || ::fstat(fd.get(), &info) != 0 ||
      static_cast<uint64_t>(info.st_size) != bytes) {
    fail(URMA_FAIL, "process {} answered with memory that is not sealed, or not of {} bytes", pid,
         bytes);
  }
  std::vector<char> content(bytes);
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(fd.get(), content.data() + done, bytes - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) fail_errno(URMA_FAIL, urma::format("reading the answer of process {}", pid));
    done += static_cast<uint64_t>(got);
  }
  return content;
}

std::vector<char> unpack(const InspectAnswer& answer, const Attached& fds, uint32_t pid,
                         Topic topic, uint32_t record_bytes) {
  if (answer.result == InspectResult::kNoResources) {
    fail(URMA_FAIL, "process {} has no memory or descriptors for an answer", pid);
  }
  if (answer.magic != kInspectMagic || answer.version != kInspectVersion ||
      answer.result != InspectResult::kDone || answer.topic != topic) {
    fail(URMA_FAIL, "process {} uses another version of the library", pid);
  }
  if (answer.count == 0 && fds.empty()) return {};
  const uint64_t bytes = uint64_t{answer.count} * record_bytes;
  if (answer.record_bytes != record_bytes || answer.count == 0 || fds.size() != 1 ||
      bytes > kMaxInspectBytes) {
    fail(URMA_FAIL, "process {} announced {} records of {} bytes with {} descriptors", pid,
         answer.count, answer.record_bytes, fds.size());
  }
  return read_sealed(fds[0], bytes, pid);
}

}  // namespace

std::vector<urma_ext_process_t> list_processes(const Runtime& runtime) {
  const uint64_t deadline = monotonic_ns() + kPatienceNs;
  const auto known = uasids(runtime.dir_fd());
  std::vector<urma_ext_process_t> processes = {describe(runtime.slot(), ::getpid(), known)};
  for (const uint32_t slot : slots_in_use(runtime)) {
    const auto neighbour = connect_to_slot(runtime, slot, deadline);
    if (neighbour) processes.push_back(describe(slot, neighbour->peer.pid, known));
  }
  std::sort(processes.begin(), processes.end(),
            [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return processes;
}

std::vector<char> ask_process(const Runtime& runtime, uint32_t pid, Topic topic,
                              uint32_t record_bytes) {
  const uint64_t deadline = monotonic_ns() + kPatienceNs;
  MessageSocket connection(std::move(find(runtime, pid, deadline).socket));
  const InspectRequest request = {kInspectMagic, kInspectVersion, topic, 0};
  connection.send(&request, sizeof(request));
  for (;;) {
    wait_readable(connection.fd(), pid, deadline);
    InspectAnswer answer;
    Attached fds;
    switch (connection.receive(&answer, sizeof(answer), &fds)) {
      case MessageSocket::Received::kMessage:
        return unpack(answer, fds, pid, topic, record_bytes);
      case MessageSocket::Received::kNothing:
        break;
      case MessageSocket::Received::kClosed:
        fail(URMA_FAIL, "process {} ended the connection without an answer", pid);
      case MessageSocket::Received::kMalformed:
        fail(URMA_FAIL, "process {} answered with a message of another size", pid);
    }
  }
}

}  // namespace urma::core
