// SPDX-License-Identifier: MIT
//
// Every test of urma_perftest in every mode, by jetty and by JFS and JFR, by polling and by events,
// with every byte checked; and its output.

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "test/tools/perftest_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

struct Mode {
  std::string test;
  std::string mode;  // "0", "1", "2"
  bool simplex;
  bool events;

  std::string name() const {
    static const char* const kNames[] = {"Rm", "Rc", "Um"};
    return test + kNames[mode[0] - '0'] + (simplex ? "Simplex" : "Duplex") +
           (events ? "Events" : "");
  }
  bool bandwidth() const { return test.find("_bw") != std::string::npos; }
  bool is(const std::string& kind) const { return test.rfind(kind, 0) == 0; }
};

void PrintTo(const Mode& mode, std::ostream* out) { *out << mode.name(); }

std::vector<Mode> all_modes() {
  std::vector<Mode> modes;
  for (const char* test : {"read_lat", "read_bw", "write_lat", "write_bw", "send_lat", "send_bw",
                           "atomic_lat", "atomic_bw"}) {
    for (const char* number : {"0", "1", "2"}) {
      for (const bool simplex : {false, true}) {
        for (const bool events : {false, true}) {
          const Mode mode = {test, number, simplex, events};
          const bool rc = mode.mode == "1", um = mode.mode == "2";
          if ((rc && simplex) || (um && !mode.is("send")) || (events && mode.is("write"))) continue;
          modes.push_back(mode);
        }
      }
    }
  }
  return modes;
}

// What fits in a packet of the networks in use.
constexpr int kPacket = 512;

class PerftestModes : public PerftestTest, public ::testing::WithParamInterface<Mode> {
 protected:
  // Whether messages must be reduced to one packet.
  bool one_packet() const {
    return GetParam().mode == "2" && GetParam().bandwidth() && !uses_shared_memory();
  }
  int size() const {
    if (one_packet()) return kPacket;
    return GetParam().is("atomic") ? 8 : GetParam().bandwidth() ? 65536 : 2;
  }
  Arguments options(const std::string& iterations) const {
    const Mode& mode = GetParam();
    Arguments options = {"-p", mode.mode, "-n", iterations, "--verify"};
    if (mode.simplex) options.emplace_back("-b");
    if (mode.events) options.emplace_back("-e");
    if (one_packet()) options.insert(options.end(), {"-s", std::to_string(kPacket)});
    return options;
  }
};

void expect_latency(const std::vector<double>& row) {
  ASSERT_EQ(row.size(), 11u);
  const double min = row[2], max = row[3], median = row[4], average = row[5];
  EXPECT_GT(max, 0);
  EXPECT_LE(min, median);
  EXPECT_LE(median, max);
  EXPECT_LE(min, average);
  for (size_t i = 8; i < row.size(); ++i) EXPECT_LE(row[i - 1], row[i]);
}

void expect_bandwidth(const std::vector<double>& row) {
  ASSERT_EQ(row.size(), 5u);
  const double size = row[0], average = row[3], rate = row[4];
  EXPECT_GT(rate, 0);
  // Megabytes are 2^20 bytes, and both columns are rounded.
  EXPECT_NEAR(average, rate * 1e6 * size / (1 << 20), 0.02 * average + 0.01);
}

TEST_P(PerftestModes, Work) {
  const Mode& mode = GetParam();
  const std::string iterations = mode.bandwidth() ? "1000" : "200";
  const PerftestResult result = run_perftest(mode.test, options(iterations));
  ASSERT_TRUE(result.good()) << result.text();
  const auto rows = parse_rows(result.client.out);
  ASSERT_EQ(rows.size(), 1u) << result.text();
  EXPECT_EQ(rows[0][0], size());
  EXPECT_EQ(rows[0][1], std::stod(iterations));
  if (mode.bandwidth()) {
    expect_bandwidth(rows[0]);
    const auto served = parse_rows(result.server.out);
    if (mode.is("send")) {
      ASSERT_EQ(served.size(), 1u) << "the server counts for itself";
      EXPECT_EQ(served[0][1], rows[0][1]);
      expect_bandwidth(served[0]);
    } else {
      EXPECT_EQ(served, rows) << "the server prints the client's figures";
    }
  } else {
    expect_latency(rows[0]);
  }
}

TEST_P(PerftestModes, PrintTheHeader) {
  const Mode& mode = GetParam();
  const PerftestResult result = run_perftest(mode.test, options("20"));
  ASSERT_TRUE(result.good()) << result.text();
  for (const std::string& out : {result.server.out, result.client.out}) {
    SCOPED_TRACE(out);
    EXPECT_TRUE(has_line(out, "^-{87}$"));
    const std::string what = mode.is("read")    ? "READ"
                             : mode.is("write") ? "WRITE"
                             : mode.is("send")  ? "SEND"
                                                : "ATOMIC";
    EXPECT_TRUE(has_line(out, "^ {20}URMA_" + what + " .*" +
                                  (mode.bandwidth() ? "BandWidth" : "Latency") + " Test"));
    EXPECT_EQ(has_line(out, "Test with jfc events\\."), mode.events);
    static const char* const kModes[] = {"URMA_TM_RM", "URMA_TM_RC", "URMA_TM_UM"};
    EXPECT_TRUE(
        has_line(out, std::string("^ Trans mode          : ") + kModes[mode.mode[0] - '0'] +
                          " *\t\t JETTY mode       : " + (mode.simplex ? "SIMPLEX" : "DUPLEX")));
    EXPECT_TRUE(has_line(out, "^ Number of jettys    : 1 *\t\t Transport mode   : UB"));
    EXPECT_TRUE(has_line(out, "^ JFC depth           : [0-9]+ *\t\t Device name      : "));
  }
}

INSTANTIATE_TEST_SUITE_P(All, PerftestModes, ::testing::ValuesIn(all_modes()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace urma_test
