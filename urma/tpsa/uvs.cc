// SPDX-License-Identifier: MIT
#include <cerrno>
#include <cstring>
#include <iterator>

#include "urma_api.h"
#include "urma_ext.h"
#include "uvs_api.h"

#define UVS_EXPORT extern "C" __attribute__((visibility("default")))

static_assert(sizeof(uvs_eid_t) == sizeof(urma_eid_t));

namespace {

// What programs find in real topologies: the first chip and die, and the first port that carries
// traffic.
constexpr uint8_t kChip = 1;
constexpr uint8_t kDie = 1;
constexpr uint8_t kPort = 4;

template <typename... Argument>
bool any_null(const Argument*... arguments) {
  return ((arguments == nullptr) || ...);
}

int refuse(const char* call) {
  urma_log_loc(__FILE__, call, __LINE__, URMA_VLOG_LEVEL_ERR,
               "there is no topology; devices reach their peers by themselves, and "
               "URMA_DEVICE_ALIAS names aggregated ones");
  return -ENOTSUP;
}

int set_topology(const char* call, const void* nodes, uint32_t node_size, uint32_t node_num) {
  const bool possible =
      nodes != nullptr && node_size != 0 && node_num != 0 && node_num <= MAX_NODE_NUM;
  return possible ? refuse(call) : -EINVAL;
}

bool has_eid(urma_device_t* device, const uvs_eid_t& eid) {
  uint32_t count = 0;
  urma_eid_info_t* eids = urma_get_eid_list(device, &count);
  bool found = false;
  for (uint32_t i = 0; eids != nullptr && i < count; ++i) {
    found = found || std::memcmp(eids[i].eid.raw, eid.raw, sizeof eid.raw) == 0;
  }
  urma_free_eid_list(eids);
  return found;
}

urma_device_t* find_device(const uvs_eid_t& eid) {
  int count = 0;
  urma_device_t** devices = urma_get_device_list(&count);
  urma_device_t* found = nullptr;
  for (int i = 0; devices != nullptr && found == nullptr && i < count; ++i) {
    if (has_eid(devices[i], eid)) found = devices[i];
  }
  urma_free_device_list(devices);
  return found;
}

}  // namespace

UVS_EXPORT int uvs_get_path_set(const uvs_eid_t* src_bonding_eid, const uvs_eid_t* dst_bonding_eid,
                                enum uvs_tp_type tp_type, bool /*multi_path*/,
                                uvs_path_set_t* out) {
  uint32_t type;
  std::memcpy(&type, &tp_type, sizeof type);
  if (any_null(src_bonding_eid, dst_bonding_eid, out) || type > UVS_UTP) return -EINVAL;
  uvs_path_set_t set = {};
  set.topo_type = UVS_TOPO_TYPE_FULLMESH_1D;
  set.chip_count = 1;
  set.die_count = 1;
  set.path_count = 1;
  uvs_path_t& path = set.paths[0];
  path.src_port.chip_id = path.dst_port.chip_id = kChip;
  path.src_port.die_id = path.dst_port.die_id = kDie;
  path.src_port.port_idx = path.dst_port.port_idx = kPort;
  path.src_eid = *src_bonding_eid;
  path.dst_eid = *dst_bonding_eid;
  *out = set;
  return 0;
}

UVS_EXPORT int uvs_get_route_list(const uvs_route_t* route, uvs_route_list_t* out) {
  if (any_null(route, out)) return -EINVAL;
  uvs_route_list_t list = {};
  list.len = 1;
  list.buf[0] = *route;
  list.buf[0].hops = 1;
  list.buf[0].chip_id = kChip;
  auto& flag = list.buf[0].flag.bs;
  if (flag.rtp == 0 && flag.ctp == 0 && flag.utp == 0) flag.rtp = flag.ctp = flag.utp = 1;
  *out = list;
  return 0;
}

UVS_EXPORT int uvs_get_device_name_by_eid(uvs_eid_t* eid, char* buf, size_t len) {
  if (any_null(eid, buf) || len == 0) return -EINVAL;
  const int before = errno;
  const urma_device_t* device = find_device(*eid);
  errno = before;
  if (device == nullptr) return -ENODEV;
  const size_t length = strnlen(device->name, std::size(device->name));
  if (length >= len) return -ERANGE;
  std::memcpy(buf, device->name, length);
  buf[length] = '\0';
  return 0;
}

UVS_EXPORT int uvs_create_agg_dev(uvs_eid_t* agg_eid, const char* dev_name) {
  return any_null(agg_eid, dev_name) ? -EINVAL : refuse(__func__);
}

UVS_EXPORT int uvs_delete_agg_dev(uvs_eid_t* agg_eid) {
  return any_null(agg_eid) ? -EINVAL : refuse(__func__);
}

UVS_EXPORT int uvs_set_topo_info(void* topo_buf, uint32_t node_size, uint32_t node_num) {
  return set_topology(__func__, topo_buf, node_size, node_num);
}

UVS_EXPORT int uvs_set_share_topo_info(void* topo_buf, uint32_t node_size, uint32_t node_num) {
  return set_topology(__func__, topo_buf, node_size, node_num);
}

UVS_EXPORT int uvs_get_topo_info(void* topo) {
  return topo == nullptr ? -EINVAL : refuse(__func__);
}

UVS_EXPORT int uvs_insert_main_ue_eid(const uvs_main_ue_eid_entry_t* entry) {
  return any_null(entry) ? -EINVAL : refuse(__func__);
}

UVS_EXPORT int uvs_insert_main_ue_eid_batch(const uvs_main_ue_eid_batch_entry_t* entry) {
  return any_null(entry) || entry->eid_num > std::size(entry->eids) ? -EINVAL : refuse(__func__);
}

UVS_EXPORT int uvs_delete_main_ue_eid(const uvs_eid_t* eid) {
  return any_null(eid) ? -EINVAL : refuse(__func__);
}

UVS_EXPORT int uvs_lookup_main_ue_eid(const uvs_eid_t* eid, uvs_eid_t* main_ue_eid) {
  return any_null(eid, main_ue_eid) ? -EINVAL : refuse(__func__);
}

UVS_EXPORT int uvs_flush_main_ue_eid(void) { return refuse(__func__); }
