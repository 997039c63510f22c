// SPDX-License-Identifier: MIT
#include "urma/providers/local/sender.h"

#include <algorithm>
#include <cstring>

#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/local/direct.h"
#include "urma/providers/local/transport.h"

namespace urma::local {
Sender::Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
               const urma_jetty_id_t& id)
    : transport_(transport), cfg_(cfg), id_(id), queue_(cfg, identity, kMaxMessageBytes) {
  transport_->add_sender(this);
}

Sender::~Sender() { transport_->remove_sender(this); }

urma_status_t Sender::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) {
  OwnerScope scope(queue_.lock());
  for (; wr != nullptr; wr = wr->next) {
    const urma_status_t status = guarded(URMA_LOG_SITE, [&] { return post_one(*wr); });
    if (status != URMA_SUCCESS) {
      *bad_wr = wr;
      return status;
    }
  }
  return URMA_SUCCESS;
}

bool Sender::post_direct(const urma_jfs_wr_t& wr) {
  const RemoteQueue* target =
      cfg_.trans_mode == URMA_TM_RC ? bound_ : static_cast<const RemoteQueue*>(wr.tjetty);
  // Behind requests that wait, and where reads must be awaited first, it is not simple.
  if (target == nullptr || last_path_ == nullptr || last_path_->serial() != target->serial ||
      !last_path_->idle() || wr.flag.bs.fence != 0) {
    return false;
  }
  return wr.opcode == URMA_OPC_SEND || wr.opcode == URMA_OPC_SEND_IMM ? send_direct(wr)
                                                                      : access_direct(wr);
}

bool Sender::access_direct(const urma_jfs_wr_t& wr) {
  DirectAccess access;
  if (!view_direct(wr, cfg_.max_inline_data, &access)) return false;
  if (wr.flag.bs.complete_enable == 0) {
    execute_direct(access);
    return true;
  }
  SendEntry* entry = queue_.reserve();
  if (entry == nullptr) return false;
  execute_direct(access);
  entry->user_ctx = wr.user_ctx;
  entry->bytes = access.bytes;
  entry->path = last_path_;
  queue_.commit_done(entry);
  return true;
}

bool Sender::send_direct(const urma_jfs_wr_t& wr) {
  DirectSend send;
  if (!view_direct(wr, cfg_.max_inline_data, &send)) return false;
  // First: what it may do to make room can end the ring.
  SendEntry* entry = queue_.reserve();
  if (entry == nullptr || !last_path_->takes_now(send.bytes)) return false;
  entry->user_ctx = wr.user_ctx;
  entry->bytes = send.bytes;
  entry->operand[0] = send.immediate;
  entry->remote = nullptr;
  entry->path = last_path_;
  entry->kind = OpKind::kSend;
  entry->opcode = static_cast<uint8_t>(wr.opcode);
  entry->signalled = wr.flag.bs.complete_enable != 0;
  entry->solicited = wr.flag.bs.solicited_enable != 0;
  last_path_->publish_now(*entry, send.data);
  queue_.commit(entry);
  entry->state = SendState::kInFlight;
  // SYNC(bell): the queue is not empty any more, and the bell is looked at behind; pairs with the
  // barrier in CompletionQueue::arm.
  light_barrier();
  if (jfc().armed()) [[unlikely]]
    look_after();
  return true;
}

urma_status_t Sender::post_one(const urma_jfs_wr_t& wr) {
  if (post_direct(wr)) return URMA_SUCCESS;
  RequestView view;
  const urma_status_t refused = view_request(wr, queue_.limits(), &view);
  if (refused != URMA_SUCCESS) return refused;
  RemoteQueue* target = target_of(wr);
  if (target == nullptr) return URMA_EINVAL;
  SendEntry* entry = queue_.reserve();
  if (entry == nullptr) {
    URMA_LOG_LIMITED(WARNING,
                     "post: queue {:#x} already holds its depth of {} requests; poll its "
                     "JFC first",
                     id_.id, cfg_.depth);
    return URMA_ENOMEM;
  }
  QueuePath* path = path_to(target);
  const urma_status_t status = fill(wr, view, entry);
  if (status != URMA_SUCCESS) return status;
  entry->path = path;
  queue_.commit(entry);
  path->enqueue(entry);
  const bool waiting = path->advance();
  if (waiting) queue_.set_waiting();
  queue_.announce();
  if (waiting || jfc().armed()) look_after();
  return URMA_SUCCESS;
}

void Sender::look_after() {
  // Sequentially consistent, as the accesses in serve() and tick(): either this thread sees that
  // no tick is due and starts one, or the tick sees that this sender has something pending.
  if (!pending_.exchange(true)) transport_->watch_pending();
}

// NULL, with one log line, where the request has none.
RemoteQueue* Sender::target_of(const urma_jfs_wr_t& wr) const {
  if (cfg_.trans_mode == URMA_TM_RC) {
    if (bound_ == nullptr) {
      URMA_LOG_LIMITED(ERR, "post: RC jetty {:#x} has no peer; call urma_bind_jetty first", id_.id);
    }
    return bound_;
  }
  if (wr.tjetty == nullptr) {
    URMA_LOG_LIMITED(ERR, "post: tjetty is NULL; in RM mode each request names its target");
  }
  return static_cast<RemoteQueue*>(wr.tjetty);
}

void Sender::bind(RemoteQueue* target) {
  ForeignScope scope(queue_.lock());
  bound_ = target;
}

void Sender::unbind() {
  ForeignScope scope(queue_.lock());
  bound_ = nullptr;
  for (const auto& path : paths_) path->flush();
  queue_.announce();
}

urma_status_t Sender::fill(const urma_jfs_wr_t& wr, const RequestView& view, SendEntry* entry) {
  *entry = {};
  entry->user_ctx = wr.user_ctx;
  entry->bytes = view.bytes;
  entry->kind = view.kind;
  entry->opcode = static_cast<uint8_t>(wr.opcode);
  entry->signalled = wr.flag.bs.complete_enable != 0;
  entry->solicited = wr.flag.bs.solicited_enable != 0;
  entry->fence = wr.flag.bs.fence != 0;
  if (wr.flag.bs.inline_flag != 0) {
    for (const urma_sge_t& sge : view.local) {
      std::memcpy(SendQueue::inline_data(entry) + entry->inline_bytes,
                  reinterpret_cast<const void*>(sge.addr), sge.len);
      entry->inline_bytes += sge.len;
    }
  } else {
    entry->pieces = static_cast<uint16_t>(view.local.size());
    for (size_t i = 0; i < view.local.size(); ++i) {
      if (!local_piece(view.local[i], &SendQueue::pieces(entry)[i])) return URMA_EINVAL;
    }
  }
  if (view.kind == OpKind::kAtomic) {
    // faa.operand lies where cas.cmp_data does.
    entry->operand[0] = wr.cas.cmp_data;
    entry->operand[1] = wr.opcode == URMA_OPC_CAS ? wr.cas.swap_data : 0;
  } else {
    entry->operand[0] = view.immediate;
  }
  if (view.remote == nullptr) return URMA_SUCCESS;
  auto* handle = static_cast<SegmentHandle*>(view.remote->tseg);
  if (handle->registered) {
    URMA_LOG_LIMITED(ERR,
                     "post: the remote sge names a segment that was registered here; import it "
                     "first");
    return URMA_EINVAL;
  }
  auto* segment = static_cast<RemoteSegment*>(handle);
  segment->add_ref();  // dropped when the path is through with the request
  entry->remote = segment;
  entry->remote_addr = view.remote->addr;
  return URMA_SUCCESS;
}

QueuePath* Sender::path_to(RemoteQueue* target) {
  if (last_path_ != nullptr && last_path_->serial() == target->serial) return last_path_;
  for (const auto& path : paths_) {
    if (path->serial() == target->serial) return last_path_ = path.get();
  }
  last_path_ = nullptr;
  std::erase_if(paths_, [](const auto& path) { return path->unused(); });
  queue_.expect_paths(paths_.size() + 1);
  paths_.push_back(std::make_unique<QueuePath>(this, target));
  return last_path_ = paths_.back().get();
}

bool Sender::serve() {
  const bool asleep = jfc().armed() && !queue_.empty();
  if (!pending_.load() && !asleep) return false;
  const uint64_t polls = jfc().polls();
  if (polls != polls_seen_ && queue_.waiting()) {
    polls_seen_ = polls;
    return true;
  }
  ForeignScope scope(queue_.lock());
  for (const auto& path : paths_) path->insist();
  // Requests in flight of a program that sleeps are looked after, too: their receiver may need a
  // hint.
  const bool waiting = queue_.advance_paths() || (jfc().armed() && !queue_.empty());
  pending_.store(waiting);
  return waiting;
}

bool Sender::serve_armed() {
  if (!jfc().armed() || queue_.empty()) return false;
  ForeignScope scope(queue_.lock());
  queue_.advance_paths();
  return queue_.more() && jfc().armed();
}

void Sender::quiesce() {
  if (!queue_.empty()) ForeignScope scope(queue_.lock());
}

}  // namespace urma::local
