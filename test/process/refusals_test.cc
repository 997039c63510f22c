// SPDX-License-Identifier: MIT
//
// What a kernel or an administrator may refuse: each refusal only costs speed or is an error with a
// status, and urma_admin reports it.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/footprint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/refusal.h"
#include "test/tools/tool_process.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = 4 * kMiB;

using Refusal = std::function<void()>;

std::string admin(const std::vector<std::string>& words) {
  const ToolResult result = run_tool(program_path("URMA_ADMIN"), words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

std::string admin_of(const Child& child, std::vector<std::string> words) {
  words.insert(words.end(), {"--pid", std::to_string(child.pid())});
  return admin(words);
}

class RefusalsTest : public ProcessTest {
 protected:
  void SetUp() override { SKIP_UNLESS_SHARED_MEMORY("the library makes these system calls"); }
};

// -------------------------------------------------------------------------------------------------
// Memory that cannot be shared is copied
// -------------------------------------------------------------------------------------------------

// `before` is refused before the owner starts the library, `after` once it has.
void own_copied(Channel& channel, const Refusal& before, const Refusal& after) {
  if (before) before();
  const Pages memory(kBytes);
  OwnedEndpoint endpoint;
  fill(memory.get(), kBytes);
  if (after) after();
  urma_target_seg_t* segment = endpoint.add(memory.get(), kBytes);
  channel.send(offer_of(endpoint, segment));
  channel.sync();
  EXPECT_EQ(*memory.word(8), 8U);
  EXPECT_EQ(*memory.word(16), 5U);
  EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
  expect_filled(memory.get(), kBytes);
  channel.sync();
}

void import_copied(Channel& channel, urma_ext_reason_t reason) {
  Importer peer(channel.receive<Offer>());
  peer.write(8, 8);
  EXPECT_EQ(peer.read(8), 8U);
  EXPECT_EQ(peer.add(16, 5), 0U);
  EXPECT_EQ(peer.read(kBytes - kPage), kBytes / kPage);
  expect_all_copied(peer.remote, reason);
  channel.sync();
  channel.sync();
}

// `shown_by`: the processes that urma_admin can ask.
enum class ShownBy { kBoth, kImporter };
void expect_copied(const Refusal& before, const Refusal& after, urma_ext_reason_t reason,
                   ShownBy shown_by = ShownBy::kBoth) {
  Child owner("owner", [&](Channel& channel) { own_copied(channel, before, after); });
  Child importer("importer", [&](Channel& channel) { import_copied(channel, reason); });
  importer.channel().send(owner.channel().receive<Offer>());
  introduce<char>(owner, importer);
  const std::string why = urma_ext_reason_text(reason);
  for (const Child* child : {&importer, &owner}) {
    if (child == &owner && shown_by == ShownBy::kImporter) break;
    const std::string shown = admin_of(*child, {"show", "segments"});
    EXPECT_NE(shown.find(why), std::string::npos) << shown;
  }
  introduce<char>(owner, importer);
  owner.expect_success();
  importer.expect_success();
}

TEST_F(RefusalsTest, UserfaultfdIsRefused) {
  SKIP_UNLESS_IN_PLACE();
  const auto refusal = [] {
    refuse(SYS_userfaultfd, EPERM);
    refuse_where(SYS_ioctl, 1, USERFAULTFD_IOC_NEW, EPERM);
  };
  expect_copied(refusal, nullptr, URMA_EXT_REASON_NO_FREEZE);
}

TEST_F(RefusalsTest, SealsAreRefused) {
  SKIP_UNLESS_IN_PLACE();
  const auto refusal = [] { refuse_where(SYS_fcntl, 1, F_ADD_SEALS, EPERM); };
  // The reply to the tool goes through sealed memory, too.
  expect_copied(nullptr, refusal, URMA_EXT_REASON_KERNEL, ShownBy::kImporter);
}

// Mappings of the program, up to `left` below the limit of the kernel. They end with the process.
void map_all_but(size_t left) {
  size_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  const size_t taken = count_mappings();
  ASSERT_GT(limit, taken + left);
  const size_t count = limit - taken - left;
  auto* many = static_cast<char*>(::mmap(nullptr, 2 * count * kPage, PROT_NONE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(many, MAP_FAILED);
  for (size_t i = 0; i < count / 2; ++i) {
    if (::mprotect(many + 2 * i * kPage, kPage, PROT_READ) != 0) break;
  }
}

class MappingsTest : public RefusalsTest {
 protected:
  void SetUp() override {
    RefusalsTest::SetUp();
    if (kSanitized) GTEST_SKIP() << "the sanitizers keep a record of each mapping";
    size_t limit = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> limit;
    if (limit > 100000) GTEST_SKIP() << "vm.max_map_count is " << limit;
  }
};

TEST_F(MappingsTest, AreReservedForTheProgram) {
  SKIP_UNLESS_IN_PLACE();
  expect_copied(
      nullptr, [] { map_all_but(600); }, URMA_EXT_REASON_LIMIT);
}

// A message needs a ring, and a ring a mapping: without it the message ends with an error; once it
// is possible again, a message arrives.
TEST_F(MappingsTest, ExhaustionFailsANewRing) {
  run_two(
      "receiver",
      [](Channel& channel) {
        const Pages room(kPage);
        OwnedEndpoint receiver;
        urma_target_seg_t* segment = receiver.add(room.get(), kPage);
        receiver.post_receive(segment, room.get(), kPage, 7);
        channel.send(receiver.queue_id());
        wait_for_success(receiver.receive_jfc, 7);
        channel.sync();
      },
      "sender",
      [](Channel& channel) {
        Endpoint sender;
        const Pages room(kPage);
        urma_target_seg_t* segment = sender.add(room.get(), kPage);
        urma_target_jetty_t* queue = sender.import(channel.receive<QueueId>());
        urma_sge_t here = piece(segment, room.get(), 8);
        std::vector<void*> taken;
        map_all_but(200);
        // Adjacent mappings of the same kind would be merged.
        for (int i = 0;; ++i) {
          const int protection = i % 2 == 0 ? PROT_NONE : PROT_READ;
          void* page = ::mmap(nullptr, kPage, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
          if (page == MAP_FAILED) break;
          taken.push_back(page);
        }
        sender.post(send_request(queue, &here, 1));
        EXPECT_EQ(wait_for(sender.send_jfc).status, URMA_CR_LOC_OPERATION_ERR);
        for (void* page : taken) ::munmap(page, kPage);
        sender.post(send_request(queue, &here, 2));
        wait_for_success(sender.send_jfc, 2);
        channel.sync();
        sender.close();
      });
}

// -------------------------------------------------------------------------------------------------
// Without shared memory there is no device
// -------------------------------------------------------------------------------------------------

// What a process sees that starts under a refusal: no device, and a reason that contains `why`.
void expect_no_device(const std::string& why) {
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  char name[] = "urma_shm0";
  EXPECT_EQ(urma_get_device_by_name(name), nullptr);
  std::vector<urma_ext_provider_t> providers(16);
  auto count = static_cast<uint32_t>(providers.size());
  ASSERT_EQ(urma_ext_query_providers(0, providers.data(), &count), URMA_SUCCESS);
  providers.resize(count);
  EXPECT_TRUE(std::any_of(providers.begin(), providers.end(), [&](const auto& provider) {
    return std::string(provider.reason).find(why) != std::string::npos;
  })) << admin({"show", "providers"});
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  // The tool under the same refusal.
  const std::string shown = admin({"show", "providers"});
  EXPECT_NE(shown.find(why), std::string::npos) << shown;
}

TEST_F(RefusalsTest, SealsAreRefusedFromTheStart) {
  run_one([](Channel&) {
    refuse_where(SYS_fcntl, 1, F_ADD_SEALS, EPERM);
    expect_no_device("sealing");
  });
}

TEST_F(RefusalsTest, SharedMemoryIsRefusedFromTheStart) {
  run_one([](Channel&) {
    refuse(SYS_memfd_create, ENOSYS);
    expect_no_device("making shared memory");
  });
}

// -------------------------------------------------------------------------------------------------
// What only speeds things up
// -------------------------------------------------------------------------------------------------

// Allocates with huge pages, and lets a peer map and use it.
void use_own_memory(const Refusal& refusal) {
  run_two(
      "owner",
      [&](Channel& channel) {
        OwnedEndpoint endpoint;
        refusal();
        auto* own = static_cast<char*>(urma_ext_alloc(kBytes, URMA_EXT_ALLOC_HUGE));
        ASSERT_NE(own, nullptr);
        urma_target_seg_t* segment = endpoint.add(own, kBytes);
        channel.send(offer_of(endpoint, segment));
        channel.sync();
        EXPECT_EQ(*word_at(own, kBytes - 8), 9U);
        endpoint.remove(segment);
        EXPECT_EQ(urma_ext_free(own), URMA_SUCCESS);
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        expect_all_mapped(peer.remote);
        peer.write(kBytes - 8, 9);
        channel.sync();
      });
}

TEST_F(RefusalsTest, HugePagesAreRefused) {
  constexpr uint32_t kCollapse = 25;  // MADV_COLLAPSE, newer than some headers
  use_own_memory([] {
    refuse_where(SYS_madvise, 2, MADV_HUGEPAGE, EINVAL);
    refuse_where(SYS_madvise, 2, kCollapse, EINVAL);
  });
}

// -------------------------------------------------------------------------------------------------
// Address space
// -------------------------------------------------------------------------------------------------

void limit_address_space(uint64_t more) {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit limit = {pages * kPage + more, RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}

class AddressSpaceTest : public RefusalsTest {
 protected:
  void SetUp() override {
    RefusalsTest::SetUp();
    if (kSanitized) GTEST_SKIP() << "a sanitizer ends a program that runs out of address space";
  }
};

// Whatever is left of it, the library starts or says why not, and ends.
TEST_F(AddressSpaceTest, IsShortAtTheStart) {
  run_one([](Channel&) {
    for (const uint64_t more : {uint64_t{0}, kMiB, 4 * kMiB, 10 * kMiB, 20 * kMiB, 100 * kMiB}) {
      SCOPED_TRACE(more);
      limit_address_space(more);
      const urma_status_t status = urma_init(nullptr);
      if (status != URMA_SUCCESS) continue;
      int count = 0;
      errno = 0;
      urma_device_t** list = urma_get_device_list(&count);
      EXPECT_TRUE(list != nullptr || errno != 0);
      urma_free_device_list(list);
      EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
      const rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
      ASSERT_EQ(::setrlimit(RLIMIT_AS, &none), 0);
    }
  });
}

// An importer without room for the shared memory of the owner copies it.
TEST_F(AddressSpaceTest, IsShortAtTheImporter) {
  run_two(
      "owner",
      [](Channel& channel) {
        OwnedEndpoint endpoint;
        auto* first = static_cast<char*>(urma_ext_alloc(kBytes, 0));
        auto* own = static_cast<char*>(urma_ext_alloc(kBytes, 0));
        urma_target_seg_t* const segments[] = {endpoint.add(first, kBytes),
                                               endpoint.add(own, kBytes)};
        for (urma_target_seg_t* segment : segments) channel.send(offer_of(endpoint, segment));
        channel.sync();
        EXPECT_EQ(*word_at(own, kBytes - 8), 9U);
        for (urma_target_seg_t* segment : segments) endpoint.remove(segment);
        EXPECT_EQ(urma_ext_free(first), URMA_SUCCESS);
        EXPECT_EQ(urma_ext_free(own), URMA_SUCCESS);
      },
      "importer",
      [](Channel& channel) {
        // With a ring, a link and a mapping in place: the next mapping is refused.
        Importer peer(channel.receive<Offer>());
        const auto offer = channel.receive<Offer>();
        peer.endpoint.unimport(peer.remote);
        limit_address_space(kBytes / 2);
        peer.remote = peer.endpoint.import(offer.segment);
        peer.write(kBytes - 8, 9);
        EXPECT_EQ(peer.read(kBytes - 8), 9U);
        EXPECT_EQ(parts_of(peer.remote).front().path, URMA_EXT_PATH_COPIED);
        channel.sync();
      });
}

}  // namespace
}  // namespace urma_test
