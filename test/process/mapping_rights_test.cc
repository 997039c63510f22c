// SPDX-License-Identifier: MIT
//
// What a peer that maps memory can do with it, even against the will of the owner.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <utility>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = 3 * kMiB;
constexpr uint32_t kToken = 4711;

// The name in /proc/self/map_files of the mapping that begins at or before `address`.
std::string map_file_of(const void* address) {
  const auto wanted = reinterpret_cast<uint64_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const uint64_t from = std::stoull(line, nullptr, 16);
    const uint64_t to = std::stoull(line.substr(line.find('-') + 1), nullptr, 16);
    if (from <= wanted && wanted < to) {
      EXPECT_NE(line.find("/memfd:"), std::string::npos) << line;
      return "/proc/self/map_files/" + line.substr(0, line.find(' '));
    }
  }
  ADD_FAILURE() << "nothing is mapped";
  return "";
}

// Opens the memory behind a mapping as only root can; every attempt to get more than was granted
// must fail.
void expect_sealed(char* mva, bool may_write) {
  const std::string path = map_file_of(mva);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    EXPECT_TRUE(errno == EPERM || errno == EACCES);
    return;
  }
  struct stat before, after;
  EXPECT_EQ(::fstat(fd, &before), 0);
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_NE(::ftruncate(fd, before.st_size + kPage), 0);
  EXPECT_NE(::fallocate(fd, 0, before.st_size, kPage), 0);
  EXPECT_LT(::pwrite(fd, "x", 1, before.st_size), 0);
  if (!may_write) {
    EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
    EXPECT_NE(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage), 0);
    EXPECT_EQ(::mmap(nullptr, kPage, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    EXPECT_EQ(::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    void* reader = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
    ASSERT_NE(reader, MAP_FAILED);
    EXPECT_NE(::mprotect(reader, kPage, PROT_READ | PROT_WRITE), 0);
    ::munmap(reader, kPage);
  }
  EXPECT_EQ(::fstat(fd, &after), 0);
  EXPECT_EQ(after.st_size, before.st_size);
  ::close(fd);
}

enum class Origin { kPrivate, kOwn };

class MappingRightsTest : public ProcessTest, public testing::WithParamInterface<Origin> {
 protected:
  static char* allocate() {
    if (GetParam() == Origin::kOwn) return static_cast<char*>(urma_ext_alloc(kBytes, 0));
    return static_cast<char*>(
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  static void release(char* memory) {
    if (GetParam() == Origin::kOwn) {
      EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
    } else {
      ::munmap(memory, kBytes);
    }
  }
};

TEST_P(MappingRightsTest, ReaderCannotWrite) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        OwnedEndpoint owner;
        char* memory = allocate();
        fill(memory, kBytes);
        urma_target_seg_t* segment = owner.add(memory, kBytes, URMA_ACCESS_READ, kToken);
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        expect_filled(memory, kBytes);
        *word_at(memory, 8) = 5;
        channel.sync();
        channel.sync();
        owner.remove(segment);
        expect_filled(memory, kBytes);
        release(memory);
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        ASSERT_NE(peer.remote->mva, 0u);
        expect_filled(peer.mva(), kBytes);
        EXPECT_EQ(signal_of_a_store(peer.mapped_word(0)), SIGSEGV);
        EXPECT_EQ(signal_of_a_store(peer.mapped_word(kBytes - 8)), SIGSEGV);
        EXPECT_NE(::mprotect(peer.mva(), kPage, PROT_READ | PROT_WRITE), 0);
        EXPECT_EQ(peer.try_write(0, 99), URMA_CR_REM_ACCESS_ABORT_ERR);
        EXPECT_EQ(peer.try_add(0, 99), URMA_CR_REM_ACCESS_ABORT_ERR);
        EXPECT_EQ(peer.read(kPage), 2u);
        if (::geteuid() == 0) expect_sealed(peer.mva(), false);
        channel.sync();
        channel.sync();
        EXPECT_EQ(*peer.mapped_word(8), 5u);
        channel.sync();
      });
}

// The mapping of an import has at most the rights that the import asks for, whatever was kept of an
// earlier one; requests have those that the owner grants.
TEST_P(MappingRightsTest, AnImportMapsNoMoreThanItAsksFor) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        OwnedEndpoint owner;
        char* memory = allocate();
        urma_target_seg_t* segment = owner.add(memory, kBytes, kAllAccess, kToken);
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        owner.remove(segment);
        release(memory);
      },
      "importer",
      [](Channel& channel) {
        const auto offer = channel.receive<Offer>();
        Importer peer(offer, /*mapped=*/false);
        urma_seg_t descriptor = peer.remote->seg;
        urma_token_t token = {kToken};
        uint64_t value = 0;
        for (const uint32_t access :
             {uint32_t{URMA_ACCESS_READ}, kAllAccess, 0U, uint32_t{URMA_ACCESS_READ}}) {
          SCOPED_TRACE(access);
          urma_import_seg_flag_t flag = {};
          flag.bs.access = access & 0x3f;
          flag.bs.mapping = URMA_SEG_MAPPED;
          const ImportedSegment narrow =
              urma_import_seg(peer.endpoint.ctx, &descriptor, &token, 0, flag);
          ASSERT_NE(narrow->mva, 0u);
          volatile uint64_t* const word = word_at(reinterpret_cast<void*>(narrow->mva), 64);
          EXPECT_EQ(signal_of_a_store(word), access == URMA_ACCESS_READ ? SIGSEGV : 0);
          urma_target_seg_t* const whole = std::exchange(peer.remote, narrow.get());
          peer.write(64, ++value);
          peer.remote = whole;
          EXPECT_EQ(*word, value);
        }
        channel.sync();
      });
}

TEST_P(MappingRightsTest, WriterCannotResize) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        OwnedEndpoint owner;
        char* memory = allocate();
        fill(memory, kBytes);
        urma_target_seg_t* segment = owner.add(memory, kBytes, kAllAccess, kToken);
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        EXPECT_EQ(*word_at(memory, 8), 6u);
        expect_filled(memory, kBytes);
        owner.remove(segment);
        release(memory);
      },
      "importer",
      [](Channel& channel) {
        if (::geteuid() != 0) std::fprintf(stderr, "not root: map_files cannot be opened\n");
        Importer peer(channel.receive<Offer>());
        ASSERT_NE(peer.remote->mva, 0u);
        *peer.mapped_word(8) = 6;
        if (::geteuid() == 0) expect_sealed(peer.mva(), true);
        channel.sync();
      });
}

// Not even a descriptor arrives: the importer cannot find what it does not hold.
TEST_P(MappingRightsTest, WrongTokenGetsNothing) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        Pages other(kPage);
        OwnedEndpoint owner;
        char* memory = allocate();
        urma_target_seg_t* segment = owner.add(memory, kBytes, kAllAccess, kToken);
        channel.send(offer_of(owner, owner.add(other.get(), kPage, kAllAccess)));
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        if (GetParam() == Origin::kPrivate) {
          EXPECT_EQ(memfd_areas(memory, kBytes), 0);
          expect_all_copied(segment, URMA_EXT_REASON_NOT_IMPORTED);
        }
        EXPECT_EQ(*word_at(memory, 0), 0u);
        owner.remove(segment);
        release(memory);
        channel.sync();
      },
      "importer",
      [](Channel& channel) {
        // Count only after the two processes have met.
        Importer peer(channel.receive<Offer>());
        Offer offer = channel.receive<Offer>();
        peer.write(0, 1);
        const int descriptors = open_descriptors();
        const int areas = memfd_areas();
        for (const uint32_t wrong : {kToken + 1, 0u, UINT32_MAX}) {
          offer.segment.token = wrong;
          peer.import_again(offer.segment);
          EXPECT_EQ(peer.remote->mva, 0u);
          peer.expect_refused(URMA_CR_REM_ACCESS_ABORT_ERR);
          EXPECT_LE(open_descriptors(), descriptors);
          EXPECT_LE(memfd_areas(), areas);
        }
        channel.sync();
        channel.sync();
      });
}

TEST_P(MappingRightsTest, FormerImporterNeitherReadsNorWrites) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [](Channel& channel) {
        OwnedEndpoint owner;
        char* memory = allocate();
        fill(memory, kBytes);
        urma_target_seg_t* segment = owner.add(memory, kBytes, kAllAccess, kToken);
        channel.send(offer_of(owner, segment, kToken));
        channel.sync();
        owner.remove(segment);
        *word_at(memory, 8) = 1;
        *word_at(memory, kBytes - 8) = 1;
        channel.sync();
        channel.sync();
        expect_filled(memory, kBytes);
        EXPECT_EQ(*word_at(memory, 8), 1u);
        EXPECT_EQ(*word_at(memory, 16), 0u);
        EXPECT_EQ(*word_at(memory, kBytes - 8), 1u);
        // It can be registered again, and the former importer has no access.
        segment = owner.add(memory, kBytes, kAllAccess, kToken + 1);
        channel.send(offer_of(owner, segment, kToken + 1));
        channel.sync();
        EXPECT_EQ(*word_at(memory, 16), 3u);
        owner.remove(segment);
        release(memory);
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        ASSERT_NE(peer.remote->mva, 0u);
        volatile uint64_t* const former = peer.mapped_word(0);
        EXPECT_EQ(former[0], 1u);
        channel.sync();
        channel.sync();
        peer.expect_refused(URMA_CR_REM_ACCESS_ABORT_ERR);
        EXPECT_EQ(former[1], 0u);
        EXPECT_EQ(former[kBytes / 8 - 1], 0u);
        for (uint64_t at = 0; at < kBytes; at += kPage) {
          former[at / 8] = 77;
          former[at / 8 + 2] = 77;
        }
        channel.sync();
        const auto offer = channel.receive<Offer>();
        peer.remote = peer.endpoint.import(offer.segment, true);
        ASSERT_NE(peer.remote->mva, 0u);
        EXPECT_EQ(*peer.mapped_word(16), 0u);
        *peer.mapped_word(16) = 3;
        EXPECT_EQ(former[2], 77u);
        channel.sync();
      });
}

INSTANTIATE_TEST_SUITE_P(All, MappingRightsTest, testing::Values(Origin::kPrivate, Origin::kOwn),
                         [](const auto& info) {
                           return std::string(info.param == Origin::kOwn ? "ExtAlloc" : "Private");
                         });

}  // namespace
}  // namespace urma_test
