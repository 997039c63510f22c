// SPDX-License-Identifier: MIT
#include "tools/perftest/memory.h"

#include <dlfcn.h>
#include <linux/mman.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "urma_ext.h"

namespace perftest {
namespace {

constexpr uint64_t kMiB = 1 << 20;
// Each region of memory that is shareable from the beginning takes a file descriptor.
constexpr uint32_t kMostShareable = 128;
// Limit of all slots of one jetty, for --verify and for --layout bcopy.
constexpr uint64_t kVerifyBytes = 32 * kMiB;
constexpr uint64_t kStagingBytes = 256 * kMiB;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

struct HugePage {
  int flags = 0;
  uint64_t bytes = 0;
};

HugePage huge_page(HugePages kind) {
  switch (kind) {
    case HugePages::k1Gb:
      return {MAP_HUGETLB | MAP_HUGE_1GB, 1024 * kMiB};
    case HugePages::k2Mb:
      return {MAP_HUGETLB | MAP_HUGE_2MB, 2 * kMiB};
    case HugePages::kAny:
      return {MAP_HUGETLB, 2 * kMiB};
    case HugePages::kNone:
      break;
  }
  return {};
}

// Extensions are looked up at run time, so that the tool runs on other libraries too.
template <typename Function>
Function* extension(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// By default, memory that peers can map at once.
bool wants_shareable(const Config& config) {
  const auto system_page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const bool region_per_jetty = config.segment_per_jetty || config.credit || config.notify;
  return !config.va && config.huge_pages == HugePages::kNone && config.page_size <= system_page &&
         (!region_per_jetty || config.jettys <= kMostShareable);
}

}  // namespace

void MemoryRelease::operator()(void* memory) const {
  if (how == How::kUnmap) {
    ::munmap(memory, bytes);
  } else if (auto* release = extension<decltype(urma_ext_free)>("urma_ext_free")) {
    (void)release(memory);
  }
}

Region::Region(urma_context_t* context, const Config& config, uint64_t bytes, uint64_t va)
    : bytes_(round_up(bytes, static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)))) {
  allocate(config, va);
  register_segment(context, config);
}

void Region::allocate(const Config& config, uint64_t va) {
  if (!wants_shareable(config) || !allocate_shareable()) map(config, va);
}

bool Region::allocate_shareable() {
  auto* allocate = extension<decltype(urma_ext_alloc)>("urma_ext_alloc");
  void* const memory = allocate == nullptr ? nullptr : allocate(bytes_, 0);
  if (memory == nullptr) return false;
  memory_ = {memory, {MemoryRelease::How::kExtension, bytes_}};
  base_ = static_cast<uint8_t*>(memory);
  return true;
}

void Region::map(const Config& config, uint64_t va) {
  const HugePage huge = huge_page(config.huge_pages);
  const uint64_t align = std::max<uint64_t>({config.page_size, huge.bytes, 4096});
  const bool spare = va == 0 && huge.bytes == 0;  // room to align the start
  const uint64_t length = round_up(bytes_, align) + (spare ? align : 0);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | huge.flags;
  if (va != 0) flags |= MAP_FIXED_NOREPLACE;
  void* const wanted = reinterpret_cast<void*>(va);
  void* const memory = ::mmap(wanted, length, PROT_READ | PROT_WRITE, flags, -1, 0);
  const std::string what = "mapping " + std::to_string(length) + " bytes";
  if (memory == MAP_FAILED) {
    fail_errno(what + (va != 0 ? " at the address of --va" : "") +
               (huge.bytes != 0 ? " of huge pages (see vm.nr_hugepages)" : ""));
  }
  memory_ = {memory, {MemoryRelease::How::kUnmap, length}};
  if (va != 0 && memory != wanted) throw RunError(what + " at the address of --va failed");
  base_ = reinterpret_cast<uint8_t*>(round_up(reinterpret_cast<uint64_t>(memory), align));
  if (!spare) base_ = static_cast<uint8_t*>(memory);
}

void Region::register_segment(urma_context_t* context, const Config& config) {
  urma_seg_cfg_t cfg = {};
  cfg.va = reinterpret_cast<uintptr_t>(base_);
  cfg.len = bytes_;
  cfg.token_value = {kTokenValue};
  cfg.flag.bs.token_policy = config.token_policy;
  cfg.flag.bs.access = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;
  if (context->dev->type == URMA_TRANSPORT_UB) {
    token_id_.reset(made(urma_alloc_token_id(context), "urma_alloc_token_id"));
    cfg.token_id = token_id_.get();
    cfg.flag.bs.token_id_valid = URMA_TOKEN_ID_VALID;
  }
  segment_.reset(made(urma_register_seg(context, &cfg), "urma_register_seg"));
}

Words::Words(urma_context_t* context, const Config& config, uint32_t offset) : offset_(offset) {
  for (uint32_t i = 0; i < config.jettys; i++) {
    regions_.push_back(std::make_unique<Region>(context, config, offset + sizeof(uint64_t)));
  }
}

Memory::Memory(urma_context_t* context, const Config& config)
    : segment_per_jetty_(config.segment_per_jetty), jettys_(config.jettys) {
  const uint64_t page = std::max<uint64_t>(config.page_size, 4096);
  slot_bytes_ = round_up(std::max<uint64_t>(config.buffer_size(), 8), page);
  slots_ = config.verify
               ? static_cast<uint32_t>(std::clamp<uint64_t>(kVerifyBytes / slot_bytes_, 2, 16))
               : 1;
  if (config.layout == Layout::kBcopy) {
    const uint64_t most = std::max<uint64_t>(kStagingBytes / slot_bytes_, 2);
    // Signalled and unsignalled requests have a slot each: see SendPlan.
    staging_slots_ = static_cast<uint32_t>(std::clamp<uint64_t>(config.jfs_depth, 2, most));
  }
  const uint64_t part_bytes = 2 * lane_bytes() + staging_slots_ * slot_bytes_;
  const uint64_t region_bytes = segment_per_jetty_ ? part_bytes : jettys_ * part_bytes;
  const uint32_t count = segment_per_jetty_ ? jettys_ : 1;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t va = config.va ? *config.va + i * region_bytes : 0;
    regions_.push_back(std::make_unique<Region>(context, config, region_bytes, va));
  }
  touch(config);
}

uint8_t* Memory::staging_base(uint32_t jetty) const {
  return region(jetty).base() + 2 * half() + place(jetty) * staging_slots_ * slot_bytes_;
}

// Otherwise the first touch of a page would be part of the figure.
void Memory::touch(const Config& config) const {
  const uint64_t used = std::clamp<uint64_t>(config.sizes().back(), 8, slot_bytes_);
  for (uint32_t jetty = 0; jetty < jettys_; jetty++) {
    for (uint32_t slot = 0; slot < slots_; slot++) {
      std::memset(out(jetty, slot), 0, used);
      std::memset(in(jetty, slot), 0, used);
    }
    for (uint32_t slot = 0; slot < staging_slots_; slot++) {
      std::memset(staging(jetty, slot), 0, used);
    }
  }
}

}  // namespace perftest
