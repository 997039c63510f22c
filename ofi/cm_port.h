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

// Takes what a port has received.
class CmSink {
 public:
  virtual void on_message(CmPort& port, const Address& from, const CmMessage& message) = 0;
  // A message that did not arrive; `error` is positive, and `status` 0 if it was never sent.
  virtual void on_undelivered(const CmMessage& message, int error, int status) = 0;

 protected:
  ~CmSink() = default;
};

// One thread at a time may use a port.
class CmPort {
 public:
  // With id 0 the device chooses one. NULL and *error negative: it cannot be made.
  static std::unique_ptr<CmPort> open(std::shared_ptr<Device> device, uint32_t id, int* error);
  ~CmPort();
  CmPort(const CmPort&) = delete;
  CmPort& operator=(const CmPort&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  Address address() const;
  int fd() const { return events_->fd; }

  // Returns 0, also if it has to wait its turn, or a negative code.
  int send(const Address& to, const CmMessage& message);

  // Takes what has come, at most as much as the queue holds: others are to have their turn.
  void poll(CmSink& sink);

  // Lets fd() become readable with the next record, or at once if one waits.
  void arm();

 private:
  // To whom messages are under way.
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
  void take_sent(CmSink& sink, const urma_cr_t& record);
  void take_received(CmSink& sink, const urma_cr_t& record);

  std::shared_ptr<Device> device_;
  urma_jfce_t* events_ = nullptr;
  urma_jfc_t* records_ = nullptr;
  urma_jfr_t* receives_ = nullptr;
  urma_jetty_t* jetty_ = nullptr;
  urma_target_seg_t* segment_ = nullptr;
  std::vector<CmMessage> slots_;  // those to receive into, then those to send from
  std::vector<size_t> free_;      // of the latter
  std::deque<std::pair<Address, CmMessage>> waiting_;  // for one of them
  std::map<std::string, Peer> peers_;
  std::vector<Peer*> receivers_;  // of what lies in each slot
};

}  // namespace urma_fi

#endif  // OFI_CM_PORT_H
