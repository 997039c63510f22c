// SPDX-License-Identifier: MIT
//
// One call of a sequence as plain data: it can be printed, sent to another process, repeated and
// left out. Objects are named by slots, numbers that a sequence assigns and never reuses.
#ifndef TEST_MODEL_CALL_H_
#define TEST_MODEL_CALL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "urma_api.h"

namespace urma_model {

enum class Fn : uint8_t {
#define X(name) name,
#include "test/process/urma_api_names.inc"
#undef X
};
inline constexpr size_t kFunctions = static_cast<size_t>(Fn::urma_get_dmac) + 1;

enum class Kind : uint8_t {
  kNone,
  kContext,
  kJfce,
  kJfc,
  kJfs,
  kJfr,
  kJetty,
  kGroup,
  kNotifier,
  kTarget,
  kToken,
  kSegment,
  kImport,  // of a segment
};

inline constexpr int kNull = -1;
inline constexpr size_t kSlots = 512;
inline constexpr size_t kArena = 8192;  // the memory of a process that has the segments
inline constexpr size_t kRequests = 3;
inline constexpr size_t kRecords = 32;
inline constexpr uint8_t kTooMany = 99;  // pieces
// Bits of Call::nulls: the pointers after the handle, in order.
inline constexpr uint32_t kFirstNull = 1, kSecondNull = 2, kThirdNull = 4;

// The arguments of a call that creates, imports or configures; each kind of object uses some of
// them.
struct Config {
  uint32_t depth = 64;
  uint32_t mode = URMA_TM_RM;
  uint32_t order = 0;
  uint32_t policy = URMA_TOKEN_NONE;
  uint32_t token = 0;
  uint32_t id = 0;
  uint32_t sge = 2;
  uint32_t inline_data = 64;
  uint32_t rnr_retry = URMA_TYPICAL_RNR_RETRY;
  uint32_t access = 0;
  uint32_t at = 0;  // in the arena
  uint32_t length = 64;
  bool non_blocking = true;
  bool share_jfr = true;
  bool token_given = false;  // token_id_valid of a registration
};

// A work request.
struct Request {
  urma_opcode_t opcode = URMA_OPC_SEND;
  bool signalled = true, solicited = false, fence = false, inlined = false;
  uint8_t pieces = 1;
  int target = kNull, local = kNull, remote = kNull;
  uint32_t at = 0, remote_at = 0;  // in the arenas
  uint32_t length = 8;
  uint64_t operand = 0, swap = 0, immediate = 0;
  uint64_t user_ctx = 0;
};

struct Call {
  Fn fn = Fn::urma_init;
  int process = 0;
  int made = kNull;  // the slot of the created object
  int on = kNull;    // the handle
  int other = kNull, more = kNull, extra = kNull, group = kNull;
  uint32_t nulls = 0;
  int64_t number = 0;  // a count, a state, an option, a timeout, the number of a case
  uint64_t value = 0;
  uint32_t remote_id = 0;  // set just before the call, from `other`
  int wait_for = 0;        // records that a poll repeats for
  Config config;
  size_t requests = 0;
  std::array<Request, kRequests> request;
};

// A completion record. Its owner is the slot that user_data leads to.
struct Record {
  int status = 0;
  uint64_t user_ctx = 0;
  int opcode = 0;
  bool receive = false, jetty = false, flush_done = false, suspend_done = false;
  uint32_t length = 0;
  uint32_t local_id = 0, remote_id = 0, remote_uasid = 0;
  uint64_t immediate = 0;
  int owner = kNull;
};

struct Result {
  int64_t value = 0;  // the status or the count; for a pointer: 1, or 0 for NULL
  int error = 0;      // errno with NULL
  int bad = kNull;    // index of what *bad points to, kNull if unchanged
  uint32_t id = 0, uasid = 0;
  uint64_t out = 0, out2 = 0;  // what the call reads
  uint64_t refs = 0;           // of the context, after the call
  int count = 0;
  std::array<Record, kRecords> record;  // also of events (owner, status: type)
};

const char* name_of(Fn fn);
// As a line of the sequence, "A: urma_create_jfc(ctx 1, ...) -> slot 3".
std::string describe(const Call& call);
std::string describe(const Record& record);

}  // namespace urma_model

#endif  // TEST_MODEL_CALL_H_
