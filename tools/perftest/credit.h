// SPDX-License-Identifier: MIT
//
// --enable_credit: a receiver writes how many messages it has taken into a word of the sender's
// memory, so that the sender never has more in flight than there are receives.
#ifndef TOOLS_PERFTEST_CREDIT_H_
#define TOOLS_PERFTEST_CREDIT_H_

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tools/perftest/session.h"

namespace perftest {

// The sender's half.
class CreditTaken {
 public:
  explicit CreditTaken(const Session& session);

  // How many more requests a lane may post, after `posted` in this round.
  uint64_t room(uint32_t lane, uint64_t posted) const;
  // Ends the round; the next one counts from 0 again.
  void end_round(uint32_t lane, uint64_t posted) { before_[lane] += posted; }

 private:
  std::vector<volatile uint64_t*> words_;  // the peers write here what they have taken
  const uint32_t threshold_;
  std::vector<uint64_t> before_;  // posted in earlier rounds
};

// The receiver's half.
class CreditGiven {
 public:
  explicit CreditGiven(Session& session);

  // Counts an arrival, and notifies the sender when it is time.
  void count(const urma_cr_t& record);
  // A notice was delivered.
  void delivered() { under_way_--; }
  void take_completions();

 private:
  static constexpr uint32_t kMostUnderWay = 16;  // room for notices in the queues

  uint32_t lane_of(const urma_cr_t& record) const;
  void notify(uint32_t lane);

  Session& session_;
  std::unordered_map<uint32_t, uint32_t> lane_by_peer_;
  std::vector<uint64_t> taken_;
  std::vector<uint64_t> told_;
  uint32_t under_way_ = 0;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_CREDIT_H_
