/* SPDX-License-Identifier: MIT */

// Extensions of this library to the URMA interface. A program that must also run on other libraries
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
// and `line`, and the text made from the printf `format`. Lines above the level in effect
// (urma_log_get_level) are dropped; long lines are cut. The strings stay the caller's. Thread-safe,
// also before urma_init.
// Specification: none, offered for programs that log next to the library.
void urma_log(const char* function, int line, urma_vlog_level_t level, const char* format, ...)
    __attribute__((format(printf, 4, 5)));

// As urma_log, with the name of the source file; folders before it are left out.
// Specification: none, offered for programs that log next to the library.
void urma_log_loc(const char* file, const char* function, int line, urma_vlog_level_t level,
                  const char* format, ...) __attribute__((format(printf, 5, 6)));

// Tells whether a line of this level is above the level in effect, so that the caller need not
// prepare it for urma_log. Thread-safe, also before urma_init.
// Returns true: dropped, false: written where the log goes (see urma_log_set_level for stderr).
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
  URMA_EXT_REASON_NONE = 0,          // mapped
  URMA_EXT_REASON_NOT_IMPORTED = 1,  // not imported yet, or too little used: pages move later
  URMA_EXT_REASON_OFF = 2,           // URMA_SHM_INPLACE=0
  URMA_EXT_REASON_RAGGED = 3,        // on a page that the segment covers only in part
  URMA_EXT_REASON_NO_FREEZE = 4,     // no userfaultfd: other threads could lose writes
  URMA_EXT_REASON_FILE = 5,          // pages of a file, or of .data
  URMA_EXT_REASON_SHARED = 6,        // memory that the program shares itself
  URMA_EXT_REASON_HUGETLB = 7,       // from the pool of huge pages
  URMA_EXT_REASON_PINNED = 8,        // a device or a child process holds the pages
  URMA_EXT_REASON_SEALED = 9,        // mseal or guard pages
  URMA_EXT_REASON_PROTECTED = 10,    // not readable and writable, executable, or behind a key
  URMA_EXT_REASON_WIPED = 11,        // wiped in a child (MADV_WIPEONFORK)
  URMA_EXT_REASON_WATCHED = 12,      // the program has a userfaultfd on them
  URMA_EXT_REASON_LIMIT = 13,        // a limit of the process: files, descriptors, mappings, memory
  URMA_EXT_REASON_OTHER_TOKEN = 14,  // shared already, under another token or other rights
  URMA_EXT_REASON_STACK = 15,        // on a stack
  URMA_EXT_REASON_KERNEL = 16,       // the kernel is too old, or refuses
  URMA_EXT_REASON_UNMAPPED = 17,     // the memory is no longer mapped
  URMA_EXT_REASON_PART = 18,         // only a part of what urma_ext_alloc returned was registered
  URMA_EXT_REASON_PEER = 19,         // the importer could not map them
  URMA_EXT_REASON_ENDED = 20,        // segment has ended; pages could not be taken back
} urma_ext_reason_t;

// A part of a segment.
typedef struct urma_ext_part {
  uint64_t va;  // in the owner's address space
  uint64_t len;
  urma_ext_path_t path;
  urma_ext_reason_t reason;
} urma_ext_part_t;

// Tells how the parts of a segment are reached: for a registered `tseg` what the owner can hand
// out, for an imported one which way a work request of this process takes. At most *count parts are
// written to `parts`, which may be NULL if *count is 0; *count becomes the number of all parts.
// They cover the segment in ascending order. Thread-safe; the segment must not end meanwhile.
// Returns URMA_SUCCESS, or URMA_EINVAL: an argument is NULL, or the provider of the segment cannot
// tell.
// Specification: none, an extension.
urma_status_t urma_ext_query_segment(const urma_target_seg_t* tseg, urma_ext_part_t* parts,
                                     uint32_t* count);

// Tells what a reason means, as a constant text that belongs to the library. Thread-safe.
// Specification: none, an extension.
const char* urma_ext_reason_text(urma_ext_reason_t reason);

// Huge pages if the machine has some; else ordinary pages.
#define URMA_EXT_ALLOC_HUGE 1U

// Allocates `bytes` bytes of zeroed memory, on a page boundary, that peers can map without moving
// it first, even if private memory cannot be shared in place. Register all of it as one segment.
// Thread-safe, between urma_init and urma_uninit.
// Returns the memory, to be freed with urma_ext_free, or NULL with errno: EINVAL (bytes is 0, or
// unknown flags), ENOMEM.
// Specification: none, an extension.
void* urma_ext_alloc(uint64_t bytes, uint32_t flags);

// Frees what urma_ext_alloc returned; NULL is ignored. It must not be registered any more.
// Thread-safe.
// Returns URMA_SUCCESS, or URMA_EINVAL: the memory is not from urma_ext_alloc.
// Specification: none, an extension.
urma_status_t urma_ext_free(void* memory);

// Registers memory of another device, such as a GPU, through a dma-buf. As urma_register_seg, and
// ended by urma_unregister_seg, except that seg_cfg->va need not be an address of this process: it
// is the address that work requests and peers use for the byte at `offset` of the dma-buf. Both
// must have the same offset within a page. `fd` may be closed afterwards. Only the RDMA device
// accesses this memory: it cannot hold inline data or the result of an emulated atomic
// (urma_ext_query_device). Thread-safe.
// Returns the segment, or NULL with errno: EINVAL, an argument is invalid; EOPNOTSUPP, the device
// does not support dma-bufs; ENOMEM. One log line says which, and what to do.
// Specification: none, an extension.
urma_target_seg_t* urma_ext_register_dmabuf(urma_context_t* ctx, urma_seg_cfg_t* seg_cfg, int fd,
                                            uint64_t offset);

// -------------------------------------------------------------------------------------------------
// Memory of devices that are agents of AMD's HSA runtime: urma_rocm0 and so on
// -------------------------------------------------------------------------------------------------

// The pools of an agent.
typedef enum urma_ext_pool {
  URMA_EXT_POOL_COARSE = 0,  // the agent's own, coarse-grained: the memory of a GPU
  URMA_EXT_POOL_FINE = 1,    // the agent's own, fine-grained: for flags
  URMA_EXT_POOL_HOST = 2,    // host memory, fine-grained, that all agents reach
} urma_ext_pool_t;

// Allocates `bytes` bytes from a pool of the context's device, which all agents may access.
// urma_ext_query_address tells whether the CPU can access them. Thread-safe.
// Returns the memory, to be freed with urma_ext_free_device, or NULL with errno: EINVAL (bytes is
// 0, or the device has no such pool), EOPNOTSUPP (the device is not an agent), ENOMEM.
// Specification: none, an extension.
void* urma_ext_alloc_device(urma_context_t* ctx, urma_ext_pool_t pool, uint64_t bytes);

// Frees what urma_ext_alloc_device returned; NULL is ignored. Segments in it end: their requests
// fail, and each raises URMA_EVENT_ELR_ERR whose element.port_id is its token id. Thread-safe.
// Returns URMA_SUCCESS, or URMA_EINVAL: the memory is not from urma_ext_alloc_device, or the device
// is not an agent.
// Specification: none, an extension.
urma_status_t urma_ext_free_device(urma_context_t* ctx, void* memory);

// What the HSA runtime knows of an address. Reserved members are zero.
typedef struct urma_ext_address {
  uint32_t allocated;              // 1: from the HSA stack; 0: nothing below is known
  uint32_t attached;               // 1: memory of another process
  char device[URMA_MAX_DEV_NAME];  // of the agent that owns it; "": not a device
  urma_ext_pool_t pool;
  uint32_t cpu;    // 1: the CPU may access it
  uint64_t base;   // of the allocation
  uint64_t bytes;  // of the allocation
  uint64_t page_bytes;
  uint64_t reserved[4];
} urma_ext_address_t;

// Tells what the HSA runtime knows of an address of this process. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, or the device is not an agent; URMA_FAIL:
// the runtime refuses.
// Specification: remote device programming, hsa_amd_get_address_info.
urma_status_t urma_ext_query_address(urma_context_t* ctx, const void* address,
                                     urma_ext_address_t* info);

// Names memory for another process of the same user. Plain bytes, which the program sends over its
// own channel; a process that has them may read and write the memory.
typedef struct urma_ext_memory_handle {
  urma_seg_t seg;
  urma_token_t token;
  uint32_t reserved[3];
} urma_ext_memory_handle_t;

// Makes a handle for `bytes` bytes of memory of a device. *owned is its segment: the handle is
// valid until urma_unregister_seg. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, or the device is not an agent; URMA_FAIL:
// the memory cannot be registered; one log line says why.
// Specification: remote device programming, hsa_amd_ipc_get_memory_handle.
urma_status_t urma_ext_create_memory_handle(urma_context_t* ctx, void* memory, uint64_t bytes,
                                            urma_ext_memory_handle_t* handle,
                                            urma_target_seg_t** owned);

// Attaches the memory of a handle; waits at most URMA_ROCM_TIMEOUT_MS plus some seconds for the
// owner's answer. *memory is its address for this process, or for its device only. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, or the device is not an agent; URMA_FAIL:
// the owner is gone, has unregistered it, or cannot share it.
// Specification: remote device programming, hsa_amd_ipc_open_memory_handle.
urma_status_t urma_ext_attach_memory_handle(urma_context_t* ctx,
                                            const urma_ext_memory_handle_t* handle,
                                            urma_target_seg_t** attached, void** memory);

// Ends an attachment of urma_ext_attach_memory_handle. Thread-safe.
// Returns as urma_unimport_seg.
// Specification: remote device programming, hsa_amd_ipc_close_memory_handle.
urma_status_t urma_ext_close_memory_handle(urma_target_seg_t* attached);

// Names a signal of the HSA runtime for another process of the same user. As
// urma_ext_memory_handle; a process that has it may wait for the signal, and change it.
typedef struct urma_ext_signal_handle {
  urma_seg_t seg;
  urma_token_t token;
  uint32_t reserved[3];
} urma_ext_signal_handle_t;

// Makes a handle for a signal: `signal` is the `handle` of an hsa_signal_t that
// hsa_amd_signal_create has made with HSA_AMD_SIGNAL_IPC. The signal stays the program's. *owned is
// the segment of the handle, which is valid until urma_unregister_seg; the signal must not be
// destroyed before. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL or 0, or the device is not an agent;
// URMA_FAIL: the runtime cannot share the signal; one log line says why.
// Specification: remote device programming, hsa_amd_ipc_get_signal_handle.
urma_status_t urma_ext_create_signal_handle(urma_context_t* ctx, uint64_t signal,
                                            urma_ext_signal_handle_t* handle,
                                            urma_target_seg_t** owned);

// Attaches the signal of a handle; waits at most URMA_ROCM_TIMEOUT_MS plus some seconds for the
// owner's answer. *signal is the `handle` of an hsa_signal_t of this process, for every call of the
// runtime except hsa_signal_destroy. It stays valid when the owner ends. Thread-safe.
// Returns URMA_SUCCESS; URMA_EINVAL: an argument is NULL, or the device is not an agent; URMA_FAIL:
// the owner is gone, has ended the handle, or cannot share the signal.
// Specification: remote device programming, hsa_amd_ipc_open_signal_handle.
urma_status_t urma_ext_attach_signal_handle(urma_context_t* ctx,
                                            const urma_ext_signal_handle_t* handle,
                                            urma_target_seg_t** attached, uint64_t* signal);

// Ends an attachment of urma_ext_attach_signal_handle; no thread may wait for the signal any more.
// Thread-safe.
// Returns as urma_unimport_seg.
// Specification: remote device programming, hsa_amd_ipc_close_signal_handle.
urma_status_t urma_ext_close_signal_handle(urma_target_seg_t* attached);

// Memory that another device may access while it is pinned. Reserved members are zero.
typedef struct urma_ext_pinned {
  uint64_t va;
  uint64_t bytes;
  int dmabuf;  // of the memory; closed by unpin
  uint32_t reserved32;
  uint64_t offset;  // of va in the dma-buf
  void* priv;       // private to the library
} urma_ext_pinned_t;

// amd_rdma in user space. All except is_device_va return 0 or a negative error number.
typedef struct urma_ext_rdma_interface {
  uint32_t major;  // 2
  uint32_t minor;  // 0
  // Makes [va, va + bytes) accessible for the device of that name, NULL: any. `free_callback` is
  // called at most once, when the memory is freed before unpin: all access must end before it
  // returns. unpin must still be called.
  int (*pin)(uint64_t va, uint64_t bytes, const char* device, urma_ext_pinned_t** pinned,
             void (*free_callback)(void* client_priv), void* client_priv);
  int (*unpin)(urma_ext_pinned_t** pinned);
  // 1: it is memory of a GPU.
  int (*is_device_va)(uint64_t va);
  int (*va_page_size)(uint64_t va, uint64_t bytes, unsigned long* page_size);
  // As version 1.0 has it: for any device.
  int (*pin_1_0)(uint64_t va, uint64_t bytes, urma_ext_pinned_t** pinned,
                 void (*free_callback)(void* client_priv), void* client_priv);
} urma_ext_rdma_interface_t;

// Gets the interface, which is valid until urma_uninit. Thread-safe.
// Returns 0, or -EINVAL: `rdma` is NULL, or -ENODEV: there is no GPU.
// Specification: remote device programming, amdkfd_query_rdma_interface.
int urma_ext_query_rdma_interface(const urma_ext_rdma_interface_t** rdma);

// Properties of a device beyond urma_query_device. Reserved members are zero.
typedef struct urma_ext_device {
  char provider[URMA_MAX_DEV_NAME];  // "": none that runs
  // Atomics that the sender emulates by repeating compare and swap until it succeeds: slower than
  // others, and atomic only among accesses through RDMA devices. Of 8 and of 4 bytes.
  urma_atomic_feature_t emulated_atomics;
  urma_atomic_feature_t emulated_atomics_4;
  uint32_t dmabuf;     // 1: urma_ext_register_dmabuf is supported
  uint32_t immediate;  // 1: supports WRITE_IMM, SEND_IMM and SEND_INVALIDATE; 0: iWARP
  uint64_t reserved[8];
} urma_ext_device_t;

// Reads the properties of a device of urma_get_device_list. Thread-safe.
// Returns URMA_SUCCESS, or URMA_EINVAL: an argument is NULL, or there is no such device.
// Specification: none, an extension.
urma_status_t urma_ext_query_device(const urma_device_t* dev, urma_ext_device_t* device);

// -------------------------------------------------------------------------------------------------
// What the processes of one user do
//
// A process that uses the library can be inspected through a socket in the runtime directory
// (URMA_RUNTIME_DIR), only by processes of the same effective user: not even by root. They get a
// copy of its state at that moment; only urma_ext_perf changes anything there. `pid` 0, or the
// caller's own, is the calling process itself.
//
// Lists: at most *count entries are written to the array, which may be NULL if *count is 0; *count
// becomes the number of all entries. So ask for the number, make room for some more, and ask again.
//
// All calls are thread-safe, between urma_init and urma_uninit, and end within about a second. They
// return URMA_SUCCESS; URMA_EINVAL: an argument is NULL, or not a valid value; URMA_ENOPERM: no
// process of this user and this runtime directory has that pid; URMA_ETIMEOUT: the process does not
// answer, it may be stopped; URMA_ENOMEM: the list would take more than 256 MiB; URMA_FAIL:
// urma_init was not called, or the process has ended, lacks memory for the answer, uses another
// version of the library, or sent an invalid answer; one log line says which. After a failure
// *count is unchanged.
//
// Reserved members are zero and may become new members; the size of each struct stays the same.
// -------------------------------------------------------------------------------------------------

// A process that uses the library.
typedef struct urma_ext_process {
  uint32_t pid;
  uint32_t uasid;          // 0: not known
  uint32_t uid;            // effective user
  uint32_t slot;           // upper 16 bits of its token ids on shared memory
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
  // Entries in use now. JFS, jetty: requests whose completion was not collected; JFR: posted
  // receives; JFC: receive completions that were not polled (send completions wait in their own
  // queue).
  uint32_t fill;
  uint32_t jfc_id;       // where it completes: JFS, jetty: sends; JFR: receives; JFC: 0
  uint32_t jfr_id;       // jetty: where its receives are posted; else 0
  uint32_t recv_jfc_id;  // jetty: where its receives complete; else 0
  uint32_t lock_free;    // 1: declared to be used by one thread at a time
  // Work requests accepted, and refused with an error. JFC: 0.
  uint64_t posts;
  uint64_t refused;
  // JFS, jetty: requests that have ended, also those that leave no completion record; JFR: receives
  // that were consumed or given back; JFC: completion records that polls returned.
  uint64_t completions;
  // `completions`, by urma_cr_status_t.
  uint64_t by_status[URMA_EXT_MAX_STATUS];
  // Bytes sent, written, read or received by those that succeeded. JFC: 0.
  uint64_t bytes;
  // JFR: messages that found no receive posted; JFS, jetty: requests that ended for that reason.
  uint64_t rnr;
  uint64_t wakeups;  // JFC: events signalled to its JFCE; else 0
  uint64_t polls;    // JFC: calls of urma_poll_jfc; else 0
  // Ways by shared memory, and by a network. JFS, jetty: those that requests to its targets take,
  // whether or not a target answers; JFR: those that are open, from queues of peers (RDMA devices
  // do not count them); JFC: 0.
  uint32_t near_ways;
  uint32_t far_ways;
  uint64_t reserved[7];
} urma_ext_queue_t;

// Lists the active queues of a process, in the order of device, kind and id. The counters of one
// queue are read one after another while it keeps working.
// Specification: none, an extension.
urma_status_t urma_ext_query_queues(uint32_t pid, urma_ext_queue_t* queues, uint32_t* count);

// One part of a segment, as urma_ext_query_segment tells of it.
typedef struct urma_ext_segment {
  char device[URMA_MAX_DEV_NAME];
  uint64_t handle;  // names the segment within its process: the same for all its parts
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

// Lists the registered and imported segments of a process: one entry per part, the parts of a
// segment together and in ascending order. Last come, with URMA_EXT_REASON_ENDED and no device,
// bytes that ended segments left shared: former importers may still reach them.
// Specification: none, an extension.
urma_status_t urma_ext_query_segments_of(uint32_t pid, urma_ext_segment_t* segments,
                                         uint32_t* count);

typedef enum urma_ext_connection_state {
  URMA_EXT_CONNECTION_CONNECTING = 0,  // the peer has not answered yet
  URMA_EXT_CONNECTION_WAITING = 1,     // the peer is a jetty that its program has not bound yet
  URMA_EXT_CONNECTION_READY = 2,
  URMA_EXT_CONNECTION_CLOSING = 3,  // ends once nothing is in flight: others need its place
  URMA_EXT_CONNECTION_FAILED = 4,   // could not be made, or has broken
} urma_ext_connection_state_t;

// What protects a connection, as a bit mask.
typedef enum urma_ext_protection {
  URMA_EXT_PROTECTION_SECRET = 1,  // the peer has proved that it knows the secret
  URMA_EXT_PROTECTION_TLS = 2,     // encrypted
} urma_ext_protection_t;

// One end of a reliable connection, made by a provider between a sending and a receiving queue; or
// of a stream between two processes, for all their queues (tcp).
typedef struct urma_ext_connection {
  char device[URMA_MAX_DEV_NAME];
  urma_eid_t eid;
  urma_eid_t peer_eid;
  urma_ext_queue_kind_t kind;  // of the queue here; stream: 0, as id, peer_kind and peer_id
  uint32_t id;
  urma_ext_queue_kind_t peer_kind;
  uint32_t peer_id;
  urma_ext_connection_state_t state;
  uint32_t incoming;    // 1: the peer sends, 0: this process does; stream: who has started it
  uint32_t trans_mode;  // urma_transport_mode_t; stream: 0
  uint32_t status;      // FAILED: urma_cr_status_t; else 0
  uint32_t number;      // of the device's queue pair, 0: not known yet; stream: a port, see below
  uint32_t peer_number;
  uint64_t handle;  // unique within the sending process; stream: within this one
  uint64_t age_ns;  // since it was asked for
  // 1: a stream. Its numbers are the ports where the processes listen, and all that follows counts.
  uint32_t stream;
  uint32_t protection;  // urma_ext_protection_t
  uint64_t sent_bytes;  // without what TCP and TLS add
  uint64_t received_bytes;
  uint64_t sent_requests;      // messages, and parts of reads, writes and atomics
  uint64_t received_requests;  // of the peer
  uint64_t reserved[3];
} urma_ext_connection_t;

// Lists the connections of a process. Providers without connections, such as shared memory, list
// none.
// Specification: none, an extension.
urma_status_t urma_ext_query_connections(uint32_t pid, urma_ext_connection_t* connections,
                                         uint32_t* count);

// Where the value of a setting comes from.
typedef enum urma_ext_origin {
  URMA_EXT_ORIGIN_DEFAULT = 0,      // neither the environment nor a file names it
  URMA_EXT_ORIGIN_ENVIRONMENT = 1,  // the variable of the environment
  URMA_EXT_ORIGIN_REFUSED = 2,      // the default: what the variable or file says is not allowed
  URMA_EXT_ORIGIN_IGNORED = 3,      // the default: set-user-id programs ignore the variable
  URMA_EXT_ORIGIN_SYSTEM_FILE = 4,  // /etc/urma.conf
  URMA_EXT_ORIGIN_USER_FILE = 5,    // $XDG_CONFIG_HOME/urma.conf, else ~/.config/urma.conf
} urma_ext_origin_t;

// One of the URMA_* variables. Longer texts are cut.
typedef struct urma_ext_setting {
  char name[64];
  char value[1024];   // in force; "" if there is none
  char given[256];    // REFUSED: what the variable or file says; else ""
  char fallback[64];  // the default
  char range[128];    // "a|b|c", "min-max", or "" if any text is allowed
  char help[256];
  urma_ext_origin_t origin;
  uint32_t reserved32;
  uint64_t reserved[8];
} urma_ext_setting_t;

// Lists the settings of a process, in the order of the manual.
// Specification: none, an extension.
urma_status_t urma_ext_query_settings(uint32_t pid, urma_ext_setting_t* settings, uint32_t* count);

// A provider, or a module file that was not loaded.
typedef struct urma_ext_provider {
  char name[URMA_MAX_DEV_NAME];  // "shm"; not loaded: of the file
  char path[1024];               // of the module; cut if longer
  char reason[512];              // why it is not in use, or lacks devices; else ""
  uint32_t loaded;               // 1: in use
  uint32_t devices;              // their number
  uint64_t reserved[8];
} urma_ext_provider_t;

// Lists the providers that the last urma_init of a process found, those in use first. For the
// calling process it also works after an urma_init that failed.
// Specification: none, an extension.
urma_status_t urma_ext_query_providers(uint32_t pid, urma_ext_provider_t* providers,
                                       uint32_t* count);

typedef enum urma_ext_perf_op {
  URMA_EXT_PERF_START = 0,  // urma_start_perf
  URMA_EXT_PERF_STOP = 1,   // urma_stop_perf
  URMA_EXT_PERF_SHOW = 2,   // urma_get_perf_info
} urma_ext_perf_op_t;

// Calls one of the functions of urma_perf.h in a process. SHOW writes the table into the *len bytes
// at `text`, and *len becomes its size with the ending zero, even if it does not fit: the result is
// then URMA_EINVAL. With START and STOP `text` and `len` are not used and may be NULL.
// Specification: none, an extension.
urma_status_t urma_ext_perf(uint32_t pid, urma_ext_perf_op_t op, char* text, uint32_t* len);

// -------------------------------------------------------------------------------------------------
// Atomics in one call, as urma_write and urma_read are WRITE and READ in one call
//
// `dst` is the address to change, in the segment `dst_tseg` of the peer; it is a multiple of `len`,
// which is 4 or 8. The old value goes to `src`, in the registered segment `src_tseg`. They always
// leave a completion record: flag.bs.complete_enable counts as set. Thread-safe, unless the JFS is
// lock_free. They return what urma_post_jfs_wr returns for one request; URMA_EINVAL if a pointer is
// NULL.
// -------------------------------------------------------------------------------------------------

// Stores `swap` if `dst` holds `compare`. `len` may also be 16 if max_cas_size allows it: `compare`
// and `swap` are then the addresses of the values.
// Specification: Data Plane, 3. Completion Record.
urma_status_t urma_cas(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                       urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg, uint64_t dst,
                       uint64_t src, uint32_t len, uint64_t compare, uint64_t swap,
                       urma_jfs_wr_flag_t flag, uint64_t user_ctx);

// Adds `operand` to the value at `dst`.
// Specification: Data Plane, 3. Completion Record, under the name below.
urma_status_t urma_faa(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                       urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg, uint64_t dst,
                       uint64_t src, uint32_t len, uint64_t operand, urma_jfs_wr_flag_t flag,
                       uint64_t user_ctx);

// The same as urma_faa.
// Specification: Data Plane, 3. Completion Record.
urma_status_t urma_fao(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                       urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg, uint64_t dst,
                       uint64_t src, uint32_t len, uint64_t operand, urma_jfs_wr_flag_t flag,
                       uint64_t user_ctx);

// -------------------------------------------------------------------------------------------------
// URMA regions
//
// A region (UR) is a name under which segments of several processes are found. It belongs to the
// process that creates it and ends with that process, however it ends. Processes attach their
// segments; a segment leaves the region when it is detached or its process ends. Names have 1 to
// 255 bytes; each user, runtime directory (URMA_RUNTIME_DIR) and EID of a context has its own. Only
// devices of shared memory have regions; on others each call fails with EINVAL.
//
// Attaching and importing need the region's token. Its lower 32 bits are the token value of the
// segments that have one: register those with it.
//
// All calls are thread-safe, between urma_init and urma_uninit. Besides the results named there,
// they return URMA_EINVAL: a pointer is NULL, or the name is invalid; URMA_FAIL: the runtime
// directory cannot be written or read. One log line says which.
// -------------------------------------------------------------------------------------------------

// Creates the region ur->name. ur->size limits the bytes of its segments together, 0: no limit;
// ur->attr.value limits the rights (URMA_ACCESS_*) that they may grant and importers get, 0: no
// limit. ur->user_ctx is the caller's. End it with urma_destroy_ur.
// Returns URMA_SUCCESS; URMA_EINVAL: attr has other bits; URMA_EEXIST: a living process has a
// region of this name.
// Specification: 1.5 URMA Region.
urma_status_t urma_create_ur(urma_context_t* ctx, const urma_ur_t* ur);

// Ends a region. Importers are told, see urma_ext_ur_fd.
// Returns URMA_SUCCESS; URMA_EINVAL: this process has not created it.
// Specification: 1.5 URMA Region.
urma_status_t urma_destroy_ur(urma_context_t* ctx, const char* name);

// Adds 1 to URMA_MAX_SEGS_PER_UR_OPT segments, which were registered with `ctx`, to a region of any
// process: all of them, or none. Detach them before they are unregistered.
// Returns URMA_SUCCESS; URMA_EINVAL: there is no such region, or a segment is not registered;
// URMA_ENOPERM: the token is wrong, or a segment grants more than the region allows, or nothing;
// URMA_EEXIST: a segment is there already; URMA_ENOMEM: they exceed ur->size, together with the
// segments that are there or are being attached by other processes.
// Specification: 1.5 URMA Region.
urma_status_t urma_attach_ur(urma_context_t* ctx, const char* name, uint64_t token,
                             urma_target_seg_t** segments, uint32_t count);

// Takes segments of this process out of a region: all of them, or none. Works also after the region
// has ended.
// Returns URMA_SUCCESS; URMA_EINVAL: a segment is not in it.
// Specification: 1.5 URMA Region.
urma_status_t urma_detach_ur(urma_context_t* ctx, const char* name, urma_target_seg_t** segments,
                             uint32_t count);

// Imports all segments of a region, in the order in which they were attached. With flag.bs.mapping
// they are mapped if possible, as by urma_import_seg. End it with urma_unimport_ur, before the
// context.
// Returns the region, or NULL with errno: EINVAL, there is no such region; EPERM, the token is
// wrong; ENOMEM.
// Specification: 1.5 URMA Region.
urma_target_ur_t* urma_import_ur(urma_context_t* ctx, const char* name, uint64_t token,
                                 urma_import_ur_flag_t flag);

// Ends an import, and those of all its segments.
// Returns URMA_SUCCESS.
// Specification: 1.5 URMA Region.
urma_status_t urma_unimport_ur(urma_target_ur_t* ur);

// Tells what is in a region. `info` has room for *count entries of seg_list; it may be NULL if
// *count is 0. *count becomes the number of all segments, info->cnt the number written.
// Returns URMA_SUCCESS; URMA_EINVAL: there is no such region.
// Specification: 1.5 URMA Region.
urma_status_t urma_lookup_ur(urma_context_t* ctx, const char* name, urma_ur_info_t* info,
                             uint32_t* count);

// Lists the regions of the EID by their names. At most *count are written to `list`, which may be
// NULL if *count is 0; *count becomes the number of all regions. Tokens are not listed.
// Returns URMA_SUCCESS.
// Specification: 1.5 URMA Region.
urma_status_t urma_get_ur_list(urma_context_t* ctx, urma_ur_t* list, uint32_t* count);

// Gets a descriptor that becomes readable when segments come or go or the region ends, and
// sometimes without a reason. Call urma_ext_refresh_ur when it is readable. It belongs to the
// import.
// Returns the descriptor, or -1: `ur` is NULL.
// Specification: none, an extension.
int urma_ext_ur_fd(const urma_target_ur_t* ur);

// Brings an import up to date: segments that have left are unimported, new ones imported, and
// tseg_list and cnt are updated. No request may be in flight to segments that have left. Not to be
// called by two threads at once for one import.
// Returns URMA_SUCCESS; URMA_FAIL: the region has ended, and cnt is 0; URMA_EINVAL: `ur` is NULL,
// or urma_uninit has ended its context.
// Specification: none, an extension.
urma_status_t urma_ext_refresh_ur(urma_target_ur_t* ur);

#ifdef __cplusplus
}
#endif

#endif  // URMA_EXT_H
