// SPDX-License-Identifier: MIT
#include "urma/providers/shm/sender_memory.h"

#include <algorithm>
#include <cstring>

namespace urma::shm {
namespace {

// Each may keep memory of a sender mapped.
constexpr size_t kMaxKnown = 16;
// Messages out of more segments than kMaxKnown must not cost an import each.
constexpr uint32_t kMissesPerPlace = 64;
// Sharing memory costs its owner as much as copying eight times as many bytes. The owner is asked
// once copies have cost a good part of that.
constexpr uint64_t kCopiesWorthMapping = 2;

bool same(const urma_eid_t& a, const urma_eid_t& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

// The sender names the token id. It must be for memory of the sender's own process.
bool usable(const Grant& grant, const PeerProcess& process) {
  return grant.stands() && grant.segment.allows(URMA_ACCESS_READ) && process.pid != 0 &&
         grant.link->peer().pid == process.pid;
}

}  // namespace

// A refused grant stays refused: other memory under that token is not asked for either.
SenderMemory::Known* SenderMemory::look_up(const urma_eid_t& eid, const PayloadPiece& piece) {
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& known) {
    const Grant* grant = known.segment->grant();
    return known.token_id == piece.token_id && same(known.eid, eid) &&
           (grant == nullptr || grant->segment.covers(piece.addr, piece.len));
  });
  if (found == known_.end()) return nullptr;
  std::rotate(known_.begin(), found, found + 1);
  return &known_.front();
}

void SenderMemory::ask_for(pid_t sender, const urma_eid_t& eid, const PayloadPiece& piece) {
  if (known_.size() == kMaxKnown) known_.pop_back();
  RemoteSegmentRef segment(new RemoteSegment(
      transport_, /*ctx=*/nullptr, describe_memory(eid, piece.addr, piece.len, piece.token_id),
      urma_token_t{}, URMA_ACCESS_READ, Mapped::kWhenAsked));
  (void)segment->ask();
  known_.insert(known_.begin(), Known{sender, eid, piece.token_id, std::move(segment), 0});
}

// Whether it was granted yet or not: the grant of an owner that is gone would come too late to be
// dropped.
void SenderMemory::keep(const std::function<bool(pid_t)>& sends) {
  std::erase_if(known_,
                [&](const Known& known) { return known.segment->stale() || !sends(known.sender); });
}

SenderMemory::Stretch SenderMemory::find(const PeerProcess& process, const urma_eid_t& eid,
                                         const PayloadPiece& piece, uint64_t offset,
                                         uint64_t bytes) {
  if (piece.token_id == 0) return {bytes};
  Known* known = look_up(eid, piece);
  if (known != nullptr && known->segment->stale()) {
    std::erase_if(known_, [](const Known& old) { return old.segment->stale(); });
    known = nullptr;
  }
  if (known == nullptr) {
    if (known_.size() < kMaxKnown || ++missed_ % kMissesPerPlace == 0) {
      ask_for(process.pid, eid, piece);
    }
    return {bytes};
  }
  const Grant* grant = known->segment->grant();
  if (grant == nullptr || !usable(*grant, process)) return {bytes};
  if (grant->view == nullptr) {
    known->copied += bytes;
    if (!known->asked && known->copied / kCopiesWorthMapping >= grant->segment.len) {
      known->asked = true;
      known->segment->map();
    }
    if (known->segment->about_to_be_mapped()) return {bytes, nullptr, nullptr, true};
    // The grant that was read may be older than the answer that was waited for.
    grant = known->segment->grant();
    if (grant->view == nullptr || !usable(*grant, process)) return {bytes};
  }
  uint64_t run = bytes;
  const char* mapped = grant->view->at(piece.addr + offset, bytes, &run);
  return {run, mapped, grant};
}

}  // namespace urma::shm
