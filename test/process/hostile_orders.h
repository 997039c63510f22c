// SPDX-License-Identifier: MIT
//
// The orders of a test to its hostile peer.
#ifndef TEST_PROCESS_HOSTILE_ORDERS_H_
#define TEST_PROCESS_HOSTILE_ORDERS_H_

#include <cstdint>

#include "urma_types.h"

namespace urma_test {

// Where to find the hostile owner.
inline constexpr uint32_t kHostileSlot = 777;
inline constexpr char kHostileSlotFile[] = "slot-777";
inline constexpr char kHostileSocket[] = "777.shm";
inline constexpr uint32_t kHostileQueue = 5;
inline constexpr uint32_t kHostileToken = kHostileSlot << 16 | 1;

// Objects of the victim.
struct HostileAim {
  urma_eid_t eid;
  uint32_t queue;
  uint32_t token_id;
  uint64_t va;
  uint64_t len;
  uint64_t seed;
};

// Each lasts until the next one comes, and is answered when it begins.
enum class HostileOrder : uint32_t {
  kRest,    // waits
  kBurn,    // keeps a processor busy and does nothing else
  kAttack,  // all kinds of attack, chosen at random
  kFlood,   // as many requests as the control socket takes
  kEnd,     // answered by a report
};

struct HostileReport {
  uint64_t attacks;
  uint64_t accepted;  // answers
  uint64_t refused;
};

}  // namespace urma_test

#endif  // TEST_PROCESS_HOSTILE_ORDERS_H_
