// SPDX-License-Identifier: MIT
//
// A thread that runs while pages of the program are frozen: it blocks all signals, and neither its
// stack nor its mailbox is memory that a program could register.
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

  // Zeros at first. Besides its stack, the thread reads and writes only this.
  void* mailbox() const;
  // Throws Error if no thread can be started. `body` gets the mailbox.
  void start(void* (*body)(void* mailbox));

 private:
  void* memory_ = nullptr;
  pthread_t thread_ = {};
  bool started_ = false;
};

}  // namespace urma

#endif  // SEGMENT_INPLACE_QUIET_THREAD_H_
