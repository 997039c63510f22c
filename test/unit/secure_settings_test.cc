// SPDX-License-Identifier: MIT
//
// A set-user-id program ignores the environment of its caller.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr uid_t kNobody = 65534;

std::string printed_by(const std::string& program) {
  Child child("program", std::vector<std::string>{program});
  child.expect_success();
  return child.output();
}

TEST(SecureSettings, EnvironmentIsIgnored) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a program of another user";
  const char* const program = std::getenv("SETTINGS_PROGRAM");
  ASSERT_NE(program, nullptr) << "SETTINGS_PROGRAM is not set";
  const ScratchDir folder;
  const std::string copy = folder.path() + "/program";
  std::filesystem::copy_file(program, copy);
  ::setenv("URMA_ROCM_IPC", "on", 1);
  EXPECT_EQ(printed_by(copy), "plain on\n");
  ASSERT_EQ(::chown(copy.c_str(), kNobody, kNobody), 0);
  ASSERT_EQ(::chmod(copy.c_str(), S_ISUID | 0755), 0);
  const std::string found = printed_by(copy);
  ::unsetenv("URMA_ROCM_IPC");
  if (found.rfind("plain", 0) == 0)
    GTEST_SKIP() << "set-user-id has no effect in " << folder.path()
                 << "; set TMPDIR to a file system without nosuid";
  EXPECT_EQ(found, "secure auto\n");
}

}  // namespace
}  // namespace urma_test
