// SPDX-License-Identifier: MIT
#include "segment/inplace/page_attributes.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace urma {
namespace {

struct FlagName {
  char name[3];
  uint32_t flag;
};

constexpr FlagName kFlagNames[] = {
    {"dc", kVmDontFork},    {"dd", kVmDontDump},  {"hg", kVmHugePage},  {"nh", kVmNoHugePage},
    {"sr", kVmSequential},  {"rr", kVmRandom},    {"mg", kVmMergeable}, {"lo", kVmLocked},
    {"lf", kVmLockOnFault}, {"nr", kVmNoReserve}, {"ht", kVmHugetlb},   {"wf", kVmWipeOnFork},
    {"um", kVmUserfault},   {"uw", kVmUserfault}, {"ui", kVmUserfault}, {"sl", kVmSealed},
    {"io", kVmDevice},      {"pf", kVmDevice},    {"ss", kVmDevice},    {"dp", kVmDevice},
    {"gd", kVmGrowsDown},
};

struct Advice {
  uint32_t flag;
  int advice;
};

constexpr Advice kAdvice[] = {
    {kVmDontFork, MADV_DONTFORK},     {kVmDontDump, MADV_DONTDUMP},
    {kVmHugePage, MADV_HUGEPAGE},     {kVmNoHugePage, MADV_NOHUGEPAGE},
    {kVmSequential, MADV_SEQUENTIAL}, {kVmRandom, MADV_RANDOM},
    {kVmMergeable, MADV_MERGEABLE},
};

uint32_t parse_flags(const char* text) {
  uint32_t flags = 0;
  for (text += std::strspn(text, " \n"); *text != '\0'; text += std::strspn(text, " \n")) {
    for (const FlagName& known : kFlagNames) {
      if (std::strncmp(text, known.name, 2) == 0) flags |= known.flag;
    }
    text += std::strcspn(text, " \n");
  }
  return flags;
}

}  // namespace

void PageAttributes::apply(uint64_t va, uint64_t len) const {
  auto* const at = reinterpret_cast<void*>(va);
  for (const Advice& known : kAdvice) {
    // An advice without meaning for the current pages is refused; the flag is kept for later ones.
    if ((flags & known.flag) != 0) ::madvise(at, len, known.advice);
  }
  if (policy != MPOL_DEFAULT) {
    ::syscall(SYS_mbind, at, len, policy, nodes.data(), sizeof nodes * 8, 0);
  }
}

void PageAttributes::lock(uint64_t va, uint64_t len) const {
  auto* const at = reinterpret_cast<void*>(va);
  if ((flags & kVmLocked) == 0) return;
  if ((flags & kVmLockOnFault) != 0) {
    ::syscall(SYS_mlock2, at, len, MLOCK_ONFAULT);
  } else {
    ::mlock(at, len);
  }
}

FlagSnapshot::FlagSnapshot(uint64_t start, uint64_t end) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/smaps", "re"),
                                                   [](FILE* open) { return std::fclose(open); });
  if (file == nullptr) return;
  char line[512];
  bool past = false;
  while (!past && std::fgets(line, sizeof line, file.get()) != nullptr) {
    parse(line, start, end, &past);
  }
}

void FlagSnapshot::parse(const char* line, uint64_t start, uint64_t end, bool* past) {
  Area area = {};
  if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &area.start, &area.end) == 2) {
    *past = area.start >= end;
    if (!*past) areas_.push_back(area);
    return;
  }
  if (areas_.empty()) return;
  if (std::strncmp(line, "ProtectionKey:", 14) == 0) {
    if (std::strtoul(line + 14, nullptr, 10) != 0) areas_.back().flags |= kVmProtectionKey;
  } else if (std::strncmp(line, "VmFlags:", 8) == 0) {
    areas_.back().flags |= parse_flags(line + 8);
    if (areas_.back().end <= start) areas_.pop_back();
  }
}

std::optional<uint32_t> FlagSnapshot::find(uint64_t start, uint64_t end) const {
  for (const Area& area : areas_) {
    if (area.start <= start && end <= area.end) return area.flags;
  }
  return std::nullopt;
}

urma_ext_reason_t refusal(uint32_t flags) {
  if ((flags & kVmHugetlb) != 0) return URMA_EXT_REASON_HUGETLB;
  if ((flags & kVmDevice) != 0) return URMA_EXT_REASON_KERNEL;
  if ((flags & kVmGrowsDown) != 0) return URMA_EXT_REASON_STACK;
  if ((flags & kVmWipeOnFork) != 0) return URMA_EXT_REASON_WIPED;
  if ((flags & kVmUserfault) != 0) return URMA_EXT_REASON_WATCHED;
  if ((flags & kVmSealed) != 0) return URMA_EXT_REASON_SEALED;
  if ((flags & kVmProtectionKey) != 0) return URMA_EXT_REASON_PROTECTED;
  return URMA_EXT_REASON_NONE;
}

void read_policy(uint64_t va, PageAttributes* attributes) {
  if (::syscall(SYS_get_mempolicy, &attributes->policy, attributes->nodes.data(),
                sizeof attributes->nodes * 8, va, MPOL_F_ADDR) != 0) {
    attributes->policy = MPOL_DEFAULT;
    attributes->nodes = {};
  }
}

}  // namespace urma
