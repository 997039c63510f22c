// SPDX-License-Identifier: MIT
//
// How long a link waits for a silent peer, on a service whose time the test controls.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <map>
#include <memory>
#include <utility>

#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"
#include "urma/providers/shm/link.h"

namespace urma::shm {
namespace {

constexpr uint64_t kNsPerMs = 1'000'000;

class HandService : public Service {
 public:
  void post(Task task) override { task(); }
  void run(const Task& task) override { task(); }
  bool on_thread() const override { return true; }
  void watch(int fd, uint32_t /*events*/, Ready ready) override { watched_[fd] = std::move(ready); }
  void rewatch(int /*fd*/, uint32_t /*events*/) override {}
  void unwatch(int fd) override { watched_.erase(fd); }
  TimerId after(uint64_t delay_ns, Task task) override {
    timers_.emplace(++last_, Timer{delay_ns, std::move(task)});
    return last_;
  }
  void cancel(TimerId timer) override { timers_.erase(timer); }

  // Runs the first remaining timer. False if there is none.
  bool pass() {
    if (timers_.empty()) return false;
    const auto first = timers_.extract(timers_.begin());
    passed_ns_ += first.mapped().delay_ns;
    first.mapped().task();
    return true;
  }
  // Reports each watched descriptor as readable.
  void look() {
    const std::map<int, Ready> watched = watched_;
    for (const auto& [fd, ready] : watched) ready(EPOLLIN);
  }
  uint64_t passed_ms() const { return passed_ns_ / kNsPerMs; }

 private:
  struct Timer {
    uint64_t delay_ns;
    Task task;
  };
  std::map<TimerId, Timer> timers_;
  std::map<int, Ready> watched_;
  TimerId last_ = 0;
  uint64_t passed_ns_ = 0;
};

class PatienceTest : public ::testing::Test {
 protected:
  static constexpr char kName[] = "says-nothing";

  PatienceTest() { link_->start(); }
  ~PatienceTest() override { link_->stop(); }

  std::shared_ptr<Link> make_link(uint64_t patience_ms) {
    return std::make_shared<Link>(
        &service_, &host_.runtime(), kName, region_.get(), patience_ms * kNsPerMs,
        Link::Calls{[this](const std::shared_ptr<Link>&) { ++stops_; }, [] {}, [] {}});
  }

  void ask() {
    link_->request({}, {}, [this](const Reply& reply, Attached&) {
      EXPECT_EQ(reply.answer, Answer::kUnreachable);
      ++answers_;
    });
  }

  RawSocket accept() { return RawSocket(OwnFd::accept(silent_.get())); }

  Host host_;
  OwnFd silent_ = listen_at(host_.runtime().dir_fd(), kName);
  Fd region_{::memfd_create("region", MFD_CLOEXEC)};
  HandService service_;
  std::shared_ptr<Link> link_ = make_link(3000);
  int answers_ = 0;
  int stops_ = 0;
};

// The system clock has hardly moved: what counts is how often this process ran, and one late run
// counts once.
TEST_F(PatienceTest, CountsItsOwnTurns) {
  ask();
  int turns = 0;
  while (answers_ == 0 && service_.pass()) ++turns;
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(stops_, 1);
  EXPECT_TRUE(link_->gone());
  EXPECT_FALSE(link_->hung_up());
  EXPECT_GE(turns, 10);
  EXPECT_EQ(service_.passed_ms(), 3000u);
}

// In whole checks, and at least one.
TEST_F(PatienceTest, LastsAsLongAsConfigured) {
  link_->stop();
  uint64_t before = 0;
  for (const auto& [said, looked] : {std::pair{100, 100u}, {101, 200u}, {60000, 60000u}}) {
    const std::shared_ptr<Link> link = make_link(said);
    link->start();
    while (!link->gone() && service_.pass()) {
    }
    EXPECT_TRUE(link->gone());
    EXPECT_EQ(service_.passed_ms() - before, looked) << said;
    before = service_.passed_ms();
  }
}

// A request sent just before a check that is due for another one has its full time.
TEST_F(PatienceTest, IsCountedForEachRequest) {
  accept();  // of link_
  const std::shared_ptr<Link> link = make_link(100);
  link->start();
  RawSocket peer = accept();
  const SharedMemory words =
      SharedMemory::create("urma-segments", SegmentTable::kSharedBytes, PeerMay::kRead, 0);
  const auto answer = [&](const std::vector<int>& descriptors = {}) {
    Request request;
    EXPECT_TRUE(peer.receive(&request, sizeof(request)));
    Reply reply = {};
    reply.number = request.number;
    EXPECT_TRUE(peer.send(&reply, sizeof(reply), descriptors));
    service_.look();
  };
  answer({words.fd()});
  link_->stop();
  EXPECT_FALSE(service_.pass());

  std::vector<Answer> answers;
  const auto request = [&] {
    link->request({}, {}, [&](const Reply& reply, Attached&) { answers.push_back(reply.answer); });
  };
  request();
  request();
  answer();
  EXPECT_EQ(answers, std::vector<Answer>{Answer::kAccepted});
  EXPECT_TRUE(service_.pass());
  EXPECT_FALSE(link->gone());
  EXPECT_TRUE(service_.pass());
  EXPECT_TRUE(link->gone());
  EXPECT_EQ(answers, (std::vector{Answer::kAccepted, Answer::kUnreachable}));
}

TEST_F(PatienceTest, DoesNotWaitAgainAfterItsEnd) {
  ask();
  silent_ = OwnFd();
  link_->stop();
  EXPECT_EQ(answers_, 1);
  EXPECT_FALSE(service_.pass());
  ask();
  EXPECT_EQ(answers_, 2);
  EXPECT_EQ(stops_, 1);
}

}  // namespace
}  // namespace urma::shm
