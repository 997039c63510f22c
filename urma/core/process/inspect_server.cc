// SPDX-License-Identifier: MIT
#include "urma/core/process/inspect_server.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/core/process/perf.h"
#include "urma/core/process/snapshot.h"

namespace urma::core {
namespace {

constexpr size_t kMaxGuests = 8;
constexpr uint64_t kPatienceNs = 1'000'000'000;
constexpr int kAcceptsPerTurn = 16;
// How long to accept no connection when this process has no descriptor left.
constexpr uint64_t kPauseNs = 100'000'000;

// A copy that no process can change any more.
Fd sealed_copy(const void* data, size_t bytes) {
  Fd fd(::memfd_create("urma-inspect", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) fail_errno(URMA_ENOMEM, "making memory for an answer");
  const char* from = static_cast<const char*>(data);
  while (bytes != 0) {
    const ssize_t written = ::write(fd.get(), from, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_errno(URMA_ENOMEM, "writing an answer");
    from += written;
    bytes -= static_cast<size_t>(written);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kInspectSeals) != 0) {
    fail_errno(URMA_FAIL, "sealing an answer");
  }
  return fd;
}

template <typename Record>
Fd pack(std::span<const Record> records, InspectAnswer* answer) {
  answer->record_bytes = sizeof(Record);
  answer->count = static_cast<uint32_t>(records.size());
  if (records.size_bytes() > kMaxInspectBytes) {
    fail(URMA_ENOMEM, "{} records are too many for an answer", records.size());
  }
  return records.empty() ? Fd() : sealed_copy(records.data(), records.size_bytes());
}

template <typename Record>
Fd pack(const std::vector<Record>& records, InspectAnswer* answer) {
  return pack(std::span<const Record>(records), answer);
}

// Executes the request; returns the descriptor that goes with the answer, if any.
Fd look(Topic topic, InspectAnswer* answer) {
  switch (topic) {
    case Topic::kQueues:
      return pack(queues_now(), answer);
    case Topic::kSegments:
      return pack(segments_now(), answer);
    case Topic::kConnections:
      return pack(connections_now(), answer);
    case Topic::kSettings:
      return pack(settings_now(), answer);
    case Topic::kProviders:
      return pack(providers_now(), answer);
    case Topic::kPerfStart:
      perf::start();
      return Fd();
    case Topic::kPerfStop:
      perf::stop();
      return Fd();
    case Topic::kPerfShow: {
      const std::string table = perf::table();
      return pack(std::span<const char>(table), answer);
    }
  }
  answer->result = InspectResult::kOtherVersion;
  return Fd();
}

}  // namespace

InspectServer::InspectServer(Service& service, const Runtime& runtime)
    : service_(service),
      dir_(runtime.dir_fd()),
      name_(runtime.socket_name(runtime.slot(), kInspectName)),
      socket_(listen_at(dir_, name_.c_str())) {
  service_.watch(socket_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
}

InspectServer::~InspectServer() {
  service_.unwatch(socket_.get());
  if (resume_timer_ != 0) service_.cancel(resume_timer_);
  ::unlinkat(dir_, name_.c_str(), 0);
  while (!guests_.empty()) drop(guests_.begin());
}

void InspectServer::accept_some() {
  for (int turn = 0; turn < kAcceptsPerTurn; ++turn) {
    OwnFd accepted = OwnFd::accept(socket_.get());
    if (accepted.valid()) {
      admit(std::move(accepted));
    } else if (errno != ECONNABORTED && errno != EINTR) {
      if (errno != EAGAIN) pause();
      return;
    }
  }
}

void InspectServer::admit(OwnFd socket) {
  MessageSocket connection(std::move(socket));
  const PeerCredentials peer = connection.credentials();
  if (peer.uid != ::geteuid()) {
    URMA_LOG_LIMITED(WARNING,
                     "process {} of user {} may not inspect this one; only its own user may",
                     peer.pid, peer.uid);
    return;
  }
  // Usually the request has arrived already.
  const uint64_t number = ++last_number_;
  const int fd = connection.fd();
  const auto guest =
      guests_.emplace(number, Guest{std::move(connection), peer.pid, Service::TimerId{0}}).first;
  try {
    service_.watch(fd, EPOLLIN, [this, number](uint32_t) { serve(number); });
    guest->second.timer = service_.after(kPatienceNs, [this, number] {
      const auto silent = guests_.find(number);
      if (silent != guests_.end()) drop(silent);
    });
  } catch (...) {
    drop(guest);
    throw;
  }
  serve(number);
  if (guests_.size() > kMaxGuests) drop(least_entitled());
}

// The oldest guest of the process that has most of them: a process that keeps many connections open
// only shuts itself out.
InspectServer::Guests::iterator InspectServer::least_entitled() {
  const auto connections = [this](pid_t pid) {
    return std::count_if(guests_.begin(), guests_.end(),
                         [pid](const auto& guest) { return guest.second.pid == pid; });
  };
  return std::max_element(guests_.begin(), guests_.end(), [&](const auto& a, const auto& b) {
    return connections(a.second.pid) < connections(b.second.pid);
  });
}

void InspectServer::serve(uint64_t number) {
  const auto guest = guests_.find(number);
  if (guest == guests_.end()) return;
  MessageSocket& connection = guest->second.connection;
  InspectRequest request;
  Attached fds;
  const auto received = connection.receive(&request, sizeof(request), &fds);
  if (received == MessageSocket::Received::kNothing) return;
  if (received == MessageSocket::Received::kMessage && request.magic == kInspectMagic &&
      fds.empty()) {
    answer(&connection, request);
  } else if (received != MessageSocket::Received::kClosed) {
    URMA_LOG_LIMITED(WARNING, "process {} sent a malformed request; it is disconnected",
                     guest->second.pid);
  }
  drop(guest);
}

void InspectServer::answer(MessageSocket* connection, const InspectRequest& request) {
  InspectAnswer answer = {
      kInspectMagic, kInspectVersion, request.topic, InspectResult::kDone, 0, 0};
  Fd records;
  try {
    if (request.version == kInspectVersion) {
      records = look(request.topic, &answer);
    } else {
      answer.result = InspectResult::kOtherVersion;
    }
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "a tool gets no answer: {}", error.what());
    answer.result = InspectResult::kNoResources;
    answer.count = 0;
  }
  const int fd = records.get();
  // Sent once, without waiting: if there is no room, answer and connection are dropped.
  connection->send(&answer, sizeof(answer),
                   records.valid() ? std::span<const int>(&fd, 1) : std::span<const int>());
}

void InspectServer::drop(Guests::iterator guest) {
  service_.unwatch(guest->second.connection.fd());
  service_.cancel(guest->second.timer);
  guests_.erase(guest);
}

// The listener stays ready while nothing can be accepted; polling it at once would spin.
void InspectServer::pause() {
  service_.rewatch(socket_.get(), 0);
  resume_timer_ = service_.after(kPauseNs, [this] {
    resume_timer_ = 0;
    service_.rewatch(socket_.get(), EPOLLIN);
  });
}

}  // namespace urma::core
