/* SPDX-License-Identifier: MIT */

// Constants of the URMA interface: operation codes, status values, states and option numbers.

#ifndef URMA_OPCODE_H
#define URMA_OPCODE_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Segments and tokens
// -------------------------------------------------------------------------------------------------

// How the owner of a queue or segment checks those who import it (flag.bs.token_policy).
#define URMA_TOKEN_NONE 0           // no check
#define URMA_TOKEN_PLAIN_TEXT 1     // the importer presents the 32-bit token value
#define URMA_TOKEN_SIGNED 2         // defined, not supported by any provider here
#define URMA_TOKEN_ALL_ENCRYPTED 3  // defined, not supported by any provider here
#define URMA_TOKEN_RESERVED 4

// Whether urma_seg_cfg_t.token_id names a token id of the caller (flag.bs.token_id_valid).
#define URMA_TOKEN_ID_INVALID 0  // the library takes a private token id
#define URMA_TOKEN_ID_VALID 1

// Direct shared virtual address: the importer maps the segment where its owner has it.
#define URMA_DSVA_DISABLE 0
#define URMA_DSVA_ENABLE 1

#define URMA_NON_CACHEABLE 0
#define URMA_CACHEABLE 1

// Access rights of a segment. The owner can always read and write its own memory; LOCAL_ONLY shuts
// every importer out and goes with no other bit. WRITE needs READ; ATOMIC needs READ and WRITE.
#define URMA_ACCESS_LOCAL_ONLY (0x1 << 0)
#define URMA_ACCESS_READ (0x1 << 1)
#define URMA_ACCESS_WRITE (0x1 << 2)
#define URMA_ACCESS_ATOMIC (0x1 << 3)

#define URMA_LOCAL_MEMORY 0
#define URMA_REMOTE_MEMORY 1

// Whether an import also maps the remote memory for loads and stores (flag.bs.mapping).
#define URMA_SEG_NOMAP 0
#define URMA_SEG_MAPPED 1

// Kind of address: mapped into this process, or of the bus.
#define URMA_ADDR_TYPE_MVA 0
#define URMA_ADDR_TYPE_UBVA 1

// -------------------------------------------------------------------------------------------------
// Work requests
// -------------------------------------------------------------------------------------------------

#define URMA_COMPLETE_ENABLE 1   // success leaves a completion record
#define URMA_COMPLETE_DISABLE 0  // only a failure leaves one

#define URMA_COMPLETE_TYPE_JFC 0  // completion goes to a JFC
#define URMA_COMPLETE_TYPE_CF 1   // completion goes to a completion flag

// Dependency of a request on the ones posted before it.
#define URMA_DEPENDENCY_NONE 0
#define URMA_DEPENDENCY_FIRST 1
#define URMA_DEPENDENCY_DELAY 2

#define URMA_NOTIFY_DISABLE 0
#define URMA_NOTIFY_ENABLE 1

#define URMA_NOTIFY_TYPE_JFC 0  // the peer is told through its JFC
#define URMA_NOTIFY_TYPE_RVA 1  // the peer is told at a remote address

#define URMA_INLINE_DISABLE 0
#define URMA_INLINE_ENABLE 1  // the payload is copied while posting

#define URMA_SOLICITED_DISABLE 0
#define URMA_SOLICITED_ENABLE 1  // wakes a peer that armed for solicited events only

#define URMA_FENCE_DISABLE 0
#define URMA_FENCE_ENABLE 1  // starts after earlier reads and atomics of the queue

// Shape of a scatter list.
#define URMA_REGULAR 1
#define URMA_IRREGULAR 0

#define URMA_NO_TAG_MATCHING 0
#define URMA_WITH_TAG_MATCHING 1

// Load and store requests, with or without an answer.
#define URMA_NONPOST_LS 0
#define URMA_POST_LS 1

// Receive side of a jetty (urma_jetty_flag_t.bs.share_jfr); UB devices need URMA_SHARE_JFR.
#define URMA_NO_SHARE_JFR 0
#define URMA_SHARE_JFR 1

// Usual values of queue settings.
#define URMA_TYPICAL_RNR_RETRY 7     // retries without limit while the peer has no receive posted
#define URMA_TYPICAL_ERR_TIMEOUT 17  // 4.096 us * 2^17, about half a second
#define URMA_TYPICAL_MIN_RNR_TIMER 12
#define URMA_MAX_PRIORITY 15  // largest priority, counting from 0

// Order in which the data of a request becomes visible at the target.
typedef enum urma_place_order {
  URMA_NO_ORDER = 0,      // free
  URMA_RELAX_ORDER = 1,   // only before a strongly ordered request that follows
  URMA_STRONG_ORDER = 2,  // after every relaxed or strong request before it
} urma_place_order_t;

// What a work request does.
typedef enum urma_opcode {
  URMA_OPC_WRITE = 0x00,            // one-sided write
  URMA_OPC_WRITE_IMM = 0x01,        // write; consumes a receive of the target, brings 64 bits
  URMA_OPC_WRITE_NOTIFY = 0x02,     // write, then 8 bytes at a second address of the target
  URMA_OPC_READ = 0x10,             // one-sided read
  URMA_OPC_CAS = 0x20,              // compare and swap
  URMA_OPC_SWAP = 0x21,             // swap
  URMA_OPC_FADD = 0x22,             // fetch and add
  URMA_OPC_FSUB = 0x23,             // fetch and subtract
  URMA_OPC_FAND = 0x24,             // fetch and bitwise and
  URMA_OPC_FOR = 0x25,              // fetch and bitwise or
  URMA_OPC_FXOR = 0x26,             // fetch and bitwise exclusive or
  URMA_OPC_SEND = 0x40,             // message into a posted receive
  URMA_OPC_SEND_IMM = 0x41,         // message with 64 bits for the completion record
  URMA_OPC_SEND_INVALIDATE = 0x42,  // message that ends the validity of a segment of the target
  URMA_OPC_NOP = 0x51,              // nothing, but completes
  URMA_OPC_WRITE_ATOMIC = 0x60,     // write that the target sees whole or not at all
  URMA_OPC_FLUSH_DMA = 0x80,        // makes earlier writes durable at the target
  URMA_OPC_LAST = 0x81,
} urma_opcode_t;

// -------------------------------------------------------------------------------------------------
// Results of calls
// -------------------------------------------------------------------------------------------------

// Result of a call: 0, an errno value, or URMA_FAIL. An operation that a provider does not support
// returns URMA_EINVAL.
typedef int urma_status_t;
#define URMA_SUCCESS 0
#define URMA_EAGAIN EAGAIN            // in use, or would block
#define URMA_ENOMEM ENOMEM            // out of memory, or the queue is full
#define URMA_ENOPERM EPERM            // the state or mode of an object forbids it
#define URMA_ETIMEOUT ETIMEDOUT       // timed out
#define URMA_EINVAL EINVAL            // wrong argument, or operation not supported
#define URMA_EEXIST EEXIST            // exists already
#define URMA_EINPROGRESS EINPROGRESS  // in progress
#define URMA_FAIL 0x1000              // every other failure

// -------------------------------------------------------------------------------------------------
// Completions and events
// -------------------------------------------------------------------------------------------------

// How a work request ended.
typedef enum urma_cr_status {
  URMA_CR_SUCCESS = 0,                 // done
  URMA_CR_UNSUPPORTED_OPCODE_ERR = 1,  // the operation cannot be carried out here
  URMA_CR_LOC_LEN_ERR = 2,  // length does not fit; at a receiver: message longer than the buffer
  URMA_CR_LOC_OPERATION_ERR = 3,        // local queue could not carry it out
  URMA_CR_LOC_ACCESS_ERR = 4,           // a local buffer is outside its segment or not permitted
  URMA_CR_REM_RESP_LEN_ERR = 5,         // the peer reported a length that does not fit
  URMA_CR_REM_UNSUPPORTED_REQ_ERR = 6,  // the peer does not know the operation
  URMA_CR_REM_OPERATION_ERR = 7,        // the queue of the peer could not finish it
  URMA_CR_REM_ACCESS_ABORT_ERR = 8,     // refused by the peer: range, right, token, or queue gone
  URMA_CR_ACK_TIMEOUT_ERR = 9,          // peer not reachable, retries used up
  URMA_CR_RNR_RETRY_CNT_EXC_ERR = 10,   // peer had no receive posted, retries used up
  URMA_CR_WR_FLUSH_ERR = 11,            // not carried out: the queue is in the error state
  URMA_CR_WR_SUSPEND_DONE = 12,         // marker: the queue is suspended; user_ctx has no meaning
  URMA_CR_WR_FLUSH_ERR_DONE = 13,       // marker: the queue is flushed; user_ctx has no meaning
  URMA_CR_WR_UNHANDLED = 14,  // never started; handed back by urma_flush_jfs and urma_flush_jetty
  URMA_CR_LOC_DATA_POISON = 15,  // local memory is damaged
  URMA_CR_REM_DATA_POISON = 16,  // remote memory is damaged
} urma_cr_status_t;

// What consumed a receive. Completions of sends hold none of these values.
typedef enum urma_cr_opcode {
  URMA_CR_OPC_SEND = 0,            // SEND
  URMA_CR_OPC_SEND_WITH_IMM = 1,   // SEND_IMM, see urma_cr_t.imm_data
  URMA_CR_OPC_SEND_WITH_INV = 2,   // SEND_INVALIDATE, see urma_cr_t.invalid_token
  URMA_CR_OPC_WRITE_WITH_IMM = 3,  // WRITE_IMM, see urma_cr_t.imm_data
  URMA_CR_OPC_FLUSH_WRITE = 4,     // a write that was made durable
} urma_cr_opcode_t;

// Type of an asynchronous event; it selects the member of urma_async_event_t.element.
typedef enum urma_async_event_type {
  URMA_EVENT_JFC_ERR = 0,        // jfc: overflow or loss
  URMA_EVENT_JFS_ERR = 1,        // jfs: now in the error state
  URMA_EVENT_JFR_ERR = 2,        // jfr: now in the error state
  URMA_EVENT_JFR_LIMIT = 3,      // jfr: fewer receives posted than rx_threshold
  URMA_EVENT_JETTY_ERR = 4,      // jetty: now in the error state
  URMA_EVENT_JETTY_LIMIT = 5,    // jetty: fewer receives posted than rx_threshold
  URMA_EVENT_JETTY_GRP_ERR = 6,  // jetty_grp: fault of the group
  URMA_EVENT_PORT_ACTIVE = 7,    // port_id: the port came up
  URMA_EVENT_PORT_DOWN = 8,      // port_id: the port went down
  URMA_EVENT_DEV_FATAL = 9,      // the device is lost
  URMA_EVENT_EID_CHANGE = 10,    // eid_idx: this entry of the EID table changed
  URMA_EVENT_ELR_ERR = 11,       // the device entity as a whole is at fault
  URMA_EVENT_ELR_DONE = 12,      // that fault has been dealt with
} urma_async_event_type_t;

// State of a completion queue.
typedef enum urma_jfc_state {
  URMA_JFC_STATE_INVALID = 0,  // unusable
  URMA_JFC_STATE_VALID = 1,    // in use
  URMA_JFC_STATE_ERROR = 2,    // overflowed or lost
} urma_jfc_state_t;

// State of a jetty or send queue.
typedef enum urma_jetty_state {
  URMA_JETTY_STATE_RESET = 0,      // empty, carries out nothing
  URMA_JETTY_STATE_READY = 1,      // in use; the state after creation
  URMA_JETTY_STATE_SUSPENDED = 2,  // stopped by a transport fault; resumes when set to READY
  URMA_JETTY_STATE_ERROR = 3,      // everything posted comes back flushed
} urma_jetty_state_t;

// State of a receive queue.
typedef enum urma_jfr_state {
  URMA_JFR_STATE_RESET = 0,  // empty, takes no message
  URMA_JFR_STATE_READY = 1,  // in use; the state after creation
  URMA_JFR_STATE_ERROR = 2,  // everything posted comes back flushed
} urma_jfr_state_t;

// -------------------------------------------------------------------------------------------------
// Options of the two-step life cycle
// -------------------------------------------------------------------------------------------------

// Option numbers for urma_set_*_opt and urma_get_*_opt. The comment is the type of the value; its
// size has to match exactly. A FULL_CTX option is read only. It has the length that its provider
// sets, here 128 bytes of a JFC, 64 of a JFR, 256 of a JFS or jetty: four uint32_t, of them id,
// depth and state, then two uint64_t, the requests posted and ended (JFC: 0); the rest is 0.

// Send queue. urma_set_jetty_opt and urma_get_jetty_opt take these too.
#define URMA_JFS_DEPTH 0x0001            // uint32_t
#define URMA_JFS_FLAG 0x0002             // urma_jfs_flag_t
#define URMA_JFS_TRANS_MODE 0x0003       // urma_transport_mode_t
#define URMA_JFS_PRIORITY 0x0004         // uint8_t
#define URMA_JFS_MAX_SGE 0x0005          // uint8_t
#define URMA_JFS_MAX_RSGE 0x0006         // uint8_t
#define URMA_JFS_MAX_INLINE_DATA 0x0007  // uint32_t
#define URMA_JFS_RNR_RETRY 0x0008        // uint8_t
#define URMA_JFS_ERR_TIMEOUT 0x0009      // uint8_t
#define URMA_JFS_BIND_JFC 0x000a         // urma_jfc_t *
#define URMA_JFS_USER_CTX 0x000b         // uint64_t
#define URMA_JFS_SQE_BASE_ADDR 0x000c    // uint64_t
#define URMA_JFS_ID 0x000d               // uint32_t
#define URMA_JFS_DB_ADDR 0x000e          // uint64_t
#define URMA_JFS_DB_STATUS 0x000f        // uint8_t
#define URMA_JFS_PI 0x0010               // uint16_t
#define URMA_JFS_PI_TYPE 0x0011          // uint16_t
#define URMA_JFS_CI 0x0012               // uint16_t
#define URMA_JFS_FULL_CTX 0x0013

// Receive queue.
#define URMA_JFR_DEPTH 0x1001          // uint32_t
#define URMA_JFR_FLAG 0x1002           // urma_jfr_flag_t
#define URMA_JFR_TRANS_MODE 0x1003     // urma_transport_mode_t
#define URMA_JFR_MAX_SGE 0x1004        // uint8_t
#define URMA_JFR_MIN_RNR_TIMER 0x1005  // uint8_t
#define URMA_JFR_BIND_JFC 0x1006       // urma_jfc_t *
#define URMA_JFR_TOKEN_VALUE 0x1007    // urma_token_t
#define URMA_JFR_USER_CTX 0x1008       // uint64_t
#define URMA_JFR_RQE_BASE_ADDR 0x1009  // uint64_t
#define URMA_JFR_ID 0x100a             // uint32_t
#define URMA_JFR_DB_ADDR 0x100b        // uint64_t
#define URMA_JFR_DB_STATUS 0x100c      // uint8_t
#define URMA_JFR_PI 0x100d             // uint16_t
#define URMA_JFR_PI_TYPE 0x100e        // uint16_t
#define URMA_JFR_CI 0x100f             // uint16_t
#define URMA_JFR_FULL_CTX 0x1010

// Completion queue.
#define URMA_JFC_DEPTH 0x2001          // uint32_t
#define URMA_JFC_CEQN 0x2002           // uint32_t
#define URMA_JFC_FLAG 0x2003           // urma_jfc_flag_t
#define URMA_JFC_BIND_JFCE 0x2004      // urma_jfce_t *
#define URMA_JFC_USER_CTX 0x2005       // uint64_t
#define URMA_JFC_CQE_BASE_ADDR 0x2006  // uint64_t
#define URMA_JFC_ID 0x2007             // uint32_t
#define URMA_JFC_DB_ADDR 0x2008        // uint64_t
#define URMA_JFC_DB_STATUS 0x2009      // uint8_t
#define URMA_JFC_PI 0x200a             // uint16_t
#define URMA_JFC_PI_TYPE 0x200b        // uint16_t
#define URMA_JFC_CI 0x200c             // uint16_t
#define URMA_JFC_FULL_CTX 0x200d

// Jetty.
#define URMA_JETTY_ID 0x3001           // uint32_t
#define URMA_JETTY_FLAG 0x3002         // urma_jetty_flag_t
#define URMA_JETTY_BIND_JFR 0x3003     // urma_jfr_t *
#define URMA_JETTY_BIND_RX_JFC 0x3004  // urma_jfc_t *
#define URMA_JETTY_BIND_JTG 0x3005     // urma_jetty_grp_t *
#define URMA_JETTY_USER_CTX 0x3006     // uint64_t
#define URMA_JETTY_FULL_CTX 0x3007

#ifdef __cplusplus
}
#endif

#endif  // URMA_OPCODE_H
