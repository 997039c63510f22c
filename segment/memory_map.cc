// SPDX-License-Identifier: MIT
#include "segment/memory_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "segment/kernel_abi.h"
#include "segment/page_size.h"

namespace urma {
namespace {

constexpr size_t kReadBytes = 16384;

// Calls line(text) for each line of the file until it returns true.
template <typename Line>
void each_line(int fd, Line line) {
  char buffer[kReadBytes];
  size_t held = 0;
  off_t at = 0;
  for (;;) {
    const ssize_t length = ::pread(fd, buffer + held, sizeof buffer - held, at);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return;
    at += length;
    held += static_cast<size_t>(length);
    size_t from = 0;
    while (const auto* end =
               static_cast<const char*>(std::memchr(buffer + from, '\n', held - from))) {
      const auto size = static_cast<size_t>(end - buffer) - from;
      if (line(std::string_view(buffer + from, size))) return;
      from += size + 1;
    }
    if (from == 0) return;  // no line is this long
    held -= from;
    std::memmove(buffer, buffer + from, held);
  }
}

std::optional<Vma> parse_line(std::string_view text) {
  char line[512];
  const size_t size = std::min(text.size(), sizeof line - 1);
  std::memcpy(line, text.data(), size);
  line[size] = '\0';
  Vma vma = {};
  char rights[5];
  unsigned major;
  unsigned minor;
  int name = 0;
  if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &vma.start,
                  &vma.end, rights, &vma.offset, &major, &minor, &vma.inode, &name) < 7) {
    return std::nullopt;
  }
  vma.protection = (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) |
                   (rights[2] == 'x' ? PROT_EXEC : 0);
  vma.shared = rights[3] == 's';
  vma.page_bytes = page_bytes();
  vma.device = makedev(major, minor);
  std::snprintf(vma.name, sizeof vma.name, "%s", line + name);
  return vma;
}

}  // namespace

MemoryMap::MemoryMap() : maps_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}

std::optional<Vma> MemoryMap::find(uint64_t va) {
  if (has_query_) {
    errno = 0;
    auto vma = query(va);
    if (vma || errno == ENOENT) return vma;
    has_query_ = false;
  }
  return parse(va);
}

std::optional<Vma> MemoryMap::query(uint64_t va) {
  Vma vma = {};
  kernel::ProcmapQuery request = {};
  request.size = sizeof request;
  request.query_flags = kernel::kVmaCoveringOrNext;
  request.query_addr = va;
  request.vma_name_addr = reinterpret_cast<uint64_t>(vma.name);
  request.vma_name_size = sizeof vma.name;
  int result = ::ioctl(maps_.get(), kernel::kProcmapQuery, &request);
  if (result != 0 && errno == ENAMETOOLONG) {
    // Special areas have short names.
    request.vma_name_addr = 0;
    request.vma_name_size = 0;
    result = ::ioctl(maps_.get(), kernel::kProcmapQuery, &request);
    vma.name[0] = '\0';
  }
  if (result != 0) return std::nullopt;
  vma.start = request.vma_start;
  vma.end = request.vma_end;
  vma.protection = ((request.vma_flags & kernel::kVmaReadable) != 0 ? PROT_READ : 0) |
                   ((request.vma_flags & kernel::kVmaWritable) != 0 ? PROT_WRITE : 0) |
                   ((request.vma_flags & kernel::kVmaExecutable) != 0 ? PROT_EXEC : 0);
  vma.shared = (request.vma_flags & kernel::kVmaShared) != 0;
  vma.page_bytes = request.vma_page_size;
  vma.offset = request.vma_offset;
  vma.inode = request.inode;
  vma.device = makedev(request.dev_major, request.dev_minor);
  return vma;
}

std::optional<Vma> MemoryMap::parse(uint64_t va) {
  std::optional<Vma> found;
  each_line(maps_.get(), [&](std::string_view line) {
    found = parse_line(line);
    if (found && found->end > va) return true;
    found.reset();
    return false;
  });
  return found;
}

uint64_t MemoryMap::count() {
  uint64_t areas = 0;
  each_line(maps_.get(), [&](std::string_view) {
    ++areas;
    return false;
  });
  return areas;
}

urma_ext_reason_t refusal(const Vma& vma) {
  if (vma.page_bytes > page_bytes()) return URMA_EXT_REASON_HUGETLB;
  if (vma.shared) return URMA_EXT_REASON_SHARED;
  if (vma.is_file()) return URMA_EXT_REASON_FILE;
  if (std::strcmp(vma.name, "[stack]") == 0) return URMA_EXT_REASON_STACK;
  if (vma.protection != (PROT_READ | PROT_WRITE)) return URMA_EXT_REASON_PROTECTED;
  if (vma.name[0] == '[' && vma.name[1] == 'v') return URMA_EXT_REASON_KERNEL;
  return URMA_EXT_REASON_NONE;
}

}  // namespace urma
