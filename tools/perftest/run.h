// SPDX-License-Identifier: MIT
//
// Where the two halves of the tool meet: main.cc calls run_test, which is the engine's.
#ifndef TOOLS_PERFTEST_RUN_H_
#define TOOLS_PERFTEST_RUN_H_

#include <atomic>

#include "tools/perftest/config.h"
#include "tools/perftest/exchange.h"
#include "tools/perftest/results.h"

namespace perftest {

// Set by the signal handler on Ctrl-C and SIGTERM. Loops look at it between batches, stop posting,
// and make a partial report of what has been measured.
extern std::atomic<bool> interrupted;

// Thrown out of a wait that Ctrl-C ended before there was anything to report. Exit code 130.
struct Interrupted : RunError {
  Interrupted() : RunError("interrupted") {}
};

// Runs one test as one of the two sides (config.is_client()): opens the device, makes queues and
// segments, goes through steps 2 to 11 of the exchange, measures, and releases everything, also
// when it throws (UsageError, RunError, Interrupted).
//
// Before: urma_init was called by main.cc (urma_uninit after), the configurations of both sides
// were swapped and compared, CPU pinning is done. With --loopback main.cc calls it twice at the
// same time, from two threads: the server's with the other end of Exchange::make_pair and a
// reporter that prints nothing. Where one of the two throws, main.cc drops its Exchange at once,
// so that the other sees its peer vanish.
Outcome run_test(const Config& config, Exchange& exchange, Reporter& reporter);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_RUN_H_
