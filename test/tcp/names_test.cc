// SPDX-License-Identifier: MIT
//
// Ids are names, which a process looks for before it gives one to an object.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"
#include "test/process/owned.h"
#include "test/process/refusal.h"
#include "urma/base/held_name.h"

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

// The kernel refuses to connect to it, with the same error.
TEST_F(NamesTest, ASocketConnectedElsewhereHoldsItsName) {
  const std::string name = "urma-test-" + std::to_string(::getpid());
  EXPECT_FALSE(urma::is_name_held(name));
  std::array<int, 2> sockets;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(sockets[0], reinterpret_cast<const sockaddr*>(&address), length), 0);
  EXPECT_TRUE(urma::is_name_held(name));
  for (const int socket : sockets) ::close(socket);
  EXPECT_FALSE(urma::is_name_held(name));
}

}  // namespace
}  // namespace urma_test
