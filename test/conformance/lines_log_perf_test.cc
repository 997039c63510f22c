// SPDX-License-Identifier: MIT
//
// Line 35: the log, and performance measurement.
#include <sys/wait.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "test/conformance/lines.h"
#include "urma_perf.h"

namespace urma_test {
namespace {

// The log works before the library is started.
class LogLines : public LibraryLines {
 protected:
  ~LogLines() override {
    urma_unregister_log_func();
    urma_log_set_level(URMA_VLOG_LEVEL_INFO);
    urma_log_set_thread_tag("-");
  }
  static unsigned long refs() { return 0; }
};

std::atomic<int> g_lines, g_located_lines;

void take(int, char*) { ++g_lines; }
void take_located(int, const char*, const char*, int, char*) { ++g_located_lines; }

// A call that logs each time.
void complain() { EXPECT_EQ(urma_uninit(), URMA_SUCCESS); }

TEST_F(LogLines, S1_35a_RegisterOfNull) {
  ASSERT_EQ(urma_register_log_func(take), URMA_SUCCESS);
  EXPECT_EINVAL(urma_register_log_func(nullptr));
  EXPECT_EINVAL(urma_register_loc_log_func(nullptr));
  // The previous one stays.
  const int before = g_lines;
  complain();
  EXPECT_GT(g_lines, before);
}

TEST_F(LogLines, S1_35b_RegisterReplaces) {
  ASSERT_EQ(urma_register_log_func(take), URMA_SUCCESS);
  ASSERT_EQ(urma_register_loc_log_func(take_located), URMA_SUCCESS);
  const int before = g_lines, located_before = g_located_lines;
  complain();
  EXPECT_EQ(g_lines, before);
  EXPECT_GT(g_located_lines, located_before);
  EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
  const int located_after = g_located_lines;
  complain();
  EXPECT_EQ(g_located_lines, located_after);
}

TEST_F(LogLines, S1_35c_SetLevelBeyondTheEnd) {
  urma_log_set_level(URMA_VLOG_LEVEL_WARNING);
  urma_log_set_level(URMA_VLOG_LEVEL_MAX);
  EXPECT_EQ(urma_log_get_level(), URMA_VLOG_LEVEL_WARNING);
  urma_log_set_level(URMA_VLOG_LEVEL_DEBUG);
  EXPECT_EQ(urma_log_get_level(), URMA_VLOG_LEVEL_DEBUG);
}

TEST_F(LogLines, S1_35d_TagThatCannotBeSet) {
  EXPECT_STREQ(urma_log_get_thread_tag(), "-");
  urma_log_set_thread_tag("mine");
  urma_log_set_thread_tag(nullptr);
  EXPECT_STREQ(urma_log_get_thread_tag(), "mine");
  urma_log_set_thread_tag(std::string(64, 'x').c_str());
  EXPECT_STREQ(urma_log_get_thread_tag(), "mine");
  urma_log_set_thread_tag(std::string(63, 'x').c_str());
  EXPECT_EQ(urma_log_get_thread_tag(), std::string(63, 'x'));
}

// The level that a new process takes from its environment.
int level_of(const char* text) {
  ::setenv("URMA_LOG_LEVEL", text, 1);
  Child program("level_program", {std::getenv("LEVEL_PROGRAM")});
  ::unsetenv("URMA_LOG_LEVEL");
  const int status = program.wait();
  EXPECT_TRUE(WIFEXITED(status)) << program.output();
  return WEXITSTATUS(status);
}

TEST_F(LogLines, S1_35e_LevelOfTheEnvironment) {
  const struct {
    const char* text;
    urma_vlog_level_t level;
  } kLevels[] = {
      {"fatal", URMA_VLOG_LEVEL_CRIT},      {"error", URMA_VLOG_LEVEL_ERR},
      {"warning", URMA_VLOG_LEVEL_WARNING}, {"info", URMA_VLOG_LEVEL_INFO},
      {"debug", URMA_VLOG_LEVEL_DEBUG},     {"DeBuG", URMA_VLOG_LEVEL_DEBUG},
      {"ERROR", URMA_VLOG_LEVEL_ERR},
  };
  for (const auto& expected : kLevels) EXPECT_EQ(level_of(expected.text), expected.level);
}

TEST_F(LogLines, S1_35f_UnknownLevelOfTheEnvironment) {
  const std::string longest(40, 'd');
  for (const char* text : {"", "verbose", "7", "debug ", longest.c_str()}) {
    EXPECT_EQ(level_of(text), URMA_VLOG_LEVEL_INFO) << text;
  }
}

TEST_F(DeviceLines, S1_35g_PerfInfo) {
  std::vector<char> text(1 << 16);
  uint32_t length = static_cast<uint32_t>(text.size());
  EXPECT_EINVAL(urma_get_perf_info(nullptr, &length));
  EXPECT_EINVAL(urma_get_perf_info(text.data(), nullptr));
  EXPECT_EQ(length, text.size());
  EXPECT_ANSWER(urma_start_perf(), URMA_SUCCESS);
  Loop loop(ctx_, URMA_TM_RM, false);
  loop.check();
  loop.end();
  EXPECT_ANSWER(urma_stop_perf(), URMA_SUCCESS);
  length = 1;
  EXPECT_EINVAL(urma_get_perf_info(text.data(), &length));
  EXPECT_EQ(length, 1u);
  EXPECT_EQ(text[0], '\0');
  length = static_cast<uint32_t>(text.size());
  EXPECT_ANSWER(urma_get_perf_info(text.data(), &length), URMA_SUCCESS);
  const std::string table = text.data();
  EXPECT_EQ(length, table.size() + 1);
  EXPECT_NE(table.find("UB_JFS_POST_SEND"), std::string::npos);
}

}  // namespace
}  // namespace urma_test
