// SPDX-License-Identifier: MIT
//
// Memory that the kernel does not let the importer copy: requests use it once it is mapped.
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/refusal.h"

namespace urma_test {
namespace {

// Moving this much takes longer than requests wait if the kernel could copy.
constexpr uint64_t kBytes = 512 * kMiB;
constexpr uint64_t kSegments = 200;

using OutOfReachTest = ProcessTest;

TEST_F(OutOfReachTest, FirstRequestsWaitForTheMapping) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        const Pages pages(kBytes);
        OwnedEndpoint owner;
        for (uint64_t page = 0; page < kBytes; page += kPage) *pages.word(page) = page;
        urma_target_seg_t* segment = owner.add(pages.get(), kBytes);
        channel.send(offer_of(owner, segment));
        channel.sync();
        EXPECT_EQ(*pages.word(kBytes - 8), 4711u);
        owner.remove(segment);
      },
      "importer",
      [](Channel& channel) {
        // Like kernels before 5.3, and programs that filter system calls.
        refuse(SYS_pidfd_open, ENOSYS);
        Importer peer(channel.receive<Offer>(), /*mapped=*/false);
        EXPECT_EQ(peer.try_write(kBytes - 8, 4711), URMA_CR_SUCCESS);
        channel.sync();
      });
}

// Each is posted while the owner maps, and retried until it is mapped.
TEST_F(OutOfReachTest, EveryRequestUsesTheMappingThatItWaitedFor) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Endpoint owner;
        // Memory that need not be moved, mapped at its first import.
        std::vector<char*> pages;
        std::vector<urma_target_seg_t*> segments;
        for (uint64_t i = 0; i < kSegments; ++i) {
          pages.push_back(static_cast<char*>(urma_ext_alloc(kPage, 0)));
          ASSERT_NE(pages.back(), nullptr);
          segments.push_back(owner.add(pages.back(), kPage));
          channel.send(offer_of(owner, segments.back()));
        }
        channel.sync();
        for (uint64_t i = 0; i < kSegments; ++i) EXPECT_EQ(*word_at(pages[i], 0), i + 1);
        for (urma_target_seg_t* segment : segments) owner.remove(segment);
        for (char* page : pages) EXPECT_EQ(urma_ext_free(page), URMA_SUCCESS);
        owner.close();
      },
      "importer",
      [](Channel& channel) {
        refuse(SYS_pidfd_open, ENOSYS);
        Importer peer(channel.receive<Offer>(), /*mapped=*/false);
        // A request that missed its mapping would otherwise be staged; here it fails.
        refuse(SYS_memfd_create, ENOSYS);
        ASSERT_EQ(peer.try_write(0, 1), URMA_CR_SUCCESS);
        for (uint64_t i = 1; i < kSegments; ++i) {
          peer.import_again(channel.receive<Offer>().segment, /*mapped=*/false);
          ASSERT_EQ(peer.try_write(0, i + 1), URMA_CR_SUCCESS) << "segment " << i;
        }
        channel.sync();
      });
}

}  // namespace
}  // namespace urma_test
