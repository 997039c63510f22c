// SPDX-License-Identifier: MIT
//
// The states of a JFS, or of the sending half of a jetty.
#include "jetty/sender.h"

namespace urma {

bool change_allowed(urma_jetty_state_t from, urma_jetty_state_t to) {
  switch (to) {
    case URMA_JETTY_STATE_RESET:
    case URMA_JETTY_STATE_READY:
    case URMA_JETTY_STATE_ERROR:
      return true;
    case URMA_JETTY_STATE_SUSPENDED:
      return from == URMA_JETTY_STATE_READY || from == URMA_JETTY_STATE_SUSPENDED;
  }
  return false;
}

void Sender::set_state(urma_jetty_state_t state) {
  ForeignScope scope(lock());
  if (queue_.state() == state) return;
  // The short way is open only to requests for the path of the last one.
  shut_short_way();
  if (state == URMA_JETTY_STATE_READY) {
    queue_.resume();
    if (queue_.advance_paths()) look_after();
    return;
  }
  if (state == URMA_JETTY_STATE_RESET) {
    drop_paths();
    queue_.reset();
  } else {
    flush_paths();
    queue_.stop(state);
  }
  queue_.announce();
  // Polls, or otherwise the service thread from time to time, ask for what a peer has to answer
  // first.
  if (!queue_.empty()) look_after();
}

urma_jetty_state_t Sender::state() {
  ForeignScope scope(lock());
  return queue_.state();
}

int Sender::hand_back(int count, urma_cr_t* cr) {
  OwnerScope scope(lock());
  return queue_.hand_back(count, cr);
}

uint64_t Sender::posted() {
  ForeignScope scope(lock());
  return queue_.posted();
}

uint64_t Sender::retired() {
  ForeignScope scope(lock());
  return queue_.retired();
}

void Sender::flush_paths() {
  for (const auto& path : paths_) path->flush();
}

void Sender::drop_paths() {
  for (const auto& path : paths_) path->drop();
}

// A suspended queue keeps the request for later, any other queue gives it back.
void Sender::post_stopped(SendEntry* entry, TargetPath* path) {
  shut_short_way();
  queue_.commit(entry);
  if (queue_.state() == URMA_JETTY_STATE_SUSPENDED) return path->enqueue(entry);
  TargetPath::drop_segments(entry);
  queue_.complete(entry, URMA_CR_WR_FLUSH_ERR);
  queue_.announce();
}

}  // namespace urma
