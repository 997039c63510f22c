// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/transport.h"

#include <utility>

#include "jetty/faulty.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/base/text.h"
#include "urma/providers/verbs/datagram_queue.h"
#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/receiver.h"
#include "urma/providers/verbs/remote_region.h"
#include "urma/providers/verbs/sender.h"

namespace urma::verbs {
namespace {

// How long an ended receiver may take to say so, and how many messages it has received.
constexpr uint64_t kLastWordNs = 500'000'000;

PortAddress address_at(const Device& device, uint32_t eid_index) {
  const urma_eid_t& eid = device.info().eids[eid_index].eid;
  const auto address = device.find_address(eid);
  if (!address.has_value()) {
    fail(URMA_EINVAL,
         "create_context: {} has lost the address of eid_index {}; restore it, or restart the "
         "program",
         device.info().name, eid_index);
  }
  return *address;
}

}  // namespace

Transport::Transport(std::shared_ptr<Device> device, Service* service,
                     const TransportConfig& config, std::unique_ptr<Faults> faults)
    : urma::Transport(service, std::move(faults)),
      device_(std::move(device)),
      config_(config),
      ids_(this, config.nonce),
      network_(&device_->api(), address_at(*device_, config.eid_index).netdev),
      connections_(service, config.most_senders),
      registrations_(device_.get(), &segments()),
      asking_(config.silence_ns),
      watches_(service, &asking_),
      server_(this) {
  for (const PortAddress& address : device_->info().eids) eids_.push_back(address.eid);
  resources_ = {this,          device_.get(),          address_at(*device_, config.eid_index),
                &asking_,      &registrations_.keys(), &notify_,
                &connections_, &registrations_};
  ControlConfig control = {};
  control.eid = eids_[config.eid_index];
  control.link_layer = device_->info().link_layer;
  control.nonce = config.nonce;
  control.silence_ns = config.silence_ns;
  open_connections();
  this->service().run([&] {
    control_ = std::make_unique<Control>(&this->service(), &network_, &server_, control);
    asking_.start(control_.get(), &server_);
    watches_.start(control_.get());
    if (channel_ == nullptr) return;
    try {
      channel_->start();
    } catch (...) {
      control_.reset();
      throw;
    }
  });
}

// Before any call can come.
void Transport::open_connections() {
  if (!device_->info().iwarp()) return;
  const PortAddress& address = resources_.origin;
  const CmConfig config = {address.eid, address.netdev, config_.nonce, config_.silence_ns};
  channel_ = std::make_unique<CmChannel>(*device_);
  acceptor_ = std::make_unique<CmAcceptor>(channel_.get(), config);
  connector_ = std::make_unique<CmConnector>(
      channel_.get(), &asking_, config,
      [this](const ConnectRequest& request) { explain_break(request); });
  resources_.connector = connector_.get();
}

// iWARP reports only that a connection has ended. Its owner says why, or is gone.
void Transport::explain_break(const ConnectRequest& request) {
  probe(request.target, [this, request](Answer answer) {
    if (answer != Answer::kNoSuchObject) return end_broken(request, answer);
    if (last_words_.contains(request.connection)) return;
    last_words_[request.connection] = service().after(kLastWordNs, [this, request, answer] {
      last_words_.erase(request.connection);
      guarded(URMA_LOG_SITE, [&] { end_broken(request, answer); });
    });
  });
}

void Transport::end_broken(const ConnectRequest& request, Answer answer) {
  const bool stands = answer == Answer::kAccepted;
  const urma_cr_status_t status = stands ? URMA_CR_REM_OPERATION_ERR : status_of(answer);
  if (!connections_.broke(request.connection, status)) return;
  URMA_LOG_LIMITED(
      WARNING, "the connection of queue {:#x} to id {:#x} has ended: {}", request.source.id,
      request.target.id,
      stands ? "its receiver had no receive, or refused a request" : answer_text(answer));
  serve_senders();
}

void Transport::abandon() {
  find_sender([](urma::Sender& sender) {
    sender.set_state(URMA_JETTY_STATE_RESET);
    return false;
  });
  visit_receivers([](urma::Receiver& receiver) { receiver.set_state(URMA_JFR_STATE_ERROR); });
  stop();
  registrations_.clear();
  service().run([this] { device_->stop_events(); });
}

void Transport::stop() {
  if (stopped()) return;
  service().run([this] {
    end_service();
    watches_.stop();
    if (channel_ != nullptr) {
      channel_->stop();
      connector_->stop();
      acceptor_.reset();
    }
    asking_.stop();
    control_.reset();
    server_.close_ends();
    for (const auto& [connection, timer] : last_words_) this->service().cancel(timer);
  });
  // Not on the service thread: waits for connections being made.
  connector_.reset();
  channel_.reset();
  // Run what was posted meanwhile before anything it refers to goes.
  service().run([this] { cancel_timers(); });
  service().run([] {});
}

std::unique_ptr<urma::Sender> Transport::make_sender(const urma_jfs_cfg_t& cfg,
                                                     const QueueIdentity& identity,
                                                     const urma_jetty_id_t& id) {
  return make_own_sender<Sender, Path, DatagramPath>(faults(), resources_, cfg, identity, id);
}

std::unique_ptr<urma::Receiver> Transport::make_receiver(const urma_jfr_cfg_t& cfg,
                                                         const QueueIdentity& identity,
                                                         const urma_eid_t& /*eid*/,
                                                         EventSubject* subject) {
  return std::make_unique<Receiver>(resources_, cfg, identity, subject);
}

bool Transport::claim(uint32_t block) {
  bool claimed = false;
  service().run([&] { claimed = control_->names().claim(block); });
  return claimed;
}

void Transport::unregister(Segment* segment) {
  registrations_.withdraw(static_cast<KeyedSegment*>(segment));
  quiesce();
  registrations_.remove(segment->ref);
}

ImportedSegment* Transport::import_segment(urma_context_t* ctx, const urma_seg_t& seg,
                                           urma_token_t token, uint32_t /*access*/) {
  auto segment = std::make_unique<RemoteRegion>(this, &asking_, ctx, seg, token);
  // Usually answered before the first request. The memory meant by va 0 is not known yet.
  if (seg.ubva.va != 0) segment->ask();
  return segment.release();
}

void Transport::probe(const ProbeTarget& target, std::function<void(Answer)> answered) {
  asking_.ask(target.eid, id_kind(target.type), target.id, ProbeRequest{target},
              [answered = std::move(answered)](const Reply& reply, const PeerRef&) {
                answered(reply.answer);
              });
}

// The sending queue is not known yet, but this finds the owner.
void Transport::connect_ahead(const RemoteQueue& target) {
  const ProbeTarget asked = {target.id.eid, target.id.id, static_cast<uint32_t>(target.type),
                             static_cast<uint32_t>(target.trans_mode), target.token.token};
  service().post([this, asked, ended = ended()] {
    if (*ended) return;
    guarded(URMA_LOG_SITE, [&] { probe(asked, [](Answer) {}); });
  });
}

void Transport::list_connections(size_t most,
                                 std::vector<urma_ext_connection_t>* connections) const {
  const size_t first = connections->size();
  connections_.append_to(connections, most);
  incoming_.append_to(connections, most);
  for (size_t i = first; i < connections->size(); ++i) {
    copy_text((*connections)[i].device, device_->info().name.c_str());
  }
}

// At once, so that no later request to the target uses the ended connection; other requests to its
// process, and its watchers, follow.
void Transport::lose_connection(const RemoteQueue& target, std::function<void()> lost) {
  service().post(
      [this, connections = connections_.lose(target), lost = std::move(lost), ended = ended()] {
        if (*ended) return;
        guarded(URMA_LOG_SITE, [&] {
          for (const uint64_t connection : connections) {
            const std::optional<PeerRef> owner = asking_.owner_of(connection);
            if (!owner.has_value()) continue;
            for (const uint64_t other : asking_.connections_to(*owner)) connections_.lost(other);
            watches_.take_for_lost(*owner);
          }
        });
        lost();
        serve_senders();
      });
}

}  // namespace urma::verbs
