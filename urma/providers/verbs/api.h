// SPDX-License-Identifier: MIT
//
// Every function of libibverbs, librdmacm and the network that this provider calls, as one table.
// The real one is system_verbs(); tests have their own.
#ifndef URMA_PROVIDERS_VERBS_API_H_
#define URMA_PROVIDERS_VERBS_API_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace urma::verbs {

// An address of a network interface of this machine.
struct InterfaceAddress {
  uint32_t ifindex;
  uint8_t mac[6];
  uint8_t ip[16];  // network order; an IPv4 address is mapped: ::ffff:a.b.c.d
};

// Members are named like the verb without its prefix; librdmacm's begin with cm_. One difference
// from the libraries: functions that return int return 0 or a positive errno number. Exceptions, as
// in the originals: poll_cq returns a count or a negative number, query_gid_table a count or a
// negative errno number. Pointers are NULL with errno set. Thread-safe where the verb itself is.
struct Api {
  // Devices.
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  int (*query_device_ex)(ibv_context* context, ibv_device_attr_ex* attr);
  int (*query_port)(ibv_context* context, uint8_t port, ibv_port_attr* attr);
  ssize_t (*query_gid_table)(ibv_context* context, ibv_gid_entry* entries, size_t max_entries);
  int (*fork_init)();
  std::vector<InterfaceAddress> (*interface_addresses)();

  // Events of a device. get_async_event() blocks unless context->async_fd was made non-blocking.
  int (*get_async_event)(ibv_context* context, ibv_async_event* event);
  void (*ack_async_event)(ibv_async_event* event);

  // Protection domains and memory.
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* pd);
  ibv_mr* (*reg_mr)(ibv_pd* pd, void* address, size_t length, int access);
  ibv_mr* (*reg_dmabuf_mr)(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                           int access);
  int (*rereg_mr)(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access);
  int (*dereg_mr)(ibv_mr* mr);

  // Completion queues and channels. get_cq_event() blocks unless channel->fd was made non-blocking.
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* cq_context,
                       ibv_comp_channel* channel, int vector);
  int (*resize_cq)(ibv_cq* cq, int entries);
  int (*destroy_cq)(ibv_cq* cq);
  int (*poll_cq)(ibv_cq* cq, int count, ibv_wc* completions);
  int (*req_notify_cq)(ibv_cq* cq, int solicited_only);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context);
  void (*ack_cq_events)(ibv_cq* cq, unsigned int count);

  // Shared receive queues.
  ibv_srq* (*create_srq)(ibv_pd* pd, ibv_srq_init_attr* attr);
  int (*modify_srq)(ibv_srq* srq, ibv_srq_attr* attr, int mask);
  int (*query_srq)(ibv_srq* srq, ibv_srq_attr* attr);
  int (*destroy_srq)(ibv_srq* srq);
  int (*post_srq_recv)(ibv_srq* srq, ibv_recv_wr* first, ibv_recv_wr** bad);

  // Queue pairs.
  ibv_qp* (*create_qp)(ibv_pd* pd, ibv_qp_init_attr* attr);
  int (*modify_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask);
  int (*query_qp)(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init_attr);
  int (*destroy_qp)(ibv_qp* qp);
  int (*post_send)(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad);
  // The same, but discards the SIGPIPE by which the kernel tells this thread that a connection of
  // Soft-iWARP has ended.
  int (*post_send_quietly)(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad);
  int (*post_recv)(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** bad);

  // Addresses of datagrams.
  ibv_ah* (*create_ah)(ibv_pd* pd, ibv_ah_attr* attr);
  int (*destroy_ah)(ibv_ah* ah);

  // Connections of iWARP. Soft-iWARP's cm_connect blocks until TCP is connected; cm_destroy_id
  // blocks while a connection is being made.
  rdma_event_channel* (*cm_create_event_channel)();
  void (*cm_destroy_event_channel)(rdma_event_channel* channel);
  int (*cm_create_id)(rdma_event_channel* channel, rdma_cm_id** id, void* context);
  int (*cm_destroy_id)(rdma_cm_id* id);
  int (*cm_bind_addr)(rdma_cm_id* id, sockaddr* address);
  int (*cm_listen)(rdma_cm_id* id, int backlog);
  uint16_t (*cm_get_src_port)(rdma_cm_id* id);  // host order
  int (*cm_resolve_addr)(rdma_cm_id* id, sockaddr* source, sockaddr* target, int timeout_ms);
  int (*cm_resolve_route)(rdma_cm_id* id, int timeout_ms);
  int (*cm_connect)(rdma_cm_id* id, rdma_conn_param* param);
  int (*cm_accept)(rdma_cm_id* id, rdma_conn_param* param);
  int (*cm_reject)(rdma_cm_id* id, const void* data, uint8_t bytes);
  // Blocks unless channel->fd was made non-blocking.
  int (*cm_get_event)(rdma_event_channel* channel, rdma_cm_event** event);
  int (*cm_ack_event)(rdma_cm_event* event);

  // Datagrams of the control protocol, as sendto(2): below 0 with errno set.
  ssize_t (*send_datagram)(int fd, const void* bytes, size_t length, const sockaddr* to,
                           socklen_t to_length);
};

const Api& system_verbs();

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_API_H_
