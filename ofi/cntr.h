/* SPDX-License-Identifier: MIT */

// Counters of completions.

#ifndef OFI_CNTR_H
#define OFI_CNTR_H

#include <rdma/fi_eq.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "ofi/fid.h"

namespace urma_fi {

class Cq;
class Domain;

class Cntr final : public fid_cntr {
 public:
  static int open(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context);

  // Called with each completed request. Release pairs with the acquire of value and errors.
  void count(int error) { (error == 0 ? value_ : errors_).fetch_add(1, std::memory_order_release); }

  // Counts the completions at `cq`.
  void follow(Cq* cq);
  void leave(Cq* cq);

  Needed users;

 private:
  explicit Cntr(Domain* domain) : domain_(domain) {}
  void progress();
  // Acquire pairs with the release of count: the effects of counted requests are visible.
  uint64_t value() const { return value_.load(std::memory_order_acquire); }
  uint64_t errors() const { return errors_.load(std::memory_order_acquire); }

  static Cntr* of(fid_cntr* cntr) { return static_cast<Cntr*>(cntr); }
  static int close(fid_t head);
  static uint64_t read(fid_cntr* cntr);
  static uint64_t read_errors(fid_cntr* cntr);
  static int add(fid_cntr* cntr, uint64_t value);
  static int set(fid_cntr* cntr, uint64_t value);
  static int wait(fid_cntr* cntr, uint64_t threshold, int timeout);
  static int add_errors(fid_cntr* cntr, uint64_t value);
  static int set_errors(fid_cntr* cntr, uint64_t value);

  static fi_ops fid_ops_;
  static fi_ops_cntr cntr_ops_;

  Domain* domain_;
  // Readers use the data of counted requests; set and add have no data.
  std::atomic<uint64_t> value_{0};
  std::atomic<uint64_t> errors_{0};
  std::mutex mutex_;  // guards queues_
  std::vector<Cq*> queues_;
};

}  // namespace urma_fi

#endif  // OFI_CNTR_H
