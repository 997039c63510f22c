// SPDX-License-Identifier: MIT
//
// Finds the devices and what each can do. Devices are closed again: only a context holds one open,
// so that an unused device can be removed.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "urma/base/error.h"
#include "urma/providers/verbs/device.h"
#include "urma/providers/verbs/handles.h"
#include "urma/providers/verbs/memory.h"

namespace urma::verbs {
namespace {

// Sizes of inline data to try, from the top: drivers refuse more than they support.
constexpr uint32_t kInlineSizes[] = {512, 256, 128, 64};

ibv_qp_init_attr probe_attr(ibv_cq* cq, uint32_t inline_bytes) {
  ibv_qp_init_attr attr = {};
  attr.send_cq = cq;
  attr.recv_cq = cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {4, 1, 1, 1, inline_bytes};
  return attr;
}

uint32_t probe_inline(const Api& api, ibv_context* context, ibv_pd* pd) {
  const CqHandle cq(&api, api.create_cq(context, 16, nullptr, nullptr, 0));
  if (!cq) return 0;
  for (const uint32_t bytes : kInlineSizes) {
    auto attr = probe_attr(cq.get(), bytes);
    const QpHandle qp(&api, api.create_qp(pd, &attr));
    if (qp) return std::min(attr.cap.max_inline_data, kInlineSizes[0]);
  }
  return 0;
}

LinkLayer link_layer_of(const ibv_device& device, const ibv_port_attr& port) {
  if (device.transport_type == IBV_TRANSPORT_IWARP) return LinkLayer::kIwarp;
  return port.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::kRoce : LinkLayer::kInfiniband;
}

// libibverbs says ENOENT if it may not open the file.
std::string why_not_open(int error) {
  if (error == EACCES || error == EPERM || error == ENOENT) {
    return "/dev/infiniband/uverbs* cannot be opened; give this user read and write access, and "
           "load the kernel module ib_uverbs";
  }
  return std::string("opening it: ") + std::strerror(error);
}

class Finder {
 public:
  explicit Finder(const Api& api) : api_(api) {}

  void look_at(ibv_device* device) {
    const std::string ibdev = api_.get_device_name(device);
    const ContextHandle context(&api_, api_.open_device(device));
    if (!context) {
      return leave_out(ibdev, why_not_open(errno));
    }
    DeviceInfo info = {};
    info.ibdev = ibdev;
    const int error = api_.query_device_ex(context.get(), &info.limits);
    if (error != 0) return leave_out(ibdev, std::string("query_device: ") + std::strerror(error));
    if (info.limits.orig_attr.max_srq == 0) {
      return leave_out(ibdev, "it has no shared receive queues");
    }
    if (const PdHandle pd(&api_, api_.alloc_pd(context.get())); pd) {
      info.max_inline = probe_inline(api_, context.get(), pd.get());
      info.has_dmabuf = has_dmabuf(api_, pd.get());
    }
    for (uint32_t port = 1; port <= info.limits.orig_attr.phys_port_cnt; ++port) {
      look_at_port(*device, context.get(), static_cast<uint8_t>(port), info);
    }
  }

  std::vector<DeviceInfo> found;
  std::string first_reason;

 private:
  void look_at_port(const ibv_device& device, ibv_context* context, uint8_t port, DeviceInfo info) {
    info.port = port;
    const auto label = urma::format("{} port {}", info.ibdev, port);
    const int error = api_.query_port(context, port, &info.port_attr);
    if (error != 0) return leave_out(label, std::string("query_port: ") + std::strerror(error));
    info.link_layer = link_layer_of(device, info.port_attr);
    info.eids = read_addresses(api_, context, port, info.link_layer);
    if (info.eids.empty()) {
      return leave_out(label,
                       "it has no address; bring its interface up, and give it an IP address");
    }
    info.name = port == 1 ? urma::format("urma_{}", info.ibdev)
                          : urma::format("urma_{}_{}", info.ibdev, port);
    if (info.name.size() >= URMA_MAX_DEV_NAME) return leave_out(label, "its name is too long");
    info.attr = describe_device(info);
    found.push_back(std::move(info));
  }

  void leave_out(const std::string& what, const std::string& reason) {
    URMA_LOG(INFO, "RDMA device {} is left out: {}", what, reason);
    if (first_reason.empty()) first_reason = urma::format("{} is left out: {}", what, reason);
  }

  const Api& api_;
};

// Before a driver gives its device memory, such as a completion queue, if the kernel does not copy
// pinned pages for children itself.
void prepare_for_fork(const Api& api) {
  const int error = api.fork_init();
  if (error != 0) {
    URMA_LOG(INFO, "RDMA memory is not prepared for a fork: {}", std::strerror(error));
  }
}

}  // namespace

std::vector<DeviceInfo> find_devices(const Api& api, std::string* why) {
  why->clear();
  int count = 0;
  errno = 0;
  ibv_device** list = api.get_device_list(&count);
  if (list == nullptr || count == 0) {
    const bool absent = list != nullptr || errno == ENOENT || errno == ENOSYS || errno == 0;
    *why = absent ? "this machine has no RDMA device (/sys/class/infiniband)"
                  : urma::format("listing the RDMA devices: {}", std::strerror(errno));
    if (list != nullptr) api.free_device_list(list);
    return {};
  }
  prepare_for_fork(api);
  Finder finder(api);
  for (int i = 0; i < count; ++i) finder.look_at(list[i]);
  api.free_device_list(list);
  *why = finder.first_reason;
  return std::move(finder.found);
}

}  // namespace urma::verbs
