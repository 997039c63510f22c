// SPDX-License-Identifier: MIT
//
// Registered memory, and where in it the messages of each jetty lie.
#ifndef TOOLS_PERFTEST_MEMORY_H_
#define TOOLS_PERFTEST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/handles.h"

namespace perftest {

// Gives memory back the way it was got.
struct MemoryRelease {
  enum class How { kUnmap, kExtension } how = How::kUnmap;
  size_t bytes = 0;
  void operator()(void* memory) const;
};

// Zeroed memory, registered as one segment.
class Region {
 public:
  // `va` is where it shall lie; 0: anywhere.
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

// A word for each jetty, which its peer writes. A peer in a pair gets a segment of its own, in
// which the word is the first one, as it does not know how many others there are.
class Words {
 public:
  Words(urma_context_t* context, const Config& config, uint32_t word_bytes);

  uint8_t* at(uint32_t lane) const { return place(lane, 0); }
  // Where a word that is on its way to the peer lies.
  uint8_t* source(uint32_t lane) const { return place(lane, lanes_); }
  const Region& region(size_t pair) const { return *regions_[pair]; }
  uint32_t word_bytes() const { return word_bytes_; }
  uint32_t lanes() const { return lanes_; }  // of a segment

 private:
  uint8_t* place(uint32_t lane, uint32_t offset) const;

  const uint32_t word_bytes_;
  const uint32_t lanes_;
  std::vector<std::unique_ptr<Region>> regions_;
};

// The memory of all jettys. What a jetty sends lies at the beginning of its part, then comes what
// its peer puts there, at the same offset on both sides:
//
//   out 0 ... out S-1   in 0 ... in S-1
//
// each slot as large as the largest message, on pages of its own. S is 1, and more with --verify:
// no message may then overwrite one that has not been checked. Staging buffers (--layout bcopy)
// are this side's own business and lie behind all that.
class Memory {
 public:
  Memory(urma_context_t* context, const Config& config);

  uint32_t slots() const { return slots_; }
  uint32_t staging_slots() const { return staging_slots_; }
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Of the part that the peer's requests are about.
  uint64_t shared_bytes() const { return 2 * slots_ * slot_bytes_; }

  uint8_t* out(uint32_t jetty, uint32_t slot = 0) const { return shared(jetty, slot); }
  uint8_t* in(uint32_t jetty, uint32_t slot = 0) const { return shared(jetty, slots_ + slot); }
  uint8_t* staging(uint32_t jetty, uint32_t slot) const {
    return staging_base(jetty) + slot * slot_bytes_;
  }
  urma_target_seg_t* segment(uint32_t jetty) const { return region(jetty).segment(); }

  // Of the first `in` slot of a jetty, from the start of the segment that its peer has imported.
  uint64_t in_offset(uint32_t jetty) const {
    return (segment_per_jetty_ ? 0 : jetty * shared_bytes()) + slots_ * slot_bytes_;
  }

 private:
  const Region& region(uint32_t jetty) const { return *regions_[segment_per_jetty_ ? jetty : 0]; }
  uint8_t* shared(uint32_t jetty, uint64_t slot) const {
    const uint64_t offset = segment_per_jetty_ ? 0 : jetty * shared_bytes();
    return region(jetty).base() + offset + slot * slot_bytes_;
  }
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
