// SPDX-License-Identifier: MIT
//
// The processes of the tests that kill at random instructions: survivors, which talk to one victim
// after the other and to each other, and victims, each busy with one part of the library until it
// dies.
#ifndef TEST_PROCESS_CRASH_CAST_H_
#define TEST_PROCESS_CRASH_CAST_H_

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/soak.h"

namespace urma_test {

enum class Role : uint32_t {
  kSender,     // messages, inline and large
  kReceiver,   // receives these messages
  kAccessor,   // READ, WRITE and atomics
  kImporter,   // imports and unimports queues and segments in a loop
  kRegistrar,  // registers private memory, has it mapped and unregisters it, in a loop
  kBinder,     // binds and unbinds a jetty of mode RC, in a loop
  kStarter,    // starts and ends the library, in a loop
};
inline constexpr std::array kRoles = {Role::kSender,   Role::kReceiver,  Role::kAccessor,
                                      Role::kImporter, Role::kRegistrar, Role::kBinder,
                                      Role::kStarter};
const char* name_of(Role role);

inline constexpr size_t kSurvivors = 3;
inline constexpr size_t kSlotBytes = 128 * 1024;  // of a receive; more than fits in a ring
inline constexpr size_t kSharedBytes = 256 * 1024;
inline constexpr uint32_t kVictimId = 4711;  // each victim restarts the previous one

// The first words of every message.
enum class Kind : uint64_t { kNoise, kHello, kSegment };
struct Message {
  Kind kind = Kind::kNoise;
  uint64_t from = 0;      // kHello: number of the survivor
  uint64_t round = 0;     // kHello
  SegmentId memory = {};  // kSegment: used while it exists
};

// What others need to know of a survivor or a victim.
struct CrashOffer {
  QueueId queue;
  QueueId bound_queue;  // mode RC
  SegmentId segment;    // kSharedBytes of private memory; no one writes to its first page
};

// What the test tells survivors about the next victim.
struct Round {
  uint64_t number;
  Role role;
  bool at_end;  // no more victims
  CrashOffer victim;
};

// What a survivor reports once a victim is dead and cleaned up. Times are those of a system-wide
// clock.
struct Report {
  int64_t first_error_ns;
  int64_t last_error_ns;
  int64_t longest_pause_ns;  // without a processor, or inside a slow call
  uint64_t requests;         // that ended with an error
  CrashOffer offer;          // its segment differs from the previous one
};

inline int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

// The limit from a death until all survivors know and everything is freed.
inline milliseconds crash_limit() { return promised(seconds(1)); }

// A jetty of mode RC with its own JFR, in the context and on the JFCs of an endpoint.
class BoundQueue {
 public:
  explicit BoundQueue(Endpoint& endpoint);
  void close();
  QueueId id() const;
  urma_target_jetty_t* import(const QueueId& id);
  void post_receive(urma_target_seg_t* segment, void* memory, size_t bytes, uint64_t user_ctx);
  void post(urma_jfs_wr_t wr);

  urma_jetty_t* jetty;

 private:
  Endpoint& endpoint_;
  urma_jfr_t* jfr_;
};

// Talks to the victims that the test names over the channel, until there are no more.
void survive(Channel& channel, uint64_t index);

// Works with the survivors until it is killed. Sends its CrashOffer first; a starter sends a word.
Body victim(Role role, const std::vector<CrashOffer>& survivors, uint64_t seed);

}  // namespace urma_test

#endif  // TEST_PROCESS_CRASH_CAST_H_
