// SPDX-License-Identifier: MIT
//
// --enable_write_dirty: a concurrent writer to the memory.
#ifndef TOOLS_PERFTEST_DIRTY_H_
#define TOOLS_PERFTEST_DIRTY_H_

#include <condition_variable>
#include <mutex>
#include <thread>

#include "tools/perftest/session.h"

namespace perftest {

// Writes to each page that this side sends from, every config.write_dirty_ms, until destroyed. Does
// nothing without the option.
class DirtyWriter {
 public:
  explicit DirtyWriter(const Session& session);
  ~DirtyWriter();
  DirtyWriter(const DirtyWriter&) = delete;
  DirtyWriter& operator=(const DirtyWriter&) = delete;

 private:
  void run(const Session& session);

  std::mutex mutex_;
  std::condition_variable wake_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_DIRTY_H_
