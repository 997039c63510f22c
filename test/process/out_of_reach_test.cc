// SPDX-License-Identifier: MIT
//
// Memory that the kernel does not let the importer copy: it is used once it is mapped.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/refusal.h"

namespace urma_test {
namespace {

// Longer to move than requests wait where the kernel would copy.
constexpr uint64_t kBytes = 512 * kMiB;

using OutOfReachTest = ProcessTest;

TEST_F(OutOfReachTest, FirstRequestsWaitForTheMapping) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Endpoint owner;
        const Pages pages(kBytes);
        for (uint64_t page = 0; page < kBytes; page += kPage) *pages.word(page) = page;
        urma_target_seg_t* segment = owner.add(pages.get(), kBytes);
        channel.send(offer_of(owner, segment));
        channel.sync();
        EXPECT_EQ(*pages.word(kBytes - 8), 4711u);
        owner.remove(segment);
        owner.close();
      },
      "importer",
      [](Channel& channel) {
        // As in kernels before 5.3, and under programs that look at every system call.
        refuse(SYS_pidfd_open, ENOSYS);
        Importer peer(channel.receive<Offer>(), /*mapped=*/false);
        EXPECT_EQ(peer.try_write(kBytes - 8, 4711), URMA_CR_SUCCESS);
        channel.sync();
        peer.close();
      });
}

}  // namespace
}  // namespace urma_test
