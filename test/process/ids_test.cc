// SPDX-License-Identifier: MIT
//
// Ids of jettys, JFS, JFR and groups: small, distinct in all processes, reused as late as possible,
// and free as soon as their process is dead.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

constexpr size_t kMany = 60;
constexpr uint32_t kChosen = 4711;

class IdsTest : public ProcessTest {};

urma_jetty_t* make_jetty(const Endpoint& endpoint, uint32_t chosen = 0) {
  urma_jetty_cfg_t cfg = jetty_config(endpoint.jfr, jfs_config(endpoint.send_jfc, 1));
  cfg.id = chosen;
  return urma_create_jetty(endpoint.ctx, &cfg);
}

std::vector<urma_jetty_t*> make_jettys(const Endpoint& endpoint, size_t count) {
  std::vector<urma_jetty_t*> jettys;
  for (size_t i = 0; i < count; ++i) {
    jettys.push_back(make_jetty(endpoint));
    if (jettys.back() == nullptr) throw std::runtime_error("cannot create a jetty");
  }
  return jettys;
}

void delete_all(const std::vector<urma_jetty_t*>& jettys) {
  for (auto* jetty : jettys) EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
}

// Programs index arrays by ids below this.
uint32_t limit_of(const Endpoint& endpoint) {
  urma_device_attr_t attr = {};
  EXPECT_EQ(urma_query_device(endpoint.ctx->dev, &attr), URMA_SUCCESS);
  return (attr.dev_cap.max_jetty + 65535) & ~65535u;
}

using Many = std::array<uint32_t, kMany>;

// Has many jettys until it is told to end or is killed.
void be_one_of_several(Channel& test) {
  OwnedEndpoint endpoint;
  const auto jettys = make_jettys(endpoint, kMany);
  Many ids;
  for (size_t i = 0; i < kMany; ++i) {
    ids[i] = jettys[i]->jetty_id.id;
    EXPECT_LT(ids[i], limit_of(endpoint));
  }
  EXPECT_LT(endpoint.jfr->jfr_id.id, 65536u);
  EXPECT_LT(endpoint.send_jfc->jfc_id.id, 65536u);
  test.send(ids);
  test.sync();
  delete_all(jettys);
}

TEST_F(IdsTest, AreSmallAndDifferInAllProcesses) {
  std::vector<std::unique_ptr<Child>> children;
  std::set<uint32_t> seen;
  for (int i = 0; i < 6; ++i) children.push_back(std::make_unique<Child>("one", be_one_of_several));
  for (auto& child : children) {
    for (const uint32_t id : child->channel().receive<Many>()) {
      EXPECT_TRUE(seen.insert(id).second) << id;
      EXPECT_GT(id, 0u);
      EXPECT_LT(id, 65536u);
    }
  }
  for (auto& child : children) child->channel().sync();
  for (auto& child : children) child->expect_success();
}

TEST_F(IdsTest, AreReusedLate) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    std::set<uint32_t> seen;
    for (int i = 0; i < 1000; ++i) {
      const OwnedJetty jetty = make_jetty(endpoint);
      EXPECT_TRUE(seen.insert(jetty->jetty_id.id).second) << i;
    }
  });
}

struct Taken {
  uint32_t automatic, chosen;
};

TEST_F(IdsTest, OfAKilledProcessAreFreeAtOnce) {
  Child owner("owner", [](Channel& test) {
    Endpoint endpoint;
    urma_jetty_t* automatic = make_jetty(endpoint);
    urma_jetty_t* chosen = make_jetty(endpoint, kChosen);
    ASSERT_NE(chosen, nullptr);
    EXPECT_EQ(chosen->jetty_id.id, kChosen);
    test.send(Taken{automatic->jetty_id.id, kChosen});
    test.sync();
  });
  const auto taken = owner.channel().receive<Taken>();
  Child heir("heir", [&](Channel& test) {
    OwnedEndpoint endpoint;
    for (const uint32_t id : {taken.automatic, taken.chosen}) {
      errno = 0;
      EXPECT_EQ(make_jetty(endpoint, id), nullptr);
      EXPECT_EQ(errno, EEXIST);
    }
    test.sync();
    test.sync();
    const auto limit = Clock::now() + patience(seconds(20));
    for (const uint32_t id : {taken.automatic, taken.chosen}) {
      urma_jetty_t* jetty = make_jetty(endpoint, id);
      while (jetty == nullptr && Clock::now() < limit) jetty = make_jetty(endpoint, id);
      ASSERT_NE(jetty, nullptr) << id;
      EXPECT_EQ(jetty->jetty_id.id, id);
      EXPECT_EQ(urma_delete_jetty(jetty), URMA_SUCCESS);
    }
  });
  heir.channel().sync();
  owner.kill();
  heir.channel().sync();
  heir.expect_success();
}

// A process that locks the whole file takes the ids of all others.
TEST_F(IdsTest, ExhaustionReturnsNoMemoryAndLogsALine) {
  SKIP_UNLESS_SHARED_MEMORY("ids come from a runtime directory");
  Child child("child", [](Channel& test) {
    Endpoint endpoint;
    // Whatever is left of its own block.
    const auto own = make_jettys(endpoint, 16);
    test.sync();
    test.sync();
    std::vector<urma_jetty_t*> more;
    urma_jetty_t* jetty = nullptr;
    while (more.size() < 64 && (jetty = make_jetty(endpoint)) != nullptr) more.push_back(jetty);
    EXPECT_EQ(jetty, nullptr);
    EXPECT_EQ(errno, ENOMEM);
    test.sync();
    test.sync();
    jetty = make_jetty(endpoint);
    EXPECT_NE(jetty, nullptr);
    more.push_back(jetty);
    delete_all(more);
    delete_all(own);
    endpoint.close();
  });
  child.channel().sync();
  const int file = ::open((runtime_dir() + "/ids").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  constexpr off_t kPlace = 131072;  // of a block; one byte is enough
  for (off_t block = 0; block < 4096; ++block) {
    struct flock range = {};
    range.l_type = F_WRLCK;
    range.l_start = block * kPlace;
    range.l_len = 2;
    ::fcntl(file, F_OFD_SETLK, &range);
  }
  child.channel().sync();
  child.channel().sync();
  ::close(file);
  child.channel().sync();
  child.expect_success();
  EXPECT_NE(child.output().find("ids of kind jetty are taken by the processes that share " +
                                runtime_dir()),
            std::string::npos)
      << child.output();
}

}  // namespace
}  // namespace urma_test
