// SPDX-License-Identifier: MIT
#include "tools/bench/process.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>
#include <vector>

#include "tools/bench/measure.h"
#include "tools/bench/timing.h"

namespace bench {
namespace {

constexpr double kLimitNs = 60e9;  // for one measurement
constexpr size_t kMaxValues = 8;

int g_other_core = -1;

// How a process reports its result to the one that started it.
struct Verdict {
  enum Kind { kDone, kFailed, kPeerGone } kind;
  size_t count;
  double values[kMaxValues];
  char text[256];
};

Verdict verdict(Verdict::Kind kind, const std::string& text) {
  Verdict verdict = {};
  verdict.kind = kind;
  verdict.text[text.copy(verdict.text, sizeof(verdict.text) - 1)] = '\0';
  return verdict;
}

Verdict judge(const Outcome& outcome) {
  require(outcome.values.size() <= kMaxValues, "a measurement has more figures than fit");
  Verdict done = verdict(Verdict::kDone, outcome.note);
  done.count = outcome.values.size();
  std::copy(outcome.values.begin(), outcome.values.end(), done.values);
  return done;
}

template <typename Body>
Verdict attempt(Body&& body) {
  try {
    return judge(body());
  } catch (const PeerGone& gone) {
    return verdict(Verdict::kPeerGone, gone.what());
  } catch (const std::exception& error) {
    return verdict(Verdict::kFailed, error.what());
  }
}

// A started process, and the channel for its verdict.
class Child {
 public:
  // Ends with the calling process, even if that is killed.
  template <typename Body>
  Child(Cores cores, Body&& body) : Child(Channel::pair(), cores, std::forward<Body>(body)) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  int fd() const { return channel_.fd(); }

  // Its verdict, once fd() is readable.
  Verdict receive() {
    try {
      return channel_.receive<Verdict>();
    } catch (const PeerGone&) {
      return verdict(Verdict::kFailed, "a process of the measurement was killed");
    }
  }

 private:
  template <typename Body>
  Child(std::pair<Channel, Channel> ends, Cores cores, Body&& body)
      : channel_(std::move(ends.first)) {
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) fail_errno("fork");
    if (pid_ > 0) return;
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(1);
    channel_.reset();
    ends.second.send(attempt([&] {
      g_other_core = cores.second;
      pin(cores.first);
      return body();
    }));
    ::_exit(0);  // without the destructors of what belongs to the parent
  }

  Channel channel_;
  pid_t pid_;
};

// Waits for every child. Returns the first one's report, or a failure that explains all others.
Verdict collect(std::vector<Child*> children) {
  const Child* const reporter = children.front();
  std::optional<Verdict> done, gone;
  const double deadline = now_ns() + kLimitNs;
  while (!children.empty()) {
    std::vector<pollfd> entries;
    entries.reserve(children.size());
    for (const Child* child : children) entries.push_back({child->fd(), POLLIN, 0});
    const double left_ms = (deadline - now_ns()) / 1e6;
    const int n = ::poll(entries.data(), entries.size(), std::max(0, static_cast<int>(left_ms)));
    if (n < 0 && errno == EINTR) continue;
    require(n > 0, "it took more than a minute");
    for (size_t i = entries.size(); i-- > 0;) {
      if (entries[i].revents == 0) continue;
      const Verdict verdict = children[i]->receive();
      if (verdict.kind == Verdict::kFailed) return verdict;
      if (verdict.kind == Verdict::kPeerGone) gone = verdict;
      if (children[i] == reporter) done = verdict;
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return gone ? *gone : *done;
}

// The sibling threads of `core`, as the kernel lists them.
std::string siblings(int core) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(core) +
                     "/topology/thread_siblings_list");
  std::string list;
  std::getline(file, list);
  return list;
}

}  // namespace

void fail_errno(const std::string& what) {
  throw Failure(what + ": " + std::generic_category().message(errno));
}

std::pair<Channel, Channel> Channel::pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) fail_errno("socketpair");
  return {Channel(fds[0]), Channel(fds[1])};
}

void Channel::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Channel::send_bytes(const void* data, size_t size) {
  if (::send(fd_, data, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) {
    throw PeerGone("the other process has ended");
  }
}

void Channel::receive_bytes(void* data, size_t size) {
  ssize_t n;
  do {
    n = ::recv(fd_, data, size, 0);
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(size)) throw PeerGone("the other process has ended");
}

Cores pick_cores() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) fail_errno("sched_getaffinity");
  Cores cores = {-1, -1};
  for (int core = 0; core < CPU_SETSIZE; core++) {
    if (!CPU_ISSET(core, &allowed)) continue;
    if (cores.first < 0) {
      cores.first = core;
    } else if (cores.second < 0 || siblings(core) != siblings(cores.first)) {
      cores.second = core;
      if (siblings(core) != siblings(cores.first)) break;
    }
  }
  require(cores.second >= 0, "this process may use one core only; two are needed");
  return cores;
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0) {
    fail_errno("sched_setaffinity to core " + std::to_string(core));
  }
}

int other_core() { return g_other_core; }

Outcome run(const Measure& measure, Cores cores) {
  std::optional<Child> first, second;
  std::vector<Child*> children;
  {
    auto [one, other] = Channel::pair();
    first.emplace(cores, [&measure, &one = one, &other = other] {
      other.reset();
      return measure.first(one);
    });
    children.push_back(&*first);
    if (measure.second) {
      second.emplace(Cores{cores.second, cores.first}, [&measure, &one = one, &other = other] {
        one.reset();
        measure.second(other);
        return Outcome{};
      });
      children.push_back(&*second);
    }
  }
  const Verdict verdict = collect(std::move(children));
  if (verdict.kind != Verdict::kDone) throw Failure(verdict.text);
  return {{verdict.values, verdict.values + verdict.count}, verdict.text};
}

}  // namespace bench
