// SPDX-License-Identifier: MIT
//
// Batch files of urma_perftest.

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tools/perftest/options.h"

namespace perftest {
namespace {

class PerftestBatch : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = testing::TempDir() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  static std::vector<Config> expand(std::vector<std::string> options) {
    options.insert(options.begin(), {"write_bw", "-d", "urma_shm0"});
    return expand_batches(*parse_options(options).config, options);
  }
};

TEST_F(PerftestBatch, WithoutAFileThereIsOneRun) {
  const auto configs = expand({"-s", "8"});
  ASSERT_EQ(configs.size(), 1u);
  EXPECT_EQ(configs[0].batch_label, "");
}

TEST_F(PerftestBatch, LinesAreAppended) {
  const std::string path = file("lines", "# sizes\n\nsmall -s 8\n  large   -s 65536 -L\n");
  const auto configs = expand({"-s", "4", "-n", "100", "--batch", path});
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(configs[0].batch_label, "small");
  EXPECT_EQ(configs[0].size, 8u);
  EXPECT_EQ(configs[1].batch_label, "large");
  EXPECT_EQ(configs[1].size, 65536u);
  EXPECT_TRUE(configs[1].lock_free);
  EXPECT_EQ(configs[1].iterations, 100u);
}

TEST_F(PerftestBatch, FilesMultiply) {
  const std::string sizes = file("sizes", "small -s 8\nlarge -s 64\n");
  const std::string tests = file("tests", "w\nr --test read_bw\nsl --test send_lat\n");
  const auto configs = expand({"--batch", sizes, "--batch", tests});
  ASSERT_EQ(configs.size(), 6u);
  EXPECT_EQ(configs[0].batch_label, "small/w");
  EXPECT_EQ(configs[1].batch_label, "small/r");
  EXPECT_EQ(configs[1].test, "read_bw");
  EXPECT_EQ(configs[5].batch_label, "large/sl");
  EXPECT_EQ(configs[5].jfs_depth, 1u);
  EXPECT_EQ(configs[5].size, 64u);
}

TEST_F(PerftestBatch, BadLinesAreNamed) {
  const std::string path = file("bad", "good -s 8\nbad -s x\n");
  try {
    expand({"--batch", path});
    FAIL() << "taken";
  } catch (const UsageError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with(path + ":2: given -s 'x'")) << error.what();
  }
}

TEST_F(PerftestBatch, RefusesInvalidBatches) {
  EXPECT_THROW(expand({"--batch", testing::TempDir() + "/no such file"}), UsageError);
  EXPECT_THROW(expand({"--batch", testing::TempDir()}), UsageError);
  EXPECT_THROW(expand({"--batch", file("empty", "# nothing\n")}), UsageError);
  EXPECT_THROW(expand({"--batch", file("nested", "a --batch x\n")}), UsageError);
  EXPECT_THROW(expand({"--batch", file("help", "a --help\n")}), UsageError);
  std::string many;
  for (int i = 0; i < 101; i++) many += "a\n";
  const std::string path = file("many", many);
  EXPECT_THROW(expand({"--batch", path, "--batch", path}), UsageError);
}

}  // namespace
}  // namespace perftest
