// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_VERBS_QUEUE_PAIR_H_
#define URMA_PROVIDERS_VERBS_QUEUE_PAIR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "urma/base/mutex.h"
#include "urma/providers/verbs/cq_pump.h"
#include "urma/providers/verbs/device.h"
#include "urma/providers/verbs/messages.h"

namespace urma::verbs {

struct QueuePairLimits {
  uint32_t sends = 1;
  uint32_t send_sges = 1;
  uint32_t inline_bytes = 0;
  uint32_t receives = 0;  // if it has no shared receive queue
  uint32_t receive_sges = 0;
};

// How long a sender tries.
struct Patience {
  uint8_t timeout = 0;        // 4.096 us << timeout, for each try
  uint8_t rnr_retry = 0;      // 7: indefinitely
  uint8_t min_rnr_timer = 0;  // requested by the receiving end
  uint8_t service_level = 0;
};

// A queue pair, in INIT. Thread-safe but for post().
class QueuePair : public QueueListener {
 public:
  // `broken` is called on the service thread if the device reports that it failed. `pump` and `srq`
  // stay until the queue pair is gone. `origin` is the source of its packets. Throws Error.
  QueuePair(const Device& device, ibv_qp_type type, std::shared_ptr<CqPump> pump,
            std::shared_ptr<ibv_srq> srq, const QueuePairLimits& limits, const PortAddress& origin,
            uint32_t qkey, std::function<void()> broken);
  ~QueuePair() override { close(); }
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  // For changing its state, or posting; NULL once it is closed.
  ibv_qp* handle() const { return qp_.get(); }
  uint32_t number() const { return number_; }
  const LinkEnd& address() const { return address_; }
  // What the device has granted.
  uint32_t sends() const { return sends_; }
  uint32_t inline_bytes() const { return inline_bytes_; }

  // RC: can receive from `peer`, and then send to it. Throw Error.
  void receive_from(const LinkEnd& peer, const Patience& patience);
  void send_to(const LinkEnd& peer, const Patience& patience);
  // UD: makes it ready to receive and send.
  void open();
  // UD: the same after it failed, or was shut. Drops posted requests. Throws Error.
  void reopen();
  // UD: stops receiving and sending, and drops posted requests. False if the device refuses.
  bool shut() { return go_to(IBV_QPS_RESET); }
  // Flushes requests in flight. False if the device refuses.
  bool fail() { return go_to(IBV_QPS_ERR); }
  // Returns it to the device: it does not touch memory any more.
  void close();
  // While librdmacm connects it, closing would wait for the other end: after hold(), close() takes
  // effect with let_go().
  void hold();
  void let_go();

  void queue_event(ibv_event_type type) override;

 private:
  void initialize();
  bool go_to(ibv_qp_state state);
  void destroy() URMA_REQUIRES(mutex_);
  void change(ibv_qp_attr* attr, int mask, const char* into) const;

  const Device* const device_;
  const ibv_qp_type type_;
  const std::shared_ptr<CqPump> pump_;
  const PortAddress origin_;
  const uint32_t qkey_;
  const std::function<void()> broken_;
  Mutex mutex_;  // guards what closes it
  bool held_ URMA_GUARDED_BY(mutex_) = false;
  bool closing_ URMA_GUARDED_BY(mutex_) = false;
  std::shared_ptr<ibv_srq> srq_ URMA_GUARDED_BY(mutex_);
  QpHandle qp_;
  uint32_t number_ = 0;
  uint32_t sends_ = 0;
  uint32_t inline_bytes_ = 0;
  LinkEnd address_;
};

// How a peer's packets find their way, from `origin`.
ibv_ah_attr address_vector(const Device& device, const PortAddress& origin, const LinkEnd& peer,
                           uint8_t service_level);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_QUEUE_PAIR_H_
