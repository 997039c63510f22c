// SPDX-License-Identifier: MIT
#include "urma/base/id_blocks.h"

#include <algorithm>
#include <bit>

#include "urma/base/error.h"

namespace urma {
namespace {

// Most ids that a process holds beyond those it uses: enough that a process that keeps making and
// ending objects reuses an id late, few enough that 1000 processes fit.
constexpr uint32_t kSpareIds = 64;
// Blocks that are tried for a claim that is not needed.
constexpr uint32_t kFewTries = 8;

constexpr uint32_t kHalf = kBlocks / 2;
// Consecutive blocks of the search are kLaneBlocks apart, so that over a network all of them may
// share one port: see port_of().
constexpr uint32_t kLanes = 4;
constexpr uint32_t kLaneBlocks = kHalf / kLanes;

// The upper half comes first, since programs tend to choose small ids.
constexpr uint32_t block_at(uint32_t half, uint32_t place) {
  return (half == 0 ? kHalf : 0) + place % kLanes * kLaneBlocks + place / kLanes;
}

constexpr uint16_t bit_of(uint32_t id) { return static_cast<uint16_t>(1u << id % kBlockIds); }

}  // namespace

IdBlocks::IdBlocks(IdClaims* claims, uint64_t random)
    : claims_(claims),
      places_{static_cast<uint32_t>(random % kHalf),
              static_cast<uint32_t>(random / kHalf % kHalf)} {}

std::optional<uint32_t> IdBlocks::take(IdKind kind) {
  const MutexLock lock(mutex_);
  KindState& state = state_of(kind);
  for (bool round = false;;) {
    const auto at = blocks_.lower_bound(state.next.turn);
    if (at != blocks_.end()) {
      if (at->first != state.next.turn) state.next = {at->first, 0};
      if (const auto id = take_from(&at->second, kind)) return id;
      state.next = {at->first + 1, 0};
      continue;
    }
    // All blocks had their turn. Claim another block before reusing own ids.
    const auto spare = static_cast<uint32_t>(blocks_.size()) * kBlockIds - state.used;
    const bool needed = spare == 0 || round;
    if (needed ? claim_one(true) : spare + kBlockIds <= kSpareIds && claim_spare()) {
      state.next = {last_turn_, 0};
    } else if (needed) {
      return std::nullopt;
    } else {
      state.next = {};
      round = true;
    }
  }
}

// The next free one of the block, from the cursor on.
std::optional<uint32_t> IdBlocks::take_from(Block* block, IdKind kind) {
  KindState& state = state_of(kind);
  uint16_t& used = block->used[static_cast<uint32_t>(kind)];
  while (state.next.index < kBlockIds) {
    const uint32_t taken = used | ((1u << state.next.index) - 1);
    const auto index = static_cast<uint32_t>(std::countr_one(taken));
    state.next.index = index + 1;
    if (index >= kBlockIds) return std::nullopt;
    const uint32_t id = block->number * kBlockIds + index;
    if (claims_->reserved_elsewhere(kind, id)) continue;
    used |= bit_of(id);
    ++state.used;
    return id;
  }
  return std::nullopt;
}

// Tries a few blocks, or all if one is needed.
bool IdBlocks::claim_one(bool needed) {
  if (!needed) half_ = 0;
  for (uint32_t lap = 0; lap < (needed ? 2 : 1); ++lap) {
    for (uint32_t i = 0; i < (needed ? kHalf : kFewTries); ++i) {
      places_[half_] = (places_[half_] + 1) % kHalf;
      if (claim(block_at(half_, places_[half_]))) return true;
    }
    if (needed) half_ ^= 1;
  }
  return false;
}

// Own ids suffice if the claim fails, for instance without a free descriptor.
bool IdBlocks::claim_spare() {
  try {
    return claim_one(/*needed=*/false);
  } catch (const Error&) {
    return false;
  }
}

bool IdBlocks::claim(uint32_t block) {
  if (block < kFirstBlock || block > kLastBlock || turns_.contains(block) ||
      joined_.contains(block) || !claims_->claim(block)) {
    return false;
  }
  const uint64_t before = last_turn_++;
  blocks_[last_turn_] = {block};
  turns_[block] = last_turn_;
  // The block that was kept although none of its ids is in use.
  const auto kept = blocks_.find(before);
  if (kept != blocks_.end() && kept->second.empty()) release(turns_.find(kept->second.number));
  return true;
}

void IdBlocks::release(Turns::iterator turn) {
  claims_->release(turn->first);
  blocks_.erase(turn->second);
  turns_.erase(turn);
}

bool IdBlocks::chosen_for_any_eid(IdKind kind, uint32_t id) const {
  const auto first = chosen_.lower_bound({kind, id, 0});
  return first != chosen_.end() && std::get<0>(*first) == kind && std::get<1>(*first) == id;
}

void IdBlocks::choose(IdKind kind, uint32_t eid_index, uint32_t id) {
  const MutexLock lock(mutex_);
  if (chosen_.contains({kind, id, eid_index})) {
    fail(URMA_EEXIST, "id {} is in use by this process; choose another", id);
  }
  claims_->reserve(kind, eid_index, id);
  try {
    if (!admit(kind, id)) {
      fail(URMA_EEXIST,
           "id {} is reserved by a running process for its own objects; choose one below {}", id,
           kFirstBlock * kBlockIds);
    }
    chosen_.insert({kind, id, eid_index});
  } catch (...) {
    claims_->unreserve(kind, eid_index, id);
    throw;
  }
}

// False if an object that did not choose the id has it, or may get it in another process.
bool IdBlocks::admit(IdKind kind, uint32_t id) {
  const auto turn = turns_.find(block_of(id));
  if (turn == turns_.end()) {
    const auto joined = joined_.find(block_of(id));
    if (joined == joined_.end() && !claims_->join(block_of(id))) return false;
    ++joined_[block_of(id)];
    return true;
  }
  if (chosen_for_any_eid(kind, id)) return true;
  uint16_t& used = blocks_.at(turn->second).used[static_cast<uint32_t>(kind)];
  if ((used & bit_of(id)) != 0) return false;
  used |= bit_of(id);
  ++state_of(kind).used;
  return true;
}

void IdBlocks::give_back(IdKind kind, uint32_t eid_index, uint32_t id) {
  const MutexLock lock(mutex_);
  const bool chosen = chosen_.erase({kind, id, eid_index}) != 0;
  if (chosen) claims_->unreserve(kind, eid_index, id);
  const auto joined = joined_.find(block_of(id));
  if (joined != joined_.end()) {
    if (!chosen || --joined->second != 0) return;
    claims_->leave(joined->first);
    joined_.erase(joined);
  } else if (!chosen || !chosen_for_any_eid(kind, id)) {
    dismiss(kind, id);
  }
}

// For an id of an own block. Keeps the newest block for the next objects.
void IdBlocks::dismiss(IdKind kind, uint32_t id) {
  const auto turn = turns_.find(block_of(id));
  if (turn == turns_.end()) return;
  Block& block = blocks_.at(turn->second);
  uint16_t& used = block.used[static_cast<uint32_t>(kind)];
  if ((used & bit_of(id)) == 0) return;
  used &= static_cast<uint16_t>(~bit_of(id));
  --state_of(kind).used;
  if (block.empty() && turn->second != last_turn_) release(turn);
}

bool IdBlocks::owns(IdKind kind, uint32_t eid_index, uint32_t id) {
  const MutexLock lock(mutex_);
  return turns_.contains(block_of(id)) || chosen_.contains({kind, id, eid_index});
}

}  // namespace urma
