// SPDX-License-Identifier: MIT
//
// The called ends of iWARP's connections. Accepts only what the control messages have agreed on
// before. A called end sends nothing of its own, so the caller's message is the first, as MPA
// requires.
#ifndef URMA_PROVIDERS_VERBS_CM_ACCEPTOR_H_
#define URMA_PROVIDERS_VERBS_CM_ACCEPTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "urma/providers/verbs/cm_channel.h"
#include "urma/providers/verbs/cm_connector.h"
#include "urma/providers/verbs/control.h"

namespace urma::verbs {

// On the service thread, except construction and destruction.
class CmAcceptor final : private CmHandler {
 public:
  // Throws Error if it cannot listen at the EID's address.
  CmAcceptor(CmChannel* channel, const CmConfig& config);
  ~CmAcceptor() override;

  // Where it listens.
  uint16_t port() const { return port_; }

  // A peer was answered with `end`, that of `pair`, and will call. A second call changes nothing.
  void expect(const PeerRef& from, const ConnectRequest& request, const LinkEnd& end,
              const std::shared_ptr<QueuePair>& pair);
  // This end of the connection, of the context with this nonce, is gone.
  void forget(uint64_t nonce, uint64_t connection);
  // The caller has closed it. What it sent before may still be on its way: `ended` is called,
  // perhaps at once, when all of it has arrived.
  void finish(uint64_t nonce, uint64_t connection, std::function<void()> ended);

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // the caller's nonce, and its number
  class End;

  void cm_event(const CmEvent& event) override;

  CmChannel* const channel_;
  const CmConfig config_;
  CmId listening_;
  uint16_t port_ = 0;
  std::map<Key, std::unique_ptr<End>> ends_;
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CM_ACCEPTOR_H_
