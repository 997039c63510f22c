// SPDX-License-Identifier: MIT
#include "urma/providers/shm/transport.h"

#include <bit>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "jetty/faulty.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/server.h"

namespace urma::shm {
namespace {

// Bytes of pages made private before other work on this thread gets its turn: some milliseconds.
constexpr uint64_t kTakeBackPerTurn = 8 << 20;
constexpr uint64_t kNsPerMs = 1'000'000;
// How long the end of the library waits for owners that have to take a ring. A running one does so
// within a millisecond.
constexpr std::chrono::milliseconds kLastOpenings(100);

OwnerKey key_of(const Link& link) { return {link.serial()}; }

// This one included. A process that was killed counts until it is cleaned up.
size_t count_processes(int dir_fd) {
  std::error_code error;
  size_t count = 0;
  std::filesystem::directory_iterator file(urma::format("/proc/self/fd/{}", dir_fd), error);
  for (; !error && file != end(file); file.increment(error)) {
    if (file->path().filename().native().starts_with("slot-")) ++count;
  }
  return count;
}

}  // namespace

// A provider with opaque memory has several devices, and faults for each of them.
Transport::Transport(const char* name, const urma_host& host, bool has_opaque)
    : DirectoryTransport(host,
                         has_opaque ? nullptr : Faults::parse(host.settings->text("URMA_FAULT"))),
      name_(name),
      has_opaque_(has_opaque),
      pages_(host.pages),
      ring_bytes_(
          std::bit_floor(static_cast<uint32_t>(host.settings->number("URMA_SHM_RING_SIZE")))),
      patience_ns_(host.settings->number("URMA_SHM_TIMEOUT_MS") * kNsPerMs),
      busy_poll_ns_(host.settings->number("URMA_BUSY_POLL_US") * 1000),
      staged_(host.settings->text("URMA_SHM_COPY") == "staged"),
      watches_(&service(), [this](IdKind kind, const urma_eid_t& eid, uint32_t id,
                                  const PeerWatches::OnFound& found) {
        const std::shared_ptr<Link> link = link_to(kind, eid, id);
        if (link == nullptr) return found(std::nullopt);
        using State = PeerWatches::State;
        // One that had hung up is not found again.
        found(PeerWatches::Owner{key_of(*link), link->gone() ? State::kRefused : State::kReached});
      }) {
  enter_process_barrier();
  segments().set_take_back([this](SharedPages::RangeId pages) {
    guarded(URMA_LOG_SITE, [&] { take_back_some(pages); });
  });
  service().run([this] { server_ = std::make_unique<Server>(this, name_); });
}

Transport::~Transport() { stop(); }

void Transport::stop() {
  if (stopped()) return;
  await_openings();
  kept_segments_.close();
  service().run([this] {
    end_service();
    service_ends();
    watches_.stop();
    server_.reset();
    for (auto& [slot, link] : links_) link->stop();
    links_.clear();
  });
  // What was posted while that ran is done before anything it refers to goes.
  service().run([this] { cancel_timers(); });
}

void Transport::opening_begins() {
  const MutexLock lock(openings_mutex_);
  ++openings_;
}

void Transport::opening_ends() {
  const MutexLock lock(openings_mutex_);
  --openings_;
  opening_ended_.notify_all();
}

// Messages in such a ring are received even if their queue is gone.
void Transport::await_openings() {
  // Afterwards all that were asked for have begun.
  service().run([] {});
  const MutexLock lock(openings_mutex_);
  const auto deadline = std::chrono::steady_clock::now() + kLastOpenings;
  while (openings_ != 0 && opening_ended_.wait_until(openings_mutex_, deadline)) {
  }
}

std::shared_ptr<Link> Transport::link_to(IdKind kind, const urma_eid_t& eid, uint32_t id) {
  if (stopped()) return nullptr;
  const std::optional<uint32_t> slot = owner_slot(kind, eid, id);
  return slot.has_value() ? link_to(*slot) : nullptr;
}

void Transport::log_absence(const char* kind, uint32_t id) const {
  URMA_LOG_LIMITED(
      WARNING,
      "no process in {} answers for {} {:#x} (processes there: {}); see that the other "
      "program runs, as the same user, with the same URMA_RUNTIME_DIR or "
      "XDG_RUNTIME_DIR, and without PrivateTmp",
      runtime().path(), kind, id, count_processes(runtime().dir_fd()));
}

std::shared_ptr<Link> Transport::link_to(uint32_t slot) {
  if (stopped()) return nullptr;
  drop_gone_links();
  const auto known = links_.find(slot);
  if (known != links_.end()) return known->second;
  const auto on_stop = [this](const std::shared_ptr<Link>& ended) {
    serve_senders();
    service().post([this, ended] {
      ended->hung_up() ? watches_.lost(key_of(*ended)) : watches_.look_again(key_of(*ended));
      // Otherwise the last one would keep its descriptors until there is another one.
      drop_gone_links();
      kept_segments_.drop_ended();
    });
  };
  auto link = std::make_shared<Link>(
      &service(), &runtime(), runtime().socket_name(slot, name_.c_str()), segments().words_fd(),
      patience_ns_,
      Link::Calls{on_stop, [this] { take_over(); }, [this] { kept_segments_.drop_ended(); }});
  if (staged_) link->stage_copies();
  links_.emplace(slot, link);
  link->start();
  return link;
}

void Transport::drop_gone_links() {
  std::erase_if(links_, [](const auto& entry) { return entry.second->gone(); });
}

void Transport::forget_channel(EventChannel* channel) {
  service().run([this, channel] {
    if (server_ != nullptr) server_->forget(channel);
    for (auto& [slot, link] : links_) link->wakeups().forget(channel);
  });
}

std::unique_ptr<TargetPath> Transport::make_path(Sender* sender, RemoteQueue* target,
                                                 uint32_t hint) {
  return std::make_unique<QueuePath>(sender, target, hint);
}

std::unique_ptr<urma::Sender> Transport::make_sender(const urma_jfs_cfg_t& cfg,
                                                     const QueueIdentity& identity,
                                                     const urma_jetty_id_t& id) {
  return make_own_sender<Sender, QueuePath>(faults(), this, cfg, identity, id);
}

std::unique_ptr<urma::Receiver> Transport::make_receiver(const urma_jfr_cfg_t& cfg,
                                                         const QueueIdentity& identity,
                                                         const urma_eid_t& /*eid*/,
                                                         EventSubject* subject) {
  return std::make_unique<Receiver>(cfg, identity, subject, this);
}

// What peers can map of it is given back unless the table takes it in.
void Transport::enter(Segment* segment) {
  try {
    if (segment->opaque_len == 0) require_writable(*segment);
    if (pages_ != nullptr && segment->access != 0 && segment->opaque_len == 0) {
      segment->pages = pages_->add(
          segment->base, segment->len,
          {segment->token_id_value, segment->token_policy, segment->token.token, segment->access});
    }
    segments().add(segment);
  } catch (...) {
    if (segment->pages != 0) pages_->remove(segment->pages);
    throw;
  }
}

RemoteSegment* Transport::take_kept(urma_context_t* ctx, const urma_seg_t& seg, urma_token_t token,
                                    uint32_t access) {
  if (seg.attr.bs.dsva == URMA_DSVA_ENABLE) return nullptr;
  RemoteSegmentRef segment(kept_segments_.take(ctx, seg, token, access));
  if (segment != nullptr) segment->wake(ctx, seg);
  return segment.release();
}

ImportedSegment* Transport::import_segment(urma_context_t* ctx, const urma_seg_t& seg,
                                           urma_token_t token, uint32_t access) {
  RemoteSegment* const kept = take_kept(ctx, seg, token, access);
  return kept != nullptr ? kept : import_new(ctx, seg, token, access);
}

// The first request usually finds the answer there. With va 0 it is not known yet which memory is
// meant.
ImportedSegment* Transport::import_new(urma_context_t* ctx, const urma_seg_t& seg,
                                       urma_token_t token, uint32_t access) {
  RemoteSegmentRef segment(new RemoteSegment(this, ctx, seg, token, access));
  if (seg.ubva.va != 0) segment->ask();
  return segment.release();
}

RemoteSegmentRef Transport::import_memory(const urma_seg_t& seg, urma_token_t token) {
  RemoteSegment* const kept = take_kept(/*ctx=*/nullptr, seg, token, /*access=*/0);
  return RemoteSegmentRef(
      kept != nullptr ? kept : new RemoteSegment(this, /*ctx=*/nullptr, seg, token, /*access=*/0));
}

void Transport::probe(const ProbeTarget& target, std::function<void(Answer)> answered) {
  Request request = {};
  request.type = RequestType::kProbe;
  request.probe = {target.eid, target.id, target.type, target.trans_mode, target.token};
  const auto link = link_to(id_kind(target.type), target.eid, target.id);
  if (link == nullptr) return answered(Answer::kUnreachable);
  link->request(request, {}, [answered](const Reply& reply, Attached&) { answered(reply.answer); });
}

// Chosen ids are names of files, one for each kind; for others only the owner knows.
void Transport::require_kind(const urma_jetty_id_t& id, urma_target_type_t type) {
  if (type == URMA_JETTY_GROUP || id.id > kMaxChosenId) return;
  const auto other = type == URMA_JFR ? URMA_JETTY : URMA_JFR;
  if (owner_slot(id_kind(type), id.eid, id.id).has_value() ||
      !owner_slot(id_kind(other), id.eid, id.id).has_value()) {
    return;
  }
  fail(URMA_EINVAL, "import: id {:#x} is a {}, not a {}; import it as its own kind", id.id,
       target_name(other), target_name(type));
}

void Transport::connect_ahead(const RemoteQueue& target) {
  service().post([this, id = target.id, kind = id_kind(target.type)] {
    guarded(URMA_LOG_SITE, [&] { link_to(kind, id.eid, id.id); });
  });
}

void Transport::lose_connection(const RemoteQueue& target, std::function<void()> lost) {
  service().post(
      [this, ended = ended(), kind = id_kind(target.type), id = target.id, lost = std::move(lost)] {
        if (*ended) return;
        guarded(URMA_LOG_SITE, [&] {
          const std::shared_ptr<Link> link = link_to(kind, id.eid, id.id);
          if (link != nullptr) link->hang_up();
        });
        // Behind what that has posted for those who watch the owner.
        service().post(lost);
      });
}

void Transport::unregister(Segment* segment) {
  segments().remove(segment);
  if (segment->granted) {
    tell_peers(segment->ref);
    peer_writes_.await();
  }
  quiesce();
  find_sender([](urma::Sender& sender) {
    static_cast<Sender&>(sender).take_back_unregistered();
    return false;
  });
  let_go(segment);
  // Together with the rest of a peer's invalidation.
  if (segment->pages != 0) pages_->remove(segment->pages);
}

// Peers look before each access; this is for what they keep. If memory is short, they keep it
// until they ask for something else.
void Transport::tell_peers(SegmentRef ended_ref) {
  guarded(URMA_LOG_SITE, [&] {
    service().post([this, ended_ref, ended = ended()] {
      if (!*ended) server_->end_grant(ended_ref);
    });
  });
}

// The rest waits after everything else on this thread, or for the unregistration.
void Transport::take_back_some(SharedPages::RangeId pages) {
  service().post([this, pages, ended = ended()] {
    if (*ended) return;
    guarded(URMA_LOG_SITE, [&] {
      if (!pages_->remove_some(pages, kTakeBackPerTurn)) take_back_some(pages);
    });
  });
}

std::vector<urma_ext_part_t> Transport::parts(const urma_target_seg_t& segment) const {
  const auto& handle = static_cast<const SegmentHandle&>(segment);
  if (!handle.registered) return static_cast<const RemoteSegment&>(handle).parts();
  const auto& own = static_cast<const Segment&>(handle);
  if (own.opaque_len != 0) {
    return {{own.base, own.opaque_len, URMA_EXT_PATH_DEVICE, URMA_EXT_REASON_NONE}};
  }
  std::vector<SharedPart> shared_parts;
  if (own.pages != 0) shared_parts = pages_->parts(own.pages);
  if (shared_parts.empty()) {
    // Nobody can import it without remote access, nor after a peer has invalidated it.
    const bool allowed = own.access != 0 && own.pages == 0;
    const auto reason = allowed ? URMA_EXT_REASON_OFF : URMA_EXT_REASON_NOT_IMPORTED;
    return {{own.base, own.len, URMA_EXT_PATH_COPIED, reason}};
  }
  std::vector<urma_ext_part_t> parts;
  for (const SharedPart& part : shared_parts) {
    const bool shared = part.fd >= 0;
    parts.push_back({part.va, part.len, shared ? URMA_EXT_PATH_MAPPED : URMA_EXT_PATH_COPIED,
                     shared ? URMA_EXT_REASON_NONE : part.reason});
  }
  return parts;
}

}  // namespace urma::shm
