/* SPDX-License-Identifier: MIT */

// Types of libtpsa, which lists the paths between two addresses.

#ifndef UVS_TYPES_H
#define UVS_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UVS_MAX_ROUTES 16
#define EID_LEN 16
#define MAX_PORT_NUM 9
#define MAX_NODE_NUM 1024
#define IODIE_NUM_PER_CHIP 1
#define PORT_NUM 9
#define CHIP_NUM 2
#define DEV_NUM 256
#define IODIE_NUM 2

// Type of a transport channel; the values are those of urma_tp_type_t.
typedef enum uvs_tp_type {
  UVS_RTP = 0,
  UVS_CTP = 1,
  UVS_UTP = 2,
} uvs_tp_type_t;

// How nodes are wired.
enum uvs_topo_type_t {
  UVS_TOPO_TYPE_FULLMESH_1D = 0,  // each with each
  UVS_TOPO_TYPE_CLOS = 1,         // through switches
};

// Address of a device, as urma_eid_t.
typedef union uvs_eid {
  uint8_t raw[EID_LEN];
  struct {
    uint64_t resv;
    uint32_t prefix;
    uint32_t addr;
  } in4;
  struct {
    uint64_t subnet_prefix;
    uint64_t interface_id;
  } in6;
} uvs_eid_t;

// Channels that a route carries.
typedef union uvs_route_flag {
  struct {
    uint32_t rtp : 1;
    uint32_t ctp : 1;
    uint32_t utp : 1;
    uint32_t reserved : 29;
  } bs;
  uint32_t value;
} uvs_route_flag_t;

// Way from one address to another.
typedef struct uvs_route {
  uvs_eid_t src;
  uvs_eid_t dst;
  uvs_route_flag_t flag;
  uint32_t hops;
  uint32_t chip_id;
} uvs_route_t;

typedef struct uvs_route_list {
  uint32_t len;  // entries of buf
  uvs_route_t buf[UVS_MAX_ROUTES];
} uvs_route_list_t;

typedef struct uvs_node_id {
  uint32_t super_node_id;
  uint32_t node_id;
} uvs_node_id_t;

// Place of a port, as bondp_port_id_t.
union uvs_port_id {
  __extension__ struct {
    uint8_t chip_id;
    uint8_t die_id;
    uint8_t port_idx;
    uint8_t reserved;
  };
  uint64_t value;  // all of it as one number
};

// Path from one port to another.
typedef struct uvs_path {
  union uvs_port_id src_port;
  union uvs_port_id dst_port;
  uvs_eid_t src_eid;
  uvs_eid_t dst_eid;
} uvs_path_t;

// The paths between two addresses.
typedef struct uvs_path_set {
  enum uvs_topo_type_t topo_type;
  uvs_node_id_t src_node;
  uvs_node_id_t dst_node;
  uint32_t chip_count;
  uint32_t die_count;
  uint32_t path_count;  // entries of paths
  uvs_path_t paths[UVS_MAX_ROUTES];
} uvs_path_set_t;

// Member of an aggregated device in a topology.
struct urma_topo_ue {
  uint32_t chip_id;
  uint32_t die_id;
  uint32_t entity_id;
  char primary_eid[EID_LEN];
  char port_eid[MAX_PORT_NUM][EID_LEN];
  char cna[MAX_PORT_NUM][EID_LEN];
};

// Aggregated device in a topology.
struct urma_topo_agg_dev {
  char agg_eid[EID_LEN];
  struct urma_topo_ue ues[IODIE_NUM];
};

// Address, and the address of the entity that it belongs to.
typedef struct uvs_main_ue_eid_entry {
  uvs_eid_t eid;
  uvs_eid_t main_ue_eid;
} uvs_main_ue_eid_entry_t;

// The addresses of one entity.
typedef struct uvs_main_ue_eid_batch_entry {
  uvs_eid_t main_ue_eid;
  uint32_t eid_num;  // entries of eids
  uvs_eid_t eids[128];
} uvs_main_ue_eid_batch_entry_t;

#ifdef __cplusplus
}
#endif

#endif  // UVS_TYPES_H
