// SPDX-License-Identifier: MIT
#include "test/verbs/test_connector.h"

namespace urma::verbs {

void TestConnector::connect(const std::shared_ptr<QueuePair>& /*pair*/,
                            const ConnectRequest& request,
                            std::function<void(const ConnectAnswer&)> answered) {
  ++connects;
  last_connection = request.connection;
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
      auto* receiver = static_cast<Receiver*>(endpoint->second.receiver);
      answer = receiver->accept(/*nonce=*/1, request, endpoint->second, &pair);
      answer.reply.member_id = endpoint->second.identity.id;
    } else {
      answer.answer = Answer::kNoSuchObject;
    }
    if (other_link.has_value()) answer.reply.end.link_layer = *other_link;
    answered(answer);
  });
  if (!hold) release();
}

void TestConnector::disconnect(const ConnectRequest& request, DisconnectReason /*reason*/) {
  ++disconnects;
  const auto endpoint = endpoints.find(request.target.id);
  if (endpoint == endpoints.end()) return;
  static_cast<Receiver*>(endpoint->second.receiver)->disconnected(/*nonce=*/1, request.connection);
}

Reply TestConnector::settle(Receiver* receiver, const ConnectRequest& request) {
  ++settles;
  if (!knows_count) return {Answer::kNoResources, {}};
  if (receiver == nullptr) return {Answer::kUnreachable, {}};
  const auto received = receiver->settle(/*nonce=*/1, request.connection);
  if (!received.has_value()) return {Answer::kNoResources, {}};
  return {Answer::kAccepted, DisconnectReply{*received}};
}

void TestConnector::ask_end(const ConnectRequest& request, const Request& question,
                            OnReply answered) {
  const auto find_receiver = [=, this] {
    const auto endpoint = endpoints.find(request.target.id);
    return endpoint == endpoints.end() ? nullptr
                                       : static_cast<Receiver*>(endpoint->second.receiver);
  };
  if (std::holds_alternative<DisconnectRequest>(question)) {
    const Reply counted = settle(find_receiver(), request);
    return service_->post([=] { answered(counted, {}); });
  }
  service_->post([=, this] {
    if (!std::holds_alternative<FaultRequest>(question))
      return answered({Answer::kAccepted, {}}, {});
    Receiver* const receiver = find_receiver();
    const bool too_long =
        receiver != nullptr && receiver->found_too_long(/*nonce=*/1, request.connection);
    answered({Answer::kAccepted, FaultReply{too_long}}, {});
  });
}

void TestConnector::ask(const urma_eid_t&, IdKind, uint32_t id, const Request&, OnReply answered) {
  ++asks;
  service_->post([=, this] {
    const auto known = grants.find(id);
    if (known == grants.end()) return answered({Answer::kNoSuchObject, {}}, {});
    answered({Answer::kAccepted, known->second}, {});
  });
}

}  // namespace urma::verbs
