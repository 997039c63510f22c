// SPDX-License-Identifier: MIT
#ifndef TEST_PROCESS_ALIAS_H_
#define TEST_PROCESS_ALIAS_H_

#include <cstdint>
#include <cstdlib>

#include "test/process/harness.h"
#include "urma_api.h"

namespace urma_test {

// Uses bonding_dev_0, which exists without any setting; `plain` is another name of urma_shm0.
class AliasTest : public ProcessTest {
 protected:
  AliasTest() {
    ::setenv("URMA_DEVICE_ALIAS", "plain=urma_shm0", 1);
    ::setenv("URMA_DEVICE", "bonding_dev_0", 1);
  }
  ~AliasTest() override {
    ::unsetenv("URMA_DEVICE_ALIAS");
    ::unsetenv("URMA_DEVICE");
  }
};

inline urma_status_t command(urma_context_t* ctx, uint32_t opcode, void* input = nullptr,
                             uint32_t input_bytes = 0, void* output = nullptr,
                             uint32_t output_bytes = 0) {
  urma_user_ctl_in_t in = {reinterpret_cast<uint64_t>(input), input_bytes, opcode};
  urma_user_ctl_out_t out = {reinterpret_cast<uint64_t>(output), output_bytes, 0};
  return urma_user_ctl(ctx, &in, &out);
}

}  // namespace urma_test

#endif  // TEST_PROCESS_ALIAS_H_
