// SPDX-License-Identifier: MIT
//
// Runs of urma_perftest in two processes, and what they print.
#ifndef TEST_TOOLS_PERFTEST_PARTY_H_
#define TEST_TOOLS_PERFTEST_PARTY_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "test/tools/tool_process.h"

namespace urma_test {

using Arguments = std::vector<std::string>;

// What a server prints when it accepts a client.
inline constexpr char kWaiting[] = "Waiting for client to connect";

std::string perftest_program();

// The server uses the device that URMA_DEVICE names, and its EID number URMA_EID_INDEX; so does the
// client, unless URMA_PEER_DEVICE or URMA_PEER_EID_INDEX is set.
enum class Side { kServer, kClient };

// "send_lat", "-d", the device, "-P", the port, "--eid_idx", its number, and the options.
Arguments perftest_arguments(const std::string& test, uint16_t port, const Arguments& options,
                             Side side = Side::kServer);

// Whether URMA_DEVICE names shared memory, or nothing.
bool uses_shared_memory();

class PerftestTest : public ToolTest {};

// A server, and a client of it.
struct PerftestResult {
  ToolResult server;
  ToolResult client;

  bool good() const { return server.status == 0 && client.status == 0; }
  // The whole output, for the message of a failing test.
  std::string text() const;
};

// Runs both to the end. The options are those of both sides, then those of one.
PerftestResult run_perftest(const std::string& test, const Arguments& options,
                            const Arguments& server_options = {},
                            const Arguments& client_options = {});

// A running pair.
class PerftestPair {
 public:
  PerftestPair(const std::string& test, const Arguments& options,
               const Arguments& server_options = {}, const Arguments& client_options = {},
               const ToolOptions& client_environment = {});

  Tool& server() { return server_; }
  Tool& client() { return client_; }

 private:
  static Arguments joined(Arguments a, const Arguments& b, const Arguments& c = {});

  const uint16_t port_;
  Tool server_;
  Tool client_;
};

// The numbers in the lines after the header of the table, one vector per line. Fails the test if a
// line is not formatted as documented.
std::vector<std::vector<double>> parse_rows(const std::string& out);

}  // namespace urma_test

#endif  // TEST_TOOLS_PERFTEST_PARTY_H_
