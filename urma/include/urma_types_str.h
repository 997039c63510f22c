/* SPDX-License-Identifier: MIT */

// Names of the constants of urma_types.h and urma_opcode.h, for people to read. Every function
// returns a constant string, and "INVALID" for a value without a name. All are thread-safe.

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

#ifdef __cplusplus
}
#endif

#endif  // URMA_TYPES_STR_H
