// SPDX-License-Identifier: MIT
//
// What must wake a sleeping owner when its peer makes no further call.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "test/process/refusal.h"
#include "test/unit/shm_harness.h"

namespace urma::shm {
namespace {

using ArmedTest = urma_test::ProcessTest;

constexpr size_t kLarge = 4 << 20;

// A late receive starts a copy in several parts, which only the owner continues.
void expect_late_receive_to_be_filled() {
  Node owner;
  Node sender;
  std::vector<char> target(kLarge), source(kLarge, 's');
  urma_jfce_t* jfce = owner.make_jfce();
  urma_jfc_t* jfc = owner.make_jfc(/*lock_free=*/false, jfce);
  urma_jfr_t* jfr = owner.make_jfr(jfc);
  urma_target_seg_t* into = owner.add(target.data(), target.size());
  urma_jfs_t* jfs = sender.make_jfs(sender.make_jfc(), 4);
  urma_target_seg_t* from = sender.add(source.data(), source.size());
  urma_target_jetty_t* queue = sender.import(jfr->jfr_id);

  owner.arm(jfc);
  ASSERT_EQ(sender.send(jfs, queue, piece(from, source.data(), kLarge), 1, false), URMA_SUCCESS);
  // The first wake-up finds no receive.
  EXPECT_EQ(owner.wait(jfce, milliseconds(100)), nullptr);
  owner.receive(jfr, {piece(into, target.data(), kLarge)}, 2);
  EXPECT_EQ(owner.wait(jfce, patience(seconds(10))), jfc);
  std::vector<urma_cr_t> records;
  owner.poll(jfc, &records);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].completion_len, kLarge);
  EXPECT_EQ(target, source);
}

// Raises an event, and then lacks the memory to go on.
class FailingSource final : public CompletionSource {
 public:
  int collect(CompletionQueue*, int, urma_cr_t*) override { return 0; }
  bool move_for(CompletionQueue* waiter, bool just_armed) override {
    if (just_armed) return false;
    waiter->completed(1, false);
    throw std::bad_alloc();
  }
  bool outstanding() const override { return false; }
};

bool readable(int fd) {
  pollfd watched = {fd, POLLIN, 0};
  return ::poll(&watched, 1, 0) == 1;
}

// Others that sleep there have to learn of it.
TEST_F(ArmedTest, AnEventOfAWaitThatFailsMakesTheDescriptorReadable) {
  Node owner;
  urma_jfce_t* jfce = owner.make_jfce();
  auto* channel = static_cast<EventChannel*>(jfce);
  auto* jfc = static_cast<CompletionQueue*>(owner.make_jfc(/*lock_free=*/false, jfce));
  FailingSource source;
  const Attachment attachment(jfc, &source);
  const std::shared_ptr<Wakeup> wakeup = channel->make_wakeup();
  owner.arm(jfc);
  ASSERT_EQ(::send(wakeup->there.get(), "", 1, 0), 1);
  urma_jfc_t* woken = nullptr;
  EXPECT_THROW(channel->wait(1, 0, &woken), std::bad_alloc);
  EXPECT_TRUE(readable(jfce->fd));
  EXPECT_EQ(owner.wait(jfce, milliseconds(0)), jfc);
  channel->drop_wakeup(wakeup);
}

TEST_F(ArmedTest, LargeMessageThatWaitedForAReceive) { expect_late_receive_to_be_filled(); }

// Its first part is refused while the owner sleeps, and the sender has to help.
TEST_F(ArmedTest, LargeMessageThatWaitedAndThatTheKernelDoesNotCopy) {
  SKIP_UNLESS_CALLS_CAN_BE_REFUSED();
  std::thread([] {
    urma_test::refuse(SYS_process_vm_readv, EPERM);
    expect_late_receive_to_be_filled();
  }).join();
}

}  // namespace
}  // namespace urma::shm
