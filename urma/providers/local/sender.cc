// SPDX-License-Identifier: MIT
#include "urma/providers/local/sender.h"

#include <algorithm>
#include <cstring>

#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/local/transport.h"

namespace urma::local {
namespace {

// What one request may move; its length travels in 32 bits.
constexpr uint64_t kMaxMessage = 1ULL << 31;

}  // namespace

Sender::Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
               const urma_jetty_id_t& id)
    : transport_(transport), cfg_(cfg), id_(id), queue_(cfg, identity, kMaxMessage) {
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

urma_status_t Sender::post_one(const urma_jfs_wr_t& wr) {
  RequestView view;
  const urma_status_t refused = view_request(wr, queue_.limits(), &view);
  if (refused != URMA_SUCCESS) return refused;
  if (wr.tjetty == nullptr) {
    URMA_LOG_LIMITED(ERR, "post: tjetty is NULL; in RM mode each request names its target");
    return URMA_EINVAL;
  }
  SendEntry* entry = queue_.reserve();
  if (entry == nullptr) {
    URMA_LOG_LIMITED(WARNING,
                     "post: queue {:#x} already holds its depth of {} requests; poll its "
                     "JFC first",
                     id_.id, cfg_.depth);
    return URMA_ENOMEM;
  }
  QueuePath* path = path_to(static_cast<RemoteQueue*>(wr.tjetty));
  const urma_status_t status = fill(wr, view, entry);
  if (status != URMA_SUCCESS) return status;
  entry->path = path;
  queue_.commit(entry);
  path->enqueue(entry);
  if (path->advance()) {
    queue_.set_waiting();
    // Sequentially consistent, as the accesses in serve() and tick(): either this thread sees that
    // no tick is due and starts one, or the tick sees that this sender has something pending.
    if (!pending_.exchange(true)) transport_->watch_pending();
  }
  return URMA_SUCCESS;
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
  paths_.push_back(std::make_unique<QueuePath>(this, target));
  return last_path_ = paths_.back().get();
}

bool Sender::serve() {
  if (!pending_.load()) return false;
  const auto* jfc = static_cast<const CompletionQueue*>(cfg_.jfc);
  const uint64_t polls = jfc->polls();
  if (polls != polls_seen_ && queue_.waiting()) {
    polls_seen_ = polls;
    return true;
  }
  ForeignScope scope(queue_.lock());
  const bool waiting = queue_.advance_paths();
  pending_.store(waiting);
  return waiting;
}

void Sender::quiesce() {
  if (!queue_.empty()) ForeignScope scope(queue_.lock());
}

}  // namespace urma::local
