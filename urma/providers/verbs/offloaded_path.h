// SPDX-License-Identifier: MIT
//
// A path whose requests are executed by a device.
//
// Requests stay in the path's list until they are done: first those that the device has, then those
// that wait.
#ifndef URMA_PROVIDERS_VERBS_OFFLOADED_PATH_H_
#define URMA_PROVIDERS_VERBS_OFFLOADED_PATH_H_

#include <cstdint>
#include <memory>

#include "jetty/request_path.h"
#include "urma/providers/verbs/sender.h"

namespace urma::verbs {

class OffloadedPath : public RequestPath {
 public:
  OffloadedPath(Sender* sender, RemoteQueue* target, uint32_t hint);
  ~OffloadedPath() override;

  // The requests posted with this mark have completed.
  virtual void completed(uint32_t mark, ibv_wc_status status) = 0;
  // Gives its connection back if others need the place and it is idle. True if its connection is
  // unwanted, and still busy.
  virtual bool close_unwanted() { return false; }
  // The device no longer reports the fate of requests in flight: they end.
  virtual void lose() = 0;
  // The queue ends. Gives requests that waited for a connection time to arrive: true while there
  // are any.
  virtual bool linger() = 0;

 protected:
  bool placed_before(const SendEntry& /*entry*/) override { return true; }
  void look_up(SendEntry* entry) override;

  SendQueue& queue() const { return sender_->queue(); }
  SendEntry* next_waiting() const;
  SendEntry* next_of(const SendEntry& entry) const;
  // The next one that waits has been posted.
  void set_out(SendEntry* entry);
  // Completes the oldest request.
  void end_first(urma_cr_status_t status);
  // The device holds nothing any more: its unfinished requests wait again.
  void take_back();
  // A description of the connection to make.
  std::shared_ptr<Connection> describe_connection() const;

  // A suspended queue does not linger for requests posted since its suspension.
  bool may_linger(urma_jetty_state_t state) const {
    return outstanding != 0 && (state != URMA_JETTY_STATE_SUSPENDED || outstanding == doomed_);
  }
  bool goes_on(urma_jetty_state_t state) const {
    return state == URMA_JETTY_STATE_READY || (doomed_ != 0 && outstanding == doomed_);
  }

  Sender* const sender_;
  uint32_t tag_;
  std::shared_ptr<Connection> connection_;
  // Requests at the device: the first ones of the list.
  uint32_t under_way_ = 0;
  uint32_t last_under_way_ = kNoEntry;
  uint32_t doomed_ = 0;     // the first ones of the list: they end with the queue
  uint64_t opened_ns_ = 0;  // when the connection was found open
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_OFFLOADED_PATH_H_
