// SPDX-License-Identifier: MIT
#include "tools/ping/responder.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace ping {
namespace {

constexpr uint32_t kSlots = 256;
constexpr uint32_t kClientDepth = 16;  // replies in flight to one client
constexpr size_t kMaxClients = 256;

}  // namespace

Responder::Responder(const Settings& settings, const Place& place)
    : settings_(settings), port_(place, kWellKnownId, kSlots) {}

void Responder::serve() {
  port_.arm();
  urma_cr_t record;
  while (port_.poll(&record)) {
    if (record.flag.bs.s_r != 0) {
      answer(record);
    } else {
      take_sent(record);
    }
  }
}

// A slot receives again once its reply was sent, or at once if there is none.
void Responder::answer(const urma_cr_t& record) {
  if (record.status == URMA_CR_SUCCESS && record.opcode == URMA_CR_OPC_SEND_WITH_IMM) {
    if (reply(record)) return;
    ++lost_;
  }
  port_.receive(static_cast<uint32_t>(record.user_ctx));
}

bool Responder::reply(const urma_cr_t& record) {
  Client* client = find_client(record.remote_id);
  if (client == nullptr || client->failed || client->under_way == kClientDepth) return false;
  const auto slot = static_cast<uint32_t>(record.user_ctx);
  urma_sge_t sge;
  urma_jfs_wr_t wr =
      port_.request(slot, record.completion_len, record.imm_data, client->target.get(), &sge);
  wr.user_ctx = slot;
  urma_jfs_wr_t* bad = nullptr;
  if (urma_post_jfs_wr(client->queue.get(), &wr, &bad) != URMA_SUCCESS) return false;
  ++client->under_way;
  ++answered_;
  if (settings_.verbose) {
    std::printf("%u bytes from %s: seq=%llu\n", record.completion_len,
                to_text(record.remote_id.eid).c_str(),
                static_cast<unsigned long long>(record.imm_data));
  }
  return true;
}

void Responder::take_sent(const urma_cr_t& record) {
  port_.receive(static_cast<uint32_t>(record.user_ctx));
  const auto found = by_queue_.find(record.local_id);
  if (found == by_queue_.end()) return;
  Client& client = *found->second;
  --client.under_way;
  if (record.status != URMA_CR_SUCCESS) client.failed = true;
  if (client.failed && client.under_way == 0) remove(found->second);
}

Responder::Client* Responder::find_client(const urma_jetty_id_t& id) {
  const Key key = {to_text(id.eid), id.uasid, id.id};
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return add_client(key, id);
  clients_.splice(clients_.begin(), clients_, found->second);
  return &*found->second;
}

Responder::Client* Responder::add_client(const Key& key, const urma_jetty_id_t& id) {
  if (!make_room()) return nullptr;
  Client client;
  client.key = key;
  client.target = port_.import(id.eid, id.id, URMA_JETTY);
  client.queue = port_.make_send_queue(kClientDepth);
  if (client.target == nullptr || client.queue == nullptr) return nullptr;
  clients_.push_front(std::move(client));
  by_key_[key] = clients_.begin();
  by_queue_[clients_.front().queue->jfs_id.id] = clients_.begin();
  return &clients_.front();
}

// Forgets the client that was silent longest, among those without replies in flight.
bool Responder::make_room() {
  if (clients_.size() < kMaxClients) return true;
  for (auto client = clients_.end(); client != clients_.begin();) {
    if ((--client)->under_way != 0) continue;
    remove(client);
    return true;
  }
  return false;
}

void Responder::remove(Clients::iterator client) {
  by_key_.erase(client->key);
  by_queue_.erase(client->queue->jfs_id.id);
  clients_.erase(client);
}

namespace {

void print_end(const Settings& settings, const std::list<Responder>& responders) {
  uint64_t answered = 0;
  uint64_t lost = 0;
  for (const Responder& responder : responders) {
    answered += responder.answered();
    lost += responder.lost();
  }
  if (!settings.json) {
    std::printf("%llu packets answered, %llu not\n", static_cast<unsigned long long>(answered),
                static_cast<unsigned long long>(lost));
    return;
  }
  const nlohmann::ordered_json json = {{"answered", answered}, {"not_answered", lost}};
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

int listen(const Settings& settings, const std::vector<Place>& places, Signals* signals) {
  std::list<Responder> responders;
  std::vector<int> fds;
  for (const Place& place : places) {
    const Port& port = responders.emplace_back(settings, place).port();
    fds.push_back(port.fd());
    if (settings.quiet) continue;
    std::printf("URMA_PING responder at %s, device %s, jetty %u\n", to_text(place.eid).c_str(),
                place.device->name, kWellKnownId);
  }
  while (!signals->raised()) {
    for (Responder& responder : responders) responder.serve();
    signals->wait(fds, Clock::time_point::max());
    for (Responder& responder : responders) responder.disarm();
  }
  print_end(settings, responders);
  return 0;
}

}  // namespace ping
