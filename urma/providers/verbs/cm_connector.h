// SPDX-License-Identifier: MIT
//
// The calling ends of iWARP's connections: librdmacm connects what the control messages have agreed
// on.
#ifndef URMA_PROVIDERS_VERBS_CM_CONNECTOR_H_
#define URMA_PROVIDERS_VERBS_CM_CONNECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "urma/providers/verbs/cm_caller.h"
#include "urma/providers/verbs/cm_channel.h"
#include "urma/providers/verbs/connector.h"

namespace urma::verbs {

// Of one context.
struct CmConfig {
  urma_eid_t eid;
  uint32_t netdev;       // PortAddress's
  uint64_t nonce;        // of the control messages
  uint64_t patience_ns;  // how long a peer may take to answer
};

// Asks as another connector does, then connects. On the service thread, except construction and
// destruction.
class CmConnector final : public Connector {
 public:
  // `broke` hears of connections that end without disconnect().
  CmConnector(CmChannel* channel, Connector* asking, const CmConfig& config,
              std::function<void(const ConnectRequest& request)> broke);
  // After stop(). Waits until calls in the kernel have succeeded or failed.
  ~CmConnector() override;

  // Connections being made get kUnreachable, and so do later questions.
  void stop();

  void connect(const std::shared_ptr<QueuePair>& pair, const ConnectRequest& request,
               std::function<void(const ConnectAnswer&)> answered) override;
  void disconnect(const ConnectRequest& request, DisconnectReason reason) override;
  void turn_away(uint64_t nonce, const ConnectRequest& request, DisconnectReason reason,
                 uint64_t received) override {
    asking_->turn_away(nonce, request, reason, received);
  }
  void ask_end(const ConnectRequest& request, const Request& question, OnReply answered) override {
    asking_->ask_end(request, question, std::move(answered));
  }
  void ask(const urma_eid_t& eid, IdKind kind, uint32_t id, const Request& question,
           OnReply answered) override {
    asking_->ask(eid, kind, id, question, std::move(answered));
  }

 private:
  class Link;

  void begin(const std::shared_ptr<QueuePair>& pair, const ConnectRequest& request,
             const ConnectAnswer& answer,
             const std::function<void(const ConnectAnswer&)>& answered);
  void confirm(const ConnectRequest& request);

  CmChannel* const channel_;
  Connector* const asking_;
  const CmConfig config_;
  const std::function<void(const ConnectRequest& request)> broke_;
  const std::shared_ptr<bool> stopped_ = std::make_shared<bool>(false);
  std::unordered_map<uint64_t, std::unique_ptr<Link>> links_;
  CmCaller caller_;  // ends first: its calls use the ids of the links
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CM_CONNECTOR_H_
