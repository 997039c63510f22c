// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/device.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "urma/base/error.h"
#include "urma/base/fd.h"
#include "urma/base/guard.h"
#include "urma/base/ip.h"

namespace urma::verbs {
namespace {

// In one turn of the service thread.
constexpr int kMaxEvents = 16;

// Smaller is better: reachable from more places.
int rank(const PortAddress& address) {
  if (is_ipv4(address.eid)) return 0;
  return is_link_local(address.eid) ? 2 : 1;
}

void sort_and_limit(std::vector<PortAddress>* addresses) {
  std::stable_sort(addresses->begin(), addresses->end(),
                   [](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (addresses->size() > URMA_MAX_EID_CNT) addresses->resize(URMA_MAX_EID_CNT);
}

PortAddress make_address(const uint8_t* raw, uint32_t gid_index, uint32_t netdev) {
  PortAddress address = {};
  std::memcpy(address.eid.raw, raw, URMA_EID_SIZE);
  address.gid_index = gid_index;
  address.netdev = netdev;
  return address;
}

std::vector<ibv_gid_entry> read_gids(const Api& api, ibv_context* context, uint8_t port) {
  std::vector<ibv_gid_entry> entries(URMA_MAX_EID_CNT);
  const ssize_t count = api.query_gid_table(context, entries.data(), entries.size());
  entries.resize(count > 0 ? static_cast<size_t>(count) : 0);
  std::erase_if(
      entries, [&](const auto& entry) { return entry.port_num != port || is_zero(entry.gid.raw); });
  return entries;
}

std::vector<PortAddress> of_type(const std::vector<ibv_gid_entry>& gids, uint32_t type) {
  std::vector<PortAddress> addresses;
  for (const auto& gid : gids) {
    if (gid.gid_type != type) continue;
    addresses.push_back(make_address(gid.gid.raw, gid.gid_index, gid.ndev_ifindex));
  }
  return addresses;
}

// The one GID of an iWARP port is the MAC of its interface; its addresses are those of the
// interface. Kernels before 6.4 do not tell which interface that is.
std::vector<PortAddress> iwarp_addresses(const Api& api, const std::vector<ibv_gid_entry>& gids) {
  std::vector<PortAddress> addresses;
  if (gids.empty()) return addresses;
  const auto& gid = gids.front();
  for (const auto& interface : api.interface_addresses()) {
    const bool same = gid.ndev_ifindex != 0
                          ? interface.ifindex == gid.ndev_ifindex
                          : std::memcmp(interface.mac, gid.gid.raw, sizeof(interface.mac)) == 0;
    // Connections of iWARP have no route to loopback.
    if (!same || is_loopback(interface.ip)) continue;
    addresses.push_back(make_address(interface.ip, gid.gid_index, interface.ifindex));
  }
  return addresses;
}

ContextHandle open_by_name(const Api* api, const DeviceInfo& info) {
  const std::string& ibdev = info.ibdev;
  int count = 0;
  ibv_device** list = api->get_device_list(&count);
  if (list == nullptr) fail(URMA_FAIL, "opening {}: no RDMA device is left", ibdev);
  ibv_context* context = nullptr;
  errno = ENODEV;
  for (int i = 0; i < count; ++i) {
    if (ibdev == api->get_device_name(list[i])) {
      context = api->open_device(list[i]);
      break;
    }
  }
  const int error = errno;
  api->free_device_list(list);
  // libibverbs says ENOENT if it may not open the file.
  if (context == nullptr) {
    fail_device(info, "opening RDMA device " + ibdev, error == ENOENT ? EACCES : error);
  }
  return {api, context};
}

// Nothing if the event is not one of a queue.
std::optional<QueueListener*> listener_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return static_cast<QueueListener*>(event.element.cq->cq_context);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return static_cast<QueueListener*>(event.element.qp->qp_context);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return static_cast<QueueListener*>(event.element.srq->srq_context);
    default:
      return std::nullopt;
  }
}

}  // namespace

Device::Device(const Api* api, Service* service, const DeviceInfo& info)
    : api_(api), service_(service), info_(info), context_(open_by_name(api, info)) {
  pd_ = PdHandle(api_, api_->alloc_pd(context_.get()));
  if (!pd_) fail_device(info_, "making a protection domain of " + info_.ibdev, errno);
  if (!make_nonblocking(context_->async_fd)) {
    fail_errno(URMA_FAIL, "preparing the events of an RDMA device");
  }
  service_->run([this] {
    service_->watch(context_->async_fd, EPOLLIN, [this](uint32_t) { read_events(); });
  });
  watched_ = true;
}

Device::~Device() {
  service_->run([this] { stop_events(); });
}

std::vector<PortAddress> Device::addresses() const {
  return read_addresses(*api_, context_.get(), info_.port, info_.link_layer);
}

std::optional<PortAddress> Device::find_address(const urma_eid_t& eid) const {
  for (const auto& address : addresses()) {
    if (std::memcmp(&address.eid, &eid, sizeof(eid)) == 0) return address;
  }
  return std::nullopt;
}

void Device::add_listener(DeviceListener* listener) {
  service_->run([&] { listeners_.push_back(listener); });
}

void Device::remove_listener(DeviceListener* listener) {
  service_->run([&] { std::erase(listeners_, listener); });
}

void Device::stop_events() {
  if (!std::exchange(watched_, false)) return;
  service_->unwatch(context_->async_fd);
}

void Device::read_events() {
  for (int i = 0; i < kMaxEvents; ++i) {
    ibv_async_event event = {};
    const int error = api_->get_async_event(context_.get(), &event);
    if (error == EAGAIN || error == EINTR) return;
    if (error != 0) {
      URMA_LOG(WARNING, "{} reports no more events: {}; close its contexts", info_.name,
               std::strerror(error));
      stop_events();
      return;
    }
    guarded(URMA_LOG_SITE, [&] { dispatch(event); });
    api_->ack_async_event(&event);
  }
}

void Device::dispatch(const ibv_async_event& event) {
  if (const auto listener = listener_of(event)) {
    if (*listener != nullptr) (*listener)->queue_event(event.event_type);
    return;
  }
  switch (event.event_type) {
    case IBV_EVENT_DEVICE_FATAL:
      URMA_LOG(ERR, "{} has failed; its queues do not work any more", info_.name);
      return tell([](DeviceListener* listener) { listener->device_failed(); });
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
      if (event.element.port_num != info_.port) return;
      return tell([active = event.event_type == IBV_EVENT_PORT_ACTIVE](DeviceListener* listener) {
        listener->port_changed(active);
      });
    case IBV_EVENT_GID_CHANGE:
      if (event.element.port_num != info_.port) return;
      return tell([](DeviceListener* listener) { listener->addresses_changed(); });
    default:
      // Subnet managers come and go: the device handles that itself. Connections made from now on
      // use a new LID; those to the old one break, and are made anew.
      URMA_LOG(DEBUG, "{}: event {} has no effect", info_.name, static_cast<int>(event.event_type));
  }
}

template <typename Call>
void Device::tell(Call call) {
  // A listener may remove itself, or another.
  for (auto* listener : std::vector(listeners_)) {
    if (std::find(listeners_.begin(), listeners_.end(), listener) != listeners_.end()) {
      call(listener);
    }
  }
}

const char* link_text(LinkLayer link_layer) {
  switch (link_layer) {
    case LinkLayer::kRoce:
      return "RoCE";
    case LinkLayer::kInfiniband:
      return "InfiniBand";
    case LinkLayer::kIwarp:
      return "iWARP";
  }
  return "unknown";
}

std::vector<PortAddress> read_addresses(const Api& api, ibv_context* context, uint8_t port,
                                        LinkLayer link_layer) {
  const auto gids = read_gids(api, context, port);
  std::vector<PortAddress> addresses;
  switch (link_layer) {
    case LinkLayer::kIwarp:
      addresses = iwarp_addresses(api, gids);
      break;
    case LinkLayer::kInfiniband:
      // In the order of the device: all have the same prefix.
      return of_type(gids, IBV_GID_TYPE_IB);
    case LinkLayer::kRoce:
      addresses = of_type(gids, IBV_GID_TYPE_ROCE_V2);
      if (addresses.empty()) addresses = of_type(gids, IBV_GID_TYPE_ROCE_V1);
      break;
  }
  sort_and_limit(&addresses);
  return addresses;
}

std::string locked_limit() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? std::string("unlimited")
                                         : urma::format("{} bytes", limit.rlim_cur);
}

void fail_device(const DeviceInfo& info, const std::string& doing, int error) {
  switch (error) {
    case ENOMEM:
    case EAGAIN:
      fail(URMA_ENOMEM,
           "{}: {} has no room left, or no more memory may be locked (`ulimit -l` allows {}); "
           "raise the limit, or delete unused objects",
           doing, info.name, locked_limit());
    case EACCES:
    case EPERM:
      fail(URMA_ENOPERM,
           "{}: permission denied; give this user read and write access to "
           "/dev/infiniband/uverbs*, and check the limits of its container or cgroup (rdma.max)",
           doing);
    case EIO:
    case ENODEV:
    case ENXIO:
      fail(URMA_FAIL,
           "{}: {} has failed, or was removed; delete its contexts, and call urma_init again once "
           "it is back",
           doing, info.name);
    default:
      fail(error == 0 ? URMA_FAIL : error, "{}: {}", doing,
           error == 0 ? "the device gives no reason" : std::strerror(error));
  }
}

}  // namespace urma::verbs
