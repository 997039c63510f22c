// SPDX-License-Identifier: MIT
//
// Handwritten peers that speak the protocol and break its rules.
#ifndef TEST_UNIT_RAW_PEER_H_
#define TEST_UNIT_RAW_PEER_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "test/unit/shm_harness.h"

namespace urma::shm {

// One end of a control connection.
class RawSocket {
 public:
  explicit RawSocket(OwnFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  // False if the other end takes no more, or is gone.
  bool send(const void* message, size_t bytes, const std::vector<int>& descriptors = {}) {
    iovec part = {const_cast<void*>(message), bytes};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
    if (!descriptors.empty()) {
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cmsghdr* attached = CMSG_FIRSTHDR(&header);
      attached->cmsg_level = SOL_SOCKET;
      attached->cmsg_type = SCM_RIGHTS;
      attached->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
      std::memcpy(CMSG_DATA(attached), descriptors.data(), descriptors.size() * sizeof(int));
    }
    return ::sendmsg(fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  }
  // Waits for a message, and closes the descriptors that come with it. False if the other end is
  // gone.
  bool receive(void* message, size_t bytes) {
    const auto something = [this] {
      pollfd watched = {fd(), POLLIN, 0};
      return ::poll(&watched, 1, 100) > 0;
    };
    if (!eventually(something)) throw std::runtime_error("nothing arrived in time");
    return ::recv(fd(), message, bytes, MSG_DONTWAIT) == static_cast<ssize_t>(bytes);
  }

 private:
  OwnFd socket_;
};

// A peer of an owner.
class RawPeer : public RawSocket {
 public:
  explicit RawPeer(Node& owner) : RawSocket(connected(owner)) {}

  // kUnreachable if the owner has closed the connection.
  Answer ask(const Request& request, const std::vector<int>& descriptors = {}) {
    Reply reply;
    if (!send(&request, sizeof(request), descriptors)) return Answer::kUnreachable;
    do {
      if (!receive(&reply, sizeof(reply))) return Answer::kUnreachable;
      // A notice that a grant ended answers no request.
    } while (reply.number == 0 && request.number != 0 && reply.answer == Answer::kNoSuchObject);
    return reply.answer;
  }
  static Request request(RequestType type) {
    Request request = {};
    request.type = type;
    request.number = 1;
    return request;
  }
  Answer greet() { return greet({region_.fd()}); }
  Answer greet(const std::vector<int>& descriptors) { return ask(greeting(), descriptors); }
  Answer greet_as(uint32_t version) {
    Request hello = greeting();
    hello.hello.version = version;
    return ask(hello, {region_.fd()});
  }
  // Without waiting for the answer.
  bool send_greeting() {
    const Request hello = greeting();
    return send(&hello, sizeof(hello), {region_.fd()});
  }
  Answer open_ring(const urma_jfr_t& target, uint32_t number, const RingProducer& ring,
                   WakeupOffer offer = {0, kNoBell, 0}, const std::vector<int>& wakeup = {},
                   urma_transport_mode_t mode = URMA_TM_RM) {
    Request open = request(RequestType::kOpenRing);
    open.open_ring.target_eid = target.jfr_id.eid;
    open.open_ring.target_id = target.jfr_id.id;
    open.open_ring.target_type = URMA_JFR;
    open.open_ring.trans_mode = mode;
    open.open_ring.sender = {target.jfr_id.eid, 1, kQueueId};
    open.open_ring.ring = number;
    open.open_ring.ring_bytes = ring.bytes();
    open.open_ring.rnr_retry = URMA_TYPICAL_RNR_RETRY;
    open.open_ring.sender_jfc = offer;
    std::vector<int> descriptors = {ring.memory().fd()};
    descriptors.insert(descriptors.end(), wakeup.begin(), wakeup.end());
    return ask(open, descriptors);
  }
  Answer import(const urma_target_seg_t& segment) {
    Request import = request(RequestType::kImportSegment);
    import.import_segment = {
        segment.seg.ubva.eid, segment.seg.ubva.va, segment.seg.len, segment.seg.token_id, 0, 0, 0};
    return ask(import);
  }
  bool close_ring(uint32_t number) {
    Request close = request(RequestType::kCloseRing);
    close.close_ring.ring = number;
    return send(&close, sizeof(close));
  }

 private:
  static constexpr uint32_t kQueueId = 7;

  static Request greeting() {
    Request hello = request(RequestType::kHello);
    hello.hello = {kProtocolMagic, kProtocolVersion, 1, core::kMaxSlot, 1, 0, 0};
    return hello;
  }

  SharedMemory region_ =
      SharedMemory::create("urma-segments", SegmentTable::kSharedBytes, PeerMay::kRead, 0);

  static OwnFd connected(Node& owner) {
    OwnFd socket;
    const auto connect = [&] {
      return connect_to(owner.runtime().dir_fd(), owner.socket_name().c_str(), &socket) ==
             Connect::kDone;
    };
    if (!eventually(connect)) throw std::runtime_error("the owner accepts no connection");
    return socket;
  }
};

// An owner of queues and segments that do not exist.
class RawOwner : public Host {
 public:
  // The next connection, with the greeting answered.
  RawSocket accept(const std::vector<int>& more_descriptors = {}) {
    OwnFd accepted;
    const auto accept_one = [&] {
      accepted = OwnFd::accept(listener_.get());
      return accepted.valid();
    };
    if (!eventually(accept_one)) throw std::runtime_error("no connection arrived");
    RawSocket peer(std::move(accepted));
    Request hello;
    EXPECT_TRUE(peer.receive(&hello, sizeof(hello)));
    Reply welcome = {};
    welcome.number = hello.number;
    std::vector<int> descriptors = {words_.fd()};
    descriptors.insert(descriptors.end(), more_descriptors.begin(), more_descriptors.end());
    EXPECT_TRUE(peer.send(&welcome, sizeof(welcome), descriptors));
    return peer;
  }
  urma_jfr_id_t queue() { return {runtime().eids()[0], runtime().uasid(), id_}; }
  urma_seg_t segment() {
    urma_seg_t segment = {};
    segment.ubva = {runtime().eids()[0], runtime().uasid(), 4096};
    segment.len = 4096;
    segment.token_id = token_id_;
    return segment;
  }
  // The generation at a place of its registrations.
  void set_word(uint32_t index, uint32_t generation) {
    static_cast<std::atomic<uint32_t>*>(words_.data())[index].store(generation);
  }

 private:
  const uint32_t id_ = runtime().alloc_id(IdKind::kJfr);
  const uint32_t token_id_ = runtime().alloc_id(IdKind::kToken);
  const OwnFd listener_ = listen_at(runtime().dir_fd(), socket_name().c_str());
  const SharedMemory words_ =
      SharedMemory::create("urma-segments", SegmentTable::kSharedBytes, PeerMay::kRead, 0);
};

}  // namespace urma::shm

#endif  // TEST_UNIT_RAW_PEER_H_
