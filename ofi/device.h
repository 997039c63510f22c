/* SPDX-License-Identifier: MIT */

// URMA devices: all, and the open ones.

#ifndef OFI_DEVICE_H
#define OFI_DEVICE_H

#include <memory>
#include <string>
#include <vector>

#include "ofi/address.h"
#include "urma_api.h"

namespace urma_fi {

// What is known of a device before it is opened.
struct Found {
  std::string name;
  urma_device_attr_t attr;
  std::vector<urma_eid_info_t> eids;  // not empty
};

// Starts the library at the first call. Leaves out unusable devices.
std::vector<Found> find_devices();

// Ends the library if find_devices started it.
void end_library();

// An open device with one of its EIDs, shared by all users of that pair.
class Device {
 public:
  // NULL and *error negative: it does not exist, or cannot be opened.
  static std::shared_ptr<Device> open(const std::string& name, const urma_eid_t* eid, int* error);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  urma_context_t* context() const { return context_; }
  const urma_device_cap_t& cap() const { return cap_; }
  const urma_eid_t& eid() const { return context_->eid; }
  int event_fd() const { return context_->async_fd; }

  // Delivers each waiting event to its endpoint. Hold no lock of an event queue.
  void take_events();

 private:
  Device(urma_context_t* context, const urma_device_cap_t& cap) : context_(context), cap_(cap) {}

  urma_context_t* context_;
  urma_device_cap_t cap_;
};

// The user_ctx of endpoints' jettys.
class JettyOwner {
 public:
  virtual void on_peer_lost() = 0;

 protected:
  ~JettyOwner() = default;
};

}  // namespace urma_fi

#endif  // OFI_DEVICE_H
