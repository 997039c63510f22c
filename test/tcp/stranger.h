// SPDX-License-Identifier: MIT
//
// A process that speaks the protocol of connections by hand, rightly or wrongly.
#ifndef TEST_TCP_STRANGER_H_
#define TEST_TCP_STRANGER_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "jetty/remote.h"
#include "test/process/endpoint.h"
#include "test/tcp/streams.h"
#include "urma/base/runtime.h"
#include "urma/providers/tcp/messages.h"

namespace urma::tcp {

// Which ports a process that has an id may listen at.
inline constexpr uint16_t kFirstPort = 20000;
inline constexpr uint32_t kPorts = 8192;
inline constexpr uint32_t kBlock = 16;

template <typename Body>
std::string frame(const Body& body, std::string payload = "") {
  const uint32_t size = shape<Body>().body;
  const Head head = {static_cast<uint32_t>(size + payload.size()), Body::kKind, {}};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof(head));
  bytes.append(reinterpret_cast<const char*>(&body), size);
  return bytes + payload;
}

inline std::string head_of(uint32_t bytes, uint8_t kind) {
  const Head head = {bytes, static_cast<FrameKind>(kind), {}};
  return {reinterpret_cast<const char*>(&head), sizeof(head)};
}

template <typename Body>
Body receive_body(Stream& stream) {
  Head head = {};
  const std::string bytes = receive(stream, sizeof(head) + sizeof(Body));
  Body body = {};
  if (bytes.size() < sizeof(head) + sizeof(Body)) return body;
  std::memcpy(&head, bytes.data(), sizeof(head));
  EXPECT_EQ(head.kind, Body::kKind);
  std::memcpy(&body, bytes.data() + sizeof(head), sizeof(body));
  return body;
}

template <typename Body>
void expect_frame(Stream& stream) {
  const std::string expected = frame(Body{});
  EXPECT_EQ(receive(stream, expected.size()), expected);
}

// Answers that it is not the owner, and returns the id.
inline uint32_t refuse(Stream& stream) {
  const auto asked = receive_body<FindBody>(stream);
  AnswerBody answer = {};
  answer.ticket = asked.ticket;
  answer.answer = static_cast<uint32_t>(urma::Answer::kNoSuchObject);
  send_all(stream, frame(answer));
  return asked.id;
}

// How numbers of processes begin: of two streams that two processes start to each other at once,
// that of the greater one stays.
inline constexpr uint8_t kLeast = 0x00, kGreatest = 0xff;  // than almost any

inline std::unique_ptr<Carrier> carrier_numbered(uint8_t first, const urma_eid_t& eid) {
  for (;;) {
    auto carrier = make_socket_carrier(config_at({eid}));
    if (carrier->process()[0] == first) return carrier;
  }
}

inline std::unique_ptr<Stream> next_open(Carrier& carrier) {
  auto stream = next_stream(carrier);
  std::string why;
  EXPECT_EQ(finish_greeting(*stream, &why), StreamState::kOpen) << why;
  return stream;
}

// Connections to the process that serves a queue.
class Stranger {
 public:
  explicit Stranger(const urma_test::QueueId& victim, const char* address = "127.0.0.1")
      : victim_(victim), address_(eid(address)) {
    carrier_ = make_socket_carrier(config_at({address_}));
    for (uint32_t i = 0; i < 8 && port_ == 0; ++i) {
      const uint32_t first = victim.id / kBlock * kBlock;
      port_ = static_cast<uint16_t>(kFirstPort + (first + 977 * i) % kPorts);
      if (!serves()) port_ = 0;
    }
    EXPECT_NE(port_, 0);
  }

  // A stream that has not greeted yet.
  std::unique_ptr<Stream> begin() {
    std::string why;
    auto stream = carrier_->connect(address_, {victim_.eid, port_}, &why);
    EXPECT_NE(stream, nullptr) << why;
    return stream;
  }
  std::unique_ptr<Stream> connect() {
    std::string why;
    auto stream = begin();
    if (finish_greeting(*stream, &why) != StreamState::kOpen) return nullptr;
    return stream;
  }
  const urma_test::QueueId& victim() const { return victim_; }

 private:
  bool serves() {
    const auto stream = connect();
    if (stream == nullptr) return false;
    const urma::IdKind kind = victim_.jetty ? urma::IdKind::kJetty : urma::IdKind::kJfr;
    send_all(*stream, frame(FindBody{7, static_cast<uint32_t>(kind), victim_.id, 0, victim_.eid}));
    const auto answer = receive_body<AnswerBody>(*stream);
    return answer.ticket == 7 && answer.answer == 0;
  }

  const urma_test::QueueId victim_;
  const urma_eid_t address_;
  std::unique_ptr<Carrier> carrier_;
  uint16_t port_ = 0;
};

inline OpenWayBody way_to(const urma_test::QueueId& victim, uint32_t way) {
  OpenWayBody open = {};
  open.way = way;
  open.target = {victim.eid, victim.id, victim.jetty ? URMA_JETTY : URMA_JFR, URMA_TM_RM, 0};
  open.sender_eid = victim.eid;
  open.sender_id = 9;
  return open;
}

}  // namespace urma::tcp

#endif  // TEST_TCP_STRANGER_H_
