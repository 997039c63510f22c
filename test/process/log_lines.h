// SPDX-License-Identifier: MIT
//
// The lines of the library's log, for tests of their text.
#ifndef TEST_PROCESS_LOG_LINES_H_
#define TEST_PROCESS_LOG_LINES_H_

#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

#include "urma_api.h"

namespace urma_test {

// Captures the lines of this process during its lifetime. One at a time.
class LogLines {
 public:
  LogLines() { urma_register_log_func(take); }
  ~LogLines() { urma_unregister_log_func(); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  // The number of lines that contain all of these texts.
  static size_t count(std::initializer_list<std::string> texts) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(
        std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
          return std::all_of(texts.begin(), texts.end(), [&](const std::string& text) {
            return line.find(text) != std::string::npos;
          });
        }));
  }
  // All lines, for the message of a failing test.
  static std::string all() {
    const std::lock_guard lock(mutex_);
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

 private:
  static void take(int /*level*/, char* line) {
    const std::lock_guard lock(mutex_);
    lines_.emplace_back(line);
  }

  static inline std::mutex mutex_;
  static inline std::vector<std::string> lines_;
};

#define EXPECT_LINE(...) \
  EXPECT_EQ(::urma_test::LogLines::count({__VA_ARGS__}), 1u) << ::urma_test::LogLines::all()

}  // namespace urma_test

#endif  // TEST_PROCESS_LOG_LINES_H_
