// SPDX-License-Identifier: MIT
//
// What an import reaches, and what is kept after its end: between processes, over every device.
#include <gtest/gtest.h>

#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = kMiB;
constexpr uint32_t kToken = 0xABCD;
constexpr uint32_t kOther = kToken + 1;

using KeptImportTest = ProcessTest;

// Three registrations of one token id, with a page between them in memory; the last one has a
// different token value.
struct Neighbours {
  static constexpr uint64_t kEach = kMiB, kStep = kEach + kPage, kCount = 3;

  Neighbours() {
    token_id = urma_alloc_token_id(owner.ctx);
    for (uint64_t i = 0; i < kCount; ++i) {
      *pages.word(i * kStep) = i + 1;
      segments.push_back(add_under(owner, token_id, i + 1 == kCount ? kOther : kToken,
                                   pages.get() + i * kStep, kEach));
    }
  }
  void close() {
    for (urma_target_seg_t* segment : segments) {
      EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
    }
    EXPECT_EQ(urma_free_token_id(token_id), URMA_SUCCESS);
    owner.close();
  }

  Endpoint owner;
  Pages pages = Pages(kCount * kStep);
  urma_token_id_t* token_id;
  std::vector<urma_target_seg_t*> segments;
};

TEST_F(KeptImportTest, AnImportReachesWhatItsTokenGrants) {
  run_two(
      "owner",
      [](Channel& channel) {
        Neighbours memory;
        channel.send(offer_of(memory.owner, memory.segments[0], kToken));
        channel.sync();
        EXPECT_EQ(*memory.pages.word(8), 41u);
        EXPECT_EQ(*memory.pages.word(Neighbours::kStep + 8), 42u);
        memory.close();
      },
      "importer",
      [](Channel& channel) {
        const auto offer = channel.receive<Offer>();
        Importer peer(offer, /*mapped=*/false);
        const uint64_t base = offer.segment.va;
        SegmentId narrow = offer.segment, nowhere = offer.segment;
        narrow.len = 2048;
        nowhere.va = 0;
        for (const SegmentId& id : {narrow, nowhere, narrow}) {
          peer.import_again(id, /*mapped=*/false);
          // Offsets start at the address in the descriptor.
          const uint64_t first = base - id.va;
          for (int round = 0; round < 3; ++round) {
            EXPECT_EQ(peer.read(first), 1u);
            peer.write(first + 8, 41);
            EXPECT_EQ(peer.try_read(first + kMiB - 4), URMA_CR_REM_ACCESS_ABORT_ERR);
            EXPECT_EQ(peer.read(first + Neighbours::kStep), 2u);
            peer.write(first + Neighbours::kStep + 8, 42);
            EXPECT_EQ(peer.try_read(first + 2 * Neighbours::kStep), URMA_CR_REM_ACCESS_ABORT_ERR);
            EXPECT_EQ(peer.try_read(first + kMiB), URMA_CR_REM_ACCESS_ABORT_ERR);
          }
        }
        channel.sync();
      });
}

// A value that the owner did not accept opens nothing, whatever is kept.
TEST_F(KeptImportTest, TokenIsCheckedForEachImport) {
  run_two(
      "owner",
      [](Channel& channel) {
        Pages pages(kBytes);
        OwnedEndpoint owner;
        urma_target_seg_t* segment = owner.add(pages.get(), kBytes, kAllAccess, kToken);
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        owner.remove(segment);
      },
      "importer",
      [](Channel& channel) {
        const auto offer = channel.receive<Offer>();
        Importer peer(offer, /*mapped=*/false);
        SegmentId wrong = offer.segment, nowhere = offer.segment;
        wrong.token = nowhere.token = kOther;
        nowhere.va = 0;
        for (int round = 0; round < 3; ++round) {
          peer.import_again(offer.segment, /*mapped=*/false);
          peer.write(0, 7);
          peer.import_again(wrong, /*mapped=*/false);
          peer.expect_refused(URMA_CR_REM_ACCESS_ABORT_ERR);
          peer.import_again(nowhere, /*mapped=*/false);
          EXPECT_EQ(peer.try_read(offer.segment.va), URMA_CR_REM_ACCESS_ABORT_ERR);
        }
        channel.sync();
      });
}

TEST_F(KeptImportTest, EndsWithTheRegistration) {
  run_two(
      "owner",
      [](Channel& channel) {
        Pages pages(kBytes);
        OwnedEndpoint owner;
        // The same token id for all, with different values.
        const OwnedTokenId token_id = urma_alloc_token_id(owner.ctx);
        for (uint32_t round = 1; round <= 4; ++round) {
          urma_target_seg_t* segment = add_under(owner, token_id, round, pages.get(), kBytes);
          *pages.word(0) = round;
          channel.send(offer_of(owner, segment, round));
          channel.sync();
          EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
          *pages.word(0) = 99;
          channel.sync();
          channel.sync();
        }
      },
      "importer",
      [](Channel& channel) {
        Offer offer = channel.receive<Offer>();
        Importer peer(offer, /*mapped=*/false);
        for (uint32_t round = 1;; ++round) {
          for (int use = 0; use < 5; ++use) {
            peer.import_again(offer.segment, /*mapped=*/false);
            EXPECT_EQ(peer.read(0), round);
          }
          channel.sync();
          channel.sync();
          peer.import_again(offer.segment, /*mapped=*/false);
          peer.expect_refused(URMA_CR_REM_ACCESS_ABORT_ERR);
          channel.sync();
          if (round == 4) break;
          offer = channel.receive<Offer>();
        }
      });
}

// A kept import that covers it but grants less does not replace it.
TEST_F(KeptImportTest, OverlappingRegistrationsAreDistinguished) {
  SKIP_UNLESS_SHARED_MEMORY("memory is mapped");
  SKIP_UNLESS_IN_PLACE();
  constexpr uint64_t kPart = 64 << 10;
  run_two(
      "owner",
      [](Channel& channel) {
        Pages pages(kBytes);
        OwnedEndpoint owner;
        const OwnedTokenId token_id = urma_alloc_token_id(owner.ctx);
        urma_seg_cfg_t cfg = seg_config(pages.get(), kBytes, URMA_ACCESS_READ);
        cfg.token_id = token_id;
        cfg.token_value.token = kToken;
        cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
        cfg.flag.bs.token_id_valid = 1;
        urma_target_seg_t* whole = urma_register_seg(owner.ctx, &cfg);
        ASSERT_NE(whole, nullptr);
        urma_target_seg_t* part = add_under(owner, token_id, kToken, pages.get(), kPart);
        channel.send(offer_of(owner, whole, kToken));
        channel.send(owner.segment_id(part, kToken));
        channel.sync();
        EXPECT_EQ(*pages.word(8), 7u);
        for (urma_target_seg_t* segment : {part, whole}) {
          EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
        }
      },
      "importer",
      [](Channel& channel) {
        const auto offer = channel.receive<Offer>();
        const auto part = channel.receive<SegmentId>();
        Importer peer(offer);
        EXPECT_NE(signal_of_a_store(peer.mapped_word(0)), 0);
        peer.import_again(part);
        // Pages that are shared for one may not be shared for the other.
        EXPECT_TRUE(peer.mva() == nullptr || signal_of_a_store(peer.mapped_word(0)) == 0);
        peer.write(8, 7);
        channel.sync();
      });
}

// Mappings in this process of memory of other owners.
bool nothing_is_mapped_of(const char* mva) { return memfd_areas(mva, kBytes) == 0; }

TEST_F(KeptImportTest, EndsWithItsOwner) {
  SKIP_UNLESS_SHARED_MEMORY("memory is mapped");
  SKIP_UNLESS_IN_PLACE();
  Child owner("owner", [](Channel& channel) {
    Endpoint owner;
    Pages pages(kBytes);
    channel.send(offer_of(owner, owner.add(pages.get(), kBytes)));
    channel.receive<char>();
  });
  Child importer("importer", [](Channel& channel) {
    const auto offer = channel.receive<Offer>();
    Importer peer(offer);
    const char* const mva = peer.mva();
    ASSERT_NE(mva, nullptr);
    peer.write(0, 1);
    peer.endpoint.unimport(peer.remote);
    EXPECT_FALSE(nothing_is_mapped_of(mva));
    channel.sync();
    const auto limit = Clock::now() + patience(seconds(10));
    while (!nothing_is_mapped_of(mva)) ASSERT_LT(Clock::now(), limit);
    peer.remote = peer.endpoint.import(offer.segment);
    EXPECT_NE(peer.try_read(0), URMA_CR_SUCCESS);
  });
  pass_on<Offer>(owner, {&importer});
  importer.channel().receive<char>();
  owner.kill();
  importer.channel().send('s');
  importer.expect_success();
}

}  // namespace
}  // namespace urma_test
