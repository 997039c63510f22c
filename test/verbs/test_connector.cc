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

void TestConnector::settle(const ConnectRequest& request,
                           std::function<void(const CountAnswer&)> answered) {
  ++settles;
  const auto endpoint = endpoints.find(request.target.id);
  CountAnswer answer;
  if (!knows_count) {
    answer.answer = Answer::kNoResources;
  } else if (endpoint != endpoints.end()) {
    const auto received =
        static_cast<Receiver*>(endpoint->second.receiver)->settle(/*nonce=*/1, request.connection);
    answer = {received.has_value() ? Answer::kAccepted : Answer::kNoResources,
              received.value_or(0)};
  }
  service_->post([=] { answered(answer); });
}

void TestConnector::ask_for_fault(const ConnectRequest& request,
                                  std::function<void(bool too_long)> answered) {
  service_->post([=, this] {
    const auto endpoint = endpoints.find(request.target.id);
    answered(endpoint != endpoints.end() && static_cast<Receiver*>(endpoint->second.receiver)
                                                ->found_too_long(/*nonce=*/1, request.connection));
  });
}

void TestConnector::ask_for_segment(const SegmentRequest& request,
                                    std::function<void(const SegmentAnswer&)> answered) {
  ++asks;
  service_->post([=, this] {
    const auto known = grants.find(request.token_id);
    answered(known == grants.end() ? SegmentAnswer{Answer::kNoSuchObject}
                                   : SegmentAnswer{Answer::kAccepted, known->second});
  });
}

}  // namespace urma::verbs
