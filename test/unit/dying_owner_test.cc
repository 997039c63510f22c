// SPDX-License-Identifier: MIT
//
// Reads of the memory of a process that dies while its pages are frozen.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "segment/inplace/freeze.h"
#include "segment/kernel_abi.h"
#include "test/process/harness.h"
#include "urma/providers/shm/peer.h"

namespace urma {
namespace {

using kernel::kPageBytes;

// A page with contents and one whose contents are elsewhere; it dies once somebody waits for them.
void own(urma_test::Channel& channel) {
  void* const pages =
      ::mmap(nullptr, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *static_cast<char*>(pages) = 'x';
  const auto at = reinterpret_cast<uint64_t>(pages);
  const UserFault fault(0);
  FreezeCalls calls(fault.fd(), -1, {});
  const bool frozen = fault.error() == 0 &&
                      calls.freeze_absent(FreezeStep::kRegister, at + kPageBytes, kPageBytes) == 0;
  channel.send(frozen ? at : 0);
  pollfd waits = {fault.fd(), POLLIN, 0};
  if (frozen && ::poll(&waits, 1, -1) == 1) ::raise(SIGKILL);
}

// The kernel ends the freeze before it tells of the end of the process, and gives zeros then.
TEST(DyingOwner, AReadOfItsFrozenPagesFails) {
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    urma_test::Child owner("owner", own);
    const auto at = owner.channel().receive<uint64_t>();
    if (at == 0) GTEST_SKIP() << "needs a userfaultfd for accesses by the kernel";
    const shm::PeerProcess peer{owner.pid(),
                                Fd(static_cast<int>(::syscall(SYS_pidfd_open, owner.pid(), 0)))};
    std::vector<char> into(2 * kPageBytes);
    const iovec local[] = {{into.data(), 100}, {into.data() + 100, into.size() - 100}};
    const iovec remote = {reinterpret_cast<void*>(at), into.size()};
    uint64_t moved = 0;
    EXPECT_EQ(shm::copy_by_kernel(shm::Direction::kRead, peer, local, {&remote, 1}, &moved),
              URMA_CR_ACK_TIMEOUT_ERR);
    EXPECT_EQ(moved, 0U);
    const int status = owner.wait();
    EXPECT_TRUE(WIFSIGNALED(status)) << owner.output();
  }
}

}  // namespace
}  // namespace urma
