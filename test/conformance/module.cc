// SPDX-License-Identifier: MIT
#include "test/conformance/module.h"

#include <arpa/inet.h>

#include <cerrno>
#include <cstring>
#include <type_traits>

#include "urma/base/host.h"

namespace urma_test {
namespace {

ModuleControl control;
urma_ops_t operations;
urma_provider_ops_t provider, aggregating;

// -------------------------------------------------------------------------------------------------
// Operations of any signature
// -------------------------------------------------------------------------------------------------

template <typename Slot>
struct Answer;
template <typename Result, typename... Args>
struct Answer<Result (*)(Args...)> {
  static Result call(Args...) {
    ++control.calls;
    if constexpr (!std::is_void_v<Result>) return static_cast<Result>(control.status);
  }
};
template <typename... Slot>
void answer(Slot&... slots) {
  ((slots = Answer<Slot>::call), ...);
}

template <typename Object>
Object* make() {
  ++control.calls;
  if (!control.fails) return new Object();
  if (control.error != 0) errno = control.error;
  return nullptr;
}

template <typename Slot>
struct Create;
template <typename Object, typename... Args>
struct Create<Object* (*)(Args...)> {
  static Object* call(Args...) { return make<Object>(); }
};
template <typename... Slot>
void creates(Slot&... slots) {
  ((slots = Create<Slot>::call), ...);
}

template <typename Object>
urma_status_t destroy(Object* object) {
  ++control.calls;
  if (control.status == URMA_SUCCESS) delete object;
  return control.status;
}

template <typename Object>
urma_status_t destroy_batch(Object** objects, int count, Object** bad) {
  ++control.calls;
  const int gone = control.status == URMA_SUCCESS ? count : control.survivor;
  for (int i = 0; i < gone; ++i) delete objects[i];
  if (gone < count) *bad = objects[gone];
  return control.status;
}

template <typename Object, typename Config>
urma_status_t alloc(urma_context_t*, Config*, Object** result) {
  if (control.status == URMA_SUCCESS) *result = make<Object>();
  return control.status;
}

template <typename Queue, typename Wr>
urma_status_t post(Queue*, Wr* wr, Wr** bad_wr) {
  ++control.calls;
  if (control.status == URMA_SUCCESS) return URMA_SUCCESS;
  while (wr->next != nullptr) wr = wr->next;
  *bad_wr = wr;
  return control.status;
}

// -------------------------------------------------------------------------------------------------
// Operations that record what they have seen
// -------------------------------------------------------------------------------------------------

urma_status_t post_send(urma_jfs_t* jfs, urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) {
  control.opcode = wr->opcode;
  const urma_sg_t& local = wr->opcode == URMA_OPC_SEND   ? wr->send.src
                           : wr->opcode == URMA_OPC_READ ? wr->rw.dst
                                                         : wr->rw.src;
  control.tseg = local.sge[0].tseg;
  return post(jfs, wr, bad_wr);
}

int user_ctl(urma_context_t*, urma_user_ctl_in_t* in, urma_user_ctl_out_t* out) {
  ++control.calls;
  control.command = *in;
  out->len = control.answered;
  return control.status;
}

urma_status_t set_tp_attr(const urma_context_t*, const uint64_t, const uint8_t,
                          const uint32_t bitmap, const urma_tp_attr_value_t*) {
  control.bitmap = bitmap;
  return control.status;
}

int wait_notify(urma_notifier_t*, uint32_t, urma_notify_t* notify, int) {
  *notify = control.notify;
  return 1;
}

template <typename Queue>
int flush(Queue*, int count, urma_cr_t*) {
  return control.status == URMA_SUCCESS ? count - 1 : control.status;
}

urma_target_jetty_t* import_jetty_ex(urma_context_t*, urma_rjetty_t*, urma_token_t*,
                                     urma_active_tp_cfg_t* channel) {
  control.channel = *channel;
  return make<urma_target_jetty_t>();
}

urma_target_jetty_t* import_jfr_ex(urma_context_t*, urma_rjfr_t*, urma_token_t*,
                                   urma_active_tp_cfg_t* channel) {
  control.channel = *channel;
  return make<urma_target_jetty_t>();
}

// -------------------------------------------------------------------------------------------------
// The table
// -------------------------------------------------------------------------------------------------

void fill_objects(urma_ops_t& ops) {
  creates(ops.create_jfc, ops.create_jfs, ops.create_jfr, ops.create_jetty, ops.create_jetty_grp);
  creates(ops.create_jfce, ops.create_notifier, ops.alloc_token_id, ops.alloc_token_id_ex);
  creates(ops.import_jfr, ops.import_jetty, ops.import_jetty_async, ops.import_seg);
  creates(ops.register_seg);
  ops.import_jfr_ex = import_jfr_ex, ops.import_jetty_ex = import_jetty_ex;
  ops.delete_jfc = ops.free_jfc = destroy, ops.delete_jfs = ops.free_jfs = destroy;
  ops.delete_jfr = ops.free_jfr = destroy, ops.delete_jetty = ops.free_jetty = destroy;
  ops.delete_jetty_grp = destroy, ops.delete_jfce = destroy, ops.delete_notifier = destroy;
  ops.free_token_id = destroy, ops.unregister_seg = ops.unimport_seg = destroy;
  ops.unimport_jfr = ops.unimport_jetty = ops.unimport_jetty_async = destroy;
  ops.delete_jfc_batch = destroy_batch, ops.delete_jfs_batch = destroy_batch;
  ops.delete_jfr_batch = destroy_batch, ops.delete_jetty_batch = destroy_batch;
  ops.alloc_jfc = alloc, ops.alloc_jfs = alloc, ops.alloc_jfr = alloc, ops.alloc_jetty = alloc;
}

void fill_answers(urma_ops_t& ops) {
  answer(ops.modify_jfc, ops.modify_jfs, ops.modify_jfr, ops.modify_jetty);
  answer(ops.query_jfs, ops.query_jfr, ops.query_jetty);
  answer(ops.set_jfc_opt, ops.active_jfc, ops.get_jfc_opt, ops.deactive_jfc);
  answer(ops.set_jfs_opt, ops.active_jfs, ops.get_jfs_opt, ops.deactive_jfs);
  answer(ops.set_jfr_opt, ops.active_jfr, ops.get_jfr_opt, ops.deactive_jfr);
  answer(ops.set_jetty_opt, ops.active_jetty, ops.get_jetty_opt, ops.deactive_jetty);
  answer(ops.advise_jfr, ops.unadvise_jfr, ops.advise_jfr_async);
  answer(ops.advise_jetty, ops.unadvise_jetty);
  answer(ops.bind_jetty, ops.unbind_jetty, ops.bind_jetty_ex);
  answer(ops.bind_jetty_async, ops.unbind_jetty_async, ops.ack_notify);
  answer(ops.get_tpn, ops.modify_tp, ops.get_tp_list, ops.get_tp_attr);
  answer(ops.get_async_event, ops.ack_async_event);
  answer(ops.rearm_jfc, ops.wait_jfc, ops.ack_jfc, ops.poll_jfc);
  answer(ops.get_eid_by_ip, ops.get_ip_by_eid, ops.get_smac, ops.get_dmac);
  ops.set_tp_attr = set_tp_attr, ops.user_ctl = user_ctl, ops.wait_notify = wait_notify;
  ops.flush_jfs = flush, ops.flush_jetty = flush;
  ops.post_jfs_wr = post_send, ops.post_jfr_wr = post;
  ops.post_jetty_send_wr = post, ops.post_jetty_recv_wr = post;
}

// -------------------------------------------------------------------------------------------------
// Devices and contexts
// -------------------------------------------------------------------------------------------------

urma_eid_t eid_of(uint32_t number) {
  urma_eid_t eid = {};
  eid.in6.subnet_prefix = ::htonl(0xfd000000);
  eid.in6.interface_id = number;
  return eid;
}

void add_device(urma_provider_ops_t* owner, const char* name, urma_transport_type_t type, bool bare,
                uint32_t number) {
  urma::DeviceDescription device = {};
  device.name = name;
  device.type = type;
  urma_device_cap_t& cap = device.attr.dev_cap;
  cap.max_jfc_depth = cap.max_jfs_depth = cap.max_jfr_depth = kModuleDepth;
  cap.max_jfs_inline_len = 32;
  cap.max_jfs_sge = cap.max_jfs_rsge = cap.max_jfr_sge = 4;
  cap.trans_mode = URMA_TM_RM | URMA_TM_RC | URMA_TM_UM;
  const urma_eid_t eid = eid_of(number);
  if (!bare) {
    cap.max_eid_cnt = 1;
    cap.max_netaddr_cnt = type == URMA_TRANSPORT_UB ? 1 : 0;
    cap.max_jetty_in_jetty_grp = kModuleMembers;
    device.eids = &eid;
    device.eid_count = 1;
  }
  urma::host()->registry->add_device(owner, device);
}

urma_status_t init(urma_init_attr_t*) {
  add_device(&provider, kModuleUb, URMA_TRANSPORT_UB, false, 1);
  add_device(&provider, kModuleIb, URMA_TRANSPORT_IB, false, 2);
  add_device(&provider, kModuleBare, URMA_TRANSPORT_UB, true, 3);
  return URMA_SUCCESS;
}

urma_status_t init_aggregating(urma_init_attr_t*) {
  add_device(&aggregating, kModuleBonding, URMA_TRANSPORT_UB, false, 4);
  return URMA_SUCCESS;
}

urma_status_t uninit() { return URMA_SUCCESS; }

urma_context_t* create_context(urma_device_t*, uint32_t, int) {
  auto* ctx = make<urma_context_t>();
  if (ctx != nullptr) {
    ctx->ops = &operations;
    ctx->async_fd = -1;
  }
  return ctx;
}

void fill_provider(urma_provider_ops_t& ops, const char* name,
                   urma_status_t (*start)(urma_init_attr_t*)) {
  ops = {};
  ops.name = name;
  ops.init = start;
  ops.uninit = uninit;
  ops.create_context = create_context;
  ops.delete_context = destroy;
}

}  // namespace
}  // namespace urma_test

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED urma_test::ModuleControl* urma_conformance_control() { return &urma_test::control; }

EXPORTED int urma_module_entry(uint32_t version, const urma_host* host) {
  using namespace urma_test;  // NOLINT(build/namespaces)
  if (version != kUrmaHostVersion) return -1;
  urma::set_host(host);
  control = {};
  operations = {};
  operations.name = kModuleProvider;
  fill_objects(operations);
  fill_answers(operations);
  fill_provider(provider, kModuleProvider, init);
  fill_provider(aggregating, "ub_agg", init_aggregating);
  host->registry->add_provider(&provider);
  host->registry->add_provider(&aggregating);
  return 0;
}
