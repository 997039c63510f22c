// SPDX-License-Identifier: MIT
//
// An owner is killed at each system call that it makes while its private memory becomes shared
// memory, and private again. Its importer never hangs, leaks nothing, and reads either the owner's
// contents or nothing; an owner that is not killed keeps all its data.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "test/process/crash_gate.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"
#include "test/process/soak.h"

namespace urma_test {
namespace {

constexpr int kReadsThatPay = 9;
constexpr uint64_t kBytes = 2 * kMiB + 64 * 1024;  // two chunks
constexpr uint64_t kDoneAt = kBytes - 8;           // the importer writes here when it is done
constexpr uint64_t kDone = 4711;
constexpr int kMostCalls = 2000;
constexpr uint64_t kNormalVisits = 4;

int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

milliseconds limit() { return promised(seconds(1)); }

struct Holdings {
  int descriptors;
  int memfds;
};
Holdings count_holdings() { return {open_descriptors(), memfd_areas()}; }

// Has its memory mapped, then unregisters and checks it.
void owner(Channel& channel) {
  const Pages pages(kBytes);
  // A huge page would be moved by fewer calls.
  ::madvise(pages.get(), kBytes, MADV_NOHUGEPAGE);
  fill(pages.get(), kBytes);
  Endpoint endpoint;
  urma_target_seg_t* const segment = endpoint.add(pages.get(), kBytes);
  channel.send(offer_of(endpoint, segment));
  channel.send(open_gate());
  while (*pages.word(kDoneAt) != kDone) ::sched_yield();
  endpoint.remove(segment);
  expect_filled(pages.get(), kBytes);
}

class Visitor {
 public:
  explicit Visitor(Channel& channel) : channel_(channel) {
    copies_segment_ = endpoint_.add(copies_.get(), kBytes);
  }

  void run() {
    while (channel_.receive<bool>()) {
      begin_round();
      visit(channel_.receive<Offer>());
    }
    endpoint_.close();
  }

 private:
  void visit(const Offer& offer) {
    queue_ = endpoint_.import(offer.queue);
    segment_ = import_if_there(offer.segment);
    if (segment_ != nullptr) {
      bool there = true;
      // Enough requests for the owner to share the memory, even if the import has not asked for
      // that.
      for (int i = 0; there && i < kReadsThatPay; ++i) there = read_all();
      if (there) there = write_done();
      while (there) there = read_all();
      look_at_mapping();
      endpoint_.unimport(queue_);
      EXPECT_EQ(urma_unimport_seg(segment_), URMA_SUCCESS);
    } else {
      endpoint_.unimport(queue_);
    }
    channel_.send(now_ns());
    settle();
    channel_.sync();
  }

  // Nothing of an owner is left a second after its end. The first rounds, and a second, which is no
  // longer in the short form, set the baseline.
  void settle() {
    if (visits_ < kNormalVisits) return;
    const auto deadline = Clock::now() + limit();
    Holdings now = count_holdings();
    if (visits_ == kNormalVisits) {
      const auto end = Clock::now() + patience(seconds(1));
      for (; Clock::now() < end; ::sched_yield()) {
        const Holdings next = count_holdings();
        now = {std::min(now.descriptors, next.descriptors), std::min(now.memfds, next.memfds)};
      }
      normal_ = now;
    }
    while (now.descriptors > normal_.descriptors || now.memfds > normal_.memfds) {
      ASSERT_LT(Clock::now(), deadline)
          << now.descriptors << " descriptors, " << now.memfds << " areas of memfds; were "
          << normal_.descriptors << " and " << normal_.memfds;
      ::sched_yield();
      now = count_holdings();
    }
  }

  urma_target_seg_t* import_if_there(const SegmentId& id) {
    urma_seg_t remote = {};
    remote.ubva.eid = id.eid;
    remote.ubva.va = id.va;
    remote.len = id.len;
    remote.token_id = id.token_id;
    remote.attr.bs.token_policy = URMA_TOKEN_NONE;
    urma_token_t token = {};
    urma_import_seg_flag_t flag = {};
    flag.bs.mapping = ++visits_ % 2 == 0 ? URMA_SEG_MAPPED : URMA_SEG_NOMAP;
    return urma_import_seg(endpoint_.ctx, &remote, &token, 0, flag);
  }

  // Whether the owner still runs, with its memory.
  bool ends_well(const urma_jfs_wr_t& wr) {
    endpoint_.post(wr);
    const urma_cr_status_t status = wait_for(endpoint_.send_jfc).status;
    EXPECT_TRUE(status == URMA_CR_SUCCESS || status == URMA_CR_ACK_TIMEOUT_ERR ||
                status == URMA_CR_REM_ACCESS_ABORT_ERR)
        << status;
    return status == URMA_CR_SUCCESS;
  }
  bool read_all() {
    urma_sge_t here = piece(copies_segment_, copies_.get(), kBytes);
    urma_sge_t there = piece(segment_, segment_->seg.ubva.va, kBytes);
    if (!ends_well(read_request(queue_, &here, &there))) return false;
    expect_filled(copies_.get(), kBytes);
    return true;
  }
  bool write_done() {
    *word_at(copies_.get(), 0) = kDone;
    urma_sge_t here = piece(copies_segment_, copies_.get(), 8);
    urma_sge_t there = piece(segment_, segment_->seg.ubva.va + kDoneAt, 8);
    return ends_well(write_request(queue_, &here, &there));
  }
  // An importer can read what it has mapped, whatever happens to the owner.
  void look_at_mapping() {
    const auto* const mapped = reinterpret_cast<const volatile char*>(segment_->mva);
    if (mapped == nullptr) return;
    for (uint64_t at = 0; at < kBytes; at += kPage) static_cast<void>(mapped[at]);
  }

  Channel& channel_;
  Endpoint endpoint_;
  Pages copies_{kBytes};
  urma_target_seg_t* copies_segment_;
  urma_target_jetty_t* queue_ = nullptr;
  urma_target_seg_t* segment_ = nullptr;
  uint64_t visits_ = 0;
  Holdings normal_ = {};
};

class CrashShareTest : public ProcessTest {
 protected:
  void SetUp() override {
    wait_long_for_answers();
    SKIP_UNLESS_SHARED_MEMORY("pages are moved");
    SKIP_UNLESS_IN_PLACE();
    const std::string why = why_no_gate();
    if (!why.empty()) GTEST_SKIP() << why;
  }

  // The owner dies at its system call number `last`; returns whether it made that many.
  bool visit(Child& visitor, int last) {
    SCOPED_TRACE("killed at call " + std::to_string(last));
    Child dying("owner", owner);
    const auto offer = dying.channel().receive<Offer>();
    CrashGate gate(dying.pid(), dying.channel().receive<int>());
    visitor.channel().send(true);
    visitor.channel().send(offer);
    int calls = 0;
    int64_t killed = INT64_MAX;
    gate.serve([&](const seccomp_data&) {
      if (++calls != last) return CrashGate::kPass;
      killed = now_ns();
      return CrashGate::kKill;
    });
    const int status = dying.wait();
    const bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(died || status == 0) << dying.output();
    const auto over = visitor.channel().receive<int64_t>();
    if (died) {
      EXPECT_LT(over - killed, std::chrono::nanoseconds(limit()).count());
    }
    visitor.channel().sync();
    return died;
  }
};

TEST_F(CrashShareTest, OwnerDiesAtEachCall) {
  Child visitor("visitor", [](Channel& channel) { Visitor(channel).run(); });
  int last = 0;
  try {
    for (uint64_t i = 0; i < kNormalVisits; ++i) EXPECT_FALSE(visit(visitor, -1));
    while (last < kMostCalls && !HasFailure()) {
      if (!visit(visitor, ++last)) break;
    }
    visitor.channel().send(false);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "call " << last << ": " << error.what();
  }
  visitor.expect_success();
  EXPECT_GT(last, 40) << "the owner makes more calls";
  std::printf("%d deaths\n", last - 1);
}

}  // namespace
}  // namespace urma_test
