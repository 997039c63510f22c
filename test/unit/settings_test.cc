// SPDX-License-Identifier: MIT
#include "urma/core/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "urma/base/error.h"

namespace urma::core {
namespace {

class SettingsTest : public testing::Test {
 protected:
  SettingsTest() { clear(); }
  ~SettingsTest() override { clear(); }
  static void clear() {
    for (const auto& row : setting_rows()) ::unsetenv(row.name);
  }

  EnvSettings settings_;
};

TEST_F(SettingsTest, FallbacksHoldWhereNothingIsSet) {
  EXPECT_TRUE(settings_.load().empty());
  for (const auto& row : setting_rows()) EXPECT_EQ(settings_.text(row.name), row.fallback);
  EXPECT_EQ(settings_.number("URMA_SHM_RING_SIZE"), 4096u);
  EXPECT_FALSE(settings_.flag("URMA_ENABLE_ORCH"));
}

TEST_F(SettingsTest, EveryFallbackIsAllowed) {
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
  const char* allowed;  // must stand in the complaint
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
                    Bad{"URMA_SHM_PEERS", "no such user", "there is no user 'no such user'"},
                    Bad{"URMA_SHM_PEERS", "0,,1", "there is no user ''"},
                    Bad{"URMA_SHM_PEERS", "4294967295", "there is no user '4294967295'"},
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
                    Bad{"URMA_FAULT", "rnr;drop:p=often", "p=often is no number of 0 to 100"},
                    Bad{"URMA_ENABLE_ORCH", "maybe", "0 or 1"}));

TEST_F(SettingsTest, UnknownNamesAreRefused) {
  EXPECT_THROW(settings_.text("URMA_NO_SUCH_THING"), Error);
  EXPECT_THROW(settings_.number("URMA_LOG_LEVEL"), Error);
}

}  // namespace
}  // namespace urma::core
