// SPDX-License-Identifier: MIT
//
// The base of the fuzzers for the providers of one machine: a runtime directory of their own,
// memory between inaccessible pages, and descriptors of all kinds.
#ifndef TEST_FUZZ_SHM_RIG_H_
#define TEST_FUZZ_SHM_RIG_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "test/fuzz/bytes.h"
#include "test/fuzz/runtime_dir.h"
#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"

namespace urma_fuzz {

// Called once, before the library.
inline void start() {
  enter_runtime_dir();
  GTEST_FLAG_SET(break_on_failure, true);
}

// Pages between two inaccessible ones. Only this process uses the second half.
class Fenced {
 public:
  static constexpr size_t kPage = 4096, kBytes = 4 * kPage;

  Fenced() {
    void* all = ::mmap(nullptr, kBytes + 2 * kPage, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(all != MAP_FAILED, "memory");
    data_ = static_cast<char*>(all) + kPage;
    require(::mprotect(data_, kBytes, PROT_READ | PROT_WRITE) == 0, "usable memory");
    std::memset(own(), 'o', kOwn);
  }
  char* data() const { return data_; }
  // What peers may write.
  static constexpr size_t kShared = 2 * kPage;
  void check() const {
    for (size_t i = 0; i < kOwn; ++i) {
      require(own()[i] == 'o', "no peer writes what was not granted to it");
    }
  }

 private:
  static constexpr size_t kOwn = kBytes - kShared;
  char* own() const { return data_ + kShared; }

  char* data_;
};

// Memory as the protocol requires it, or almost.
inline urma::Fd memory(size_t bytes, int seals) {
  urma::Fd fd(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(fd.valid() && ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "a memfd");
  if (seals != 0) require(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0, "seals");
  return fd;
}

inline constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// One of each kind; they live as long as the program.
class Descriptors {
 public:
  Descriptors() {
    int ends[2];
    keep(urma::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)));
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "sockets");
    keep(urma::Fd(ends[0]));
    keep(urma::Fd(ends[1]));
    require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "sockets");
    keep(urma::Fd(ends[0]));
    keep(urma::Fd(ends[1]));
    require(::pipe2(ends, O_CLOEXEC) == 0, "a pipe");
    keep(urma::Fd(ends[0]));
    keep(urma::Fd(ends[1]));
    const auto ring = urma::shm::RingLayout::total_bytes(urma::shm::kMinRingBytes);
    for (const size_t bytes : {size_t{ring}, size_t{urma::shm::kStagingBytes},
                               size_t{urma::SegmentTable::kSharedBytes}, size_t{4096}}) {
      keep(memory(bytes, kSizeSeals));
      keep(memory(bytes, 0));
    }
  }
  std::vector<int> some(Bytes* in) const {
    std::vector<int> chosen(in->below(4));
    for (int& fd : chosen) fd = fds_[in->below(static_cast<uint32_t>(fds_.size()))].get();
    return chosen;
  }

 private:
  void keep(urma::Fd fd) {
    require(fd.valid(), "a descriptor");
    fds_.push_back(std::move(fd));
  }

  std::vector<urma::Fd> fds_;
};

// Puts numbers of the input, and meaningful ones, into a message.
template <typename Message, size_t kNumbers>
void patch(Bytes* in, Message* message, const std::array<uint64_t, kNumbers>& numbers) {
  auto* bytes = reinterpret_cast<char*>(message);
  for (uint32_t patches = in->below(6); patches > 0; --patches) {
    const uint32_t at = in->below(sizeof(Message) / 4) * 4;
    uint64_t value = in->chance(128) ? numbers[in->below(kNumbers)] : in->take<uint32_t>();
    if (in->chance(32)) value = in->take<uint64_t>();
    const size_t size = std::min<size_t>(in->chance(128) ? 8 : 4, sizeof(Message) - at);
    std::memcpy(bytes + at, &value, size);
  }
}

}  // namespace urma_fuzz

#endif  // TEST_FUZZ_SHM_RIG_H_
