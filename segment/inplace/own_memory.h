// SPDX-License-Identifier: MIT
//
// Memory that is shareable from its allocation on.
#ifndef SEGMENT_INPLACE_OWN_MEMORY_H_
#define SEGMENT_INPLACE_OWN_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "segment/inplace/page_memory.h"
#include "urma/base/shared_pages.h"

namespace urma {

// The memory that the allocator has given out. Not thread-safe.
class OwnMemory {
 public:
  struct Block {
    uint64_t va;
    uint64_t bytes;  // asked for
    uint64_t end;    // of the last page
    std::shared_ptr<PageMemory> memory;
    // The memory to which the contents are being moved, or some were moved.
    std::shared_ptr<PageMemory> renewed = nullptr;
    // The last audience of the descriptor, if the contents could not be moved away from it.
    std::optional<Audience> exposed_to;
    bool being_renewed = false;
    bool broken = false;  // lies in more than one descriptor
  };
  using Map = std::map<uint64_t, Block>;

  // NULL with errno.
  Block* allocate(uint64_t bytes, bool huge);
  bool deallocate(uint64_t va);
  // The block that holds `va`, else the next above it, else NULL.
  Block* at_or_after(uint64_t va);
  Map& map() { return map_; }
  const Map& map() const { return map_; }

 private:
  Map map_;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_OWN_MEMORY_H_
