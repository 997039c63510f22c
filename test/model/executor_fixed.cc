// SPDX-License-Identifier: MIT
//
// The calls whose result depends on little except their arguments: Call::number selects the case.
#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "test/model/executor.h"

namespace urma_model {
namespace {

constexpr char kDevice[] = "urma_shm0";
// Created by URMA_DEVICE_ALIAS, which the tests set.
constexpr char kAggregated[] = "bonding_dev_0";

void drop_line(int, char*) {}
void drop_line_with_place(int, const char*, const char*, int, char*) {}

urma_device_t* find(const char* name) {
  std::string copy = name;
  return urma_get_device_by_name(copy.data());
}

}  // namespace

bool Executor::run_fixed(const Call& c, Result* r) {
  switch (c.fn) {
    case Fn::urma_init:
      return status(urma_init(nullptr), r);
    case Fn::urma_uninit:
      return status(urma_uninit(), r);
    case Fn::urma_get_device_list: {
      int count = 0;
      urma_device_t** list = urma_get_device_list(unless_null(c, kFirstNull, &count));
      r->out = static_cast<uint64_t>(count);
      urma_free_device_list(list);
      return status(list != nullptr ? 1 : 0, r);
    }
    case Fn::urma_free_device_list:
      urma_free_device_list(nullptr);
      return true;
    case Fn::urma_get_eid_list: {
      uint32_t count = 0;
      urma_eid_info_t* list = urma_get_eid_list(c.number == 1 ? nullptr : find(kDevice),
                                                unless_null(c, kFirstNull, &count));
      r->out = count;
      urma_free_eid_list(list);
      return status(list != nullptr ? 1 : 0, r);
    }
    case Fn::urma_free_eid_list:
      urma_free_eid_list(nullptr);
      return true;
    case Fn::urma_get_device_by_name: {
      std::string name = c.number == 1   ? "no_such_device"
                         : c.number == 2 ? std::string(URMA_MAX_DEV_NAME, 'x')
                                         : kDevice;
      return status(
          urma_get_device_by_name(unless_null(c, kFirstNull, name.data())) != nullptr ? 1 : 0, r);
    }
    case Fn::urma_get_device_by_eid: {
      urma_eid_t eid = {};
      if (const auto* ctx = at<urma_context_t>(c.on); ctx != nullptr) eid = ctx->eid;
      const auto type = c.number == 1 ? URMA_TRANSPORT_IB : URMA_TRANSPORT_UB;
      return status(urma_get_device_by_eid(eid, type) != nullptr ? 1 : 0, r);
    }
    case Fn::urma_query_device: {
      urma_device_attr_t attr = {};
      r->value = urma_query_device(c.number == 1 ? nullptr : find(kDevice),
                                   unless_null(c, kFirstNull, &attr));
      r->out = attr.dev_cap.max_jfs_sge;
      r->error = errno;
      return true;
    }
    case Fn::urma_create_context: {
      urma_device_t* device = c.number == 1 ? nullptr : find(c.value != 0 ? kAggregated : kDevice);
      urma_context_t* ctx = urma_create_context(device, c.number == 2 ? 9999 : 0);
      made(c, ctx, r);
      if (ctx == nullptr) return true;
      contexts_.insert(c.made);
      ::fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK);
      r->uasid = ctx->uasid;
      return true;
    }
    case Fn::urma_delete_context:
      return ended(c, urma_delete_context(at<urma_context_t>(c.on)), r);
    case Fn::urma_set_context_opt: {
      const urma_context_aggr_mode_t mode = URMA_AGGR_MODE_BALANCE;
      urma_opt_name_t option = URMA_OPT_AGGR_MODE;
      if (c.number == 1) std::memset(&option, 0x11, sizeof option);
      return status(
          urma_set_context_opt(at<urma_context_t>(c.on), option, unless_null(c, kFirstNull, &mode),
                               c.number == 2 ? 1 : sizeof mode),
          r);
    }
    case Fn::urma_user_ctl: {
      urma_user_ctl_in_t in = {};
      urma_user_ctl_out_t out = {};
      in.opcode = static_cast<uint32_t>(c.value);
      return status(urma_user_ctl(at<urma_context_t>(c.on), unless_null(c, kFirstNull, &in),
                                  unless_null(c, kSecondNull, &out)),
                    r);
    }
    case Fn::urma_get_uasid: {
      uint32_t uasid = 0;
      r->value = urma_get_uasid(unless_null(c, kFirstNull, &uasid));
      r->out = uasid;
      return true;
    }
    case Fn::urma_register_log_func:
      return status(urma_register_log_func((c.nulls & kFirstNull) != 0 ? nullptr : drop_line), r);
    case Fn::urma_register_loc_log_func:
      return status(
          urma_register_loc_log_func((c.nulls & kFirstNull) != 0 ? nullptr : drop_line_with_place),
          r);
    case Fn::urma_unregister_log_func:
      r->value = urma_unregister_log_func();
      urma_register_log_func(drop_line);
      return true;
    case Fn::urma_log_get_level:
      return status(urma_log_get_level(), r);
    case Fn::urma_log_set_level: {
      urma_vlog_level_t level;
      const auto bits = static_cast<uint32_t>(c.number);
      std::memcpy(&level, &bits, sizeof level);
      urma_log_set_level(level);
      return true;
    }
    case Fn::urma_log_get_thread_tag:
      return status(static_cast<int64_t>(std::strlen(urma_log_get_thread_tag())), r);
    case Fn::urma_log_set_thread_tag: {
      const std::string tag(static_cast<size_t>(c.number), 't');
      urma_log_set_thread_tag(unless_null(c, kFirstNull, tag.c_str()));
      return true;
    }
    default:
      return false;
  }
}

bool Executor::run_network(const Call& c, Result* r) {
  auto* ctx = at<urma_context_t>(c.on);
  urma_eid_t eid = {};
  if (ctx != nullptr) eid = ctx->eid;
  urma_net_addr_t address = {};
  address.sin_family = AF_INET6;
  std::memcpy(&address.in6, eid.raw, sizeof address.in6);
  std::array<uint8_t, URMA_MAC_BYTES> mac = {};
  urma_tp_attr_value_t attr = {};
  uint32_t count = c.number == 1 ? 0 : 2, bitmap = 0;
  uint8_t members = 0;
  std::array<urma_tp_info_t, 2> channels = {};
  urma_get_tp_cfg_t filter = {};
  filter.flag.bs.rtp = 1;
  std::memcpy(&filter.trans_mode, &c.config.mode, sizeof filter.trans_mode);
  filter.local_eid = filter.peer_eid = eid;
  const auto find_channel = [&] {
    uint32_t room = 2;
    filter.trans_mode = URMA_TM_RM;
    urma_get_tp_list(ctx, &filter, &room, channels.data());
    return c.number == 1 ? ~uint64_t{0} : channels[0].tp_handle;
  };
  switch (c.fn) {
    case Fn::urma_get_net_addr_list: {
      urma_net_addr_info_t* list = urma_get_net_addr_list(ctx, unless_null(c, kFirstNull, &count));
      r->out = count;
      urma_free_net_addr_list(list);
      return status(list != nullptr ? 1 : 0, r);
    }
    case Fn::urma_free_net_addr_list:
      urma_free_net_addr_list(nullptr);
      return true;
    case Fn::urma_modify_tp: {
      urma_tp_cfg_t cfg = {};
      urma_tp_attr_t changes = {};
      const uint32_t number = c.other == kNull ? ~0u : at<urma_target_jetty_t>(c.other)->tp.tpn;
      return status(urma_modify_tp(ctx, number, unless_null(c, kFirstNull, &cfg),
                                   unless_null(c, kSecondNull, &changes), {}),
                    r);
    }
    case Fn::urma_get_tp_list:
      r->value = urma_get_tp_list(ctx, unless_null(c, kFirstNull, &filter),
                                  unless_null(c, kSecondNull, &count),
                                  unless_null(c, kThirdNull, channels.data()));
      r->out = count;
      return true;
    case Fn::urma_set_tp_attr:
      return status(urma_set_tp_attr(ctx, find_channel(), 1, 1, unless_null(c, kFirstNull, &attr)),
                    r);
    case Fn::urma_get_tp_attr:
      return status(
          urma_get_tp_attr(ctx, find_channel(), unless_null(c, kFirstNull, &members),
                           unless_null(c, kSecondNull, &bitmap), unless_null(c, kThirdNull, &attr)),
          r);
    case Fn::urma_get_eid_by_ip: {
      urma_eid_t found = {};
      r->value = urma_get_eid_by_ip(ctx, unless_null(c, kFirstNull, &address),
                                    unless_null(c, kSecondNull, &found));
      r->out = std::memcmp(&found, &eid, sizeof eid) == 0 ? 1 : 0;
      return true;
    }
    case Fn::urma_get_ip_by_eid:
      return status(urma_get_ip_by_eid(ctx, unless_null(c, kFirstNull, &eid),
                                       unless_null(c, kSecondNull, &address)),
                    r);
    case Fn::urma_get_smac:
      return status(urma_get_smac(ctx, unless_null(c, kFirstNull, mac.data())), r);
    case Fn::urma_get_dmac:
      return status(urma_get_dmac(ctx, unless_null(c, kFirstNull, &address),
                                  unless_null(c, kSecondNull, mac.data())),
                    r);
    case Fn::urma_create_jetty_grp: {
      urma_jetty_grp_cfg_t cfg = {};
      std::memset(cfg.name, 'g', c.number == 1 ? sizeof cfg.name : 5);
      cfg.flag.bs.token_policy = c.config.policy & 7;
      cfg.token_value.token = c.config.token;
      cfg.policy = URMA_JETTY_GRP_POLICY_HASH_HINT;
      urma_jetty_grp_t* group = urma_create_jetty_grp(ctx, unless_null(c, kFirstNull, &cfg));
      if (group != nullptr) r->id = group->jetty_grp_id.id;
      return made(c, group, r);
    }
    case Fn::urma_delete_jetty_grp:
      return ended(c, urma_delete_jetty_grp(at<urma_jetty_grp_t>(c.on)), r);
    default:
      return false;
  }
}

}  // namespace urma_model
