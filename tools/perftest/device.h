// SPDX-License-Identifier: MIT
//
// The device of a test, open.
#ifndef TOOLS_PERFTEST_DEVICE_H_
#define TOOLS_PERFTEST_DEVICE_H_

#include <string>

#include "tools/perftest/config.h"
#include "tools/perftest/handles.h"

namespace perftest {

class Device {
 public:
  // Throws UsageError if the device does not exist, or lacks a requested feature.
  explicit Device(const Config& config);

  urma_context_t* context() const { return context_.get(); }
  const urma_device_cap_t& limits() const { return attributes_.dev_cap; }
  bool unified_bus() const { return device_->type == URMA_TRANSPORT_UB; }
  std::string transport() const;

  // Common settings of the queues and imports of this test.
  urma_tp_type_t channel_type() const { return channel_type_; }
  uint8_t priority() const { return priority_; }

 private:
  void choose_channel(const Config& config);
  void aggregate(const Config& config) const;

  urma_device_t* device_;
  urma_device_attr_t attributes_ = {};
  Context context_;
  urma_tp_type_t channel_type_ = URMA_RTP;
  uint8_t priority_ = 0;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_DEVICE_H_
