// SPDX-License-Identifier: MIT
//
// Memory of another process as mapped here: the parts of an imported segment that its owner shares,
// all at one distance from the owner's addresses.
#ifndef SEGMENT_MAPPED_VIEW_H_
#define SEGMENT_MAPPED_VIEW_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "urma/base/fd.h"
#include "urma_ext.h"

namespace urma {

// How the owner describes one part of a segment.
struct PartDescription {
  uint64_t va;
  uint64_t len;
  uint64_t offset;  // in its file
  uint32_t file;    // number of the descriptor that came along, or kNoFile
  uint32_t reason;  // urma_ext_reason_t
};
inline constexpr uint32_t kNoFile = UINT32_MAX;

// Address space that is reserved for a mapping.
class AddressArea {
 public:
  // Anywhere. Throws Error(URMA_ENOMEM).
  explicit AddressArea(uint64_t bytes);
  // For the pages of [va, va + len), at the addresses of their owner. Throws Error(URMA_EEXIST) if
  // memory of this process lies there; NULL, with a log line, if no process can have that range.
  static std::unique_ptr<AddressArea> same(uint64_t va, uint64_t len);
  ~AddressArea();
  AddressArea(const AddressArea&) = delete;
  AddressArea& operator=(const AddressArea&) = delete;

  uint64_t start() const { return start_; }
  // Whether this is the area that same() gives for the segment.
  bool is_same(uint64_t va, uint64_t len) const;

 private:
  AddressArea(uint64_t start, uint64_t bytes) : start_(start), bytes_(bytes) {}

  uint64_t start_;
  uint64_t bytes_;
};

class MappedView {
 public:
  // Maps what can be mapped of the segment [base, base + len), for reading or also for writing.
  // Nothing that the owner says is trusted: parts that are not sealed shared memory of the size, or
  // are out of order, are not mapped. Throws Error if there is no address space. With `same`,
  // which is_same() for the segment, everything lies at the owner's addresses.
  MappedView(uint64_t base, uint64_t len, std::span<const PartDescription> parts,
             std::span<Fd> files, bool writable, std::unique_ptr<AddressArea> same = nullptr);
  MappedView(const MappedView&) = delete;
  MappedView& operator=(const MappedView&) = delete;

  // The address here of the bytes from va on, and their number, up to `bytes`, in *run; NULL if
  // the byte at va is not mapped, and *run is then the number of bytes that are not.
  char* at(uint64_t va, uint64_t bytes, uint64_t* run) const;

  // The longest mapped stretch, for callers that look at no other; empty if begin == end.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  // The address here minus the owner's.
  uint64_t distance() const { return distance_; }
  bool writable() const { return writable_; }
  uint32_t mappings() const { return mappings_; }
  const std::vector<urma_ext_part_t>& parts() const { return parts_; }

 private:
  void reserve();
  void add(const PartDescription& part, std::span<Fd> files);
  bool map(const PartDescription& part, std::span<Fd> files);
  bool map_pages(uint64_t va, uint64_t bytes, int fd, uint64_t offset);

  const uint64_t base_;
  const uint64_t len_;
  const bool writable_;
  std::unique_ptr<AddressArea> area_;  // for all pages of the segment
  uint32_t mappings_ = 0;
  uint64_t distance_ = 0;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  std::vector<urma_ext_part_t> parts_;  // ascending, without gaps
};

}  // namespace urma

#endif  // SEGMENT_MAPPED_VIEW_H_
