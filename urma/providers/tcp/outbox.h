// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_TCP_OUTBOX_H_
#define URMA_PROVIDERS_TCP_OUTBOX_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "jetty/iovecs.h"

namespace urma::tcp {

// The bytes of a stream that have not left: copies, and payloads that still lie in the memory of
// their requests. Those have to be taken in before a request ends.
class Outbox {
 public:
  // Accesses belong to no way.
  static constexpr uint32_t kAccess = 0;
  struct Lender {
    uint32_t by;      // kAccess, or the number of the way
    uint64_t number;  // of the request, among all of this way, or all accesses
  };

  void add(std::span<const char> bytes) {
    copies_.insert(copies_.end(), bytes.begin(), bytes.end());
  }
  void lend(std::span<const iovec> pieces, const Lender& lender);
  // Copies what was lent.
  void take_in();
  // The same for the last payload alone, unless it has left; it was lent after all copies.
  void take_in_last();
  // Whether a payload of this request, or of one before, is lent.
  bool lent_until(const Lender& last) const;

  size_t bytes() const { return copies_.size() - begin_ + lent_bytes_; }
  // The first of them, as many as leave at once.
  IovecList next() const;
  // That many bytes of next() have left.
  void left(size_t bytes);
  // Allocates nothing.
  void clear();

 private:
  struct Lent {
    size_t at;  // follows that many of the copies
    Lender lender;
    std::vector<iovec> pieces;
    size_t first = 0;  // of those that have not left
  };

  void compact();

  std::vector<char> copies_;
  size_t begin_ = 0;  // of those that have not left
  std::deque<Lent> lent_;
  size_t lent_bytes_ = 0;
};

}  // namespace urma::tcp

#endif  // URMA_PROVIDERS_TCP_OUTBOX_H_
