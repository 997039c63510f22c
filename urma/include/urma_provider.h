/* SPDX-License-Identifier: MIT */

// What the library and a provider, the module that drives one kind of device, need of each other.

#ifndef URMA_PROVIDER_H
#define URMA_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "urma_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// the provider made the device; it has no file of attributes
#define URMA_SYSFS_DEV_FLAG_DRIVER_CREATED (0x1)
#define URMA_CFG_MASK 0  // mask of an option that is part of a configuration

// -------------------------------------------------------------------------------------------------
// Option tables
// -------------------------------------------------------------------------------------------------

// Structure that holds the value of an option.
typedef enum {
  TARGET_CFG = 0,      // urma_jfs_cfg_t, urma_jfr_cfg_t, urma_jfc_cfg_t or urma_jetty_cfg_t
  TARGET_OPT = 1,      // urma_jfs_opt_t, urma_jfr_opt_t, urma_jfc_opt_t or urma_jetty_opt_t
  TARGET_JFS_CFG = 2,  // jfs_cfg of a urma_jetty_cfg_t
} urma_field_target_t;

// Where the value of an option is kept.
typedef struct {
  uint64_t opt;   // URMA_JFS_*, URMA_JFR_*, URMA_JFC_* or URMA_JETTY_*
  uint64_t mask;  // URMA_*_MASK to set with it; URMA_CFG_MASK: none
  urma_field_target_t tgt;
  size_t offset;  // within the structure, in bytes
  size_t size;    // of the value, in bytes; no other length is accepted
} opt_map_t;

// Options of each kind of object, and the number of entries of each table. The jetty table also has
// the options of its send queue. Options that are read only are in no table.
extern const opt_map_t JFS_OPT_TABLE[];
extern const size_t JFS_OPT_MAP_COUNT;
extern const opt_map_t JFR_OPT_TABLE[];
extern const size_t JFR_OPT_MAP_COUNT;
extern const opt_map_t JFC_OPT_TABLE[];
extern const size_t JFC_OPT_MAP_COUNT;
extern const opt_map_t JETTY_OPT_TABLE[];
extern const size_t JETTY_OPT_MAP_COUNT;

// -------------------------------------------------------------------------------------------------
// Operations of a provider
// -------------------------------------------------------------------------------------------------

// Device that a provider drives. An entry with an id of 0 ends a table.
typedef struct urma_match_entry {
  uint16_t vendor_id;
  uint16_t device_id;
} urma_match_entry_t;

// Data that a call passes between the two halves of a driver.
typedef struct urma_udrv {
  uint64_t in_addr;   // 0: none
  uint32_t in_len;    // bytes
  uint64_t out_addr;  // 0: none
  uint32_t out_len;   // bytes
} urma_udrv_t;

// Operations on an open device, one for each call of urma_api.h that has the same name. The library
// checks the arguments that it can check without the device, and counts references; the operation
// does the rest and returns the result of the call. An operation that a provider does not support
// is NULL: the call then returns URMA_EINVAL. A create operation returns an object whose public
// struct comes first in memory, filled in; the matching delete operation frees it. What urma_api.h
// says of threads holds for the operations too.
typedef struct urma_ops {
  const char* name;  // of the provider

  // Completion queues.
  urma_jfc_t* (*create_jfc)(urma_context_t*, urma_jfc_cfg_t*);
  urma_status_t (*modify_jfc)(urma_jfc_t*, urma_jfc_attr_t*);
  urma_status_t (*delete_jfc)(urma_jfc_t*);
  urma_status_t (*delete_jfc_batch)(urma_jfc_t**, int, urma_jfc_t**);

  urma_status_t (*alloc_jfc)(urma_context_t*, urma_jfc_cfg_t*, urma_jfc_t**);
  urma_status_t (*set_jfc_opt)(urma_jfc_t*, uint64_t, void*, uint32_t);
  urma_status_t (*active_jfc)(urma_jfc_t*);
  urma_status_t (*get_jfc_opt)(urma_jfc_t*, uint64_t, void*, uint32_t);
  urma_status_t (*deactive_jfc)(urma_jfc_t*);
  urma_status_t (*free_jfc)(urma_jfc_t*);

  // Send queues. flush_jfs returns the number of records.
  urma_jfs_t* (*create_jfs)(urma_context_t*, urma_jfs_cfg_t*);
  urma_status_t (*modify_jfs)(urma_jfs_t*, urma_jfs_attr_t*);
  urma_status_t (*query_jfs)(urma_jfs_t*, urma_jfs_cfg_t*, urma_jfs_attr_t*);
  int (*flush_jfs)(urma_jfs_t*, int, urma_cr_t*);
  urma_status_t (*delete_jfs)(urma_jfs_t*);
  urma_status_t (*delete_jfs_batch)(urma_jfs_t**, int, urma_jfs_t**);

  urma_status_t (*alloc_jfs)(urma_context_t*, urma_jfs_cfg_t*, urma_jfs_t**);
  urma_status_t (*set_jfs_opt)(urma_jfs_t*, uint64_t, void*, uint32_t);
  urma_status_t (*active_jfs)(urma_jfs_t*);
  urma_status_t (*get_jfs_opt)(urma_jfs_t*, uint64_t, void*, uint32_t);
  urma_status_t (*deactive_jfs)(urma_jfs_t*);
  urma_status_t (*free_jfs)(urma_jfs_t*);

  // Receive queues. Without import_jfr the library calls import_jfr_ex with an empty channel.
  urma_jfr_t* (*create_jfr)(urma_context_t*, urma_jfr_cfg_t*);
  urma_status_t (*modify_jfr)(urma_jfr_t*, urma_jfr_attr_t*);
  urma_status_t (*query_jfr)(urma_jfr_t*, urma_jfr_cfg_t*, urma_jfr_attr_t*);
  urma_status_t (*delete_jfr)(urma_jfr_t*);
  urma_status_t (*delete_jfr_batch)(urma_jfr_t**, int, urma_jfr_t**);

  urma_target_jetty_t* (*import_jfr)(urma_context_t*, urma_rjfr_t*, urma_token_t*);
  urma_status_t (*unimport_jfr)(urma_target_jetty_t*);
  urma_status_t (*advise_jfr)(urma_jfs_t*, urma_target_jetty_t*);
  urma_status_t (*unadvise_jfr)(urma_jfs_t*, urma_target_jetty_t*);
  urma_status_t (*advise_jfr_async)(urma_jfs_t*, urma_target_jetty_t*, urma_advise_async_cb_func,
                                    void*);

  urma_status_t (*alloc_jfr)(urma_context_t*, urma_jfr_cfg_t*, urma_jfr_t**);
  urma_status_t (*set_jfr_opt)(urma_jfr_t*, uint64_t, void*, uint32_t);
  urma_status_t (*active_jfr)(urma_jfr_t*);
  urma_status_t (*get_jfr_opt)(urma_jfr_t*, uint64_t, void*, uint32_t);
  urma_status_t (*deactive_jfr)(urma_jfr_t*);
  urma_status_t (*free_jfr)(urma_jfr_t*);

  // Jetties. Without import_jetty or bind_jetty the library calls the *_ex operation.
  urma_jetty_t* (*create_jetty)(urma_context_t*, urma_jetty_cfg_t*);
  urma_status_t (*modify_jetty)(urma_jetty_t*, urma_jetty_attr_t*);
  urma_status_t (*query_jetty)(urma_jetty_t*, urma_jetty_cfg_t*, urma_jetty_attr_t*);
  int (*flush_jetty)(urma_jetty_t*, int, urma_cr_t*);
  urma_status_t (*delete_jetty)(urma_jetty_t*);
  urma_status_t (*delete_jetty_batch)(urma_jetty_t**, int, urma_jetty_t**);

  urma_target_jetty_t* (*import_jetty)(urma_context_t*, urma_rjetty_t*, urma_token_t*);
  urma_status_t (*unimport_jetty)(urma_target_jetty_t*);
  urma_status_t (*advise_jetty)(urma_jetty_t*, urma_target_jetty_t*);
  urma_status_t (*unadvise_jetty)(urma_jetty_t*, urma_target_jetty_t*);
  urma_status_t (*advise_jetty_async)(urma_jetty_t*, urma_target_jetty_t*,
                                      urma_advise_async_cb_func, void*);
  urma_status_t (*bind_jetty)(urma_jetty_t*, urma_target_jetty_t*);
  urma_status_t (*unbind_jetty)(urma_jetty_t*);

  urma_status_t (*alloc_jetty)(urma_context_t*, urma_jetty_cfg_t*, urma_jetty_t**);
  urma_status_t (*set_jetty_opt)(urma_jetty_t*, uint64_t, void*, uint32_t);
  urma_status_t (*active_jetty)(urma_jetty_t*);
  urma_status_t (*get_jetty_opt)(urma_jetty_t*, uint64_t, void*, uint32_t);
  urma_status_t (*deactive_jetty)(urma_jetty_t*);
  urma_status_t (*free_jetty)(urma_jetty_t*);

  // Groups and event channels.
  urma_jetty_grp_t* (*create_jetty_grp)(urma_context_t*, urma_jetty_grp_cfg_t*);
  urma_status_t (*delete_jetty_grp)(urma_jetty_grp_t*);
  urma_jfce_t* (*create_jfce)(urma_context_t*);
  urma_status_t (*delete_jfce)(urma_jfce_t*);

  // Transport channels.
  int (*get_tpn)(urma_jetty_t*);
  int (*modify_tp)(urma_context_t*, uint32_t, urma_tp_cfg_t*, urma_tp_attr_t*, urma_tp_attr_mask_t);
  urma_status_t (*get_tp_list)(urma_context_t*, urma_get_tp_cfg_t*, uint32_t*, urma_tp_info_t*);
  urma_status_t (*set_tp_attr)(const urma_context_t*, const uint64_t, const uint8_t, const uint32_t,
                               const urma_tp_attr_value_t*);
  urma_status_t (*get_tp_attr)(const urma_context_t*, const uint64_t, uint8_t*, uint32_t*,
                               urma_tp_attr_value_t*);

  urma_target_jetty_t* (*import_jetty_ex)(urma_context_t*, urma_rjetty_t*, urma_token_t*,
                                          urma_active_tp_cfg_t*);
  urma_target_jetty_t* (*import_jfr_ex)(urma_context_t*, urma_rjfr_t*, urma_token_t*,
                                        urma_active_tp_cfg_t*);
  urma_status_t (*bind_jetty_ex)(urma_jetty_t*, urma_target_jetty_t*, urma_active_tp_cfg_t*);

  // Token ids and segments.
  urma_token_id_t* (*alloc_token_id)(urma_context_t*);
  urma_token_id_t* (*alloc_token_id_ex)(urma_context_t*, urma_token_id_flag_t);
  urma_status_t (*free_token_id)(urma_token_id_t*);
  urma_target_seg_t* (*register_seg)(urma_context_t*, urma_seg_cfg_t*);
  urma_status_t (*unregister_seg)(urma_target_seg_t*);
  urma_target_seg_t* (*import_seg)(urma_context_t*, urma_seg_t*, urma_token_t*, uint64_t,
                                   urma_import_seg_flag_t);
  urma_status_t (*unimport_seg)(urma_target_seg_t*);

  // Events and commands. user_ctl returns 0, EPERM or another error number.
  urma_status_t (*get_async_event)(urma_context_t*, urma_async_event_t*);
  void (*ack_async_event)(urma_async_event_t*);
  int (*user_ctl)(urma_context_t*, urma_user_ctl_in_t*, urma_user_ctl_out_t*);

  // Data path. The library adds no lock around these. They must not throw.
  urma_status_t (*post_jfs_wr)(urma_jfs_t*, urma_jfs_wr_t*, urma_jfs_wr_t**);
  urma_status_t (*post_jfr_wr)(urma_jfr_t*, urma_jfr_wr_t*, urma_jfr_wr_t**);
  urma_status_t (*post_jetty_send_wr)(urma_jetty_t*, urma_jfs_wr_t*, urma_jfs_wr_t**);
  urma_status_t (*post_jetty_recv_wr)(urma_jetty_t*, urma_jfr_wr_t*, urma_jfr_wr_t**);
  int (*poll_jfc)(urma_jfc_t*, int, urma_cr_t*);
  urma_status_t (*rearm_jfc)(urma_jfc_t*, bool);
  int (*wait_jfc)(urma_jfce_t*, uint32_t, int, urma_jfc_t**);
  void (*ack_jfc)(urma_jfc_t**, uint32_t*, uint32_t);

  // Importing and binding in the background.
  urma_target_jetty_t* (*import_jetty_async)(urma_notifier_t*, const urma_rjetty_t*,
                                             const urma_token_t*, uint64_t, int);
  urma_status_t (*unimport_jetty_async)(urma_target_jetty_t*);
  urma_status_t (*bind_jetty_async)(urma_notifier_t*, urma_jetty_t*, urma_target_jetty_t*, uint64_t,
                                    int);
  urma_status_t (*unbind_jetty_async)(urma_jetty_t*);
  urma_notifier_t* (*create_notifier)(urma_context_t*);
  urma_status_t (*delete_notifier)(urma_notifier_t*);
  int (*wait_notify)(urma_notifier_t*, uint32_t, urma_notify_t*, int);
  void (*ack_notify)(uint32_t, urma_notify_t*);

  // Network addresses.
  urma_status_t (*get_eid_by_ip)(const urma_context_t*, const urma_net_addr_t*, urma_eid_t*);
  urma_status_t (*get_ip_by_eid)(const urma_context_t*, const urma_eid_t*, urma_net_addr_t*);
  urma_status_t (*get_smac)(const urma_context_t*, uint8_t*);
  urma_status_t (*get_dmac)(const urma_context_t*, const urma_net_addr_t*, uint8_t*);
} urma_ops_t;

// Attributes of a provider.
typedef struct urma_provider_attr {
  uint32_t version;                      // of the provider, for the log
  urma_transport_type_t transport_type;  // of its devices
} urma_provider_attr_t;

// A provider. It must stay in place until it is unregistered.
typedef struct urma_provider_ops {
  const char* name;  // as in driver_name of its devices
  urma_provider_attr_t attr;
  urma_match_entry_t* match_table;  // devices it drives; NULL: found by name alone
  // At urma_init; a failure drops the provider.
  urma_status_t (*init)(urma_init_attr_t*);
  // At urma_uninit.
  urma_status_t (*uninit)(void);
  // Reads the attributes of a device.
  urma_status_t (*query_device)(urma_device_t*, urma_device_attr_t*);
  // Opens a device: device, entry of its EID table, file descriptor or -1.
  urma_context_t* (*create_context)(urma_device_t*, uint32_t, int);
  // Closes a device.
  urma_status_t (*delete_context)(urma_context_t*);
  // Reads the number of this process; outdated.
  urma_status_t (*get_uasid)(uint32_t*);
} urma_provider_ops_t;

// -------------------------------------------------------------------------------------------------
// Arguments shared by providers
// -------------------------------------------------------------------------------------------------

// A segment to import.
typedef struct urma_import_tseg_cfg {
  urma_ubva_t ubva;  // start
  uint64_t len;      // bytes
  urma_seg_attr_t attr;
  uint32_t token_id;
  urma_token_t* token;
  urma_import_seg_flag_t flag;
  uint64_t mva;  // where to map it; 0: anywhere
} urma_import_tseg_cfg_t;

// A JFR to import.
typedef struct urma_tjfr_cfg {
  urma_jfr_id_t jfr_id;
  urma_import_jetty_flag_t flag;
  urma_token_t* token;  // what its owner set
  urma_transport_mode_t trans_mode;
  urma_tp_type_t tp_type;
} urma_tjfr_cfg_t;

// A jetty to import.
typedef struct urma_tjetty_cfg {
  urma_jetty_id_t jetty_id;
  urma_import_jetty_flag_t flag;
  urma_token_t* token;  // what its owner set
  urma_transport_mode_t trans_mode;
  urma_jetty_grp_policy_t policy;
  urma_target_type_t type;
  urma_tp_type_t tp_type;
} urma_tjetty_cfg_t;

// A context to make.
typedef struct urma_context_cfg {
  struct urma_device* dev;
  struct urma_ops* ops;
  uint32_t eid_index;  // entry of the EID table
  int dev_fd;          // of the device; -1: none
  uint32_t uasid;      // number of this process
} urma_context_cfg_t;

#ifndef URMA_CMD_UDRV_PRIV
#define URMA_CMD_UDRV_PRIV
// Data for the kernel half of a driver. Other headers that define it set the macro.
typedef struct urma_cmd_udrv_priv {
  uint64_t in_addr;   // 0: none
  uint32_t in_len;    // bytes
  uint64_t out_addr;  // 0: none
  uint32_t out_len;   // bytes
} urma_cmd_udrv_priv_t;
#endif

// Command to post without ringing the doorbell: input.
typedef struct urma_post_and_ret_db_in {
  bool is_jetty;  // jetty is valid, else jfs
  union {
    urma_jfs_t* jfs;
    urma_jetty_t* jetty;
  };
  urma_jfs_wr_t* wr;
} urma_post_and_ret_db_in_t;

// Command to post without ringing the doorbell: output.
typedef struct urma_post_and_ret_db_out {
  urma_jfs_wr_t** bad_wr;  // request that was not posted
  uint64_t db_addr;        // address of the doorbell
  uint64_t db_data;        // value that rings it
} urma_post_and_ret_db_out_t;

// -------------------------------------------------------------------------------------------------
// Calls
// -------------------------------------------------------------------------------------------------

// Makes a provider known. Called from a constructor of the module while urma_init loads it, or
// before urma_init. The structure stays the module's. Not thread-safe.
// Returns 0; -1: the argument or its name is NULL; -ENOMEM: no memory.
// Specification: Context Management.
int urma_register_provider_ops(urma_provider_ops_t* provider_ops);

// Forgets a provider, from a destructor of its module. Not thread-safe.
// Returns 0, also for a provider that is not known; -1: the argument or its name is NULL.
// Specification: Context Management.
int urma_unregister_provider_ops(urma_provider_ops_t* provider_ops);

// Reads the attribute `dir`/`file` into the `size` bytes at `buf`, with an ending zero in place of
// one newline at the end. Thread-safe.
// Returns the length of the text; -1: the file is missing or empty, or the buffer is too small.
// Specification: Device Attributes.
ssize_t urma_read_sysfs_file(const char* dir, const char* file, char* buf, size_t size);

#ifdef __cplusplus
}
#endif

#endif  // URMA_PROVIDER_H
