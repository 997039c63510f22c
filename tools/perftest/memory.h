// SPDX-License-Identifier: MIT
//
// Registered memory, and the place of each jetty's messages in it.
#ifndef TOOLS_PERFTEST_MEMORY_H_
#define TOOLS_PERFTEST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/handles.h"

namespace perftest {

// Frees memory the way it was allocated.
struct MemoryRelease {
  enum class How { kUnmap, kExtension } how = How::kUnmap;
  size_t bytes = 0;
  void operator()(void* memory) const;
};

// Zeroed memory, registered as one segment.
class Region {
 public:
  // `va` is its address; 0: any.
  Region(urma_context_t* context, const Config& config, uint64_t bytes, uint64_t va = 0);

  uint8_t* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  urma_target_seg_t* segment() const { return segment_.get(); }

 private:
  void allocate(const Config& config, uint64_t va);
  void map(const Config& config, uint64_t va);
  bool allocate_shareable();
  void register_segment(urma_context_t* context, const Config& config);

  const uint64_t bytes_;
  std::unique_ptr<void, MemoryRelease> memory_;
  uint8_t* base_ = nullptr;
  TokenId token_id_;
  Segment segment_;
};

// A 64-bit word for each jetty, which its peer writes, each in its own segment.
class Words {
 public:
  // `offset` is the word's offset in its segment.
  Words(urma_context_t* context, const Config& config, uint32_t offset);

  uint64_t* at(uint32_t lane) const { return word(lane, offset_); }
  // Where the outgoing copy of a word lies. Needs an offset.
  uint64_t* source(uint32_t lane) const { return word(lane, 0); }
  urma_target_seg_t* segment(uint32_t lane) const { return regions_[lane]->segment(); }
  uint32_t offset() const { return offset_; }

 private:
  uint64_t* word(uint32_t lane, uint32_t offset) const {
    return reinterpret_cast<uint64_t*>(regions_[lane]->base() + offset);
  }

  const uint32_t offset_;
  std::vector<std::unique_ptr<Region>> regions_;
};

// The memory of all jettys, in two halves: what their peers put there, then what they send. A
// jetty has S slots in each, at the same offset on both sides:
//
//   in 0 ... in S-1 of jetty 0, of jetty 1 ...   out 0 ... out S-1 of jetty 0, of jetty 1 ...
//
// each slot as large as the largest message, on pages of its own. S is 1, and more with --verify:
// no message may then overwrite one that has not been checked. With --seg_pre_jetty each jetty has
// such memory to itself. Staging buffers (--layout bcopy) are this side's own business and lie
// behind all that.
class Memory {
 public:
  Memory(urma_context_t* context, const Config& config);

  uint32_t slots() const { return slots_; }
  uint32_t staging_slots() const { return staging_slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  // The slots of a jetty in one half.
  uint64_t lane_bytes() const { return slots_ * slot_bytes_; }

  uint8_t* in(uint32_t jetty, uint32_t slot = 0) const {
    return region(jetty).base() + place(jetty) * lane_bytes() + slot * slot_bytes_;
  }
  uint8_t* out(uint32_t jetty, uint32_t slot = 0) const { return in(jetty, slot) + half(); }
  uint8_t* staging(uint32_t jetty, uint32_t slot) const {
    return staging_base(jetty) + slot * slot_bytes_;
  }
  urma_target_seg_t* segment(uint32_t jetty) const { return region(jetty).segment(); }

 private:
  const Region& region(uint32_t jetty) const { return *regions_[segment_per_jetty_ ? jetty : 0]; }
  // The index of a jetty within its region.
  uint64_t place(uint32_t jetty) const { return segment_per_jetty_ ? 0 : jetty; }
  uint64_t half() const { return (segment_per_jetty_ ? 1 : jettys_) * lane_bytes(); }
  uint8_t* staging_base(uint32_t jetty) const;
  void touch(const Config& config) const;

  const bool segment_per_jetty_;
  const uint32_t jettys_;
  uint64_t slot_bytes_;
  uint32_t slots_;
  uint32_t staging_slots_ = 0;
  std::vector<std::unique_ptr<Region>> regions_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_MEMORY_H_
