// SPDX-License-Identifier: MIT
//
// Ids of queues and groups: below 65,536, and no two processes of a host have the same one. A
// process claims them in blocks of 16, each of which serves all kinds and EIDs.
#ifndef URMA_BASE_ID_BLOCKS_H_
#define URMA_BASE_ID_BLOCKS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>

#include "urma/base/mutex.h"
#include "urma/base/runtime.h"

namespace urma {

inline constexpr uint32_t kBlockIds = 16;
inline constexpr uint32_t kBlocks = (kMaxChosenId + 1) / kBlockIds;
// Ids below 1024, and those of the last block, are reserved for choice by programs.
inline constexpr uint32_t kFirstBlock = 1024 / kBlockIds;
inline constexpr uint32_t kLastBlock = kBlocks - 2;
inline constexpr uint32_t kClaimableIds = (kLastBlock - kFirstBlock + 1) * kBlockIds;

constexpr uint32_t block_of(uint32_t id) { return id / kBlockIds; }

// Claims on ids among the processes that share them. The claims of a process end with it, however
// it ends. All throw Error on other failures.
class IdClaims {
 public:
  virtual ~IdClaims() = default;
  // Makes the block this process's alone. False if another has claimed or joined it.
  virtual bool claim(uint32_t block) = 0;
  virtual void release(uint32_t block) = 0;
  // For ids of the block that programs choose. False if another process has claimed it.
  virtual bool join(uint32_t block) = 0;
  virtual void leave(uint32_t block) = 0;
  // For one id that a program has chosen. Throws Error(URMA_EEXIST) if another process has it.
  virtual void reserve(IdKind kind, uint32_t eid_index, uint32_t id) = 0;
  virtual void unreserve(IdKind kind, uint32_t eid_index, uint32_t id) = 0;
  // Whether a process may have reserved this id of a block that this process has claimed.
  virtual bool reserved_elsewhere(IdKind kind, uint32_t id) = 0;
};

// The ids of one process. Thread-safe.
class IdBlocks {
 public:
  // `random` sets where the search for blocks begins, so that a dead process's ids are reused late.
  IdBlocks(IdClaims* claims, uint64_t random);
  IdBlocks(const IdBlocks&) = delete;
  IdBlocks& operator=(const IdBlocks&) = delete;

  // Nothing if all are in use, here and elsewhere.
  std::optional<uint32_t> take(IdKind kind);
  // An id that the program chose, 1..kMaxChosenId. Throws Error(URMA_EEXIST) if it is in use, or
  // another process may hand it out.
  void choose(IdKind kind, uint32_t eid_index, uint32_t id);
  // Frees an id of either. Does nothing if it is free already.
  void give_back(IdKind kind, uint32_t eid_index, uint32_t id);
  // Whether only this process can have it.
  bool owns(IdKind kind, uint32_t eid_index, uint32_t id);

 private:
  struct Block {
    uint32_t number;
    std::array<uint16_t, kIdKinds> used{};  // a bit for each id

    bool empty() const { return used == std::array<uint16_t, kIdKinds>{}; }
  };
  // Where the search for a free id of a kind goes on.
  struct Cursor {
    uint64_t turn = 0;
    uint32_t index = 0;
  };
  struct KindState {
    Cursor next;
    uint32_t used = 0;
  };
  using Turns = std::unordered_map<uint32_t, uint64_t>;
  static_assert(kBlockIds == 16, "a bit of Block::used for each");

  KindState& state_of(IdKind kind) URMA_REQUIRES(mutex_) {
    return kinds_[static_cast<uint32_t>(kind)];
  }
  std::optional<uint32_t> take_from(Block* block, IdKind kind) URMA_REQUIRES(mutex_);
  bool claim_one(bool needed) URMA_REQUIRES(mutex_);
  bool claim_spare() URMA_REQUIRES(mutex_);
  bool claim(uint32_t block) URMA_REQUIRES(mutex_);
  void release(Turns::iterator turn) URMA_REQUIRES(mutex_);
  bool chosen_for_any_eid(IdKind kind, uint32_t id) const URMA_REQUIRES(mutex_);
  bool admit(IdKind kind, uint32_t id) URMA_REQUIRES(mutex_);
  void dismiss(IdKind kind, uint32_t id) URMA_REQUIRES(mutex_);

  IdClaims* const claims_;
  Mutex mutex_;
  std::map<uint64_t, Block> blocks_ URMA_GUARDED_BY(mutex_);  // in the order of their claims
  Turns turns_ URMA_GUARDED_BY(mutex_);                       // by block
  uint64_t last_turn_ URMA_GUARDED_BY(mutex_) = 0;
  std::array<KindState, kIdKinds> kinds_ URMA_GUARDED_BY(mutex_);
  std::map<uint32_t, uint32_t> joined_ URMA_GUARDED_BY(mutex_);  // chosen ids by foreign block
  std::set<std::tuple<IdKind, uint32_t, uint32_t>> chosen_
      URMA_GUARDED_BY(mutex_);  // kind, id, EID index
  // The search for blocks: in which half of them, and at which place of each.
  uint32_t half_ URMA_GUARDED_BY(mutex_) = 0;
  std::array<uint32_t, 2> places_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma

#endif  // URMA_BASE_ID_BLOCKS_H_
