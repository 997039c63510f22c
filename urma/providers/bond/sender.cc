// SPDX-License-Identifier: MIT
#include "urma/providers/bond/sender.h"

#include "urma/providers/bond/transport.h"

namespace urma::bond {
namespace {

// Replaces the segments of a one-sided request that are not of the kind that `imports` has.
template <typename Imports>
void replace_segments(SendEntry* entry, bool over_wire, Imports* imports) {
  if (entry->remote != nullptr && entry->remote->over_wire() != over_wire) {
    imports->look_elsewhere(
        {&entry->remote, entry->remote_addr, entry->bytes, right_of(entry->kind)});
  }
  if (entry->notified != nullptr && entry->notified->over_wire() != over_wire) {
    imports->look_elsewhere(
        {&entry->notified, entry->notified_addr, sizeof(uint64_t), URMA_ACCESS_WRITE});
  }
}

}  // namespace

void NearPath::look_up(SendEntry* entry) {
  replace_segments(entry, /*over_wire=*/false, &sender()->implicit_imports());
  QueuePath::look_up(entry);
}

void FarPath::look_up(SendEntry* entry) {
  replace_segments(entry, /*over_wire=*/true, &half().implicit_imports);
  WirePath::look_up(entry);
}

Sender::Sender(Transport* transport, const urma_jfs_cfg_t& cfg, const QueueIdentity& identity,
               const urma_jetty_id_t& id)
    : shm::Sender(transport, cfg, identity, id),
      transport_(transport),
      half_(&transport->engine(), /*has_alternative=*/true) {}

bool Sender::takes_other_path(const RemoteQueue& target) const {
  return !transport_->is_near(id_kind(target.type), target.id.eid, target.id.id);
}

std::unique_ptr<TargetPath> Sender::make_path(RemoteQueue* target, uint32_t hint) {
  if (takes_other_path(*target)) return std::make_unique<FarPath>(this, target, hint);
  return std::make_unique<NearPath>(this, target, hint);
}

void Sender::go_on_posted(TargetPath* path) {
  if (is_far(*path)) {
    if (path != last_far_) push_last();
    last_far_ = path;
    end_later();
  }
  half_.posting = is_far(*path);
  go_on(path);
  half_.posting = false;
}

void Sender::end_post() {
  push_last();
  last_far_ = nullptr;
}

void Sender::push_last() {
  for (const auto& path : paths()) {
    if (path.get() == last_far_ && is_far(*path)) static_cast<FarPath&>(*path).push();
  }
}

}  // namespace urma::bond
