// SPDX-License-Identifier: MIT
//
// The cost of turning 1 GiB of private memory into shared memory in place, and back, with bare
// system calls: without concurrent writers, checks or notifications.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "tools/bench/measure.h"
#include "tools/bench/timing.h"

namespace bench {
namespace {

constexpr size_t kBytes = 1UL << 30;
constexpr size_t kChunk = 2UL << 20;
constexpr size_t kPage = 4096;
constexpr int kReadWrite = PROT_READ | PROT_WRITE;
constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;

char* map(void* at, size_t bytes, int flags, int fd, size_t offset) {
  void* memory = ::mmap(at, bytes, kReadWrite, flags, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) fail_errno("mmap");
  return static_cast<char*>(memory);
}

// Puts `chunk` in the place of what is mapped at `at`.
void move_over(char* chunk, char* at) {
  if (::mremap(chunk, kChunk, kChunk, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) {
    fail_errno("mremap");
  }
}

// The memory, with a mark in each page, and the file whose pages replace it.
class Range {
 public:
  Range() : base_(map(nullptr, kBytes, kPrivate, -1, 0)) {
    fd_ = ::memfd_create("urma-bench-pages", MFD_CLOEXEC);
    if (fd_ < 0 || ::ftruncate(fd_, kBytes) != 0) fail_errno("memfd_create");
    for (size_t at = 0; at < kBytes; at += kPage) mark(at) = at + 1;
  }
  char* at(size_t offset) { return base_ + offset; }
  int fd() const { return fd_; }

  // Takes the pages of one chunk from the file.
  void give_back(size_t offset) const {
    if (::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    kChunk) != 0) {
      fail_errno("fallocate");
    }
  }
  void check() {
    for (size_t at = 0; at < kBytes; at += kPage) {
      require(mark(at) == at + 1, "moving pages changed what they hold");
    }
  }

 private:
  uint64_t& mark(size_t at) { return *reinterpret_cast<uint64_t*>(base_ + at); }

  char* base_;
  int fd_;
};

// Runs `move` on each chunk and returns the total time.
template <typename Move>
double time_chunks(Range& range, Move&& move) {
  const double start = now_ns();
  for (size_t at = 0; at < kBytes; at += kChunk) move(at);
  const double time = now_ns() - start;
  range.check();
  return time;
}

double share_by_write(Range& range) {
  return time_chunks(range, [&range](size_t at) {
    for (size_t done = 0; done < kChunk;) {
      const ssize_t n =
          ::pwrite(range.fd(), range.at(at + done), kChunk - done, static_cast<off_t>(at + done));
      if (n <= 0) fail_errno("pwrite to a memfd");
      done += static_cast<size_t>(n);
    }
    map(range.at(at), kChunk, MAP_SHARED | MAP_FIXED, range.fd(), at);
  });
}

double share_by_copy(Range& range) {
  return time_chunks(range, [&range](size_t at) {
    char* const fresh = map(nullptr, kChunk, MAP_SHARED | MAP_POPULATE, range.fd(), at);
    std::memcpy(fresh, range.at(at), kChunk);
    move_over(fresh, range.at(at));
  });
}

double undo_by_read(Range& range) {
  return time_chunks(range, [&range](size_t at) {
    char* const fresh = map(nullptr, kChunk, kPrivate, -1, 0);
    for (size_t done = 0; done < kChunk;) {
      const ssize_t n =
          ::pread(range.fd(), fresh + done, kChunk - done, static_cast<off_t>(at + done));
      if (n <= 0) fail_errno("pread from a memfd");
      done += static_cast<size_t>(n);
    }
    move_over(fresh, range.at(at));
    range.give_back(at);
  });
}

int open_userfaultfd() {
  const auto fd =
      static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  uffdio_api api = {};
  api.api = UFFD_API;
  if (fd < 0 || ::ioctl(fd, UFFDIO_API, &api) != 0) fail_errno("userfaultfd");
  return fd;
}

// UFFDIO_COPY fills a page without zeroing it first.
void fill(int uffd, char* to, const char* from) {
  uffdio_register area = {};
  area.range = {reinterpret_cast<uintptr_t>(to), kChunk};
  area.mode = UFFDIO_REGISTER_MODE_MISSING;
  if (::ioctl(uffd, UFFDIO_REGISTER, &area) != 0) fail_errno("UFFDIO_REGISTER");
  for (size_t done = 0; done < kChunk;) {
    uffdio_copy copy = {};
    copy.dst = reinterpret_cast<uintptr_t>(to) + done;
    copy.src = reinterpret_cast<uintptr_t>(from) + done;
    copy.len = kChunk - done;
    if (::ioctl(uffd, UFFDIO_COPY, &copy) != 0 && errno != EAGAIN) fail_errno("UFFDIO_COPY");
    if (copy.copy > 0) done += static_cast<size_t>(copy.copy);
  }
  if (::ioctl(uffd, UFFDIO_UNREGISTER, &area.range) != 0) fail_errno("UFFDIO_UNREGISTER");
}

double undo_by_fill(Range& range) {
  const int uffd = open_userfaultfd();
  return time_chunks(range, [&range, uffd](size_t at) {
    char* const shared = map(nullptr, kChunk, MAP_SHARED | MAP_POPULATE, range.fd(), at);
    map(range.at(at), kChunk, kPrivate | MAP_FIXED, -1, 0);
    fill(uffd, range.at(at), shared);
    ::munmap(shared, kChunk);
    range.give_back(at);
  });
}

}  // namespace

std::vector<Measure> page_measures() {
  return {
      {"pages: pwrite, pread",
       {"share by pwrite", "undo by pread"},
       [](Channel&) -> Outcome {
         Range range;
         const double share = share_by_write(range);
         return {{share, undo_by_read(range)}, {}};
       },
       {}},
      {"pages: memcpy, userfaultfd",
       {"share by memcpy", "undo by userfaultfd"},
       [](Channel&) -> Outcome {
         Range range;
         const double share = share_by_copy(range);
         return {{share, undo_by_fill(range)}, {}};
       },
       {}},
  };
}

}  // namespace bench
