// SPDX-License-Identifier: MIT
//
// Shared memory that pages of this process are moved into: a memfd for one audience.
#ifndef SEGMENT_INPLACE_PAGE_MEMORY_H_
#define SEGMENT_INPLACE_PAGE_MEMORY_H_

#include <cstdint>
#include <memory>

#include "segment/memory_map.h"
#include "urma/base/fd.h"
#include "urma/base/shared_pages.h"

namespace urma {

// Whether a process of this audience may write.
bool may_write(const Audience& audience);

class PageMemory {
 public:
  // For the pages of [start, end). Modulo the size of a huge page, they have the same position in
  // it as in the address space. Its size cannot change. NULL with errno if it cannot be made;
  // also EMFILE if the process would run short of descriptors.
  static std::shared_ptr<PageMemory> create(uint64_t start, uint64_t end);

  int fd() const { return fd_.get(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t offset(uint64_t va) const { return va - base_; }
  // True if the area maps this memory, each address at its offset.
  bool is_mapped_by(const Vma& vma) const;

  // Adds the last seals: from then on only those of `audience` who may write can, and this process
  // only through existing mappings. False if that failed: the descriptor must then not be handed
  // out.
  bool seal(const Audience& audience);
  bool sealed() const { return sealed_; }
  // The memory stays while it is mapped.
  void close() { fd_.reset(); }

 private:
  PageMemory(Fd fd, uint64_t base, uint64_t bytes);

  Fd fd_;
  const uint64_t base_;
  const uint64_t bytes_;
  uint64_t inode_ = 0;
  uint64_t device_ = 0;
  bool sealed_ = false;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_PAGE_MEMORY_H_
