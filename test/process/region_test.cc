// SPDX-License-Identifier: MIT
//
// URMA regions: segments of several processes under one name.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr uint64_t kToken = 0x1234'5678'0000'4321;
constexpr uint32_t kSegmentToken = 0x4321;
constexpr uint64_t kBytes = 4096;
constexpr const char* kName = "a region, with spaces";

class RegionTest : public ProcessTest {
 protected:
  void SetUp() override { SKIP_UNLESS_SHARED_MEMORY("regions exist"); }
};

urma_ur_t region(const std::string& name = kName, uint64_t size = 0, uint32_t access = 0) {
  urma_ur_t ur = {};
  name.copy(ur.name, sizeof(ur.name) - 1);
  ur.size = size;
  ur.attr.value = access;
  ur.token = kToken;
  return ur;
}

// A process with one-page segments, each with its number in the first word.
class Member {
 public:
  explicit Member(uint32_t segments, uint32_t access = kAllAccess, uint64_t first = 0)
      : memory_(segments * kBytes / sizeof(uint64_t)) {
    for (uint32_t i = 0; i < segments; ++i) {
      uint64_t* page = memory_.data() + i * kBytes / sizeof(uint64_t);
      page[0] = first + i;
      list.push_back(endpoint.add(page, kBytes, access, kSegmentToken));
    }
  }
  urma_status_t attach(const char* name = kName, uint64_t token = kToken) {
    return urma_attach_ur(endpoint.ctx, name, token, list.data(),
                          static_cast<uint32_t>(list.size()));
  }
  urma_status_t detach(const char* name = kName) {
    return urma_detach_ur(endpoint.ctx, name, list.data(), static_cast<uint32_t>(list.size()));
  }
  uint64_t& word(size_t segment) { return memory_[segment * kBytes / sizeof(uint64_t)]; }

  Endpoint endpoint;
  std::vector<urma_target_seg_t*> list;

 private:
  std::vector<uint64_t> memory_;
  const Closing closing_{endpoint};
};

// An importer of a region, which reads and writes its segments by requests.
class Importer {
 public:
  explicit Importer(const QueueId& anybody) : queue_(endpoint.import(anybody)) {
    local_ = endpoint.add(&word_, sizeof(word_));
  }
  urma_target_ur_t* import(uint64_t token = kToken, const char* name = kName) {
    errno = 0;
    return urma_import_ur(endpoint.ctx, name, token, {});
  }
  urma_cr_status_t read(urma_target_seg_t* segment, uint64_t* value) {
    urma_sge_t here = piece(local_, &word_, 8);
    urma_sge_t there = piece(segment, segment->seg.ubva.va, 8);
    endpoint.post(read_request(queue_, &here, &there, 1));
    const urma_cr_status_t status = wait_for(endpoint.send_jfc).status;
    *value = word_;
    return status;
  }
  urma_cr_status_t write(urma_target_seg_t* segment, uint64_t value) {
    word_ = value;
    urma_sge_t here = piece(local_, &word_, 8);
    urma_sge_t there = piece(segment, segment->seg.ubva.va, 8);
    endpoint.post(write_request(queue_, &here, &there, 2));
    return wait_for(endpoint.send_jfc).status;
  }
  void expect(const urma_target_ur_t* ur, const std::vector<uint64_t>& values) {
    ASSERT_EQ(ur->cnt, values.size());
    for (uint32_t i = 0; i < ur->cnt; ++i) {
      uint64_t value = 0;
      EXPECT_EQ(read(ur->tseg_list[i], &value), URMA_CR_SUCCESS);
      EXPECT_EQ(value, values[i]) << i;
    }
  }

  Endpoint endpoint;

 private:
  urma_target_jetty_t* queue_;
  urma_target_seg_t* local_;
  alignas(8) uint64_t word_ = 0;
  const Closing closing_{endpoint};
};

bool becomes_readable(int fd) {
  pollfd ready = {fd, POLLIN, 0};
  return ::poll(&ready, 1, 10'000) == 1;
}

// Waits until the import has `count` segments; they may come and go one by one.
urma_status_t wait_for_count(urma_target_ur_t* ur, uint32_t count) {
  urma_status_t status;
  while ((status = urma_ext_refresh_ur(ur)) == URMA_SUCCESS && ur->cnt != count) {
    EXPECT_TRUE(becomes_readable(urma_ext_ur_fd(ur)));
  }
  return status;
}

// A process that attaches `segments` segments, numbered from `first`.
Body member(uint32_t segments, uint64_t first, uint32_t access = kAllAccess) {
  return [=](Channel& test) {
    Member self(segments, access, first);
    test.send(self.endpoint.queue_id());
    test.receive<char>();
    ASSERT_EQ(self.attach(), URMA_SUCCESS);
    test.sync();
    test.sync();
    EXPECT_EQ(self.word(0), first + 1000);
    EXPECT_EQ(self.detach(), URMA_SUCCESS);
    EXPECT_EQ(self.detach(), URMA_EINVAL);
    test.sync();
    test.sync();
  };
}

TEST_F(RegionTest, HoldsSegmentsOfSeveralProcesses) {
  run_one([](Channel&) {
    Child first("first", member(2, 10)), second("second", member(1, 20));
    const auto anybody = first.channel().receive<QueueId>();
    second.channel().receive<QueueId>();
    Importer self(anybody);
    urma_ur_t ur = region();
    ASSERT_EQ(urma_create_ur(self.endpoint.ctx, &ur), URMA_SUCCESS);
    urma_target_ur_t* imported = self.import();
    ASSERT_NE(imported, nullptr);
    EXPECT_STREQ(imported->name, kName);
    EXPECT_EQ(imported->cnt, 0u);
    for (Child* child : {&first, &second}) {
      child->channel().send('a');
      child->channel().sync();
    }
    ASSERT_EQ(wait_for_count(imported, 3), URMA_SUCCESS);
    self.expect(imported, {10, 11, 20});
    EXPECT_EQ(self.write(imported->tseg_list[0], 1010), URMA_CR_SUCCESS);
    EXPECT_EQ(self.write(imported->tseg_list[2], 1020), URMA_CR_SUCCESS);
    first.channel().sync();
    first.channel().sync();
    ASSERT_EQ(wait_for_count(imported, 1), URMA_SUCCESS);
    self.expect(imported, {1020});
    second.channel().sync();
    second.channel().sync();
    ASSERT_EQ(wait_for_count(imported, 0), URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_ur(imported), URMA_SUCCESS);
    EXPECT_EQ(urma_destroy_ur(self.endpoint.ctx, kName), URMA_SUCCESS);
    EXPECT_EQ(urma_destroy_ur(self.endpoint.ctx, kName), URMA_EINVAL);
    for (Child* child : {&first, &second}) {
      child->channel().sync();
      child->expect_success();
    }
  });
}

// Its segments go; those of the others and the region stay; importers are notified.
TEST_F(RegionTest, DropsTheSegmentsOfAKilledMember) {
  run_one([](Channel&) {
    Child dying("dying", member(2, 10)), other("other", member(1, 20));
    dying.channel().receive<QueueId>();
    Importer self(other.channel().receive<QueueId>());
    urma_ur_t ur = region();
    ASSERT_EQ(urma_create_ur(self.endpoint.ctx, &ur), URMA_SUCCESS);
    for (Child* child : {&dying, &other}) {
      child->channel().send('a');
      child->channel().sync();
    }
    urma_target_ur_t* imported = self.import();
    ASSERT_NE(imported, nullptr);
    self.expect(imported, {10, 11, 20});
    ASSERT_EQ(urma_ext_refresh_ur(imported), URMA_SUCCESS);
    dying.kill();
    ASSERT_TRUE(becomes_readable(urma_ext_ur_fd(imported)));
    ASSERT_EQ(wait_for_count(imported, 1), URMA_SUCCESS);
    self.expect(imported, {20});
    uint32_t count = 0;
    EXPECT_EQ(urma_lookup_ur(self.endpoint.ctx, kName, nullptr, &count), URMA_SUCCESS);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(self.write(imported->tseg_list[0], 1020), URMA_CR_SUCCESS);
    for (int i = 0; i < 3; ++i) other.channel().sync();
    other.expect_success();
    EXPECT_EQ(urma_unimport_ur(imported), URMA_SUCCESS);
  });
}

TEST_F(RegionTest, EndsWithTheProcessThatCreatedIt) {
  run_one([](Channel&) {
    Child owner("owner", [](Channel& test) {
      Endpoint endpoint;
      urma_ur_t ur = region();
      ASSERT_EQ(urma_create_ur(endpoint.ctx, &ur), URMA_SUCCESS);
      test.sync();
      test.sync();
    });
    owner.channel().sync();
    Member self(1, kAllAccess, 5);
    ASSERT_EQ(self.attach(), URMA_SUCCESS);
    urma_ur_t ur = region();
    EXPECT_EQ(urma_create_ur(self.endpoint.ctx, &ur), URMA_EEXIST);
    EXPECT_EQ(urma_destroy_ur(self.endpoint.ctx, kName), URMA_EINVAL);
    urma_target_ur_t* imported = urma_import_ur(self.endpoint.ctx, kName, kToken, {});
    ASSERT_NE(imported, nullptr);
    EXPECT_EQ(imported->cnt, 1u);
    owner.kill();
    EXPECT_EQ(wait_for_count(imported, 99), URMA_FAIL);
    EXPECT_EQ(imported->cnt, 0u);
    EXPECT_EQ(urma_unimport_ur(imported), URMA_SUCCESS);
    EXPECT_EQ(self.attach(), URMA_EINVAL);
    EXPECT_EQ(urma_import_ur(self.endpoint.ctx, kName, kToken, {}), nullptr);
    EXPECT_EQ(errno, EINVAL);
    // Its attached segments can be detached, and its name is free.
    EXPECT_EQ(self.detach(), URMA_SUCCESS);
    ASSERT_EQ(urma_create_ur(self.endpoint.ctx, &ur), URMA_SUCCESS);
    uint32_t count = 0;
    EXPECT_EQ(urma_lookup_ur(self.endpoint.ctx, kName, nullptr, &count), URMA_SUCCESS);
    EXPECT_EQ(count, 0u);
  });
}

// Files of segments in the runtime directory.
size_t segment_files() {
  size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::getenv("URMA_RUNTIME_DIR"))) {
    if (entry.path().filename().native().find(".urseg-") != std::string::npos) ++found;
  }
  return found;
}

// The program has not detached what it attached to the former ones.
TEST_F(RegionTest, OfAReusedNameLeavesNothingOfTheFormerOnes) {
  run_one([](Channel&) {
    Member both(2);
    urma_context_t* const ctx = both.endpoint.ctx;
    urma_ur_t ur = region();
    for (int round = 0; round < 5; ++round) {
      ASSERT_EQ(urma_create_ur(ctx, &ur), URMA_SUCCESS);
      // The second one is in the first region only.
      const uint32_t count = round == 0 ? 2 : 1;
      ASSERT_EQ(urma_attach_ur(ctx, kName, kToken, both.list.data(), count), URMA_SUCCESS);
      EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, both.list.data(), 1), URMA_EEXIST);
      EXPECT_EQ(segment_files(), 2u);
      ASSERT_EQ(urma_destroy_ur(ctx, kName), URMA_SUCCESS);
    }
    EXPECT_EQ(both.detach(), URMA_SUCCESS);
    EXPECT_EQ(segment_files(), 0u);
    EXPECT_EQ(both.detach(), URMA_EINVAL);
  });
}

TEST_F(RegionTest, HasALimitRightsAndAToken) {
  run_one([](Channel&) {
    Member self(4, URMA_ACCESS_READ);
    urma_context_t* ctx = self.endpoint.ctx;
    urma_ur_t ur = region(kName, 3 * kBytes, URMA_ACCESS_READ);
    ASSERT_EQ(urma_create_ur(ctx, &ur), URMA_SUCCESS);
    EXPECT_EQ(self.attach(kName, kToken + 1), URMA_ENOPERM);
    EXPECT_EQ(self.attach("another"), URMA_EINVAL);
    EXPECT_EQ(self.attach(), URMA_ENOMEM);
    uint32_t count = 0;
    EXPECT_EQ(urma_lookup_ur(ctx, kName, nullptr, &count), URMA_SUCCESS);
    EXPECT_EQ(count, 0u);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, self.list.data(), 3), URMA_SUCCESS);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, self.list.data() + 3, 1), URMA_ENOMEM);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, self.list.data(), 1), URMA_EEXIST);
    // A detach of a segment that is not attached removes none.
    EXPECT_EQ(self.detach(), URMA_EINVAL);
    EXPECT_EQ(urma_detach_ur(ctx, kName, self.list.data(), 1), URMA_SUCCESS);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, self.list.data() + 3, 1), URMA_SUCCESS);
    static uint64_t more[2];
    urma_target_seg_t* writable =
        self.endpoint.add(&more[0], 8, URMA_ACCESS_READ | URMA_ACCESS_WRITE, kSegmentToken);
    EXPECT_EQ(urma_detach_ur(ctx, kName, self.list.data() + 3, 1), URMA_SUCCESS);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, &writable, 1), URMA_ENOPERM);
    urma_target_seg_t* closed = self.endpoint.add(&more[1], 8, URMA_ACCESS_LOCAL_ONLY);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, &closed, 1), URMA_ENOPERM);
    EXPECT_EQ(urma_import_ur(ctx, kName, kToken + 1, {}), nullptr);
    EXPECT_EQ(errno, EPERM);
  });
}

TEST_F(RegionTest, TakesUpTo64SegmentsACall) {
  run_one([](Channel&) {
    Member self(URMA_MAX_SEGS_PER_UR_OPT + 1, kAllAccess, 100);
    urma_context_t* ctx = self.endpoint.ctx;
    urma_ur_t ur = region();
    ASSERT_EQ(urma_create_ur(ctx, &ur), URMA_SUCCESS);
    EXPECT_EQ(self.attach(), URMA_EINVAL);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, self.list.data(), 0), URMA_EINVAL);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, self.list.data(), URMA_MAX_SEGS_PER_UR_OPT),
              URMA_SUCCESS);
    EXPECT_EQ(urma_attach_ur(ctx, kName, kToken, &self.list.back(), 1), URMA_SUCCESS);
    uint32_t count = 2;
    std::vector<char> memory(sizeof(urma_ur_info_t) + count * sizeof(urma_seg_info_t));
    auto* info = reinterpret_cast<urma_ur_info_t*>(memory.data());
    EXPECT_EQ(urma_lookup_ur(ctx, kName, info, &count), URMA_SUCCESS);
    EXPECT_EQ(count, URMA_MAX_SEGS_PER_UR_OPT + 1u);
    EXPECT_EQ(info->cnt, 2u);
    EXPECT_STREQ(info->name, kName);
    EXPECT_EQ(info->seg_list[1].idx_in_ur, 1u);
    EXPECT_EQ(uint64_t{info->seg_list[1].seg.ubva.va}, uint64_t{self.list[1]->seg.ubva.va});
    EXPECT_EQ(info->seg_list[1].seg.token_id, self.list[1]->seg.token_id);
  });
}

TEST_F(RegionTest, ImportsMayBeMapped) {
  constexpr uint64_t kMapped = 4 * kBytes;
  run_two(
      "owner",
      [](Channel& peer) {
        OwnedEndpoint endpoint;
        auto* memory = static_cast<uint64_t*>(urma_ext_alloc(kMapped, 0));
        ASSERT_NE(memory, nullptr);
        urma_target_seg_t* segment = endpoint.add(memory, kMapped, kAllAccess, kSegmentToken);
        urma_ur_t ur = region();
        ASSERT_EQ(urma_create_ur(endpoint.ctx, &ur), URMA_SUCCESS);
        ASSERT_EQ(urma_attach_ur(endpoint.ctx, kName, kToken, &segment, 1), URMA_SUCCESS);
        memory[1] = 17;
        peer.sync();
        peer.sync();
        EXPECT_EQ(memory[2], 18u);
        endpoint.remove(segment);
        EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
      },
      "importer",
      [](Channel& peer) {
        peer.sync();
        OwnedEndpoint endpoint;
        urma_import_ur_flag_t flag = {};
        flag.bs.mapping = URMA_SEG_MAPPED;
        urma_target_ur_t* imported = urma_import_ur(endpoint.ctx, kName, kToken, flag);
        ASSERT_NE(imported, nullptr);
        ASSERT_EQ(imported->cnt, 1u);
        ASSERT_NE(imported->tseg_list[0]->mva, 0u);
        auto* words = reinterpret_cast<volatile uint64_t*>(imported->tseg_list[0]->mva);
        EXPECT_EQ(words[1], 17u);
        words[2] = 18;
        EXPECT_EQ(urma_unimport_ur(imported), URMA_SUCCESS);
        peer.sync();
      });
}

TEST_F(RegionTest, NamesAreListedByEid) {
  run_one([](Channel&) {
    Endpoint endpoint;
    urma_context_t* other = urma_create_context(endpoint.ctx->dev, 1);
    ASSERT_NE(other, nullptr);
    const std::string longest(UR_NAME_MAX_LEN - 1, 'n');
    for (const std::string& name : {std::string("b"), std::string("a"), longest}) {
      urma_ur_t ur = region(name, 7, URMA_ACCESS_READ);
      EXPECT_EQ(urma_create_ur(endpoint.ctx, &ur), URMA_SUCCESS);
    }
    urma_ur_t same = region("a");
    errno = EPROTO;
    EXPECT_EQ(urma_create_ur(endpoint.ctx, &same), URMA_EEXIST);
    EXPECT_EQ(errno, EPROTO);
    EXPECT_EQ(urma_create_ur(other, &same), URMA_SUCCESS);
    uint32_t count = 2;
    urma_ur_t list[2];
    EXPECT_EQ(urma_get_ur_list(endpoint.ctx, list, &count), URMA_SUCCESS);
    EXPECT_EQ(count, 3u);
    EXPECT_STREQ(list[0].name, "a");
    EXPECT_STREQ(list[1].name, "b");
    EXPECT_EQ(list[0].size, 7u);
    EXPECT_EQ(list[0].attr.value, static_cast<uint32_t>(URMA_ACCESS_READ));
    EXPECT_EQ(list[0].token, 0u);
    count = 0;
    EXPECT_EQ(urma_get_ur_list(other, nullptr, &count), URMA_SUCCESS);
    EXPECT_EQ(count, 1u);
    // Invalid names and attributes.
    urma_ur_t bad = region("");
    EXPECT_EQ(urma_create_ur(endpoint.ctx, &bad), URMA_EINVAL);
    std::memset(bad.name, 'x', sizeof(bad.name));
    EXPECT_EQ(urma_create_ur(endpoint.ctx, &bad), URMA_EINVAL);
    bad = region("c", 0, 1U << 30);
    EXPECT_EQ(urma_create_ur(endpoint.ctx, &bad), URMA_EINVAL);
    EXPECT_EQ(urma_create_ur(nullptr, &same), URMA_EINVAL);
    EXPECT_EQ(urma_create_ur(endpoint.ctx, nullptr), URMA_EINVAL);
    EXPECT_EQ(urma_ext_ur_fd(nullptr), -1);
    EXPECT_EQ(urma_delete_context(other), URMA_SUCCESS);
    endpoint.close();
  });
}

// A forked child that lives on keeps no name of its dead parent.
TEST_F(RegionTest, EndsWithItsProcessThoughAForkedChildLivesOn) {
  if (kSanitized) GTEST_SKIP() << "a sanitized program with threads may hang in fork";
  Child parent("parent", [](Channel& test) {
    Endpoint endpoint;
    urma_ur_t ur = region();
    ASSERT_EQ(urma_create_ur(endpoint.ctx, &ur), URMA_SUCCESS);
    if (::fork() == 0) {
      ::alarm(60);
      test.send('c');
      // Ends with an exception at the latest when the test does.
      test.sync();
      ::_exit(0);
    }
    ::pause();
  });
  ASSERT_EQ(parent.channel().receive<char>(), 'c');
  parent.kill();
  run_one([](Channel&) {
    Endpoint endpoint;
    uint32_t count = 0;
    EXPECT_EQ(urma_get_ur_list(endpoint.ctx, nullptr, &count), URMA_SUCCESS);
    EXPECT_EQ(count, 0u);
    urma_ur_t ur = region();
    EXPECT_EQ(urma_create_ur(endpoint.ctx, &ur), URMA_SUCCESS);
    endpoint.close();
  });
  parent.channel().sync();  // with the child
}

TEST_F(RegionTest, CannotBeRefreshedAfterUninit) {
  run_one([](Channel&) {
    const CarelessThread careless;
    Endpoint endpoint;
    urma_ur_t ur = region();
    ASSERT_EQ(urma_create_ur(endpoint.ctx, &ur), URMA_SUCCESS);
    urma_target_ur_t* imported = urma_import_ur(endpoint.ctx, kName, kToken, {});
    ASSERT_NE(imported, nullptr);
    EXPECT_EQ(urma_ext_refresh_ur(imported), URMA_SUCCESS);
    ASSERT_EQ(urma_uninit(), URMA_SUCCESS);
    EXPECT_EQ(urma_ext_refresh_ur(imported), URMA_EINVAL);
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    EXPECT_EQ(urma_ext_refresh_ur(imported), URMA_EINVAL);
    EXPECT_EQ(urma_unimport_ur(imported), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

// Garbage that someone else has written is neither a region nor a segment.
TEST_F(RegionTest, RefusesMalformedFiles) {
  run_one([](Channel&) {
    Member self(1, kAllAccess, 5);
    urma_ur_t ur = region();
    ASSERT_EQ(urma_create_ur(self.endpoint.ctx, &ur), URMA_SUCCESS);
    ASSERT_EQ(self.attach(), URMA_SUCCESS);
    const std::string dir = std::getenv("URMA_RUNTIME_DIR");
    std::string segment;
    for (const auto& entry : std::filesystem::directory_iterator(dir)) {
      const std::string name = entry.path().filename();
      if (name.find(".urseg-") != std::string::npos) segment = name;
    }
    ASSERT_NE(segment, "");
    const std::string tail = segment.substr(segment.find('.'));
    std::ifstream file(dir + "/" + segment, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(file)), {});
    // Of an unused slot, of none, too short, and of another kind.
    const uint32_t slot = static_cast<uint32_t>(std::stoul(segment));
    std::ofstream(dir + "/" + std::to_string(slot == 7 ? 8 : 7) + tail) << content;
    std::ofstream(dir + "/x" + tail) << content;
    std::ofstream(dir + "/" + std::to_string(slot) + tail + "1") << content.substr(1);
    std::ofstream(dir + "/" + std::to_string(slot) + tail + "2")
        << std::string(content.size(), 'x');
    std::ofstream(dir + "/ur-0-0123456789abcdef") << content;
    uint32_t count = 0;
    EXPECT_EQ(urma_lookup_ur(self.endpoint.ctx, kName, nullptr, &count), URMA_SUCCESS);
    EXPECT_EQ(count, 1u);
    EXPECT_EQ(urma_get_ur_list(self.endpoint.ctx, nullptr, &count), URMA_EINVAL);
    count = 0;
    EXPECT_EQ(urma_get_ur_list(self.endpoint.ctx, nullptr, &count), URMA_SUCCESS);
    EXPECT_EQ(count, 1u);
  });
}

}  // namespace
}  // namespace urma_test
