// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/sender.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/atomics.h"
#include "urma/providers/verbs/datagram_queue.h"
#include "urma/providers/verbs/mailbox.h"
#include "urma/providers/verbs/path.h"

namespace urma::verbs {
namespace {

uint64_t bytes_of(const urma_sg_t& list) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < list.num_sge; ++i) bytes += list.sge[i].len;
  return bytes;
}

// Whether this process would have to write to memory of another process.
bool writes_foreign(const urma_jfs_wr_t& wr) {
  if (kind_of(wr.opcode) != OpKind::kAtomic || native_atomic(wr.opcode, wr.cas.src->len)) {
    return false;
  }
  const auto* handle = static_cast<const SegmentHandle*>(wr.cas.src->tseg);
  if (handle == nullptr || !handle->registered || !static_cast<const Segment*>(handle)->foreign) {
    return false;
  }
  URMA_LOG_LIMITED(ERR,
                   "post: opcode {:#x} of {} bytes is emulated here and cannot return its result "
                   "in a dma-buf; give an src in memory of this process",
                   static_cast<int>(wr.opcode), wr.cas.src->len);
  return true;
}

// Whether the device lacks room for the request's inline extras.
bool lacks_inline(const urma_jfs_wr_t& wr, const DeviceInfo& info) {
  uint32_t needed = 0;
  if (wr.opcode == URMA_OPC_WRITE_NOTIFY) needed = sizeof(uint64_t);
  const bool letter = wr.opcode == URMA_OPC_SEND_INVALIDATE ||
                      (wr.opcode == URMA_OPC_SEND_IMM && !fits_directly(wr.send.imm_data)) ||
                      (wr.opcode == URMA_OPC_WRITE_IMM && !fits_directly(wr.rw.notify_data));
  if (letter) needed = sizeof(Letter);
  if (needed <= info.max_inline) return false;
  URMA_LOG_LIMITED(ERR,
                   "post: opcode {:#x} needs {} bytes of inline data, and {} has {}; use SEND or "
                   "WRITE, or immediate data below 2^31",
                   static_cast<int>(wr.opcode), needed, info.name, info.max_inline);
  return true;
}

// A queue pair is no deeper: further requests of the program wait here.
constexpr uint32_t kMaxSends = 1024;
// Completion queue entries beyond one for each request of the program: most requests take one
// request of the device, and each ending connection one mark.
constexpr uint32_t kSpareCompletions = 64;

// Device requests for one of the program's: see Path::proof_.
uint32_t requests_for_each(const DeviceInfo& info) { return info.iwarp() ? 2 : 1; }

uint32_t completions_for(const ContextResources& resources, uint32_t depth) {
  const uint64_t requests = uint64_t{depth} * requests_for_each(resources.device->info());
  const uint64_t wanted = requests + depth / 4 + kSpareCompletions;
  const auto most = static_cast<uint64_t>(resources.device->info().limits.orig_attr.max_cqe);
  return static_cast<uint32_t>(std::min(wanted, most));
}

uint32_t pieces_of_read(const DeviceInfo& info) {
  // 0 if the device does not say.
  const int at_once = info.limits.orig_attr.max_sge_rd;
  return at_once > 0 ? static_cast<uint32_t>(at_once) : 1;
}

}  // namespace

Sender::Sender(const ContextResources& resources, const urma_jfs_cfg_t& cfg,
               const QueueIdentity& identity, const urma_jetty_id_t& id)
    : urma::Sender(resources.transport, cfg, identity, id,
                   resources.device->info().attr.dev_cap.max_msg_size),
      resources_(resources),
      is_jetty_(identity.jetty),
      post_send_(resources.device->info().soft_iwarp() ? resources.device->api().post_send_quietly
                                                       : resources.device->api().post_send),
      read_pieces_(pieces_of_read(resources.device->info())),
      atomic_right_(resources.device->info().has_atomics() ? URMA_ACCESS_ATOMIC : 0),
      pump_(std::make_shared<CqPump>(
          *resources.device, completions_for(resources, cfg.depth),
          resources.notify->of(*resources.device, jfc().channel()),
          [jfc = static_cast<CompletionQueue*>(cfg.jfc), transport = resources.transport,
           connections = resources.connections] {
            jfc->failed();
            transport->service().post([connections, ended = transport->ended()] {
              if (!*ended) connections->attend();
            });
          })),
      all_credits_(pump_->entries()),
      half_credits_(all_credits_ / 2),
      credits_(all_credits_),
      implicit_imports_([transport = resources.transport, connector = resources.connector](
                            const urma_seg_t& described, urma_token_t token) {
        return ImportRef<RemoteRegion>(
            new RemoteRegion(transport, connector, /*ctx=*/nullptr, described, token));
      }) {
  if (cfg.trans_mode == URMA_TM_UM) {
    datagrams_ = std::make_unique<DatagramSends>(resources, pump_, limits(), cfg);
  } else {
    queue().collected_by(this);
  }
  if (device().iwarp()) proof_ = std::make_unique<DeviceWord>(*resources.device, /*access=*/0);
  list_.pieces.resize(cfg.max_sge + 2 * RequestList::kRequests);
  if (jfc().channel() != nullptr) jfc().channel()->watch(pump_->channel());
  resources_.connections->add_sender(this);
}

Sender::~Sender() {
  resources_.connections->remove_sender(this);
  end();
  pump_->forget_owner();
}

// After this, its memory is the program's again. Not on the thread that opens connections.
void Sender::finish() {
  constexpr std::chrono::microseconds kBetweenLooks(50);
  if (resources_.transport->service().on_thread()) return;
  for (bool lingering = true; lingering;) {
    {
      ForeignScope scope(lock());
      lingering = false;
      for (const auto& path : paths())
        lingering |= static_cast<OffloadedPath*>(path.get())->linger();
      if (lingering) queue().advance_paths();
    }
    if (lingering) std::this_thread::sleep_for(kBetweenLooks);
  }
}

QueueName Sender::name() const { return {id().eid, id().uasid, id().id, is_jetty_}; }

QueuePairLimits Sender::limits() const {
  const auto most = static_cast<uint32_t>(device().limits.orig_attr.max_qp_wr);
  const uint32_t inline_bytes = std::max<uint32_t>(config().max_inline_data, sizeof(Letter));
  const auto most_pieces = static_cast<uint32_t>(device().limits.orig_attr.max_sge);
  QueuePairLimits limits;
  const uint32_t requests = config().depth * requests_for_each(device());
  const uint32_t usual = std::min(requests + config().depth / 4, kMaxSends);
  // Its requests are posted all or none.
  const uint32_t longest_read = (config().max_sge + read_pieces_ - 1) / read_pieces_;
  limits.sends = std::min(std::max(usual, longest_read) + 8, most);
  // One for our header, in mode UM.
  limits.send_sges = std::min(config().max_sge + 1U, most_pieces);
  limits.inline_bytes = std::min(inline_bytes, device().max_inline);
  return limits;
}

Patience Sender::patience() const {
  return {config().err_timeout, config().rnr_retry, /*min_rnr_timer=*/0, config().priority};
}

std::unique_ptr<TargetPath> Sender::make_path(RemoteQueue* target, uint32_t hint) {
  if (config().trans_mode == URMA_TM_UM) return std::make_unique<DatagramPath>(this, target, hint);
  return std::make_unique<Path>(this, target, hint);
}

bool Sender::refuses(const urma_jfs_wr_t& wr) const {
  if (urma::Sender::refuses(wr) || writes_foreign(wr)) return true;
  const DeviceInfo& info = device();
  const bool immediate = wr.opcode == URMA_OPC_SEND_IMM || wr.opcode == URMA_OPC_WRITE_IMM ||
                         wr.opcode == URMA_OPC_SEND_INVALIDATE;
  if (immediate && !info.has_immediates()) {
    URMA_LOG_LIMITED(ERR,
                     "post: opcode {:#x} needs immediate data, which {} does not support; use SEND",
                     static_cast<int>(wr.opcode), info.name);
    return true;
  }
  if (lacks_inline(wr, info)) return true;
  const OpKind kind = kind_of(wr.opcode);
  // TCP may split the data of such a WRITE.
  const bool is_whole = kind == OpKind::kAtomic || (kind == OpKind::kWriteAtomic && info.iwarp());
  if (is_whole && !info.has_atomics()) {
    URMA_LOG_LIMITED(ERR,
                     "post: opcode {:#x} is an atomic, which {} does not support; use a device "
                     "whose max_cas_size is not 0",
                     static_cast<int>(wr.opcode), info.name);
    return true;
  }
  const bool wide = kind == OpKind::kAtomic && wr.cas.src->len > sizeof(uint64_t);
  const bool wide_write = kind == OpKind::kWriteAtomic && bytes_of(wr.rw.src) > sizeof(uint64_t);
  if (!wide && !wide_write) return false;
  URMA_LOG_LIMITED(ERR, "post: an atomic of more than 8 bytes, which {} does not support",
                   info.name);
  return true;
}

uint32_t Sender::enter(OffloadedPath* path) {
  uint32_t index;
  if (free_tags_.empty()) {
    if (tags_.size() == 1U << kTagBits) fail(URMA_ENOMEM, "a queue has {} paths", tags_.size());
    // So that leave() allocates nothing.
    free_tags_.reserve(tags_.size() + 1);
    index = static_cast<uint32_t>(tags_.size());
    tags_.push_back({nullptr, index});
  } else {
    index = free_tags_.back();
    free_tags_.pop_back();
  }
  tags_[index].path = path;
  return tags_[index].tag;
}

void Sender::leave(uint32_t tag) {
  const uint32_t index = tag & ((1U << kTagBits) - 1);
  // Later completions with the old tag belong to nobody.
  tags_[index] = {nullptr, tag + (1U << kTagBits)};
  free_tags_.push_back(index);
}

void Sender::poll_completions() {
  if (credits_ == all_credits_) return;
  int got;
  do {
    got = pump_->poll(completions_.data(), kBatch);
    for (int i = 0; i < got; ++i) {
      if (OffloadedPath* path = path_of(completions_[i])) {
        path->completed(static_cast<uint32_t>(completions_[i].wr_id), completions_[i].status);
      }
    }
  } while (got == kBatch);
}

void Sender::arm() {
  const uint64_t arming = jfc().arming();
  if (armed_for_ == arming && !pump_->rang()) return;
  armed_for_ = arming;
  pump_->arm(/*solicited_only=*/false);
  poll_completions();
  report_oldest();
  // Earlier completions do not ring any more.
  queue().announce();
}

void Sender::report_oldest() {
  // Requests of mode UM are on paths of another kind.
  if (queue().empty() || config().trans_mode == URMA_TM_UM) return;
  const SendEntry& oldest = *queue().oldest();
  if (oldest.state != SendState::kInFlight || oldest.signalled) return;
  auto* const path = static_cast<Path*>(oldest.path);
  // Behind requests of its own path alone, it waits for those of them that are signalled.
  if (queue().posted() - queue().retired() != path->entries) path->report(oldest);
}

bool Sender::others_busy(const SendPath* path) const {
  lock().assume_held();
  return std::any_of(paths().begin(), paths().end(), [path](const auto& other) {
    return other.get() != path && other->outstanding != 0;
  });
}

void Sender::attend() {
  ForeignScope scope(lock());
  if (pump_->lost()) lose_under_way();
  if (queue().empty()) return;
  const bool waiting = queue().advance_paths();
  queue().announce();
  if (waiting) look_after();
}

void Sender::device_failed() {
  ForeignScope scope(lock());
  poll_completions();
  lose_under_way();
}

void Sender::lose_under_way() {
  for (const auto& path : paths()) static_cast<OffloadedPath*>(path.get())->lose();
  // Requests without a path yet find that out themselves.
  if (datagrams_ != nullptr) datagrams_->lose(0);
}

void Sender::connect_ahead(RemoteQueue* target) {
  ForeignScope scope(lock());
  static_cast<Path*>(path_to(target))->connect_ahead();
}

// For a group, the first request chooses the member.
urma_status_t Sender::advise(RemoteQueue* target) {
  if (config().trans_mode == URMA_TM_UM || target->type == URMA_JETTY_GROUP) {
    return urma::Sender::advise(target);
  }
  OwnerScope scope(lock());
  const bool fresh = static_cast<Path*>(path_to(target))->advise();
  return fresh ? URMA_SUCCESS : URMA_EEXIST;
}

urma_status_t Sender::unadvise(RemoteQueue* target) {
  if (config().trans_mode == URMA_TM_UM || target->type == URMA_JETTY_GROUP) return URMA_SUCCESS;
  OwnerScope scope(lock());
  static_cast<Path*>(path_to(target))->unadvise();
  return URMA_SUCCESS;
}

void Sender::close_unwanted() {
  ForeignScope scope(lock());
  close_idle();
}

// Each poll looks again at those still busy.
void Sender::close_idle() {
  has_unwanted_ = false;
  for (const auto& path : paths()) {
    has_unwanted_ |= static_cast<OffloadedPath*>(path.get())->close_unwanted();
  }
}

}  // namespace urma::verbs
