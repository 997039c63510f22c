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
  SearchRef search;  // once it has `found`
  try {
    const Id key = {kind, id, bytes_of(eid)};
    const auto known = searches_.find(key);
    if (known != searches_.end()) return known->second->told.push_back(std::move(found));
    await();
    const auto begun = std::make_shared<Search>(
        Search{kind, eid, id, is_of_directory(eid) ? loopback_beside(addresses_.all()) : eid,
               ports_of(names_.range(), kind, id), monotonic_ns() + timeout_ns_});
    begun->told.push_back(std::move(found));
    search = begun;
    searches_[key] = search;
    go_on(search);
  } catch (const std::exception& failure) {
    search != nullptr ? end_search(search, Answer::kUnreachable, nullptr)
                      : found(Answer::kUnreachable, nullptr);
    URMA_LOG_LIMITED(ERR, "{:#x} cannot be searched for: {}", id, failure.what());
  }
}

// One that cannot go on ends.
template <typename Step>
void Wire::take_step(const SearchRef& search, const Step& step) {
  if (search->over) return;
  const urma_status_t taken = guarded(URMA_LOG_SITE, [&] {
    step();
    return URMA_SUCCESS;
  });
  if (taken != URMA_SUCCESS) end_search(search, Answer::kUnreachable, nullptr);
}

void Wire::go_on(const SearchRef& search) {
  if (stopped_) return;
  take_step(search, [&] {
    if (search->next == search->ports.size()) {
      return end_search(search, Answer::kUnreachable, nullptr);
    }
    reach({search->at, search->ports[search->next++]}, [this, search](const Ref& connection) {
      connection == nullptr ? go_on(search) : ask(search, connection);
    });
  });
}

void Wire::reach(const Address& to, std::function<void(const Ref&)> told) {
  const auto known = by_address_.find(to);
  if (known != by_address_.end()) {
    const auto greeting = greetings_.find(known->second->number());
    if (greeting != greetings_.end()) {
      // It may have begun late in a search that has ended since.
      if (greeting->second.agreed_by_ns == 0 && silence_at(to) != nullptr) return told(nullptr);
      greeting->second.told.push_back(std::move(told));
      return;
    }
    const Ref connection = known->second;
    if (!connection->gone()) return told(connection);
    by_address_.erase(known);
  }
  const Silence* const silence = silence_at(to);
  const bool silent = silence != nullptr;
  // One that was connected is looked for, though nobody waits: it, or another process in its place,
  // may answer by now, and the next request finds it then.
  if (silent && silence->process == Peer()) return told(nullptr);
  std::string why;
  std::unique_ptr<Stream> stream =
      carrier_->connect(source_for(addresses_.all(), to.eid), to, &why);
  if (stream == nullptr) {
    URMA_LOG_LIMITED(WARNING, "{} cannot be reached: {}", text_of(to), why);
    return told(nullptr);
  }
  const Ref connection = add(std::move(stream), true);
  by_address_[to] = connection;
  await();
  if (silent) return told(nullptr);
  greetings_[connection->number()].told.push_back(std::move(told));
}

void Wire::ask(const SearchRef& search, const Ref& connection) {
  const auto answered = [this, search, connection](Answer answer, const AnswerBody&) {
    if (answer == Answer::kAccepted) return end_search(search, answer, connection);
    // The connection was that of a process that is gone: another one may listen there by now.
    const bool gone = answer == Answer::kUnreachable;
    if (gone && !std::exchange(search->again, true)) --search->next;
    go_on(search);
  };
  take_step(search, [&] {
    connection->ask(FindBody{0, static_cast<uint32_t>(search->kind), search->id, 0, search->eid},
                    answered);
  });
}

void Wire::end_search(const SearchRef& search, Answer answer, const Ref& connection) {
  if (std::exchange(search->over, true)) return;
  searches_.erase({search->kind, search->id, bytes_of(search->eid)});
  // They own what asked, and a question under way keeps the search.
  for (const OnFound& told : std::exchange(search->told, {})) {
    const auto tell = [&](Answer said, const Ref& found) {
      return guarded(URMA_LOG_SITE, [&] { return told(said, found), URMA_SUCCESS; });
    };
    // Who has no memory to ask on gets the answer that needs none.
    if (tell(answer, connection) != URMA_SUCCESS && connection != nullptr) {
      tell(Answer::kUnreachable, nullptr);
    }
  }
  if (connection == nullptr) return;
  guarded(URMA_LOG_SITE,
          [&] { watches_->look_now(search->kind, search->eid, search->id, owner_at(connection)); });
}

void Wire::end_late_searches(uint64_t now) {
  std::vector<SearchRef> late;
  for (const auto& [key, search] : searches_) {
    if (now >= search->deadline_ns) late.push_back(search);
  }
  for (const SearchRef& search : late) {
    // The end of another one may have ended it.
    if (search->over) continue;
    was_late(*search);
    end_search(search, Answer::kUnreachable, nullptr);
  }
}

void Wire::was_late(const Search& search) {
  if (search.next == 0) return;
  const Address there = {search.at, search.ports[search.next - 1]};
  const auto asked = by_address_.find(there);
  const bool known = asked != by_address_.end();
  const auto greeting = known ? greetings_.find(asked->second->number()) : greetings_.end();
  const bool greets = greeting != greetings_.end() && greeting->second.agreed_by_ns == 0;
  // A peer that has greeted is judged by its connection.
  if (known && !greets) return;
  was_silent(there);
  // If it is the host that does not answer, nobody does at the other ports.
  if (!known || asked->second->met_host()) return;
  for (const uint16_t port : search.ports) was_silent({search.at, port});
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
  OnFound found = [this, request, end](Answer answer, const Ref& connection) {
    if (connection != nullptr) return connection->open_way(request, end);
    end->answered(answer);
    engine_->serve_senders();
  };
  // It needs no memory any more on the service thread, where nobody would be told.
  post([this, kind = id_kind(request.type), eid = request.eid, id = request.id,
        found = std::move(found)]() mutable { find(kind, eid, id, std::move(found)); });
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
