// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/api.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "urma/base/ip.h"

namespace urma::verbs {
namespace {

// Drivers answer with an errno number, with its negative (siw), or with -1 and errno.
int positive_errno(int result) {
  if (result == -1) return errno != 0 ? errno : EIO;
  return std::abs(result);
}

template <auto Function, typename... Args>
int checked(Args... args) {
  errno = 0;
  return positive_errno(Function(args...));
}

// The same for the path of each request: reads errno only after a failure.
template <auto Function, typename... Args>
int checked_failure(Args... args) {
  const int result = Function(args...);
  return result == 0 ? 0 : positive_errno(result);
}

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  std::vector<InterfaceAddress> addresses;
  for (const auto* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    InterfaceAddress address = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto& ip = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr)->sin_addr;
      std::memcpy(address.ip, mapped(ip).raw, sizeof(address.ip));
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto& ip = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
      std::memcpy(address.ip, &ip, sizeof(ip));
    } else {
      continue;
    }
    address.ifindex = ::if_nametoindex(entry->ifa_name);
    for (const auto* link = first; link != nullptr; link = link->ifa_next) {
      if (link->ifa_addr == nullptr || link->ifa_addr->sa_family != AF_PACKET ||
          std::strcmp(link->ifa_name, entry->ifa_name) != 0) {
        continue;
      }
      std::memcpy(address.mac, reinterpret_cast<const sockaddr_ll*>(link->ifa_addr)->sll_addr,
                  sizeof(address.mac));
    }
    addresses.push_back(address);
  }
  return addresses;
}

// Consumes a SIGPIPE raised for this thread meanwhile, whether the signal is blocked or not.
int post_send_quietly(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) {
  sigset_t pipe;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::sigpending(&pending);
  const bool others = ::sigismember(&pending, SIGPIPE) == 1;
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const int error = checked<::ibv_post_send>(qp, first, bad);
  constexpr timespec kNow = {};
  if (!others) ::sigtimedwait(&pipe, nullptr, &kNow);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

constexpr Api kSystemVerbs = {
    .get_device_list = [](int* count) { return ::ibv_get_device_list(count); },
    .free_device_list = ::ibv_free_device_list,
    .get_device_name = ::ibv_get_device_name,
    .open_device = ::ibv_open_device,
    .close_device = checked<::ibv_close_device>,
    .query_device_ex =
        [](ibv_context* context, ibv_device_attr_ex* attr) {
          return checked<::ibv_query_device_ex>(context, nullptr, attr);
        },
    .query_port =
        [](ibv_context* context, uint8_t port, ibv_port_attr* attr) {
          errno = 0;
          return positive_errno(ibv_query_port(context, port, attr));
        },
    .query_gid_table =
        [](ibv_context* context, ibv_gid_entry* entries, size_t max_entries) {
          return ::ibv_query_gid_table(context, entries, max_entries, 0);
        },
    .fork_init = checked<::ibv_fork_init>,
    .interface_addresses = interface_addresses,
    .get_async_event = checked<::ibv_get_async_event>,
    .ack_async_event = ::ibv_ack_async_event,
    .alloc_pd = ::ibv_alloc_pd,
    .dealloc_pd = checked<::ibv_dealloc_pd>,
    .reg_mr = [](ibv_pd* pd, void* address, size_t length,
                 int access) { return ibv_reg_mr(pd, address, length, access); },
    .reg_dmabuf_mr = ::ibv_reg_dmabuf_mr,
    // rereg_mr's own return values tell the state of the region; here the caller ends the region
    // after any failure.
    .rereg_mr =
        [](ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access) {
          errno = 0;
          if (::ibv_rereg_mr(mr, flags, pd, address, length, access) == 0) return 0;
          return errno != 0 ? errno : EOPNOTSUPP;
        },
    .dereg_mr = checked<::ibv_dereg_mr>,
    .create_comp_channel = ::ibv_create_comp_channel,
    .destroy_comp_channel = checked<::ibv_destroy_comp_channel>,
    .create_cq = ::ibv_create_cq,
    .resize_cq = checked<::ibv_resize_cq>,
    .destroy_cq = checked<::ibv_destroy_cq>,
    .poll_cq = [](ibv_cq* cq, int count,
                  ibv_wc* completions) { return ::ibv_poll_cq(cq, count, completions); },
    .req_notify_cq = checked<::ibv_req_notify_cq>,
    .get_cq_event = checked<::ibv_get_cq_event>,
    .ack_cq_events = ::ibv_ack_cq_events,
    .create_srq = ::ibv_create_srq,
    .modify_srq = checked<::ibv_modify_srq>,
    .query_srq = checked<::ibv_query_srq>,
    .destroy_srq = checked<::ibv_destroy_srq>,
    .post_srq_recv = checked_failure<::ibv_post_srq_recv>,
    .create_qp = ::ibv_create_qp,
    .modify_qp = checked<::ibv_modify_qp>,
    .query_qp = checked<::ibv_query_qp>,
    .destroy_qp = checked<::ibv_destroy_qp>,
    .post_send = checked_failure<::ibv_post_send>,
    .post_send_quietly = post_send_quietly,
    .post_recv = checked_failure<::ibv_post_recv>,
    .create_ah = ::ibv_create_ah,
    .destroy_ah = checked<::ibv_destroy_ah>,
    .cm_create_event_channel = ::rdma_create_event_channel,
    .cm_destroy_event_channel = ::rdma_destroy_event_channel,
    .cm_create_id =
        [](rdma_event_channel* channel, rdma_cm_id** id, void* context) {
          return checked<::rdma_create_id>(channel, id, context, RDMA_PS_TCP);
        },
    .cm_destroy_id = checked<::rdma_destroy_id>,
    .cm_bind_addr = checked<::rdma_bind_addr>,
    .cm_listen = checked<::rdma_listen>,
    .cm_get_src_port = [](rdma_cm_id* id) { return ntohs(::rdma_get_src_port(id)); },
    .cm_resolve_addr = checked<::rdma_resolve_addr>,
    .cm_resolve_route = checked<::rdma_resolve_route>,
    .cm_connect = checked<::rdma_connect>,
    .cm_accept = checked<::rdma_accept>,
    .cm_reject = checked<::rdma_reject>,
    .cm_get_event = checked<::rdma_get_cm_event>,
    .cm_ack_event = checked<::rdma_ack_cm_event>,
    .send_datagram =
        [](int fd, const void* bytes, size_t length, const sockaddr* to, socklen_t to_length) {
          return ::sendto(fd, bytes, length, 0, to, to_length);
        },
};

}  // namespace

const Api& system_verbs() { return kSystemVerbs; }

}  // namespace urma::verbs
