// SPDX-License-Identifier: MIT
#include "segment/mapped_view.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "segment/page_size.h"
#include "segment/shared_memory.h"
#include "urma/base/error.h"
#include "urma/base/log.h"

namespace urma {
namespace {

constexpr uint64_t kHugePage = 2ULL << 20;
constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
// A process may have some ten thousand, and needs them for other things.
constexpr uint32_t kMaxMappings = 1024;

uint64_t round_down(uint64_t value, uint64_t unit) { return value / unit * unit; }
uint64_t round_up(uint64_t value, uint64_t unit) { return round_down(value + unit - 1, unit); }

}  // namespace

AddressArea::AddressArea(uint64_t bytes) : start_(0), bytes_(bytes) {
  void* area = ::mmap(nullptr, bytes, PROT_NONE, kReserved, -1, 0);
  if (area == MAP_FAILED) {
    fail_errno(URMA_ENOMEM, urma::format("reserving {} bytes of address space", bytes));
  }
  start_ = reinterpret_cast<uint64_t>(area);
}

std::unique_ptr<AddressArea> AddressArea::same(uint64_t va, uint64_t len) {
  if (len == 0 || va + len < va || va + len > UINT64_MAX - page_bytes()) return nullptr;
  const uint64_t first = round_down(va, page_bytes());
  const uint64_t bytes = round_up(va + len, page_bytes()) - first;
  void* const wished = reinterpret_cast<void*>(first);
  void* area = ::mmap(wished, bytes, PROT_NONE, kReserved | MAP_FIXED_NOREPLACE, -1, 0);
  const bool elsewhere = area != MAP_FAILED && area != wished;
  // A kernel before 4.17 takes the address as a hint.
  if (elsewhere) ::munmap(area, bytes);
  if (elsewhere || (area == MAP_FAILED && errno == EEXIST)) {
    fail(URMA_EEXIST,
         "import_seg: the range at {:#x}, {} bytes long, overlaps memory of this process; import "
         "without dsva, or keep that range free",
         first, bytes);
  }
  if (area == MAP_FAILED) {
    URMA_LOG_LIMITED(WARNING, "import_seg: {} bytes at {:#x} cannot be mapped here: {}", bytes,
                     first, std::strerror(errno));
    return nullptr;
  }
  return std::unique_ptr<AddressArea>(new AddressArea(first, bytes));
}

AddressArea::~AddressArea() { ::munmap(reinterpret_cast<void*>(start_), bytes_); }

bool AddressArea::is_same(uint64_t va, uint64_t len) const {
  const uint64_t first = round_down(va, page_bytes());
  return start_ == first && bytes_ == round_up(va + len, page_bytes()) - first;
}

MappedView::MappedView(uint64_t base, uint64_t len, std::span<const PartDescription> parts,
                       std::span<Fd> files, bool writable, std::unique_ptr<AddressArea> same)
    : base_(base), len_(len), writable_(writable), area_(std::move(same)) {
  if (area_ == nullptr) reserve();
  uint64_t next = base;
  for (const PartDescription& part : parts) {
    // A list with gaps, or one that exceeds the segment, ends at the first bad part.
    if (part.va != next || part.len == 0 || part.len > base + len - next) break;
    add(part, files);
    next += part.len;
  }
  if (next < base + len) {
    parts_.push_back({next, base + len - next, URMA_EXT_PATH_COPIED, URMA_EXT_REASON_PEER});
  }
}

// Congruent to the owner's addresses, and so to the offsets in its files, modulo the size of a huge
// page: what is huge there can be huge here.
void MappedView::reserve() {
  const uint64_t first = round_down(base_, page_bytes());
  const uint64_t bytes = round_up(base_ + len_, page_bytes()) - first;
  area_ = std::make_unique<AddressArea>(bytes + kHugePage);
  const uint64_t here = area_->start() + (first - area_->start()) % kHugePage;
  distance_ = here - first;
}

void MappedView::add(const PartDescription& part, std::span<Fd> files) {
  auto reason = static_cast<urma_ext_reason_t>(part.reason);
  const bool shared = part.file != kNoFile;
  const bool mapped = shared && map(part, files);
  if (mapped) {
    reason = URMA_EXT_REASON_NONE;
  } else if (shared || reason == URMA_EXT_REASON_NONE || part.reason > URMA_EXT_REASON_PEER) {
    reason = URMA_EXT_REASON_PEER;
  }
  const urma_ext_path_t path = mapped ? URMA_EXT_PATH_MAPPED : URMA_EXT_PATH_COPIED;
  if (!parts_.empty() && parts_.back().path == path && parts_.back().reason == reason) {
    parts_.back().len += part.len;
  } else {
    parts_.push_back({part.va, part.len, path, reason});
  }
  const urma_ext_part_t& last = parts_.back();
  if (mapped && last.len > end_ - begin_) {
    begin_ = last.va;
    end_ = last.va + last.len;
  }
}

// Only whole pages of sealed shared memory that holds the part are mapped, so that no access can
// fault later; the segment may end within a page that holds nothing else.
bool MappedView::map(const PartDescription& part, std::span<Fd> files) {
  const uint64_t first = round_down(part.va, page_bytes());
  const uint64_t last = round_up(part.va + part.len, page_bytes());
  const uint64_t offset = part.offset;
  const bool whole =
      first == part.va && (last == part.va + part.len || part.va + part.len == base_ + len_);
  if (!whole || part.file >= files.size() || offset % page_bytes() != 0 ||
      mappings_ == kMaxMappings) {
    return false;
  }
  const int fd = files[part.file].get();
  struct stat status;
  if (!sealed_size(fd) || ::fstat(fd, &status) != 0) return false;
  const auto size = static_cast<uint64_t>(status.st_size);
  if (offset > size || last - first > size - offset) return false;
  return map_pages(first, last - first, fd, offset);
}

// Mapped elsewhere first and then moved to its place: a mapping that fails at a fixed address
// leaves a hole.
bool MappedView::map_pages(uint64_t va, uint64_t bytes, int fd, uint64_t offset) {
  const int protection = writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return false;
  void* here = reinterpret_cast<void*>(va + distance_);
  if (::mremap(data, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, here) == MAP_FAILED) {
    ::munmap(data, bytes);
    static_cast<void>(::mmap(here, bytes, PROT_NONE, kReserved | MAP_FIXED, -1, 0));
    return false;
  }
  ++mappings_;
  return true;
}

char* MappedView::at(uint64_t va, uint64_t bytes, uint64_t* run) const {
  auto part = std::upper_bound(parts_.begin(), parts_.end(), va,
                               [](uint64_t at, const auto& next) { return at < next.va; });
  --part;
  const bool mapped = part->path == URMA_EXT_PATH_MAPPED;
  *run = std::min(bytes, part->va + part->len - va);
  return mapped ? reinterpret_cast<char*>(va + distance_) : nullptr;
}

}  // namespace urma
