// SPDX-License-Identifier: MIT
//
// The way back runs on a thread of its own. The program's thread that asks for it may run on a
// stack that is to be moved, and a signal handler on it may touch frozen pages: it then sleeps
// until another thread has thawed them.
#ifndef SEGMENT_INPLACE_RESTORE_THREAD_H_
#define SEGMENT_INPLACE_RESTORE_THREAD_H_

#include <cstdint>

#include "segment/inplace/page_mover.h"
#include "segment/inplace/quiet_thread.h"

namespace urma {

// One caller at a time.
class RestoreThread {
 public:
  // Throws Error if no thread can be started.
  RestoreThread();
  RestoreThread(const RestoreThread&) = delete;
  RestoreThread& operator=(const RestoreThread&) = delete;
  ~RestoreThread();

  // restore_chunk() and replace_chunk(), on that thread.
  long restore(const MoverTools& tools, const Chunk& chunk, const RestoredArea& area,
               uint64_t* data_end);
  long replace(const MoverTools& tools, const Chunk& chunk, int protection, int new_fd,
               uint64_t* data_end);

 private:
  struct Mailbox;
  static void* run(void* mailbox);
  long ask(uint64_t* data_end);

  QuietThread thread_;
  Mailbox* box_;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_RESTORE_THREAD_H_
