// SPDX-License-Identifier: MIT
#include "tools/admin/device_fields.h"

#include "third_party/fmt/format.h"
#include "tools/admin/text.h"
#include "urma_types_str.h"

namespace admin {
namespace {

// urma_types_str.h names the first of them, as UMDK's does; these are named as in
// urma_device_feature_t.
const char* feature_name(uint8_t bit) {
  static constexpr const char* kFurther[] = {
      "LIVE_MIGRATE",  "DCA",    "JETTY_GRP", "ERROR_SUSPEND",
      "OUTORDER_COMP", "MN",     "CLAN",      "MUTI_SEG_PER_TOKEN_ID",
      "IPOURMA_EN",    "CTP_EN", "UBOE"};
  if (bit < URMA_DEVICE_FEAT_NUM) return urma_device_feat_to_string(bit);
  const size_t further = bit - URMA_DEVICE_FEAT_NUM;
  return further < std::size(kFurther) ? kFurther[further] : "RESERVED";
}

const char* order_name(uint8_t bit) {
  static constexpr const char* kNames[] = {"OT", "OI", "OL", "NO"};
  return bit < std::size(kNames) ? kNames[bit] : "RESERVED";
}

const char* channel_name(uint8_t bit) {
  return bit <= URMA_UTP ? g_urma_tp_type_en_str[bit] : "RESERVED";
}

const char* multi_path_name(uint8_t bit) {
  static constexpr const char* kNames[] = {"RM_MULTI_PATH", "RC_MULTI_PATH"};
  return bit < std::size(kNames) ? kNames[bit] : "RESERVED";
}

const char* mode_name(uint8_t bit) {
  return urma_trans_mode_to_string(static_cast<urma_transport_mode_t>(1U << bit));
}

class Fields {
 public:
  template <typename Number>
  void number(const char* name, Number value) {
    fields_.push_back({name, urma::format("{}", value), value});
  }
  void word(std::string name, const std::string& text) {
    fields_.push_back({std::move(name), text, text});
  }
  void bits(const char* name, uint32_t value, const char* (*bit_name)(uint8_t)) {
    const auto names = bit_names(value, bit_name);
    fields_.push_back({name,
                       urma::format("{:#x} [{}]", value, joined(names, "|")),
                       {{"value", value}, {"names", names}}});
  }
  void coded(const char* name, int value, const char* meaning) {
    fields_.push_back(
        {name, urma::format("{} [{}]", value, meaning), {{"value", value}, {"name", meaning}}});
  }
  void port(size_t index) { fields_.push_back({urma::format("port{}", index), "", nullptr}); }
  std::vector<Field> take() { return std::move(fields_); }

 private:
  std::vector<Field> fields_;
};

void add_identity(const Device& device, Fields* fields) {
  fields->word("name", device.name);
  fields->word("tp_type", urma_tp_type_to_string(device.handle->type));
  // A guid is printed like an EID.
  urma_eid_t guid;
  static_assert(sizeof guid.raw == sizeof device.attr.guid.raw);
  std::copy(std::begin(device.attr.guid.raw), std::end(device.attr.guid.raw), guid.raw);
  fields->word("guid", eid_text(guid));
  for (const auto& info : device.eids) {
    fields->word(urma::format("eid{}", info.eid_index), eid_text(info.eid));
  }
}

void add_queue_limits(const urma_device_cap_t& cap, Fields* fields) {
  fields->bits("feature", cap.feature.value, feature_name);
  fields->number("max_jfc", cap.max_jfc);
  fields->number("max_jfs", cap.max_jfs);
  fields->number("max_jfr", cap.max_jfr);
  fields->number("max_jetty", cap.max_jetty);
  fields->number("max_jetty_grp", cap.max_jetty_grp);
  fields->number("max_jetty_in_jetty_grp", cap.max_jetty_in_jetty_grp);
  fields->number("max_jfc_depth", cap.max_jfc_depth);
  fields->number("max_jfs_depth", cap.max_jfs_depth);
  fields->number("max_jfr_depth", cap.max_jfr_depth);
  fields->number("max_jfs_inline_len", cap.max_jfs_inline_len);
  fields->number("max_jfs_sge", cap.max_jfs_sge);
  fields->number("max_jfs_rsge", cap.max_jfs_rsge);
  fields->number("max_jfr_sge", cap.max_jfr_sge);
}

void add_size_limits(const urma_device_cap_t& cap, Fields* fields) {
  fields->number("max_msg_size", cap.max_msg_size);
  fields->number("max_read_size", cap.max_read_size);
  fields->number("max_write_size", cap.max_write_size);
  fields->number("max_cas_size", cap.max_cas_size);
  fields->number("max_swap_size", cap.max_swap_size);
  fields->number("max_fetch_and_add_size", cap.max_fetch_and_add_size);
  fields->number("max_fetch_and_sub_size", cap.max_fetch_and_sub_size);
  fields->number("max_fetch_and_and_size", cap.max_fetch_and_and_size);
  fields->number("max_fetch_and_or_size", cap.max_fetch_and_or_size);
  fields->number("max_fetch_and_xor_size", cap.max_fetch_and_xor_size);
  fields->bits("atomic_feature", cap.atomic_feat.value, urma_atomic_feat_to_string);
}

// What the library knows beyond the attributes.
void add_further(const Device& device, Fields* fields) {
  const urma_ext_device_t& further = device.further;
  fields->bits("emulated_atomics", further.emulated_atomics.value, urma_atomic_feat_to_string);
  fields->bits("emulated_atomics_4", further.emulated_atomics_4.value, urma_atomic_feat_to_string);
  fields->number("dmabuf", further.dmabuf);
  fields->number("immediate", further.immediate);
}

void add_transport(const urma_device_cap_t& cap, Fields* fields) {
  fields->bits("trans_mode", cap.trans_mode, mode_name);
  fields->bits("congestion_ctrl_alg", cap.congestion_ctrl_alg, urma_congestion_ctrl_alg_to_string);
  fields->number("ceq_cnt", cap.ceq_cnt);
  fields->number("max_tp_in_tpg", cap.max_tp_in_tpg);
  fields->number("max_eid_cnt", cap.max_eid_cnt);
  fields->number("page_size_cap", cap.page_size_cap);
  fields->number("max_oor_cnt", cap.max_oor_cnt);
  fields->number("mn", cap.mn);
  fields->number("max_netaddr_cnt", cap.max_netaddr_cnt);
  fields->bits("rm_order_cap", cap.rm_order_cap.value, order_name);
  fields->bits("rc_order_cap", cap.rc_order_cap.value, order_name);
  fields->bits("rm_tp_cap", cap.rm_tp_cap.value, channel_name);
  fields->bits("rc_tp_cap", cap.rc_tp_cap.value, channel_name);
  fields->bits("um_tp_cap", cap.um_tp_cap.value, channel_name);
  fields->bits("tp_feature", cap.tp_feature.value, multi_path_name);
}

void add_port(const urma_port_attr_t& port, Fields* fields) {
  fields->coded("max_mtu", port.max_mtu, urma_mtu_to_string(port.max_mtu));
  fields->coded("state", port.state, urma_port_state_to_string(port.state));
  fields->coded("active_width", port.active_width, urma_link_width_to_string(port.active_width));
  fields->coded("active_speed", port.active_speed, urma_speed_to_string(port.active_speed));
  fields->coded("active_mtu", port.active_mtu, urma_mtu_to_string(port.active_mtu));
}

size_t port_count(const Device& device) {
  return std::min<size_t>(device.attr.port_cnt, MAX_PORT_CNT);
}

void add_attributes(const Device& device, Fields* fields) {
  add_queue_limits(device.attr.dev_cap, fields);
  add_size_limits(device.attr.dev_cap, fields);
  add_further(device, fields);
  add_transport(device.attr.dev_cap, fields);
  fields->number("port_count", device.attr.port_cnt);
  fields->number("reserved_jetty_id_min", device.attr.reserved_jetty_id_min);
  fields->number("reserved_jetty_id_max", device.attr.reserved_jetty_id_max);
}

Json object_of(Fields fields) {
  Json json = Json::object();
  for (auto& field : fields.take()) json[field.name] = std::move(field.json);
  return json;
}

}  // namespace

std::vector<Field> fields_of(const Device& device) {
  Fields fields;
  add_identity(device, &fields);
  add_attributes(device, &fields);
  for (size_t i = 0; i < port_count(device); ++i) {
    fields.port(i);
    add_port(device.attr.port_attr[i], &fields);
  }
  return fields.take();
}

std::string priority_table(const Device& device) {
  std::string text = urma::format("{:<10}{:<6}{}\n", "priority", "sl", "tp_type");
  for (size_t i = 0; i < URMA_MAX_PRIORITY_CNT; ++i) {
    const auto& info = device.attr.dev_cap.priority_info[i];
    text += urma::format("{:<10}{:<6}{}\n", i, info.SL, urma_tp_type_en_to_string(info.tp_type));
  }
  return text;
}

Json whole_json(const Device& device) {
  Fields fields;
  add_attributes(device, &fields);
  Json json = {{"name", device.name}, {"tp_type", urma_tp_type_to_string(device.handle->type)}};
  Json eids = Json::array();
  Fields identity;
  add_identity(device, &identity);
  json["guid"] = object_of(std::move(identity))["guid"];
  for (const auto& info : device.eids) {
    eids.push_back({{"index", info.eid_index}, {"eid", eid_text(info.eid)}});
  }
  json["eids"] = eids;
  json.update(object_of(std::move(fields)));
  json["ports"] = Json::array();
  for (size_t i = 0; i < port_count(device); ++i) {
    Fields port;
    add_port(device.attr.port_attr[i], &port);
    json["ports"].push_back(object_of(std::move(port)));
  }
  json["priorities"] = Json::array();
  for (size_t i = 0; i < URMA_MAX_PRIORITY_CNT; ++i) {
    const auto& info = device.attr.dev_cap.priority_info[i];
    json["priorities"].push_back(
        {{"priority", i}, {"sl", info.SL}, {"tp_type", urma_tp_type_en_to_string(info.tp_type)}});
  }
  return json;
}

}  // namespace admin
