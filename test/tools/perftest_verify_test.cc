// SPDX-License-Identifier: MIT
//
// urma_perftest --verify: every moved byte is checked, for every operation.

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "test/tools/perftest_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

struct Operation {
  std::string name;
  std::string test;  // without _lat and _bw
  Arguments options;
};

void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

const std::vector<Operation> kOperations = {
    {"Read", "read", {}},
    {"Write", "write", {}},
    {"WriteImm", "write", {"--enable_imm"}},
    {"WriteNotify", "write", {"--enable_notify"}},
    {"Send", "send", {}},
    {"SendImm", "send", {"--enable_imm"}},
    {"Cas", "atomic", {"-A", "cas"}},
    {"Fadd", "atomic", {"-A", "faa"}},
};

class PerftestVerify : public PerftestTest, public ::testing::WithParamInterface<Operation> {
 protected:
  bool atomic() const { return GetParam().test == "atomic"; }

  void expect_right(const std::string& kind, const Arguments& more) {
    Arguments options = GetParam().options;
    options.insert(options.end(), more.begin(), more.end());
    options.insert(options.end(), {"--verify"});
    const PerftestResult result = run_perftest(GetParam().test + kind, options);
    EXPECT_TRUE(result.good()) << ::testing::PrintToString(options) << "\n" << result.text();
  }
};

TEST_P(PerftestVerify, Latency) {
  expect_right("_lat", {"-n", "100"});
  expect_right("_lat", {"-n", "100", "-b", "-L"});
  if (atomic()) return;
  expect_right("_lat", {"-n", "20", "-a"});
  expect_right("_lat", {"-n", "50", "-s", "30000", "--sge_num", "3"});
}

TEST_P(PerftestVerify, Bandwidth) {
  expect_right("_bw", {"-n", "500"});
  expect_right("_bw", {"-n", "320", "-l", "16", "-Q", "8", "-b"});
  expect_right("_bw", {"-n", "100", "-J", "4", "-B"});
  if (atomic()) return;
  expect_right("_bw", {"-n", "50", "-a"});
  expect_right("_bw", {"-n", "200", "-s", "8192", "--sge_num", "4"});
}

TEST_P(PerftestVerify, SizesAtRandom) {
  if (atomic()) GTEST_SKIP() << "atomic operations have one size";
  expect_right("_bw", {"-n", "500", "-s", "20000", "--min_size", "1", "--max_size", "20000"});
}

TEST_P(PerftestVerify, Layouts) {
  expect_right("_bw", {"-n", "100", "--layout", "zcopy"});
  if (atomic()) return;
  expect_right("_bw", {"-n", "100", "-s", "5000", "--layout", "bcopy"});
  if (GetParam().test == "read") return;
  expect_right("_bw", {"-n", "100", "-s", "64", "--layout", "short"});
  expect_right("_lat", {"-n", "100", "-s", "64", "-I", "64"});
}

INSTANTIATE_TEST_SUITE_P(Operations, PerftestVerify, ::testing::ValuesIn(kOperations),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace urma_test
