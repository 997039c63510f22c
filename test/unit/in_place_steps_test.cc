// SPDX-License-Identifier: MIT
//
// Every system call on the way from private to shared memory and back is refused once, one after
// the other, while a thread writes there: no byte is lost, and nothing blocks indefinitely.
#include <linux/userfaultfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "test/process/crash_gate.h"
#include "test/process/harness.h"
#include "test/unit/in_place_harness.h"

namespace urma {
namespace {

using urma_test::Channel;
using urma_test::Child;
using urma_test::CrashGate;

constexpr uint64_t kBytes = 2 * kMiB + 16 * kPage;  // two chunks
constexpr uint64_t kCounterAt = 64;                 // in each page, after the bytes of fill()
constexpr int kMostCalls = 1000;

// Counts in one page after the other, and knows the expected value of each.
class Writer {
 public:
  explicit Writer(char* memory) : memory_(memory), thread_([this] { run(); }) {}
  bool all_is_there() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
    for (uint64_t page = 0; page < counts_.size(); ++page) {
      if (*counter(page) != counts_[page]) {
        std::fprintf(stderr, "page %lu: %lu instead of %lu\n", static_cast<unsigned long>(page),
                     static_cast<unsigned long>(*counter(page)),
                     static_cast<unsigned long>(counts_[page]));
        return false;
      }
    }
    return true;
  }

 private:
  volatile uint64_t* counter(uint64_t page) {
    return reinterpret_cast<volatile uint64_t*>(memory_ + page * kPage + kCounterAt);
  }
  void run() {
    for (uint64_t page = 0; !stop_.load(std::memory_order_relaxed);
         page = (page + 7) % counts_.size()) {
      *counter(page) = *counter(page) + 1;
      ++counts_[page];
    }
  }

  char* const memory_;
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(kBytes / kPage);
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// There and back. Calls between the marks go through the gate. Returns whether all is private then.
bool go_both_ways(Channel& channel) {
  FilledMemory memory(kBytes, 0, 2 * kMiB);
  Writer writer(memory.get());
  PageTable table;
  channel.send(urma_test::open_gate());
  urma_test::pass_mark();
  const auto range = table.add(address(memory.get()), kBytes, kWriters);
  share_all(table, range);
  const bool shared_whole = static_cast<bool>(is_filled(memory.get(), kBytes));
  table.remove(range);
  table.clear();
  urma_test::pass_mark();
  EXPECT_TRUE(shared_whole);
  EXPECT_TRUE(writer.all_is_there());
  EXPECT_TRUE(is_filled(memory.get(), kBytes));
  const auto all = areas(address(memory.get()), address(memory.get()) + kBytes);
  return std::ranges::none_of(
      all, [](const std::string& line) { return line.find('/') != std::string::npos; });
}

class InPlaceSteps : public ::testing::TestWithParam<int> {};

// Returns whether there were that many calls.
bool refuse_one(int number, int error) {
  Child child("child", [](Channel& channel) { go_both_ways(channel); });
  CrashGate gate(child.pid(), child.channel().receive<int>());
  int marks = 0;
  int calls = 0;
  std::string refused = "none";
  gate.serve([&](const seccomp_data& call) {
    marks += CrashGate::is_mark(call) ? 1 : 0;
    if (marks != 1 || !CrashGate::can_be_refused(call) || ++calls != number) {
      return CrashGate::kPass;
    }
    refused = std::to_string(call.nr) + "(" + std::to_string(call.args[0]) + ", " +
              std::to_string(call.args[1]) + ", " + std::to_string(call.args[2]) + ")";
    return error;
  });
  SCOPED_TRACE("refused: " + refused);
  child.expect_success();
  return calls >= number;
}

TEST_P(InPlaceSteps, EachCallIsRefused) {
  SKIP_UNLESS_IN_PLACE();
  const std::string why = urma_test::why_no_gate();
  if (!why.empty()) GTEST_SKIP() << why;
  int number = 0;
  do {
    ++number;
    SCOPED_TRACE("call " + std::to_string(number));
    if (!refuse_one(number, GetParam())) break;
  } while (number < kMostCalls && !HasFailure());
  EXPECT_GT(number, 50) << "moving pages there and back takes more calls";
  std::printf("%d calls refused\n", number - 1);
}

// A kernel that has other work says EAGAIN, and has copied nothing.
TEST(InPlaceRepeatedSteps, PagesComeBackHoweverOftenACopyHasToWait) {
  SKIP_UNLESS_IN_PLACE();
  const std::string why = urma_test::why_no_gate();
  if (!why.empty()) GTEST_SKIP() << why;
  constexpr int kDelays = 64;  // before each copy
  Child child("child", [](Channel& channel) { EXPECT_TRUE(go_both_ways(channel)); });
  CrashGate gate(child.pid(), child.channel().receive<int>());
  int tries = 0;
  gate.serve([&](const seccomp_data& call) {
    const bool copies = call.nr == SYS_ioctl && call.args[1] == UFFDIO_COPY;
    return copies && ++tries % (kDelays + 1) != 0 ? EAGAIN : CrashGate::kPass;
  });
  child.expect_success();
  EXPECT_GT(tries, kDelays);
}

INSTANTIATE_TEST_SUITE_P(With, InPlaceSteps, ::testing::Values(ENOMEM, EPERM),
                         [](const auto& info) {
                           return std::string(info.param == ENOMEM ? "ENOMEM" : "EPERM");
                         });

}  // namespace
}  // namespace urma
