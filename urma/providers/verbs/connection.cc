// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/connection.h"

#include <utility>

#include "jetty/listing.h"
#include "jetty/network.h"
#include "urma/base/clock.h"
#include "urma/base/log.h"
#include "urma/providers/verbs/connection_list.h"
#include "urma/providers/verbs/sender.h"

namespace urma::verbs {
namespace {

// Sequentially consistent, as in end_connection(): one of the two closes an unwanted connection.
void settle(const ContextResources& resources, const std::shared_ptr<Connection>& connection,
            urma_cr_status_t status) {
  connection->status = status;
  connection->settled.store(true);
  if (connection->given_up.load()) {
    if (status == URMA_CR_SUCCESS && !connection->answer.later()) {
      resources.connector->disconnect(connection->request, DisconnectReason::kClosed);
    }
    if (connection->pair != nullptr) connection->pair->close();
  }
  resources.transport->serve_senders();
}

// On the service thread: what the owner has answered.
void take_answer(const ContextResources& resources, const std::shared_ptr<Connection>& connection,
                 const Patience& patience, const ConnectAnswer& answer) {
  connection->answer = answer;
  const DeviceInfo& info = resources.device->info();
  const bool by_hand = connection->pair != nullptr && !info.iwarp();
  const bool has_end = answer.answer == Answer::kAccepted && by_hand && !answer.later();
  const LinkLayer other = answer.reply.end.link_layer;
  if (has_end && other != info.link_layer) {
    URMA_LOG_LIMITED(WARNING,
                     "connecting to id {:#x}: {} is {}, and the owner's device {}; both sides need "
                     "the same kind of device",
                     connection->request.target.id, info.name, link_text(info.link_layer),
                     link_text(other));
    resources.connector->disconnect(connection->request, DisconnectReason::kFailed);
    connection->answer.answer = Answer::kOtherDevice;
  }
  urma_cr_status_t status = status_of(connection->answer.answer);
  if (has_end && status == URMA_CR_SUCCESS) {
    try {
      connection->pair->receive_from(answer.reply.end, patience);
      connection->pair->send_to(answer.reply.end, patience);
    } catch (const std::exception& error) {
      URMA_LOG_LIMITED(ERR, "connecting to id {:#x}: {}", connection->request.target.id,
                       error.what());
      resources.connector->disconnect(connection->request, DisconnectReason::kFailed);
      status = URMA_CR_LOC_OPERATION_ERR;
    }
  }
  settle(resources, connection, status);
}

void ask_owner(const ContextResources& resources, const std::shared_ptr<Connection>& connection,
               const std::shared_ptr<CqPump>& pump, const QueuePairLimits& limits,
               const Patience& patience) {
  try {
    if (pump != nullptr) {
      const std::weak_ptr<Connection> weak = connection;
      const auto device_failed = [weak, transport = resources.transport,
                                  iwarp = resources.device->info().iwarp()] {
        const std::shared_ptr<Connection> broken = weak.lock();
        // The connection manager of iWARP reports its end too, and that report is explained.
        if (broken == nullptr || iwarp) return;
        broken->broken.store(URMA_CR_REM_OPERATION_ERR);
        transport->serve_senders();
      };
      connection->pair = std::make_shared<QueuePair>(*resources.device, IBV_QPT_RC, pump, nullptr,
                                                     limits, resources.origin, 0, device_failed);
      connection->request.end = connection->pair->address();
    }
    resources.connector->connect(connection->pair, connection->request,
                                 [resources, connection, patience](const ConnectAnswer& answer) {
                                   take_answer(resources, connection, patience, answer);
                                 });
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "connecting to id {:#x}: {}", connection->request.target.id,
                     error.what());
    settle(resources, connection, URMA_CR_LOC_OPERATION_ERR);
  }
}

}  // namespace

void make_connection(const ContextResources& resources,
                     const std::shared_ptr<Connection>& connection,
                     const std::shared_ptr<CqPump>& pump, const QueuePairLimits& limits,
                     const Patience& patience) {
  resources.connections->add(connection);
  resources.transport->service().post([=] {
    if (!connection->given_up.load()) {
      ask_owner(resources, connection, pump, limits, patience);
    }
  });
}

void ask_for_fault(const ContextResources& resources,
                   const std::shared_ptr<Connection>& connection) {
  connection->fault.store(Connection::kFaultAsked);
  resources.transport->service().post([resources, connection] {
    resources.connector->ask_end(
        connection->request, FaultRequest{connection->request.connection},
        [transport = resources.transport, connection](const Reply& reply, const PeerRef&) {
          const auto* body = std::get_if<FaultReply>(&reply.body);
          const bool too_long = body != nullptr && body->too_long;
          connection->fault.store(too_long ? URMA_CR_REM_RESP_LEN_ERR : URMA_CR_REM_OPERATION_ERR);
          transport->serve_senders();
        });
  });
}

void end_connection(const ContextResources& resources,
                    const std::shared_ptr<Connection>& connection) {
  resources.connections->remove(connection->request.connection);
  // Sequentially consistent, as in settle().
  connection->given_up.store(true);
  if (!connection->settled.load()) return;
  if (connection->pair != nullptr) connection->pair->close();
  if (connection->status != URMA_CR_SUCCESS || connection->answer.later()) return;
  resources.transport->service().post(
      [connector = resources.connector, request = connection->request] {
        connector->disconnect(request, DisconnectReason::kClosed);
      });
}

void settle_connection(const ContextResources& resources,
                       const std::shared_ptr<Connection>& connection) {
  connection->count.store(Count::kAsked);
  resources.transport->service().post([=] {
    const ConnectRequest& request = connection->request;
    const DisconnectRequest flushed = {request.connection, /*by_initiator=*/true,
                                       DisconnectReason::kFlushed, /*received=*/0};
    resources.connector->ask_end(request, flushed, [=](const Reply& reply, const PeerRef&) {
      Count count = Count::kUnknown;
      if (const auto* body = std::get_if<DisconnectReply>(&reply.body)) {
        connection->received.store(body->received, std::memory_order_relaxed);
        count = Count::kKnown;
      } else if (reply.answer != Answer::kUnreachable) {
        // A receiver that no longer knows the connection is about to say so itself.
        count = Count::kLater;
      }
      // Unless the receiver has said it unasked.
      Count asked = Count::kAsked;
      connection->count.compare_exchange_strong(asked, count);
      resources.transport->serve_senders();
    });
  });
}

std::shared_ptr<QueuePair> make_one_sided_end(const ContextResources& resources,
                                              std::shared_ptr<CqPump>* no_completions,
                                              const LinkEnd& sender) {
  const Device& device = *resources.device;
  if (*no_completions == nullptr) {
    *no_completions = std::make_shared<CqPump>(device, /*entries=*/1,
                                               resources.notify->of(device, nullptr), [] {});
  }
  auto pair = std::make_shared<QueuePair>(device, IBV_QPT_RC, *no_completions, nullptr,
                                          QueuePairLimits{}, resources.origin, /*qkey=*/0, [] {});
  pair->receive_from(sender, Patience{});
  return pair;
}

void Connections::add_sender(Sender* sender) {
  const MutexLock lock(senders_mutex_);
  senders_.push_back(sender);
}

void Connections::remove_sender(Sender* sender) {
  const MutexLock lock(senders_mutex_);
  std::erase(senders_, sender);
}

void Connections::add(const std::shared_ptr<Connection>& connection) {
  const MutexLock lock(mutex_);
  if (connection->request.target.trans_mode == URMA_TM_UM) {
    datagrams_[connection->request.connection] = connection;
    return;
  }
  const uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed);
  connection->used.store(now, std::memory_order_relaxed);
  connection->begun_ns = monotonic_ns();
  if (connections_.size() >= most_) make_room();
  connections_[connection->request.connection] = connection;
  if (connections_.size() >= most_) full_.store(true, std::memory_order_relaxed);
}

void Connections::remove(uint64_t number) {
  const MutexLock lock(mutex_);
  connections_.erase(number);
  datagrams_.erase(number);
}

size_t Connections::count() {
  const MutexLock lock(mutex_);
  return connections_.size();
}

void Connections::append_to(std::vector<urma_ext_connection_t>* connections, size_t most) const {
  const MutexLock lock(mutex_);
  for (const auto& [number, known] : connections_) {
    const std::shared_ptr<Connection> connection = known.lock();
    if (connection == nullptr) continue;
    require_room(*connections, 1, most);
    connections->push_back(describe_sending(*connection));
  }
}

// Asks one connection to give way. It may take a while to become idle; the new one does not wait.
void Connections::make_room() {
  std::shared_ptr<Connection> oldest;
  for (const auto& [number, known] : connections_) {
    std::shared_ptr<Connection> connection = known.lock();
    if (connection == nullptr || connection->unwanted.load(std::memory_order_relaxed)) continue;
    const auto used = [](const auto& of) { return of->used.load(std::memory_order_relaxed); };
    if (oldest == nullptr || used(connection) < used(oldest)) oldest = std::move(connection);
  }
  if (oldest == nullptr) return;
  oldest->unwanted.store(true, std::memory_order_relaxed);
  service_->post([this] {
    const MutexLock lock(senders_mutex_);
    for (Sender* sender : senders_) sender->close_unwanted();
  });
}

void Connections::turned_away(uint64_t number, DisconnectReason reason, uint64_t received) {
  const std::shared_ptr<Connection> connection = find(number);
  if (connection == nullptr) return;
  connection->received.store(received, std::memory_order_relaxed);
  connection->count.store(Count::kKnown, std::memory_order_release);
  switch (reason) {
    case DisconnectReason::kUnbound:
      return break_off(connection.get(), kPostAgain);
    case DisconnectReason::kFailed:
      return break_off(connection.get(), URMA_CR_REM_OPERATION_ERR);
    default:
      return break_off(connection.get(), URMA_CR_REM_ACCESS_ABORT_ERR);
  }
}

void Connections::lost(uint64_t number) {
  const std::shared_ptr<Connection> connection = find(number);
  if (connection != nullptr) break_off(connection.get(), URMA_CR_ACK_TIMEOUT_ERR);
}

std::vector<uint64_t> Connections::lose(const RemoteQueue& target) {
  std::vector<uint64_t> lost;
  const MutexLock lock(mutex_);
  for (const auto& [number, known] : connections_) {
    const std::shared_ptr<Connection> connection = known.lock();
    if (connection == nullptr) continue;
    const ProbeTarget& led_to = connection->request.target;
    if (led_to.id != target.id.id || led_to.type != static_cast<uint32_t>(target.type) ||
        !same_eid(led_to.eid, target.id.eid)) {
      continue;
    }
    // An error of this side's device stays.
    uint32_t intact = URMA_CR_SUCCESS;
    connection->broken.compare_exchange_strong(intact, URMA_CR_ACK_TIMEOUT_ERR);
    lost.push_back(number);
  }
  return lost;
}

void Connections::break_off(Connection* connection, uint32_t status) {
  // Once this side's device has failed, what the peer says only follows from that.
  if (connection->broken.load() == URMA_CR_LOC_OPERATION_ERR) return;
  connection->broken.store(status);
  attend();
}

void Connections::device_failed() {
  {
    const MutexLock lock(senders_mutex_);
    for (Sender* sender : senders_) sender->device_failed();
  }
  attend();
}

bool Connections::broke(uint64_t number, urma_cr_status_t status) {
  const std::shared_ptr<Connection> connection = find(number);
  uint32_t stands = URMA_CR_SUCCESS;
  if (connection == nullptr) return false;
  const bool news = connection->broken.compare_exchange_strong(stands, status);
  attend();
  return news;
}

void Connections::attend() {
  if (attending_) return;
  service_->post([this] {
    attending_ = false;
    const MutexLock lock(senders_mutex_);
    for (Sender* sender : senders_) sender->attend();
  });
  attending_ = true;
}

std::shared_ptr<Connection> Connections::find(uint64_t number) {
  const MutexLock lock(mutex_);
  for (const auto* all : {&connections_, &datagrams_}) {
    const auto known = all->find(number);
    if (known != all->end()) return known->second.lock();
  }
  return nullptr;
}

}  // namespace urma::verbs
