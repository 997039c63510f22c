// SPDX-License-Identifier: MIT
//
// Many processes, each of which sends to several others, writes into their memory, reads it back
// and counts in it, while one after the other is killed and restarted. Every message has a number
// and a pattern: a request that completed with success has arrived, once, in order and unchanged;
// and only requests to the dead process fail.
//
// With URMA_SOAK it is 200 processes and 100 GiB instead of 12 and 1 GiB.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/load_worker.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

constexpr unsigned kLifeSeconds = 4 * 3600;
constexpr seconds kStandstill{30};

class LoadTest : public ProcessTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("the death of a process is known at once");
    void* const memory =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    board_ = new (memory) Board{};
    random_.seed(announced_seed());
    // Each process inherits the descriptors of those started before it.
    rlimit limit;
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  void TearDown() override {
    if (board_ != nullptr) ::munmap(board_, sizeof(Board));
  }

  Slot& slot(size_t index) { return board_->slots[index]; }

  void start(size_t index) {
    if (workers_.size() <= index) workers_.resize(index + 1);
    lives_.resize(workers_.size());
    const uint64_t life = ++lives_[index];
    const uint64_t seed = random_();
    workers_[index] = std::make_unique<Child>("worker " + std::to_string(index),
                                              [this, index, life, seed](Channel&) {
                                                ::alarm(kLifeSeconds);
                                                work(board_, processes_, index, life, seed);
                                              });
  }

  void wait_until_all_are_there() {
    for (size_t i = 0; i < processes_ && !HasFailure(); ++i) {
      wait_for("a worker that starts", [this, i] { return slot(i).life.load() != 0; });
    }
  }

  // As long as bytes move somewhere.
  void wait_for(const char* what, const std::function<bool()>& done) {
    uint64_t before = 0;
    auto last = Clock::now();
    while (!done()) {
      ::poll(nullptr, 0, 1);
      if (const uint64_t now = moved(); now != before) {
        before = now;
        last = Clock::now();
      }
      ASSERT_LT(Clock::now() - last, patience(kStandstill)) << what;
      for (const auto& worker : workers_) {
        ASSERT_TRUE(worker == nullptr || runs(*worker)) << worker->output();
      }
    }
  }

  static bool runs(const Child& child) {
    siginfo_t info = {};
    return ::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOHANG | WNOWAIT) ==
               0 &&
           info.si_pid == 0;
  }

  uint64_t moved() const { return sum(&Slot::moved); }
  uint64_t sum(std::atomic<uint64_t> Slot::*counter) const {
    uint64_t found = 0;
    for (size_t i = 0; i < processes_; ++i) found += (board_->slots[i].*counter).load();
    return found;
  }

  void kill_one() {
    const size_t index = random_() % processes_;
    if (slot(index).life.load() == 0) return;  // is being started
    slot(index).life.store(0);
    workers_[index]->kill();
    EXPECT_TRUE(WIFSIGNALED(workers_[index]->wait())) << workers_[index]->output();
    workers_[index].reset();
    ++kills_;
    expect_all_received(index);
    if (!HasFailure()) start(index);
  }

  // What the dead process knew to be complete has arrived or will.
  void expect_all_received(size_t index) {
    for (size_t distance = 0; distance < kPartners && !HasFailure(); ++distance) {
      const Slot::Sent& sent = slot(index).sent[distance];
      Slot& receiver = slot((index + 1 + distance) % processes_);
      const Slot::Received& received = receiver.received[distance];
      const uint64_t to_life = sent.to_life.load();
      if (to_life == 0 || sent.completed.load() == 0) continue;
      wait_for("the last messages of a dead sender", [&] {
        return receiver.life.load() != to_life || (received.from_life.load() == lives_[index] &&
                                                   received.count.load() >= sent.completed.load());
      });
    }
  }

  void expect_exact_totals() {
    for (size_t i = 0; i < processes_; ++i) {
      for (size_t distance = 0; distance < kPartners; ++distance) {
        const Slot::Sent& sent = slot(i).sent[distance];
        const size_t partner = (i + 1 + distance) % processes_;
        const Slot::Received& received = slot(partner).received[distance];
        if (sent.to_life.load() != lives_[partner] || sent.completed.load() == 0) continue;
        EXPECT_EQ(received.from_life.load(), lives_[i]);
        EXPECT_EQ(received.count.load(), sent.completed.load()) << i << " to " << partner;
      }
    }
  }

  Board* board_ = nullptr;
  size_t processes_ = 0;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Child>> workers_;
  std::vector<uint64_t> lives_;
  uint64_t kills_ = 0;
};

TEST_F(LoadTest, NoMessageIsLostOrDuplicated) {
  processes_ = is_soak() ? kMostProcesses : 12;
  const uint64_t goal = uint64_t{is_soak() ? 100u : 1u} << 30;
  const uint64_t kills = is_soak() ? 200 : 40;
  for (size_t i = 0; i < processes_; ++i) start(i);
  while ((moved() < goal || kills_ < kills) && !HasFailure()) {
    const uint64_t next = moved() + goal / kills;
    wait_for("bytes", [this, next] { return moved() >= next; });
    if (!HasFailure()) kill_one();
  }
  wait_until_all_are_there();
  board_->stop.store(true);
  for (auto& worker : workers_) {
    if (worker != nullptr) worker->expect_success(kStandstill);
  }
  expect_exact_totals();
  std::printf("%zu processes, %llu bytes, %llu messages, %llu kills, %llu for the one before\n",
              processes_, static_cast<unsigned long long>(moved()),
              static_cast<unsigned long long>(sum(&Slot::messages)),
              static_cast<unsigned long long>(kills_),
              static_cast<unsigned long long>(sum(&Slot::strays)));
}

}  // namespace
}  // namespace urma_test
