/* SPDX-License-Identifier: MIT */

// Measuring the time that the calls of the data path take.

#ifndef URMA_PERF_H
#define URMA_PERF_H

#include <stdint.h>

#include "urma_opcode.h"
#include "urma_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define URMA_PERF_THREAD_MAX_NUM (128u)  // threads that can be measured at a time

// Kinds of call. UB_*: the call itself; BOND_*: its share in an aggregated device.
typedef enum urma_perf_type {
  UB_JETTY_POST_SEND = 0,
  BOND_JETTY_POST_SEND = 1,
  UB_JFS_POST_SEND = 2,
  BOND_JFS_POST_SEND = 3,
  UB_JETTY_POST_RECV = 4,
  BOND_JETTY_POST_RECV = 5,
  UB_POST_JFR_RECV = 6,
  BOND_POST_JFR_RECV = 7,
  UB_POLL_JFC = 8,
  BOND_POLL_JFC = 9,
  UB_WAIT_JFC = 10,
  BOND_WAIT_JFC = 11,
  UB_ACK_JFC = 12,
  UB_REARM_JFC = 13,
  BOND_REARM_JFC = 14,
  URMA_PERF_RECORD_TYPE_MAX = 15,
} urma_perf_record_type_t;

// Result of a measurement. Times are in nanoseconds.
typedef struct urma_perf_stats {
  uint64_t retry_count;  // calls that had to try again
  // One entry for each kind of call.
  struct {
    urma_perf_record_type_t type;
    uint64_t sample_num;  // calls
    uint64_t average;     // time of a call; so are the following
    uint64_t mininum;     // shortest
    uint64_t maxinum;     // longest
    uint64_t p90;         // 90 of 100 calls are not longer
    uint64_t p99;         // 99 of 100 calls are not longer
    uint64_t p9999;       // 9999 of 10000 calls are not longer
  } type_record[URMA_PERF_RECORD_TYPE_MAX];
} urma_perf_stats_t;

// Forgets what was measured and starts to measure the posting, polling, waiting, acknowledging and
// arming calls of all threads. Calls get slower by the two time stamps that each takes.
// Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: in a forked child.
// Specification: Completion Record.
urma_status_t urma_start_perf(void);

// Stops measuring; the results stay until the next urma_start_perf. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: in a forked child.
// Specification: Completion Record.
urma_status_t urma_stop_perf(void);

// Writes the results as a table of text into the `*length` bytes at `perf_buf`, which belong to the
// caller; `*length` becomes the size of the text with its ending zero. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, or the buffer is too small.
// Specification: Completion Record.
urma_status_t urma_get_perf_info(char* perf_buf, uint32_t* length);

#ifdef __cplusplus
}
#endif

#endif  // URMA_PERF_H
