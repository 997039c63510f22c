// SPDX-License-Identifier: MIT
#include "urma/providers/tcp/outbox.h"

#include <algorithm>
#include <utility>

namespace urma::tcp {
namespace {

// Bytes that have left are removed once they are that many; no more room is kept for later ones.
constexpr size_t kMostSpent = 1 << 20;

// More at once would hold the lock of the connection for long. Less, such as 64 KiB, halves what a
// stream carries: each call wakes the receiver.
constexpr uint64_t kMostAtOnce = 1 << 20;

void add_to(IovecList* list, const void* at, size_t bytes) {
  list->add(reinterpret_cast<uint64_t>(at), bytes, 0, kMostAtOnce);
}

}  // namespace

void Outbox::lend(std::span<const iovec> pieces, const Lender& lender) {
  lent_.push_back({copies_.size(), lender, {pieces.begin(), pieces.end()}});
  lent_bytes_ += total(pieces);
}

void Outbox::take_in() {
  if (lent_.empty()) return;
  std::vector<char> all;
  all.reserve(bytes());
  const auto take_until = [&](size_t at) {
    all.insert(all.end(), copies_.begin() + static_cast<ptrdiff_t>(begin_),
               copies_.begin() + static_cast<ptrdiff_t>(at));
    begin_ = at;
  };
  for (const Lent& lent : lent_) {
    take_until(lent.at);
    for (const iovec& piece : std::span(lent.pieces).subspan(lent.first)) {
      const auto* from = static_cast<const char*>(piece.iov_base);
      all.insert(all.end(), from, from + piece.iov_len);
    }
  }
  take_until(copies_.size());
  copies_ = std::move(all);
  begin_ = 0;
  lent_.clear();
  lent_bytes_ = 0;
}

// Behind it comes nothing: the others can stay.
void Outbox::take_in_last() {
  if (lent_.empty()) return;
  const Lent& last = lent_.back();
  for (const iovec& piece : std::span(last.pieces).subspan(last.first)) {
    add({static_cast<const char*>(piece.iov_base), piece.iov_len});
    lent_bytes_ -= piece.iov_len;
  }
  lent_.pop_back();
}

bool Outbox::lent_until(const Lender& last) const {
  return std::any_of(lent_.begin(), lent_.end(), [&](const Lent& lent) {
    return lent.lender.by == last.by && lent.lender.number <= last.number;
  });
}

IovecList Outbox::next() const {
  IovecList list;
  size_t at = begin_;
  for (const Lent& lent : lent_) {
    add_to(&list, copies_.data() + at, lent.at - at);
    at = lent.at;
    for (const iovec& piece : std::span(lent.pieces).subspan(lent.first)) {
      add_to(&list, piece.iov_base, piece.iov_len);
    }
    if (list.bytes() == kMostAtOnce) return list;
  }
  add_to(&list, copies_.data() + at, copies_.size() - at);
  return list;
}

void Outbox::left(size_t bytes) {
  while (bytes != 0) {
    const size_t until = lent_.empty() ? copies_.size() : lent_.front().at;
    const size_t own = std::min(bytes, until - begin_);
    begin_ += own;
    bytes -= own;
    while (begin_ == until && !lent_.empty() && bytes != 0) {
      Lent& lent = lent_.front();
      iovec& piece = lent.pieces[lent.first];
      const size_t part = std::min(bytes, piece.iov_len);
      piece.iov_base = static_cast<char*>(piece.iov_base) + part;
      piece.iov_len -= part;
      bytes -= part;
      lent_bytes_ -= part;
      if (piece.iov_len != 0) return;
      if (++lent.first == lent.pieces.size()) {
        lent_.pop_front();
        break;
      }
    }
  }
  compact();
}

void Outbox::clear() {
  copies_ = std::vector<char>();
  lent_.clear();
  begin_ = lent_bytes_ = 0;
}

void Outbox::compact() {
  if (begin_ == copies_.size() && lent_.empty()) {
    copies_.clear();
    if (copies_.capacity() > kMostSpent) copies_ = std::vector<char>();
    begin_ = 0;
  } else if (begin_ > kMostSpent) {
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<ptrdiff_t>(begin_));
    for (Lent& lent : lent_) lent.at -= begin_;
    begin_ = 0;
  }
}

}  // namespace urma::tcp
