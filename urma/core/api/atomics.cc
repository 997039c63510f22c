// SPDX-License-Identifier: MIT
//
// Atomics in one call.
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma_api.h"
#include "urma_ext.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

urma_sge_t piece(urma_target_seg_t* segment, uint64_t address, uint32_t length) {
  urma_sge_t sge = {};
  sge.addr = address;
  sge.len = length;
  sge.tseg = segment;
  return sge;
}

// `fill` sets the members after wr.src and wr.dst.
template <typename Fill>
urma_status_t post_atomic(const char* call, urma_opcode_t opcode, urma_jfs_t* jfs,
                          urma_target_jetty_t* target, urma_sge_t remote, urma_sge_t local,
                          urma_jfs_wr_flag_t flag, uint64_t user_ctx, Fill&& fill) {
  if (!given(call, "jfs", jfs) || !given(call, "jfs->jfs_cfg.jfc", jfs->jfs_cfg.jfc) ||
      !given(call, "target_jfr", target) || !given(call, "dst_tseg", remote.tseg) ||
      !given(call, "src_tseg", local.tseg)) {
    return URMA_EINVAL;
  }
  urma_jfs_wr_t wr = {};
  wr.opcode = opcode;
  wr.flag = flag;
  wr.flag.bs.complete_enable = URMA_COMPLETE_ENABLE;
  wr.tjetty = target;
  wr.user_ctx = user_ctx;
  fill(&wr, &local, &remote);
  urma_jfs_wr_t* bad_wr = nullptr;
  return urma_post_jfs_wr(jfs, &wr, &bad_wr);
}

urma_status_t fetch_and_add(const char* call, urma_jfs_t* jfs, urma_target_jetty_t* target,
                            const urma_sge_t& remote, const urma_sge_t& local, uint64_t operand,
                            urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  return post_atomic(call, URMA_OPC_FADD, jfs, target, remote, local, flag, user_ctx,
                     [operand](urma_jfs_wr_t* wr, urma_sge_t* src, urma_sge_t* dst) {
                       wr->faa.src = src;
                       wr->faa.dst = dst;
                       wr->faa.operand = operand;
                     });
}

}  // namespace

URMA_EXPORT urma_status_t urma_cas(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                   urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg,
                                   uint64_t dst, uint64_t src, uint32_t len, uint64_t compare,
                                   uint64_t swap, urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  return post_atomic(__func__, URMA_OPC_CAS, jfs, target_jfr, piece(dst_tseg, dst, len),
                     piece(src_tseg, src, len), flag, user_ctx,
                     [=](urma_jfs_wr_t* wr, urma_sge_t* local, urma_sge_t* remote) {
                       wr->cas.src = local;
                       wr->cas.dst = remote;
                       wr->cas.cmp_data = compare;
                       wr->cas.swap_data = swap;
                     });
}

URMA_EXPORT urma_status_t urma_faa(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                   urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg,
                                   uint64_t dst, uint64_t src, uint32_t len, uint64_t operand,
                                   urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  return fetch_and_add(__func__, jfs, target_jfr, piece(dst_tseg, dst, len),
                       piece(src_tseg, src, len), operand, flag, user_ctx);
}

URMA_EXPORT urma_status_t urma_fao(urma_jfs_t* jfs, urma_target_jetty_t* target_jfr,
                                   urma_target_seg_t* dst_tseg, urma_target_seg_t* src_tseg,
                                   uint64_t dst, uint64_t src, uint32_t len, uint64_t operand,
                                   urma_jfs_wr_flag_t flag, uint64_t user_ctx) {
  return fetch_and_add(__func__, jfs, target_jfr, piece(dst_tseg, dst, len),
                       piece(src_tseg, src, len), operand, flag, user_ctx);
}
