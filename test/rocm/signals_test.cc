// SPDX-License-Identifier: MIT
//
// Signals that end while the runtime's thread is in the handler of one.
#include "urma/providers/rocm/signals.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <utility>

namespace {

// Called once, in the middle of the next write, which notes its result.
std::function<void()> amid_write;
ssize_t written = 0;

// The last handler that was asked for.
hsa_amd_signal_handler handler = nullptr;
void* handler_arg = nullptr;

}  // namespace

// Overrides that of the C library.
extern "C" ssize_t write(int fd, const void* bytes, size_t size) {
  const auto call = std::exchange(amid_write, nullptr);
  if (call) call();
  const ssize_t result = ::syscall(SYS_write, fd, bytes, size);
  if (call) written = result;
  return result;
}

namespace urma::rocm {
namespace {

HsaApi fake_api() {
  HsaApi api;
  api.hsa_signal_create = [](hsa_signal_value_t, uint32_t, const hsa_agent_t*, hsa_signal_t*) {
    return HSA_STATUS_SUCCESS;
  };
  api.hsa_signal_destroy = [](hsa_signal_t) { return HSA_STATUS_SUCCESS; };
  api.hsa_signal_store_relaxed = [](hsa_signal_t, hsa_signal_value_t) {};
  api.hsa_amd_signal_async_handler = [](hsa_signal_t, hsa_signal_condition_t, hsa_signal_value_t,
                                        hsa_amd_signal_handler call, void* arg) {
    handler = call;
    handler_arg = arg;
    return HSA_STATUS_SUCCESS;
  };
  return api;
}

// Otherwise its bytes could go to a file that has the number by then.
TEST(Signals, TheDescriptorStaysOpenUntilTheHandlerHasWritten) {
  const HsaApi api = fake_api();
  auto signals = std::make_unique<Signals>(&api);
  signals->wake_when_ended(signals->take());
  ASSERT_NE(handler, nullptr);
  amid_write = [&] { signals.reset(); };
  EXPECT_FALSE(handler(0, handler_arg));
  EXPECT_EQ(written, static_cast<ssize_t>(sizeof(uint64_t)));
}

}  // namespace
}  // namespace urma::rocm
