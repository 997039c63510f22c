// SPDX-License-Identifier: MIT
//
// The ids of the bonded device, with a runtime directory that is a folder and a network of names.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jetty/network.h"
#include "urma/base/error.h"
#include "urma/providers/bond/ids.h"
#include "urma/providers/shm/protocol.h"

namespace urma::bond {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSlot = 7;
constexpr uint32_t kNumber = 20000;
constexpr PortRange kPorts = {20000, 28191};

// Hands out ids one after another.
class Directory final : public Runtime {
 public:
  Directory() {
    const char* base = ::getenv("TEST_TMPDIR");
    path_ = urma::format("{}/idsXXXXXX", base == nullptr ? "/tmp" : base);
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
    fd_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    eids_[0].raw[15] = 1;
  }
  ~Directory() override { fs::remove_all(path_); }

  int dir_fd() const override { return fd_.get(); }
  const std::string& path() const override { return path_; }
  mode_t file_mode() const override { return 0660; }
  bool admits(uid_t) const override { return true; }
  std::string peer_users() const override { return users; }
  bool is_admitted_by(uid_t user, std::string_view peer_users) const override {
    EXPECT_EQ(user, ::geteuid());
    return peer_users == users;
  }
  uint32_t slot() const override { return kSlot; }
  uint32_t uasid() const override { return 1; }
  uint64_t nonce() const override { return 1; }
  std::span<const urma_eid_t> eids() const override { return eids_; }
  std::span<const urma_eid_t> all_eids() const override { return eids_; }
  uint32_t alloc_id(IdKind kind) override {
    while (!taken.insert({kind, next}).second) ++next;
    return next++;
  }
  void reserve_id(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override {
    if (!taken.insert({kind, id}).second) fail(URMA_EEXIST, "taken");
  }
  void free_id(IdKind kind, uint32_t /*eid_index*/, uint32_t id) override {
    EXPECT_EQ(taken.erase({kind, id}), 1U);
  }
  std::optional<uint32_t> owner_slot(IdKind kind, const urma_eid_t&, uint32_t id) override {
    return taken.contains({kind, id}) ? std::optional(kSlot) : std::nullopt;
  }
  std::string socket_name(uint32_t slot, const char* provider) const override {
    return urma::format("{}.{}", slot, provider);
  }

  std::set<std::pair<IdKind, uint32_t>> taken;
  uint32_t next = 1024;
  std::string users = "*";

 private:
  std::string path_;
  Fd fd_;
  std::vector<urma_eid_t> eids_{1};
};

class Host final : public PortHost {
 public:
  std::shared_ptr<void> claim(const std::string& name) override {
    ++claims;
    if (refuses || held.contains(name)) return nullptr;
    held.insert(name);
    return {this, [this, name](void*) { held.erase(name); }};
  }
  bool is_claimed(const std::string& name) override {
    if (std::exchange(is_short, false)) fail(URMA_ENOMEM, "no descriptors");
    return held.contains(name);
  }
  bool listen_also(uint16_t) override { return true; }
  void stop_listening(uint16_t) override {}

  std::set<std::string> held;
  bool refuses = false;
  bool is_short = false;  // when it is asked next
  uint32_t claims = 0;
};

class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t most) : resource_(resource) {
    EXPECT_EQ(::getrlimit(resource_, &before_), 0);
    const rlimit now = {most, before_.rlim_max};
    EXPECT_EQ(::setrlimit(resource_, &now), 0);
  }
  ~Limit() { ::setrlimit(resource_, &before_); }

 private:
  const __rlimit_resource resource_;
  rlimit before_;
};

class BondIdsTest : public testing::Test {
 protected:
  BondIdsTest() { ::signal(SIGXFSZ, SIG_IGN); }

  std::string file(uint32_t version = shm::kProtocolVersion) const {
    const std::string name = urma::format("bond{}-{}", version, hex_of(eid_));
    return directory_.path() + "/" + directory_.socket_name(kSlot, name.c_str());
  }

  Directory directory_;
  const urma_eid_t eid_ = directory_.all_eids().front();
  Host host_;
  const EidTable eids_{eid_};
  PortNames names_{&host_, eids_, kPorts, ""};
  Ids ids_{&directory_, eid_, &names_};
};

TEST_F(BondIdsTest, AStartThatFailsLeavesNothing) {
  {
    const Limit bytes(RLIMIT_FSIZE, 0);
    EXPECT_THROW(ids_.start(kNumber), Error);
    EXPECT_THROW(ids_.start(0), Error);
  }
  EXPECT_TRUE(directory_.taken.empty());
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_TRUE(ids_.start(kNumber));
  EXPECT_EQ(ids_.take(IdKind::kToken, 0) >> 16, kNumber);
}

TEST_F(BondIdsTest, ANumberOfAnotherProcessIsLeftToIt) {
  directory_.reserve_id(IdKind::kJfc, 0, kNumber);
  EXPECT_FALSE(ids_.start(kNumber));
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(directory_.taken.size(), 1U);
  EXPECT_TRUE(ids_.start(kNumber + 1));
}

// By another member of the directory's group.
TEST_F(BondIdsTest, AFileThatIsThereAlreadyIsNotUsed) {
  const std::string other = directory_.path() + "/other";
  std::ofstream(other) << "precious";
  fs::create_hard_link(other, file());
  ASSERT_TRUE(ids_.start(kNumber));
  EXPECT_EQ(fs::file_size(other), 8U);
  struct stat info = {};
  ASSERT_EQ(::stat(file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U) << "only its process writes to it";
}

// It would refuse requests by shared memory.
TEST_F(BondIdsTest, AProcessOfAnotherVersionIsNotNear) {
  ASSERT_TRUE(ids_.start(kNumber));
  const uint32_t id = ids_.take(IdKind::kJetty, 0);
  EXPECT_EQ(ids_.owner_slot(IdKind::kJetty, eid_, id), kSlot);
  fs::rename(file(), file(shm::kProtocolVersion + 1));
  EXPECT_EQ(ids_.owner_slot(IdKind::kJetty, eid_, id), std::nullopt);
}

TEST_F(BondIdsTest, SendersAreUniqueOnTheNetwork) {
  ids_.start(kNumber);
  const uint32_t id = ids_.take(IdKind::kJfs, 0);
  EXPECT_TRUE(names_.is_claimed(block_of(id)));
  EXPECT_EQ(ids_.owner_slot(IdKind::kJfs, eid_, id), kSlot);
  host_.held.insert(urma::format("block-{}", block_of(id) + 1));
  for (uint32_t i = 0; i < 2 * kBlockIds; ++i) {
    EXPECT_NE(block_of(ids_.take(IdKind::kJfs, 0)), block_of(id) + 1);
  }
}

TEST_F(BondIdsTest, AChosenIdThatFailsIsFree) {
  ids_.start(kNumber);
  const auto before = directory_.taken;
  host_.is_short = true;
  EXPECT_THROW(ids_.take(IdKind::kJetty, 17), Error);
  EXPECT_EQ(directory_.taken, before);
  EXPECT_TRUE(host_.held.empty());
  EXPECT_EQ(ids_.take(IdKind::kJetty, 17), 17U);
}

TEST_F(BondIdsTest, CompletionQueuesNeedNoNetwork) {
  ids_.start(kNumber);
  ids_.take(IdKind::kJfc, 0);
  EXPECT_EQ(host_.claims, 0U);
}

TEST_F(BondIdsTest, ANetworkWithoutIdsLeavesTheDirectoryItsOwn) {
  ids_.start(kNumber);
  host_.refuses = true;
  const auto before = directory_.taken;
  try {
    ids_.take(IdKind::kJetty, 0);
    FAIL() << "there was an id";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), URMA_ENOMEM);
    EXPECT_NE(std::string(error.what()).find("URMA_TCP_PORT"), std::string::npos) << error.what();
  }
  EXPECT_EQ(directory_.taken, before);
  EXPECT_LE(host_.claims, 64U) << "each block is tried once, and not all blocks are";
  EXPECT_LE(directory_.next, 1024U + 65 * kBlockIds);
}

// Near is near, also if that cannot be found out now.
TEST_F(BondIdsTest, AShortageIsNoAnswer) {
  ids_.start(kNumber);
  const uint32_t id = ids_.take(IdKind::kJetty, 0);
  {
    const Limit descriptors(RLIMIT_NOFILE, 0);
    EXPECT_THROW(ids_.owner_slot(IdKind::kJetty, eid_, id), Error);
    EXPECT_FALSE(ids_.owner_slot(IdKind::kJetty, eid_, id + 100).has_value());
  }
  EXPECT_EQ(ids_.owner_slot(IdKind::kJetty, eid_, id), kSlot);
  fs::remove(file());
  EXPECT_FALSE(ids_.owner_slot(IdKind::kJetty, eid_, id).has_value());
}

}  // namespace
}  // namespace urma::bond
