// SPDX-License-Identifier: MIT
//
// Threads that wait on a word of memory that is moved. The kernel identifies the word of a private
// futex by address, and that of a shared futex by the memory at the address.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <ctime>
#include <thread>

#include "test/unit/in_place_harness.h"

namespace urma {
namespace {

constexpr long kPatienceSeconds = 20;  // for what must not happen

long futex(uint32_t* word, int operation, uint32_t value, const timespec* timeout = nullptr) {
  return ::syscall(SYS_futex, word, operation, value, timeout, nullptr, 0);
}

// A thread that waits until it is woken; it leaves the word unchanged.
class Waiter {
 public:
  Waiter(uint32_t* word, int flag)
      : word_(word), flag_(flag), thread_([this] {
          const timespec patience = {kPatienceSeconds, 0};
          result_ = futex(word_, FUTEX_WAIT | flag_, 0, &patience) == 0 ? 0 : errno;
        }) {
    while (waiters() == 0) std::this_thread::yield();
  }
  ~Waiter() { thread_.join(); }

  long wake() { return futex(word_, FUTEX_WAKE | flag_, INT_MAX); }
  // The waiters that a wakeup would find: all are requeued to the same word.
  long waiters() {
    return ::syscall(SYS_futex, word_, FUTEX_CMP_REQUEUE | flag_, 0, INT_MAX, word_, 0);
  }
  int join() {
    thread_.join();
    thread_ = std::thread([] {});
    return result_;
  }

 private:
  uint32_t* const word_;
  const int flag_;
  int result_ = -1;
  std::thread thread_;
};

class InPlaceFutex : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_IN_PLACE(); }
  void share() {
    const auto parts = shared_parts(table_, memory_.get(), kPage, &range_);
    ASSERT_EQ(parts[0].reason, URMA_EXT_REASON_NONE);
  }

  PageTable table_;
  PrivateMemory memory_{kPage};
  SharedPages::RangeId range_ = 0;
  uint32_t* const word_ = reinterpret_cast<uint32_t*>(memory_.get());
};

TEST_F(InPlaceFutex, APrivateFutexIsWokenAcrossTheMove) {
  {
    Waiter waiter(word_, FUTEX_PRIVATE_FLAG);
    share();
    EXPECT_EQ(waiter.wake(), 1);
    EXPECT_EQ(waiter.join(), 0);
  }
  Waiter waiter(word_, FUTEX_PRIVATE_FLAG);
  table_.remove(range_);
  EXPECT_EQ(waiter.wake(), 1);
  EXPECT_EQ(waiter.join(), 0);
}

// A limit of in-place sharing: waiters on such a futex are not found before the memory is back.
TEST_F(InPlaceFutex, ASharedFutexIsNotWokenAcrossTheMove) {
  Waiter waiter(word_, 0);
  share();
  EXPECT_EQ(waiter.wake(), 0);
  table_.remove(range_);
  EXPECT_EQ(waiter.wake(), 1);
  EXPECT_EQ(waiter.join(), 0);
}

TEST_F(InPlaceFutex, ASharedFutexWorksInSharedMemory) {
  share();
  {
    Waiter waiter(word_, 0);
    EXPECT_EQ(waiter.wake(), 1);
    EXPECT_EQ(waiter.join(), 0);
  }
  table_.remove(range_);
}

}  // namespace
}  // namespace urma
