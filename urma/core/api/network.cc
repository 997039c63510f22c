// SPDX-License-Identifier: MIT
//
// Transport channels, network addresses and EIDs.
#include <arpa/inet.h>

#include <cstdlib>
#include <cstring>

#include "urma/base/ip.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma_api.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

constexpr size_t kMinEidText = 3;
constexpr uint32_t kLockedTpAttr = 1u << 16;  // programs may not set it

// A number of at most 32 bits that fills the whole string.
bool parse_number(const char* text, uint32_t* number) {
  const int before = errno;
  errno = 0;
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 0);
  const bool fits = errno == 0 && end != text && *end == '\0' && value <= UINT32_MAX &&
                    std::strchr(text, '-') == nullptr;
  errno = before;
  *number = static_cast<uint32_t>(value);
  return fits;
}

}  // namespace

// -------------------------------------------------------------------------------------------------
// EIDs
// -------------------------------------------------------------------------------------------------

URMA_EXPORT void urma_u32_to_eid(uint32_t ipv4, urma_eid_t* eid) {
  *eid = urma::mapped({htonl(ipv4)});
}

URMA_EXPORT int urma_str_to_eid(const char* buf, urma_eid_t* eid) {
  return count_entry(__func__, [&](const char* call) -> int {
    if (!given(call, "buf", buf) || !given(call, "eid", eid)) return -EINVAL;
    in6_addr ipv6;
    in_addr ipv4;
    uint32_t number = 0;
    if (std::strlen(buf) >= kMinEidText) {
      if (inet_pton(AF_INET6, buf, &ipv6) == 1) {
        std::memcpy(eid->raw, &ipv6, sizeof eid->raw);
        return 0;
      }
      if (inet_pton(AF_INET, buf, &ipv4) == 1) {
        urma_u32_to_eid(ntohl(ipv4.s_addr), eid);
        return 0;
      }
      if (parse_number(buf, &number)) {
        urma_u32_to_eid(number, eid);
        return 0;
      }
    }
    URMA_LOG_LIMITED(ERR,
                     "{}: '{}' is not an EID; pass an IPv6 or IPv4 address, or a number of at most "
                     "32 bits and at least {} characters",
                     call, buf, kMinEidText);
    return -EINVAL;
  });
}

URMA_EXPORT urma_status_t urma_get_eid_by_ip(const urma_context_t* ctx,
                                             const urma_net_addr_t* net_addr, urma_eid_t* eid) {
  if (!given(__func__, "net_addr", net_addr) || !given(__func__, "eid", eid)) return URMA_EINVAL;
  return status_call<&urma_ops_t::get_eid_by_ip>(__func__, ctx, ctx, net_addr, eid);
}

URMA_EXPORT urma_status_t urma_get_ip_by_eid(const urma_context_t* ctx, const urma_eid_t* eid,
                                             urma_net_addr_t* net_addr) {
  if (!given(__func__, "eid", eid) || !given(__func__, "net_addr", net_addr)) return URMA_EINVAL;
  return status_call<&urma_ops_t::get_ip_by_eid>(__func__, ctx, ctx, eid, net_addr);
}

URMA_EXPORT urma_status_t urma_get_smac(const urma_context_t* ctx, uint8_t* mac) {
  if (!given(__func__, "mac", mac)) return URMA_EINVAL;
  return status_call<&urma_ops_t::get_smac>(__func__, ctx, ctx, mac);
}

URMA_EXPORT urma_status_t urma_get_dmac(const urma_context_t* ctx, const urma_net_addr_t* net_addr,
                                        uint8_t* mac) {
  if (!given(__func__, "net_addr", net_addr) || !given(__func__, "mac", mac)) return URMA_EINVAL;
  return status_call<&urma_ops_t::get_dmac>(__func__, ctx, ctx, net_addr, mac);
}

// -------------------------------------------------------------------------------------------------
// Network addresses
// -------------------------------------------------------------------------------------------------

// No operation lists the addresses of a device, so the list has only that of the context's EID.
URMA_EXPORT urma_net_addr_info_t* urma_get_net_addr_list(urma_context_t* ctx, uint32_t* cnt) {
  return pointer_entry(__func__, [&](const char* call) -> urma_net_addr_info_t* {
    if (!open_gate(call, ctx) || !given(call, "cnt", cnt)) return refused();
    const urma_device_cap_t* caps = caps_of(ctx);
    if (caps == nullptr || caps->max_netaddr_cnt == 0) {
      URMA_LOG_LIMITED(ERR,
                       "urma_get_net_addr_list: max_netaddr_cnt of device {} is 0; it has no "
                       "network addresses",
                       ctx->dev->name);
      return refused();
    }
    auto* op = slot<&urma_ops_t::get_ip_by_eid>(call, ctx);
    if (op == nullptr) return refused();
    auto* list = static_cast<urma_net_addr_info_t*>(std::calloc(1, sizeof(urma_net_addr_info_t)));
    if (list == nullptr) return refused(ENOMEM);
    Rollback undo([list] { std::free(list); });
    if (op(ctx, &ctx->eid, &list->netaddr) != URMA_SUCCESS) return nullptr;
    list->index = ctx->eid_index;
    undo.dismiss();
    *cnt = 1;
    return list;
  });
}

URMA_EXPORT void urma_free_net_addr_list(urma_net_addr_info_t* net_addr_list) {
  std::free(net_addr_list);
}

// -------------------------------------------------------------------------------------------------
// Transport channels
// -------------------------------------------------------------------------------------------------

URMA_EXPORT int urma_get_tpn(urma_jetty_t* jetty) {
  return count_call<&urma_ops_t::get_tpn>(__func__, jetty, jetty);
}

URMA_EXPORT int urma_modify_tp(urma_context_t* ctx, uint32_t tpn, urma_tp_cfg_t* cfg,
                               urma_tp_attr_t* attr, urma_tp_attr_mask_t mask) {
  if (!given(__func__, "cfg", cfg) || !given(__func__, "attr", attr)) return URMA_EINVAL;
  return status_call<&urma_ops_t::modify_tp>(__func__, ctx, ctx, tpn, cfg, attr, mask);
}

URMA_EXPORT urma_status_t urma_get_tp_list(urma_context_t* ctx, urma_get_tp_cfg_t* cfg,
                                           uint32_t* tp_cnt, urma_tp_info_t* tp_list) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!given(call, "cfg", cfg) || !given(call, "tp_cnt", tp_cnt) ||
        !given(call, "tp_list", tp_list) || !check_mode(call, cfg->trans_mode)) {
      return URMA_EINVAL;
    }
    if (*tp_cnt == 0) {
      URMA_LOG_LIMITED(ERR, "{}: *tp_cnt is 0; pass the room in tp_list", call);
      return URMA_EINVAL;
    }
    return status_call<&urma_ops_t::get_tp_list>(call, ctx, ctx, cfg, tp_cnt, tp_list);
  });
}

URMA_EXPORT urma_status_t urma_set_tp_attr(const urma_context_t* ctx, const uint64_t tp_handle,
                                           const uint8_t tp_attr_cnt, const uint32_t tp_attr_bitmap,
                                           const urma_tp_attr_value_t* tp_attr) {
  if (!given(__func__, "tp_attr", tp_attr)) return URMA_EINVAL;
  return status_call<&urma_ops_t::set_tp_attr>(__func__, ctx, ctx, tp_handle, tp_attr_cnt,
                                               tp_attr_bitmap & ~kLockedTpAttr, tp_attr);
}

URMA_EXPORT urma_status_t urma_get_tp_attr(const urma_context_t* ctx, const uint64_t tp_handle,
                                           uint8_t* tp_attr_cnt, uint32_t* tp_attr_bitmap,
                                           urma_tp_attr_value_t* tp_attr) {
  if (!given(__func__, "tp_attr_cnt", tp_attr_cnt) ||
      !given(__func__, "tp_attr_bitmap", tp_attr_bitmap) || !given(__func__, "tp_attr", tp_attr)) {
    return URMA_EINVAL;
  }
  return status_call<&urma_ops_t::get_tp_attr>(__func__, ctx, ctx, tp_handle, tp_attr_cnt,
                                               tp_attr_bitmap, tp_attr);
}
