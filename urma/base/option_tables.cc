/* SPDX-License-Identifier: MIT */

// Where the options of the two-step life cycle are kept: the tables declared in urma_provider.h.

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "urma_provider.h"

// Exports the tables, whatever the default visibility is. GCC needs this on a declaration before
// the definition.
#define EXPORT_TABLE(kind)                                                              \
  extern "C" __attribute__((visibility("default"))) const opt_map_t kind##_OPT_TABLE[]; \
  extern "C" __attribute__((visibility("default"))) const size_t kind##_OPT_MAP_COUNT

EXPORT_TABLE(JFS);
EXPORT_TABLE(JFR);
EXPORT_TABLE(JFC);
EXPORT_TABLE(JETTY);

// Entries for a member of a configuration, of an option record, and of the configuration of the
// send queue of a jetty. Only a member of an option record has a mask bit.
#define CFG_OPTION(option, type, member) \
  { option, URMA_CFG_MASK, TARGET_CFG, offsetof(type, member), sizeof(type::member) }
#define OPT_OPTION(option, type, member) \
  { option, option##_MASK, TARGET_OPT, offsetof(type, member), sizeof(type::member) }
#define JFS_CFG_OPTION(option, member)                                       \
  {                                                                          \
    option, URMA_CFG_MASK, TARGET_JFS_CFG, offsetof(urma_jfs_cfg_t, member), \
        sizeof(urma_jfs_cfg_t::member)                                       \
  }

// The option record of a jetty holds that of its send queue.
#define JETTY_JFS_OPTION(option, member)                                        \
  {                                                                             \
    option, option##_MASK, TARGET_OPT,                                          \
        offsetof(urma_jetty_opt_t, jfs_opt) + offsetof(urma_jfs_opt_t, member), \
        sizeof(urma_jfs_opt_t::member)                                          \
  }

const opt_map_t JFS_OPT_TABLE[] = {
    CFG_OPTION(URMA_JFS_DEPTH, urma_jfs_cfg_t, depth),
    CFG_OPTION(URMA_JFS_FLAG, urma_jfs_cfg_t, flag),
    CFG_OPTION(URMA_JFS_TRANS_MODE, urma_jfs_cfg_t, trans_mode),
    CFG_OPTION(URMA_JFS_PRIORITY, urma_jfs_cfg_t, priority),
    CFG_OPTION(URMA_JFS_MAX_SGE, urma_jfs_cfg_t, max_sge),
    CFG_OPTION(URMA_JFS_MAX_RSGE, urma_jfs_cfg_t, max_rsge),
    CFG_OPTION(URMA_JFS_MAX_INLINE_DATA, urma_jfs_cfg_t, max_inline_data),
    CFG_OPTION(URMA_JFS_RNR_RETRY, urma_jfs_cfg_t, rnr_retry),
    CFG_OPTION(URMA_JFS_ERR_TIMEOUT, urma_jfs_cfg_t, err_timeout),
    CFG_OPTION(URMA_JFS_BIND_JFC, urma_jfs_cfg_t, jfc),
    CFG_OPTION(URMA_JFS_USER_CTX, urma_jfs_cfg_t, user_ctx),
    OPT_OPTION(URMA_JFS_SQE_BASE_ADDR, urma_jfs_opt_t, urma_jfs_sqe_base_addr),
    OPT_OPTION(URMA_JFS_ID, urma_jfs_opt_t, urma_jfs_id),
    OPT_OPTION(URMA_JFS_DB_ADDR, urma_jfs_opt_t, urma_jfs_db_addr),
    OPT_OPTION(URMA_JFS_DB_STATUS, urma_jfs_opt_t, urma_jfs_db_status),
    OPT_OPTION(URMA_JFS_PI, urma_jfs_opt_t, urma_jfs_pi),
    OPT_OPTION(URMA_JFS_PI_TYPE, urma_jfs_opt_t, urma_jfs_pi_type),
    OPT_OPTION(URMA_JFS_CI, urma_jfs_opt_t, urma_jfs_ci),
};
const size_t JFS_OPT_MAP_COUNT = std::size(JFS_OPT_TABLE);

const opt_map_t JFR_OPT_TABLE[] = {
    CFG_OPTION(URMA_JFR_DEPTH, urma_jfr_cfg_t, depth),
    CFG_OPTION(URMA_JFR_FLAG, urma_jfr_cfg_t, flag),
    CFG_OPTION(URMA_JFR_TRANS_MODE, urma_jfr_cfg_t, trans_mode),
    CFG_OPTION(URMA_JFR_MAX_SGE, urma_jfr_cfg_t, max_sge),
    CFG_OPTION(URMA_JFR_MIN_RNR_TIMER, urma_jfr_cfg_t, min_rnr_timer),
    CFG_OPTION(URMA_JFR_BIND_JFC, urma_jfr_cfg_t, jfc),
    CFG_OPTION(URMA_JFR_TOKEN_VALUE, urma_jfr_cfg_t, token_value),
    CFG_OPTION(URMA_JFR_USER_CTX, urma_jfr_cfg_t, user_ctx),
    OPT_OPTION(URMA_JFR_RQE_BASE_ADDR, urma_jfr_opt_t, urma_jfr_rqe_base_addr),
    OPT_OPTION(URMA_JFR_ID, urma_jfr_opt_t, urma_jfr_id),
    OPT_OPTION(URMA_JFR_DB_ADDR, urma_jfr_opt_t, urma_jfr_db_addr),
    OPT_OPTION(URMA_JFR_DB_STATUS, urma_jfr_opt_t, urma_jfr_db_status),
    OPT_OPTION(URMA_JFR_PI, urma_jfr_opt_t, urma_jfr_pi),
    OPT_OPTION(URMA_JFR_PI_TYPE, urma_jfr_opt_t, urma_jfr_pi_type),
    OPT_OPTION(URMA_JFR_CI, urma_jfr_opt_t, urma_jfr_ci),
};
const size_t JFR_OPT_MAP_COUNT = std::size(JFR_OPT_TABLE);

const opt_map_t JFC_OPT_TABLE[] = {
    CFG_OPTION(URMA_JFC_DEPTH, urma_jfc_cfg_t, depth),
    CFG_OPTION(URMA_JFC_CEQN, urma_jfc_cfg_t, ceqn),
    CFG_OPTION(URMA_JFC_FLAG, urma_jfc_cfg_t, flag),
    CFG_OPTION(URMA_JFC_BIND_JFCE, urma_jfc_cfg_t, jfce),
    CFG_OPTION(URMA_JFC_USER_CTX, urma_jfc_cfg_t, user_ctx),
    OPT_OPTION(URMA_JFC_CQE_BASE_ADDR, urma_jfc_opt_t, urma_jfc_cqe_base_addr),
    OPT_OPTION(URMA_JFC_ID, urma_jfc_opt_t, urma_jfc_id),
    OPT_OPTION(URMA_JFC_DB_ADDR, urma_jfc_opt_t, urma_jfc_db_addr),
    OPT_OPTION(URMA_JFC_DB_STATUS, urma_jfc_opt_t, urma_jfc_db_status),
    OPT_OPTION(URMA_JFC_PI, urma_jfc_opt_t, urma_jfc_pi),
    OPT_OPTION(URMA_JFC_PI_TYPE, urma_jfc_opt_t, urma_jfc_pi_type),
    OPT_OPTION(URMA_JFC_CI, urma_jfc_opt_t, urma_jfc_ci),
};
const size_t JFC_OPT_MAP_COUNT = std::size(JFC_OPT_TABLE);

const opt_map_t JETTY_OPT_TABLE[] = {
    CFG_OPTION(URMA_JETTY_ID, urma_jetty_cfg_t, id),
    CFG_OPTION(URMA_JETTY_FLAG, urma_jetty_cfg_t, flag),
    CFG_OPTION(URMA_JETTY_BIND_JFR, urma_jetty_cfg_t, shared.jfr),
    CFG_OPTION(URMA_JETTY_BIND_RX_JFC, urma_jetty_cfg_t, shared.jfc),
    CFG_OPTION(URMA_JETTY_BIND_JTG, urma_jetty_cfg_t, jetty_grp),
    CFG_OPTION(URMA_JETTY_USER_CTX, urma_jetty_cfg_t, user_ctx),
    JFS_CFG_OPTION(URMA_JFS_DEPTH, depth),
    JFS_CFG_OPTION(URMA_JFS_FLAG, flag),
    JFS_CFG_OPTION(URMA_JFS_TRANS_MODE, trans_mode),
    JFS_CFG_OPTION(URMA_JFS_PRIORITY, priority),
    JFS_CFG_OPTION(URMA_JFS_MAX_SGE, max_sge),
    JFS_CFG_OPTION(URMA_JFS_MAX_RSGE, max_rsge),
    JFS_CFG_OPTION(URMA_JFS_MAX_INLINE_DATA, max_inline_data),
    JFS_CFG_OPTION(URMA_JFS_RNR_RETRY, rnr_retry),
    JFS_CFG_OPTION(URMA_JFS_ERR_TIMEOUT, err_timeout),
    JFS_CFG_OPTION(URMA_JFS_BIND_JFC, jfc),
    JFS_CFG_OPTION(URMA_JFS_USER_CTX, user_ctx),
    JETTY_JFS_OPTION(URMA_JFS_SQE_BASE_ADDR, urma_jfs_sqe_base_addr),
    JETTY_JFS_OPTION(URMA_JFS_ID, urma_jfs_id),
    JETTY_JFS_OPTION(URMA_JFS_DB_ADDR, urma_jfs_db_addr),
    JETTY_JFS_OPTION(URMA_JFS_DB_STATUS, urma_jfs_db_status),
    JETTY_JFS_OPTION(URMA_JFS_PI, urma_jfs_pi),
    JETTY_JFS_OPTION(URMA_JFS_PI_TYPE, urma_jfs_pi_type),
    JETTY_JFS_OPTION(URMA_JFS_CI, urma_jfs_ci),
};
const size_t JETTY_OPT_MAP_COUNT = std::size(JETTY_OPT_TABLE);
