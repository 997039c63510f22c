// SPDX-License-Identifier: MIT
//
// The data path: posting, polling and events.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "test/model/executor.h"
#include "test/process/harness.h"

namespace urma_model {
namespace {

constexpr std::chrono::milliseconds kRecordsLimit{4000};

// What a work request points to.
struct Pieces {
  std::array<urma_sge_t, 20> local = {};
  std::array<urma_sge_t, 2> remote = {};
  std::array<uint64_t, 2> compare = {}, swap = {};
};

urma_sge_t piece(urma_target_seg_t* segment, uint64_t address, uint32_t length) {
  urma_sge_t sge = {};
  sge.addr = address;
  sge.len = length;
  sge.tseg = segment;
  return sge;
}

urma_sg_t split(const Request& request, urma_target_seg_t* segment, uint64_t address,
                Pieces* pieces) {
  if (request.pieces == 0) return {nullptr, 0};
  if (request.pieces == kTooMany) {
    pieces->local.fill(piece(segment, address, 1));
    return {pieces->local.data(), 17};
  }
  const uint32_t first = request.pieces == 1 ? request.length : request.length / 2;
  pieces->local[0] = piece(segment, address, first);
  pieces->local[1] = piece(segment, address + first, request.length - first);
  return {pieces->local.data(), request.pieces};
}

bool is_atomic(urma_opcode_t opcode) { return opcode >= URMA_OPC_CAS && opcode <= URMA_OPC_FXOR; }

void fill_atomic(const Request& request, Pieces* pieces, urma_jfs_wr_t* wr) {
  wr->cas.src = &pieces->local[0];
  wr->cas.dst = &pieces->remote[0];
  wr->cas.cmp_data = request.operand;
  if (request.opcode == URMA_OPC_CAS || request.opcode == URMA_OPC_SWAP) {
    wr->cas.swap_data = request.swap;
  }
  if (request.length <= 8) return;
  pieces->compare[0] = request.operand;
  pieces->swap[0] = request.swap;
  wr->cas.cmp_addr = reinterpret_cast<uint64_t>(pieces->compare.data());
  wr->cas.swap_addr = reinterpret_cast<uint64_t>(pieces->swap.data());
}

urma_jfs_wr_flag_t flags_of(const Request& request) {
  urma_jfs_wr_flag_t flag = {};
  flag.bs.complete_enable = request.signalled ? 1 : 0;
  flag.bs.solicited_enable = request.solicited ? 1 : 0;
  flag.bs.fence = request.fence ? 1 : 0;
  flag.bs.inline_flag = request.inlined ? 1 : 0;
  return flag;
}

template <typename Wr>
int index_of(const Wr* bad, const std::array<Wr, kRequests>& list) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (bad == &list[i]) return static_cast<int>(i);
  }
  return kNull;
}

}  // namespace

void Executor::record(const urma_cr_t& cr, Result* r) const {
  Record& into = r->record[static_cast<size_t>(r->count++)];
  into.status = cr.status;
  into.user_ctx = cr.user_ctx;
  std::memcpy(&into.opcode, &cr.opcode, sizeof into.opcode);
  into.receive = cr.flag.bs.s_r != 0;
  into.jetty = cr.flag.bs.jetty != 0;
  into.flush_done = cr.flag.bs.flush_err_done != 0;
  into.suspend_done = cr.flag.bs.suspend_done != 0;
  into.length = cr.completion_len;
  into.local_id = cr.local_id;
  into.remote_id = cr.remote_id.id;
  into.remote_uasid = cr.remote_id.uasid;
  into.immediate = cr.imm_data;
  into.owner = slot_of(reinterpret_cast<const void*>(cr.user_data));
}

bool Executor::poll(const Call& c, Result* r) {
  std::array<urma_cr_t, kRecords> records = {};
  const auto deadline = urma_test::Clock::now() + urma_test::patience(kRecordsLimit);
  do {
    const int room = std::min<int>(static_cast<int>(c.number), int{kRecords} - r->count);
    const int n =
        urma_poll_jfc(at<urma_jfc_t>(c.on), room, unless_null(c, kFirstNull, records.data()));
    if (n < 0 || n > std::max(room, 0)) return status(n, r);
    for (int i = 0; i < n; ++i) record(records[static_cast<size_t>(i)], r);
  } while (r->count < c.wait_for && urma_test::Clock::now() < deadline);
  return status(r->count, r);
}

template <typename Queue>
bool Executor::post_sends(const Call& c,
                          urma_status_t (*post)(Queue*, urma_jfs_wr_t*, urma_jfs_wr_t**),
                          Result* r) {
  std::array<urma_jfs_wr_t, kRequests> list = {};
  std::array<Pieces, kRequests> pieces;
  for (size_t i = 0; i < c.requests; ++i) {
    const Request& request = c.request[i];
    urma_jfs_wr_t& wr = list[i];
    auto* remote = at<urma_target_seg_t>(request.remote);
    wr.opcode = request.opcode;
    wr.flag = flags_of(request);
    wr.tjetty = at<urma_target_jetty_t>(request.target);
    wr.user_ctx = request.user_ctx;
    wr.next = i + 1 < c.requests ? &list[i + 1] : nullptr;
    const urma_sg_t local =
        split(request, request.inlined ? nullptr : at<urma_target_seg_t>(request.local),
              address(request.at), &pieces[i]);
    pieces[i].remote[0] = piece(remote, address(request.remote_at), request.length);
    pieces[i].remote[1] = piece(remote, address(static_cast<uint32_t>(request.swap)), 8);
    if (is_atomic(request.opcode)) {
      fill_atomic(request, &pieces[i], &wr);
    } else if (request.opcode >= URMA_OPC_SEND && request.opcode <= URMA_OPC_SEND_INVALIDATE) {
      wr.send.src = local;
      wr.send.imm_data = request.immediate;
      if (request.opcode == URMA_OPC_SEND_INVALIDATE) wr.send.tseg = remote;
    } else if (request.opcode != URMA_OPC_NOP) {
      wr.rw.src = local;
      wr.rw.dst = {pieces[i].remote.data(), request.opcode == URMA_OPC_WRITE_NOTIFY ? 2u : 1u};
      if (request.opcode == URMA_OPC_READ) std::swap(wr.rw.src, wr.rw.dst);
      wr.rw.notify_data = request.immediate;
    }
  }
  urma_jfs_wr_t* bad = nullptr;
  r->value = post(at<Queue>(c.on), unless_null(c, kFirstNull, list.data()),
                  unless_null(c, kSecondNull, &bad));
  r->bad = index_of(bad, list);
  return true;
}

template <typename Queue>
bool Executor::post_receives(const Call& c,
                             urma_status_t (*post)(Queue*, urma_jfr_wr_t*, urma_jfr_wr_t**),
                             Result* r) {
  std::array<urma_jfr_wr_t, kRequests> list = {};
  std::array<Pieces, kRequests> pieces;
  for (size_t i = 0; i < c.requests; ++i) {
    const Request& request = c.request[i];
    list[i].src =
        split(request, at<urma_target_seg_t>(request.local), address(request.at), &pieces[i]);
    list[i].user_ctx = request.user_ctx;
    list[i].next = i + 1 < c.requests ? &list[i + 1] : nullptr;
  }
  urma_jfr_wr_t* bad = nullptr;
  r->value = post(at<Queue>(c.on), unless_null(c, kFirstNull, list.data()),
                  unless_null(c, kSecondNull, &bad));
  r->bad = index_of(bad, list);
  return true;
}

bool Executor::run_data(const Call& c, Result* r) {
  switch (c.fn) {
    case Fn::urma_post_jfs_wr:
      return post_sends<urma_jfs_t>(c, urma_post_jfs_wr, r);
    case Fn::urma_post_jetty_send_wr:
      return post_sends<urma_jetty_t>(c, urma_post_jetty_send_wr, r);
    case Fn::urma_post_jfr_wr:
      return post_receives<urma_jfr_t>(c, urma_post_jfr_wr, r);
    case Fn::urma_post_jetty_recv_wr:
      return post_receives<urma_jetty_t>(c, urma_post_jetty_recv_wr, r);
    case Fn::urma_poll_jfc:
      return poll(c, r);
    default:
      return false;
  }
}

bool Executor::run_flat(const Call& c, Result* r) {
  const Request& q = c.request[0];
  auto* target = at<urma_target_jetty_t>(q.target);
  auto* remote = at<urma_target_seg_t>(q.remote);
  auto* local = q.inlined ? nullptr : at<urma_target_seg_t>(q.local);
  const urma_jfs_wr_flag_t flag = flags_of(q);
  switch (c.fn) {
    case Fn::urma_write:
      return status(urma_write(at<urma_jfs_t>(c.on), target, remote, local, address(q.remote_at),
                               address(q.at), q.length, flag, q.user_ctx),
                    r);
    case Fn::urma_read:
      return status(urma_read(at<urma_jfs_t>(c.on), target, local, remote, address(q.at),
                              address(q.remote_at), q.length, flag, q.user_ctx),
                    r);
    case Fn::urma_send:
      return status(
          urma_send(at<urma_jfs_t>(c.on), target, local, address(q.at), q.length, flag, q.user_ctx),
          r);
    case Fn::urma_recv:
      return status(urma_recv(at<urma_jfr_t>(c.on), at<urma_target_seg_t>(q.local),
                              c.number == 1 ? 0 : address(q.at), q.length, q.user_ctx),
                    r);
    default:
      return false;
  }
}

bool Executor::run_event(const Call& c, Result* r) {
  switch (c.fn) {
    case Fn::urma_create_jfce:
      return made(c, urma_create_jfce(at<urma_context_t>(c.on)), r);
    case Fn::urma_delete_jfce:
      return ended(c, urma_delete_jfce(at<urma_jfce_t>(c.on)), r);
    case Fn::urma_rearm_jfc:
      return status(urma_rearm_jfc(at<urma_jfc_t>(c.on), c.number != 0), r);
    case Fn::urma_wait_jfc: {
      std::array<urma_jfc_t*, 8> jfcs = {};
      r->value = uninterrupted([&] {
        return urma_wait_jfc(at<urma_jfce_t>(c.on), static_cast<uint32_t>(c.number),
                             static_cast<int>(c.value), unless_null(c, kFirstNull, jfcs.data()));
      });
      for (int64_t i = 0; i < r->value; ++i) {
        r->record[static_cast<size_t>(r->count++)].owner = slot_of(jfcs[static_cast<size_t>(i)]);
      }
      return true;
    }
    case Fn::urma_ack_jfc: {
      auto* jfc = at<urma_jfc_t>(c.on);
      auto events = static_cast<uint32_t>(c.number);
      urma_ack_jfc(unless_null(c, kFirstNull, &jfc), unless_null(c, kSecondNull, &events), 1);
      return true;
    }
    case Fn::urma_get_async_event: {
      r->value =
          urma_get_async_event(at<urma_context_t>(c.on), unless_null(c, kFirstNull, &event_));
      if (r->value != URMA_SUCCESS) return true;
      r->record[0].owner = slot_of(event_.element.jfr);
      r->record[0].status = event_.event_type;
      r->count = 1;
      return true;
    }
    case Fn::urma_ack_async_event:
      urma_ack_async_event(c.number == 0 ? nullptr : &event_);
      return true;
    default:
      return false;
  }
}

}  // namespace urma_model
