// SPDX-License-Identifier: MIT
//
// The extensions for memory.
#include <cerrno>

#include "urma/base/guard.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/core.h"
#include "urma/core/process/detours.h"
#include "urma_ext.h"

namespace {

using urma::core::entry;
using urma::core::shared_pages;

void* allocate(uint64_t bytes, uint32_t flags) {
  if (bytes == 0 || (flags & ~URMA_EXT_ALLOC_HUGE) != 0) {
    URMA_LOG_LIMITED(
        ERR, "ext_alloc: {} bytes with flags {:#x}; pass at least 1 byte, and no flag but {:#x}",
        bytes, flags, URMA_EXT_ALLOC_HUGE);
    errno = EINVAL;
    return nullptr;
  }
  if (!urma::core::in_use() || urma::core::is_forked()) {
    urma::core::report_unusable("ext_alloc", nullptr);
    errno = ENOMEM;
    return nullptr;
  }
  void* const memory = shared_pages().allocate(bytes, flags);
  if (memory == nullptr) {
    const int error = errno;
    URMA_LOG_LIMITED(ERR,
                     "ext_alloc: no shared memory of {} bytes; see RLIMIT_FSIZE, RLIMIT_NOFILE and "
                     "the memory limit",
                     bytes);
    errno = error;
  }
  return memory;
}

const char* reason_text(urma_ext_reason_t reason) {
  switch (reason) {
    case URMA_EXT_REASON_NONE:
      return "mapped";
    case URMA_EXT_REASON_NOT_IMPORTED:
      return "not imported yet, or too little used";
    case URMA_EXT_REASON_OFF:
      return "URMA_SHM_INPLACE is 0";
    case URMA_EXT_REASON_RAGGED:
      return "on a page that the segment covers only in part";
    case URMA_EXT_REASON_NO_FREEZE:
      return "no right to use userfaultfd, without which other threads could lose writes";
    case URMA_EXT_REASON_FILE:
      return "pages of a file, or of .data";
    case URMA_EXT_REASON_SHARED:
      return "memory that the program shares itself";
    case URMA_EXT_REASON_HUGETLB:
      return "from the pool of huge pages";
    case URMA_EXT_REASON_PINNED:
      return "a device or a child process holds the pages";
    case URMA_EXT_REASON_SEALED:
      return "sealed with mseal, or with guard pages";
    case URMA_EXT_REASON_PROTECTED:
      return "not readable and writable, executable, or behind a protection key";
    case URMA_EXT_REASON_WIPED:
      return "wiped in a child (MADV_WIPEONFORK)";
    case URMA_EXT_REASON_WATCHED:
      return "the program has a userfaultfd on the pages";
    case URMA_EXT_REASON_LIMIT:
      return "a limit of the process: file size, descriptors, mappings or memory";
    case URMA_EXT_REASON_OTHER_TOKEN:
      return "shared already, under another token or other rights";
    case URMA_EXT_REASON_STACK:
      return "on a stack";
    case URMA_EXT_REASON_KERNEL:
      return "the kernel is too old, or refuses";
    case URMA_EXT_REASON_UNMAPPED:
      return "the memory is no longer mapped";
    case URMA_EXT_REASON_PART:
      return "only a part of what urma_ext_alloc returned was registered";
    case URMA_EXT_REASON_PEER:
      return "the importer could not map the pages";
    case URMA_EXT_REASON_ENDED:
      return "the segment has ended, its pages could not be taken back: former importers keep "
             "access";
  }
  return "unknown";
}

}  // namespace

URMA_EXPORT void* urma_ext_alloc(uint64_t bytes, uint32_t flags) {
  void* memory = nullptr;
  const auto status = urma::guarded(URMA_LOG_SITE, [&]() -> urma_status_t {
    memory = allocate(bytes, flags);
    return URMA_SUCCESS;
  });
  if (status != URMA_SUCCESS) errno = ENOMEM;
  return memory;
}

URMA_EXPORT urma_status_t urma_ext_free(void* memory) {
  return entry(__func__, [&](const char*) -> urma_status_t {
    if (memory == nullptr || shared_pages().deallocate(memory)) return URMA_SUCCESS;
    URMA_LOG_LIMITED(ERR, "ext_free: {} is not what urma_ext_alloc returned", memory);
    return URMA_EINVAL;
  });
}

URMA_EXPORT const char* urma_ext_reason_text(urma_ext_reason_t reason) {
  return reason_text(reason);
}
