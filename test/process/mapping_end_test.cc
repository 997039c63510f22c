// SPDX-License-Identifier: MIT
//
// Processes that exit, fork or end the library while memory is mapped.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/sanitized.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

constexpr int kRounds = 20;
constexpr uint64_t kLarge = 32 * kMiB;
constexpr uint32_t kMovingUs = 60000;  // moving it takes at least this long on a busy machine
constexpr uint64_t kBytes = 3 * kMiB;

int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

using MappingEndTest = ProcessTest;

// Registers touched memory and waits to be ended.
void dying_owner(Channel& channel) {
  Endpoint owner;
  Pages memory(kLarge);
  fill(memory.get(), kLarge);
  channel.send(offer_of(owner, owner.add(memory.get(), kLarge)));
  channel.receive<char>();
}

// Requests may succeed in mapped memory until the death is known, and never after that.
void expect_requests_to_end(Importer& peer) {
  urma_cr_status_t status = URMA_CR_SUCCESS;
  const auto deadline = Clock::now() + patience(seconds(10));
  while (status == URMA_CR_SUCCESS && Clock::now() < deadline) status = peer.try_write(8, 1);
  EXPECT_EQ(status, URMA_CR_ACK_TIMEOUT_ERR);
  peer.expect_refused(URMA_CR_ACK_TIMEOUT_ERR);
}

// Imports while the owner dies at any point, and goes on using what it has.
void survivor_of_owners(Channel& channel) {
  std::optional<Importer> peer;
  for (int round = 0; round < kRounds; ++round) {
    const auto offer = channel.receive<Offer>();
    if (!peer) peer.emplace(offer, false);
    channel.send('k');
    peer->turn_to(offer);
    const int64_t imported = now_ns();
    channel.sync();  // the owner is dead by now
    expect_requests_to_end(*peer);
    channel.send(imported);
    channel.send(now_ns());
    if (peer->remote->mva == 0) continue;
    expect_filled(peer->mva(), kLarge);
    for (uint64_t at = 0; at < kLarge; at += kPage) *peer->mapped_word(at + 8) = 1;
  }
  peer->close();
}

TEST_F(MappingEndTest, OwnerIsKilledWhilePagesMove) {
  SKIP_UNLESS_IN_PLACE();
  std::mt19937 random(4711);
  Child survivor("survivor", survivor_of_owners);
  wait_long_for_answers();
  // From a death until all know of it.
  const int64_t limit = std::chrono::nanoseconds(promised(seconds(1))).count();
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Child owner("owner", dying_owner);
    survivor.channel().send(owner.channel().receive<Offer>());
    survivor.channel().receive<char>();
    const auto moment = Clock::now() + std::chrono::microseconds(random() % kMovingUs);
    while (Clock::now() < moment) ::sched_yield();
    const int64_t killed = now_ns();
    owner.kill();
    survivor.channel().sync();
    EXPECT_LT(survivor.channel().receive<int64_t>() - killed, limit) << "the import hung";
    EXPECT_LT(survivor.channel().receive<int64_t>() - killed, limit) << "requests hung";
  }
  survivor.expect_success();
}

TEST_F(MappingEndTest, ImporterIsKilled) {
  SKIP_UNLESS_IN_PLACE();
  Child owner("owner", [](Channel& channel) {
    Pages memory(kBytes);
    OwnedEndpoint endpoint;
    fill(memory.get(), kBytes);
    for (int round = 0; round < kRounds; ++round) {
      urma_target_seg_t* segment = endpoint.add(memory.get(), kBytes);
      channel.send(offer_of(endpoint, segment));
      channel.sync();
      EXPECT_EQ(*memory.word(8), static_cast<uint64_t>(round + 1));
      expect_filled(memory.get(), kBytes);
      endpoint.remove(segment);
      EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
      expect_filled(memory.get(), kBytes);
      EXPECT_EQ(*memory.word(8), static_cast<uint64_t>(round + 1));
    }
  });
  std::mt19937 random(12);
  for (int round = 0; round < kRounds; ++round) {
    Child importer("importer", [round](Channel& channel) {
      Importer peer(channel.receive<Offer>());
      *peer.mapped_word(8) = round + 1;
      channel.send('k');
      for (uint64_t i = 0;; ++i) {
        peer.add(16, 1);
        *peer.mapped_word(kBytes - 8) = i;
      }
    });
    importer.channel().send(owner.channel().receive<Offer>());
    importer.channel().receive<char>();
    const auto moment = Clock::now() + std::chrono::microseconds(random() % 2000);
    while (Clock::now() < moment) ::sched_yield();
    importer.kill();
    owner.channel().sync();
  }
  owner.expect_success();
}

// Every call that a child may try returns at once with an error.
void expect_memory_calls_refused(Endpoint& owner, urma_target_seg_t* segment, const Pages& memory,
                                 const Offer& itself) {
  urma_context_t* ctx = owner.ctx;
  urma_cr_t cr;
  EXPECT_LT(urma_poll_jfc(owner.send_jfc, 1, &cr), 0);
  urma_sge_t word = piece(segment, memory.get(), 8);
  urma_jfs_wr_t wr = write_request(nullptr, &word, &word);
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_NE(owner.post(&wr, &bad), URMA_SUCCESS);
  urma_jfr_wr_t receive = {};
  receive.src = {&word, 1};
  urma_jfr_wr_t* bad_receive = nullptr;
  EXPECT_NE(owner.post_receive(&receive, &bad_receive), URMA_SUCCESS);
  uint32_t count = 0;
  EXPECT_NE(urma_ext_query_segment(segment, nullptr, &count), URMA_SUCCESS);
  urma_seg_cfg_t cfg = seg_config(memory.get(), kPage, kAllAccess);
  EXPECT_EQ(urma_register_seg(ctx, &cfg), nullptr);
  urma_seg_t remote = segment->seg;
  urma_token_t token = {itself.segment.token};
  urma_import_seg_flag_t flag = {};
  flag.bs.mapping = URMA_SEG_MAPPED;
  EXPECT_EQ(urma_import_seg(ctx, &remote, &token, 0, flag), nullptr);
  EXPECT_NE(urma_unregister_seg(segment), URMA_SUCCESS);
  EXPECT_EQ(urma_ext_alloc(kPage, 0), nullptr);
  EXPECT_EQ(urma_alloc_token_id(ctx), nullptr);
}

void expect_object_calls_refused(const Endpoint& owner) {
  urma_context_t* ctx = owner.ctx;
  urma_jfc_cfg_t jfc_cfg = jfc_config(16);
  EXPECT_EQ(urma_create_jfc(ctx, &jfc_cfg), nullptr);
  EXPECT_EQ(urma_create_jfce(ctx), nullptr);
  EXPECT_NE(urma_delete_jetty(owner.jetty), URMA_SUCCESS);
  EXPECT_NE(urma_delete_jfr(owner.jfr), URMA_SUCCESS);
  EXPECT_NE(urma_delete_jfc(owner.send_jfc), URMA_SUCCESS);
  EXPECT_NE(urma_delete_context(ctx), URMA_SUCCESS);
  EXPECT_EQ(urma_create_context(owner.ctx->dev, 0), nullptr);
  EXPECT_NE(urma_uninit(), URMA_SUCCESS);
  EXPECT_NE(urma_init(nullptr), URMA_SUCCESS);
}

// The child of the owner: it has a snapshot, and its stores are private.
void be_forked(Channel& channel, Endpoint& owner, urma_target_seg_t* segment, const Pages& memory,
               char* own, const Offer& itself) {
  EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
  EXPECT_EQ(memfd_areas(own, kPage), 0);
  channel.sync();  // the parent and the peer have written in the meantime
  EXPECT_EQ(*memory.word(8), 1u);
  EXPECT_EQ(*memory.word(16), 0u);
  EXPECT_EQ(*memory.word(24), 0u);
  EXPECT_EQ(*word_at(own, 8), 1u);
  expect_filled(memory.get(), kBytes);
  for (uint64_t at = 0; at < kBytes; at += kPage) {
    *memory.word(at) = 99;
    *memory.word(at + 8) = 99;
  }
  *word_at(own, 8) = 99;
  expect_memory_calls_refused(owner, segment, memory, itself);
  expect_object_calls_refused(owner);
  channel.sync();
}

TEST_F(MappingEndTest, ForkedChildHasASnapshot) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "a sanitized program with threads may hang in fork";
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(kBytes);
        OwnedEndpoint owner;
        fill(memory.get(), kBytes);
        auto* own = static_cast<char*>(urma_ext_alloc(kPage, 0));
        urma_target_seg_t* segment = owner.add(memory.get(), kBytes);
        urma_target_seg_t* own_segment = owner.add(own, kPage);
        const Offer itself = offer_of(owner, segment);
        channel.send(itself);
        channel.send(offer_of(owner, own_segment));
        channel.sync();
        EXPECT_EQ(*memory.word(8), 1u);
        {
          Child child("child", [&](Channel& parent) {
            be_forked(parent, owner, segment, memory, own, itself);
          });
          *memory.word(16) = 2;
          *word_at(own, 16) = 2;
          channel.sync();
          channel.sync();
          child.channel().sync();
          child.channel().sync();
          child.expect_success();
        }
        *memory.word(32) = 4;
        channel.sync();
        channel.sync();
        EXPECT_EQ(*memory.word(8), 1u);
        EXPECT_EQ(*memory.word(24), 5u);
        expect_filled(memory.get(), kBytes);
        owner.remove(segment);
        owner.remove(own_segment);
        expect_filled(memory.get(), kBytes);
        EXPECT_EQ(*word_at(own, 8), 1u);
        EXPECT_EQ(urma_ext_free(own), URMA_SUCCESS);
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        const auto other = channel.receive<Offer>();
        urma_target_seg_t* own = peer.endpoint.import(other.segment, true);
        ASSERT_NE(peer.remote->mva, 0u);
        ASSERT_NE(own->mva, 0u);
        auto* its = reinterpret_cast<char*>(own->mva);
        *peer.mapped_word(8) = 1;
        *word_at(its, 8) = 1;
        channel.sync();
        channel.sync();
        EXPECT_EQ(*peer.mapped_word(16), 2u);
        EXPECT_EQ(*word_at(its, 16), 2u);
        *peer.mapped_word(24) = 5;
        channel.sync();
        channel.sync();
        EXPECT_EQ(*peer.mapped_word(8), 1u);
        EXPECT_EQ(*word_at(its, 8), 1u);
        EXPECT_EQ(*peer.mapped_word(32), 4u);
        EXPECT_EQ(peer.add(24, 0), 5u);
        expect_filled(peer.mva(), kBytes);
        channel.sync();
      });
}

// The parent goes on at once; the child must not see what it does then.
TEST_F(MappingEndTest, ForkedChildKeepsPagesThatTheParentUnshares) {
  SKIP_UNLESS_IN_PLACE();
  if (kSanitized) GTEST_SKIP() << "a sanitized program with threads may hang in fork";
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(kLarge);
        OwnedEndpoint owner;
        fill(memory.get(), kLarge);
        for (int round = 0; round < 5; ++round) {
          urma_target_seg_t* segment = owner.add(memory.get(), kLarge);
          channel.send(offer_of(owner, segment));
          channel.sync();
          EXPECT_GT(memfd_areas(memory.get(), kLarge), 0);
          Child child("child", [&](Channel& /*parent*/) { expect_filled(memory.get(), kLarge); });
          *memory.word(kLarge - kPage) = 0;
          owner.remove(segment);
          *memory.word(kLarge - kPage) = kLarge / kPage;
          child.expect_success();
          expect_filled(memory.get(), kLarge);
          channel.sync();
        }
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        for (int round = 0; round < 5; ++round) {
          if (round > 0) peer.import_again(channel.receive<Offer>().segment);
          ASSERT_NE(peer.remote->mva, 0u);
          channel.sync();
          channel.sync();
        }
      });
}

// A program that leaks what it has registered. Each cycle is followed by another one.
TEST_F(MappingEndTest, UninitUnsharesWhatIsStillRegistered) {
  SKIP_UNLESS_IN_PLACE();
  constexpr int kCycles = 3;
  const auto side = [](uint64_t mine) {
    return [mine](Channel& channel) {
      const CarelessThread careless;
      Pages memory(kBytes);
      fill(memory.get(), kBytes);
      for (uint64_t cycle = 1; cycle <= kCycles; ++cycle) {
        SCOPED_TRACE(cycle);
        auto* owner = new Endpoint;  // never closed: the end of the library frees it
        urma_target_seg_t* segment = owner->add(memory.get(), kBytes);
        const auto offer = channel.swap(offer_of(*owner, segment));
        urma_target_seg_t* remote = owner->import(offer.segment, true);
        ASSERT_NE(remote->mva, 0u);
        *word_at(reinterpret_cast<char*>(remote->mva), 8 * mine) = cycle;
        channel.sync();
        EXPECT_EQ(*memory.word(8 * (3 - mine)), cycle);
        EXPECT_GT(memfd_areas(memory.get(), kBytes), 0);
        channel.sync();
        EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
        EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
        expect_filled(memory.get(), kBytes);
        EXPECT_EQ(*memory.word(8 * (3 - mine)), cycle);
        channel.sync();
      }
    };
  };
  run_two("one", side(1), "two", side(2));
}

// The lives of three programs in one process, with traffic in each.
TEST_F(MappingEndTest, LibraryIsStartedAgain) {
  SKIP_UNLESS_IN_PLACE();
  const auto side = [](uint64_t mine) {
    return [mine](Channel& channel) {
      Pages memory(kBytes);
      fill(memory.get(), kBytes);
      for (uint64_t cycle = 1; cycle <= 3; ++cycle) {
        {
          OwnedEndpoint owner;
          urma_target_seg_t* segment = owner.add(memory.get(), kBytes);
          channel.send(offer_of(owner, segment));
          const auto offer = channel.receive<Offer>();
          urma_target_jetty_t* queue = owner.import(offer.queue);
          urma_target_seg_t* remote = owner.import(offer.segment, true);
          ASSERT_NE(remote->mva, 0u);
          urma_sge_t here = piece(segment, memory.get() + 64, 8);
          urma_sge_t there = piece(remote, offer.segment.va + 8 * mine, 8);
          owner.post(add_request(queue, &here, &there, 1));
          wait_for_success(owner.send_jfc, 0);
          channel.sync();
          EXPECT_EQ(*memory.word(8 * (3 - mine)), cycle);
        }
        EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
        expect_filled(memory.get(), kBytes);
        channel.sync();
      }
    };
  };
  run_two("one", side(1), "two", side(2));
}

}  // namespace
}  // namespace urma_test
