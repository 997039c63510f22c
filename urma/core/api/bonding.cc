// SPDX-License-Identifier: MIT
#include "urma/core/api/bonding.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "urma/base/bits.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/descriptors.h"
#include "urma/core/process/core.h"
#include "urma_ubagg.h"

namespace urma::core {
namespace {

constexpr char kAggregatedOps[] = "BOND_OPS";

int user_ctl(urma_context_t* ctx, urma_user_ctl_in_t* in, urma_user_ctl_out_t* out) noexcept;

struct Aggregate {
  urma_ops_t ops;  // what ctx->ops points to
  urma_ops_t* provider_ops;
  ObjectPorts ports;
};

Aggregate* aggregate_of(urma_ops_t* ops) {
  if (ops == nullptr || ops->user_ctl != user_ctl) return nullptr;
  return reinterpret_cast<Aggregate*>(ops);
}

int refuse(const urma_user_ctl_in_t& in, const char* why) {
  URMA_LOG_LIMITED(ERR, "urma_user_ctl: command {} with {} bytes at {:#x} is refused: {}",
                   in.opcode, in.len, in.addr, why);
  return -EINVAL;
}

// Nothing if the buffer is missing or has another size.
template <typename Input>
std::optional<Input> input_of(const urma_user_ctl_in_t& in) {
  if (in.addr == 0 || in.len != sizeof(Input)) return std::nullopt;
  Input input;
  std::memcpy(&input, reinterpret_cast<const void*>(in.addr), sizeof input);
  return input;
}

template <typename Output>
int answer(const urma_user_ctl_in_t& in, urma_user_ctl_out_t* out, const Output& output) {
  if (out->addr == 0 || out->len < sizeof output) {
    return refuse(in, "the output buffer is missing or too small");
  }
  std::memcpy(reinterpret_cast<void*>(out->addr), &output, sizeof output);
  out->len = sizeof output;
  return 0;
}

// The same for output that UMDK's provider returns as a pointer to memory that the program frees; a
// buffer with enough room gets the output itself.
template <typename Output>
int hand_over(const urma_user_ctl_in_t& in, urma_user_ctl_out_t* out, const Output& output) {
  if (out->addr == 0 || out->len != sizeof(void*)) return answer(in, out, output);
  void* copy = std::malloc(sizeof output);
  if (copy == nullptr) return refuse(in, "there is no memory for its answer");
  std::memcpy(copy, &output, sizeof output);
  std::memcpy(reinterpret_cast<void*>(out->addr), &copy, sizeof copy);
  return 0;
}

// Settings of the whole context must come before its objects.
int set(const urma_context_t& ctx, const urma_user_ctl_in_t& in, bool possible) {
  if (refs(ctx.ref) > 1) {
    refuse(in, "the context has objects already; set it before anything is created");
    return EAGAIN;
  }
  return possible ? 0 : refuse(in, "its input is not one of urma_ubagg.h");
}

int set_mode(const urma_context_t& ctx, const urma_user_ctl_in_t& in) {
  const auto wanted = input_of<bondp_set_bonding_mode_in_t>(in);
  return set(ctx, in,
             wanted.has_value() && bits_of(wanted->bonding_mode) < BONDP_BONDING_MODE_MAX &&
                 bits_of(wanted->bonding_level) < BONDP_BONDING_LEVEL_MAX);
}

int set_mode_legacy(const urma_context_t& ctx, const urma_user_ctl_in_t& in) {
  const auto wanted = input_of<urma_context_aggr_mode_t>(in);
  return set(ctx, in, wanted.has_value() && bits_of(*wanted) < BONDP_BONDING_MODE_MAX);
}

int query_port(const urma_context_t& ctx, const urma_user_ctl_in_t& in, urma_user_ctl_out_t* out) {
  const auto asked = input_of<bondp_query_port_in_t>(in);
  if (!asked.has_value() || asked->jfr == nullptr) return refuse(in, "no queue is named");
  const urma_device_attr_t* attr = attr_of(ctx.dev);
  if (attr == nullptr || attr->port_cnt == 0) return refuse(in, "the device has no ports");
  bondp_query_port_out_t ports = {};
  const uint32_t real = std::min<uint32_t>(attr->port_cnt, MAX_PORT_CNT);
  const uint32_t count = std::max(real, object_ports(&ctx)->of(asked->jfr));
  for (uint32_t port = 0; port < count; ++port) {
    ports.enabled_indices[ports.enabled_count++] = port;
    if (attr->port_attr[port % real].state != URMA_PORT_ACTIVE) continue;
    ports.active_indices[ports.active_count++] = port;
  }
  return answer(in, out, ports);
}

int list_descriptors(const urma_user_ctl_in_t& in, urma_user_ctl_out_t* out) {
  const auto asked = input_of<bondp_get_jfce_fd_list_in_t>(in);
  if (!asked.has_value() || asked->jfce == nullptr) return refuse(in, "no event channel is named");
  bondp_get_jfce_fd_list_out_t list = {};
  std::fill(std::begin(list.fd_list), std::end(list.fd_list), -1);
  list.fd_list[list.count++] = asked->jfce->fd;
  return answer(in, out, list);
}

// The input is an object of the program itself.
template <typename Object>
const Object* object_of(const urma_user_ctl_in_t& in) {
  return in.len == sizeof(Object) ? reinterpret_cast<const Object*>(in.addr) : nullptr;
}

int describe_jetty(const urma_user_ctl_in_t& in, urma_user_ctl_out_t* out) {
  const auto* jetty = object_of<urma_jetty_t>(in);
  if (jetty == nullptr || jetty->jetty_cfg.flag.bs.share_jfr != URMA_SHARE_JFR ||
      jetty->jetty_cfg.shared.jfr == nullptr) {
    return refuse(in, "its input is not a jetty with a shared JFR");
  }
  return hand_over(in, out, describe(*jetty));
}

int describe_segment(const urma_user_ctl_in_t& in, urma_user_ctl_out_t* out) {
  const auto* segment = object_of<urma_target_seg_t>(in);
  return segment == nullptr ? refuse(in, "its input is not a segment")
                            : hand_over(in, out, segment->seg);
}

int execute(urma_context_t* ctx, urma_user_ctl_in_t* in, urma_user_ctl_out_t* out) {
  switch (in->opcode) {
    case BONDP_USER_CTL_SET_BONDING_MODE_LEGACY:
      return set_mode_legacy(*ctx, *in);
    case BONDP_USER_CTL_ENABLE_SEG_CACHE:
    case BONDP_USER_CTL_DISABLE_MSN:
      return set(*ctx, *in, in->len == 0);
    case BONDP_USER_CTL_QUERY_PORT:
      return query_port(*ctx, *in, out);
    case BONDP_USER_CTL_SET_BONDING_MODE:
      return set_mode(*ctx, *in);
    case BONDP_USER_CTL_GET_JFCE_FD_LIST:
      return list_descriptors(*in, out);
    case BONDP_USER_CTL_OPCODE_GET_RJETTY:
      return describe_jetty(*in, out);
    case BONDP_USER_CTL_OPCODE_GET_SEG_CTX:
      return describe_segment(*in, out);
    default:
      break;
  }
  auto* own = aggregate_of(ctx->ops)->provider_ops->user_ctl;
  if (own != nullptr) return own(ctx, in, out);
  URMA_LOG_LIMITED(ERR, "urma_user_ctl: command {} is unknown; see bondp_user_ctl_opcode_t",
                   in->opcode);
  return -EINVAL;
}

int user_ctl(urma_context_t* ctx, urma_user_ctl_in_t* in, urma_user_ctl_out_t* out) noexcept {
  return guarded_count(URMA_LOG_SITE, [=] { return execute(ctx, in, out); });
}

}  // namespace

void aggregate(urma_context_t* ctx) {
  auto* made = new Aggregate{*ctx->ops, ctx->ops, {}};
  made->ops.name = kAggregatedOps;
  made->ops.user_ctl = user_ctl;
  ctx->ops = &made->ops;
}

ObjectPorts* object_ports(const urma_context_t* ctx) {
  Aggregate* made = aggregate_of(ctx->ops);
  return made == nullptr ? nullptr : &made->ports;
}

ProviderView::ProviderView(urma_context_t* ctx, urma_device_t* real_device)
    : ctx_(ctx), device_(ctx->dev), ops_(ctx->ops) {
  ctx->dev = real_device;
  if (const Aggregate* made = aggregate_of(ops_)) ctx->ops = made->provider_ops;
}

ProviderView::~ProviderView() {
  if (ctx_ == nullptr) return;
  ctx_->dev = device_;
  ctx_->ops = ops_;
}

void ProviderView::context_gone() {
  ctx_ = nullptr;
  delete aggregate_of(ops_);
}

}  // namespace urma::core
