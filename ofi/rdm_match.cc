/* SPDX-License-Identifier: MIT */

#include "ofi/rdm_match.h"

#include <algorithm>
#include <cstring>

namespace urma_fi {

bool Pieces::set(std::span<const iovec> given) {
  if (given.size() > kRdmPieces) return false;
  count = given.size();
  bytes = 0;
  for (size_t i = 0; i < count; i++) {
    pieces[i] = given[i];
    bytes += given[i].iov_len;
  }
  return true;
}

size_t Pieces::scatter(const char* from, size_t size) const {
  size_t done = 0;
  for (size_t i = 0; i < count && done < size; i++) {
    const size_t part = std::min(pieces[i].iov_len, size - done);
    if (part > 0) std::memcpy(pieces[i].iov_base, from + done, part);
    done += part;
  }
  return done;
}

void gather(std::span<const iovec> pieces, char* to) {
  for (const iovec& piece : pieces) {
    if (piece.iov_len > 0) std::memcpy(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
  }
}

}  // namespace urma_fi
