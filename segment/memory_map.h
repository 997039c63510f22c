// SPDX-License-Identifier: MIT
//
// The areas of this process's address space, as the kernel reports them.
#ifndef SEGMENT_MEMORY_MAP_H_
#define SEGMENT_MEMORY_MAP_H_

#include <cstdint>
#include <optional>

#include "urma/base/fd.h"
#include "urma_ext.h"

namespace urma {

struct Vma {
  uint64_t start;
  uint64_t end;
  int protection;  // PROT_*
  bool shared;
  uint64_t page_bytes;
  uint64_t offset;
  uint64_t inode;
  uint64_t device;  // as stat() reports it
  char name[64];    // begins with '[' if it names a special area

  bool is_file() const { return inode != 0 || name[0] == '/'; }
};

// The areas of the process that made the object. Not thread-safe.
class MemoryMap {
 public:
  MemoryMap();

  // False without /proc.
  bool usable() const { return maps_.valid(); }
  // The area at `va`, else the next above it.
  std::optional<Vma> find(uint64_t va);
  // The same in one system call; also nothing if the kernel lacks that call, before 6.11.
  std::optional<Vma> query(uint64_t va);
  // Counts all areas.
  uint64_t count();
  // After a fork the descriptor describes the parent.
  void close() { maps_.reset(); }
  int fd() const { return maps_.get(); }

 private:
  std::optional<Vma> parse(uint64_t va);

  Fd maps_;
  bool has_query_ = true;
};

// Why private pages of this area cannot be moved, as far as the area itself shows; NONE: they can.
urma_ext_reason_t refusal(const Vma& vma);

}  // namespace urma

#endif  // SEGMENT_MEMORY_MAP_H_
