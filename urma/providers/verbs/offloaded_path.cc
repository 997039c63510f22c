// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/offloaded_path.h"

namespace urma::verbs {

OffloadedPath::OffloadedPath(Sender* sender, RemoteQueue* target, uint32_t hint)
    : RequestPath(sender, target, hint), sender_(sender), tag_(sender->enter(this)) {}

OffloadedPath::~OffloadedPath() { sender_->leave(tag_); }

void OffloadedPath::look_up(SendEntry* entry) {
  sender_->implicit_imports().look_up(entry, target()->id.eid);
}

SendEntry* OffloadedPath::next_waiting() const {
  if (idle()) return nullptr;
  return under_way_ == 0 ? first() : next_of(queue().at(last_under_way_));
}

SendEntry* OffloadedPath::next_of(const SendEntry& entry) const {
  return entry.next == kNoEntry ? nullptr : &queue().at(entry.next);
}

void OffloadedPath::set_out(SendEntry* entry) {
  entry->state = SendState::kInFlight;
  ++under_way_;
  last_under_way_ = queue().index_of(entry);
}

void OffloadedPath::end_first(urma_cr_status_t status) {
  if (under_way_ == 0) {
    begin_next();
  } else if (--under_way_ == 0) {
    last_under_way_ = kNoEntry;
  }
  // In this poll, the path's own turn may be over.
  if (doomed_ != 0 && --doomed_ == 0) sender_->close_later();
  queue().complete(take_first(), outcome(status));
}

void OffloadedPath::take_back() {
  if (under_way_ == 0) return;
  SendEntry* entry = first();
  for (; under_way_ != 0; --under_way_, entry = next_of(*entry)) entry->state = SendState::kPending;
  last_under_way_ = kNoEntry;
  begin_next();
}

std::shared_ptr<Connection> OffloadedPath::describe_connection() const {
  auto connection = std::make_shared<Connection>();
  ConnectRequest& request = connection->request;
  request.connection = sender_->resources().connections->next_number();
  request.source = sender_->name();
  request.target = {target()->id.eid, target()->id.id, static_cast<uint32_t>(target()->type),
                    static_cast<uint32_t>(sender_->config().trans_mode), target()->token.token};
  request.hint = hint();
  return connection;
}

}  // namespace urma::verbs
