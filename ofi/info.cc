/* SPDX-License-Identifier: MIT */

#include "ofi/info.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ofi/atomics.h"
#include "ofi/log.h"
#include "ofi/rdm_buffers.h"
#include "ofi/rdm_match.h"
#include "ofi/settings.h"

namespace urma_fi {
namespace {

constexpr uint64_t kTxCaps = FI_MSG | FI_SEND | FI_RMA | FI_READ | FI_WRITE;
constexpr uint64_t kRxCaps = FI_MSG | FI_RECV | FI_RMA | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr uint64_t kRdmTxCaps = FI_MSG | FI_TAGGED | FI_SEND;
constexpr uint64_t kRdmRxCaps = FI_MSG | FI_TAGGED | FI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
constexpr uint64_t kDomainCaps = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kTxOpFlags =
    FI_INJECT | FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
// A message waits for its receive; later one-sided requests wait for neither.
constexpr uint64_t kOrder = FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW | FI_ORDER_RMA_WAW;
// Values that older programs pass. libfabric 2 warns wherever its names for them are used.
constexpr uint64_t kOrderStrict = 0x1FF, kOrderData = 1ULL << 16, kLocalMr = 1ULL << 55;
constexpr int kMrUnspecified = 0, kMrBasic = 1 << 0, kMrScalable = 1 << 1;
constexpr uint64_t kCompletionOrder = kOrderStrict | kOrderData;
constexpr uint64_t kTagFormat = 0xaaaaaaaaaaaaaaaa;  // any use of all 64 bits
constexpr uint64_t kRdmOrder = FI_ORDER_SAS;
constexpr uint32_t kProtocol = 1U << 31 | 0x75726d61;  // a provider's own: "urma"
constexpr size_t kMaxDepth = 8192;
// libfabric's OFI_CORE_PROV_ONLY: one of its layers asks what it can build on.
constexpr uint64_t kForLayer = 1ULL << 59;

char* copy(const std::string& text) { return strdup(text.c_str()); }

// The source or destination that node and service name.
struct Wish {
  bool has_address = false;
  Address address;
};

bool read_wish(const char* node, const char* service, uint32_t format, Wish* wish) {
  if (node != nullptr) {
    const bool understood = format == FI_ADDR_STR
                                ? decode(format, node, std::strlen(node) + 1, &wish->address)
                                : parse(node, &wish->address);
    if (!understood) return false;
    wish->has_address = true;
  }
  return service == nullptr || parse_service(service, &wish->address.id);
}

bool has_eid(const Found& found, const urma_eid_t& eid) {
  return std::any_of(found.eids.begin(), found.eids.end(),
                     [&](const urma_eid_info_t& info) { return same_eid(info.eid, eid); });
}

// A depth smaller than wished makes the hints fail.
size_t depth_of(size_t wished, size_t otherwise, uint32_t most) {
  return std::min<size_t>({wished != 0 ? wished : otherwise, most, kMaxDepth});
}

// Depths of queues and pieces of a request.
void set_sizes(const urma_device_cap_t& cap, const fi_info* hints, size_t most_pieces,
               fi_info* info) {
  const fi_tx_attr* tx = hints != nullptr ? hints->tx_attr : nullptr;
  const fi_rx_attr* rx = hints != nullptr ? hints->rx_attr : nullptr;
  info->tx_attr->size =
      depth_of(tx != nullptr ? tx->size : 0, default_send_depth(), cap.max_jfs_depth);
  info->tx_attr->iov_limit = std::min<size_t>(cap.max_jfs_sge, most_pieces);
  info->rx_attr->size =
      depth_of(rx != nullptr ? rx->size : 0, default_receive_depth(), cap.max_jfr_depth);
  info->rx_attr->iov_limit = std::min<size_t>(cap.max_jfr_sge, most_pieces);
}

void describe_queues(const urma_device_cap_t& cap, const fi_info* hints, fi_info* info) {
  fi_tx_attr& tx = *info->tx_attr;
  const uint64_t atomic = has_atomics(cap) ? FI_ATOMIC : 0;
  tx.caps = kTxCaps | atomic;
  tx.msg_order = kOrder;
  tx.comp_order = kCompletionOrder;
  tx.inject_size = cap.max_jfs_inline_len;
  tx.rma_iov_limit = 1;
  fi_rx_attr& rx = *info->rx_attr;
  rx.caps = kRxCaps | atomic;
  rx.mode = FI_RX_CQ_DATA;
  rx.msg_order = kOrder;
  rx.comp_order = kCompletionOrder;
  set_sizes(cap, hints, kMaxPieces, info);
}

void describe_rdm_queues(const urma_device_cap_t& cap, const fi_info* hints, fi_info* info) {
  fi_tx_attr& tx = *info->tx_attr;
  tx.caps = kRdmTxCaps;
  tx.msg_order = kRdmOrder;
  tx.inject_size = kEagerSize;
  fi_rx_attr& rx = *info->rx_attr;
  rx.caps = kRdmRxCaps;
  rx.msg_order = kRdmOrder;
  set_sizes(cap, hints, kRdmPieces, info);
}

void describe_rdm_endpoint(const urma_device_cap_t& cap, fi_info* info) {
  fi_ep_attr& ep = *info->ep_attr;
  ep.type = FI_EP_RDM;
  ep.protocol = kProtocol;
  ep.protocol_version = 1;
  ep.max_msg_size = cap.max_msg_size;
  ep.mem_tag_format = kTagFormat;
  ep.tx_ctx_cnt = 1;
  ep.rx_ctx_cnt = 1;
}

void describe_endpoint(const urma_device_cap_t& cap, fi_info* info) {
  fi_ep_attr& ep = *info->ep_attr;
  ep.type = FI_EP_MSG;
  ep.protocol = kProtocol;
  ep.protocol_version = 1;
  ep.max_msg_size = std::min<uint64_t>({cap.max_msg_size, cap.max_read_size, cap.max_write_size});
  ep.max_order_waw_size = ep.max_msg_size;
  ep.tx_ctx_cnt = 1;
  ep.rx_ctx_cnt = 1;
}

void describe_domain(const Found& found, fi_info* info) {
  const urma_device_cap_t& cap = found.attr.dev_cap;
  fi_domain_attr& domain = *info->domain_attr;
  domain.name = copy(found.name);
  domain.threading = FI_THREAD_SAFE;
  domain.control_progress = FI_PROGRESS_MANUAL;
  domain.data_progress = FI_PROGRESS_AUTO;
  domain.resource_mgmt = FI_RM_ENABLED;
  domain.av_type = FI_AV_UNSPEC;
  domain.mr_mode = kMrMode;
  domain.mr_key_size = sizeof(uint64_t);
  domain.cq_data_size = sizeof(uint64_t);
  domain.cq_cnt = cap.max_jfc;
  domain.ep_cnt = cap.max_jetty;
  domain.tx_ctx_cnt = cap.max_jetty;
  domain.rx_ctx_cnt = cap.max_jetty;
  domain.max_ep_tx_ctx = 1;
  domain.max_ep_rx_ctx = 1;
  domain.cntr_cnt = cap.max_jfc;
  domain.mr_iov_limit = 1;
  domain.caps = kDomainCaps;
  domain.max_err_data = 0;
  domain.mr_cnt = UINT16_MAX;
}

fi_info* describe(const Found& found, fi_ep_type type, uint32_t format, const Address& source,
                  const fi_info* hints) {
  fi_info* info = fi_allocinfo();
  if (info == nullptr) return nullptr;
  const urma_device_cap_t& cap = found.attr.dev_cap;
  info->addr_format = format;
  describe_domain(found, info);
  if (type == FI_EP_RDM) {
    describe_rdm_queues(cap, hints, info);
    describe_rdm_endpoint(cap, info);
    info->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    info->domain_attr->mr_mode = 0;
  } else {
    describe_queues(cap, hints, info);
    describe_endpoint(cap, info);
    info->mode = FI_RX_CQ_DATA;
  }
  info->caps = info->tx_attr->caps | info->rx_attr->caps | kDomainCaps;
  info->fabric_attr->name = copy(found.name);
  info->fabric_attr->prov_version = provider.version;
  set_address(&info->src_addr, &info->src_addrlen, format, source);
  return info;
}

bool is_rdm(const fi_info* info) { return info->ep_attr->type == FI_EP_RDM; }

bool allows_memory(uint32_t version, const fi_info* hints, const fi_info* info) {
  if (hints->domain_attr == nullptr || is_rdm(info)) return true;
  const int mode = hints->domain_attr->mr_mode;
  // Before version 1.5 the mode was one of two words, and local registration a mode bit.
  if (mode == kMrBasic || (mode == kMrUnspecified && FI_VERSION_LT(version, FI_VERSION(1, 5))))
    return (hints->mode & kLocalMr) != 0;
  return (mode & kMrMode) == kMrMode;
}

bool allows_queues(const fi_info* hints, const fi_info* info) {
  if (const fi_tx_attr* tx = hints->tx_attr) {
    if ((tx->caps & ~info->tx_attr->caps & ~kDomainCaps) != 0 ||
        (tx->msg_order & ~info->tx_attr->msg_order) != 0 ||
        (tx->comp_order & ~info->tx_attr->comp_order) != 0 || (tx->op_flags & ~kTxOpFlags) != 0 ||
        tx->inject_size > info->tx_attr->inject_size || tx->iov_limit > info->tx_attr->iov_limit ||
        tx->rma_iov_limit > info->tx_attr->rma_iov_limit || tx->size > info->tx_attr->size) {
      return false;
    }
  }
  const fi_rx_attr* rx = hints->rx_attr;
  return rx == nullptr ||
         ((rx->caps & ~info->rx_attr->caps & ~kDomainCaps) == 0 &&
          (rx->msg_order & ~info->rx_attr->msg_order) == 0 &&
          (rx->comp_order & ~info->rx_attr->comp_order) == 0 &&
          (rx->op_flags & ~FI_COMPLETION) == 0 && rx->iov_limit <= info->rx_attr->iov_limit &&
          rx->size <= info->rx_attr->size && rx->total_buffered_recv == 0);
}

bool allows_endpoint(const fi_ep_attr* ep, const fi_info* info) {
  if (ep == nullptr) return true;
  const auto one_context = [](size_t count) { return count <= 1; };
  return (ep->type == FI_EP_UNSPEC || ep->type == info->ep_attr->type) &&
         (ep->protocol == FI_PROTO_UNSPEC || ep->protocol == kProtocol) &&
         ep->max_msg_size <= info->ep_attr->max_msg_size && ep->msg_prefix_size == 0 &&
         ep->max_order_raw_size == 0 && ep->max_order_war_size == 0 &&
         ep->max_order_waw_size <= info->ep_attr->max_order_waw_size &&
         one_context(ep->tx_ctx_cnt) && one_context(ep->rx_ctx_cnt) && ep->auth_key_size == 0;
}

bool allows_domain(const fi_domain_attr* domain, const fi_info* info) {
  if (domain == nullptr) return true;
  return (domain->name == nullptr || std::strcmp(domain->name, info->domain_attr->name) == 0) &&
         domain->control_progress != FI_PROGRESS_AUTO &&
         (domain->data_progress != FI_PROGRESS_AUTO || !is_rdm(info)) &&
         domain->mr_key_size <= sizeof(uint64_t) && domain->cq_data_size <= sizeof(uint64_t) &&
         (domain->caps & ~kDomainCaps) == 0 && domain->auth_key_size == 0;
}

bool has_cq_data(const fi_info* hints) { return (hints->mode & FI_RX_CQ_DATA) != 0; }

bool allows(uint32_t version, const fi_info* hints, const fi_info* info) {
  if (hints == nullptr) return true;
  if ((hints->caps & ~info->caps) != 0) return false;
  const fi_fabric_attr* fabric = hints->fabric_attr;
  if (fabric != nullptr && fabric->name != nullptr &&
      std::strcmp(fabric->name, info->fabric_attr->name) != 0) {
    return false;
  }
  // Data with writes consume a receive; callers that forbid that get no such data.
  if (hints->domain_attr != nullptr && hints->domain_attr->cq_data_size > 0 &&
      !has_cq_data(hints) && !is_rdm(info)) {
    return false;
  }
  return allows_memory(version, hints, info) && allows_queues(hints, info) &&
         allows_endpoint(hints->ep_attr, info) && allows_domain(hints->domain_attr, info);
}

// What callers of a connected endpoint get less of.
void narrow_connected(uint32_t version, const fi_info* hints, fi_info* info) {
  const bool old = FI_VERSION_LT(version, FI_VERSION(1, 5));
  if (old) info->domain_attr->mr_mode = kMrBasic;
  if (old) info->mode |= kLocalMr;
  if (hints == nullptr) return;
  if (!has_cq_data(hints)) {
    info->mode &= ~FI_RX_CQ_DATA;
    info->rx_attr->mode &= ~FI_RX_CQ_DATA;
    info->domain_attr->cq_data_size = 0;
  }
  if (hints->domain_attr != nullptr && hints->domain_attr->mr_mode == kMrBasic) {
    info->domain_attr->mr_mode = kMrBasic;
    info->mode |= kLocalMr;
  }
}

// The same for endpoints for datagrams, which need no registered memory.
void narrow_rdm(uint32_t version, const fi_info* hints, fi_info* info) {
  const int mode = hints == nullptr || hints->domain_attr == nullptr ? kMrUnspecified
                                                                     : hints->domain_attr->mr_mode;
  if (mode == kMrBasic || mode == kMrScalable) info->domain_attr->mr_mode = mode;
  if (mode == kMrUnspecified && FI_VERSION_LT(version, FI_VERSION(1, 5)))
    info->domain_attr->mr_mode = kMrScalable;
  if (hints != nullptr && hints->domain_attr != nullptr &&
      hints->domain_attr->threading == FI_THREAD_DOMAIN) {
    info->domain_attr->threading = FI_THREAD_DOMAIN;
  }
}

// The caller may have asked for less than there is.
void narrow(uint32_t version, const fi_info* hints, fi_info* info) {
  is_rdm(info) ? narrow_rdm(version, hints, info) : narrow_connected(version, hints, info);
  // Programs that have not asked for it pass any source to their receives.
  if (hints == nullptr || hints->caps == 0) info->caps &= ~FI_DIRECTED_RECV;
  if (hints == nullptr) return;
  if (hints->caps != 0) info->caps = hints->caps | kDomainCaps;
  if (hints->tx_attr != nullptr) info->tx_attr->op_flags = hints->tx_attr->op_flags;
  if (hints->rx_attr != nullptr) info->rx_attr->op_flags = hints->rx_attr->op_flags;
  info->handle = hints->handle;
}

}  // namespace

void set_address(void** place, size_t* size, uint32_t format, const Address& address) {
  const std::vector<char> bytes = encode(format, address);
  std::free(*place);
  *place = std::malloc(bytes.size());
  *size = *place == nullptr ? 0 : bytes.size();
  if (*place != nullptr) std::memcpy(*place, bytes.data(), bytes.size());
}

int open_device(const fi_info* info, std::shared_ptr<Device>* device, Address* address) {
  if (info == nullptr || info->domain_attr == nullptr || info->domain_attr->name == nullptr)
    return -FI_EINVAL;
  Address source;
  const bool has_source = info->src_addr != nullptr;
  if (has_source && !decode(info->addr_format, info->src_addr, info->src_addrlen, &source)) {
    URMA_FI_WARN(FI_LOG_EP_CTRL, "source address is not a URMA address\n");
    return -FI_EINVAL;
  }
  int error = 0;
  *device = Device::open(info->domain_attr->name, has_source ? &source.eid : nullptr, &error);
  if (*device == nullptr) return error;
  address->eid = (*device)->eid();
  address->id = source.id;
  return 0;
}

int get_info(uint32_t version, const char* node, const char* service, uint64_t flags,
             const fi_info* hints, fi_info** info) {
  *info = nullptr;
  uint32_t format = hints != nullptr ? hints->addr_format : 0;
  if (format == FI_FORMAT_UNSPEC) format = FI_SOCKADDR_IN6;
  Wish wish;
  if (!is_format(format) || !read_wish(node, service, format, &wish)) return -FI_ENODATA;
  const bool at_source = (flags & FI_SOURCE) != 0;
  Address from_hints;
  const bool has_source = hints != nullptr && hints->src_addr != nullptr;
  if (has_source && !decode(format, hints->src_addr, hints->src_addrlen, &from_hints))
    return -FI_ENODATA;
  Address target;
  const bool has_target = hints != nullptr && hints->dest_addr != nullptr;
  if (has_target && !decode(format, hints->dest_addr, hints->dest_addrlen, &target))
    return -FI_ENODATA;
  if (wish.has_address && !at_source) target = wish.address;
  fi_info** end = info;
  const std::string only = only_device();
  for (const Found& found : find_devices()) {
    if (!only.empty() && found.name != only) continue;
    Address source{found.eids.front().eid, at_source ? wish.address.id : 0};
    if (at_source && wish.has_address) source.eid = wish.address.eid;
    if (has_source && !at_source) source = from_hints;
    if (!has_eid(found, source.eid)) continue;
    for (const fi_ep_type type : {FI_EP_MSG, FI_EP_RDM}) {
      // libfabric lists ofi_rxm before providers that it does not know.
      if (type == FI_EP_MSG && (flags & kForLayer) != 0 && !offers_layers()) continue;
      fi_info* made = describe(found, type, format, source, hints);
      if (made == nullptr) break;
      if (!allows(version, hints, made)) {
        fi_freeinfo(made);
        continue;
      }
      narrow(version, hints, made);
      if (has_target || (wish.has_address && !at_source))
        set_address(&made->dest_addr, &made->dest_addrlen, format, target);
      *end = made;
      end = &made->next;
    }
  }
  return *info == nullptr ? -FI_ENODATA : 0;
}

}  // namespace urma_fi
