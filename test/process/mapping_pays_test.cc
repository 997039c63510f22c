// SPDX-License-Identifier: MIT
//
// When the pages of an imported segment are moved into shared memory: not for a few requests, which
// cost less than moving pages there and back.
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"

namespace urma_test {
namespace {

using std::chrono::steady_clock;

constexpr uint64_t kBytes = 128 * 1024;
// The values of the provider.
constexpr int kUsesWorthMapping = 8;
constexpr int kImportsWorthSharing = 4;

class MappingPaysTest : public ProcessTest {};

bool is_mapped(const urma_target_seg_t* segment) {
  return parts_of(segment).front().path == URMA_EXT_PATH_MAPPED;
}

// That needs no further request.
void wait_until_mapped(const urma_target_seg_t* segment) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  while (!is_mapped(segment) && steady_clock::now() < deadline) ::sched_yield();
  expect_all_mapped(segment);
}

// A sequence of registrations, each with an import and one request, moves no page.
TEST_F(MappingPaysTest, ARegistrationForOneRequestStaysPrivate) {
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(kBytes);
        OwnedEndpoint owner;
        for (uint64_t round = 1; round <= 2 * kUsesWorthMapping; ++round) {
          urma_target_seg_t* segment = owner.add(memory.get(), kBytes);
          channel.send(offer_of(owner, segment));
          channel.sync();
          EXPECT_EQ(*memory.word(kPage), round);
          expect_all_copied(segment, URMA_EXT_REASON_NOT_IMPORTED);
          EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
          owner.remove(segment);
        }
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>(), false);
        for (uint64_t round = 1;; ++round) {
          peer.write(kPage, round);
          channel.sync();
          if (round == 2 * kUsesWorthMapping) break;
          peer.import_again(channel.receive<Offer>().segment, false);
        }
      });
}

TEST_F(MappingPaysTest, TheEighthRequestOfAnImportHasItMapped) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(kBytes);
        OwnedEndpoint owner;
        *memory.word(0) = 1;
        urma_target_seg_t* segment = owner.add(memory.get(), kBytes);
        channel.send(offer_of(owner, segment));
        channel.sync();
        expect_all_copied(segment, URMA_EXT_REASON_NOT_IMPORTED);
        channel.sync();
        channel.sync();
        expect_all_mapped(segment);
        EXPECT_EQ(*memory.word(8), kUsesWorthMapping);
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>(), false);
        // Of any kind.
        for (int done = 1; done < kUsesWorthMapping; ++done) {
          done % 2 == 0 ? peer.write(8, done) : static_cast<void>(peer.add(16, 1));
        }
        expect_all_copied(peer.remote, URMA_EXT_REASON_NOT_IMPORTED);
        channel.sync();
        channel.sync();
        peer.write(8, kUsesWorthMapping);
        wait_until_mapped(peer.remote);
        channel.sync();
      });
}

// Imports with one request each: the fourth one of a registration finds it mapped.
TEST_F(MappingPaysTest, TheFourthImportOfARegistrationHasItMapped) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(kBytes);
        OwnedEndpoint owner;
        *memory.word(0) = 1;
        urma_target_seg_t* segment = owner.add(memory.get(), kBytes);
        channel.send(offer_of(owner, segment));
        channel.sync();
        expect_all_copied(segment, URMA_EXT_REASON_NOT_IMPORTED);
        channel.sync();
        channel.sync();
      },
      "importer",
      [](Channel& channel) {
        const auto offer = channel.receive<Offer>();
        Importer peer(offer, false);
        for (int import = 1; import < kImportsWorthSharing; ++import) {
          if (import > 1) peer.import_again(offer.segment, false);
          EXPECT_EQ(peer.read(0), 1u);
          EXPECT_FALSE(is_mapped(peer.remote)) << "import " << import;
        }
        channel.sync();
        channel.sync();
        peer.import_again(offer.segment, false);
        EXPECT_EQ(peer.read(0), 1u);
        wait_until_mapped(peer.remote);
        channel.sync();
      });
}

// Memory that is already shared, for another importer or from the start, costs nothing to map.
TEST_F(MappingPaysTest, SharedMemoryIsMappedAtOnce) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(kBytes);
        OwnedEndpoint owner;
        void* const own = urma_ext_alloc(kBytes, 0);
        ASSERT_NE(own, nullptr);
        *memory.word(0) = 1;
        *word_at(own, 0) = 1;
        urma_target_seg_t* segment = owner.add(memory.get(), kBytes);
        urma_target_seg_t* shared = owner.add(own, kBytes);
        channel.send(offer_of(owner, segment));
        channel.send(offer_of(owner, shared));
        channel.sync();
        owner.remove(shared);
        EXPECT_EQ(urma_ext_free(own), URMA_SUCCESS);
      },
      "importer",
      [](Channel& channel) {
        const auto moved = channel.receive<Offer>();
        const auto own = channel.receive<Offer>();
        Importer peer(moved, true);
        for (const Offer& offer : {moved, own}) {
          urma_target_seg_t* const before = peer.remote;
          peer.remote = peer.endpoint.import(offer.segment, false);
          EXPECT_EQ(peer.read(0), 1u);
          wait_until_mapped(peer.remote);
          peer.endpoint.unimport(before);
        }
        channel.sync();
      });
}

}  // namespace
}  // namespace urma_test
