// SPDX-License-Identifier: MIT
//
// The short way of completions of requests, which makes no call but that of the device.
#include "urma/providers/verbs/path.h"

namespace urma::verbs {

[[gnu::always_inline]] inline void VerbsPath::succeeded(uint32_t mark) {
  const uint64_t at = done_ + static_cast<uint32_t>(mark - static_cast<uint32_t>(done_));
  // Of a connection that has gone.
  if (at > posted_) [[unlikely]]
    return;
  sender_->give_credits(static_cast<uint32_t>(at - done_));
  done_ = at;
  fruitless_ = 0;
  while (under_way_ != 0 && first()->moved <= at) {
    --under_way_;
    messages_ += takes_receive(*first());
    queue().complete(take_first(), URMA_CR_SUCCESS);
  }
}

// The only busy path has all requests of the queue. False where more than one of them has ended, or
// a special one: nothing has happened then.
[[gnu::always_inline]] inline bool VerbsPath::leave_at_once(uint32_t mark, urma_cr_t* cr) {
  const uint64_t at = done_ + static_cast<uint32_t>(mark - static_cast<uint32_t>(done_));
  SendEntry* entry = queue().oldest();
  // The most frequent case by far.
  if (entry->moved != at || entry->state != SendState::kInFlight || entry->special != 0 ||
      !entry->signalled) {
    return false;
  }
  sender_->give_credits(static_cast<uint32_t>(at - done_));
  done_ = at;
  fruitless_ = 0;
  --under_way_;
  messages_ += takes_receive(*entry);
  take_out(entry);
  SendQueue::fill_record(*entry, cr);
  queue().leave_at_once(entry);
  return true;
}

// Those of the last look from this one on.
void VerbsSender::take_rest(int from, int got) {
  for (int i = from; i < got; ++i) {
    const ibv_wc& completion = completions_[i];
    auto* path = static_cast<VerbsPath*>(path_of(completion));
    if (path == nullptr) [[unlikely]]
      continue;
    const auto mark = static_cast<uint32_t>(completion.wr_id);
    if (completion.status == IBV_WC_SUCCESS && !path->emulating()) [[likely]] {
      path->succeeded(mark);
    } else {
      path->completed(mark, completion.status);
    }
  }
}

// True where that is all that there was to do.
inline bool VerbsSender::take_completions() {
  for (const SendPath* path = queue().busy(); path != nullptr; path = path->earlier) {
    if (!static_cast<const VerbsPath*>(path)->settled()) return false;
  }
  take_rest(0, pump_->poll(completions_.data(), kBatch));
  for (const SendPath* path = queue().busy(); path != nullptr; path = path->earlier) {
    if (!static_cast<const VerbsPath*>(path)->is_open()) return false;
  }
  return !queue().armed() && !queue().waiting();
}

// For a poll.
int VerbsSender::collect(CompletionQueue* /*poller*/, int count, urma_cr_t* cr) {
  if (queue().empty()) return 0;
  OwnerScope scope(lock());
  // What was found by an earlier look is handed out first.
  if (queue().oldest()->state != SendState::kDone && !take_completions()) [[unlikely]]
    queue().advance_paths();
  return queue().retire(count, cr);
}

// Where one path has all requests, what the device says becomes a record without a stop.
int VerbsSender::poll_alone(CompletionQueue* poller, int count, urma_cr_t* cr) noexcept {
  if (queue().empty()) return poller->finish_poll(0, cr);
  if (!lock().enter_at_once()) [[unlikely]]
    return poller->poll_rest_guarded(0, count, cr);
  auto* path = static_cast<VerbsPath*>(queue().busy());
  if (path == nullptr || path->earlier != nullptr || !path->is_open() || path->broken() ||
      poller->armed() || queue().oldest()->state == SendState::kDone) [[unlikely]] {
    lock().leave();
    return poller->poll_rest_guarded(0, count, cr);
  }
  const int found = pump_->poll(completions_.data(), kBatch);
  int got = 0;
  int looked_at = 0;
  for (; looked_at < found && got < count; ++looked_at) {
    const ibv_wc& completion = completions_[looked_at];
    if (completion.status != IBV_WC_SUCCESS || completion.wr_id >> 32 != path->tag() ||
        !path->leave_at_once(static_cast<uint32_t>(completion.wr_id), cr + got)) {
      break;
    }
    ++got;
  }
  if (looked_at != found) [[unlikely]] {
    take_rest(looked_at, found);
    got += queue().retire(count - got, cr + got);
  }
  lock().leave_at_once();
  if (got == 0 || looked_at != found) [[unlikely]]
    return poller->finish_poll(got, cr);
  return poller->end_poll(got);
}

}  // namespace urma::verbs
