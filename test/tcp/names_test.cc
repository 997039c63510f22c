// SPDX-License-Identifier: MIT
//
// Ids are names, which a process looks for before it gives one to an object.
#include <gtest/gtest.h>

#include <cerrno>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"
#include "test/process/owned.h"
#include "test/process/refusal.h"

namespace urma_test {
namespace {

using NamesTest = ProcessTest;

// Not that another process has each id.
TEST_F(NamesTest, OneRefusedLookEndsTheCall) {
  SKIP_UNLESS_CALLS_CAN_BE_REFUSED();
  for (const int error : {EPERM, EACCES}) {
    run_one([error](Channel&) {
      const LogLines lines;
      ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
      {
        const OwnedContext ctx = urma_create_context(find_device(), 0);
        refuse(SYS_connect, error);
        urma_jfc_cfg_t cfg = {};
        cfg.depth = 16;
        EXPECT_EQ(urma_create_jfc(ctx, &cfg), nullptr);
        EXPECT_LINE("looking for the name", "allow connect() in seccomp filters");
      }
      EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    });
  }
}

}  // namespace
}  // namespace urma_test
