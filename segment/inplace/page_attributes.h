// SPDX-License-Identifier: MIT
//
// What a program has told the kernel about its memory. It is lost when other pages are mapped
// there, and has to be told again.
#ifndef SEGMENT_INPLACE_PAGE_ATTRIBUTES_H_
#define SEGMENT_INPLACE_PAGE_ATTRIBUTES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "urma_ext.h"

namespace urma {

// Flags of an area, from the line VmFlags.
enum VmFlag : uint32_t {
  kVmDontFork = 1U << 0,
  kVmDontDump = 1U << 1,
  kVmHugePage = 1U << 2,
  kVmNoHugePage = 1U << 3,
  kVmSequential = 1U << 4,
  kVmRandom = 1U << 5,
  kVmMergeable = 1U << 6,
  kVmLocked = 1U << 7,
  kVmLockOnFault = 1U << 8,
  kVmNoReserve = 1U << 9,
  // The flags below make an area unfit.
  kVmHugetlb = 1U << 10,
  kVmWipeOnFork = 1U << 11,
  kVmUserfault = 1U << 12,
  kVmSealed = 1U << 13,
  kVmDevice = 1U << 14,
  kVmGrowsDown = 1U << 15,
  kVmProtectionKey = 1U << 16,
};

struct PageAttributes {
  uint32_t flags = 0;  // VmFlag
  int policy = 0;      // of NUMA, with its nodes; 0: none
  std::array<unsigned long, 16> nodes = {};
  bool huge = false;  // held in huge pages

  bool operator==(const PageAttributes&) const = default;

  // Tells what can be told before there are pages.
  void apply(uint64_t va, uint64_t len) const;
  // Locks pages that were locked. Not to be called while pages are frozen.
  void lock(uint64_t va, uint64_t len) const;
};

// The flags of the areas in one range, read once: the kernel walks all pages of the areas that it
// reports.
class FlagSnapshot {
 public:
  FlagSnapshot(uint64_t start, uint64_t end);
  // Nothing if the snapshot does not cover the whole area.
  std::optional<uint32_t> find(uint64_t start, uint64_t end) const;

 private:
  struct Area {
    uint64_t start;
    uint64_t end;
    uint32_t flags;
  };
  void parse(const char* line, uint64_t start, uint64_t end, bool* past);

  std::vector<Area> areas_;
};

// Why an area with these flags is unfit; NONE: it is fit.
urma_ext_reason_t refusal(uint32_t flags);

// Reads the NUMA policy at `va`.
void read_policy(uint64_t va, PageAttributes* attributes);

}  // namespace urma

#endif  // SEGMENT_INPLACE_PAGE_ATTRIBUTES_H_
