// SPDX-License-Identifier: MIT
//
// What a test tells its hostile peer.
#ifndef TEST_PROCESS_HOSTILE_ORDERS_H_
#define TEST_PROCESS_HOSTILE_ORDERS_H_

#include <cstdint>

#include "urma_types.h"

namespace urma_test {

// Where the hostile owner is found.
inline constexpr uint32_t kHostileSlot = 777;
inline constexpr char kHostileSlotFile[] = "slot-777";
inline constexpr char kHostileSocket[] = "777.shm";
inline constexpr uint32_t kHostileQueue = 5;
inline constexpr uint32_t kHostileToken = kHostileSlot << 16 | 1;

// Of what the victim owns.
struct HostileAim {
  urma_eid_t eid;
  uint32_t queue;
  uint32_t token_id;
  uint64_t va;
  uint64_t len;
  uint64_t seed;
};

// One after the other, each until the next one comes; each is answered as it begins.
enum class HostileOrder : uint32_t {
  kRest,    // waits
  kBurn,    // keeps a processor busy, and harms nobody
  kAttack,  // all kinds of attack, as chance has it
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
