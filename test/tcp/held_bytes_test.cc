// SPDX-License-Identifier: MIT
//
// What the control groups of a process allow it.
#include "urma/providers/tcp/held_bytes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace urma::tcp {
namespace {

class ControlGroups : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  uint64_t limit_in(const std::string& groups) {
    write("groups", groups);
    return memory_of_groups(root_ + "/groups", root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  const std::string root_ = testing::TempDir() + "groups-" +
                            testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ControlGroups, WithoutALimitThereIsNone) {
  EXPECT_EQ(limit_in("0::/"), UINT64_MAX);
  write("a/memory.max", "max");
  EXPECT_EQ(limit_in("0::/a"), UINT64_MAX);
  EXPECT_EQ(limit_in("nonsense"), UINT64_MAX);
  EXPECT_EQ(memory_of_groups(root_ + "/nothing", root_), UINT64_MAX);
}

TEST_F(ControlGroups, TheRootIsWhatAContainerSees) {
  write("memory.max", "1000");
  EXPECT_EQ(limit_in("0::/"), 1000U);
}

TEST_F(ControlGroups, TheLeastOfAGroupAndThoseAroundItCounts) {
  write("a/memory.max", "2000");
  write("a/b/memory.max", "max");
  write("a/b/c/memory.max", "3000");
  EXPECT_EQ(limit_in("1:cpu:/x\n0::/a/b/c"), 2000U);
  write("a/b/memory.max", "1000");
  EXPECT_EQ(limit_in("0::/a/b/c"), 1000U);
}

TEST_F(ControlGroups, BothVersionsCount) {
  write("memory/a/memory.limit_in_bytes", "1500");
  write("b/memory.max", "1000");
  EXPECT_EQ(limit_in("4:memory:/a\n0::/"), 1500U);
  EXPECT_EQ(limit_in("4:memory:/a\n0::/b"), 1000U);
}

}  // namespace
}  // namespace urma::tcp
