// SPDX-License-Identifier: MIT
//
// The output of urma_perftest.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "tools/perftest/options.h"
#include "tools/perftest/results.h"

namespace perftest {
namespace {

Config config_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  words.insert(words.begin() + 1, {"-d", "urma_shm0"});
  return parse_options(words).config.value();
}

Row latency_row() {
  Row row;
  row.size = 8;
  row.iterations = 10000;
  row.latency = {0.12, 12345.678, 0.15,
                 0.16, 0.01,      {{99, 0.2}, {99.9, 0.3}, {99.99, 1}, {99.999, 2}}};
  return row;
}

Row bandwidth_row() {
  Row row;
  row.size = 65536;
  row.iterations = 1234567;
  row.bandwidth = {23456.5, 12345.25, 0.197524};
  return row;
}

// What the reporter of `line` prints for these rows.
std::string report(const std::string& line, const std::vector<Row>& rows,
                   const Outcome& outcome = {}) {
  const Config config = config_of(line);
  char* text = nullptr;
  size_t size = 0;
  FILE* out = open_memstream(&text, &size);
  {
    ReportStream stream(out, false, false);
    const auto reporter = make_reporter(config, stream);
    reporter->begin(config, "UB");
    for (const Row& row : rows) {
      reporter->progress(1, 2);
      reporter->row(config, row);
    }
    reporter->end(outcome);
    stream.close();
  }
  std::fclose(out);
  std::string printed(text, size);
  std::free(text);
  return printed;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(PerftestText, LatencyIsLaidOutAsDocumented) {
  const std::string text = report("send_lat", {latency_row()});
  EXPECT_TRUE(
      has(text, std::string(87, '-') + "\n" + std::string(20, ' ') + "URMA_SEND Latency Test\n"));
  EXPECT_TRUE(has(text,
                  "\n Number of jettys    : 1         \t\t Transport mode   : UB\n"
                  " JFC depth           : 512       \t\t Device name      : urma_shm0\n"
                  " Trans mode          : URMA_TM_RM\t\t JETTY mode       : DUPLEX\n"))
      << text;
  EXPECT_TRUE(has(text,
                  "\n bytes   iterations  t_min[us]  t_max[us]  t_median[us]  t_avg[us]  "
                  "t_stdev[us]  99%[us]  99.9%[us]  99.99%[us]  99.999%[us]\n"))
      << text;
  char line[256];
  std::snprintf(line, sizeof(line),
                "\n %-7u %-10lu  %-7.2lf    %-7.2lf    %-7.2lf       %-7.2lf    %-7.2lf      "
                "%-7.2lf  %-7.2lf    %-7.2lf     %-7.2lf\n",
                8U, 10000UL, 0.12, 12345.678, 0.15, 0.16, 0.01, 0.2, 0.3, 1.0, 2.0);
  EXPECT_TRUE(has(text, line)) << text << line;
}

TEST(PerftestText, LatencyOfADurationHasTwoFigures) {
  Row row = latency_row();
  row.pps = 123456.789;
  const std::string text = report("send_lat -D 4", {row});
  EXPECT_TRUE(has(text, "\n bytes   iterations  t_avg[us]  pps\n"));
  char line[128];
  std::snprintf(line, sizeof(line), "\n %-7u %-10lu  %-7.2f    %-7.2f\n", 8U, 10000UL, 0.16,
                123456.789);
  EXPECT_TRUE(has(text, line)) << text << line;
}

TEST(PerftestText, BandwidthIsLaidOutAsDocumented) {
  Row slow = bandwidth_row();
  slow.bandwidth = {0, 1.5, 0.5};
  const std::string text = report("write_bw -B -l 4", {bandwidth_row(), slow});
  EXPECT_TRUE(has(text, "URMA_WRITE Bidirectional JFS Post List BandWidth Test\n"));
  EXPECT_TRUE(
      has(text, "\n bytes   iterations  BW peak[MB/sec]  BW average[MB/sec]  MsgRate[Mpps]\n"));
  for (const Row& row : {bandwidth_row(), slow}) {
    char line[128];
    std::snprintf(line, sizeof(line),
                  "\n %-7u %-10lu  %-7.2lf          %-7.2lf             %-7.6lf\n", row.size,
                  row.iterations, row.bandwidth.peak_mbs, row.bandwidth.avg_mbs,
                  row.bandwidth.msg_rate_mpps);
    EXPECT_TRUE(has(text, line)) << text << line;
  }
}

TEST(PerftestText, TitlesNameWhatIsMeasured) {
  EXPECT_TRUE(has(report("atomic_lat -A faa", {}), " URMA_ATOMIC faa Latency Test\n"));
  EXPECT_TRUE(has(report("atomic_bw -e", {}), "cas BandWidth Test Test with jfc events.\n"));
  EXPECT_TRUE(has(report("read_bw -p 1", {}), " Trans mode          : URMA_TM_RC"));
  EXPECT_TRUE(has(report("read_bw -b", {}), "JETTY mode       : SIMPLEX\n"));
}

TEST(PerftestText, UnitsAndSeparatorsCanBeChosen) {
  const std::string text = report("read_bw --bw_unit GB --thousands", {bandwidth_row()});
  EXPECT_TRUE(has(text, "BW average[GB/sec]"));
  EXPECT_TRUE(has(text, " 65,536  1,234,567   22.91            12.06               0.197524\n"))
      << text;
  EXPECT_TRUE(has(report("read_bw --bw_unit KB", {bandwidth_row()}), " 12641536.00 "));
}

TEST(PerftestText, FinalPrintsOnlyFigures) {
  EXPECT_EQ(report("read_bw --final", {bandwidth_row()}),
            " 65536   1234567     23456.50          12345.25             0.197524\n");
  Row last = bandwidth_row();
  last.size = 7;
  EXPECT_TRUE(report("read_bw -y --final", {bandwidth_row(), last}).starts_with(" 7 "));
}

TEST(PerftestText, JettysComeBeforeTheirTotal) {
  Row row = bandwidth_row();
  row.jettys = {bandwidth_row(), bandwidth_row()};
  const std::string text = report("read_bw -J 2 --enable_sync_stream", {row});
  EXPECT_TRUE(has(text, "\nJetty 0 :  65536"));
  EXPECT_TRUE(has(text, "\nJetty 1 :  65536"));
  EXPECT_TRUE(has(text, "\n" + std::string(87, '-') + "\nTOTAL   :  65536")) << text;
}

TEST(PerftestText, NamesVerifiedAndPartialRuns) {
  EXPECT_TRUE(has(report("read_bw", {}, {true, false}), "partial: "));
  EXPECT_TRUE(has(report("read_bw", {}, {false, true}), "verified: "));
  EXPECT_FALSE(has(report("read_bw", {}), "verified"));
}

TEST(PerftestText, PercentilesCanBeChosen) {
  Row row = latency_row();
  row.latency.percentiles = {{50, 1.5}, {99.5, 2.5}};
  const std::string text = report("send_lat --percentiles 50,99.5", {row});
  EXPECT_TRUE(has(text, "t_stdev[us]  50%[us]  99.5%[us]\n")) << text;
  EXPECT_TRUE(has(text, "0.01         1.50     2.50   \n")) << text;
}

TEST(PerftestCsv, HasNamesAndALineForEachRow) {
  EXPECT_EQ(report("write_bw --format csv --bw_unit GB", {bandwidth_row()}),
            "test,device,size,iterations,bw_peak_mbs,bw_avg_mbs,msg_rate_mpps,partial\n"
            "write_bw,urma_shm0,65536,1234567,23456.5000,12345.2500,0.197524,0\n");
  EXPECT_EQ(report("send_lat --format csv", {latency_row()}),
            "test,device,size,iterations,min_us,max_us,median_us,avg_us,stdev_us,p99_us,p99.9_us,"
            "p99.99_us,p99.999_us,partial\n"
            "send_lat,urma_shm0,8,10000,0.1200,12345.6780,0.1500,0.1600,0.0100,0.2000,0.3000,"
            "1.0000,2.0000,0\n");
}

TEST(PerftestCsv, NamesJettys) {
  Row row = bandwidth_row();
  row.jettys = {bandwidth_row()};
  const std::string text = report("write_bw --format csv --enable_sync_stream", {row});
  EXPECT_TRUE(has(text, "\nwrite_bw,urma_shm0,0,65536,"));
  EXPECT_TRUE(has(text, "\nwrite_bw,urma_shm0,total,65536,"));
}

TEST(PerftestJson, IsOneDocument) {
  Row part = latency_row();
  part.partial = true;
  const auto json =
      nlohmann::json::parse(report("send_lat --format json --percentiles 99,99.9,99.99,99.999",
                                   {latency_row(), part}, {true, true}));
  EXPECT_EQ(json["test"], "send_lat");
  EXPECT_EQ(json["device"], "urma_shm0");
  EXPECT_EQ(json["side"], "server");
  EXPECT_EQ(json["transport"], "UB");
  EXPECT_EQ(json["mode"], "URMA_TM_RM");
  EXPECT_EQ(json["options"]["jfs_depth"], 1);
  ASSERT_EQ(json["results"].size(), 2u);
  const auto& row = json["results"][0];
  EXPECT_EQ(row["size"], 8);
  EXPECT_EQ(row["iterations"], 10000);
  EXPECT_EQ(row["median_us"], 0.15);
  EXPECT_EQ(row["avg_us"], 0.16);
  EXPECT_EQ(row["percentiles"][1]["percent"], 99.9);
  EXPECT_EQ(row["percentiles"][1]["us"], 0.3);
  EXPECT_EQ(row["partial"], false);
  EXPECT_EQ(json["results"][1]["partial"], true);
  EXPECT_EQ(json["partial"], true);
  EXPECT_EQ(json["verified"], true);
}

TEST(PerftestJson, HasBandwidth) {
  const auto json =
      nlohmann::json::parse(report("write_bw --format json --bw_unit KB", {bandwidth_row()}));
  EXPECT_EQ(json["results"][0]["bw_avg_mbs"], 12345.25);
  EXPECT_EQ(json["results"][0]["msg_rate_mpps"], 0.197524);
  EXPECT_FALSE(json["results"][0].contains("median_us"));
}

TEST(PerftestJson, RunsOfABatchAreAnArray) {
  char* text = nullptr;
  size_t size = 0;
  FILE* out = open_memstream(&text, &size);
  ReportStream stream(out, false, true);
  stream.put_document("{}");
  stream.put_document("{}");
  stream.close();
  std::fclose(out);
  EXPECT_EQ(nlohmann::json::parse(std::string(text, size)).size(), 2u);
  std::free(text);
}

std::vector<uint64_t> one_to(size_t count) {
  std::vector<uint64_t> cycles(count);
  std::iota(cycles.begin(), cycles.end(), 1);
  std::reverse(cycles.begin(), cycles.end());
  return cycles;
}

TEST(PerftestSummary, DropsTheTwoLargest) {
  std::vector<uint64_t> cycles = one_to(102);
  const LatencySummary summary = summarize_latency(cycles, 1, 1, {50, 99, 99.9, 100});
  EXPECT_EQ(summary.min_us, 1);
  EXPECT_EQ(summary.max_us, 101);  // just past the hundred that count
  EXPECT_EQ(summary.median_us, 50.5);
  EXPECT_EQ(summary.avg_us, 50.5);
  EXPECT_NEAR(summary.stdev_us, 28.866, 0.001);
  EXPECT_EQ(summary.percentiles[0].second, 51);   // index ceil(100 * 0.5)
  EXPECT_EQ(summary.percentiles[1].second, 100);  // index 99
  EXPECT_EQ(summary.percentiles[2].second, 101);  // index 100
  EXPECT_EQ(summary.percentiles[3].second, 101);
}

TEST(PerftestSummary, HalvesRoundTripsAndTurnsCyclesIntoMicroseconds) {
  std::vector<uint64_t> cycles(1000, 5000);
  const LatencySummary summary = summarize_latency(cycles, 2500, 2, {99});
  EXPECT_DOUBLE_EQ(summary.avg_us, 1);
  EXPECT_DOUBLE_EQ(summary.percentiles[0].second, 1);
  EXPECT_DOUBLE_EQ(summary.stdev_us, 0);
}

TEST(PerftestSummary, TakesFewSamplesAsTheyAre) {
  for (size_t count = 0; count <= 4; count++) {
    std::vector<uint64_t> cycles = one_to(count);
    const LatencySummary summary = summarize_latency(cycles, 1, 1, {99, 100});
    EXPECT_EQ(summary.min_us, count == 0 ? 0 : 1);
    EXPECT_LE(summary.max_us, static_cast<double>(count));
  }
}

}  // namespace
}  // namespace perftest
