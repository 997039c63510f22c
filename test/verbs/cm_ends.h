// SPDX-License-Identifier: MIT
//
// iWARP contexts in one process, without control messages: the test answers questions.
#ifndef TEST_VERBS_CM_ENDS_H_
#define TEST_VERBS_CM_ENDS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test/verbs/data_path.h"
#include "urma/providers/verbs/cm_acceptor.h"
#include "urma/providers/verbs/cm_connector.h"
#include "urma/providers/verbs/queue_pair.h"

namespace urma::verbs {

// Gives the answers that it was told.
class ScriptedAsking : public Connector {
 public:
  explicit ScriptedAsking(Service* service) : service_(service) {}

  void connect(const std::shared_ptr<QueuePair>&, const ConnectRequest&,
               std::function<void(const ConnectAnswer&)> answered) override {
    service_->post([this, answered = std::move(answered)] { answered(answer); });
  }
  void disconnect(const ConnectRequest& request, DisconnectReason reason) override {
    disconnects.emplace_back(request.connection, reason);
  }
  void turn_away(uint64_t, const ConnectRequest&, DisconnectReason, uint64_t) override {}
  // Only whether it is there is asked.
  void ask_end(const ConnectRequest&, const Request& question, OnReply answered) override {
    ASSERT_TRUE(std::holds_alternative<PingRequest>(question));
    signs.push_back(std::move(answered));
    if (gives_sign) release_signs(/*there=*/true);
  }
  void release_signs(bool there) {
    for (auto& answered : std::exchange(signs, {})) {
      service_->post([answered = std::move(answered), there] {
        answered({there ? Answer::kAccepted : Answer::kUnreachable, {}}, {});
      });
    }
  }
  void ask(const urma_eid_t&, IdKind, uint32_t, const Request&, OnReply) override {}

  ConnectAnswer answer;
  bool gives_sign = true;
  std::vector<OnReply> signs;  // that are asked for
  std::vector<std::pair<uint64_t, DisconnectReason>> disconnects;

 private:
  Service* const service_;
};

// A host with one device, a context on it, and a queue pair.
struct CmEnd {
  CmEnd(Service* service, const Api* api, uint8_t host, uint64_t patience_ns)
      : nonce(0x1000U + host), asking(service) {
    std::string why;
    for (const DeviceInfo& info : find_devices(*api, &why)) {
      if (info.ibdev == name_of(host)) device = std::make_unique<Device>(api, service, info);
    }
    const PortAddress& at = device->info().eids.front();
    config = {at.eid, at.netdev, nonce, patience_ns};
    channel = std::make_unique<CmChannel>(*device);
    acceptor = std::make_unique<CmAcceptor>(channel.get(), config);
    connector = std::make_unique<CmConnector>(
        channel.get(), &asking, config,
        [this](const ConnectRequest& request) { broken.push_back(request.connection); });
    channel->start();
    pump = std::make_shared<CqPump>(*device, 64, std::make_shared<NotifyChannel>(*device), [] {});
    pair = make_pair();
  }
  ~CmEnd() {
    channel->stop();
    connector->stop();
    acceptor.reset();
    connector.reset();
  }
  CmEnd(const CmEnd&) = delete;
  CmEnd& operator=(const CmEnd&) = delete;

  static std::string name_of(uint8_t host) { return "iw" + std::to_string(host); }
  static FakeDeviceOptions options_of(uint8_t host) {
    FakeDeviceOptions options;
    options.name = name_of(host);
    options.iwarp = true;
    options.gids = {{"10.0.0." + std::to_string(host), IBV_GID_TYPE_ROCE_V2, host}};
    return options;
  }

  std::shared_ptr<QueuePair> make_pair() {
    const PortAddress origin = {config.eid, 0, config.netdev};
    return std::make_shared<QueuePair>(*device, IBV_QPT_RC, pump, nullptr, QueuePairLimits{8, 1},
                                       origin, 0, [] {});
  }
  PeerRef ref() const { return {address_of(config.eid, LinkLayer::kIwarp, 7000), nonce}; }

  const uint64_t nonce;
  ScriptedAsking asking;
  std::unique_ptr<Device> device;
  CmConfig config;
  std::unique_ptr<CmChannel> channel;
  std::unique_ptr<CmAcceptor> acceptor;
  std::vector<uint64_t> broken;
  std::unique_ptr<CmConnector> connector;
  std::shared_ptr<CqPump> pump;
  std::shared_ptr<QueuePair> pair;
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_CM_ENDS_H_
