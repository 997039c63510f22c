/* SPDX-License-Identifier: MIT */

// Interface of libtpsa.so.0. Each device here reaches its peers by itself: there is one path
// between two addresses, and no topology. A function that would change or show one returns -ENOTSUP
// and writes one line to the log of liburma.

#ifndef UVS_API_H
#define UVS_API_H

#include "uvs_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Lists the paths between two addresses: one, from the first to the second. Whether a device has
// them is not checked. `tp_type` and `multi_path` change nothing. Thread-safe, also before
// urma_init.
// Returns 0; -EINVAL: an argument is NULL or `tp_type` is unknown, and *out is unchanged.
// Specification: none, of UMDK's libtpsa.
int uvs_get_path_set(const uvs_eid_t* src_bonding_eid, const uvs_eid_t* dst_bonding_eid,
                     enum uvs_tp_type tp_type, bool multi_path, uvs_path_set_t* out);

// The same as a list of routes, for older programs: one, between the two addresses of `route`, for
// the channels of its flag, or for all of them if it names none. Thread-safe, also before
// urma_init.
// Returns 0; -EINVAL: an argument is NULL, and *out is unchanged.
// Specification: none, of UMDK's libtpsa.
int uvs_get_route_list(const uvs_route_t* route, uvs_route_list_t* out);

// Writes the name of the first device of urma_get_device_list that has the address into the `len`
// bytes at `buf`, with an ending zero. Thread-safe.
// Returns 0; -EINVAL: an argument is NULL or `len` is 0; -ENODEV: no device has it, or urma_init
// was not called; -ERANGE: the name is longer. After an error `buf` is unchanged.
// Specification: none, of UMDK's libtpsa.
int uvs_get_device_name_by_eid(uvs_eid_t* eid, char* buf, size_t len);

// Would make an aggregated device; use URMA_DEVICE_ALIAS. Thread-safe.
// Returns -ENOTSUP; -EINVAL: an argument is NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_create_agg_dev(uvs_eid_t* agg_eid, const char* dev_name);

// Would end an aggregated device; use URMA_DEVICE_ALIAS. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_delete_agg_dev(uvs_eid_t* agg_eid);

// Would set the topology, `node_num` nodes of `node_size` bytes. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL, a size of 0, or a number of 0 or over MAX_NODE_NUM.
// Specification: none, of UMDK's libtpsa.
int uvs_set_topo_info(void* topo_buf, uint32_t node_size, uint32_t node_num);

// Would set the topology shared by devices, as uvs_set_topo_info. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL, a size of 0, or a number of 0 or over MAX_NODE_NUM.
// Specification: none, of UMDK's libtpsa.
int uvs_set_share_topo_info(void* topo_buf, uint32_t node_size, uint32_t node_num);

// Would read the topology. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_get_topo_info(void* topo);

// Would record which entity an address belongs to. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_insert_main_ue_eid(const uvs_main_ue_eid_entry_t* entry);

// Would record it for several addresses. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL, or eid_num is over the 128 that there is room for.
// Specification: none, of UMDK's libtpsa.
int uvs_insert_main_ue_eid_batch(const uvs_main_ue_eid_batch_entry_t* entry);

// Would remove the record of an address. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_delete_main_ue_eid(const uvs_eid_t* eid);

// Would find the entity that an address belongs to; each device stands for itself. Thread-safe.
// Returns -ENOTSUP, and *main_ue_eid is unchanged; -EINVAL: an argument is NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_lookup_main_ue_eid(const uvs_eid_t* eid, uvs_eid_t* main_ue_eid);

// Would remove the records of all addresses. Thread-safe.
// Returns -ENOTSUP.
// Specification: none, of UMDK's libtpsa.
int uvs_flush_main_ue_eid(void);

#ifdef __cplusplus
}
#endif

#endif  // UVS_API_H
