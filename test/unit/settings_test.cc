// SPDX-License-Identifier: MIT
#include "urma/core/process/settings.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "urma/base/error.h"
#include "urma/core/process/config_file.h"

namespace urma::core {
namespace {

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() {
    clear();
    ::setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    settings_.read_system_config(folder_ + "/system.conf");
  }
  ~SettingsTest() override {
    clear();
    ::unsetenv("XDG_CONFIG_HOME");
    std::filesystem::remove_all(folder_);
  }
  static void clear() {
    for (const auto& row : setting_rows()) ::unsetenv(row.name);
  }

  void write_system(const std::string& text) { std::ofstream(folder_ + "/system.conf") << text; }
  void write_user(const std::string& text) { std::ofstream(folder_ + "/urma.conf") << text; }
  urma_ext_origin_t origin(const std::string& name) {
    for (const auto& setting : settings_.report()) {
      if (name == setting.name) return setting.origin;
    }
    ADD_FAILURE() << "no setting " << name;
    return URMA_EXT_ORIGIN_DEFAULT;
  }

  const std::string folder_ = [] {
    std::string path = testing::TempDir() + "urma-settings-XXXXXX";
    return std::string(::mkdtemp(path.data()));
  }();
  EnvSettings settings_;
};

TEST_F(SettingsTest, DefaultsApplyIfNothingIsSet) {
  EXPECT_TRUE(settings_.load().empty());
  for (const auto& row : setting_rows()) EXPECT_EQ(settings_.text(row.name), row.fallback);
  EXPECT_EQ(settings_.number("URMA_SHM_RING_SIZE"), 4096u);
  EXPECT_FALSE(settings_.flag("URMA_ENABLE_ORCH"));
}

TEST_F(SettingsTest, EveryDefaultIsAllowed) {
  for (const auto& row : setting_rows()) ::setenv(row.name, row.fallback, 1);
  EXPECT_TRUE(settings_.load().empty());
}

TEST_F(SettingsTest, EnvironmentIsReadAtEachLoad) {
  ::setenv("URMA_LOG_LEVEL", "DeBuG", 1);
  ::setenv("URMA_SHM_RING_SIZE", "65536", 1);
  ::setenv("URMA_ENABLE_ORCH", "Yes", 1);
  ::setenv("URMA_PROVIDER_PATH", "/a:/b", 1);
  EXPECT_EQ(settings_.text("URMA_LOG_LEVEL"), "info");
  EXPECT_TRUE(settings_.load().empty());
  EXPECT_EQ(settings_.text("URMA_LOG_LEVEL"), "debug");
  EXPECT_EQ(settings_.number("URMA_SHM_RING_SIZE"), 65536u);
  EXPECT_TRUE(settings_.flag("URMA_ENABLE_ORCH"));
  EXPECT_EQ(settings_.text("URMA_PROVIDER_PATH"), "/a:/b");
  clear();
  settings_.load();
  EXPECT_EQ(settings_.number("URMA_SHM_RING_SIZE"), 4096u);
}

struct Bad {
  const char* name;
  const char* value;
  const char* allowed;  // must be in the log line
};

class BadSettingTest : public SettingsTest, public testing::WithParamInterface<Bad> {};

TEST_P(BadSettingTest, IsNamedAndHasNoEffect) {
  ::setenv(GetParam().name, GetParam().value, 1);
  const auto complaints = settings_.load();
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find(GetParam().name), std::string::npos);
  EXPECT_NE(complaints[0].find(GetParam().value), std::string::npos);
  EXPECT_NE(complaints[0].find(GetParam().allowed), std::string::npos) << complaints[0];
  for (const auto& row : setting_rows()) EXPECT_EQ(settings_.text(row.name), row.fallback);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSettingTest,
    testing::Values(Bad{"URMA_LOG_LEVEL", "loud", "fatal|error|warning|info|debug"},
                    Bad{"URMA_LOG_LEVEL", "fatal|error", "fatal|error"},
                    Bad{"URMA_LOG_SINK", "", "stderr|syslog|off"},
                    Bad{"URMA_SHM_PEERS", "no such user", "unknown user 'no such user'"},
                    Bad{"URMA_SHM_PEERS", "0,,1", "unknown user ''"},
                    Bad{"URMA_SHM_PEERS", "4294967295", "unknown user '4294967295'"},
                    Bad{"URMA_SHM_RING_SIZE", "4095", "4096-1048576"},
                    Bad{"URMA_SHM_RING_SIZE", "1048577", "4096-1048576"},
                    Bad{"URMA_SHM_RING_SIZE", "-1", "4096-1048576"},
                    Bad{"URMA_SHM_RING_SIZE", "8k", "4096-1048576"},
                    Bad{"URMA_SHM_RING_SIZE", "99999999999999999999", "4096-1048576"},
                    Bad{"URMA_SHM_RING_SIZE", "", "4096-1048576"},
                    Bad{"URMA_SHM_TIMEOUT_MS", "99", "100-600000"},
                    Bad{"URMA_SHM_TIMEOUT_MS", "600001", "100-600000"},
                    Bad{"URMA_LOG_SEPARATOR", "a", "|,;:-/.~#"},
                    Bad{"URMA_LOG_SEPARATOR", "||||||||", "7 characters"},
                    Bad{"URMA_FAULT", "rnr;drop:p=often", "p=often: not a number from 0 to 100"},
                    Bad{"URMA_ENABLE_ORCH", "maybe", "0 or 1"}));

TEST_F(SettingsTest, UnknownNamesAreRefused) {
  EXPECT_THROW(settings_.text("URMA_NO_SUCH_THING"), Error);
  EXPECT_THROW(settings_.number("URMA_LOG_LEVEL"), Error);
}

TEST_F(SettingsTest, TheEnvironmentOverridesFiles) {
  write_system("URMA_SHM_RING_SIZE=8192\nURMA_ROCM_IPC = on\nURMA_SHM_COPY=staged\n");
  write_user("# mine\n\n  URMA_SHM_RING_SIZE=16384\t\r\nURMA_SHM_COPY=kernel");
  ::setenv("URMA_SHM_COPY", "staged", 1);
  EXPECT_EQ(settings_.load(), std::vector<std::string>());
  EXPECT_EQ(settings_.number("URMA_SHM_RING_SIZE"), 16384u);
  EXPECT_EQ(origin("URMA_SHM_RING_SIZE"), URMA_EXT_ORIGIN_USER_FILE);
  EXPECT_EQ(settings_.text("URMA_ROCM_IPC"), "on");
  EXPECT_EQ(origin("URMA_ROCM_IPC"), URMA_EXT_ORIGIN_SYSTEM_FILE);
  EXPECT_EQ(settings_.text("URMA_SHM_COPY"), "staged");
  EXPECT_EQ(origin("URMA_SHM_COPY"), URMA_EXT_ORIGIN_ENVIRONMENT);
  EXPECT_EQ(origin("URMA_LOG_LEVEL"), URMA_EXT_ORIGIN_DEFAULT);
}

TEST_F(SettingsTest, TheLastLineOfAFileCounts) {
  write_user("URMA_LOG_LEVEL=debug\nURMA_LOG_LEVEL=error\n");
  EXPECT_TRUE(settings_.load().empty());
  EXPECT_EQ(settings_.text("URMA_LOG_LEVEL"), "error");
}

TEST_F(SettingsTest, ErrorsInAFileAreNamedWithTheirLine) {
  write_system("URMA_ROCM_IPC=bicycle\nURMA_ROCM_IPCC=on\non\n=1\n");
  const auto complaints = settings_.load();
  const auto place = [&](int line) { return folder_ + "/system.conf:" + std::to_string(line); };
  EXPECT_EQ(complaints, std::vector<std::string>(
                            {place(3) + " is ignored: write NAME=value",
                             place(4) + " is ignored: write NAME=value",
                             place(2) + " is ignored: unknown setting URMA_ROCM_IPCC; see "
                                        "urma_env(7)",
                             place(1) + ": URMA_ROCM_IPC=bicycle is not allowed and has no effect; "
                                        "allowed: auto|on|off"}));
  EXPECT_EQ(settings_.text("URMA_ROCM_IPC"), "auto");
  EXPECT_EQ(origin("URMA_ROCM_IPC"), URMA_EXT_ORIGIN_REFUSED);
}

// The file $XDG_CONFIG_HOME/urma.conf is not read, and the only log line says so.
void expect_unread(EnvSettings& settings, const std::string& reason) {
  const auto complaints = settings.load();
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_NE(complaints[0].find(reason), std::string::npos) << complaints[0];
  EXPECT_EQ(settings.text("URMA_ROCM_IPC"), "auto");
}

TEST_F(SettingsTest, AFileThatOthersCanWriteIsNotRead) {
  write_user("URMA_ROCM_IPC=on\n");
  ASSERT_EQ(::chmod((folder_ + "/urma.conf").c_str(), 0666), 0);
  expect_unread(settings_, "every user may write to it");
}

TEST_F(SettingsTest, AFileOfAnotherUserIsNotRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to make a file of another user";
  write_user("URMA_ROCM_IPC=on\n");
  ASSERT_EQ(::chown((folder_ + "/urma.conf").c_str(), 65534, 65534), 0);
  expect_unread(settings_, "belongs to user 65534");
}

TEST_F(SettingsTest, APipeIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo((folder_ + "/urma.conf").c_str(), 0600), 0);
  expect_unread(settings_, "not a regular file");
}

TEST_F(SettingsTest, AFileThatIsTooLongIsNotRead) {
  write_user(std::string(65537, '#'));
  expect_unread(settings_, "65537 bytes exceed 65536");
}

TEST_F(SettingsTest, TheUsersFileIsInTheHomeByDefault) {
  EXPECT_EQ(user_config_path(), folder_ + "/urma.conf");
  ::setenv("XDG_CONFIG_HOME", "relative", 1);
  ::setenv("HOME", "/home/anna", 1);
  EXPECT_EQ(user_config_path(), "/home/anna/.config/urma.conf");
  ::unsetenv("HOME");
  EXPECT_EQ(user_config_path(), "");
}

}  // namespace
}  // namespace urma::core
