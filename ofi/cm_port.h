/* SPDX-License-Identifier: MIT */

// A reliable-message jetty that carries connection messages to and from any other.

#ifndef OFI_CM_PORT_H
#define OFI_CM_PORT_H

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ofi/cm_message.h"
#include "ofi/device.h"

namespace urma_fi {

class CmPort;

// Gets what a port has received.
class CmSink {
 public:
  virtual void on_message(CmPort& port, const Address& from, const CmMessage& message) = 0;
  // A message was not delivered; `error` is positive, and `status` 0 if it was never sent.
  virtual void on_undelivered(const CmMessage& message, int error, int status) = 0;

 protected:
  ~CmSink() = default;
};

// One thread at a time may use a port.
class CmPort {
 public:
  // With id 0 the device chooses one. NULL and *error negative on failure.
  static std::unique_ptr<CmPort> open(std::shared_ptr<Device> device, uint32_t id, int* error);
  // Waits up to a second for what was sent to leave.
  ~CmPort();
  CmPort(const CmPort&) = delete;
  CmPort& operator=(const CmPort&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  Address address() const;
  int fd() const { return events_->fd; }

  // Returns 0, also if it has to wait, or a negative code.
  int send(const Address& to, const CmMessage& message);

  // Takes arrived messages, at most one queue's worth: others get their turn.
  void poll(CmSink& sink);

  // Lets fd() become readable with the next record, or at once if one waits.
  void arm();

 private:
  // A peer with messages in flight.
  struct Peer {
    std::string name;
    urma_target_jetty_t* target;
    size_t messages;
  };

  explicit CmPort(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  bool make(uint32_t id);
  bool make_queues(uint32_t id);
  bool make_buffers();
  bool post_receive(size_t slot);
  Peer* reach(const Address& address, int* error);
  void release(Peer* peer);
  int post(const Address& to, const CmMessage& message);
  int post_to(Peer* peer, const CmMessage& message);
  void send_waiting(CmSink& sink);
  void flush();
  void take_sent(CmSink& sink, const urma_cr_t& record);
  void take_received(CmSink& sink, const urma_cr_t& record);

  std::shared_ptr<Device> device_;
  urma_jfce_t* events_ = nullptr;
  urma_jfc_t* records_ = nullptr;
  urma_jfr_t* receives_ = nullptr;
  urma_jetty_t* jetty_ = nullptr;
  urma_target_seg_t* segment_ = nullptr;
  std::vector<CmMessage> slots_;                       // first receive slots, then send slots
  std::vector<size_t> free_;                           // free send slots
  std::deque<std::pair<Address, CmMessage>> waiting_;  // for a free send slot
  std::map<std::string, Peer> peers_;
  std::vector<Peer*> receivers_;  // for the message in each slot
};

}  // namespace urma_fi

#endif  // OFI_CM_PORT_H
