// SPDX-License-Identifier: MIT
//
// Segments at the same address on both sides (DSVA), and what a program may do through mva.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/owned.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = 64 * kPage;
// Free in all of these processes.
#ifdef __SANITIZE_THREAD__
char* const kPlace = reinterpret_cast<char*>(0x5600'0000'0000);  // allowed by the sanitizer
#else
char* const kPlace = reinterpret_cast<char*>(0x5100'0000'0000);
#endif

class DsvaTest : public ProcessTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("segments are mapped");
    SKIP_UNLESS_IN_PLACE();
  }
};

char* map_at(char* place, uint64_t bytes) {
  void* memory = ::mmap(place, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  EXPECT_EQ(memory, place);
  return static_cast<char*>(memory);
}

// An import at the address of the owner.
struct Import {
  uint64_t addr = 0;
  uint32_t mapping = URMA_SEG_MAPPED;
  uint32_t access = 0;
  bool dsva = true;
};

urma_target_seg_t* import(const Endpoint& endpoint, const SegmentId& id, const Import& how) {
  urma_seg_t remote = {};
  remote.ubva.eid = id.eid;
  remote.ubva.va = id.va;
  remote.len = id.len;
  remote.token_id = id.token_id;
  remote.attr.bs.dsva = how.dsva ? URMA_DSVA_ENABLE : URMA_DSVA_DISABLE;
  urma_token_t token = {id.token};
  urma_import_seg_flag_t flag = {};
  flag.bs.mapping = how.mapping;
  flag.bs.access = how.access;
  errno = 0;
  return urma_import_seg(endpoint.ctx, &remote, &token, how.addr, flag);
}

// The owner of `kBytes` at kPlace, and an importer.
void run_with_owner(uint32_t access, const std::function<void(Endpoint&, const SegmentId&)>& body,
                    const std::function<void(char*)>& check) {
  run_two(
      "owner",
      [=](Channel& channel) {
        OwnedEndpoint owner;
        char* memory = map_at(kPlace, kBytes);
        fill(memory, kBytes);
        urma_target_seg_t* segment = owner.add(memory, kBytes, access);
        channel.send(owner.segment_id(segment));
        channel.sync();
        check(memory);
      },
      "importer",
      [=](Channel& channel) {
        OwnedEndpoint importer;
        body(importer, channel.receive<SegmentId>());
        channel.sync();
      });
}

void nothing(char*) {}

TEST_F(DsvaTest, IsMappedAtTheAddressOfTheOwner) {
  run_with_owner(
      kAllAccess,
      [](Endpoint& endpoint, const SegmentId& id) {
        urma_target_seg_t* segment =
            import(endpoint, id, {.addr = reinterpret_cast<uint64_t>(kPlace)});
        ASSERT_NE(segment, nullptr);
        EXPECT_EQ(segment->mva, reinterpret_cast<uint64_t>(kPlace));
        EXPECT_EQ(segment->seg.attr.bs.dsva, uint32_t{URMA_DSVA_ENABLE});
        expect_filled(kPlace, kBytes);
        // A pointer means the same on both sides.
        *word_at(kPlace, 8) = reinterpret_cast<uint64_t>(kPlace + 2 * kPage);
        expect_all_mapped(segment);
        EXPECT_EQ(urma_unimport_seg(segment), URMA_SUCCESS);
        // Its address is free again.
        ::munmap(map_at(kPlace, kBytes), kBytes);
        // Immediately, any number of times.
        for (int i = 0; i < 200; ++i) {
          segment = import(endpoint, id, {});
          ASSERT_NE(segment, nullptr);
          EXPECT_EQ(segment->mva, reinterpret_cast<uint64_t>(kPlace));
          EXPECT_EQ(urma_unimport_seg(segment), URMA_SUCCESS);
        }
      },
      [](char* memory) {
        auto* pointed = *reinterpret_cast<char**>(memory + 8);
        EXPECT_EQ(pointed, memory + 2 * kPage);
      });
}

TEST_F(DsvaTest, OnlyAnAddressInUseFailsAnImport) {
  run_with_owner(
      kAllAccess,
      [](Endpoint& endpoint, const SegmentId& id) {
        char* last = map_at(kPlace + kBytes - kPage, kPage);
        *last = 'x';
        EXPECT_EQ(import(endpoint, id, {.addr = id.va}), nullptr);
        EXPECT_EQ(errno, EEXIST);
        EXPECT_EQ(import(endpoint, id, {}), nullptr);
        EXPECT_EQ(errno, EEXIST);
        EXPECT_EQ(*last, 'x');
        // It can still be mapped at another address.
        const ImportedSegment elsewhere = import(endpoint, id, {.dsva = false});
        EXPECT_NE(elsewhere->mva, 0u);
        EXPECT_NE(elsewhere->mva, id.va);
        expect_filled(reinterpret_cast<char*>(elsewhere->mva), kBytes);
        ::munmap(last, kPage);
        // Of two imports, one gets the address.
        const ImportedSegment first = import(endpoint, id, {});
        EXPECT_EQ(import(endpoint, id, {}), nullptr);
        EXPECT_EQ(errno, EEXIST);
      },
      nothing);
}

TEST_F(DsvaTest, OnlyTheAddressOfTheOwnerIsAccepted) {
  run_with_owner(
      kAllAccess,
      [](Endpoint& endpoint, const SegmentId& id) {
        EXPECT_EQ(import(endpoint, id, {.addr = id.va + kPage}), nullptr);
        EXPECT_EQ(errno, EINVAL);
        // Without a request to map, the attribute has no effect.
        const ImportedSegment segment = import(endpoint, id, {.mapping = URMA_SEG_NOMAP});
        EXPECT_EQ(segment->mva, 0u);
        EXPECT_EQ(segment->seg.attr.bs.dsva, uint32_t{URMA_DSVA_DISABLE});
      },
      nothing);
}

// Memory that is not mapped for another reason is imported, and accessed by requests.
TEST_F(DsvaTest, MemoryThatCannotBeMappedIsStillImported) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    const SegmentId nobodys = {endpoint.ctx->eid, reinterpret_cast<uint64_t>(kPlace), kBytes,
                               endpoint.ctx->eid_index + 77, kNoToken};
    urma_target_seg_t* segment = import(endpoint, nobodys, {});
    ASSERT_NE(segment, nullptr);
    EXPECT_EQ(segment->mva, 0u);
    EXPECT_EQ(urma_unimport_seg(segment), URMA_SUCCESS);
    // More than any process can address.
    const SegmentId endless = {endpoint.ctx->eid, kPage, uint64_t{1} << 60, 77, kNoToken};
    segment = import(endpoint, endless, {});
    ASSERT_NE(segment, nullptr);
    EXPECT_EQ(segment->mva, 0u);
    EXPECT_EQ(urma_unimport_seg(segment), URMA_SUCCESS);
  });
}

TEST_F(DsvaTest, OwnSegmentOccupiesItsAddress) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    char* memory = map_at(kPlace, kBytes);
    urma_target_seg_t* segment = endpoint.add(memory, kBytes);
    EXPECT_EQ(import(endpoint, endpoint.segment_id(segment), {}), nullptr);
    EXPECT_EQ(errno, EEXIST);
  });
}

TEST_F(DsvaTest, RightsApply) {
  run_with_owner(
      URMA_ACCESS_READ,
      [](Endpoint& endpoint, const SegmentId& id) {
        const ImportedSegment segment = import(endpoint, id, {});
        ASSERT_EQ(segment->mva, id.va);
        expect_filled(kPlace, kBytes);
        EXPECT_EQ(signal_of_a_store(word_at(kPlace, 0)), SIGSEGV);
        EXPECT_NE(::mprotect(kPlace, kPage, PROT_READ | PROT_WRITE), 0);
      },
      [](char* memory) { expect_filled(memory, kBytes); });
}

// The importer may drop rights that it was granted.
TEST_F(DsvaTest, ImporterMayAskForFewerRights) {
  run_with_owner(
      kAllAccess,
      [](Endpoint& endpoint, const SegmentId& id) {
        for (const bool dsva : {true, false}) {
          const ImportedSegment segment =
              import(endpoint, id, {.access = URMA_ACCESS_READ, .dsva = dsva});
          ASSERT_NE(segment->mva, 0u);
          EXPECT_EQ(signal_of_a_store(reinterpret_cast<volatile uint64_t*>(segment->mva)), SIGSEGV);
        }
      },
      [](char* memory) { expect_filled(memory, kBytes); });
}

}  // namespace
}  // namespace urma_test
