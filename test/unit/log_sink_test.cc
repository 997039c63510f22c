// SPDX-License-Identifier: MIT
#include "urma/core/process/log_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "third_party/fmt/format.h"
#include "urma/base/fd.h"
#include "urma/base/log.h"
#include "urma/core/process/settings.h"
#include "urma_api.h"
#include "urma_ext.h"

namespace urma::core {
namespace {

std::mutex lines_mutex;
std::vector<std::pair<int, std::string>> lines;

void collect(int level, char* line) {
  const std::lock_guard lock(lines_mutex);
  lines.emplace_back(level, line);
}

void collect_located(int level, const char* file, const char* function, int line, char* text) {
  const std::lock_guard lock(lines_mutex);
  lines.emplace_back(level, urma::format("{}/{}/{}/{}", file, function, line, text));
}

std::vector<std::pair<int, std::string>> take_lines() {
  const std::lock_guard lock(lines_mutex);
  return std::exchange(lines, {});
}

// stderr as a pipe that preserves write boundaries.
class CapturedStderr {
 public:
  CapturedStderr() : saved_(::dup(STDERR_FILENO)) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_DIRECT | O_NONBLOCK | O_CLOEXEC), 0);
    read_.reset(ends[0]);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
  }
  ~CapturedStderr() { ::dup2(saved_.get(), STDERR_FILENO); }

  std::vector<std::string> writes() {
    std::vector<std::string> all;
    char buffer[4096];
    for (ssize_t length; (length = ::read(read_.get(), buffer, sizeof buffer)) > 0;) {
      all.emplace_back(buffer, static_cast<size_t>(length));
    }
    return all;
  }
  void close_reader() { read_.reset(); }

 private:
  Fd saved_;
  Fd read_;
};

class LogSinkTest : public testing::Test {
 protected:
  ~LogSinkTest() override {
    urma_unregister_log_func();
    urma_log_set_level(URMA_VLOG_LEVEL_INFO);
    urma_log_set_thread_tag("-");
    ::unsetenv("URMA_LOG_SINK");
    ::unsetenv("URMA_LOG_LEVEL");
    configure();
    take_lines();
  }
  static void configure() {
    EnvSettings settings;
    settings.load();
    log_sink().configure(settings);
  }
};

TEST_F(LogSinkTest, CallbackGetsTheDocumentedLine) {
  ASSERT_EQ(urma_register_log_func(collect), URMA_SUCCESS);
  const auto registered = take_lines();
  ASSERT_EQ(registered.size(), 1u);
  EXPECT_EQ(registered[0].first, URMA_VLOG_LEVEL_INFO);
  urma_log_set_thread_tag("worker");
  log_sink().write(URMA_VLOG_LEVEL_ERR, {"some/dir/file.cc", "function", 42}, "a text");
  const auto got = take_lines();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].first, URMA_VLOG_LEVEL_ERR);
  EXPECT_EQ(got[0].second,
            urma::format("[URMA][liburma][thread_id={}][worker][file.cc:function:42]a text\n",
                         ::gettid()));
}

// Programs print it with %s; their own format may already end the line.
TEST_F(LogSinkTest, TextOfACallbackEndsWithOneNewline) {
  ASSERT_EQ(urma_register_log_func(collect), URMA_SUCCESS);
  take_lines();
  urma_log("function", 1, URMA_VLOG_LEVEL_INFO, "without");
  urma_log("function", 1, URMA_VLOG_LEVEL_INFO, "with\n");
  urma_log_loc("some/file.cc", "function", 7, URMA_VLOG_LEVEL_INFO, "place %d", 1);
  urma_log_loc(nullptr, nullptr, 7, URMA_VLOG_LEVEL_INFO, "nowhere");
  urma_log_loc("file.cc", "function", 7, URMA_VLOG_LEVEL_DEBUG, "too quiet");
  urma_log_loc("file.cc", "function", 7, URMA_VLOG_LEVEL_INFO, nullptr);
  const auto got = take_lines();
  ASSERT_EQ(got.size(), 4u);
  EXPECT_TRUE(got[0].second.ends_with("]without\n"));
  EXPECT_TRUE(got[1].second.ends_with("]with\n"));
  EXPECT_TRUE(got[2].second.ends_with("[file.cc:function:7]place 1\n"));
  EXPECT_TRUE(got[3].second.ends_with("[::7]nowhere\n"));
}

TEST_F(LogSinkTest, LocatedCallbackGetsTheBareTextAndTheLatestIsUsed) {
  ASSERT_EQ(urma_register_log_func(collect), URMA_SUCCESS);
  ASSERT_EQ(urma_register_loc_log_func(collect_located), URMA_SUCCESS);
  take_lines();
  log_sink().write(URMA_VLOG_LEVEL_INFO, {"some/file.cc", "function", 42}, "a text");
  const auto got = take_lines();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].second, "file.cc/function/42/a text\n");
  EXPECT_EQ(urma_register_log_func(nullptr), URMA_EINVAL);
  EXPECT_EQ(urma_register_loc_log_func(nullptr), URMA_EINVAL);
}

std::string no_memory() { throw std::bad_alloc(); }

// The ends of connections and queues log, and must not fail.
TEST_F(LogSinkTest, LineWithoutMemoryForAnArgumentSaysSo) {
  ASSERT_EQ(urma_register_loc_log_func(collect_located), URMA_SUCCESS);
  take_lines();
  EXPECT_NO_THROW(URMA_LOG(ERR, "a text of {}", no_memory()));
  EXPECT_NO_THROW(URMA_LOG_LIMITED(ERR, "a text of {}", no_memory()));
  const auto got = take_lines();
  ASSERT_EQ(got.size(), 2u);
  for (const auto& line : got) EXPECT_TRUE(line.second.ends_with("/out of memory\n"));
}

TEST_F(LogSinkTest, LongLineIsCutOff) {
  ASSERT_EQ(urma_register_loc_log_func(collect_located), URMA_SUCCESS);
  take_lines();
  URMA_LOG(ERR, "{} and {}", std::string(kMaxLogLine - 10, 'x'), std::string(100, 'y'));
  const auto got = take_lines();
  ASSERT_EQ(got.size(), 1u);
  const std::string& line = got[0].second;
  EXPECT_NE(line.find(std::string(kMaxLogLine - 10, 'x') + " and yy"), std::string::npos);
  EXPECT_EQ(line.find(std::string(10, 'y')), std::string::npos);
  EXPECT_TRUE(line.ends_with("y\n"));
}

TEST_F(LogSinkTest, LimitedLinesSayHowManyWereLeftOut) {
  ASSERT_EQ(urma_register_loc_log_func(collect_located), URMA_SUCCESS);
  take_lines();
  uint64_t calls = 0;
  uint64_t seen = 0;
  std::string last;
  // For a second, until lines are let through again.
  while (last.find("like this left out") == std::string::npos) {
    URMA_LOG_LIMITED(ERR, "call {}", calls);
    ++calls;
    for (const auto& line : take_lines()) {
      ++seen;
      last = line.second;
    }
  }
  EXPECT_NE(last.find(urma::format("call {} ({} like this left out)", calls - 1, calls - seen)),
            std::string::npos)
      << last;
  EXPECT_LT(seen, 100u);
}

TEST_F(LogSinkTest, UnregisterTellsTheOldCallback) {
  EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
  urma_register_log_func(collect);
  take_lines();
  EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
  EXPECT_EQ(take_lines().size(), 1u);
  log_sink().write(URMA_VLOG_LEVEL_INFO, {"file.cc", "function", 1}, "not seen");
  EXPECT_TRUE(take_lines().empty());
}

TEST_F(LogSinkTest, LevelFilters) {
  EXPECT_EQ(urma_log_get_level(), URMA_VLOG_LEVEL_INFO);
  urma_register_log_func(collect);
  take_lines();
  urma_log("function", 1, URMA_VLOG_LEVEL_DEBUG, "left out");
  EXPECT_TRUE(urma_log_drop(URMA_VLOG_LEVEL_DEBUG));
  urma_log_set_level(URMA_VLOG_LEVEL_DEBUG);
  EXPECT_FALSE(urma_log_drop(URMA_VLOG_LEVEL_DEBUG));
  urma_log("function", 1, URMA_VLOG_LEVEL_DEBUG, "number %d", 7);
  urma_log_set_level(URMA_VLOG_LEVEL_MAX);
  EXPECT_EQ(urma_log_get_level(), URMA_VLOG_LEVEL_DEBUG);
  const auto got = take_lines();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_NE(got[0].second.find("number 7"), std::string::npos);
}

TEST_F(LogSinkTest, SetLevelSurvivesUnchangedSettings) {
  urma_log_set_level(URMA_VLOG_LEVEL_DEBUG);
  configure();
  EXPECT_EQ(urma_log_get_level(), URMA_VLOG_LEVEL_DEBUG);
  ::setenv("URMA_LOG_LEVEL", "ERROR", 1);
  configure();
  EXPECT_EQ(urma_log_get_level(), URMA_VLOG_LEVEL_ERR);
}

TEST_F(LogSinkTest, TooLongTagsAreIgnored) {
  urma_log_set_thread_tag("mine");
  urma_log_set_thread_tag(nullptr);
  urma_log_set_thread_tag(std::string(64, 'x').c_str());
  EXPECT_STREQ(urma_log_get_thread_tag(), "mine");
  urma_log_set_thread_tag(std::string(63, 'x').c_str());
  EXPECT_EQ(std::strlen(urma_log_get_thread_tag()), 63u);
  std::thread([] { EXPECT_STREQ(urma_log_get_thread_tag(), "-"); }).join();
}

TEST_F(LogSinkTest, LongLinesAreCut) {
  urma_register_log_func(collect);
  take_lines();
  log_sink().write(URMA_VLOG_LEVEL_INFO, {"file.cc", "function", 1}, std::string(5000, 'x'));
  const auto line = take_lines().at(0).second;
  EXPECT_EQ(line.size(), 511u);
  EXPECT_EQ(line.back(), '\n');
}

TEST_F(LogSinkTest, StderrGetsWarningsAndAboveInOneWriteALine) {
  CapturedStderr captured;
  urma_log("function", 1, URMA_VLOG_LEVEL_INFO, "too quiet");
  urma_log("function", 2, URMA_VLOG_LEVEL_WARNING, "loud\n");
  log_sink().write(URMA_VLOG_LEVEL_ERR, {"file.cc", "function", 3}, std::string(5000, 'x'));
  const auto writes = captured.writes();
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_TRUE(writes[0].ends_with("]loud\n"));
  EXPECT_EQ(writes[1].size(), 512u);
  EXPECT_EQ(writes[1].back(), '\n');
}

TEST_F(LogSinkTest, OffPrintsNothing) {
  CapturedStderr captured;
  ::setenv("URMA_LOG_SINK", "off", 1);
  configure();
  EXPECT_FALSE(log_sink().enabled(URMA_VLOG_LEVEL_ERR));
  urma_log("function", 1, URMA_VLOG_LEVEL_ERR, "nobody sees this");
  EXPECT_TRUE(captured.writes().empty());
}

TEST_F(LogSinkTest, ErrnoIsKept) {
  CapturedStderr captured;
  captured.close_reader();
  errno = EXDEV;
  // The reader is gone: errno is unchanged and no SIGPIPE is raised.
  urma_log("function", 1, URMA_VLOG_LEVEL_ERR, "nobody reads this");
  EXPECT_EQ(errno, EXDEV);
  sigset_t pending;
  ::sigpending(&pending);
  EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
}

int recursions = 0;

void log_again(int, char*) {
  ++recursions;
  urma_log("log_again", 1, URMA_VLOG_LEVEL_ERR, "from inside");
}

TEST_F(LogSinkTest, CallbackThatLogsIsNotCalledForThat) {
  CapturedStderr captured;
  recursions = 0;
  urma_register_log_func(log_again);
  EXPECT_EQ(recursions, 1);
  EXPECT_EQ(captured.writes().size(), 1u);
}

void throw_anything(int, char*) { throw 42; }

TEST_F(LogSinkTest, WhatACallbackThrowsStaysInTheLog) {
  EXPECT_EQ(urma_register_log_func(throw_anything), URMA_SUCCESS);
  EXPECT_NO_THROW(log_sink().write(URMA_VLOG_LEVEL_ERR, URMA_LOG_SITE, "text"));
}

void replace_itself(int, char*) { urma_register_log_func(collect); }

TEST_F(LogSinkTest, CallbackMayReplaceItself) {
  urma_register_log_func(replace_itself);
  take_lines();
  urma_log("function", 1, URMA_VLOG_LEVEL_INFO, "to the new one");
  EXPECT_EQ(take_lines().size(), 1u);
}

std::atomic<int> in_counted{0};
std::atomic<bool> ended{false};
std::atomic<int> late{0};

void counted(int, char*) {
  ++in_counted;
  if (ended) ++late;
  --in_counted;
}

TEST_F(LogSinkTest, UnregisterWaitsForTheCallback) {
  std::atomic<bool> stop{false};
  ::setenv("URMA_LOG_SINK", "off", 1);
  configure();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) urma_log("function", 1, URMA_VLOG_LEVEL_INFO, "line");
    });
  }
  for (int i = 0; i < 300; ++i) {
    ended = false;
    urma_register_log_func(counted);
    urma_unregister_log_func();
    ended = true;
    EXPECT_EQ(in_counted, 0);
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(late, 0);
}

TEST_F(LogSinkTest, ChildForkedWhileOthersLogCanLog) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not support fork in a program with threads";
#endif
  std::atomic<bool> stop{false};
  urma_register_log_func(counted);
  ended = false;
  std::thread other([&] {
    while (!stop) urma_log("function", 1, URMA_VLOG_LEVEL_INFO, "line");
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      urma_log("function", 1, URMA_VLOG_LEVEL_INFO, "line of the child");
      urma_unregister_log_func();
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

TEST_F(LogSinkTest, VersionIsThatOfTheRelease) { EXPECT_STREQ(urma_ext_version(), "0.2.0"); }

}  // namespace
}  // namespace urma::core
