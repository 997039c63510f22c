// SPDX-License-Identifier: MIT
#include "jetty/wire.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "jetty/iovecs.h"
#include "segment/page_size.h"

namespace urma {
namespace {

// Gives back the pages between two addresses. To free a large message at once takes long.
void forget_pages(const char* begin, const char* end) {
  const uint64_t page = page_bytes();
  const uint64_t first = (reinterpret_cast<uint64_t>(begin) + page - 1) / page * page;
  const uint64_t last = reinterpret_cast<uint64_t>(end) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace

bool WireIncoming::unpack(std::span<const LocalPiece> pieces, uint64_t length) {
  IovecList places;
  for (const LocalPiece& piece : pieces) {
    places.add(piece.addr, piece.len, *unpacked_, std::min(kCopyPerTurn, length - *unpacked_));
  }
  const char* before = staged_.get() + *unpacked_;
  for (const iovec& place : places.list()) {
    std::memcpy(place.iov_base, staged_.get() + *unpacked_, place.iov_len);
    *unpacked_ += place.iov_len;
  }
  // With the rest of the page in which the turn before ended.
  forget_pages(std::max<const char*>(staged_.get(), before - page_bytes()),
               staged_.get() + *unpacked_);
  return *unpacked_ == length;
}

}  // namespace urma
