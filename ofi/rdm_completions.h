/* SPDX-License-Identifier: MIT */

// Completions that endpoints for datagrams have made, until the program reads them.

#ifndef OFI_RDM_COMPLETIONS_H
#define OFI_RDM_COMPLETIONS_H

#include <rdma/fi_eq.h>

#include <cstring>
#include <deque>
#include <vector>

namespace urma_fi {

// Guarded by the lock of the domain.
class Completions {
 public:
  void push(const fi_cq_tagged_entry& entry, fi_addr_t source) {
    if (pushed_ - taken_ == ring_.size()) grow();
    ring_[pushed_++ & (ring_.size() - 1)] = {entry, source};
  }

  void push_error(const fi_cq_err_entry& entry) { errors_.push_back(entry); }

  bool empty() const { return pushed_ == taken_ && errors_.empty(); }

  // Writes up to `count` completions, `size` bytes each. Returns their number; -FI_EAVAIL if an
  // error waits, -FI_EAGAIN if nothing does.
  ssize_t take(char* buffer, size_t count, size_t size, fi_addr_t* sources) {
    if (!errors_.empty()) return -FI_EAVAIL;
    size_t given = 0;
    for (; given < count && taken_ != pushed_; given++) {
      const Done& done = ring_[taken_++ & (ring_.size() - 1)];
      std::memcpy(buffer + given * size, &done.entry, size);
      if (sources != nullptr) sources[given] = done.source;
    }
    return given == 0 ? -FI_EAGAIN : static_cast<ssize_t>(given);
  }

  bool take_error(fi_cq_err_entry* entry) {
    if (errors_.empty()) return false;
    *entry = errors_.front();
    errors_.pop_front();
    return true;
  }

 private:
  struct Done {
    fi_cq_tagged_entry entry;
    fi_addr_t source;
  };

  void grow() {
    std::vector<Done> larger(ring_.size() * 2);
    for (uint64_t i = taken_; i != pushed_; i++)
      larger[i & (larger.size() - 1)] = ring_[i & (ring_.size() - 1)];
    ring_ = std::move(larger);
  }

  std::vector<Done> ring_ = std::vector<Done>(64);  // a power of two
  uint64_t pushed_ = 0;
  uint64_t taken_ = 0;
  std::deque<fi_cq_err_entry> errors_;
};

}  // namespace urma_fi

#endif  // OFI_RDM_COMPLETIONS_H
