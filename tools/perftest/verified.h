// SPDX-License-Identifier: MIT
//
// --verify for tests of bandwidth: rounds of messages; none is overwritten before the receiving
// side has checked each byte.
#ifndef TOOLS_PERFTEST_VERIFIED_H_
#define TOOLS_PERFTEST_VERIFIED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/perftest/receiver.h"
#include "tools/perftest/requests.h"
#include "tools/perftest/session.h"

namespace perftest {

// Throws a RunError unless the 8 bytes at `memory` hold `expected`.
void check_counter(const uint8_t* memory, uint64_t expected, const std::string& what);

// After a test of atomics: tells the peers how often this side counted in their memory, and checks
// how often they counted in ours.
void swap_counter(Session& session, uint64_t steps);

class VerifiedTest {
 public:
  explicit VerifiedTest(Session& session);

  // Moves messages of one size, checks them, and returns figures, which include the checks.
  Row run(uint32_t size);

 private:
  struct Stream {
    std::unique_ptr<Requests> requests;
    uint64_t sent = 0;      // messages of earlier rounds
    uint64_t arrived = 0;   // the same, of the peer
    uint64_t expected = 0;  // the peer's messages in this round
    uint64_t next = 0;      // the next of them to arrive
    uint32_t under_way = 0;
  };

  // Messages of a lane that this side reports: those sent, or else those received.
  uint64_t counted() const { return session_.active() ? streams_[0].sent : streams_[0].arrived; }
  uint64_t messages_of_round(uint64_t deadline) const;
  void offer_reads();
  bool swap_round(uint64_t mine);
  void swap_done();
  template <typename Post>
  void post_round(uint64_t count);
  void fill(Stream& stream, uint32_t lane, uint32_t slot);
  void await_round();
  void take_late();
  bool take_sent();
  bool take_arrived();
  void check_message(const urma_cr_t& record);
  void post_receives();
  void post_receive(uint32_t queue, uint32_t slot);
  void check_landed(uint64_t mine);
  void check_brought(uint32_t lane, uint64_t mine);
  uint32_t size_of(uint64_t sequence) const;
  uint32_t lane_of_queue(uint32_t queue) const;
  uint64_t still_to_come() const;

  Session& session_;
  uint32_t size_ = 0;
  const uint32_t slots_;
  std::vector<Stream> streams_;
  bool receives_posted_ = false;
  uint64_t lost_ = 0;
  bool stopped_ = false;  // by one of the users
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_VERIFIED_H_
