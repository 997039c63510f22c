// SPDX-License-Identifier: MIT
//
// The interface of the two halves of the tool: main.cc calls the engine's run_test.
#ifndef TOOLS_PERFTEST_RUN_H_
#define TOOLS_PERFTEST_RUN_H_

#include <atomic>

#include "tools/perftest/config.h"
#include "tools/perftest/exchange.h"
#include "tools/perftest/results.h"

namespace perftest {

// Set by the signal handler on Ctrl-C and SIGTERM. Loops check it between batches, stop posting,
// and report what they have measured.
extern std::atomic<bool> interrupted;

// Thrown from a wait that Ctrl-C ended before there were results. Exit code 130.
struct Interrupted : RunError {
  Interrupted() : RunError("interrupted") {}
};

// Runs one side of a test (config.is_client()): opens the device, makes queues and segments, goes
// through steps 2 to 11 of the exchange, measures, and releases everything, also if it throws
// (UsageError, RunError, Interrupted).
//
// Before: main.cc has called urma_init (and calls urma_uninit after), both sides' configurations
// were swapped and compared, CPU pinning is done. With --loopback main.cc calls it twice at the
// same time, from two threads: the server's with the other end of Exchange::make_pair and a
// reporter that prints nothing. If one of the two throws, main.cc drops its Exchange at once, so
// that the other sees its peer vanish.
Outcome run_test(const Config& config, Exchange& exchange, Reporter& reporter);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_RUN_H_
