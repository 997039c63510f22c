/* SPDX-License-Identifier: MIT */

// Aggregated devices: several devices that work as one, under a name that begins with bonding_dev.

#ifndef URMA_UBAGG_H
#define URMA_UBAGG_H

#include <stdbool.h>
#include <stdint.h>

#include "urma_types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define URMA_UBAGG_DEV_MAX_NUM (20)  // members
// pairs of members
#define URMA_UBAGG_MAX_CONNECTION (URMA_UBAGG_DEV_MAX_NUM * URMA_UBAGG_DEV_MAX_NUM)
#define URMA_UBAGG_WR_BUF_SIZE (3)
#define URMA_UBAGG_MAX_CR_CNT_PER_DEV (32)
#define URMA_UBAGG_CHIP_LINK_NUM (4)
#define URMA_ACTIVE_PORT_PER_DIE (2)
#define URMA_ACTIVE_PORT_MIN (4)  // first port that carries traffic
#define URMA_ACTIVE_PORT_MAX (5)  // last port that carries traffic

// -------------------------------------------------------------------------------------------------
// Commands of urma_user_ctl
// -------------------------------------------------------------------------------------------------

// Send commands that change a setting before the context has objects. The comment names the type of
// the input and, after an arrow, of the output. The length of the input is that of its type, 0 for
// nothing.
typedef enum bondp_user_ctl_opcode {
  BONDP_USER_CTL_SET_BONDING_MODE_LEGACY = 4,  // urma_context_aggr_mode_t
  BONDP_USER_CTL_ENABLE_SEG_CACHE = 5,         // nothing
  BONDP_USER_CTL_QUERY_PORT = 6,               // bondp_query_port_in_t -> bondp_query_port_out_t
  BONDP_USER_CTL_SET_BONDING_MODE = 7,         // bondp_set_bonding_mode_in_t
  // bondp_get_jfce_fd_list_in_t -> bondp_get_jfce_fd_list_out_t
  BONDP_USER_CTL_GET_JFCE_FD_LIST = 8,
  // urma_jetty_t -> urma_rjetty_t; an output of 8 bytes gets a pointer to it, which the caller
  // frees with free()
  BONDP_USER_CTL_OPCODE_GET_RJETTY = 9,
  // urma_target_seg_t -> urma_seg_t, in the same ways
  BONDP_USER_CTL_OPCODE_GET_SEG_CTX = 10,
  BONDP_USER_CTL_DISABLE_MSN = 11,  // nothing
} bondp_user_ctl_opcode_t;

// How the members are used; the values are those of urma_context_aggr_mode_t.
typedef enum bondp_bonding_mode {
  BONDP_BONDING_MODE_STANDALONE = 0,     // each by itself
  BONDP_BONDING_MODE_ACTIVE_BACKUP = 1,  // one carries the traffic, the others stand by
  BONDP_BONDING_MODE_BALANCE = 2,        // all of them share it
  BONDP_BONDING_MODE_MAX = 3,
} bondp_bonding_mode_t;

// What counts as a member.
typedef enum bondp_bonding_level {
  BONDP_BONDING_LEVEL_IODIE = 0,  // I/O die
  BONDP_BONDING_LEVEL_PORT = 1,   // port
  BONDP_BONDING_LEVEL_MAX = 2,
} bondp_bonding_level_t;

// A urma_seg_t without what may follow it.
typedef struct urma_seg_base {
  urma_ubva_t ubva;
  uint64_t len;  // bytes
  urma_seg_attr_t attr;
  uint32_t token_id;
} urma_seg_base_t;

// Mode and level to set. A new context has STANDALONE and PORT.
typedef struct bondp_set_bonding_mode_in {
  bondp_bonding_mode_t bonding_mode;
  bondp_bonding_level_t bonding_level;
} bondp_set_bonding_mode_in_t;

// Queue whose ports are queried.
typedef struct bondp_query_port_in {
  union {
    urma_jfr_t* jfr;
    urma_jetty_t* jetty;
  };
} bondp_query_port_in_t;

// Ports of a queue: those it may use, and those of them that are up.
typedef struct bondp_query_port_out {
  uint32_t enabled_indices[URMA_UBAGG_DEV_MAX_NUM];
  uint32_t enabled_count;
  uint32_t active_indices[URMA_UBAGG_DEV_MAX_NUM];
  uint32_t active_count;
} bondp_query_port_out_t;

// Event channel whose file descriptors are queried.
typedef struct bondp_get_jfce_fd_list_in {
  urma_jfce_t* jfce;
} bondp_get_jfce_fd_list_in_t;

// File descriptors to poll, one for each member. They stay the channel's.
typedef struct bondp_get_jfce_fd_list_out {
  int fd_list[URMA_UBAGG_DEV_MAX_NUM];  // -1 behind the last one
  uint32_t count;                       // entries of fd_list
} bondp_get_jfce_fd_list_out_t;

// -------------------------------------------------------------------------------------------------
// Configurations for chosen ports
// -------------------------------------------------------------------------------------------------

// Place of a port.
typedef union bondp_port_id {
  __extension__ struct {
    uint8_t chip_id;
    uint8_t die_id;
    uint8_t port_idx;
    uint8_t reserved;
  };
  uint64_t value;  // all of it as one number
} bondp_port_id_t;

// The base is given to the create call with flag.bs.has_drv_ext set. `port_ids` has `port_count`
// entries, up to URMA_UBAGG_DEV_MAX_NUM, and is read during the call only. A JFR, also that of a
// jetty, holds its depth in receives for each port, up to max_jfr_depth together; a JFC holds its
// depth in completions for each.
typedef struct bondp_jfs_cfg {
  urma_jfs_cfg_t base;
  const bondp_port_id_t* port_ids;
  uint32_t port_count;
} bondp_jfs_cfg_t;

typedef struct bondp_jfc_cfg {
  urma_jfc_cfg_t base;
  const bondp_port_id_t* port_ids;
  uint32_t port_count;
} bondp_jfc_cfg_t;

typedef struct bondp_jfr_cfg {
  urma_jfr_cfg_t base;
  const bondp_port_id_t* port_ids;
  uint32_t port_count;
} bondp_jfr_cfg_t;

typedef struct bondp_jetty_cfg {
  urma_jetty_cfg_t base;
  const bondp_port_id_t* port_ids;
  uint32_t port_count;
} bondp_jetty_cfg_t;

// -------------------------------------------------------------------------------------------------
// What follows a descriptor
// -------------------------------------------------------------------------------------------------

// Members of a remote jetty.
typedef struct urma_bond_jetty_ext {
  uint8_t version;
  uint64_t mask;                                     // bits of bondp_rjetty_ext_mask_t
  urma_jetty_id_t slave_id[URMA_UBAGG_DEV_MAX_NUM];  // jetties of the members
  bool is_multipath;                                 // the traffic may use several paths
  uint8_t enable_indices[URMA_UBAGG_DEV_MAX_NUM];    // members in use
  uint32_t enable_count;                             // entries of enable_indices
  bool is_health_check_enable;
  // Segments that tell whether a path works.
  struct {
    urma_seg_base_t slaves[URMA_UBAGG_DEV_MAX_NUM];
  } health_check_seg;
} urma_bond_jetty_ext_t;

// Layout of urma_bond_jetty_ext_v0_t.
typedef enum bondp_rjetty_ext_version {
  BONDP_RJETTY_EXT_VERSION_V0 = 0,
} bondp_rjetty_ext_version_t;

// Parts that are valid.
typedef enum bondp_rjetty_ext_mask {
  BONDP_RJETTY_EXT_MASK_MULTI_PATH = 1 << 0,
  BONDP_RJETTY_EXT_MASK_HEALTH_CHECK = 1 << 1,
  BONDP_RJETTY_EXT_MASK_LOCAL_CTX = 1 << 2,
  BONDP_RJETTY_EXT_MASK_TARGET_CTX = 1 << 3,
} bondp_rjetty_ext_mask_t;

// One member of a remote jetty.
typedef struct bondp_rjetty_target_ctx {
  uint8_t target_idx;        // which member
  urma_jetty_id_t slave_id;  // its jetty
  urma_seg_base_t health_check_seg;
} bondp_rjetty_target_ctx_t;

// Members of a remote jetty, only as many as there are.
typedef struct urma_bond_jetty_ext_v0 {
  uint8_t version;  // bondp_rjetty_ext_version_t
  uint64_t mask;    // bits of bondp_rjetty_ext_mask_t
  bool is_multipath;
  bool is_health_check_enable;
  uint32_t local_ctx_cnt;      // members at this side, in data
  uint32_t target_ctx_cnt;     // members at the other side, in data
  __extension__ char data[0];  // local entries, then bondp_rjetty_target_ctx_t entries
} urma_bond_jetty_ext_v0_t;

// Segments of the members of a remote segment.
typedef struct urma_bond_seg_ext {
  uint8_t version;
  uint64_t mask;
  urma_seg_base_t peer_p_seg[URMA_UBAGG_DEV_MAX_NUM];
} urma_bond_seg_ext_t;

// Remote jetty, and the local queue that will send to it. An import in URMA_TM_RM makes the target
// remote_jetty of a local jetty, until it is unimported.
typedef struct bondp_rjetty {
  urma_rjetty_t base;
  urma_bond_jetty_ext_t ext;
  union {
    urma_jfs_t* jfs;
    urma_jetty_t* jetty;
  };
} bondp_rjetty_t;

// Remote JFR, and the local queue that will send to it.
typedef struct bondp_rjfr {
  urma_rjfr_t base;
  union {
    urma_jfs_t* jfs;
    urma_jetty_t* jetty;
  };
} bondp_rjfr_t;

// -------------------------------------------------------------------------------------------------
// Work requests for chosen paths
// -------------------------------------------------------------------------------------------------

// Send request over a chosen path; base.flag.bs.has_drv_ext is set.
typedef struct bondp_jfs_wr {
  urma_jfs_wr_t base;
  uint32_t src_chip_id;  // local chip
  uint32_t dst_chip_id;  // remote chip
} bondp_jfs_wr_t;

// Path between two members.
typedef struct bondp_path {
  uint32_t local_idx;
  uint32_t target_idx;
  uint32_t least_load;  // used before the others
} bondp_path_t;

#ifdef __cplusplus
}
#endif

#endif  // URMA_UBAGG_H
