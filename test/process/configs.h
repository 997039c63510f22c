// SPDX-License-Identifier: MIT
//
// Configurations and descriptors with the values that most tests want; a test sets the others
// itself.
#ifndef TEST_PROCESS_CONFIGS_H_
#define TEST_PROCESS_CONFIGS_H_

#include <cstdint>

#include "urma_api.h"

namespace urma_test {

inline urma_jfc_cfg_t jfc_config(uint32_t depth, urma_jfce_t* jfce = nullptr) {
  urma_jfc_cfg_t cfg = {};
  cfg.depth = depth;
  cfg.jfce = jfce;
  return cfg;
}

inline urma_jfr_cfg_t jfr_config(urma_jfc_t* jfc, uint32_t depth,
                                 urma_transport_mode_t mode = URMA_TM_RM) {
  urma_jfr_cfg_t cfg = {};
  cfg.depth = depth;
  cfg.trans_mode = mode;
  cfg.max_sge = 1;
  cfg.jfc = jfc;
  return cfg;
}

inline urma_jfs_cfg_t jfs_config(urma_jfc_t* jfc, uint32_t depth,
                                 urma_transport_mode_t mode = URMA_TM_RM) {
  urma_jfs_cfg_t cfg = {};
  cfg.depth = depth;
  cfg.trans_mode = mode;
  cfg.max_sge = 1;
  cfg.jfc = jfc;
  return cfg;
}

// A jetty with a shared JFR.
inline urma_jetty_cfg_t jetty_config(urma_jfr_t* jfr, const urma_jfs_cfg_t& send) {
  urma_jetty_cfg_t cfg = {};
  cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
  cfg.jfs_cfg = send;
  cfg.shared.jfr = jfr;
  return cfg;
}

inline urma_seg_cfg_t seg_config(uint64_t va, uint64_t len, uint32_t access) {
  urma_seg_cfg_t cfg = {};
  cfg.va = va;
  cfg.len = len;
  cfg.flag.bs.access = access & 0x3f;
  return cfg;
}
inline urma_seg_cfg_t seg_config(const void* memory, uint64_t len, uint32_t access) {
  return seg_config(reinterpret_cast<uint64_t>(memory), len, access);
}

inline urma_rjfr_t remote_jfr(const urma_jfr_id_t& id, urma_transport_mode_t mode = URMA_TM_RM) {
  urma_rjfr_t remote = {};
  remote.jfr_id = id;
  remote.trans_mode = mode;
  return remote;
}

inline urma_rjetty_t remote_jetty(const urma_jetty_id_t& id,
                                  urma_transport_mode_t mode = URMA_TM_RM,
                                  urma_target_type_t type = URMA_JETTY) {
  urma_rjetty_t remote = {};
  remote.jetty_id = id;
  remote.trans_mode = mode;
  remote.type = type;
  return remote;
}

}  // namespace urma_test

#endif  // TEST_PROCESS_CONFIGS_H_
