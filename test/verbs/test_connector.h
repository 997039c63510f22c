// SPDX-License-Identifier: MIT
#ifndef TEST_VERBS_TEST_CONNECTOR_H_
#define TEST_VERBS_TEST_CONNECTOR_H_

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "urma/providers/verbs/one_sided_end.h"
#include "urma/providers/verbs/receiver.h"

namespace urma::verbs {

// Finds the other end in this process.
class TestConnector : public Connector {
 public:
  TestConnector(Service* service, Connections* connections, const ContextResources* resources)
      : service_(service), connections_(connections), resources_(resources) {}

  void connect(const std::shared_ptr<QueuePair>& /*pair*/, const ConnectRequest& request,
               std::function<void(const ConnectAnswer&)> answered) override {
    ++connects;
    waiting_.push_back([=, this] {
      ConnectAnswer answer;
      const auto endpoint = endpoints.find(request.target.id);
      std::shared_ptr<QueuePair> pair;
      if (refusal != Answer::kAccepted) {
        answer.answer = refusal;
      } else if (request.one_sided) {
        one_sided.push_back(make_one_sided_end(*resources_, &no_completions_, request.end));
        answer.answer = Answer::kAccepted;
        answer.reply.end = one_sided.back()->address();
      } else if (endpoint != endpoints.end()) {
        auto* receiver = static_cast<VerbsReceiver*>(endpoint->second.receiver);
        answer = receiver->accept(/*nonce=*/1, request, endpoint->second, &pair);
      } else {
        answer.answer = Answer::kNoSuchObject;
      }
      answered(answer);
    });
    if (!hold) release();
  }
  // Before the device goes.
  void close() {
    one_sided.clear();
    no_completions_.reset();
  }
  void release() {
    for (auto& answer : std::exchange(waiting_, {})) service_->post(std::move(answer));
  }
  void disconnect(const ConnectRequest& request, DisconnectReason /*reason*/) override {
    ++disconnects;
    const auto endpoint = endpoints.find(request.target.id);
    if (endpoint == endpoints.end()) return;
    static_cast<VerbsReceiver*>(endpoint->second.receiver)
        ->disconnected(/*nonce=*/1, request.connection);
  }
  void settle(const ConnectRequest& request,
              std::function<void(const CountAnswer&)> answered) override {
    ++settles;
    const auto endpoint = endpoints.find(request.target.id);
    CountAnswer answer;
    if (!knows_count) {
      answer.answer = Answer::kNoResources;
    } else if (endpoint != endpoints.end()) {
      const auto received = static_cast<VerbsReceiver*>(endpoint->second.receiver)
                                ->settle(/*nonce=*/1, request.connection);
      answer = {received.has_value() ? Answer::kAccepted : Answer::kNoResources,
                received.value_or(0)};
    }
    service_->post([=] { answered(answer); });
  }
  void turn_away(uint64_t /*nonce*/, const ConnectRequest& request, DisconnectReason reason,
                 uint64_t received) override {
    connections_->turned_away(request.connection, reason, received);
  }
  void ask_for_fault(const ConnectRequest& request,
                     std::function<void(bool too_long)> answered) override {
    service_->post([=, this] {
      const auto endpoint = endpoints.find(request.target.id);
      answered(endpoint != endpoints.end() &&
               static_cast<VerbsReceiver*>(endpoint->second.receiver)
                   ->found_too_long(/*nonce=*/1, request.connection));
    });
  }
  void ask_for_segment(const SegmentRequest& request,
                       std::function<void(const SegmentAnswer&)> answered) override {
    ++asks;
    service_->post([=, this] {
      const auto known = grants.find(request.token_id);
      answered(known == grants.end() ? SegmentAnswer{Answer::kNoSuchObject}
                                     : SegmentAnswer{Answer::kAccepted, known->second});
    });
  }

  std::map<uint32_t, Endpoint> endpoints;             // by id
  std::map<uint32_t, SegmentReply> grants;            // by token id
  std::vector<std::shared_ptr<QueuePair>> one_sided;  // ends that take no message
  Answer refusal = Answer::kAccepted;
  bool hold = false;
  int connects = 0;
  bool knows_count = true;  // of the messages of a connection
  int disconnects = 0;
  int settles = 0;
  int asks = 0;

 private:
  Service* const service_;
  Connections* const connections_;
  const ContextResources* const resources_;
  std::shared_ptr<CqPump> no_completions_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_TEST_CONNECTOR_H_
