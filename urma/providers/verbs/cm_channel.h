// SPDX-License-Identifier: MIT
//
// librdmacm's events, read on the service thread.
#ifndef URMA_PROVIDERS_VERBS_CM_CHANNEL_H_
#define URMA_PROVIDERS_VERBS_CM_CHANNEL_H_

#include <cstdint>
#include <vector>

#include "urma/providers/verbs/datagram.h"
#include "urma/providers/verbs/device.h"
#include "urma/providers/verbs/messages.h"

namespace urma::verbs {

struct CmEvent {
  rdma_cm_event_type type;
  rdma_cm_id* caller;         // the caller's new id, owned by the handler; NULL in other events
  std::vector<uint8_t> data;  // private data
};

// Hears the events of one id. On the service thread; it may end its id.
class CmHandler {
 public:
  virtual ~CmHandler() = default;
  virtual void cm_event(const CmEvent& event) = 0;
};

// Made and destroyed on any thread, all else on the service thread.
class CmChannel {
 public:
  // Throws Error.
  explicit CmChannel(const Device& device);
  CmChannel(const CmChannel&) = delete;
  CmChannel& operator=(const CmChannel&) = delete;
  // Destroyed after all ids.
  ~CmChannel();

  // Between these two, handlers get their events.
  void start();
  void stop();

  // A new id, whose events go to `handler`: it is the context of the id. Throws Error.
  CmId make_id(CmHandler* handler) const;

  const Device& device() const { return device_; }
  const Api& api() const { return device_.api(); }

 private:
  void read_events();

  const Device& device_;
  rdma_event_channel* const channel_;
  bool watched_ = false;
};

// librdmacm may take another device at the same network interface for the id's address. Throws
// Error then.
void require_device(const Device& device, const rdma_cm_id& id);
// How many READs may be in flight between this device and the other end.
uint8_t reads_at_a_time(const Device& device, const LinkEnd& other);
rdma_conn_param connection_param(uint32_t qp_number, uint8_t reads);
// The other end of an id; the port is where it calls from.
NetAddress peer_address(const rdma_cm_id& id);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CM_CHANNEL_H_
