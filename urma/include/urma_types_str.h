/* SPDX-License-Identifier: MIT */

// Names of the constants of urma_types.h and urma_opcode.h, for people to read; results of calls
// and of requests in words. Every function returns a constant string, and "INVALID" for a value
// without a name. All are thread-safe.

#ifndef URMA_TYPES_STR_H
#define URMA_TYPES_STR_H

#include <stddef.h>
#include <stdint.h>

#include "urma_opcode.h"
#include "urma_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// The tables are ordered by value, so that they are valid C++ too; NULL is a value without a name.

static const char* const g_urma_mtu_str[] = {
    NULL, "MTU_256", "MTU_512", "MTU_1024", "MTU_2048", "MTU_4096", "MTU_8192",
};

// Size of a port's transfer unit.
static inline const char* urma_mtu_to_string(urma_mtu_t mtu) {
  if (mtu < URMA_MTU_256 || mtu > URMA_MTU_8192) {
    return "INVALID";
  }
  return g_urma_mtu_str[mtu];
}

static const char* const g_urma_port_state_str[] = {
    "NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER",
};

// State of a port.
static inline const char* urma_port_state_to_string(urma_port_state_t state) {
  if ((unsigned)state > URMA_PORT_ACTIVE_DEFER) {
    return "INVALID";
  }
  return g_urma_port_state_str[state];
}

static const char* const g_urma_speed_str[] = {
    "SP_10M", "SP_100M", "SP_1G",  "SP_2.5G", "SP_5G",   "SP_10G",  "SP_14G",
    "SP_25G", "SP_40G",  "SP_50G", "SP_100G", "SP_200G", "SP_400G", "SP_800G",
};

// Speed of a link.
static inline const char* urma_speed_to_string(urma_speed_t speed) {
  if ((unsigned)speed > URMA_SP_800G) {
    return "INVALID";
  }
  return g_urma_speed_str[speed];
}

static const char* const g_urma_link_width_str[] = {
    NULL, "LINK_X1", "LINK_X2", NULL, "LINK_X4",  NULL, NULL, NULL, "LINK_X8",  NULL, NULL, NULL,
    NULL, NULL,      NULL,      NULL, "LINK_X16", NULL, NULL, NULL, NULL,       NULL, NULL, NULL,
    NULL, NULL,      NULL,      NULL, NULL,       NULL, NULL, NULL, "LINK_X32",
};

// Lanes of a link.
static inline const char* urma_link_width_to_string(urma_link_width_t width) {
  if ((unsigned)width > URMA_LINK_X32 || g_urma_link_width_str[width] == NULL) {
    return "INVALID";
  }
  return g_urma_link_width_str[width];
}

static const char* const g_urma_tp_type_en_str[] = {
    "RTP",
    "CTP",
    "UTP",
};

// Channel type of a priority; it has a name if exactly one bit is set.
static inline const char* urma_tp_type_en_to_string(union urma_tp_type_en tp_type) {
  switch (tp_type.value) {
    case 1u << URMA_RTP:
      return g_urma_tp_type_en_str[URMA_RTP];
    case 1u << URMA_CTP:
      return g_urma_tp_type_en_str[URMA_CTP];
    case 1u << URMA_UTP:
      return g_urma_tp_type_en_str[URMA_UTP];
    default:
      return "INVALID";
  }
}

#define URMA_DEVICE_FEAT_NUM 9  // bits of urma_device_feature_t that have a name

static const char* const g_urma_device_feat_str[] = {
    "OOR",  "JFC_PER_WR", "STRIDE_OP", "LOAD_STORE_OP",     "NON_PIN",
    "PMEM", "JFC_INLINE", "SPRAY_EN",  "SELECTIVE_RETRANS",
};

// Bit of urma_device_feature_t, counting from 0.
static inline const char* urma_device_feat_to_string(uint8_t bit) {
  if (bit >= URMA_DEVICE_FEAT_NUM) {
    return "INVALID";
  }
  return g_urma_device_feat_str[bit];
}

#define URMA_ATOMIC_FEAT_NUM 7  // bits of urma_atomic_feature_t

static const char* const g_urma_atomic_feat_str[] = {
    "CAS",           "SWAP",         "FETCH_AND_ADD", "FETCH_AND_SUB",
    "FETCH_AND_AND", "FETCH_AND_OR", "FETCH_AND_XOR",
};

// Bit of urma_atomic_feature_t, counting from 0.
static inline const char* urma_atomic_feat_to_string(uint8_t bit) {
  if (bit >= URMA_ATOMIC_FEAT_NUM) {
    return "INVALID";
  }
  return g_urma_atomic_feat_str[bit];
}

static const char* const g_urma_trans_mode_str[] = {
    NULL, "URMA_TM_RM", "URMA_TM_RC", NULL, "URMA_TM_UM",
};

// Transport mode.
static inline const char* urma_trans_mode_to_string(urma_transport_mode_t mode) {
  if ((unsigned)mode > URMA_TM_UM || g_urma_trans_mode_str[mode] == NULL) {
    return "INVALID";
  }
  return g_urma_trans_mode_str[mode];
}

static const char* const g_urma_tp_type_str[] = {
    "UB", "IB", "IP", "SOFTUB", NULL, "HNS_UB",
};

// Transport type of a device.
static inline const char* urma_tp_type_to_string(urma_transport_type_t type) {
  if (type < URMA_TRANSPORT_UB || type >= URMA_TRANSPORT_MAX || g_urma_tp_type_str[type] == NULL) {
    return "INVALID";
  }
  return g_urma_tp_type_str[type];
}

static const char* const g_urma_congestion_ctrl_alg_str[] = {
    "NONE",           "DCQCN", "CAQM", "LDCP",     "LDCP_L2_HEADER",
    "LDCP_TP_HEADER", "DIP",   "ACC",  "CUSTOM_1", "CUSTOM_2",
};

// Bit of urma_congestion_ctrl_alg_t, counting from 0.
static inline const char* urma_congestion_ctrl_alg_to_string(uint8_t bit) {
  if (bit >= URMA_TP_CC_NUM) {
    return "INVALID";
  }
  return g_urma_congestion_ctrl_alg_str[bit];
}

static const char* const g_urma_jfc_state[] = {
    "INVALID",
    "VALID",
    "ERROR",
};

// A urma_jfc_state_t.
static inline const char* urma_jfc_state_to_string(uint8_t bit) {
  if (bit > URMA_JFC_STATE_ERROR) {
    return "INVALID";
  }
  return g_urma_jfc_state[bit];
}

static const char* const g_urma_jetty_state[] = {
    "RESET",
    "READY",
    "SUSPENDED",
    "ERROR",
};

// A urma_jetty_state_t.
static inline const char* urma_jetty_state_to_string(uint8_t bit) {
  if (bit > URMA_JETTY_STATE_ERROR) {
    return "INVALID";
  }
  return g_urma_jetty_state[bit];
}

static const char* const g_urma_jfr_state[] = {
    "RESET",
    "READY",
    "ERROR",
};

// A urma_jfr_state_t.
static inline const char* urma_jfr_state_to_string(uint8_t bit) {
  if (bit > URMA_JFR_STATE_ERROR) {
    return "INVALID";
  }
  return g_urma_jfr_state[bit];
}

static const char* const g_urma_cr_status_str[] = {
    "success",
    "operation not supported",
    "local length error",
    "local operation failed",
    "local access refused",
    "remote length error",
    "operation not supported by the peer",
    "remote operation failed",
    "remote access refused",
    "peer not reachable",
    "peer has no receive posted",
    "flushed",
    "queue suspended",
    "queue flushed",
    "not started",
    "local memory damaged",
    "remote memory damaged",
};

// How a work request ended, in words: "remote access refused".
static inline const char* urma_cr_status_to_string(urma_cr_status_t status) {
  if ((unsigned)status > URMA_CR_REM_DATA_POISON) {
    return "INVALID";
  }
  return g_urma_cr_status_str[status];
}

// Result of a call, in words. Providers may return other errno values, which strerror knows.
static inline const char* urma_status_to_string(urma_status_t status) {
  switch (status) {
    case URMA_SUCCESS:
      return "success";
    case URMA_EAGAIN:
      return "in use, or would block";
    case URMA_ENOMEM:
      return "out of memory, or queue full";
    case URMA_ENOPERM:
      return "not permitted";
    case URMA_ETIMEOUT:
      return "timed out";
    case URMA_EINVAL:
      return "invalid argument, or not supported";
    case URMA_EEXIST:
      return "exists already";
    case URMA_EINPROGRESS:
      return "in progress";
    case URMA_FAIL:
      return "failed";
    default:
      return "INVALID";
  }
}

// What a work request does: "WRITE_IMM".
static inline const char* urma_opcode_to_string(urma_opcode_t opcode) {
  switch (opcode) {
    case URMA_OPC_WRITE:
      return "WRITE";
    case URMA_OPC_WRITE_IMM:
      return "WRITE_IMM";
    case URMA_OPC_WRITE_NOTIFY:
      return "WRITE_NOTIFY";
    case URMA_OPC_READ:
      return "READ";
    case URMA_OPC_CAS:
      return "CAS";
    case URMA_OPC_SWAP:
      return "SWAP";
    case URMA_OPC_FADD:
      return "FADD";
    case URMA_OPC_FSUB:
      return "FSUB";
    case URMA_OPC_FAND:
      return "FAND";
    case URMA_OPC_FOR:
      return "FOR";
    case URMA_OPC_FXOR:
      return "FXOR";
    case URMA_OPC_SEND:
      return "SEND";
    case URMA_OPC_SEND_IMM:
      return "SEND_IMM";
    case URMA_OPC_SEND_INVALIDATE:
      return "SEND_INVALIDATE";
    case URMA_OPC_NOP:
      return "NOP";
    case URMA_OPC_WRITE_ATOMIC:
      return "WRITE_ATOMIC";
    case URMA_OPC_FLUSH_DMA:
      return "FLUSH_DMA";
    default:
      return "INVALID";
  }
}

static const char* const g_urma_async_event_type_str[] = {
    "JFC_ERR",     "JFS_ERR",       "JFR_ERR",     "JFR_LIMIT", "JETTY_ERR",
    "JETTY_LIMIT", "JETTY_GRP_ERR", "PORT_ACTIVE", "PORT_DOWN", "DEV_FATAL",
    "EID_CHANGE",  "ELR_ERR",       "ELR_DONE",
};

// What an asynchronous event tells: "PORT_DOWN".
static inline const char* urma_async_event_type_to_string(urma_async_event_type_t type) {
  if ((unsigned)type > URMA_EVENT_ELR_DONE) {
    return "INVALID";
  }
  return g_urma_async_event_type_str[type];
}

#ifdef __cplusplus
}
#endif

#endif  // URMA_TYPES_STR_H
