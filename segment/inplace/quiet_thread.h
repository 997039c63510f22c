// SPDX-License-Identifier: MIT
//
// A thread that goes on while pages of the program are frozen: it blocks all signals, and neither
// its stack nor its mailbox is memory that anybody could register.
#ifndef SEGMENT_INPLACE_QUIET_THREAD_H_
#define SEGMENT_INPLACE_QUIET_THREAD_H_

#include <pthread.h>

#include <cstddef>

namespace urma {

class QuietThread {
 public:
  static constexpr size_t kMailboxBytes = 4096;

  QuietThread();
  QuietThread(const QuietThread&) = delete;
  QuietThread& operator=(const QuietThread&) = delete;
  // Waits for the thread's end.
  ~QuietThread();

  // Zeros at first. All that the thread reads and writes besides its stack.
  void* mailbox() const;
  // Throws Error where there is no thread to be had. `body` gets the mailbox.
  void start(void* (*body)(void* mailbox));

 private:
  void* memory_ = nullptr;
  pthread_t thread_ = {};
  bool started_ = false;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_QUIET_THREAD_H_
