// SPDX-License-Identifier: MIT
//
// The plan of URMA_FAULT: faults that the library injects, to test a program with them.
// docs/reference/faults.md has the grammar.
#ifndef URMA_BASE_FAULT_PLAN_H_
#define URMA_BASE_FAULT_PLAN_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace urma {

enum class FaultKind {
  kDelay,    // a request is executed later
  kDrop,     // the connection to the peer breaks
  kRnr,      // the peer answers that it has no receive
  kToken,    // the request carries a wrong token
  kJfc,      // the JFC of the request overflows
  kQueue,    // the JFS or jetty fails
  kReceive,  // the JFR fails, as a receive is posted to it
  kPort,     // a port of the device goes down
  kEid,      // an EID of the device changes
  kFatal,    // the device fails
};

// The kind of request that a rule matches.
enum FaultOp : uint32_t {
  kFaultSend = 1,
  kFaultWrite = 2,
  kFaultRead = 4,
  kFaultAtomic = 8,
  kFaultAny = 15,
};

struct FaultRule {
  FaultKind kind;
  uint32_t ops = kFaultAny;
  uint32_t millionths = 1'000'000;  // the chance that a candidate is hit
  uint64_t after = 0;               // candidates skipped first
  uint64_t every = 1;               // then one in this many
  uint64_t count = UINT64_MAX;      // hits at most
  uint64_t ms = 0;                  // delay: how long
  uint64_t at_ms = 0;               // port, eid, fatal: after the first context was made
  uint64_t for_ms = 0;              // port: for how long; 0: indefinitely
  uint32_t index = 0;               // eid: which
};

struct FaultPlan {
  uint64_t seed = 0;
  std::vector<FaultRule> rules;
};

// "": no plan. Throws Error(URMA_EINVAL), which says what is wrong in the text, and where.
FaultPlan parse_faults(std::string_view text);

}  // namespace urma

#endif  // URMA_BASE_FAULT_PLAN_H_
