/* SPDX-License-Identifier: MIT */

// Extensions of this library to the URMA interface. A program that is to run on other libraries too
// looks these functions up with dlsym.

#ifndef URMA_EXT_H
#define URMA_EXT_H

#include <stdbool.h>
#include <stdint.h>

#include "urma_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Tells the version of the library, as "major.minor.patch". Thread-safe, also before urma_init.
// Returns a constant string that belongs to the library.
// Specification: none, an extension.
const char* urma_ext_version(void);

// Writes a line to the log, as the library itself does: with the level, the thread tag, `function`
// and `line`, and the text made from the printf `format`. Lines above the level in effect, see
// urma_log_get_level, are dropped; long ones are cut. The strings stay the caller's. Thread-safe,
// also before urma_init.
// Specification: none, offered for programs that log next to the library.
void urma_log(const char* function, int line, urma_vlog_level_t level, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

// Tells whether urma_log would drop a line of this level, so that the caller need not prepare it.
// Thread-safe, also before urma_init.
// Returns true: dropped, false: written.
// Specification: none, offered for programs that log next to the library.
bool urma_log_drop(urma_vlog_level_t level);

// The ways in which bytes of a registered segment are reached, best first.
typedef enum urma_ext_path {
  URMA_EXT_PATH_MAPPED = 0,  // mapped by the importer: plain loads and stores
  URMA_EXT_PATH_COPIED = 1,  // copied by the kernel, between the programs' own buffers
  URMA_EXT_PATH_STAGED = 2,  // copied by the owner's library, through an area of its own
  URMA_EXT_PATH_DEVICE = 3,  // attached by the importer, and moved by the engines of a device
} urma_ext_path_t;

// Why bytes are not mapped.
typedef enum urma_ext_reason {
  URMA_EXT_REASON_NONE = 0,          // they are
  URMA_EXT_REASON_NOT_IMPORTED = 1,  // nobody has imported the segment yet: pages move then
  URMA_EXT_REASON_OFF = 2,           // URMA_SHM_INPLACE=0
  URMA_EXT_REASON_RAGGED = 3,        // of a page that the segment does not cover whole
  URMA_EXT_REASON_NO_FREEZE = 4,     // no userfaultfd: other threads could lose writes
  URMA_EXT_REASON_FILE = 5,          // pages of a file, or of .data
  URMA_EXT_REASON_SHARED = 6,        // memory that the program shares itself
  URMA_EXT_REASON_HUGETLB = 7,       // of the pool of huge pages
  URMA_EXT_REASON_PINNED = 8,        // a device or a child process holds the pages
  URMA_EXT_REASON_SEALED = 9,        // mseal or guard pages
  URMA_EXT_REASON_PROTECTED = 10,    // not readable and writable, executable, or behind a key
  URMA_EXT_REASON_WIPED = 11,        // wiped in a child (MADV_WIPEONFORK)
  URMA_EXT_REASON_WATCHED = 12,      // the program has a userfaultfd on them
  URMA_EXT_REASON_LIMIT = 13,        // a limit of the process: files, descriptors, mappings, memory
  URMA_EXT_REASON_OTHER_TOKEN = 14,  // shared already, under another token or other rights
  URMA_EXT_REASON_STACK = 15,        // of a stack
  URMA_EXT_REASON_KERNEL = 16,       // the kernel is too old, or refuses
  URMA_EXT_REASON_UNMAPPED = 17,     // no memory is there any more
  URMA_EXT_REASON_PART = 18,         // only a part of what urma_ext_alloc returned was registered
  URMA_EXT_REASON_PEER = 19,         // the importer could not map them
} urma_ext_reason_t;

// A part of a segment.
typedef struct urma_ext_part {
  uint64_t va;  // in the owner's address space
  uint64_t len;
  urma_ext_path_t path;
  urma_ext_reason_t reason;
} urma_ext_part_t;

// Tells how the parts of a segment are reached. `tseg` was registered here, and the answer says
// what the owner can hand out; or it was imported, and the answer says which way a work request of
// this process takes. At most *count parts are written to `parts`, which may be NULL where *count
// is 0; *count becomes the number that there are. They cover the segment in ascending order.
// Thread-safe; the segment must stand.
// Returns URMA_SUCCESS, or URMA_EINVAL: an argument is NULL, or the segment belongs to a provider
// that cannot tell.
// Specification: none, an extension.
urma_status_t urma_ext_query_segment(const urma_target_seg_t* tseg, urma_ext_part_t* parts,
                                     uint32_t* count);

// Tells what a reason means, as a constant text that belongs to the library. Thread-safe.
// Specification: none, an extension.
const char* urma_ext_reason_text(urma_ext_reason_t reason);

// Huge pages, where the machine has some; else as without.
#define URMA_EXT_ALLOC_HUGE 1U

// Allocates `bytes` bytes of zeroed memory, on a page boundary, that can be mapped by peers without
// being moved first: also where private memory cannot be shared in place. Register all of it as one
// segment. Thread-safe, between urma_init and urma_uninit.
// Returns the memory, to be freed with urma_ext_free, or NULL with errno: EINVAL (bytes is 0, or
// unknown flags), ENOMEM.
// Specification: none, an extension.
void* urma_ext_alloc(uint64_t bytes, uint32_t flags);

// Frees what urma_ext_alloc returned; NULL is ignored. It must not be registered any more.
// Thread-safe.
// Returns URMA_SUCCESS, or URMA_EINVAL: the memory is not from urma_ext_alloc.
// Specification: none, an extension.
urma_status_t urma_ext_free(void* memory);

// Registers memory of another device, such as that of a GPU, which a dma-buf stands for. As
// urma_register_seg, and ended by urma_unregister_seg, but that seg_cfg->va need not be an address
// of this process: it is what work requests and peers call the byte at `offset` of the dma-buf.
// Both lie at the same place of a page. `fd` may be closed afterwards. Only the RDMA device touches
// this memory: it is no place for inline data, nor for the result of an atomic that is emulated
// (urma_ext_query_device). Thread-safe.
// Returns the segment, or NULL with errno: EINVAL, one of the arguments cannot be; EOPNOTSUPP, the
// device takes no dma-bufs; ENOMEM. One line in the log says which, and what to do.
// Specification: none, an extension.
urma_target_seg_t* urma_ext_register_dmabuf(urma_context_t* ctx, urma_seg_cfg_t* seg_cfg, int fd,
                                            uint64_t offset);

// What there is to know of a device beyond urma_query_device. What is reserved is zero.
typedef struct urma_ext_device {
  char provider[URMA_MAX_DEV_NAME];  // "" where it has none that runs
  // Atomics that the sender executes as compare and swaps, again and again until one succeeds:
  // slower than others, and atomic only for who goes through RDMA devices. Of 8 and of 4 bytes.
  urma_atomic_feature_t emulated_atomics;
  urma_atomic_feature_t emulated_atomics_4;
  uint32_t dmabuf;  // 1: urma_ext_register_dmabuf works there
  uint32_t reserved32;
  uint64_t reserved[8];
} urma_ext_device_t;

// Tells of a device that urma_get_device_list has named. Thread-safe.
// Returns URMA_SUCCESS, or URMA_EINVAL: an argument is NULL, or there is no such device.
// Specification: none, an extension.
urma_status_t urma_ext_query_device(const urma_device_t* dev, urma_ext_device_t* device);

// -------------------------------------------------------------------------------------------------
// What the processes of one user do
//
// A process that uses the library can be looked at by others of its own effective user, and by
// nobody else, not even root, through a socket in the runtime directory (URMA_RUNTIME_DIR). What
// they get is a copy of that moment; nothing but urma_ext_perf changes anything there. `pid` 0, or
// the caller's own, is the calling process itself.
//
// Lists: at most *count entries are written to the array, which may be NULL where *count is 0;
// *count becomes the number that there are. So ask for the number, make room for some more, and
// ask again.
//
// All calls are thread-safe, between urma_init and urma_uninit, and end within about a second. They
// return URMA_SUCCESS; URMA_EINVAL: an argument is NULL, or not one of those that there are;
// URMA_ENOPERM: no process of this user and this runtime directory has that pid; URMA_ETIMEOUT: the
// process does not answer, it may be stopped; URMA_ENOMEM: the list would take more than 256 MiB;
// URMA_FAIL: urma_init comes first, or the process has ended, has no memory for the answer, uses
// another version of the library, or answered something that cannot be true; one line in the log
// says which. After a failure *count is unchanged.
//
// What is reserved is zero, and grows into new members; the size of each struct stays.
// -------------------------------------------------------------------------------------------------

// A process that uses the library.
typedef struct urma_ext_process {
  uint32_t pid;
  uint32_t uasid;          // 0: not known
  uint32_t uid;            // effective user
  uint32_t slot;           // upper 16 bits of the ids that it has on shared memory
  uint64_t start_time_ns;  // of the process, since 1970; 0: not known
  char program[64];        // its name, as ps shows it
  uint64_t reserved[8];
} urma_ext_process_t;

// Lists the processes of the caller's user that use the library and share its runtime directory,
// the caller among them, by ascending pid. A process that does not answer is listed too.
// Specification: none, an extension.
urma_status_t urma_ext_list_processes(urma_ext_process_t* processes, uint32_t* count);

typedef enum urma_ext_queue_kind {
  URMA_EXT_QUEUE_JFC = 0,
  URMA_EXT_QUEUE_JFS = 1,
  URMA_EXT_QUEUE_JFR = 2,
  URMA_EXT_QUEUE_JETTY = 3,  // its sending half; its receives are those of its JFR
} urma_ext_queue_kind_t;

#define URMA_EXT_MAX_STATUS 32  // room for the values of urma_cr_status_t

// An active queue. Counters begin at 0 when it is created or activated, and never go back.
typedef struct urma_ext_queue {
  char device[URMA_MAX_DEV_NAME];
  urma_eid_t eid;
  urma_ext_queue_kind_t kind;
  uint32_t id;
  uint32_t state;       // JFS, jetty: urma_jetty_state_t; JFR: urma_jfr_state_t; JFC: 1
  uint32_t trans_mode;  // urma_transport_mode_t; JFC: 0
  uint32_t depth;
  // Places of `depth` that are taken now. JFS, jetty: requests whose end was not collected; JFR:
  // posted receives; JFC: completions of receives that were not polled, those of sends wait in
  // their own queue.
  uint32_t fill;
  uint32_t jfc_id;       // where it completes: JFS, jetty: sends; JFR: receives; JFC: 0
  uint32_t jfr_id;       // jetty: where its receives are posted; else 0
  uint32_t recv_jfc_id;  // jetty: where its receives complete; else 0
  uint32_t lock_free;    // 1: declared to be used by one thread at a time
  // Work requests that were taken, and that were refused with an error. JFC: 0.
  uint64_t posts;
  uint64_t refused;
  // JFS, jetty: requests that have ended, also those that leave no completion record; JFR: receives
  // that were used up or given back; JFC: completion records that polls returned.
  uint64_t completions;
  // The same by urma_cr_status_t; together they are `completions`. URMA_CR_SUCCESS is the first.
  uint64_t by_status[URMA_EXT_MAX_STATUS];
  // Of those that ended with success: what was sent, written, read or received. JFC: 0.
  uint64_t bytes;
  // JFR: messages that found no receive posted; JFS, jetty: requests that ended for that reason.
  uint64_t rnr;
  uint64_t wakeups;  // JFC: events signalled to its JFCE; else 0
  uint64_t polls;    // JFC: calls of urma_poll_jfc; else 0
  uint64_t reserved[8];
} urma_ext_queue_t;

// Lists the active queues of a process, in the order of device, kind and id. The counters of one
// queue are read one after the other while it works on.
// Specification: none, an extension.
urma_status_t urma_ext_query_queues(uint32_t pid, urma_ext_queue_t* queues, uint32_t* count);

// One part of a segment, as urma_ext_query_segment tells of it.
typedef struct urma_ext_segment {
  char device[URMA_MAX_DEV_NAME];
  uint64_t handle;  // the same for all parts of one segment, and for no other one of the process
  uint64_t va;      // of the segment, in its owner's address space
  uint64_t len;
  uint32_t token_id;
  uint32_t access;      // URMA_ACCESS_*; imported: what its owner grants, 0: not known yet
  uint32_t imported;    // 1: imported, 0: registered here
  uint32_t part_index;  // 0 to part_count - 1
  uint32_t part_count;
  uint32_t reserved32;
  urma_ext_part_t part;
  uint64_t reserved[8];
} urma_ext_segment_t;

// Lists the registered and imported segments of a process: an entry for each part, those of one
// segment in ascending order behind each other.
// Specification: none, an extension.
urma_status_t urma_ext_query_segments_of(uint32_t pid, urma_ext_segment_t* segments,
                                         uint32_t* count);

typedef enum urma_ext_connection_state {
  URMA_EXT_CONNECTION_CONNECTING = 0,  // the peer has not answered yet
  URMA_EXT_CONNECTION_WAITING = 1,     // the peer is a jetty that its program has not bound yet
  URMA_EXT_CONNECTION_READY = 2,
  URMA_EXT_CONNECTION_CLOSING = 3,  // ends once nothing is under way: others need its place
  URMA_EXT_CONNECTION_FAILED = 4,   // it could not be made, or has broken
} urma_ext_connection_state_t;

// One end of a reliable connection, which a provider makes between a queue that sends and one that
// receives.
typedef struct urma_ext_connection {
  char device[URMA_MAX_DEV_NAME];
  urma_eid_t eid;
  urma_eid_t peer_eid;
  urma_ext_queue_kind_t kind;  // of the queue here
  uint32_t id;
  urma_ext_queue_kind_t peer_kind;
  uint32_t peer_id;
  urma_ext_connection_state_t state;
  uint32_t incoming;    // 1: the peer sends, 0: this process does
  uint32_t trans_mode;  // urma_transport_mode_t
  uint32_t status;      // FAILED: urma_cr_status_t; else 0
  uint32_t number;      // of the device's queue pair, 0: not known yet
  uint32_t peer_number;
  uint64_t handle;  // the sending process has no other connection with the same
  uint64_t age_ns;  // since it was asked for
  uint64_t reserved[8];
} urma_ext_connection_t;

// Lists the connections of a process. Providers that need none, as shared memory, have none.
// Specification: none, an extension.
urma_status_t urma_ext_query_connections(uint32_t pid, urma_ext_connection_t* connections,
                                         uint32_t* count);

// Where the value of a setting comes from.
typedef enum urma_ext_origin {
  URMA_EXT_ORIGIN_DEFAULT = 0,      // the variable is not set
  URMA_EXT_ORIGIN_ENVIRONMENT = 1,  // the variable
  URMA_EXT_ORIGIN_REFUSED = 2,      // the default: what the variable says is not allowed
  URMA_EXT_ORIGIN_IGNORED = 3,      // the default: set-user-id programs ignore the variable
} urma_ext_origin_t;

// One of the URMA_* variables. Texts that are longer are cut.
typedef struct urma_ext_setting {
  char name[64];
  char value[1024];   // in force; "" where there is none
  char given[256];    // REFUSED: what the variable says; else ""
  char fallback[64];  // the default
  char range[128];    // "a|b|c", "min-max", or "" where any text is allowed
  char help[256];
  urma_ext_origin_t origin;
  uint32_t reserved32;
  uint64_t reserved[8];
} urma_ext_setting_t;

// Lists the settings of a process, in the order of the manual.
// Specification: none, an extension.
urma_status_t urma_ext_query_settings(uint32_t pid, urma_ext_setting_t* settings, uint32_t* count);

// A provider, or a file that was taken for one.
typedef struct urma_ext_provider {
  char name[URMA_MAX_DEV_NAME];  // "shm"; where it was not loaded that of the file
  char path[1024];               // of the module; cut where it is longer
  char reason[512];              // why it is not in use, or has no device; else ""
  uint32_t loaded;               // 1: in use
  uint32_t devices;              // that it has
  uint64_t reserved[8];
} urma_ext_provider_t;

// Lists the providers that the last urma_init of a process found, those in use first. Of the
// calling process it may also be asked after an urma_init that failed.
// Specification: none, an extension.
urma_status_t urma_ext_query_providers(uint32_t pid, urma_ext_provider_t* providers,
                                       uint32_t* count);

typedef enum urma_ext_perf_op {
  URMA_EXT_PERF_START = 0,  // urma_start_perf
  URMA_EXT_PERF_STOP = 1,   // urma_stop_perf
  URMA_EXT_PERF_SHOW = 2,   // urma_get_perf_info
} urma_ext_perf_op_t;

// Calls one of the functions of urma_perf.h in a process. SHOW writes the table into the *len bytes
// at `text`, and *len becomes its size with the ending zero, also where it does not fit: then the
// answer is URMA_EINVAL. With START and STOP `text` and `len` are not used and may be NULL.
// Specification: none, an extension.
urma_status_t urma_ext_perf(uint32_t pid, urma_ext_perf_op_t op, char* text, uint32_t* len);

#ifdef __cplusplus
}
#endif

#endif  // URMA_EXT_H
