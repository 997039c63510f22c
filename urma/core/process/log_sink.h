// SPDX-License-Identifier: MIT
//
// The one sink of the process: the program's callback if one is registered, else stderr or syslog.
#ifndef URMA_CORE_PROCESS_LOG_SINK_H_
#define URMA_CORE_PROCESS_LOG_SINK_H_

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "urma/base/host.h"
#include "urma/base/mutex.h"

namespace urma::core {

class LogSink final : public Logger {
 public:
  bool enabled(urma_vlog_level_t level) const override;
  // Keeps errno, and never throws.
  void write(urma_vlog_level_t level, const LogSite& site, std::string_view message) override;

  // Applies only settings that changed since the last time, so that a level set by the program
  // outlives an urma_init.
  void configure(const Settings& settings);

  urma_vlog_level_t level() const;
  void set_level(urma_vlog_level_t level);

  // Exactly one of the two is given. On return no other thread is in an earlier callback, unless
  // this is called from a callback.
  void set_callback(urma_log_cb_t plain, urma_loc_log_cb located);
  void clear_callback();

  // Called around fork(), so that the child's lock is free.
  void before_fork() URMA_ACQUIRE(mutex_);
  void after_fork_in_parent() URMA_RELEASE(mutex_);
  void after_fork_in_child() URMA_RELEASE(mutex_);

 private:
  enum class Output { kStderr, kSyslog, kOff };
  struct Callback;

  bool output_takes(urma_vlog_level_t level) const;
  bool wanted(urma_vlog_level_t level) const;
  bool call_back(urma_vlog_level_t level, const LogSite& site, std::string_view message,
                 char (&line)[kMaxLogLine]);
  void replace_callback(std::shared_ptr<Callback> next);

  std::atomic<urma_vlog_level_t> level_{URMA_VLOG_LEVEL_INFO};
  std::atomic<Output> output_{Output::kStderr};
  std::atomic<bool> verbose_{false};  // the environment asks for debug lines
  std::atomic<bool> has_callback_{false};

  Mutex mutex_;
  Condition callback_idle_;
  std::shared_ptr<Callback> callback_ URMA_GUARDED_BY(mutex_);
  std::string last_level_ URMA_GUARDED_BY(mutex_) = "info";
  std::string separator_ URMA_GUARDED_BY(mutex_) = "|";
};

// Keeps the last line of WARNING or worse that this thread logs while it exists, even if the log
// drops it. Not to be nested.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
  std::string last() const { return last_; }
  void keep(std::string_view line);

 private:
  char last_[kMaxLogLine] = "";
};

// The tag of this thread's lines; tags of URMA_MAX_NAME or more characters are ignored.
const char* thread_log_tag();
void set_thread_log_tag(std::string_view tag);

// The sink of the process.
LogSink& log_sink();

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_LOG_SINK_H_
