/* SPDX-License-Identifier: MIT */

// Types of the URMA interface. Objects that the library returns are structs of this header: their
// fields may be read for as long as the object lives, and only the library writes them.

#ifndef URMA_TYPES_H
#define URMA_TYPES_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#ifdef __cplusplus
#include <atomic>
#else
#include <stdatomic.h>
#endif

#include "urma_opcode.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Versions and limits
// -------------------------------------------------------------------------------------------------

// version number from its major and minor part
#define URMA_GET_VERSION(a, b) (((a) << 16) + ((b) > 65535 ? 65535 : (b)))
#define URMA_API_VERSION ((0 << 16) + 9)

#define MAX_PORT_CNT 8  // ports of a device
#define URMA_MAX_JETTY_IN_JETTY_GRP 32U
#define URMA_MAX_NAME 64                        // bytes of a name, with the ending zero
#define URMA_MAX_PATH 4096                      // bytes of a path, with the ending zero
#define URMA_EID_SIZE (16)                      // bytes of an EID
#define URMA_MAX_PRIORITY_CNT 16                // priorities are 0 to 15
#define URMA_IPV4_MAP_IPV6_PREFIX (0x0000ffff)  // of an EID made from an IPv4 address
#define URMA_MAX_EID_CNT 1024                   // entries of an EID table
#define URMA_CC_IDX_TABLE_SIZE 80
#define URMA_OPT_REVERSED_NUM 4  // reserved words of an option record
#define URMA_EID_STR_LEN (39)    // characters of a printed EID, without the ending zero

// For printf: printf(EID_FMT "\n", EID_ARGS(eid)).
#define EID_FMT \
  "%2.2x%2.2x:%2.2x%2.2x:%2.2x%2.2x:%2.2x%2.2x:%2.2x%2.2x:%2.2x%2.2x:%2.2x%2.2x:%2.2x%2.2x"
#define EID_RAW_ARGS(eid)                                                                  \
  eid[0], eid[1], eid[2], eid[3], eid[4], eid[5], eid[6], eid[7], eid[8], eid[9], eid[10], \
      eid[11], eid[12], eid[13], eid[14], eid[15]
#define EID_ARGS(eid) EID_RAW_ARGS((eid).raw)

#define URMA_SEG_TOKEN_ID_INVALID 0xffffffff  // no token id
#define URMA_MAX_DEV_NAME 64                  // bytes of a device name, with the ending zero
#define URMA_GUID_SIZE (16)
#define URMA_IP_ADDR_BYTES 16
#define URMA_MAC_BYTES 6

// Bits for the values that urma_set_*_opt put into an option record. Test an option with these:
// the bit-fields of the union urma_*_opt_mask types name the same bits in another order.
#define URMA_JFS_SQE_BASE_ADDR_MASK (1ULL << 0)
#define URMA_JFS_ID_MASK (1ULL << 1)
#define URMA_JFS_DB_ADDR_MASK (1ULL << 2)
#define URMA_JFS_DB_STATUS_MASK (1ULL << 3)
#define URMA_JFS_PI_MASK (1ULL << 4)
#define URMA_JFS_PI_TYPE_MASK (1ULL << 5)
#define URMA_JFS_CI_MASK (1ULL << 6)

#define URMA_JFR_RQE_BASE_ADDR_MASK (1ULL << 0)
#define URMA_JFR_ID_MASK (1ULL << 1)
#define URMA_JFR_DB_ADDR_MASK (1ULL << 2)
#define URMA_JFR_DB_STATUS_MASK (1ULL << 3)
#define URMA_JFR_PI_MASK (1ULL << 4)
#define URMA_JFR_PI_TYPE_MASK (1ULL << 5)
#define URMA_JFR_CI_MASK (1ULL << 6)

#define URMA_JFC_CQE_BASE_ADDR_MASK (1ULL << 0)
#define URMA_JFC_ID_MASK (1ULL << 1)
#define URMA_JFC_DB_ADDR_MASK (1ULL << 2)
#define URMA_JFC_DB_STATUS_MASK (1ULL << 3)
#define URMA_JFC_PI_MASK (1ULL << 4)
#define URMA_JFC_PI_TYPE_MASK (1ULL << 5)
#define URMA_JFC_CI_MASK (1ULL << 6)

// -------------------------------------------------------------------------------------------------
// Start-up, ports and EIDs
// -------------------------------------------------------------------------------------------------

// Argument of urma_init.
typedef struct urma_init_attr {
  uint64_t token;  // not used
  uint32_t uasid;  // requested process number, 24 bits; 0: chosen at random
} urma_init_attr_t;

// Largest transfer unit of a port, in bytes.
typedef enum urma_mtu {
  URMA_MTU_256 = 1,
  URMA_MTU_512 = 2,
  URMA_MTU_1024 = 3,
  URMA_MTU_2048 = 4,
  URMA_MTU_4096 = 5,
  URMA_MTU_8192 = 6,
} urma_mtu_t;

// State of a port. Only an ACTIVE one carries traffic.
typedef enum urma_port_state {
  URMA_PORT_NOP = 0,  // not known
  URMA_PORT_DOWN = 1,
  URMA_PORT_INIT = 2,
  URMA_PORT_ARMED = 3,
  URMA_PORT_ACTIVE = 4,
  URMA_PORT_ACTIVE_DEFER = 5,  // link lost, may come back
} urma_port_state_t;

// Speed of a link, in bit/s.
typedef enum urma_speed {
  URMA_SP_10M = 0,
  URMA_SP_100M = 1,
  URMA_SP_1G = 2,
  URMA_SP_2_5G = 3,
  URMA_SP_5G = 4,
  URMA_SP_10G = 5,
  URMA_SP_14G = 6,
  URMA_SP_25G = 7,
  URMA_SP_40G = 8,
  URMA_SP_50G = 9,
  URMA_SP_100G = 10,
  URMA_SP_200G = 11,
  URMA_SP_400G = 12,
  URMA_SP_800G = 13,
} urma_speed_t;

// Number of lanes of a link.
typedef enum urma_link_width {
  URMA_LINK_X1 = 1,
  URMA_LINK_X2 = 2,
  URMA_LINK_X4 = 4,
  URMA_LINK_X8 = 8,
  URMA_LINK_X16 = 16,
  URMA_LINK_X32 = 32,
} urma_link_width_t;

// Entity identifier: the network address of a context. Its bytes are in network order.
typedef union urma_eid {
  uint8_t raw[URMA_EID_SIZE];
  // An IPv4 address or a number: reserved is 0, prefix is URMA_IPV4_MAP_IPV6_PREFIX.
  struct {
    uint64_t reserved;
    uint32_t prefix;
    uint32_t addr;
  } in4;
  // An IPv6 address.
  struct {
    uint64_t subnet_prefix;
    uint64_t interface_id;
  } in6;
} urma_eid_t;

// Makes an EID from an IPv4 address or number `ipv4`, given in host byte order: ::ffff:a.b.c.d.
// `eid` receives it and must not be NULL. Any thread may call this at any time, also before
// urma_init.
// Specification: Device Attributes.
void urma_u32_to_eid(uint32_t ipv4, urma_eid_t* eid);

// Reads an EID from the string `buf`: an IPv6 address, a dotted IPv4 address, or a number of at
// most 32 bits (decimal, 0x hexadecimal, 0 octal). The last two become ::ffff:a.b.c.d. `eid`
// receives the result. Any thread may call this at any time, also before urma_init.
// Returns 0, or -EINVAL: an argument is NULL, the string is shorter than 3 characters, or it is
// none of these forms.
// Specification: Device Attributes.
int urma_str_to_eid(const char* buf, urma_eid_t* eid);

// Reference count of an object.
typedef struct urma_ref {
#ifdef __cplusplus
  std::atomic<unsigned long> atomic_cnt;
#else
  atomic_ulong atomic_cnt;
#endif
} urma_ref_t;

// State of one port.
typedef struct urma_port_attr {
  urma_mtu_t max_mtu;
  urma_port_state_t state;
  urma_link_width_t active_width;  // in use
  urma_speed_t active_speed;       // in use
  urma_mtu_t active_mtu;           // in use
} urma_port_attr_t;

// -------------------------------------------------------------------------------------------------
// Device attributes
// -------------------------------------------------------------------------------------------------

// Transport channel types of a priority, one bit each.
union urma_tp_type_en {
  struct {
    uint32_t rtp : 1;  // reliable
    uint32_t ctp : 1;  // compact
    uint32_t utp : 1;  // unreliable
    uint32_t reserved : 29;
  } bs;
  uint32_t value;
};

// What a priority stands for.
struct urma_sl_info {
  uint32_t SL;                    // service level
  union urma_tp_type_en tp_type;  // the one channel type this priority may use
};

// What a device can do, one bit each.
typedef union urma_device_feature {
  struct {
    uint32_t oor : 1;                // out-of-order receive
    uint32_t jfc_per_wr : 1;         // a work request can name its own JFC
    uint32_t stride_op : 1;          // strided transfers
    uint32_t load_store_op : 1;      // loads and stores on imported memory
    uint32_t non_pin : 1;            // registration without pinning
    uint32_t pmem : 1;               // durable memory
    uint32_t jfc_inline : 1;         // small receives travel inside the completion
    uint32_t spray_en : 1;           // packets of one flow may use several source ports
    uint32_t selective_retrans : 1;  // only lost packets are sent again
    uint32_t live_migrate : 1;       // live migration
    uint32_t dca : 1;                // dynamic connections
    uint32_t jetty_grp : 1;          // jetty groups
    uint32_t error_suspend : 1;      // a queue can be suspended instead of failing
    uint32_t outorder_comp : 1;      // completions may be out of order
    uint32_t mn : 1;
    uint32_t clan : 1;
    uint32_t muti_seg_per_token_id : 1;  // one token id can cover several segments
    uint32_t ipourma_en : 1;             // IP over URMA
    uint32_t ctp_en : 1;                 // compact transport
    uint32_t uboe : 1;                   // UB over Ethernet
    uint32_t reserved : 12;
  } bs;
  uint32_t value;
} urma_device_feature_t;

// Atomic operations of a device, one bit each.
typedef union urma_atomic_feature {
  struct {
    uint32_t cas : 1;  // compare and swap
    uint32_t swap : 1;
    uint32_t fetch_and_add : 1;
    uint32_t fetch_and_sub : 1;
    uint32_t fetch_and_and : 1;
    uint32_t fetch_and_or : 1;
    uint32_t fetch_and_xor : 1;
    uint32_t reserved : 25;
  } bs;
  uint32_t value;
} urma_atomic_feature_t;

// Orders of a transport mode, one bit each; see urma_order_type_t.
typedef union urma_order_type_cap {
  struct {
    uint32_t ot : 1;
    uint32_t oi : 1;
    uint32_t ol : 1;
    uint32_t no : 1;
    uint32_t reserved : 28;
  } bs;
  uint32_t value;
} urma_order_type_cap_t;

// Channel types of a transport mode, one bit each.
typedef union urma_tp_type_cap {
  struct {
    uint32_t rtp : 1;
    uint32_t ctp : 1;
    uint32_t utp : 1;
    uint32_t reserved : 29;
  } bs;
  uint32_t value;
} urma_tp_type_cap_t;

// Whether a transport mode can spread over several paths.
typedef union urma_tp_feature {
  struct {
    uint32_t rm_multi_path : 1;
    uint32_t rc_multi_path : 1;
    uint32_t reserved : 30;
  } bs;
  uint32_t value;
} urma_tp_feature_t;

// Limits of a device. Sizes are in bytes.
typedef struct urma_device_cap {
  urma_device_feature_t feature;

  uint32_t max_jfc;
  uint32_t max_jfs;
  uint32_t max_jfr;
  uint32_t max_jetty;
  uint32_t max_jetty_grp;
  uint32_t max_jetty_in_jetty_grp;  // 0: no groups

  uint32_t max_jfc_depth;       // completion records per JFC
  uint32_t max_jfs_depth;       // work requests per JFS
  uint32_t max_jfr_depth;       // work requests per JFR
  uint32_t max_jfs_inline_len;  // payload copied while posting
  uint32_t max_jfs_sge;         // local entries of a send request
  uint32_t max_jfs_rsge;        // remote entries of a send request
  uint32_t max_jfr_sge;         // entries of a receive request

  uint64_t max_msg_size;    // of a message
  uint32_t max_read_size;   // of one READ
  uint32_t max_write_size;  // of one WRITE
  uint32_t max_cas_size;    // operand, and so on for the others
  uint32_t max_swap_size;
  uint32_t max_fetch_and_add_size;
  uint32_t max_fetch_and_sub_size;
  uint32_t max_fetch_and_and_size;
  uint32_t max_fetch_and_or_size;
  uint32_t max_fetch_and_xor_size;

  urma_atomic_feature_t atomic_feat;
  uint16_t trans_mode;  // bits of urma_transport_mode_t
  uint16_t reserved;
  uint16_t congestion_ctrl_alg;  // bits of urma_congestion_ctrl_alg_t
  uint32_t ceq_cnt;              // event queues; urma_jfc_cfg_t.ceqn counts them
  uint32_t max_tp_in_tpg;
  uint32_t max_eid_cnt;    // entries of the EID table
  uint64_t page_size_cap;  // bit n: pages of 2^n bytes
  uint32_t max_oor_cnt;    // out-of-order window, in packets
  uint32_t mn;
  uint32_t max_netaddr_cnt;  // network addresses; 0: none to list

  urma_order_type_cap_t rm_order_cap;
  urma_order_type_cap_t rc_order_cap;
  urma_tp_type_cap_t rm_tp_cap;
  urma_tp_type_cap_t rc_tp_cap;
  urma_tp_type_cap_t um_tp_cap;
  urma_tp_feature_t tp_feature;

  struct urma_sl_info priority_info[URMA_MAX_PRIORITY_CNT];  // index: urma_jfs_cfg_t.priority
} urma_device_cap_t;

// Global identifier of a device.
typedef struct urma_guid {
  uint8_t raw[URMA_GUID_SIZE];
} urma_guid_t;

// Attributes of a device, as urma_query_device reports them.
typedef struct urma_device_attr {
  urma_guid_t guid;
  urma_device_cap_t dev_cap;
  uint8_t port_cnt;  // valid entries of port_attr
  struct urma_port_attr port_attr[MAX_PORT_CNT];
  uint32_t reserved_jetty_id_min;  // well-known ids from here
  uint32_t reserved_jetty_id_max;  // to here; both UINT32_MAX: none
} urma_device_attr_t;

// What an importer presents: 32 bits chosen by the owner.
typedef struct urma_token {
  uint32_t token;
} urma_token_t;

// Kind of a device.
typedef enum urma_transport_type {
  URMA_TRANSPORT_INVALID = -1,
  URMA_TRANSPORT_UB = 0,      // UnifiedBus
  URMA_TRANSPORT_IB = 1,      // InfiniBand or RoCE
  URMA_TRANSPORT_IP = 2,      // TCP/IP
  URMA_TRANSPORT_SOFTUB = 3,  // UnifiedBus in software
  URMA_TRANSPORT_HNS_UB = 5,
  URMA_TRANSPORT_MAX = 6,
} urma_transport_type_t;

// Transport mode of a queue; both ends have to use the same.
typedef enum urma_transport_mode {
  URMA_TM_RM = 1 << 0,  // reliable message: one queue to many peers
  URMA_TM_RC = 1 << 1,  // reliable connection: one jetty bound to one other
  URMA_TM_UM = 1 << 2,  // unreliable message: SEND only, no order
} urma_transport_mode_t;

// Congestion control algorithm of a channel.
typedef enum urma_tp_cc_alg {
  URMA_TP_CC_NONE = 0,
  URMA_TP_CC_DCQCN = 1,
  URMA_TP_CC_CAQM = 2,
  URMA_TP_CC_LDCP = 3,
  URMA_TP_CC_LDCP_L2_HEADER = 4,
  URMA_TP_CC_LDCP_TP_HEADER = 5,
  URMA_TP_CC_DIP = 6,
  URMA_TP_CC_ACC = 7,
  URMA_TP_CC_CUSTOM_1 = 8,
  URMA_TP_CC_CUSTOM_2 = 9,
  URMA_TP_CC_NUM = 10,
} urma_tp_cc_alg_t;

// Congestion control algorithms of a device, one bit each; bit n is urma_tp_cc_alg_t n.
typedef enum urma_congestion_ctrl_alg {
  URMA_CC_NONE = 1 << 0,
  URMA_CC_DCQCN = 1 << 1,
  URMA_CC_CAQM = 1 << 2,
  URMA_CC_LDCP = 1 << 3,
  URMA_CC_LDCP_L2_HEADER = 1 << 4,
  URMA_CC_LDCP_TP_HEADER = 1 << 5,
  URMA_CC_DIP = 1 << 6,
  URMA_CC_ACC = 1 << 7,
  URMA_CC_CUSTOM_1 = 1 << 8,
  URMA_CC_CUSTOM_2 = 1 << 9,
} urma_congestion_ctrl_alg_t;

// One congestion control setting.
typedef struct urma_cc_entry {
  urma_tp_cc_alg_t alg;
  uint8_t cc_pattern_idx;  // its parameter set
  uint8_t cc_priority;     // its preference among the others
} __attribute__((packed)) urma_cc_entry_t;

// -------------------------------------------------------------------------------------------------
// Device and context
// -------------------------------------------------------------------------------------------------

struct urma_ops;
struct urma_provider_ops;
struct urma_sysfs_dev;

// A device. It belongs to the library and lives until urma_uninit or until it is unplugged.
typedef struct urma_device {
  char name[URMA_MAX_NAME];
  char path[URMA_MAX_PATH];  // its directory of attributes
  urma_transport_type_t type;
  struct urma_provider_ops* ops;     // of the provider that drives it
  struct urma_sysfs_dev* sysfs_dev;  // private to the library
} urma_device_t;

// Options of a context.
typedef enum urma_context_opt_name {
  URMA_OPT_AGGR_MODE = 0,  // a urma_context_aggr_mode_t; aggregated devices only
} urma_opt_name_t;

// How an aggregated device uses its members.
typedef enum urma_context_aggr_mode {
  URMA_AGGR_MODE_STANDALONE = 0,     // each by itself
  URMA_AGGR_MODE_ACTIVE_BACKUP = 1,  // one carries the traffic, the others stand by
  URMA_AGGR_MODE_BALANCE = 2,        // all of them share it
} urma_context_aggr_mode_t;

// An open device. Made by urma_create_context, ended by urma_delete_context.
typedef struct urma_context {
  struct urma_device* dev;
  struct urma_ops* ops;   // operations of the provider
  int dev_fd;             // of the device; -1: none
  int async_fd;           // readable while an asynchronous event is pending
  pthread_mutex_t mutex;  // private to the library and its provider
  urma_eid_t eid;         // local address, entry eid_index of the EID table
  uint32_t eid_index;
  uint32_t uasid;                      // number of this process; part of every id
  struct urma_ref ref;                 // 1, and 1 for each object of this context
  urma_context_aggr_mode_t aggr_mode;  // STANDALONE at creation
} urma_context_t;

// One entry of the EID table of a device.
typedef struct urma_eid_info {
  urma_eid_t eid;
  uint32_t eid_index;  // for urma_create_context
} urma_eid_info_t;

// -------------------------------------------------------------------------------------------------
// Completion queues and their events
// -------------------------------------------------------------------------------------------------

// Settings of a completion event channel.
typedef struct urma_jfce_cfg {
  uint32_t depth;  // pending events
  uint64_t user_ctx;
} urma_jfce_cfg_t;

// JFCE, completion event channel. Made by urma_create_jfce, ended by urma_delete_jfce.
typedef struct urma_jfce {
  urma_context_t* urma_ctx;
  int fd;               // readable while an event is pending; may be polled and made non-blocking
  struct urma_ref ref;  // 1, and 1 for each JFC that uses it
} urma_jfce_t;

// Settings of a completion queue.
typedef union urma_jfc_flag {
  struct {
    uint32_t lock_free : 1;     // no lock: the caller lets one thread at a time poll it
    uint32_t jfc_inline : 1;    // small receives travel inside the completion
    uint32_t non_blocking : 1;  // deleting with unacknowledged events fails instead of waiting
    uint32_t has_drv_ext : 1;   // the configuration is followed by data for the provider
    uint32_t reserved : 28;
  } bs;
  uint32_t value;
} urma_jfc_flag_t;

// Configuration of a completion queue.
typedef struct urma_jfc_cfg {
  uint32_t depth;  // completion records, 1 to max_jfc_depth
  urma_jfc_flag_t flag;
  uint32_t ceqn;      // event queue, below ceq_cnt; not checked
  urma_jfce_t* jfce;  // where its events go; NULL: it is only polled
  uint64_t user_ctx;  // for the caller
} urma_jfc_cfg_t;

// Members of urma_jfc_attr_t that urma_modify_jfc applies.
typedef enum urma_jfc_attr_mask {
  JFC_MODERATE_COUNT = 1 << 0,
  JFC_MODERATE_PERIOD = 1 << 1,
} urma_jfc_attr_mask_t;

// What urma_modify_jfc can change.
typedef struct urma_jfc_attr {
  uint32_t mask;             // bits of urma_jfc_attr_mask_t
  uint16_t moderate_count;   // completions for one event
  uint16_t moderate_period;  // longest delay of an event, in us
} urma_jfc_attr_t;

// Address of a queue; the same for JFS, JFR, JFC and jetty.
typedef struct urma_jetty_id {
  urma_eid_t eid;
  uint32_t uasid;  // process that owns it
  uint32_t id;     // number within the device, never 0
} urma_jetty_id_t;
typedef struct urma_jetty_id urma_jfs_id_t;
typedef struct urma_jetty_id urma_jfr_id_t;
typedef struct urma_jetty_id urma_jfc_id_t;

// Which members of urma_jfc_opt_t have been set. Test value with URMA_JFC_*_MASK.
union urma_jfc_opt_mask {
  struct {
    uint64_t urma_jfc_cqe_base_addr : 1;
    uint64_t urma_jfc_db_addr : 1;
    uint64_t urma_jfc_id : 1;
    uint64_t urma_jfc_pi : 1;
    uint64_t urma_jfc_pi_type : 1;
    uint64_t urma_jfc_ci : 1;
    uint64_t urma_jfc_db_status : 1;
    uint64_t reserved : 57;
  } bs;
  uint64_t value;
};

// Options of a completion queue, set between urma_alloc_jfc and urma_active_jfc.
typedef struct urma_jfc_opt {
  union urma_jfc_opt_mask jfc_opt_mask;
  bool is_actived;                  // in use; false between alloc and active
  uint64_t urma_jfc_cqe_base_addr;  // memory of the queue
  uint32_t urma_jfc_id;
  uint64_t urma_jfc_db_addr;  // doorbell
  uint8_t urma_jfc_db_status;
  uint16_t urma_jfc_pi;  // producer index
  uint16_t urma_jfc_pi_type;
  uint16_t urma_jfc_ci;  // consumer index
  uint64_t reserved[URMA_OPT_REVERSED_NUM];
} urma_jfc_opt_t;

// JFC, completion queue. Made by urma_create_jfc or urma_alloc_jfc.
typedef struct urma_jfc {
  urma_context_t* urma_ctx;
  urma_jfc_id_t jfc_id;
  urma_jfc_cfg_t jfc_cfg;  // as in effect; values may exceed what was asked for
  uint64_t handle;         // of the provider

  pthread_mutex_t event_mutex;  // guards the counters of acknowledged events
  pthread_cond_t event_cond;    // signalled when they change
  uint32_t comp_events_acked;   // by urma_ack_jfc
  uint32_t async_events_acked;  // by urma_ack_async_event
  urma_jfc_opt_t urma_jfc_opt;
} urma_jfc_t;

// Order between the requests of a queue.
typedef enum urma_order_type {
  URMA_DEF_ORDER = 0,  // default of the mode: RM takes OI, RC takes OL, UM takes NO
  URMA_OT = 1,         // target ordering; RC only
  URMA_OI = 2,         // initiator ordering; RM only
  URMA_OL = 3,         // ordering by the layer below; RC only
  URMA_NO = 4,         // no ordering; RC and UM
} urma_order_type_t;

// -------------------------------------------------------------------------------------------------
// Send queues
// -------------------------------------------------------------------------------------------------

// Settings of a send queue.
typedef union urma_jfs_flag {
  struct {
    uint32_t lock_free : 1;      // no lock: the caller lets one thread at a time post
    uint32_t error_suspend : 1;  // transport faults suspend the queue instead of failing it
    uint32_t outorder_comp : 1;  // completions may come out of order
    uint32_t order_type : 8;     // urma_order_type_t
    uint32_t multi_path : 1;     // the traffic may use several paths
    uint32_t ctp_rc_mul_path_mode : 1;
    uint32_t non_blocking : 1;  // deleting with unacknowledged events fails instead of waiting
    uint32_t has_drv_ext : 1;   // the configuration is followed by data for the provider
    uint32_t reserved : 17;
  } bs;
  uint32_t value;
} urma_jfs_flag_t;

// Which members of urma_jfs_opt_t have been set. Test value with URMA_JFS_*_MASK.
union urma_jfs_opt_mask {
  struct {
    uint64_t urma_jfs_cqe_base_addr : 1;
    uint64_t urma_jfs_db_addr : 1;
    uint64_t urma_jfs_id : 1;
    uint64_t urma_jfs_pi : 1;
    uint64_t urma_jfs_pi_type : 1;
    uint64_t urma_jfs_ci : 1;
    uint64_t urma_jfs_db_status : 1;
    uint64_t reserved : 57;
  } bs;
  uint64_t value;
};

// Options of a send queue, set between urma_alloc_jfs and urma_active_jfs.
typedef struct urma_jfs_opt {
  union urma_jfs_opt_mask jfs_opt_mask;
  bool is_actived;                  // in use; false between alloc and active
  uint64_t urma_jfs_sqe_base_addr;  // memory of the queue
  uint32_t urma_jfs_id;
  uint64_t urma_jfs_db_addr;  // doorbell
  uint8_t urma_jfs_db_status;
  uint16_t urma_jfs_pi;  // producer index
  uint16_t urma_jfs_pi_type;
  uint16_t urma_jfs_ci;  // consumer index
  uint64_t reserved[URMA_OPT_REVERSED_NUM];
} urma_jfs_opt_t;

// Configuration of a send queue. URMA_DEF_ORDER in flag is replaced in place by the default.
typedef struct urma_jfs_cfg {
  uint32_t depth;  // work requests, 1 to max_jfs_depth
  urma_jfs_flag_t flag;
  urma_transport_mode_t trans_mode;
  uint8_t priority;          // 0 to URMA_MAX_PRIORITY, see priority_info
  uint8_t max_sge;           // local entries of a request, up to max_jfs_sge; 0: that
  uint8_t max_rsge;          // remote entries of a request, up to max_jfs_rsge; 0: 1
  uint32_t max_inline_data;  // bytes, up to max_jfs_inline_len; 0: the device maximum
  uint8_t rnr_retry;         // 0 to 6 retries while the peer has no receive; 7 and more: no limit
  uint8_t err_timeout;       // n, 0 to 31: 4.096 us * 2^n until a request fails; a provider may
                             // have a time of its own
  urma_jfc_t* jfc;           // where completions go; required
  uint64_t user_ctx;         // for the caller
} urma_jfs_cfg_t;

// JFS, send queue. Made by urma_create_jfs or urma_alloc_jfs.
typedef struct urma_jfs {
  urma_context_t* urma_ctx;
  urma_jfs_id_t jfs_id;
  urma_jfs_cfg_t jfs_cfg;  // as in effect; values may exceed what was asked for
  uint64_t handle;         // of the provider

  pthread_mutex_t event_mutex;  // guards the counter of acknowledged events
  pthread_cond_t event_cond;    // signalled when it changes
  uint32_t async_events_acked;  // by urma_ack_async_event
  urma_jfs_opt_t urma_jfs_opt;
} urma_jfs_t;

// Members of urma_jfs_attr_t that urma_modify_jfs applies.
typedef enum urma_jfs_attr_mask {
  JFS_STATE = 1 << 0,
} urma_jfs_attr_mask_t;

typedef urma_jetty_state_t urma_jfs_state_t;

// What urma_modify_jfs can change and urma_query_jfs reports.
typedef struct urma_jfs_attr {
  uint32_t mask;  // bits of urma_jfs_attr_mask_t; 0 when reported
  urma_jfs_state_t state;
} urma_jfs_attr_t;

// -------------------------------------------------------------------------------------------------
// Receive queues
// -------------------------------------------------------------------------------------------------

// Settings of a receive queue.
typedef union urma_jfr_flag {
  struct {
    uint32_t token_policy : 3;  // URMA_TOKEN_NONE or URMA_TOKEN_PLAIN_TEXT
    uint32_t tag_matching : 1;  // URMA_WITH_TAG_MATCHING
    uint32_t lock_free : 1;     // no lock: the caller lets one thread at a time post
    uint32_t order_type : 8;    // urma_order_type_t
    uint32_t has_drv_ext : 1;   // the configuration is followed by data for the provider
    uint32_t non_blocking : 1;  // deleting with unacknowledged events fails instead of waiting
    uint32_t reserved : 17;
  } bs;
  uint32_t value;
} urma_jfr_flag_t;

// Which members of urma_jfr_opt_t have been set. Test value with URMA_JFR_*_MASK.
union urma_jfr_opt_mask {
  struct {
    uint64_t urma_jfr_cqe_base_addr : 1;
    uint64_t urma_jfr_db_addr : 1;
    uint64_t urma_jfr_id : 1;
    uint64_t urma_jfr_pi : 1;
    uint64_t urma_jfr_pi_type : 1;
    uint64_t urma_jfr_ci : 1;
    uint64_t urma_jfr_db_status : 1;
    uint64_t reserved : 57;
  } bs;
  uint64_t value;
};

// Options of a receive queue, set between urma_alloc_jfr and urma_active_jfr.
typedef struct urma_jfr_opt {
  union urma_jfr_opt_mask jfr_opt_mask;
  bool is_actived;                  // in use; false between alloc and active
  uint64_t urma_jfr_rqe_base_addr;  // memory of the queue
  uint32_t urma_jfr_id;
  uint64_t urma_jfr_db_addr;  // doorbell
  uint8_t urma_jfr_db_status;
  uint16_t urma_jfr_pi;  // producer index
  uint16_t urma_jfr_pi_type;
  uint16_t urma_jfr_ci;  // consumer index
  uint64_t reserved[URMA_OPT_REVERSED_NUM];
} urma_jfr_opt_t;

// Configuration of a receive queue. URMA_DEF_ORDER in flag is replaced in place by the default.
typedef struct urma_jfr_cfg {
  uint32_t id;     // requested id, a well-known one; 0: chosen by the system
  uint32_t depth;  // work requests, 1 to max_jfr_depth
  urma_jfr_flag_t flag;
  urma_transport_mode_t trans_mode;
  uint8_t max_sge;           // entries of a request, up to max_jfr_sge; 0: that
  uint8_t min_rnr_timer;     // pause asked of a sender that found no receive
  urma_jfc_t* jfc;           // where completions go; required
  urma_token_t token_value;  // what importers present under URMA_TOKEN_PLAIN_TEXT
  uint64_t user_ctx;         // for the caller
} urma_jfr_cfg_t;

// Members of urma_jfr_attr_t that urma_modify_jfr applies.
typedef enum urma_jfr_attr_mask {
  JFR_RX_THRESHOLD = 1 << 0,
  JFR_STATE = 1 << 1,
} urma_jfr_attr_mask_t;

// What urma_modify_jfr can change and urma_query_jfr reports.
typedef struct urma_jfr_attr {
  uint32_t mask;          // bits of urma_jfr_attr_mask_t; 0 when reported
  uint32_t rx_threshold;  // fewer posted receives raise URMA_EVENT_JFR_LIMIT
  urma_jfr_state_t state;
} urma_jfr_attr_t;

// JFR, receive queue. Made by urma_create_jfr or urma_alloc_jfr.
typedef struct urma_jfr {
  urma_context_t* urma_ctx;
  urma_jfr_id_t jfr_id;
  urma_jfr_cfg_t jfr_cfg;  // as in effect; values may exceed what was asked for
  uint64_t handle;         // of the provider

  pthread_mutex_t event_mutex;  // guards the counter of acknowledged events
  pthread_cond_t event_cond;    // signalled when it changes
  uint32_t async_events_acked;  // by urma_ack_async_event
  urma_jfr_opt_t urma_jfr_opt;
} urma_jfr_t;

// -------------------------------------------------------------------------------------------------
// Importing a receive queue
// -------------------------------------------------------------------------------------------------

// How a remote queue is imported.
typedef union urma_import_jetty_flag {
  struct {
    uint32_t token_policy : 3;   // as its owner set it
    uint32_t order_type : 8;     // urma_order_type_t
    uint32_t share_tp : 1;       // share a transport channel with other imports
    uint32_t has_drv_ext : 1;    // the descriptor is followed by data for the provider
    uint32_t has_user_info : 1;  // the descriptor is followed by a urma_ext_t
    uint32_t reserved : 18;
  } bs;
  uint32_t value;
} urma_import_jetty_flag_t;

// Type of a transport channel.
typedef enum urma_tp_type {
  URMA_RTP = 0,  // reliable; not with UM
  URMA_CTP = 1,  // compact
  URMA_UTP = 2,  // unreliable; UM only
} urma_tp_type_t;

// What urma_import_jfr needs to know of a remote JFR.
typedef struct urma_rjfr {
  urma_jfr_id_t jfr_id;              // its eid and id are enough
  urma_transport_mode_t trans_mode;  // as the remote queue has it
  urma_import_jetty_flag_t flag;
  urma_tp_type_t tp_type;
} urma_rjfr_t;

// Transport channel.
typedef struct urma_tp {
  uint32_t tpn;  // its number; UINT32_MAX: not connected yet
} urma_tp_t;

// -------------------------------------------------------------------------------------------------
// Jetties
// -------------------------------------------------------------------------------------------------

// Settings of a jetty.
typedef union urma_jetty_flag {
  struct {
    uint32_t share_jfr : 1;      // URMA_SHARE_JFR: it receives through a JFR of its own
    uint32_t non_blocking : 1;   // deleting with unacknowledged events fails instead of waiting
    uint32_t has_drv_ext : 1;    // the configuration is followed by data for the provider
    uint32_t has_user_info : 1;  // its descriptor is followed by a urma_ext_t
    uint32_t reserved : 28;
  } bs;
  uint32_t value;
} urma_jetty_flag_t;

typedef struct urma_jetty_grp urma_jetty_grp_t;

// Configuration of a jetty. Both halves must have the same trans_mode and order_type.
typedef struct urma_jetty_cfg {
  uint32_t id;  // requested id, a well-known one; 0: chosen by the system
  urma_jetty_flag_t flag;
  urma_jfs_cfg_t jfs_cfg;  // its sending half
  __extension__ union {
    // Receiving half with URMA_SHARE_JFR.
    struct {
      urma_jfr_t* jfr;  // required
      urma_jfc_t* jfc;  // completions of its receives; NULL: the JFC of jfr
    } shared;
    urma_jfr_cfg_t* jfr_cfg;  // receiving half with URMA_NO_SHARE_JFR; outdated
  };
  urma_jetty_grp_t* jetty_grp;  // group it joins, RM only; NULL: none
  uint64_t user_ctx;            // for the caller
} urma_jetty_cfg_t;

// How a group picks the member that receives.
typedef enum urma_jetty_grp_policy {
  URMA_JETTY_GRP_POLICY_RR = 0,         // one after another
  URMA_JETTY_GRP_POLICY_HASH_HINT = 1,  // by target_hint of the work request
} urma_jetty_grp_policy_t;

// What a remote descriptor stands for.
typedef enum urma_target_type {
  URMA_JFR = 0,
  URMA_JETTY = 1,
  URMA_JETTY_GROUP = 2,
} urma_target_type_t;

// Settings of urma_ext_t.
typedef union urma_ext_flag {
  struct {
    uint32_t enable : 1;  // buf holds data
    uint32_t reserved : 31;
  } bs;
  uint32_t value;
} urma_ext_flag_t;

// Data that follows a descriptor whose flag has has_user_info.
typedef struct urma_ext {
  urma_ext_flag_t flag;
  uint32_t length;  // bytes in buf
  __extension__ char buf[0];
} urma_ext_t;

// What urma_import_jetty needs to know of a remote jetty; see urma_get_rjetty.
typedef struct urma_rjetty {
  urma_jetty_id_t jetty_id;          // its eid and id are enough
  urma_transport_mode_t trans_mode;  // as the remote jetty has it
  urma_jetty_grp_policy_t policy;    // of a group
  urma_target_type_t type;
  urma_import_jetty_flag_t flag;
  urma_tp_type_t tp_type;  // requested channel type
} urma_rjetty_t;

// An imported JFR, jetty or group; the target of work requests.
typedef struct urma_target_jetty {
  urma_context_t* urma_ctx;
  urma_jetty_id_t id;  // of the remote queue
  uint64_t handle;     // of the provider
  urma_transport_mode_t trans_mode;
  urma_tp_t tp;
  urma_target_type_t type;
  urma_import_jetty_flag_t flag;
  urma_jetty_grp_policy_t policy;
  urma_tp_type_t tp_type;
} urma_target_jetty_t;

// Members of urma_jetty_attr_t that urma_modify_jetty applies.
typedef enum urma_jetty_attr_mask {
  JETTY_RX_THRESHOLD = 1 << 0,
  JETTY_STATE = 1 << 1,
} urma_jetty_attr_mask_t;

// What urma_modify_jetty can change and urma_query_jetty reports.
typedef struct urma_jetty_attr {
  uint32_t mask;          // bits of urma_jetty_attr_mask_t; 0 when reported
  uint32_t rx_threshold;  // fewer posted receives raise URMA_EVENT_JETTY_LIMIT
  urma_jetty_state_t state;
} urma_jetty_attr_t;

// Options of a jetty, set between urma_alloc_jetty and urma_active_jetty.
typedef struct urma_jetty_opt {
  bool is_actived;         // in use; false between alloc and active
  urma_jfs_opt_t jfs_opt;  // of its sending half
  uint64_t reserved[URMA_OPT_REVERSED_NUM];
} urma_jetty_opt_t;

// Jetty: a send queue and a receive queue as one port. Made by urma_create_jetty or
// urma_alloc_jetty.
typedef struct urma_jetty {
  urma_context_t* urma_ctx;
  urma_jetty_id_t jetty_id;
  urma_target_jetty_t* remote_jetty;  // bound peer of an RC jetty; NULL: none
  urma_jetty_cfg_t jetty_cfg;         // as in effect; values may exceed what was asked for
  uint64_t handle;                    // of the provider

  pthread_mutex_t event_mutex;  // guards the counter of acknowledged events
  pthread_cond_t event_cond;    // signalled when it changes
  uint32_t async_events_acked;  // by urma_ack_async_event
  urma_jetty_opt_t urma_jetty_opt;
} urma_jetty_t;

// -------------------------------------------------------------------------------------------------
// Importing and binding in the background
// -------------------------------------------------------------------------------------------------

// Channel for results of the *_async calls. Made by urma_create_notifier.
typedef struct urma_notifier {
  urma_context_t* urma_ctx;
  int fd;                        // readable while a result is pending
  void* incomplete_tjetty_list;  // private to the library
} urma_notifier_t;

// Which call a result belongs to; it selects the member of the union in urma_notify_t.
typedef enum urma_notify_type {
  URMA_IMPORT_JETTY_NOTIFY = 0,  // tjetty is usable if status says so
  URMA_BIND_JETTY_NOTIFY = 1,    // jetty is bound if status says so
} urma_notify_type_t;

// One result, filled in by urma_wait_notify.
typedef struct urma_notify {
  urma_notify_type_t type;
  urma_status_t status;
  uint64_t user_ctx;  // as given to the call
  union {
    urma_target_jetty_t* tjetty;
    urma_jetty_t* jetty;
  };
} urma_notify_t;

// -------------------------------------------------------------------------------------------------
// Jetty groups
// -------------------------------------------------------------------------------------------------

// Settings of a jetty group.
typedef union urma_jetty_grp_flag {
  struct {
    uint32_t token_policy : 3;  // the members must have the same
    uint32_t reserved : 29;
  } bs;
  uint32_t value;
} urma_jetty_grp_flag_t;

// Configuration of a jetty group.
typedef struct urma_jetty_grp_cfg {
  char name[URMA_MAX_NAME];  // ends with a zero
  urma_jetty_grp_flag_t flag;
  urma_token_t token_value;  // the members must have the same
  uint32_t id;               // requested id; 0: chosen by the system
  urma_jetty_grp_policy_t policy;
  uint64_t user_ctx;  // for the caller
} urma_jetty_grp_cfg_t;

// Several RM jetties that receive as one. Made by urma_create_jetty_grp.
struct urma_jetty_grp {
  urma_context_t* urma_ctx;
  urma_jetty_id_t jetty_grp_id;
  urma_jetty_grp_cfg_t cfg;
  uint32_t jetty_cnt;          // members
  urma_jetty_t** jetty_list;   // the members
  pthread_mutex_t list_mutex;  // guards jetty_cnt and jetty_list
  uint64_t handle;             // of the provider

  pthread_mutex_t event_mutex;  // guards the counter of acknowledged events
  pthread_cond_t event_cond;    // signalled when it changes
  uint32_t async_events_acked;  // by urma_ack_async_event
};

// -------------------------------------------------------------------------------------------------
// Segments
// -------------------------------------------------------------------------------------------------

// Address on the bus.
typedef struct urma_ubva {
  urma_eid_t eid;  // of the device
  uint32_t uasid;  // of the process
  uint64_t va;     // within the process
} __attribute__((packed)) urma_ubva_t;

// How a segment is registered.
typedef union urma_reg_seg_flag {
  struct {
    uint32_t token_policy : 3;    // URMA_TOKEN_NONE or URMA_TOKEN_PLAIN_TEXT
    uint32_t cacheable : 1;       // URMA_CACHEABLE
    uint32_t dsva : 1;            // URMA_DSVA_ENABLE
    uint32_t access : 6;          // bits of URMA_ACCESS_*
    uint32_t non_pin : 1;         // leave the pages movable
    uint32_t user_iova : 1;       // iova is given
    uint32_t token_id_valid : 1;  // token_id is given
    uint32_t reserved : 18;
  } bs;
  uint32_t value;
} urma_reg_seg_flag_t;

// Attributes of a segment, as its importers get them.
typedef union urma_seg_attr {
  struct {
    uint32_t token_policy : 3;  // as registered
    uint32_t cacheable : 1;
    uint32_t dsva : 1;
    uint32_t access : 6;  // bits of URMA_ACCESS_*
    uint32_t non_pin : 1;
    uint32_t user_iova : 1;
    uint32_t user_token_id : 1;  // its token id belongs to the caller, not to the library
    uint32_t has_user_info : 1;  // the descriptor is followed by a urma_ext_t
    uint32_t reserved : 17;
  } bs;
  uint32_t value;
} urma_seg_attr_t;

// How a segment is imported.
typedef union urma_import_seg_flag {
  struct {
    uint32_t cacheable : 1;  // URMA_CACHEABLE
    uint32_t access : 6;     // bits of URMA_ACCESS_*
    uint32_t mapping : 1;    // URMA_SEG_MAPPED: also map it if possible
    uint32_t reserved : 24;
  } bs;
  uint32_t value;
} urma_import_seg_flag_t;

// How a token id is made.
typedef union urma_token_id_flag {
  struct {
    uint32_t multi_seg : 1;  // it may cover several segments
    uint32_t reserved : 31;
  } bs;
  uint32_t value;
} urma_token_id_flag_t;

// Token id: the key under which segments are found. Made by urma_alloc_token_id.
typedef struct urma_token_id {
  urma_context_t* urma_ctx;
  uint32_t token_id;
  uint64_t handle;  // of the provider
  urma_ref_t ref;   // segments that use it
  urma_token_id_flag_t flag;
} urma_token_id_t;

// Configuration of a segment.
typedef struct urma_seg_cfg {
  uint64_t va;                // start, not 0
  uint64_t len;               // bytes
  urma_token_id_t* token_id;  // used if flag says so
  urma_token_t token_value;   // what importers present under URMA_TOKEN_PLAIN_TEXT
  urma_reg_seg_flag_t flag;
  uint64_t user_ctx;  // for the caller
  uint64_t iova;      // address for the device, used if flag says so
} urma_seg_cfg_t;

// Descriptor of a segment; what an importer needs to have.
typedef struct urma_seg {
  urma_ubva_t ubva;  // start
  uint64_t len;      // bytes
  urma_seg_attr_t attr;
  uint32_t token_id;
} urma_seg_t;

// A registered or imported segment.
typedef struct urma_target_seg {
  urma_seg_t seg;
  uint64_t user_ctx;
  uint64_t mva;  // where an import is mapped; 0: not mapped
  urma_context_t* urma_ctx;
  urma_token_id_t* token_id;  // of a registration; NULL for an import
  uint64_t handle;            // of the provider
} urma_target_seg_t;

// -------------------------------------------------------------------------------------------------
// Work requests
// -------------------------------------------------------------------------------------------------

// Input of urma_user_ctl.
typedef struct urma_user_ctl_in {
  uint64_t addr;    // of the input buffer; 0: none
  uint32_t len;     // of the buffer, in bytes
  uint32_t opcode;  // of the provider, see urma_ubagg.h
} urma_user_ctl_in_t;

// Output of urma_user_ctl.
typedef struct urma_user_ctl_out {
  uint64_t addr;  // of the output buffer; 0: none
  uint32_t len;   // of the buffer, in bytes
  uint32_t reserved;
} urma_user_ctl_out_t;

// What a request needs to know of a remote segment that is not imported.
typedef struct urma_user_target_seg {
  urma_seg_attr_t attr;      // of its descriptor
  uint32_t token_id;         // of its descriptor
  urma_token_t token_value;  // what its owner expects
} urma_user_tseg_t;

// Piece of memory, local or remote.
typedef struct urma_sge {
  uint64_t addr;
  uint32_t len;                 // bytes; 0: skipped
  urma_target_seg_t* tseg;      // its segment; NULL only for inline data and with user_tseg
  urma_user_tseg_t* user_tseg;  // remote memory of READ and WRITE, used if tseg is NULL
} urma_sge_t;

// List of pieces.
typedef struct urma_sg {
  urma_sge_t* sge;
  uint32_t num_sge;
} urma_sg_t;

// Settings of a send request.
typedef union urma_jfs_wr_flag {
  struct {
    uint32_t place_order : 2;       // urma_place_order_t
    uint32_t comp_order : 1;        // completes after the requests before it
    uint32_t fence : 1;             // starts after earlier READs and atomics of the queue
    uint32_t solicited_enable : 1;  // wakes a peer that armed for solicited events only
    uint32_t complete_enable : 1;   // success leaves a completion record
    uint32_t inline_flag : 1;       // the payload is copied while posting; no segment needed
    uint32_t db_bypass : 1;         // the doorbell is left to the caller
    uint32_t udf : 1;               // user defined format
    uint32_t has_drv_ext : 1;       // the request is followed by data for the provider
    uint32_t reserved : 22;
  } bs;
  uint32_t value;
} urma_jfs_wr_flag_t;

// Settings of a receive request.
typedef union urma_jfr_wr_flag {
  struct {
    uint32_t complete_type : 1;  // URMA_COMPLETE_TYPE_JFC or URMA_COMPLETE_TYPE_CF
    uint32_t reserved : 31;
  } bs;
  uint32_t value;
} urma_jfr_wr_flag_t;

// READ and the WRITE operations. The remote side is one piece; what follows it is ignored.
typedef struct urma_rw_wr {
  urma_sg_t src;        // READ: remote; WRITE: local, many pieces
  urma_sg_t dst;        // READ: local, many pieces; WRITE: remote. WRITE_NOTIFY: sge[1] is notified
  uint8_t target_hint;  // picks the member of a group
  // WRITE_IMM: for the completion record. WRITE_NOTIFY: written to dst.sge[1]
  uint64_t notify_data;
} urma_rw_wr_t;

// SEND operations.
typedef struct urma_send_wr {
  urma_sg_t src;            // message; zero pieces make an empty one
  uint8_t target_hint;      // picks the member of a group
  uint64_t imm_data;        // SEND_IMM: for the completion record
  urma_target_seg_t* tseg;  // SEND_INVALIDATE: segment of the peer to end
} urma_send_wr_t;

// CAS and SWAP, of 4, 8 or (CAS) 16 bytes as src->len says. Above 8 bytes the *_addr members count.
typedef struct urma_cas_wr {
  urma_sge_t* dst;  // remote target
  urma_sge_t* src;  // local buffer for the old value
  union {
    uint64_t cmp_data;  // value to compare with
    uint64_t cmp_addr;  // address of that value
  };
  union {
    uint64_t swap_data;  // value to store
    uint64_t swap_addr;  // address of that value
  };
} urma_cas_wr_t;

// Fetch-and-modify operations, of 4 or 8 bytes as src->len says.
typedef struct urma_faa_wr {
  urma_sge_t* dst;  // remote target
  urma_sge_t* src;  // local buffer for the old value
  union {
    uint64_t operand;
    uint64_t operand_addr;  // address of the operand, for operands above 8 bytes
  };
} urma_faa_wr_t;

// Send request.
typedef struct urma_jfs_wr {
  urma_opcode_t opcode;
  urma_jfs_wr_flag_t flag;
  urma_target_jetty_t* tjetty;  // target; ignored by an RC jetty, which has a bound peer
  uint64_t user_ctx;            // comes back in the completion record
  union {
    urma_rw_wr_t rw;      // READ, WRITE, WRITE_IMM, WRITE_NOTIFY, WRITE_ATOMIC
    urma_send_wr_t send;  // SEND, SEND_IMM, SEND_INVALIDATE
    urma_cas_wr_t cas;    // CAS, SWAP
    urma_faa_wr_t faa;    // FADD, FSUB, FAND, FOR, FXOR
  };
  struct urma_jfs_wr* next;  // next request of the list; NULL: last
} urma_jfs_wr_t;

// Receive request.
typedef struct urma_jfr_wr {
  urma_sg_t src;             // buffer for one message
  uint64_t user_ctx;         // comes back in the completion record
  struct urma_jfr_wr* next;  // next request of the list; NULL: last
} urma_jfr_wr_t;

// -------------------------------------------------------------------------------------------------
// Completions and events
// -------------------------------------------------------------------------------------------------

// Kind of a completion record.
typedef union urma_cr_flag {
  struct {
    uint8_t s_r : 1;             // 0: of a send request, 1: of a receive request
    uint8_t jetty : 1;           // 1: local_id is a jetty, 0: a JFS or JFR
    uint8_t suspend_done : 1;    // marker of URMA_CR_WR_SUSPEND_DONE
    uint8_t flush_err_done : 1;  // marker of URMA_CR_WR_FLUSH_ERR_DONE
    uint8_t reserved : 4;
  } bs;
  uint8_t value;
} urma_cr_flag_t;

// Segment that a SEND_INVALIDATE ended.
typedef struct urma_cr_token {
  uint32_t token_id;
  urma_token_t token_value;
} urma_cr_token_t;

// Completion record.
typedef struct urma_cr {
  urma_cr_status_t status;
  uint64_t user_ctx;        // of the work request
  urma_cr_opcode_t opcode;  // of a receive; not an enumerator for a send
  urma_cr_flag_t flag;
  uint32_t completion_len;    // bytes moved
  uint32_t local_id;          // queue of the request
  urma_jetty_id_t remote_id;  // of a receive: the sender
  union {
    uint64_t imm_data;              // with an opcode of *_WITH_IMM
    urma_cr_token_t invalid_token;  // with URMA_CR_OPC_SEND_WITH_INV
  };
  uint32_t tpn;         // transport channel
  uintptr_t user_data;  // address of the local urma_jfs_t, urma_jfr_t or urma_jetty_t
} urma_cr_t;

// Asynchronous event, filled in by urma_get_async_event.
typedef struct urma_async_event {
  const urma_context_t* urma_ctx;
  // Selected by event_type.
  union {
    urma_jfc_t* jfc;
    urma_jfs_t* jfs;
    urma_jfr_t* jfr;
    urma_jetty_t* jetty;
    urma_jetty_grp_t* jetty_grp;
    uint32_t port_id;
    uint32_t eid_idx;  // entry of the EID table
  } element;
  urma_async_event_type_t event_type;
  void* priv;  // private to the library
} urma_async_event_t;

// -------------------------------------------------------------------------------------------------
// URMA regions
// -------------------------------------------------------------------------------------------------

// Attributes of a region.
typedef union urma_ur_attr {
  struct {
    uint32_t reserved : 32;
  } bs;
  uint32_t value;
} urma_ur_attr_t;

// How a region is imported.
typedef union urma_import_ur_flag {
  struct {
    uint32_t mapping : 2;  // URMA_SEG_MAPPED: also map its segments
    uint32_t reserved : 30;
  } bs;
  uint32_t value;
} urma_import_ur_flag_t;

#define UR_NAME_MAX_LEN 256          // bytes, with the ending zero
#define JFR_NAME_MAX_LEN 256         // bytes, with the ending zero
#define URMA_MAX_SEGS_PER_UR_OPT 64  // segments of one call

// Region: segments, maybe of several owners, under one name.
typedef struct urma_ur {
  char name[UR_NAME_MAX_LEN];
  uint64_t size;  // bytes
  urma_ur_attr_t attr;
  uint64_t token;
  uint64_t user_ctx;  // for the caller
} urma_ur_t;

// Imported region.
typedef struct urma_target_ur {
  char name[UR_NAME_MAX_LEN];
  uint64_t size;  // bytes
  urma_import_ur_flag_t flag;
  urma_target_seg_t** tseg_list;  // its segments
  uint32_t cnt;                   // their number
} urma_target_ur_t;

// Segment of a region.
typedef struct urma_seg_info {
  urma_seg_t seg;
  uint32_t idx_in_ur;  // its position
} urma_seg_info_t;

// Description of a region.
typedef struct urma_ur_info {
  char name[UR_NAME_MAX_LEN];
  uint64_t size;  // bytes
  urma_ur_attr_t attr;
  uint32_t cnt;  // entries of seg_list
  __extension__ urma_seg_info_t seg_list[0];
} urma_ur_info_t;

// Receive queue found by its name.
typedef struct urma_jfr_info {
  char name[JFR_NAME_MAX_LEN];
  urma_eid_t eid;
  uint32_t uasid;
  uint32_t id;
} urma_jfr_info_t;

// -------------------------------------------------------------------------------------------------
// Transport channels
// -------------------------------------------------------------------------------------------------

// Settings of a channel.
typedef union urma_tp_cfg_flag {
  struct {
    uint32_t target : 1;      // this side was called
    uint32_t loopback : 1;    // both ends are here
    uint32_t dca_enable : 1;  // dynamic connections
    uint32_t bonding : 1;     // of an aggregated device
    uint32_t reserved : 28;
  } bs;
  uint32_t value;
} urma_tp_cfg_flag_t;

// Configuration of a channel.
typedef struct urma_tp_cfg {
  urma_tp_cfg_flag_t flag;
  urma_transport_mode_t trans_mode;
  uint8_t retry_num;     // retries of a packet
  uint8_t retry_factor;  // growth of the time between retries
  uint8_t ack_timeout;   // until a packet counts as lost
  uint8_t dscp;          // differentiated services code point
  uint32_t oor_cnt;      // out-of-order window, in packets
} urma_tp_cfg_t;

// Members of urma_tp_attr_t that urma_modify_tp applies.
typedef union urma_tp_attr_mask {
  struct {
    uint32_t flag : 1;
    uint32_t peer_tpn : 1;
    uint32_t state : 1;
    uint32_t tx_psn : 1;
    uint32_t rx_psn : 1;
    uint32_t mtu : 1;
    uint32_t cc_pattern_idx : 1;
    uint32_t oos_cnt : 1;
    uint32_t local_net_addr_idx : 1;
    uint32_t peer_net_addr : 1;
    uint32_t data_udp_start : 1;
    uint32_t ack_udp_start : 1;
    uint32_t udp_range : 1;
    uint32_t hop_limit : 1;
    uint32_t flow_label : 1;
    uint32_t port_id : 1;
    uint32_t mn : 1;
    uint32_t peer_trans_type : 1;
    uint32_t reserved : 14;
  } bs;
  uint32_t value;
} urma_tp_attr_mask_t;

// Settings of a channel that can change.
typedef union urma_tp_mod_flag {
  struct {
    uint32_t oor_en : 1;    // out-of-order receive
    uint32_t sr_en : 1;     // selective retransmission
    uint32_t cc_en : 1;     // congestion control
    uint32_t cc_alg : 4;    // urma_tp_cc_alg_t
    uint32_t spray_en : 1;  // several source ports
    uint32_t clan : 1;
    uint32_t reserved : 23;
  } bs;
  uint32_t value;
} urma_tp_mod_flag_t;

// State of a channel.
typedef enum urma_tp_state {
  URMA_TP_STATE_RESET = 0,    // not set up
  URMA_TP_STATE_PASSIVE = 1,  // receives only
  URMA_TP_STATE_ACTIVE = 2,   // sends and receives
  URMA_TP_STATE_BRAKE = 3,    // held back
  URMA_TP_STATE_ERROR = 4,    // lost
} urma_tp_state_t;

// Network address.
typedef struct urma_net_addr {
  sa_family_t sin_family;  // AF_INET: in4, AF_INET6: in6
  union {
    struct in_addr in4;
    struct in6_addr in6;
  };
  uint64_t vlan;  // tag; 0: none
  uint8_t mac[URMA_MAC_BYTES];
  uint32_t prefix_len;  // bits
} urma_net_addr_t;

// Network address of a device.
typedef struct urma_net_addr_info {
  urma_net_addr_t netaddr;
  uint32_t index;  // in its table
} urma_net_addr_info_t;

// Attributes of a channel.
typedef struct urma_tp_attr {
  urma_tp_mod_flag_t flag;
  uint32_t peer_tpn;
  urma_tp_state_t state;
  uint32_t tx_psn;  // next packet number to send
  uint32_t rx_psn;  // next packet number expected
  urma_mtu_t mtu;
  uint8_t cc_pattern_idx;
  uint32_t oos_cnt;  // out-of-order packets taken
  uint32_t local_net_addr_idx;
  urma_net_addr_t peer_net_addr;
  uint16_t data_udp_start;  // first source port for data
  uint16_t ack_udp_start;   // first source port for answers
  uint8_t udp_range;        // log2 of the number of source ports
  uint8_t hop_limit;
  uint32_t flow_label;
  uint8_t port_id;
  uint8_t mn;
  urma_transport_type_t peer_trans_type;
} urma_tp_attr_t;

// Which channels urma_get_tp_list lists.
typedef union urma_get_tp_cfg_flag {
  struct {
    uint32_t ctp : 1;
    uint32_t rtp : 1;
    uint32_t utp : 1;
    uint32_t uboe : 1;             // over Ethernet
    uint32_t pre_defined : 1;      // set up in advance
    uint32_t dynamic_defined : 1;  // set up on demand
    uint32_t udp : 5;              // source port selection
    uint32_t group_id : 15;        // of the channel group
    uint32_t reserved : 6;
  } bs;
  uint32_t value;
} urma_get_tp_cfg_flag_t;

// Selection for urma_get_tp_list.
typedef struct urma_get_tp_cfg {
  urma_get_tp_cfg_flag_t flag;
  urma_transport_mode_t trans_mode;
  urma_eid_t local_eid;
  urma_eid_t peer_eid;
} urma_get_tp_cfg_t;

// Channel found by urma_get_tp_list.
typedef struct urma_tp_info {
  uint64_t tp_handle;  // names it in other calls
} urma_tp_info_t;

// Initial packet numbers of a channel.
typedef struct urma_active_tp_attr {
  uint32_t tx_psn;  // first to send
  uint32_t rx_psn;  // first to expect
  uint64_t reserved;
} urma_active_tp_attr_t;

// Channel that an *_ex call uses.
typedef struct urma_active_tp_cfg {
  uint64_t tp_handle;       // of this side, from urma_get_tp_list
  uint64_t peer_tp_handle;  // of the other side
  uint64_t tag;             // told to both sides by the caller
  urma_active_tp_attr_t tp_attr;
} urma_active_tp_cfg_t;
typedef struct urma_active_tp_cfg urma_import_jetty_ex_cfg_t;
typedef struct urma_active_tp_cfg urma_import_jfr_ex_cfg_t;
typedef struct urma_active_tp_cfg urma_bind_jetty_ex_cfg_t;

// Values for urma_set_tp_attr and urma_get_tp_attr. Bit n of the bitmap is the n-th member.
typedef struct urma_tp_attr_value {
  uint8_t retry_times_init : 3;     // retries of a packet
  uint8_t at : 5;                   // time until a packet counts as lost
  uint8_t sip[URMA_IP_ADDR_BYTES];  // source address
  uint8_t dip[URMA_IP_ADDR_BYTES];  // destination address
  uint8_t sma[URMA_MAC_BYTES];      // source MAC
  uint8_t dma[URMA_MAC_BYTES];      // destination MAC
  uint16_t vlan_id : 12;
  uint8_t vlan_en : 1;
  uint16_t dscp : 6;     // differentiated services code point
  uint8_t at_times : 5;  // rounds of at
  uint8_t sl : 4;        // service level
  uint8_t ttl;           // hop limit
  uint16_t ack_udp_srcport;
  uint16_t data_udp_srcport;
  uint8_t udp_srcport_range : 4;
  uint8_t spray_en : 1;  // several source ports
  uint8_t udp_global_en : 1;
  uint8_t reserve_0 : 2;
  uint16_t sl_bitmap;
  uint8_t dscp_config_mode : 1;
  uint8_t reserve_1 : 7;
  uint8_t reserved[70];
} __attribute__((packed)) urma_tp_attr_value_t;

// -------------------------------------------------------------------------------------------------
// Callbacks
// -------------------------------------------------------------------------------------------------

// Takes an asynchronous event and the argument it was registered with.
typedef void (*urma_async_event_cb)(urma_async_event_t*, void*);

// Takes the result of a urma_advise_*_async call and the cb_arg of that call.
typedef void (*urma_advise_async_cb_func)(urma_status_t, void*);

// Level of a log line, as in syslog.
typedef enum urma_vlog_level {
  URMA_VLOG_LEVEL_EMERG = 0,
  URMA_VLOG_LEVEL_ALERT = 1,
  URMA_VLOG_LEVEL_CRIT = 2,
  URMA_VLOG_LEVEL_ERR = 3,
  URMA_VLOG_LEVEL_WARNING = 4,
  URMA_VLOG_LEVEL_NOTICE = 5,
  URMA_VLOG_LEVEL_INFO = 6,  // at start
  URMA_VLOG_LEVEL_DEBUG = 7,
  URMA_VLOG_LEVEL_MAX = 8,
} urma_vlog_level_t;

// Takes a log line: its level and its text, which ends with a newline and is valid during the call
// only. May be called from any thread, several at a time.
typedef void (*urma_log_cb_t)(int, char*);

// As urma_log_cb_t, with the source file, function and line before the text.
typedef void (*urma_loc_log_cb)(int, const char*, const char*, int, char*);

#ifdef __cplusplus
}
#endif

#endif  // URMA_TYPES_H
