// SPDX-License-Identifier: MIT
#include "segment/inplace/page_table.h"

#include <algorithm>
#include <utility>

#include "segment/kernel_abi.h"
#include "segment/page_size.h"
#include "urma/base/error.h"

namespace urma {
namespace {

// Many registrations are imported once, for one request, and moving pages there and back costs as
// much as a thousand small copies.
constexpr uint32_t kImportsWorthSharing = 4;

// Merges parts that are equal apart from their place.
void push(std::vector<SharedPart>* parts, const SharedPart& part) {
  if (part.len == 0) return;
  if (!parts->empty()) {
    SharedPart& last = parts->back();
    if (last.fd == part.fd && last.reason == part.reason &&
        (part.fd < 0 || last.offset + last.len == part.offset)) {
      last.len += part.len;
      return;
    }
  }
  parts->push_back(part);
}

SharedPart clip(SharedPart part, uint64_t start, uint64_t end) {
  const uint64_t from = std::max(part.va, start);
  const uint64_t to = std::min(part.va + part.len, end);
  if (part.fd >= 0) part.offset += from - part.va;
  part.va = from;
  part.len = to > from ? to - from : 0;
  return part;
}

}  // namespace

bool PageTable::knows_pages() { return page_bytes() == kernel::kPageBytes; }

void PageTable::set_in_place(bool on) {
  const MutexLock lock(mutex_);
  in_place_ = on;
}

void PageTable::fail_at(FailPoint fail) {
  const MutexLock lock(mutex_);
  fail_ = fail;
}

void PageTable::set_child_wait(uint64_t limit_ns) {
  const MutexLock lock(mutex_);
  child_wait_ns_ = limit_ns;
}

MemoryMap& PageTable::memory_map() {
  if (!map_ || !map_->usable()) map_.emplace();
  return *map_;
}

PageTable::RangeId PageTable::add(uint64_t va, uint64_t len, const Audience& audience) {
  const uint64_t page = page_bytes();
  if (len == 0 || len > UINT64_MAX - page || va > UINT64_MAX - page - len) {
    fail(URMA_EINVAL, "invalid range: {} bytes at {:#x}", len, va);
  }
  const MutexLock lock(mutex_);
  Range range = {};
  range.va = va;
  range.len = len;
  range.first = (va + page - 1) & ~(page - 1);
  range.last = (va + len) & ~(page - 1);
  range.audience = audience;
  // The bytes after those asked for belong to nobody else.
  const auto* block = own_.at_or_after(va + len - 1);
  if (block != nullptr && block->va < va + len && block->va + block->bytes <= va + len) {
    range.last = std::max(range.last, (va + len + page - 1) & ~(page - 1));
  }
  if (range.last <= range.first) range.first = range.last = va + len;
  range.cursor = range.first;
  ranges_.emplace(next_id_, std::move(range));
  return next_id_++;
}

bool PageTable::imported(RangeId id) {
  const MutexLock lock(mutex_);
  const auto found = ranges_.find(id);
  if (found == ranges_.end()) return false;
  Range& range = found->second;
  if (range.done || ++range.imports >= kImportsWorthSharing) return true;
  const auto* block = own_.at_or_after(range.first);
  return block != nullptr && block->va <= range.first;
}

std::vector<SharedPart> PageTable::parts(RangeId id) const {
  const MutexLock lock(mutex_);
  const auto found = ranges_.find(id);
  if (found == ranges_.end()) return {};
  const Range& range = found->second;
  const uint64_t end = range.va + range.len;
  std::vector<SharedPart> all;
  const auto copied = [&](uint64_t from, uint64_t to, urma_ext_reason_t reason) {
    if (to > from) push(&all, {from, to - from, -1, 0, reason});
  };
  copied(range.va, std::min(range.first, end), URMA_EXT_REASON_RAGGED);
  for (const SharedPart& part : range.parts) push(&all, clip(part, range.va, end));
  copied(range.cursor, std::min(range.last, end), URMA_EXT_REASON_NOT_IMPORTED);
  copied(range.last, end, URMA_EXT_REASON_RAGGED);
  return all;
}

void* PageTable::allocate(uint64_t bytes, uint32_t flags) {
  note_may_move();
  const MutexLock lock(mutex_);
  const auto* block = own_.allocate(bytes, (flags & URMA_EXT_ALLOC_HUGE) != 0);
  return block == nullptr ? nullptr : reinterpret_cast<void*>(block->va);
}

bool PageTable::deallocate(void* memory) {
  const MutexLock lock(mutex_);
  return own_.deallocate(reinterpret_cast<uint64_t>(memory));
}

void PageTable::clear() {
  std::vector<RangeId> all;
  {
    const MutexLock lock(mutex_);
    for (const auto* ranges : {&ranges_, &going_}) {
      for (const auto& [id, range] : *ranges) all.push_back(id);
    }
  }
  for (const RangeId id : all) remove(id);
  const MutexLock lock(mutex_);
  map_.reset();
  pagemap_.reset();
  if (way_back_ != nullptr) close_way_back(std::move(way_back_));
  child_copies_ = ChildCopies();
}

}  // namespace urma
