// SPDX-License-Identifier: MIT
#include <linux/mman.h>
#include <sys/mman.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <new>

#include "urma/common/common.h"

namespace {

constexpr size_t k2Mb = size_t{1} << 21;
constexpr size_t k1Gb = size_t{1} << 30;

// The allocations with their lengths, since they are freed without one.
struct Given {
  std::mutex mutex;
  std::map<void*, size_t> lengths;
};

Given& given() {
  static auto& the_given = *new Given;
  return the_given;
}

void* map(size_t length, int flags) {
  void* memory =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void* map_pages(uint32_t size, size_t length) {
  if (size == UB_HUGEPAGE_1GB) return map(length, MAP_HUGETLB | MAP_HUGE_1GB);
  if (size == UB_HUGEPAGE_2MB) return map(length, MAP_HUGETLB | MAP_HUGE_2MB);
  void* memory = map(length, MAP_HUGETLB);
  return memory != nullptr ? memory : map(length, 0);
}

}  // namespace

void* ub_hugemalloc(uint32_t size, size_t length) {
  const size_t page = size == UB_HUGEPAGE_1GB ? k1Gb : k2Mb;
  if (size > UB_HUGEPAGE_ANY || length == 0 || length > SIZE_MAX - page) {
    errno = EINVAL;
    return nullptr;
  }
  length = (length + page - 1) / page * page;
  void* memory = map_pages(size, length);
  if (memory == nullptr) return nullptr;
  try {
    const std::lock_guard lock(given().mutex);
    given().lengths.emplace(memory, length);
  } catch (const std::bad_alloc&) {
    ::munmap(memory, length);
    errno = ENOMEM;
    return nullptr;
  }
  return memory;
}

int ub_hugefree(void* memory) {
  if (memory == nullptr) return 0;
  const std::lock_guard lock(given().mutex);
  const auto found = given().lengths.find(memory);
  if (found == given().lengths.end()) return -EINVAL;
  ::munmap(memory, found->second);
  given().lengths.erase(found);
  return 0;
}
