// SPDX-License-Identifier: MIT
#ifndef TEST_VERBS_TEST_CONNECTOR_H_
#define TEST_VERBS_TEST_CONNECTOR_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "urma/providers/verbs/receiver.h"

namespace urma::verbs {

// Finds the other end in this process.
class TestConnector : public Connector {
 public:
  TestConnector(Service* service, Connections* connections, const ContextResources* resources)
      : service_(service), connections_(connections), resources_(resources) {}

  void connect(const std::shared_ptr<QueuePair>& /*pair*/, const ConnectRequest& request,
               std::function<void(const ConnectAnswer&)> answered) override;
  // Before the device ends.
  void close() {
    one_sided.clear();
    no_completions_.reset();
  }
  void release() {
    for (auto& answer : std::exchange(waiting_, {})) service_->post(std::move(answer));
  }
  void disconnect(const ConnectRequest& request, DisconnectReason /*reason*/) override;
  void turn_away(uint64_t /*nonce*/, const ConnectRequest& request, DisconnectReason reason,
                 uint64_t received) override {
    connections_->turned_away(request.connection, reason, received);
  }
  void ask_end(const ConnectRequest& request, const Request& question, OnReply answered) override;
  // For the key of a segment.
  void ask(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& question,
           OnReply answered) override;

  std::map<uint32_t, Endpoint> endpoints;             // by id
  std::map<uint32_t, SegmentReply> grants;            // by token id
  std::vector<std::shared_ptr<QueuePair>> one_sided;  // ends that accept no message
  Answer refusal = Answer::kAccepted;
  std::optional<LinkLayer> other_link;  // that the other end reports
  bool hold = false;
  int connects = 0;
  uint64_t last_connection = 0;
  bool knows_count = true;  // of the messages of a connection
  int disconnects = 0;
  int settles = 0;
  int asks = 0;

 private:
  // How many messages a connection to this receiver has brought.
  Reply settle(Receiver* receiver, const ConnectRequest& request);

  Service* const service_;
  Connections* const connections_;
  const ContextResources* const resources_;
  std::shared_ptr<CqPump> no_completions_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_TEST_CONNECTOR_H_
