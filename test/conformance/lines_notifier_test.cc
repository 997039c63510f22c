// SPDX-License-Identifier: MIT
//
// Line 28: importing and binding in the background.
#include <poll.h>

#include "test/conformance/lines.h"

namespace urma_test {
namespace {

constexpr int kTimeout = 5000;  // ms

// Waits for the only pending result.
urma_notify_t result_of(urma_notifier_t* notifier) {
  urma_notify_t notify = {};
  EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, kTimeout), 1);
  EXPECT_EQ(notify.status, URMA_SUCCESS);
  return notify;
}

TEST_F(DeviceLines, S1_28a_CreateNotifierWithoutContext) {
  EXPECT_NULL(urma_create_notifier(nullptr));
}

TEST_F(ProviderLines, S1_28b_CreateNotifierWithoutOperation) {
  WITHOUT(create_notifier, EXPECT_NULL(urma_create_notifier(ctx_)));
  module_->fails = true;
  module_->error = EMFILE;
  EXPECT_NULL_WITH(urma_create_notifier(ctx_), EMFILE);
}

TEST_F(DeviceLines, S1_28c_WaitNotifyWithoutArguments) {
  EXPECT_UNTOUCHED(urma_notify_t, notify);
  EXPECT_MINUS_ONE(urma_wait_notify(nullptr, 1, &notify, 0));
  NEEDS_OPERATION(create_notifier);
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  EXPECT_MINUS_ONE(urma_wait_notify(notifier, 1, nullptr, 0));
  EXPECT_ANSWER(urma_wait_notify(notifier, 0, &notify, -1), 0);
  EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, 0), 0);
  EXPECT_CHANGE(urma_delete_notifier(notifier), -1);
}

TEST_F(ProviderLines, S1_28d_WaitNotifyWithoutOperation) {
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  EXPECT_UNTOUCHED(urma_notify_t, notify);
  EXPECT_ANSWER(urma_wait_notify(notifier, 0, &notify, 0), 0);
  WITHOUT(wait_notify, EXPECT_ANSWER(urma_wait_notify(notifier, 1, &notify, 0), -URMA_EINVAL));
  EXPECT_CHANGE(urma_delete_notifier(notifier), -1);
}

TEST_F(DeviceLines, S1_28e_AckNotify) {
  urma_notify_t notify = {};
  EXPECT_EINVAL(urma_ack_notify(nullptr, 1, &notify));
  EXPECT_EINVAL(urma_ack_notify(ctx_, 1, nullptr));
  NEEDS_OPERATION(ack_notify);
  EXPECT_ANSWER(urma_ack_notify(ctx_, 1, &notify), URMA_SUCCESS);
}

TEST_F(ProviderLines, S1_28f_AckNotifyWithoutOperation) {
  urma_notify_t notify = {};
  EXPECT_ANSWER(urma_ack_notify(ctx_, 1, &notify), URMA_SUCCESS);
  WITHOUT(ack_notify, EXPECT_ANSWER(urma_ack_notify(ctx_, 1, &notify), -URMA_EINVAL));
}

TEST_F(DeviceLines, S1_28g_ImportAsyncWithoutArguments) {
  Loop loop(ctx_);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  EXPECT_NULL(urma_import_jetty_async(nullptr, &remote, &token, 1, kTimeout));
  EXPECT_EINVAL(urma_unimport_jetty_async(nullptr));
  NEEDS(ctx_->ops->create_notifier != nullptr, "notifiers");
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  EXPECT_NULL(urma_import_jetty_async(notifier, nullptr, &token, 1, kTimeout));
  EXPECT_NULL(urma_import_jetty_async(notifier, &remote, nullptr, 1, kTimeout));
  remote.trans_mode = static_cast<urma_transport_mode_t>(0xff);
  EXPECT_NULL(urma_import_jetty_async(notifier, &remote, &token, 1, kTimeout));
  urma_notify_t notify = {};
  EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, 0), 0);
  EXPECT_EQ(urma_delete_notifier(notifier), URMA_SUCCESS);
  loop.check();
}

TEST_F(ProviderLines, S1_28h_ImportAsyncThatTheProviderRefuses) {
  Loop loop(ctx_);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  WITHOUT(import_jetty_async,
          EXPECT_NULL(urma_import_jetty_async(notifier, &remote, &token, 1, kTimeout)));
  module_->fails = true;
  EXPECT_NULL(urma_import_jetty_async(notifier, &remote, &token, 1, kTimeout));
  module_->error = ENOMEM;
  EXPECT_NULL_WITH(urma_import_jetty_async(notifier, &remote, &token, 1, kTimeout), ENOMEM);
  EXPECT_CHANGE(urma_delete_notifier(notifier), -1);
}

TEST_F(ProviderLines, S1_28i_ImportAsyncThatFailsLater) {
  Loop loop(ctx_);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  const unsigned long before = refs();
  urma_target_jetty_t* target = urma_import_jetty_async(notifier, &remote, &token, 1, kTimeout);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(refs(), before + 1);
  module_->notify.type = URMA_IMPORT_JETTY_NOTIFY;
  module_->notify.status = URMA_ETIMEOUT;
  module_->notify.tjetty = target;
  urma_notify_t notify = {};
  EXPECT_EQ(urma_wait_notify(notifier, 1, &notify, 0), 1);
  EXPECT_EQ(notify.status, URMA_ETIMEOUT);
  EXPECT_EQ(refs(), before);
  delete target;  // the module leaves it to the test
  EXPECT_CHANGE(urma_delete_notifier(notifier), -1);
}

TEST_F(DeviceLines, S1_28j_ImportAsync) {
  NEEDS_OPERATION(create_notifier);
  NEEDS_OPERATION(import_jetty_async);
  Loop loop(ctx_);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  EXPECT_GE(notifier->fd, 0);
  const unsigned long before = refs();
  urma_target_jetty_t* target = urma_import_jetty_async(notifier, &remote, &token, 31, kTimeout);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(refs(), before + 1);
  pollfd readable = {notifier->fd, POLLIN, 0};
  EXPECT_EQ(::poll(&readable, 1, kTimeout), 1);
  const urma_notify_t notify = result_of(notifier);
  EXPECT_EQ(notify.type, URMA_IMPORT_JETTY_NOTIFY);
  EXPECT_EQ(notify.user_ctx, 31u);
  EXPECT_EQ(notify.tjetty, target);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_CHANGE(urma_unimport_jetty_async(target), -1);
  EXPECT_CHANGE(urma_delete_notifier(notifier), -1);
  loop.check();
}

TEST_F(DeviceLines, S1_28k_BindAsyncWithoutArguments) {
  NEEDS((caps().trans_mode & URMA_TM_RC) != 0, "mode RC");
  Loop loop(ctx_, URMA_TM_RC);
  EXPECT_EINVAL(urma_bind_jetty_async(nullptr, loop.jetty, loop.target, 1, kTimeout));
  EXPECT_EINVAL(urma_unbind_jetty_async(nullptr));
  NEEDS(ctx_->ops->create_notifier != nullptr, "notifiers");
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  EXPECT_EINVAL(urma_bind_jetty_async(notifier, nullptr, loop.target, 1, kTimeout));
  EXPECT_EINVAL(urma_bind_jetty_async(notifier, loop.jetty, nullptr, 1, kTimeout));
  EXPECT_EQ(urma_delete_notifier(notifier), URMA_SUCCESS);
  loop.check();
}

TEST_F(DeviceLines, S1_28l_BindAsync) {
  NEEDS((caps().trans_mode & URMA_TM_RC) != 0, "mode RC");
  NEEDS_OPERATION(create_notifier);
  NEEDS_OPERATION(bind_jetty_async);
  Loop loop(ctx_, URMA_TM_RC);
  EXPECT_EQ(urma_unbind_jetty(loop.jetty), URMA_SUCCESS);
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  EXPECT_EQ(urma_bind_jetty_async(notifier, loop.jetty, loop.target, 32, kTimeout), URMA_SUCCESS);
  const urma_notify_t notify = result_of(notifier);
  EXPECT_EQ(notify.type, URMA_BIND_JETTY_NOTIFY);
  EXPECT_EQ(notify.user_ctx, 32u);
  EXPECT_EQ(notify.jetty, loop.jetty);
  EXPECT_EQ(loop.jetty->remote_jetty, loop.target);
  loop.check();
  EXPECT_EQ(urma_unbind_jetty_async(loop.jetty), URMA_SUCCESS);
  EXPECT_EQ(loop.jetty->remote_jetty, nullptr);
  EXPECT_EQ(urma_delete_notifier(notifier), URMA_SUCCESS);
  EXPECT_EQ(urma_bind_jetty(loop.jetty, loop.target), URMA_SUCCESS);
  loop.check();
}

TEST_F(ProviderLines, S1_28m_BindAsyncThatTheProviderRefuses) {
  Loop loop(ctx_, URMA_TM_RC);
  EXPECT_EQ(urma_unbind_jetty(loop.jetty), URMA_SUCCESS);
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  WITHOUT(bind_jetty_async,
          EXPECT_EINVAL(urma_bind_jetty_async(notifier, loop.jetty, loop.target, 1, 0)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_bind_jetty_async(notifier, loop.jetty, loop.target, 1, 0), URMA_FAIL);
  EXPECT_EQ(loop.jetty->remote_jetty, nullptr);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_notifier(notifier), -1);
}

TEST_F(DeviceLines, S1_28n_DeleteNotifierWithoutNotifier) {
  EXPECT_EINVAL(urma_delete_notifier(nullptr));
}

TEST_F(ProviderLines, S1_28o_DeleteNotifierThatTheProviderRefuses) {
  urma_notifier_t* notifier = urma_create_notifier(ctx_);
  ASSERT_NE(notifier, nullptr);
  WITHOUT(delete_notifier, EXPECT_EINVAL(urma_delete_notifier(notifier)));
  module_->status = URMA_FAIL;
  EXPECT_ANSWER(urma_delete_notifier(notifier), URMA_FAIL);
  module_->status = URMA_SUCCESS;
  EXPECT_CHANGE(urma_delete_notifier(notifier), -1);
}

}  // namespace
}  // namespace urma_test
