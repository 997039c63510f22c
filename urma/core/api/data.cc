// SPDX-License-Identifier: MIT
//
// The data path: posting, polling, arming, waiting. Up to the call of the provider there are only a
// few comparisons; what ends a call early is in separate functions.
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/perf.h"
#include "urma_api.h"
#include "urma_ext.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

// The short form of the gate: the queue has a context with a device. Does not check for forks, see
// has_detours().
template <auto Op, typename Queue>
inline OpPointer<Op> hot_slot(const Queue* queue) {
  if (queue == nullptr || queue->urma_ctx == nullptr) [[unlikely]]
    return nullptr;
  const urma_ops_t* ops = queue->urma_ctx->ops;
  return ops != nullptr ? ops->*Op : nullptr;
}

[[gnu::cold, gnu::noinline]] urma_status_t reject_post(const char* call, const urma_context_t* ctx,
                                                       const void* wr, const void* bad_wr) {
  if (given(call, "wr", wr) && given(call, "bad_wr", bad_wr)) report_unusable(call, ctx);
  return URMA_EINVAL;
}

// Jumps to the provider, which throws nothing: see urma_provider.h.
template <auto Op, urma_perf_record_type_t Type, typename Queue, typename Wr>
inline urma_status_t post(const char* call, Queue* queue, Wr* wr, Wr** bad_wr) {
  auto* op = hot_slot<Op>(queue);
  if (op == nullptr) [[unlikely]]
    return reject_post(call, context_of(queue), wr, bad_wr);
  if (wr == nullptr) [[unlikely]]
    return reject_post(call, context_of(queue), wr, bad_wr);
  if (bad_wr == nullptr) [[unlikely]]
    return reject_post(call, context_of(queue), wr, bad_wr);
  if (has_detours()) [[unlikely]] {
    if (is_forked()) {
      return reject_post(call, context_of(queue), wr, bad_wr);
    }
    return perf::watched<Type>(op, queue, wr, bad_wr);
  }
  return op(queue, wr, bad_wr);
}

[[gnu::cold, gnu::noinline]] int reject_poll(const urma_jfc_t* jfc, int count,
                                             const urma_cr_t* records) {
  constexpr const char* kCall = "urma_poll_jfc";
  urma::guarded(site_of(kCall), [=] {
    if (!given(kCall, "cr", records)) return;
    if (count >= 0) return report_unusable(kCall, context_of(jfc));
    URMA_LOG_LIMITED(ERR, "{}: cr_cnt {} is negative; pass the room in cr", kCall, count);
  });
  return -1;
}

inline int poll(OpPointer<&urma_ops_t::poll_jfc> op, urma_jfc_t* jfc, int count, urma_cr_t* cr) {
  if (has_detours()) [[unlikely]] {
    if (is_forked()) return reject_poll(jfc, count, cr);
    return perf::watched<UB_POLL_JFC>(op, jfc, count, cr);
  }
  return op(jfc, count, cr);
}

[[gnu::cold, gnu::noinline]] void report_no_buffer(const char* call) {
  urma::guarded(site_of(call), [=] {
    URMA_LOG_LIMITED(ERR, "{}: buf is 0; pass the address of the buffer", call);
  });
}

// The one piece of memory on each side of a flat call.
urma_sge_t piece(uint64_t address, uint32_t length, urma_target_seg_t* segment) {
  urma_sge_t sge = {};
  sge.addr = address;
  sge.len = length;
  sge.tseg = segment;
  return sge;
}

urma_jfs_wr_t request(urma_opcode_t opcode, urma_jfs_wr_flag_t flag, urma_target_jetty_t* target,
                      uint64_t user_ctx) {
  urma_jfs_wr_t wr = {};
  wr.opcode = opcode;
  wr.flag = flag;
  wr.tjetty = target;
  wr.user_ctx = user_ctx;
  return wr;
}

urma_status_t post_one(const char* call, urma_jfs_t* jfs, urma_jfs_wr_t* wr) {
  urma_jfs_wr_t* bad_wr = nullptr;
  return post<&urma_ops_t::post_jfs_wr, UB_JFS_POST_SEND>(call, jfs, wr, &bad_wr);
}

bool check_flat(const char* call, const urma_jfs_t* jfs, const urma_target_jetty_t* target) {
  return given(call, "jfs", jfs) && given(call, "jfs->jfs_cfg.jfc", jfs->jfs_cfg.jfc) &&
         given(call, "target_jfr", target);
}

bool check_flat(const char* call, const urma_jfs_t* jfs, const urma_target_jetty_t* target,
                const urma_target_seg_t* dst_tseg, const urma_target_seg_t* src_tseg) {
  return check_flat(call, jfs, target) && given(call, "dst_tseg", dst_tseg) &&
         given(call, "src_tseg", src_tseg);
}

urma_status_t fetch_and_add(const char* call, urma_jfs_t* jfs, urma_target_jetty_t* target,
                            urma_sge_t remote, urma_sge_t local, uint64_t operand,
                            urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  if (!check_flat(call, jfs, target, remote.tseg, local.tseg)) return URMA_EINVAL;
  flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  urma_jfs_wr_t wr = request(URMA_OPC_FADD, flag, target, user_ctx);
  wr.faa.src = &local;
  wr.faa.dst = &remote;
  wr.faa.operand = operand;
  return post_one(call, jfs, &wr);
}

}  // namespace

// -------------------------------------------------------------------------------------------------
// Posting
// -------------------------------------------------------------------------------------------------

URMA_EXPORT urma_status_t urma_post_jfs_wr(urma_jfs_t* jfs, urma_jfs_wr_t* wr,
                                           urma_jfs_wr_t** bad_wr) {
  return post<&urma_ops_t::post_jfs_wr, UB_JFS_POST_SEND>(__func__, jfs, wr, bad_wr);
}

URMA_EXPORT urma_status_t urma_post_jfr_wr(urma_jfr_t* jfr, urma_jfr_wr_t* wr,
                                           urma_jfr_wr_t** bad_wr) {
  return post<&urma_ops_t::post_jfr_wr, UB_POST_JFR_RECV>(__func__, jfr, wr, bad_wr);
}

URMA_EXPORT urma_status_t urma_post_jetty_send_wr(urma_jetty_t* jetty, urma_jfs_wr_t* wr,
                                                  urma_jfs_wr_t** bad_wr) {
  return post<&urma_ops_t::post_jetty_send_wr, UB_JETTY_POST_SEND>(__func__, jetty, wr, bad_wr);
}

URMA_EXPORT urma_status_t urma_post_jetty_recv_wr(urma_jetty_t* jetty, urma_jfr_wr_t* wr,
                                                  urma_jfr_wr_t** bad_wr) {
  return post<&urma_ops_t::post_jetty_recv_wr, UB_JETTY_POST_RECV>(__func__, jetty, wr, bad_wr);
}

URMA_EXPORT urma_status_t urma_write(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                     urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg,
                                     uint64_t dst, uint64_t src, uint32_t len,
                                     urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  if (!check_flat(__func__, jfs, target_jfr) || !given(__func__, "dst_tseg", dst_tseg)) {
    return URMA_EINVAL;
  }
  urma_sge_t local = piece(src, len, src_tseg);
  urma_sge_t remote = piece(dst, len, dst_tseg);
  urma_jfs_wr_t wr = request(URMA_OPC_WRITE, flag, target_jfr, user_ctx);
  wr.rw.src = {&local, 1};
  wr.rw.dst = {&remote, 1};
  return post_one(__func__, jfs, &wr);
}

URMA_EXPORT urma_status_t urma_read(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                    urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg,
                                    uint64_t dst, uint64_t src, uint32_t len,
                                    urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  if (!check_flat(__func__, jfs, target_jfr, dst_tseg, src_tseg)) return URMA_EINVAL;
  urma_sge_t remote = piece(src, len, src_tseg);
  urma_sge_t local = piece(dst, len, dst_tseg);
  urma_jfs_wr_t wr = request(URMA_OPC_READ, flag, target_jfr, user_ctx);
  wr.rw.src = {&remote, 1};
  wr.rw.dst = {&local, 1};
  return post_one(__func__, jfs, &wr);
}

URMA_EXPORT urma_status_t urma_send(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                    urma_target_seg_t* src_tseg, uint64_t src, uint32_t len,
                                    urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  if (!check_flat(__func__, jfs, target_jfr) ||
      !given(__func__, "target_jfr->urma_ctx", target_jfr->urma_ctx) ||
      !given(__func__, "target_jfr->urma_ctx->dev", target_jfr->urma_ctx->dev) ||
      (flag.bs.inline_flag == URMA_INLINE_DISABLE && !given(__func__, "src_tseg", src_tseg))) {
    return URMA_EINVAL;
  }
  urma_sge_t local = piece(src, len, src_tseg);
  urma_jfs_wr_t wr = request(URMA_OPC_SEND, flag, target_jfr, user_ctx);
  wr.send = {};
  wr.send.src = {&local, 1};
  return post_one(__func__, jfs, &wr);
}

URMA_EXPORT urma_status_t urma_recv(urma_jfr_t* jfr, urma_target_seg_t* recv_tseg, uint64_t buf,
                                    uint32_t len, uint64_t user_ctx) {
  if (!given(__func__, "jfr", jfr) || !given(__func__, "recv_tseg", recv_tseg)) {
    return URMA_EINVAL;
  }
  if (buf == 0) {
    report_no_buffer(__func__);
    return URMA_FAIL;
  }
  urma_sge_t sge = piece(buf, len, recv_tseg);
  urma_jfr_wr_t wr = {};
  wr.src = {&sge, 1};
  wr.user_ctx = user_ctx;
  urma_jfr_wr_t* bad_wr = nullptr;
  return post<&urma_ops_t::post_jfr_wr, UB_POST_JFR_RECV>(__func__, jfr, &wr, &bad_wr);
}

URMA_EXPORT urma_status_t urma_cas(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                   urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg,
                                   uint64_t dst, uint64_t src, uint32_t len, uint64_t compare,
                                   uint64_t swap, urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  if (!check_flat(__func__, jfs, target_jfr, dst_tseg, src_tseg)) return URMA_EINVAL;
  urma_sge_t remote = piece(dst, len, dst_tseg);
  urma_sge_t local = piece(src, len, src_tseg);
  flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  urma_jfs_wr_t wr = request(URMA_OPC_CAS, flag, target_jfr, user_ctx);
  wr.cas.src = &local;
  wr.cas.dst = &remote;
  wr.cas.cmp_data = compare;
  wr.cas.swap_data = swap;
  return post_one(__func__, jfs, &wr);
}

URMA_EXPORT urma_status_t urma_faa(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                   urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg,
                                   uint64_t dst, uint64_t src, uint32_t len, uint64_t operand,
                                   urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  return fetch_and_add(__func__, jfs, target_jfr, piece(dst, len, dst_tseg),
                       piece(src, len, src_tseg), operand, flag, user_ctx);
}

URMA_EXPORT urma_status_t urma_fao(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                   urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg,
                                   uint64_t dst, uint64_t src, uint32_t len, uint64_t operand,
                                   urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  return fetch_and_add(__func__, jfs, target_jfr, piece(dst, len, dst_tseg),
                       piece(src, len, src_tseg), operand, flag, user_ctx);
}

// -------------------------------------------------------------------------------------------------
// Completions
// -------------------------------------------------------------------------------------------------

URMA_EXPORT int urma_poll_jfc(urma_jfc_t* jfc, int cr_cnt, urma_cr_t* cr) {
  auto* op = hot_slot<&urma_ops_t::poll_jfc>(jfc);
  if (op == nullptr) [[unlikely]]
    return reject_poll(jfc, cr_cnt, cr);
  if (cr == nullptr) [[unlikely]]
    return reject_poll(jfc, cr_cnt, cr);
  if (cr_cnt <= 0) [[unlikely]]
    return cr_cnt == 0 && !is_forked() ? 0 : reject_poll(jfc, cr_cnt, cr);
  return poll(op, jfc, cr_cnt, cr);
}

URMA_EXPORT urma_status_t urma_rearm_jfc(urma_jfc_t* jfc, bool solicited_only) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    auto* op = slot<&urma_ops_t::rearm_jfc>(call, jfc);
    return op == nullptr ? URMA_EINVAL : perf::call<UB_REARM_JFC>(op, jfc, solicited_only);
  });
}

URMA_EXPORT int urma_wait_jfc(urma_jfce_t* jfce, uint32_t jfc_cnt, int time_out, urma_jfc_t** jfc) {
  auto* op = slot<&urma_ops_t::wait_jfc>(__func__, jfce);
  if (op == nullptr || jfc_cnt == 0 || !given(__func__, "jfc", jfc)) {
    errno = EINVAL;
    return -1;
  }
  return perf::call<UB_WAIT_JFC>(op, jfce, jfc_cnt, time_out, jfc);
}

URMA_EXPORT void urma_ack_jfc(urma_jfc_t** jfc, uint32_t* nevents, uint32_t jfc_cnt) {
  if (jfc == nullptr || nevents == nullptr || jfc_cnt == 0) return;
  // Entries that are NULL or have no event are skipped, also when looking for the provider.
  for (uint32_t i = 0; i < jfc_cnt; ++i) {
    if (jfc[i] == nullptr || nevents[i] == 0) continue;
    auto* op = find_slot<&urma_ops_t::ack_jfc>(jfc[i]);
    if (op != nullptr) perf::call<UB_ACK_JFC>(op, jfc, nevents, jfc_cnt);
    return;
  }
}
