// SPDX-License-Identifier: MIT
//
// Carriers of this process, and the events of their streams.
#ifndef TEST_TCP_STREAMS_H_
#define TEST_TCP_STREAMS_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "urma/providers/tcp/address.h"
#include "urma/providers/tcp/carrier.h"

namespace urma::tcp {

inline urma_eid_t eid(const char* text) {
  urma_eid_t found = {};
  in_addr ipv4;
  if (::inet_pton(AF_INET, text, &ipv4) == 1) return mapped(ipv4);
  ::inet_pton(AF_INET6, text, found.raw);
  return found;
}

// Long enough for any machine; only failures take that long.
inline constexpr uint64_t kPatienceMs = 60'000;

inline CarrierConfig config_at(std::vector<urma_eid_t> addresses) {
  CarrierConfig config;
  config.addresses = std::move(addresses);
  config.timeout_ms = kPatienceMs;
  return config;
}

inline void wait_for(int fd, int16_t events) {
  pollfd waited = {fd, events, 0};
  ASSERT_EQ(::poll(&waited, 1, kPatienceMs), 1);
}

inline std::unique_ptr<Stream> next_stream(Carrier& carrier) {
  for (;;) {
    auto stream = carrier.accept();
    if (stream != nullptr) return stream;
    wait_for(carrier.fd(), POLLIN);
  }
}

// Until the greeting is over.
inline StreamState finish_greeting(Stream& stream, std::string* why) {
  for (;;) {
    const StreamState state = stream.progress(why);
    if (state != StreamState::kGreeting) return state;
    wait_for(stream.fd(), static_cast<int16_t>(POLLIN | (stream.wants_room() ? POLLOUT : 0)));
  }
}

struct Greeted {
  StreamState begins, answers;
  std::string begins_why, answers_why;
  bool begins_met, answers_met;  // a peer, each by what the other has said
};

inline Greeted greet(Stream& begins, Stream& answers) {
  Greeted greeted = {};
  do {
    pollfd both[] = {
        {begins.fd(), static_cast<int16_t>(POLLIN | (begins.wants_room() ? POLLOUT : 0)), 0},
        {answers.fd(), static_cast<int16_t>(POLLIN | (answers.wants_room() ? POLLOUT : 0)), 0}};
    ::poll(both, 2, 1);
    greeted.begins = begins.progress(&greeted.begins_why);
    greeted.answers = answers.progress(&greeted.answers_why);
  } while (greeted.begins == StreamState::kGreeting || greeted.answers == StreamState::kGreeting);
  greeted.begins_met = begins.met_peer();
  greeted.answers_met = answers.met_peer();
  return greeted;
}

// Both ends of an open stream.
struct Ends {
  std::unique_ptr<Stream> begins, answers;
};

inline Ends join(Carrier& from, const urma_eid_t& at, Carrier& to, const Address& there) {
  std::string why;
  Ends ends;
  ends.begins = from.connect(at, there, &why);
  EXPECT_NE(ends.begins, nullptr) << why;
  ends.answers = next_stream(to);
  const Greeted greeted = greet(*ends.begins, *ends.answers);
  EXPECT_EQ(greeted.begins, StreamState::kOpen) << greeted.begins_why;
  EXPECT_EQ(greeted.answers, StreamState::kOpen) << greeted.answers_why;
  return ends;
}

inline Ends join(Carrier& from, const urma_eid_t& at, Carrier& to, const urma_eid_t& eid) {
  return join(from, at, to, Address{eid, to.port()});
}

// Fails if the stream ends before.
inline void send_all(Stream& stream, std::string_view bytes) {
  std::string why;
  while (!bytes.empty()) {
    const iovec piece = {const_cast<char*>(bytes.data()), bytes.size()};
    const size_t sent = stream.send({&piece, 1});
    bytes.remove_prefix(sent);
    if (sent == 0 && stream.progress(&why) == StreamState::kLost) FAIL() << why;
  }
}

inline std::string receive(Stream& stream, size_t bytes) {
  std::string got(bytes, '\0');
  size_t have = 0;
  std::string why;
  while (have < bytes && stream.progress(&why) == StreamState::kOpen) {
    const iovec piece = {got.data() + have, bytes - have};
    have += stream.receive({&piece, 1});
  }
  got.resize(have);
  return got;
}

// Receives until the stream has ended, and returns why it has.
inline std::string wait_for_end(Stream& stream) {
  std::string why;
  char byte;
  const iovec piece = {&byte, 1};
  while (stream.progress(&why) != StreamState::kLost) {
    if (stream.receive({&piece, 1}) == 0 && stream.progress(&why) != StreamState::kLost) {
      wait_for(stream.fd(), POLLIN);
    }
  }
  return why;
}

}  // namespace urma::tcp

#endif  // TEST_TCP_STREAMS_H_
