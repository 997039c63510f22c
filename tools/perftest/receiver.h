// SPDX-License-Identifier: MIT
//
// Receives that are posted again as they are used up.
#ifndef TOOLS_PERFTEST_RECEIVER_H_
#define TOOLS_PERFTEST_RECEIVER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/perftest/credit.h"
#include "tools/perftest/session.h"

namespace perftest {

// --verify: throws a RunError unless the record matches the peer's test.
void check_record(const urma_cr_t& record, const Config& config, uint32_t size);

class Receiver {
 public:
  // All receives of a queue go to the same buffer.
  explicit Receiver(Session& session);
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  // Posts as many receives as the queues hold.
  void fill();

  // Takes arrived messages, and posts as many receives again, in lists. Returns their number.
  int take() {
    const int n = poll(kMost);
    if (n > 0) repost();
    return n;
  }
  // Its two halves; the second can wait.
  int poll(int most);
  void repost() {
    for (Queue& queue : queues_) post_lists(queue);
  }

  uint64_t received() const { return received_; }
  // Restarts the count, including messages beyond the first `counted`.
  void forget(uint64_t counted) { received_ -= counted; }
  // --verify: checks the record that poll(1) has taken.
  void check_last(uint32_t size) const;
  CreditGiven* credit() { return credit_.get(); }

 private:
  static constexpr int kMost = 32;

  struct Queue {
    urma_jetty_t* jetty;  // NULL with -b
    urma_jfr_t* jfr;
    std::vector<urma_sge_t> places;
    std::vector<urma_jfr_wr_t> list;
    uint32_t missing;  // receives that are used up
  };

  void post_lists(Queue& queue) const;
  void post(Queue& queue) const;
  void count_each(int n);

  Session& session_;
  std::vector<Queue> queues_;
  std::unique_ptr<CreditGiven> credit_;
  uint64_t received_ = 0;
  std::array<urma_cr_t, kMost> records_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_RECEIVER_H_
