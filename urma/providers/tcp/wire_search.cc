// SPDX-License-Identifier: MIT
//
// The search for the owner of an id, at the ports where it may listen, and what its owner is asked
// then.
#include <exception>
#include <utility>
#include <vector>

#include "jetty/network.h"
#include "urma/base/clock.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/tcp/address.h"
#include "urma/providers/tcp/wire.h"

namespace urma::tcp {
namespace {

// Where the owner of an id may listen, in search order.
std::vector<uint16_t> ports_of(const PortRange& range, IdKind kind, uint32_t id) {
  if (kind == IdKind::kToken) return {static_cast<uint16_t>(id >> 16)};
  std::vector<uint16_t> ports;
  for (uint32_t index = 0; index < kPortsOfId; ++index) {
    ports.push_back(port_of(range, block_of(id) * kBlockIds, index));
    const uint16_t own = port_of(range, id, index);
    if (own != ports.back()) ports.push_back(own);
  }
  return ports;
}

}  // namespace

std::optional<PeerWatches::Owner> Wire::owner_at(const Ref& connection) {
  if (connection == nullptr) return std::nullopt;
  using State = PeerWatches::State;
  return PeerWatches::Owner{{connection->number()},
                            connection->gone() ? State::kGone : State::kReached};
}

// Those who ask are told once, in any case.
void Wire::find(IdKind kind, const urma_eid_t& eid, uint32_t id, OnFound found) {
  if (carrier_ == nullptr || stopped_) return found(Answer::kUnreachable, nullptr);
  const Id key = {kind, id, bytes_of(eid)};
  bool listed = false;
  try {
    auto search = searches_.find(key);
    const bool known = search != searches_.end();
    if (!known) {
      await();
      Search begun = {kind, eid, id, is_of_directory(eid) ? loopback_beside(addresses_.all()) : eid,
                      ports_of(names_.range(), kind, id)};
      begun.deadline_ns = monotonic_ns() + timeout_ns_;
      search = searches_.emplace(key, std::move(begun)).first;
    }
    search->second.told.push_back(std::move(found));
    listed = true;
    if (!known) go_on(key);
  } catch (const std::exception& failure) {
    listed ? end_search(key, Answer::kUnreachable, nullptr) : found(Answer::kUnreachable, nullptr);
    URMA_LOG_LIMITED(ERR, "{:#x} cannot be searched for: {}", id, failure.what());
  }
}

void Wire::go_on(const Id& key) {
  const auto found = searches_.find(key);
  if (found == searches_.end() || stopped_) return;
  Search& search = found->second;
  if (search.next == search.ports.size()) return end_search(key, Answer::kUnreachable, nullptr);
  reach({search.at, search.ports[search.next++]}, [this, key](const Ref& connection) {
    if (connection == nullptr) return go_on(key);
    ask(key, connection);
  });
}

void Wire::ask(const Id& key, const Ref& connection) {
  const auto found = searches_.find(key);
  if (found == searches_.end()) return;
  const Search& search = found->second;
  connection->ask(FindBody{0, static_cast<uint32_t>(search.kind), search.id, 0, search.eid},
                  [this, key, connection](Answer answer, const AnswerBody&) {
                    if (answer == Answer::kUnreachable) return look_again(key);
                    if (answer != Answer::kAccepted) return go_on(key);
                    end_search(key, Answer::kAccepted, connection);
                  });
}

// The connection was that of a process that is gone: another one may listen there by now.
void Wire::look_again(const Id& key) {
  const auto found = searches_.find(key);
  if (found == searches_.end()) return;
  Search& search = found->second;
  if (!std::exchange(search.again, true)) --search.next;
  go_on(key);
}

void Wire::end_search(const Id& key, Answer answer, const Ref& connection) {
  auto search = searches_.extract(key);
  if (search.empty()) return;
  const Search& ended = search.mapped();
  for (const OnFound& told : ended.told) {
    guarded(URMA_LOG_SITE, [&] { told(answer, connection); });
  }
  if (connection != nullptr) {
    watches_->look_now(ended.kind, ended.eid, ended.id, owner_at(connection));
  }
}

void Wire::probe(const ProbeTarget& target, std::function<void(Answer)> answered) {
  find(id_kind(target.type), target.eid, target.id,
       [target, answered = std::move(answered)](Answer answer, const Ref& connection) {
         if (connection == nullptr) return answered(answer);
         connection->ask(ProbeBody{0, 0, target},
                         [answered](Answer said, const AnswerBody&) { answered(said); });
       });
}

void Wire::ask_grant(const GrantRequest& request,
                     std::function<void(Answer, const WireGrant&)> answered) {
  find(IdKind::kToken, request.eid, request.token_id,
       [request, answered = std::move(answered)](Answer answer, const Ref& connection) {
         if (connection == nullptr) return answered(answer, {});
         const Wanted& wanted = request.wanted;
         connection->ask(
             AskGrantBody{0, request.token_id, request.token, wanted.access, request.eid, wanted.va,
                          wanted.len},
             [answered, connection](Answer said, const AnswerBody& body) {
               answered(said, {{body.ref, body.base, body.len, body.access, 0}, connection});
             });
       });
}

void Wire::open_way(const WayRequest& request, const std::shared_ptr<SendingEnd>& end) {
  post([this, request, end] {
    find(id_kind(request.type), request.eid, request.id,
         [this, request, end](Answer answer, const Ref& connection) {
           bool asked = false;
           guarded(URMA_LOG_SITE, [&] {
             if (connection != nullptr) connection->open_way(request, end);
             asked = connection != nullptr;
           });
           if (asked) return;
           end->not_found(answer == Answer::kAccepted ? Answer::kUnreachable : answer);
           engine_->serve_senders();
         });
  });
}

void Wire::connect_ahead(const RemoteQueue& target) {
  post([this, kind = id_kind(target.type), id = target.id] {
    find(kind, id.eid, id.id, [](Answer, const Ref&) {});
  });
}

void Wire::lose_connection(const RemoteQueue& target, std::function<void()> lost) {
  post([this, kind = id_kind(target.type), id = target.id, lost = std::move(lost)] {
    find(kind, id.eid, id.id, [this, lost](Answer, const Ref& connection) {
      if (connection != nullptr) connection->end("URMA_FAULT dropped it");
      // Behind what that has posted for those who watch the owner.
      post(lost);
    });
  });
}

}  // namespace urma::tcp
