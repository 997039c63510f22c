// SPDX-License-Identifier: MIT
//
// The reports of urma_perftest, and its ways to run.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "test/process/soak.h"
#include "test/tools/perftest_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

class PerftestOutput : public PerftestTest {
 protected:
  // The tool with itself as peer.
  static ToolResult loopback(const std::string& test, Arguments options,
                             const ToolOptions& environment = {}) {
    options.emplace_back("--loopback");
    return run_tool(perftest_program(), perftest_arguments(test, free_port(), options),
                    environment);
  }

  std::string write_file(const std::string& name, const std::string& text) {
    const std::string path = runtime_dir() + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
};

std::vector<std::vector<std::string>> parse_csv(const std::string& out) {
  std::vector<std::vector<std::string>> table;
  for (const std::string& line : lines_of(out)) {
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    table.push_back(cells);
  }
  return table;
}

size_t column_of(const std::vector<std::string>& header, const std::string& part) {
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i].find(part) != std::string::npos) return i;
  }
  ADD_FAILURE() << "no column " << part;
  return 0;
}

TEST_F(PerftestOutput, AllSizesHaveARow) {
  const PerftestResult result = run_perftest("write_lat", {"-a", "-n", "20"});
  ASSERT_TRUE(result.good()) << result.text();
  const auto rows = parse_rows(result.client.out);
  ASSERT_EQ(rows.size(), 16u) << result.client.out;
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i][0], 2u << i);
  const PerftestResult send = run_perftest("send_bw", {"-a", "-n", "20"});
  EXPECT_EQ(parse_rows(send.client.out).size(), 12u) << send.text();
  const PerftestResult chosen = run_perftest("read_bw", {"-a5", "-n", "20"});
  EXPECT_EQ(parse_rows(chosen.client.out).size(), 5u) << chosen.text();
}

TEST_F(PerftestOutput, IterationsIncludeAllJettys) {
  const PerftestResult result = run_perftest("write_bw", {"-J", "3", "-n", "50"});
  ASSERT_TRUE(result.good()) << result.text();
  const auto rows = parse_rows(result.client.out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0][1], 150);
}

// Ten requests with one completion are as fast at best as on average, except for delays on a busy
// machine.
TEST_F(PerftestOutput, PeakCountsOnlyPostedRequests) {
  double ratio = 0;
  for (int run = 0; run < (is_soak() ? 20 : 1); ++run) {
    const ToolResult result = loopback("write_bw", {"-n", "10", "--format", "json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const auto row = nlohmann::json::parse(result.out).at("results").at(0);
    ratio = row.at("bw_peak_mbs").get<double>() / row.at("bw_avg_mbs").get<double>();
    if (ratio < 5) break;
  }
  if (is_soak()) {
    EXPECT_LT(ratio, 5);
  }
  EXPECT_GE(ratio, 1);
}

TEST_F(PerftestOutput, BcopyWorksWithASendQueueOfOne) {
  const ToolResult result = loopback("write_bw", {"-n", "10", "--layout", "bcopy", "-T", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST_F(PerftestOutput, SyncStreamPrintsARowForEachJetty) {
  const PerftestResult result =
      run_perftest("write_bw", {"-J", "2", "-n", "50", "--enable_sync_stream"});
  ASSERT_TRUE(result.good()) << result.text();
  for (const char* pattern : {"^Jetty 0 : +65536 +50 +0\\.00 ", "^Jetty 1 : +65536 +50 +0\\.00 ",
                              "^TOTAL   :  65536 +100 +0\\.00 "}) {
    EXPECT_TRUE(has_line(result.client.out, pattern)) << pattern << "\n" << result.client.out;
  }
}

// Checks the jettys of each total of a CSV report. Returns the number of totals.
size_t expect_jettys_add_up(const std::string& csv, const std::string& name) {
  const auto table = parse_csv(csv);
  const size_t jetty = column_of(table[0], "jetty"), column = column_of(table[0], name);
  size_t totals = 0;
  double sum = 0;
  for (size_t i = 1; i < table.size(); ++i) {
    const double value = std::stod(table[i][column]);
    if (table[i][jetty] != "total") {
      sum += value;
      continue;
    }
    EXPECT_NEAR(sum, value, value * 0.05) << name << "\n" << csv;
    sum = 0;
    ++totals;
  }
  return totals;
}

TEST_F(PerftestOutput, RowsOfJettysAddUp) {
  const Arguments endless = {"-y", "--inf_period_ms", "200"};
  for (const Arguments& ending : {Arguments{"-D", "4"}, endless}) {
    Arguments options = {"-J", "2", "--enable_sync_stream", "--format", "csv", "--loopback"};
    options.insert(options.end(), ending.begin(), ending.end());
    Tool tool(perftest_program(), perftest_arguments("write_bw", free_port(), options));
    const size_t periods = ending == endless ? 3 : 1;
    for (size_t i = 0; i < periods; ++i) tool.wait_for_line(",total,");
    if (ending == endless) tool.signal(SIGINT);
    EXPECT_EQ(tool.wait(), 0) << tool.err();
    for (const char* column : {"iterations", "bw_avg_mbs"}) {
      EXPECT_GE(expect_jettys_add_up(tool.out(), column), periods) << tool.out();
    }
  }
}

TEST_F(PerftestOutput, DurationIsMeasuredInItsMiddle) {
  const PerftestResult result = run_perftest("send_lat", {"-D", "4"});
  ASSERT_TRUE(result.good()) << result.text();
  const auto rows = parse_rows(result.client.out);
  ASSERT_EQ(rows.size(), 1u) << result.client.out;
  ASSERT_EQ(rows[0].size(), 4u);
  // Two seconds of it count.
  EXPECT_NEAR(rows[0][1] / rows[0][3], 2.0, 0.5);
}

TEST_F(PerftestOutput, InfiniteRunsPrintEachPeriodUntilInterrupted) {
  PerftestPair pair("write_bw", {"-y", "--inf_period_ms", "50", "-s", "64"});
  for (int i = 0; i < 3; ++i) pair.client().wait_for_line("^ 64 +[0-9]+ +0\\.00 +[0-9.]+ +[0-9.]+");
  pair.client().signal(SIGINT);
  EXPECT_EQ(pair.client().wait(), 0) << pair.client().err();
  EXPECT_EQ(pair.server().wait(), 0) << pair.server().err();
}

TEST_F(PerftestOutput, Csv) {
  for (const char* test : {"send_lat", "write_bw"}) {
    const ToolResult result = loopback(test, {"-a4", "-n", "40", "--format", "csv"});
    ASSERT_EQ(result.status, 0) << result.err;
    const auto table = parse_csv(result.out);
    ASSERT_EQ(table.size(), 5u) << result.out;
    for (const auto& row : table) EXPECT_EQ(row.size(), table[0].size()) << result.out;
    const size_t size = column_of(table[0], "size");
    for (size_t i = 1; i < table.size(); ++i) {
      EXPECT_EQ(table[i][size], std::to_string(1 << i));
      EXPECT_EQ(table[i][column_of(table[0], "iterations")], "40");
    }
  }
}

TEST_F(PerftestOutput, Json) {
  for (const char* test : {"send_lat", "write_bw"}) {
    const ToolResult result = loopback(test, {"-a4", "-n", "40", "--format", "json"});
    ASSERT_EQ(result.status, 0) << result.err;
    const nlohmann::json json = nlohmann::json::parse(result.out);
    EXPECT_NE(json.dump().find("\"iterations\":40"), std::string::npos) << result.out;
  }
}

TEST_F(PerftestOutput, JsonOfBothSidesIsWhole) {
  PerftestResult result = run_perftest("send_bw", {"-n", "40"}, {}, {"--format", "json"});
  ASSERT_TRUE(result.good()) << result.text();
  EXPECT_TRUE(nlohmann::json::accept(result.client.out)) << result.client.out;
}

TEST_F(PerftestOutput, ChosenPercentiles) {
  const ToolResult result = loopback("read_lat", {"-n", "200", "--percentiles", "50,90,99.5"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has_line(result.out, " 50%\\[us\\] +90%\\[us\\] +99\\.5%\\[us\\]")) << result.out;
}

TEST_F(PerftestOutput, Thousands) {
  const ToolResult result = loopback("write_lat", {"-n", "12000", "--thousands"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has_line(result.out, " 12,000 ")) << result.out;
}

TEST_F(PerftestOutput, FinalPrintsOnlyFigures) {
  const ToolResult result = loopback("write_lat", {"-n", "100", "--final"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of(result.out).size(), 1u) << result.out;
}

TEST_F(PerftestOutput, UnitOfBandwidth) {
  const ToolResult result = loopback("write_bw", {"-n", "100", "--bw_unit", "GB"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has_line(result.out, "BW average\\[GB/sec\\]")) << result.out;
}

TEST_F(PerftestOutput, LoopbackOfEveryTest) {
  for (const char* test : {"read_lat", "read_bw", "write_lat", "write_bw", "send_lat", "send_bw",
                           "atomic_lat", "atomic_bw"}) {
    const ToolResult result = loopback(test, {"-n", "100", "--verify"});
    EXPECT_EQ(result.status, 0) << test << result.out << result.err;
    EXPECT_EQ(parse_rows(result.out).size(), 1u) << result.out;
  }
}

TEST_F(PerftestOutput, ProgressIsForTerminalsOnly) {
  const Arguments options = {"-D", "4"};
  ToolOptions terminal;
  terminal.terminal = true;
  const ToolResult shown = loopback("write_bw", options, terminal);
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find('\r'), std::string::npos) << shown.out;
  const ToolResult hidden = loopback("write_bw", options);
  EXPECT_EQ(hidden.status, 0) << hidden.err;
  EXPECT_EQ(hidden.out.find('\r'), std::string::npos) << hidden.out;
  EXPECT_EQ(parse_rows(hidden.out).size(), 1u) << hidden.out;
}

cpu_set_t allowed_cpus() {
  cpu_set_t allowed;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  return allowed;
}

std::string first_of(const cpu_set_t& cpus) {
  int first = 0;
  while (!CPU_ISSET(first, &cpus)) first++;
  return std::to_string(first);
}

// Both sides spin on one CPU: a step takes two time slices, and thousands take a minute.
TEST_F(PerftestOutput, ProgressIsShownHoweverSlowTheStepsAre) {
  ToolOptions terminal;
  terminal.terminal = true;
  PerftestPair pair("write_lat", {"-n", "100000000", "--cpu", first_of(allowed_cpus())}, {}, {},
                    terminal);
  pair.client().wait_for_line("[1-9][0-9]* of 100000000");
  pair.client().signal(SIGINT);
  EXPECT_EQ(pair.client().wait(), 0) << pair.client().err();
  EXPECT_EQ(pair.server().wait(), 0) << pair.server().err();
}

TEST_F(PerftestOutput, BatchesMultiply) {
  const std::string sizes = write_file("sizes", "# sizes\nsmall -s 8\n\nlarge -s 4096\n");
  const std::string tests =
      write_file("tests", "writes --test write_bw\nreads --test read_bw\nsends --test send_bw\n");
  const ToolResult result =
      loopback("write_bw", {"-n", "100", "--batch", sizes, "--batch", tests, "--format", "csv"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* size : {"small", "large"}) {
    for (const char* test : {"writes", "reads", "sends"}) {
      EXPECT_TRUE(has_line(result.out, std::string(size) + "/" + test)) << result.out;
    }
  }
}

// How many threads of a process may run on that CPU only.
size_t threads_on(pid_t pid, const std::string& cpu) {
  size_t count = 0;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line == "Cpus_allowed_list:\t" + cpu) count++;
    }
  }
  return count;
}

TEST_F(PerftestOutput, EachRunOfABatchPinsOneSide) {
  const cpu_set_t allowed = allowed_cpus();
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "needs two CPUs";
  const std::string cpu = first_of(allowed);
  const std::string runs = write_file("runs", "short -n 5\nlong -n 100000000\n");
  ToolOptions options;
  options.terminal = true;
  Arguments arguments = perftest_arguments("write_bw", 1, {"--loopback", "--cpu", cpu});
  arguments.insert(arguments.end(), {"--batch", runs});
  Tool tool(perftest_program(), arguments, options);
  tool.wait_for_line("[1-9][0-9]* of 100000000");
  EXPECT_EQ(threads_on(tool.pid(), cpu), 1u);
  tool.signal(SIGINT);
  EXPECT_EQ(tool.wait(), 0) << tool.out() << tool.err();
}

TEST_F(PerftestOutput, BatchOfTwoProcesses) {
  const std::string sizes = write_file("sizes", "small -s 8\nmiddle -s 512\nlarge -s 4096\n");
  const PerftestResult result = run_perftest("send_bw", {"-n", "100", "--batch", sizes});
  EXPECT_TRUE(result.good()) << result.text();
  for (const char* name : {"small", "middle", "large"}) {
    EXPECT_TRUE(has_line(result.client.out, name)) << result.client.out;
  }
}

TEST_F(PerftestOutput, ServerAcceptsOneClientAfterTheOther) {
  const uint16_t port = free_port();
  Tool server(perftest_program(),
              perftest_arguments("send_lat", port, {"-n", "50", "--accept-forever"}));
  server.wait_for_line(kWaiting);
  const Arguments client = perftest_arguments("send_lat", port, {"-n", "50", "-S", "127.0.0.1"});
  for (int i = 0; i < 3; ++i) {
    const ToolResult result = run_tool(perftest_program(), client);
    EXPECT_EQ(result.status, 0) << result.out << result.err;
  }
  // A client with other options, and one that is killed, do not end it.
  Arguments other = client;
  other.insert(other.end(), {"-s", "16"});
  EXPECT_EQ(run_tool(perftest_program(), other).status, 1);
  EXPECT_EQ(run_tool(perftest_program(), client).status, 0);
  EXPECT_TRUE(server.running());
  server.signal(SIGINT);
  (void)server.wait();
}

TEST_F(PerftestOutput, HelpAndVersion) {
  for (const char* option : {"-h", "--help", "-V", "--version"}) {
    const ToolResult result = run_tool(perftest_program(), {option});
    EXPECT_EQ(result.status, 0) << option;
    EXPECT_NE(result.out, "") << option;
    EXPECT_EQ(result.err, "") << option;
  }
}

// The words of a shell command that runs the tool with itself as peer.
std::string loopback_command(const std::string& test, const Arguments& options) {
  std::string words = perftest_program();
  Arguments all = options;
  all.emplace_back("--loopback");
  for (const std::string& word : perftest_arguments(test, free_port(), all)) {
    words += " " + word;
  }
  return words;
}

TEST_F(PerftestOutput, AReportThatCannotBeWrittenFails) {
  for (const char* format : {"text", "csv", "json"}) {
    const auto command =
        loopback_command("send_lat", {"-n", "100", "--format", format}) + " >/dev/full";
    const ToolResult result = run_tool("/bin/sh", {"-c", command});
    EXPECT_EQ(result.status, 1) << format;
    EXPECT_EQ(result.err, "urma_perftest: cannot write the report\n") << format;
  }
  const ToolResult help = run_tool("/bin/sh", {"-c", perftest_program() + " --help >/dev/full"});
  EXPECT_EQ(help.status, 1);
}

// No device here delivers messages in records.
TEST_F(PerftestOutput, AnOptionThatTheDeviceIgnoresIsNamed) {
  const ToolResult result =
      run_tool("/bin/sh", {"-c", loopback_command("send_lat", {"-n", "100", "-c"})});
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(has_line(result.err, "^warning: -c is ignored: ")) << result.err;
}

// Not even a run without end goes on.
TEST_F(PerftestOutput, EndsWithItsReader) {
  const ToolResult result =
      run_tool("/bin/sh", {"-c", loopback_command("write_bw", {"-y1"}) + " | head -1"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(lines_of(result.out).size(), 1u) << result.out;
}

// Otherwise the report would go into the connection that got the number of stdout.
TEST_F(PerftestOutput, ServesWithClosedStreams) {
  const uint16_t port = free_port();
  std::string command = "exec " + perftest_program();
  for (const std::string& word : perftest_arguments("send_lat", port, {"-n", "100"})) {
    command += " " + word;
  }
  Tool server("/bin/sh", {"-c", command + " --format csv <&- >&-"});
  server.wait_for_line("^Waiting for client", Tool::kErr);
  const ToolResult client = run_tool(
      perftest_program(),
      perftest_arguments("send_lat", port, {"-n", "100", "-S", "127.0.0.1"}, Side::kClient));
  EXPECT_EQ(client.status, 0) << client.err;
  EXPECT_EQ(server.wait(), 0) << server.err();
}

TEST_F(PerftestOutput, OnlyDeviceIsTheDefault) {
  if (!uses_shared_memory()) GTEST_SKIP() << "there are several devices; unset URMA_DEVICE";
  const Arguments line = {"write_lat", "-n", "100", "--loopback"};
  for (const char* alias : {"URMA_DEVICE_ALIAS", "URMA_DEVICE_ALIAS=bonding_dev_0=urma_shm0"}) {
    const ToolResult result = run_tool(perftest_program(), line, {{alias}});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_TRUE(has_line(result.out, "Device name      : urma_shm0")) << result.out;
  }
  const ToolResult two = run_tool(perftest_program(), line, {{"URMA_DEVICE_ALIAS=-,a0=urma_shm0"}});
  EXPECT_EQ(two.status, 2);
  EXPECT_TRUE(has_line(two.err,
                       "no device; allowed: -d with one of: "
                       "(urma_shm0, a0|a0, urma_shm0);"))
      << two.err;
}

}  // namespace
}  // namespace urma_test
