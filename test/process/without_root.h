// SPDX-License-Identifier: MIT
//
// Tests whose processes belong to unprivileged users. Those may not read the folders of the user
// who builds, so they find everything in a folder of their own.
#ifndef TEST_PROCESS_WITHOUT_ROOT_H_
#define TEST_PROCESS_WITHOUT_ROOT_H_

#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "test/process/harness.h"

namespace urma_test {

inline constexpr uid_t kNobody = 65534;

inline void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// As if this user, who is only in this group, had started the program.
inline void become(uid_t user, gid_t group) {
  require(::unsetenv("HOME") == 0, "unsetenv");
  require(::setgroups(0, nullptr) == 0, "setgroups");
  require(::setresgid(group, group, group) == 0, "setresgid");
  require(::setresuid(user, user, user) == 0, "setresuid");
  require(::prctl(PR_SET_DUMPABLE, 1) == 0, "PR_SET_DUMPABLE");
  require(::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "PR_SET_PDEATHSIG");
}

class WithoutRootTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
    const char* device = std::getenv("URMA_DEVICE");
    const std::string named = device == nullptr ? "urma_shm0" : device;
    if (named.find("shm") == std::string::npos && named != "bonding_dev_0") {
      GTEST_SKIP() << "needs urma_shm0, not " << named << "; unset URMA_DEVICE";
    }
    if (!succeeds([] { become(kNobody, kNobody); })) {
      GTEST_SKIP()
          << "root may not become another user here; run in a namespace that has user 65534";
    }
    char name[] = "/tmp/urma-test-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    dir_ = name;
    ASSERT_EQ(::chmod(name, 0755), 0);
    const std::filesystem::path modules = dir_ + "/modules";
    ASSERT_TRUE(std::filesystem::create_directory(runtime_dir()));
    ASSERT_TRUE(std::filesystem::create_directory(modules));
    give_runtime_dir(kNobody, kNobody, 0700);
    ASSERT_EQ(::chmod(modules.c_str(), 0755), 0);
    const char* module = std::getenv("MODULE");
    ASSERT_NE(module, nullptr) << "MODULE is not set";
    const auto copy = modules / std::filesystem::path(module).filename();
    std::filesystem::copy_file(module, copy);
    ASSERT_EQ(::chmod(copy.c_str(), 0755), 0);
    ::setenv("URMA_RUNTIME_DIR", runtime_dir().c_str(), 1);
    ::setenv("URMA_PROVIDER_PATH", modules.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("URMA_RUNTIME_DIR");
    ::unsetenv("URMA_PROVIDER_PATH");
    std::error_code ignored;
    if (!dir_.empty()) std::filesystem::remove_all(dir_, ignored);
  }

  std::string runtime_dir() const { return dir_ + "/runtime"; }
  void give_runtime_dir(uid_t user, gid_t group, mode_t mode) const {
    ASSERT_EQ(::chown(runtime_dir().c_str(), user, group), 0);
    ASSERT_EQ(::chmod(runtime_dir().c_str(), mode), 0);
  }

  // Whether the body ends without an exception, in its own process.
  template <typename F>
  static bool succeeds(const F& body) {
    Child probe("probe", [&](Channel& channel) {
      char done = 1;
      try {
        body();
      } catch (const std::exception&) {
        done = 0;
      }
      channel.send(done);
    });
    const bool done = probe.channel().receive<char>() != 0;
    probe.expect_success();
    return done;
  }

 private:
  std::string dir_;
};

}  // namespace urma_test

#endif  // TEST_PROCESS_WITHOUT_ROOT_H_
