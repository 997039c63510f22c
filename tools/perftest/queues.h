// SPDX-License-Identifier: MIT
//
// The queues of one side: jettys, or separate send and receive queues (-b), with their completion
// queues.
#ifndef TOOLS_PERFTEST_QUEUES_H_
#define TOOLS_PERFTEST_QUEUES_H_

#include <cstdint>
#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/device.h"
#include "tools/perftest/handles.h"

namespace perftest {

class Queues {
 public:
  Queues(const Device& device, const Config& config);

  // Deletes all queues, and makes new ones.
  void renew(const Config& config);

  urma_jfce_t* channel() const { return channel_.get(); }  // NULL without -e
  urma_jfc_t* sent() const { return sent_.get(); }
  urma_jfc_t* arrived() const { return arrived_.get(); }

  // Where requests of stream `lane` are posted. Exactly one of the two is not NULL.
  urma_jetty_t* send_jetty(uint32_t lane) const {
    return jettys_.empty() ? nullptr : jettys_[share_jfs_ ? 0 : lane].get();
  }
  urma_jfs_t* send_jfs(uint32_t lane) const {
    return jfss_.empty() ? nullptr : jfss_[share_jfs_ ? 0 : lane].get();
  }
  // The target for the peer of the lane.
  urma_jetty_t* jetty(uint32_t lane) const { return jettys_[lane].get(); }
  uint32_t receive_index(uint32_t lane) const { return lane / lanes_per_jfr_; }
  urma_jfr_t* receive_queue(uint32_t index) const { return jfrs_[index].get(); }
  uint32_t receive_queues() const { return static_cast<uint32_t>(jfrs_.size()); }
  // A jetty that posts to the receive queue; NULL with -b.
  urma_jetty_t* receiving_jetty(uint32_t index) const {
    return jettys_.empty() ? nullptr : jettys_[index * lanes_per_jfr_].get();
  }

  // The id in completions of the lane's requests.
  uint32_t send_id(uint32_t lane) const;

 private:
  void create(const Config& config);
  void create_completion_queues(const Config& config);
  void create_receive_queues(const Config& config);
  void create_senders(const Config& config);
  urma_jfs_cfg_t send_config(const Config& config) const;

  const Device& device_;
  const bool share_jfs_;
  const uint32_t lanes_per_jfr_;
  EventChannel channel_;
  CompletionQueue sent_, arrived_;
  std::vector<ReceiveQueue> jfrs_;
  std::vector<SendQueue> jfss_;
  std::vector<Jetty> jettys_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_QUEUES_H_
