// SPDX-License-Identifier: MIT
//
// The short way of completions of requests, which makes no call but that of the device.
#include <algorithm>

#include "urma/providers/verbs/path.h"

namespace urma::verbs {

[[gnu::always_inline]] inline void Path::succeeded(uint32_t mark) {
  const uint64_t at = done_ + static_cast<uint32_t>(mark - static_cast<uint32_t>(done_));
  // Of a connection that has gone; its last request bears the number that all went up to.
  if (at > posted_ || at == done_) [[unlikely]]
    return;
  through(at);
  while (under_way_ != 0 && first()->moved <= at) {
    --under_way_;
    messages_ += takes_receive(*first());
    queue().complete(take_first(), URMA_CR_SUCCESS);
  }
}

// The only busy path has all requests of the queue. False where more than one of them has ended, or
// a special one: nothing has happened then.
[[gnu::always_inline]] inline bool Sender::take_oldest(Path* path, const ibv_wc& completion,
                                                       urma_cr_t* cr) {
  SendEntry* entry = queue().oldest();
  const uint64_t at = entry->moved;
  // The most frequent case by far.
  if (completion.status != IBV_WC_SUCCESS || completion.wr_id != path->wr_id(at) ||
      entry->state != SendState::kInFlight || entry->special != 0 || !entry->signalled) {
    return false;
  }
  path->through(at);
  --path->under_way_;
  path->messages_ += receives_for(entry->kind);
  path->take_out(entry);
  queue().leave_at_once(entry, path, cr);
  return true;
}

// Those of the last look from this one on.
void Sender::take_rest(int from, int got) {
  for (int i = from; i < got; ++i) {
    const ibv_wc& completion = completions_[i];
    auto* path = static_cast<Path*>(path_of(completion));
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
inline bool Sender::take_completions() {
  for (const SendPath* path = queue().busy(); path != nullptr; path = path->earlier) {
    if (!static_cast<const Path*>(path)->is_open()) return false;
  }
  take_rest(0, pump_->poll(completions_.data(), kBatch));
  for (const SendPath* path = queue().busy(); path != nullptr; path = path->earlier) {
    if (!static_cast<const Path*>(path)->is_open()) return false;
  }
  return !queue().armed() && !queue().waiting();
}

// For a poll.
int Sender::collect(CompletionQueue* /*poller*/, int count, urma_cr_t* cr) {
  if (queue().empty()) return 0;
  OwnerScope scope(lock());
  // What was found by an earlier look is handed out first.
  if (queue().oldest()->state != SendState::kDone && !take_completions()) [[unlikely]]
    queue().advance_paths();
  if (has_unwanted_) [[unlikely]]
    close_idle();
  return queue().retire(count, cr);
}

// Where one path has all requests, what the device says becomes a record without a stop.
[[gnu::always_inline]] inline int Sender::poll_alone(CompletionQueue* poller, int count,
                                                     urma_cr_t* cr) noexcept {
  if (!lock().enter_biased()) [[unlikely]]
    return poller->poll_rest_guarded(0, count, cr);
  auto* path = static_cast<Path*>(queue().busy());
  if (path == nullptr || path->earlier != nullptr || !path->is_open() || poller->armed())
      [[unlikely]] {
    const bool nothing = queue().empty();
    lock().leave_biased();
    return nothing ? poller->finish_poll(0, cr) : poller->poll_rest_guarded(0, count, cr);
  }
  const int found = pump_->poll(completions_.data(), kBatch);
  const int most = std::min(found, count);
  int got = 0;
  while (got < most && take_oldest(path, completions_[got], cr + got)) ++got;
  if (got == found && got != 0) [[likely]] {
    lock().leave_biased();
    return poller->end_poll(got);
  }
  take_rest(got, found);
  // What was found by an earlier look is handed out, too.
  got += queue().retire(count - got, cr + got);
  lock().leave_biased();
  return poller->finish_poll(got, cr);
}

int Sender::poll_source(CompletionQueue* poller, int count, urma_cr_t* cr,
                        CompletionSource* source) noexcept {
  return static_cast<Sender&>(*source).poll_alone(poller, count, cr);
}

}  // namespace urma::verbs
