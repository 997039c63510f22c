/* SPDX-License-Identifier: MIT */

// Interface of libtpsa.so.0. Each device here reaches its peers by itself, so that there is one
// path between two addresses, and no topology that could be changed: a function that would change
// or show one returns -ENOTSUP and writes one line to the log of liburma.

#ifndef UVS_API_H
#define UVS_API_H

#include "uvs_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// Tells by what paths two addresses reach each other: by one, from the first to the second. Whether
// a device has them is not looked at. `tp_type` and `multi_path` change nothing. Thread-safe, also
// before urma_init.
// Returns 0; -EINVAL: an argument is NULL or there is no such `tp_type`, and *out is as before.
// Specification: none, of UMDK's libtpsa.
int uvs_get_path_set(const uvs_eid_t* src_bonding_eid, const uvs_eid_t* dst_bonding_eid,
                     enum uvs_tp_type tp_type, bool multi_path, uvs_path_set_t* out);

// The same as a list of routes, as older programs ask for it: one, between the two addresses of
// `route`, for the channels of its flag, or for all of them where it names none. Thread-safe, also
// before urma_init.
// Returns 0; -EINVAL: an argument is NULL, and *out is as before.
// Specification: none, of UMDK's libtpsa.
int uvs_get_route_list(const uvs_route_t* route, uvs_route_list_t* out);

// Writes the name of the first device of urma_get_device_list that has the address into `buf` of
// `len` bytes, with its end. Thread-safe.
// Returns 0; -EINVAL: an argument is NULL or `len` is 0; -ENODEV: no device has it, or urma_init
// has not been called; -ERANGE: the name is longer. `buf` is as before then. Specification: none,
// of UMDK's libtpsa.
int uvs_get_device_name_by_eid(uvs_eid_t* eid, char* buf, size_t len);

// Would make an aggregated device; URMA_DEVICE_ALIAS does. Thread-safe.
// Returns -ENOTSUP; -EINVAL: an argument is NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_create_agg_dev(uvs_eid_t* agg_eid, const char* dev_name);

// Would end an aggregated device; URMA_DEVICE_ALIAS does. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_delete_agg_dev(uvs_eid_t* agg_eid);

// Would set the topology, `node_num` nodes of `node_size` bytes. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL, a size of 0, or a number of 0 or over MAX_NODE_NUM.
// Specification: none, of UMDK's libtpsa.
int uvs_set_topo_info(void* topo_buf, uint32_t node_size, uint32_t node_num);

// Would set the topology that devices share, as uvs_set_topo_info. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL, a size of 0, or a number of 0 or over MAX_NODE_NUM.
// Specification: none, of UMDK's libtpsa.
int uvs_set_share_topo_info(void* topo_buf, uint32_t node_size, uint32_t node_num);

// Would tell the topology. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_get_topo_info(void* topo);

// Would note which entity an address belongs to. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_insert_main_ue_eid(const uvs_main_ue_eid_entry_t* entry);

// Would note it of several addresses. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL, or eid_num is over the 128 that there is room for.
// Specification: none, of UMDK's libtpsa.
int uvs_insert_main_ue_eid_batch(const uvs_main_ue_eid_batch_entry_t* entry);

// Would forget it of an address. Thread-safe.
// Returns -ENOTSUP; -EINVAL: NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_delete_main_ue_eid(const uvs_eid_t* eid);

// Would tell which entity an address belongs to; each device stands for itself. Thread-safe.
// Returns -ENOTSUP, and *main_ue_eid is as before; -EINVAL: an argument is NULL.
// Specification: none, of UMDK's libtpsa.
int uvs_lookup_main_ue_eid(const uvs_eid_t* eid, uvs_eid_t* main_ue_eid);

// Would forget it of all addresses. Thread-safe.
// Returns -ENOTSUP.
// Specification: none, of UMDK's libtpsa.
int uvs_flush_main_ue_eid(void);

#ifdef __cplusplus
}
#endif

#endif  // UVS_API_H
