// SPDX-License-Identifier: MIT
//
// Step 9 of the exchange: the two sides of a test of bandwidth tell each other what they measured.
#ifndef TOOLS_PERFTEST_REPORT_SWAP_H_
#define TOOLS_PERFTEST_REPORT_SWAP_H_

#include "tools/perftest/results.h"
#include "tools/perftest/session.h"

namespace perftest {

// Whether this test has that step, as in UMDK's tool: tests of messages, where the receiver counts
// too, only with -B, and then not with -D. Never with -y.
bool reports_are_swapped(const Session& session);

// Swaps rows with all peers. Returns the row that this side prints: its own figures, the peers' if
// only they have some, or the sum in a bidirectional test.
Row swap_reports(Session& session, const Row& own);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_REPORT_SWAP_H_
