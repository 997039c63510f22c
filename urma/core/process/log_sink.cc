// SPDX-License-Identifier: MIT
#include "urma/core/process/log_sink.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "urma/base/text.h"

namespace urma::core {
namespace {

// Lines logged by a callback go to the built-in output; else it would recurse without end.
thread_local bool in_callback = false;
thread_local LogCapture* capture = nullptr;
thread_local char thread_tag[URMA_MAX_NAME] = "-";

constexpr struct {
  const char* name;
  urma_vlog_level_t level;
} kLevelNames[] = {{"fatal", URMA_VLOG_LEVEL_CRIT},
                   {"error", URMA_VLOG_LEVEL_ERR},
                   {"warning", URMA_VLOG_LEVEL_WARNING},
                   {"info", URMA_VLOG_LEVEL_INFO},
                   {"debug", URMA_VLOG_LEVEL_DEBUG}};

const char* base_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

void format_line(char (&line)[kMaxLogLine], const LogSite& site, std::string_view message) {
  // The tid is read each time: after fork a cached one would be another thread's.
  std::snprintf(line, sizeof line, "[URMA][liburma][thread_id=%ld][%s][%s:%s:%d]%.*s",
                ::syscall(SYS_gettid), thread_tag, base_name(site.file), site.function, site.line,
                static_cast<int>(message.size()), message.data());
}

// A program prints what its callback gets as it is.
void end_with_newline(char (&text)[kMaxLogLine]) {
  const auto length = std::min(std::strlen(text), sizeof text - 2);
  text[length] = '\n';
  text[length + 1] = '\0';
}

// One write, so that lines of several threads and processes never mix. A closed stderr must not
// kill the program by a SIGPIPE of the library.
void write_stderr(std::string_view line) {
  sigset_t pipe_only, before, pending;
  ::sigemptyset(&pipe_only);
  ::sigaddset(&pipe_only, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
  char newline[] = "\n";
  const iovec parts[] = {{const_cast<char*>(line.data()), line.size()}, {newline, 1}};
  if (::writev(STDERR_FILENO, parts, 2) < 0 && errno == EPIPE &&
      ::sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once{};
    ::sigtimedwait(&pipe_only, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The levels are those of syslog, except that notice becomes info, and all worse than critical
// become critical. No openlog: its settings belong to the program.
void write_syslog(urma_vlog_level_t level, const char* line) {
  const int priority = level == URMA_VLOG_LEVEL_NOTICE ? LOG_INFO : std::max<int>(level, LOG_CRIT);
  ::syslog(LOG_USER | priority, "%s", line);
}

}  // namespace

struct LogSink::Callback {
  urma_log_cb_t plain = nullptr;
  urma_loc_log_cb located = nullptr;
  int running = 0;  // calls in progress; guarded by mutex_
};

LogCapture::LogCapture() { capture = this; }

LogCapture::~LogCapture() { capture = nullptr; }

void LogCapture::keep(std::string_view line) { copy_text(last_, line); }

// Relaxed: no other data is reached through these atomics.
urma_vlog_level_t LogSink::level() const { return level_.load(std::memory_order_relaxed); }

void LogSink::set_level(urma_vlog_level_t level) {
  if (static_cast<unsigned>(level) < URMA_VLOG_LEVEL_MAX) {
    level_.store(level, std::memory_order_relaxed);
  }
}

bool LogSink::output_takes(urma_vlog_level_t level) const {
  const auto output = output_.load(std::memory_order_relaxed);
  return output == Output::kSyslog ||
         (output == Output::kStderr &&
          (level <= URMA_VLOG_LEVEL_WARNING || verbose_.load(std::memory_order_relaxed)));
}

bool LogSink::enabled(urma_vlog_level_t level) const {
  return wanted(level) || (capture != nullptr && level <= URMA_VLOG_LEVEL_WARNING);
}

bool LogSink::wanted(urma_vlog_level_t level) const {
  if (level > this->level()) return false;
  return has_callback_.load(std::memory_order_relaxed) || output_takes(level);
}

void LogSink::write(urma_vlog_level_t level, const LogSite& site, std::string_view message) {
  if (capture != nullptr && level <= URMA_VLOG_LEVEL_WARNING) capture->keep(message);
  if (!wanted(level)) return;
  const int saved_errno = errno;
  // Adds the newline if the program did not.
  while (message.ends_with('\n')) message.remove_suffix(1);
  char line[kMaxLogLine];
  format_line(line, site, message);
  if ((in_callback || !call_back(level, site, message, line)) && output_takes(level)) {
    if (output_.load(std::memory_order_relaxed) == Output::kStderr) {
      write_stderr(line);
    } else {
      write_syslog(level, line);
    }
  }
  errno = saved_errno;
}

// False if no callback is registered.
bool LogSink::call_back(urma_vlog_level_t level, const LogSite& site, std::string_view message,
                        char (&line)[kMaxLogLine]) {
  std::shared_ptr<Callback> callback;
  {
    const MutexLock lock(mutex_);
    if (callback_ == nullptr) return false;
    callback = callback_;
    ++callback->running;
  }
  struct Leave {
    LogSink* sink;
    Callback* callback;
    ~Leave() {
      in_callback = false;
      const MutexLock lock(sink->mutex_);
      if (--callback->running == 0) sink->callback_idle_.notify_all();
    }
  } leave{this, callback.get()};
  in_callback = true;
  try {
    if (callback->plain != nullptr) {
      end_with_newline(line);
      callback->plain(level, line);
    } else {
      char text[kMaxLogLine];
      copy_text(text, message);
      end_with_newline(text);
      callback->located(level, base_name(site.file), site.function, site.line, text);
    }
  } catch (...) {
    // No caller could handle what the program's callback throws.
  }
  return true;
}

void LogSink::replace_callback(std::shared_ptr<Callback> next) {
  const MutexLock lock(mutex_);
  const auto old = std::exchange(callback_, std::move(next));
  has_callback_.store(callback_ != nullptr, std::memory_order_relaxed);
  // Inside a callback this would wait for itself.
  if (old == nullptr || in_callback) return;
  while (old->running != 0) callback_idle_.wait(mutex_);
}

void LogSink::set_callback(urma_log_cb_t plain, urma_loc_log_cb located) {
  auto next = std::make_shared<Callback>();
  next->plain = plain;
  next->located = located;
  replace_callback(std::move(next));
  URMA_LOG(INFO, "log callback registered");
}

void LogSink::clear_callback() {
  if (has_callback_.load(std::memory_order_relaxed)) {
    std::string separator;
    {
      const MutexLock lock(mutex_);
      separator = separator_;
    }
    URMA_LOG(INFO, "log callback unregistered{} lines go to the built-in output again", separator);
  }
  replace_callback(nullptr);
}

void LogSink::configure(const Settings& settings) {
  const auto level = settings.text("URMA_LOG_LEVEL");
  const auto output = settings.text("URMA_LOG_SINK");
  output_.store(output == "syslog" ? Output::kSyslog
                : output == "off"  ? Output::kOff
                                   : Output::kStderr,
                std::memory_order_relaxed);
  verbose_.store(level == "debug", std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  separator_ = settings.text("URMA_LOG_SEPARATOR");
  if (std::exchange(last_level_, level) == level) return;
  for (const auto& known : kLevelNames) {
    if (level == known.name) set_level(known.level);
  }
}

void LogSink::before_fork() { mutex_.lock(); }

void LogSink::after_fork_in_parent() { mutex_.unlock(); }

void LogSink::after_fork_in_child() {
  // The parent's other threads do not exist here and cannot end their calls.
  if (callback_ != nullptr) callback_->running = in_callback ? 1 : 0;
  mutex_.unlock();
}

const char* thread_log_tag() { return thread_tag; }

void set_thread_log_tag(std::string_view tag) {
  if (tag.size() >= sizeof thread_tag) return;
  std::memcpy(thread_tag, tag.data(), tag.size());
  thread_tag[tag.size()] = '\0';
}

LogSink& log_sink() {
  static auto& the_sink = *new LogSink;
  return the_sink;
}

}  // namespace urma::core
