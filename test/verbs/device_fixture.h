// SPDX-License-Identifier: MIT
#ifndef TEST_VERBS_DEVICE_FIXTURE_H_
#define TEST_VERBS_DEVICE_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "test/verbs/fake_verbs.h"
#include "urma/base/error.h"
#include "urma/core/process/service_thread.h"
#include "urma/providers/verbs/device.h"

namespace urma::verbs {

// Software devices, and the service thread that reads their events.
class DeviceFixture : public testing::Test {
 protected:
  DeviceFixture() { service_.start(); }
  ~DeviceFixture() override { service_.stop(); }

  std::vector<DeviceInfo> find() { return find_devices(*fake_.api(), &why_); }

  std::unique_ptr<Device> open(const FakeDeviceOptions& options) {
    fake_.add_device(options);
    const auto found = find();
    EXPECT_FALSE(found.empty()) << why_;
    return std::make_unique<Device>(fake_.api(), &service_, found.back());
  }

  // The status and text of the Error that it throws.
  static std::pair<int, std::string> failure_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& error) {
      return {error.status(), error.what()};
    }
    return {0, ""};
  }

  FakeVerbs fake_;
  core::ServiceThread service_;
  std::string why_;
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_DEVICE_FIXTURE_H_
