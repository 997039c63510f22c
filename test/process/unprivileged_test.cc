// SPDX-License-Identifier: MIT
//
// Unprivileged processes, which may not use userfaultfd: their private memory is copied; memory
// that is shareable from the start is still mapped.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/owned.h"
#include "test/process/without_root.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = 3 * kMiB;
constexpr uint32_t kToken = 4711;

std::atomic<int> warnings{0};

void count_warnings(int level, char* /*line*/) {
  if (level == URMA_VLOG_LEVEL_WARNING) ++warnings;
}

void drop_rights() {
  become(kNobody, kNobody);
  require(!why_not_in_place().empty(), "userfaultfd is refused");
}

Body without_rights(const Body& body) {
  return [&body](Channel& channel) {
    drop_rights();
    require(urma_register_log_func(count_warnings) == URMA_SUCCESS, "urma_register_log_func");
    body(channel);
    EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
  };
}

class UnprivilegedTest : public WithoutRootTest {
 protected:
  void SetUp() override {
    WithoutRootTest::SetUp();
    // It would be a different test.
    if (!IsSkipped() && !succeeds(drop_rights)) {
      GTEST_SKIP() << "other users may use userfaultfd here; needs vm.unprivileged_userfaultfd=0";
    }
  }

  static void run(const Body& owner, const Body& importer) {
    run_two("owner", without_rights(owner), "importer", without_rights(importer));
  }
};

TEST_F(UnprivilegedTest, PrivateMemoryIsCopied) {
  run(
      [](Channel& channel) {
        Pages memory(kBytes);
        OwnedEndpoint owner;
        fill(memory.get(), kBytes);
        urma_target_seg_t* segment = owner.add(memory.get(), kBytes, kAllAccess, kToken);
        urma_target_seg_t* inbox = owner.add(memory.get(), kPage, URMA_ACCESS_LOCAL_ONLY);
        owner.post_receive(inbox, memory.get() + 64, 8);
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        expect_all_copied(segment, URMA_EXT_REASON_NO_FREEZE);
        EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
        EXPECT_EQ(*memory.word(8), 1u);
        EXPECT_EQ(*memory.word(kBytes - 8), 12u);
        wait_for_success(owner.receive_jfc, 0);
        EXPECT_EQ(*memory.word(64), 12u);
        owner.remove(segment);
        expect_filled(memory.get(), kBytes);
        channel.sync();
        channel.sync();
      },
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        EXPECT_EQ(peer.remote->mva, 0u);
        EXPECT_EQ(warnings, 1);
        expect_all_copied(peer.remote, URMA_EXT_REASON_NO_FREEZE);
        peer.write(8, 1);
        EXPECT_EQ(peer.read(kPage), 2u);
        EXPECT_EQ(peer.add(kBytes - 8, 5), 0u);
        EXPECT_EQ(peer.cas(kBytes - 8, 5, 12), 5u);
        EXPECT_EQ(peer.cas(kBytes - 8, 5, 13), 12u);
        peer.send_word(peer.read(kBytes - 8));
        channel.sync();
        channel.sync();
        peer.expect_refused(URMA_CR_REM_ACCESS_ABORT_ERR);
        channel.sync();
      });
}

TEST_F(UnprivilegedTest, AllocatedMemoryIsMappedWithItsRights) {
  run(
      [](Channel& channel) {
        OwnedEndpoint owner;
        auto* open = static_cast<char*>(urma_ext_alloc(kBytes, 0));
        auto* closed = static_cast<char*>(urma_ext_alloc(kBytes, 0));
        fill(closed, kBytes);
        urma_target_seg_t* writable = owner.add(open, kBytes, kAllAccess, kToken);
        urma_target_seg_t* readable = owner.add(closed, kBytes, URMA_ACCESS_READ, kToken);
        channel.send(offer_of(owner, writable, kToken));
        channel.send(offer_of(owner, readable, kToken));
        channel.sync();
        expect_all_mapped(writable);
        expect_all_mapped(readable);
        EXPECT_EQ(*word_at(open, 8), 8u);
        expect_filled(closed, kBytes);
        owner.remove(writable);
        owner.remove(readable);
        EXPECT_EQ(urma_ext_free(open), URMA_SUCCESS);
        EXPECT_EQ(urma_ext_free(closed), URMA_SUCCESS);
      },
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        auto other = channel.receive<Offer>();
        ASSERT_NE(peer.remote->mva, 0u);
        expect_all_mapped(peer.remote);
        *peer.mapped_word(8) = 7;
        EXPECT_EQ(peer.add(8, 1), 7u);
        peer.import_again(other.segment);
        ASSERT_NE(peer.remote->mva, 0u);
        expect_filled(peer.mva(), kBytes);
        EXPECT_EQ(signal_of_a_store(peer.mapped_word(0)), SIGSEGV);
        EXPECT_NE(::mprotect(peer.mva(), kPage, PROT_READ | PROT_WRITE), 0);
        EXPECT_EQ(peer.try_write(0, 99), URMA_CR_REM_ACCESS_ABORT_ERR);
        EXPECT_EQ(peer.try_add(0, 99), URMA_CR_REM_ACCESS_ABORT_ERR);
        other.segment.token = kToken + 1;
        peer.import_again(other.segment);
        EXPECT_EQ(peer.remote->mva, 0u);
        peer.expect_refused(URMA_CR_REM_ACCESS_ABORT_ERR);
        channel.sync();
      });
}

// The contents cannot be moved away from former importers, so no one else gets the memory.
TEST_F(UnprivilegedTest, RevokedMemoryStaysWithItsToken) {
  run(
      [](Channel& channel) {
        OwnedEndpoint owner;
        auto* memory = static_cast<char*>(urma_ext_alloc(kBytes, 0));
        fill(memory, kBytes);
        const OwnedTokenId token_id = urma_alloc_token_id(owner.ctx);
        urma_target_seg_t* segment = add_under(owner, token_id, kToken, memory, kBytes);
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
        expect_filled(memory, kBytes);
        channel.sync();
        channel.sync();
        segment = owner.add(memory, kBytes, kAllAccess, kToken + 1);
        channel.send(offer_of(owner, segment, kToken + 1));
        channel.sync();
        expect_all_copied(segment, URMA_EXT_REASON_OTHER_TOKEN);
        EXPECT_EQ(*word_at(memory, 8), 8u);
        owner.remove(segment);
        segment = add_under(owner, token_id, kToken, memory, kBytes);
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        expect_all_mapped(segment);
        EXPECT_EQ(*word_at(memory, 8), 9u);
        EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
        expect_filled(memory, kBytes);
        EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
        // The next allocation is memory that no one has seen.
        memory = static_cast<char*>(urma_ext_alloc(kBytes, 0));
        EXPECT_EQ(*word_at(memory, 0), 0u);
        *word_at(memory, 8) = 10;
        channel.sync();
        channel.sync();
        EXPECT_EQ(*word_at(memory, 16), 0u);
        EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
      },
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        ASSERT_NE(peer.remote->mva, 0u);
        EXPECT_EQ(*peer.mapped_word(0), 1u);
        channel.sync();
        channel.sync();
        peer.expect_refused(URMA_CR_REM_ACCESS_ABORT_ERR);
        EXPECT_EQ(*peer.mapped_word(kPage), 2u);  // no fault
        channel.sync();
        peer.import_again(channel.receive<Offer>().segment);
        EXPECT_EQ(peer.remote->mva, 0u);
        peer.write(8, 8);
        channel.sync();
        peer.import_again(channel.receive<Offer>().segment);
        ASSERT_NE(peer.remote->mva, 0u);
        *peer.mapped_word(8) = 9;
        channel.sync();
        channel.sync();
        EXPECT_EQ(*peer.mapped_word(8), 9u);
        *peer.mapped_word(16) = 11;
        channel.sync();
      });
}

}  // namespace
}  // namespace urma_test
