// SPDX-License-Identifier: MIT
//
// Segments that another process maps: which bytes are mapped, and that all paths to them reach the
// same memory.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = 3 * kMiB;  // more than is moved in one step
constexpr uint32_t kToken = 4711;

std::atomic<int> warnings{0};

void count_warnings(int level, char* /*line*/) {
  if (level == URMA_VLOG_LEVEL_WARNING) ++warnings;
}

enum class Kind { kMmap, kMemalign, kOwn };

void* allocate(Kind kind) {
  if (kind == Kind::kOwn) return urma_ext_alloc(kBytes, 0);
  if (kind == Kind::kMemalign) return std::aligned_alloc(kPage, kBytes);
  void* data = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

void release(Kind kind, void* memory) {
  if (kind == Kind::kOwn) {
    EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
  } else if (kind == Kind::kMemalign) {
    std::free(memory);
  } else {
    ::munmap(memory, kBytes);
  }
}

class MappingKindTest : public ProcessTest, public testing::WithParamInterface<Kind> {};

TEST_P(MappingKindTest, BothSidesUseOneMemory) {
  if (GetParam() != Kind::kOwn) SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        OwnedEndpoint owner;
        auto* memory = static_cast<char*>(allocate(GetParam()));
        ASSERT_NE(memory, nullptr);
        fill(memory, kBytes);
        urma_target_seg_t* segment = owner.add(memory, kBytes);
        if (GetParam() != Kind::kOwn) {
          EXPECT_EQ(memfd_areas(memory, kBytes), 0);
          expect_all_copied(segment, URMA_EXT_REASON_NOT_IMPORTED);
        }
        channel.send(offer_of(owner, segment));
        channel.sync();
        expect_all_mapped(segment);
        EXPECT_EQ(*word_at(memory, 8), 1u);
        EXPECT_EQ(*word_at(memory, kBytes - 8), 2u);
        *word_at(memory, kMiB + 8) = 3;
        channel.sync();
        channel.sync();
        expect_filled(memory, kBytes);
        owner.remove(segment);
        EXPECT_EQ(memfd_areas(memory, kBytes) == 0, GetParam() != Kind::kOwn);
        expect_filled(memory, kBytes);
        release(GetParam(), memory);
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        ASSERT_NE(peer.remote->mva, 0u);
        expect_all_mapped(peer.remote);
        expect_filled(peer.mva(), kBytes);
        *peer.mapped_word(8) = 1;
        peer.write(kBytes - 8, 2);
        channel.sync();
        channel.sync();
        EXPECT_EQ(*peer.mapped_word(kMiB + 8), 3u);
        EXPECT_EQ(peer.read(kMiB + 8), 3u);
        EXPECT_EQ(peer.add(kMiB + 8, 4), 3u);
        EXPECT_EQ(*peer.mapped_word(kMiB + 8), 7u);
        channel.sync();
      });
}

std::string name_of(const testing::TestParamInfo<Kind>& info) {
  const char* const names[] = {"Mmap", "Memalign", "ExtAlloc"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, MappingKindTest,
                         testing::Values(Kind::kMmap, Kind::kMemalign, Kind::kOwn), name_of);

using MappingTest = ProcessTest;

constexpr uint64_t kRagged = 104;  // bytes before the first whole page and after the last

void expect_ragged_parts(const urma_target_seg_t* segment) {
  const std::vector<urma_ext_part_t> parts = parts_of(segment);
  ASSERT_EQ(parts.size(), 3u);
  for (const size_t end : {0, 2}) {
    EXPECT_EQ(parts[end].len, kRagged);
    EXPECT_EQ(parts[end].path, URMA_EXT_PATH_COPIED);
    EXPECT_EQ(parts[end].reason, URMA_EXT_REASON_RAGGED);
  }
  EXPECT_EQ(parts[0].va, segment->seg.ubva.va);
  EXPECT_EQ(parts[1].va, segment->seg.ubva.va + kRagged);
  EXPECT_EQ(parts[1].len, segment->seg.len - 2 * kRagged);
  EXPECT_EQ(parts[1].path, URMA_EXT_PATH_MAPPED);
  EXPECT_EQ(parts[1].reason, URMA_EXT_REASON_NONE);
  EXPECT_EQ(parts[2].va, parts[1].va + parts[1].len);
}

// A request that crosses from one part into the next uses both paths.
void cross_all_parts(Importer& peer, uint64_t bytes) {
  std::vector<char> out(bytes), in(bytes);
  for (uint64_t i = 0; i < bytes; ++i) out[i] = static_cast<char>(i * 7 % 127);
  urma_target_seg_t* from = peer.endpoint.add(out.data(), bytes, URMA_ACCESS_LOCAL_ONLY);
  urma_target_seg_t* into = peer.endpoint.add(in.data(), bytes, URMA_ACCESS_LOCAL_ONLY);
  urma_sge_t source = piece(from, out.data(), bytes);
  urma_sge_t target = piece(into, in.data(), bytes);
  urma_sge_t there = piece(peer.remote, peer.remote->seg.ubva.va, bytes);
  peer.endpoint.post(write_request(peer.queue, &source, &there, 1));
  wait_for_success(peer.endpoint.send_jfc, 1);
  peer.endpoint.post(read_request(peer.queue, &target, &there, 2));
  wait_for_success(peer.endpoint.send_jfc, 2);
  EXPECT_EQ(in, out);
  peer.endpoint.remove(from);
  peer.endpoint.remove(into);
}

TEST_F(MappingTest, UnalignedMemoryHasNoAddressAndOneWarning) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(6 * kPage);
        OwnedEndpoint owner;
        char* start = memory.get() + kPage - kRagged;
        const uint64_t bytes = 4 * kPage + 2 * kRagged;
        urma_target_seg_t* segment = owner.add(start, bytes);
        channel.send(offer_of(owner, segment));
        channel.sync();
        expect_ragged_parts(segment);
        for (uint64_t i = 0; i < bytes; ++i) ASSERT_EQ(start[i], static_cast<char>(i * 7 % 127));
        for (const uint64_t at : {uint64_t{0}, kPage - kRagged - 8, 5 * kPage + kRagged}) {
          EXPECT_EQ(*memory.word(at), 0u);
        }
      },
      "importer",
      [](Channel& channel) {
        const auto offer = channel.receive<Offer>();
        ASSERT_EQ(urma_register_log_func(count_warnings), URMA_SUCCESS);
        Importer peer(offer);
        EXPECT_EQ(warnings, 1);
        EXPECT_EQ(peer.remote->mva, 0u);
        expect_ragged_parts(peer.remote);
        cross_all_parts(peer, offer.segment.len);
        channel.sync();
        peer.close();
        EXPECT_EQ(warnings, 1);
        EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
      });
}

TEST_F(MappingTest, NeighboursInTheSameMappingStayPrivate) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(16 * kPage);
        OwnedEndpoint owner;
        fill(memory.get(), memory.bytes());
        urma_target_seg_t* segment = owner.add(memory.get() + 4 * kPage, 4 * kPage);
        channel.send(offer_of(owner, segment));
        channel.sync();
        EXPECT_EQ(memfd_areas(memory.get(), 4 * kPage), 0);
        // The last page is a mapping of its own, so that mremap cannot grow the memory.
        EXPECT_EQ(memfd_areas(memory.get() + 4 * kPage, 4 * kPage), 2);
        EXPECT_EQ(memfd_areas(memory.get() + 8 * kPage, 8 * kPage), 0);
        EXPECT_EQ(*memory.word(4 * kPage + 8), 5u);
        EXPECT_EQ(*memory.word(8 * kPage - 8), 6u);
        owner.remove(segment);
        EXPECT_EQ(memfd_areas(memory.get(), memory.bytes()), 0);
        expect_filled(memory.get(), memory.bytes());
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        ASSERT_NE(peer.remote->mva, 0u);
        EXPECT_EQ(*peer.mapped_word(0), 5u);
        *peer.mapped_word(8) = 5;
        *peer.mapped_word(4 * kPage - 8) = 6;
        channel.sync();
      });
}

TEST_F(MappingTest, TwoImportersShareOneMemory) {
  SKIP_UNLESS_IN_PLACE();
  Child owner("owner", [](Channel& channel) {
    Pages memory(kBytes);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.get(), kBytes);
    channel.send(offer_of(endpoint, segment));
    channel.sync();
    channel.sync();
    EXPECT_EQ(*memory.word(0), 1u);
    EXPECT_EQ(*memory.word(kBytes - 8), 2u);
  });
  const auto importer = [](uint64_t mine, uint64_t its, uint64_t value) {
    return [=](Channel& channel) {
      Importer peer(channel.receive<Offer>());
      ASSERT_NE(peer.remote->mva, 0u);
      *peer.mapped_word(mine) = value;
      channel.sync();
      EXPECT_EQ(*peer.mapped_word(its), 3 - value);
      channel.sync();
    };
  };
  Child first("first", importer(0, kBytes - 8, 1));
  Child second("second", importer(kBytes - 8, 0, 2));
  pass_on<Offer>(owner, {&first, &second});
  meet({&owner, &first, &second});
  meet({&owner, &first, &second});
  for (Child* child : {&owner, &first, &second}) child->expect_success();
}

// An import without a fixed address precedes one with it, and outlives it.
TEST_F(MappingTest, ImportsOfOneSegmentAreIndependent) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(kBytes);
        OwnedEndpoint owner;
        urma_target_seg_t* segment = owner.add(memory.get(), kBytes);
        channel.send(offer_of(owner, segment));
        channel.sync();
        EXPECT_EQ(*memory.word(0), 6u);
      },
      "importer",
      [](Channel& channel) {
        const auto offer = channel.receive<Offer>();
        Importer peer(offer, false);
        EXPECT_EQ(peer.remote->mva, 0u);
        peer.write(0, 1);
        urma_target_seg_t* first = peer.endpoint.import(offer.segment, true);
        urma_target_seg_t* second = peer.endpoint.import(offer.segment, true);
        ASSERT_NE(first->mva, 0u);
        ASSERT_NE(second->mva, 0u);
        EXPECT_NE(first->mva, second->mva);
        EXPECT_EQ(*reinterpret_cast<volatile uint64_t*>(first->mva), 1u);
        *reinterpret_cast<volatile uint64_t*>(second->mva) = 2;
        EXPECT_EQ(*reinterpret_cast<volatile uint64_t*>(first->mva), 2u);
        peer.endpoint.unimport(first);
        *reinterpret_cast<volatile uint64_t*>(second->mva) = 3;
        EXPECT_EQ(peer.add(0, 1), 3u);
        peer.endpoint.unimport(second);
        EXPECT_EQ(peer.add(0, 1), 4u);
        peer.import_again(offer.segment);
        ASSERT_NE(peer.remote->mva, 0u);
        EXPECT_EQ(*peer.mapped_word(0), 5u);
        *peer.mapped_word(0) = 6;
        channel.sync();
      });
}

// Two segments under one token id overlap. The common pages stay shared until both are gone.
TEST_F(MappingTest, SegmentsOfOneTokenShareTheirPages) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(kBytes);
        OwnedEndpoint owner;
        fill(memory.get(), kBytes);
        const OwnedTokenId token_id = urma_alloc_token_id(owner.ctx);
        urma_target_seg_t* low = add_under(owner, token_id, kToken, memory.get(), 2 * kMiB);
        urma_target_seg_t* high = add_under(owner, token_id, kToken, memory.get() + kMiB, 2 * kMiB);
        channel.send(offer_of(owner, low, kToken));
        channel.send(offer_of(owner, high, kToken));
        channel.sync();
        expect_all_mapped(low);
        expect_all_mapped(high);
        EXPECT_EQ(urma_unregister_seg(low), URMA_SUCCESS);
        EXPECT_EQ(memfd_areas(memory.get(), kMiB), 0);
        expect_all_mapped(high);
        channel.sync();
        channel.sync();
        EXPECT_EQ(*memory.word(2 * kMiB - 8), 8u);
        EXPECT_EQ(urma_unregister_seg(high), URMA_SUCCESS);
        EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
        expect_filled(memory.get(), kBytes);
      },
      "importer",
      [](Channel& channel) {
        const auto low = channel.receive<Offer>();
        const auto high = channel.receive<Offer>();
        Importer peer(low);
        urma_target_seg_t* other = peer.endpoint.import(high.segment, true);
        ASSERT_NE(peer.remote->mva, 0u);
        ASSERT_NE(other->mva, 0u);
        auto* mapped = reinterpret_cast<char*>(other->mva);
        *peer.mapped_word(2 * kMiB - 8) = 7;
        EXPECT_EQ(*word_at(mapped, kMiB - 8), 7u);
        channel.sync();
        channel.sync();
        peer.expect_refused(URMA_CR_REM_ACCESS_ABORT_ERR);
        *word_at(mapped, kMiB - 8) = 8;
        peer.endpoint.unimport(peer.remote);
        peer.remote = other;
        EXPECT_EQ(peer.read(kMiB - 8), 8u);
        channel.sync();
      });
}

// A process with only one of two tokens must not get pages of the other.
TEST_F(MappingTest, CommonPagesAreNotMappedUnderAnotherToken) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages memory(4 * kPage);
        OwnedEndpoint owner;
        fill(memory.get(), memory.bytes());
        urma_target_seg_t* first = owner.add(memory.get(), 2 * kPage, kAllAccess, kToken);
        urma_target_seg_t* second = owner.add(memory.get() + kPage, 3 * kPage, kAllAccess, 12);
        channel.send(offer_of(owner, first, kToken));
        channel.send(offer_of(owner, second, 12));
        channel.sync();
        expect_all_mapped(first);
        const auto parts = parts_of(second);
        ASSERT_EQ(parts.size(), 2u);
        EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_OTHER_TOKEN);
        EXPECT_EQ(parts[0].path, URMA_EXT_PATH_COPIED);
        EXPECT_EQ(parts[0].len, kPage);
        EXPECT_EQ(parts[1].path, URMA_EXT_PATH_MAPPED);
        EXPECT_EQ(*memory.word(kPage), 3u);
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        const auto other = channel.receive<Offer>();
        ASSERT_NE(peer.remote->mva, 0u);
        volatile uint64_t* mapped = peer.mapped_word(kPage);
        peer.remote = peer.endpoint.import(other.segment, true);
        EXPECT_EQ(peer.remote->mva, 0u);
        const auto parts = parts_of(peer.remote);
        ASSERT_EQ(parts.size(), 2u);
        EXPECT_EQ(parts[0].reason, URMA_EXT_REASON_OTHER_TOKEN);
        EXPECT_EQ(parts[1].path, URMA_EXT_PATH_MAPPED);
        EXPECT_EQ(peer.add(0, 1), 2u);
        EXPECT_EQ(*mapped, 3u);
        channel.sync();
      });
}

}  // namespace
}  // namespace urma_test
