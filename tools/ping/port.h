// SPDX-License-Identifier: MIT
//
// A jetty on a place of this machine, with its memory and its events.
#ifndef TOOLS_PING_PORT_H_
#define TOOLS_PING_PORT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/ping/place.h"
#include "tools/ping/settings.h"
#include "urma_api.h"

namespace ping {

inline constexpr uint32_t kWellKnownId = 5;

template <auto end>
struct End {
  template <typename T>
  void operator()(T* object) const {
    (void)end(object);
  }
};
using Target = std::unique_ptr<urma_target_jetty_t, End<urma_unimport_jetty>>;
using SendQueue = std::unique_ptr<urma_jfs_t, End<urma_delete_jfs>>;

// Takes messages into its own memory slots, for all of which a receive is posted at the start. One
// more slot, the spare one, has none.
class Port {
 public:
  // `id` 0: the library chooses. Throws Failure.
  Port(const Place& place, uint32_t id, uint32_t slots);

  const Place& place() const { return place_; }
  uint32_t spare_slot() const { return slots_; }
  uint8_t priority() const { return lane_.priority; }
  urma_tp_type_t tp_type() const { return lane_.tp_type; }
  int fd() const { return jfce_->fd; }
  urma_jetty_t* jetty() const { return jetty_.get(); }

  Target import(const urma_eid_t& eid, uint32_t id, urma_target_type_t type) const;
  SendQueue make_send_queue(uint32_t depth) const;

  // A SEND_IMM request for the first bytes of a slot. Its list points to `sge`.
  urma_jfs_wr_t request(uint32_t slot, uint32_t size, uint64_t immediate,
                        urma_target_jetty_t* target, urma_sge_t* sge) const;
  void receive(uint32_t slot);
  uint8_t* slot_memory(uint32_t slot) { return memory_.data() + size_t{slot} * kMaxSize; }

  bool poll(urma_cr_t* record);
  // Requests an event at fd(), which comes at once if records wait.
  void arm();
  // Takes the event, if there is one.
  void disarm();

 private:
  struct Lane {
    uint8_t priority;
    urma_tp_type_t tp_type;
  };
  static Lane pick_lane(urma_device_t* device);
  urma_jfs_cfg_t send_config(uint32_t depth) const;
  void open_queues(uint32_t id);

  const Place place_;
  const Lane lane_;
  const uint32_t slots_;
  std::vector<uint8_t> memory_;
  std::unique_ptr<urma_context_t, End<urma_delete_context>> ctx_;
  std::unique_ptr<urma_jfce_t, End<urma_delete_jfce>> jfce_;
  std::unique_ptr<urma_jfc_t, End<urma_delete_jfc>> jfc_;
  std::unique_ptr<urma_target_seg_t, End<urma_unregister_seg>> segment_;
  std::unique_ptr<urma_jfr_t, End<urma_delete_jfr>> jfr_;
  std::unique_ptr<urma_jetty_t, End<urma_delete_jetty>> jetty_;
};

}  // namespace ping

#endif  // TOOLS_PING_PORT_H_
