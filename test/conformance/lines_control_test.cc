// SPDX-License-Identifier: MIT
//
// Line 34: asynchronous events, commands, channels and addresses.
#include <fcntl.h>

#include "test/conformance/lines.h"

namespace urma_test {
namespace {

TEST_F(DeviceLines, S1_34a_GetAsyncEventWithoutArguments) {
  EXPECT_UNTOUCHED(urma_async_event_t, event);
  EXPECT_EINVAL(urma_get_async_event(nullptr, &event));
  EXPECT_EINVAL(urma_get_async_event(ctx_, nullptr));
  urma_ack_async_event(nullptr);
}

TEST_F(DeviceLines, S1_34b_GetAsyncEventWithoutEvent) {
  NEEDS_OPERATION(get_async_event);
  const int flags = ::fcntl(ctx_->async_fd, F_GETFL);
  ASSERT_GE(flags, 0);
  ASSERT_EQ(::fcntl(ctx_->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
  EXPECT_UNTOUCHED(urma_async_event_t, event);
  EXPECT_EQ(urma_get_async_event(ctx_, &event), URMA_FAIL);
}

TEST_F(ProviderLines, S1_34c_GetAsyncEventAnswersWithTheProvider) {
  urma_async_event_t event = {};
  WITHOUT(get_async_event, EXPECT_EINVAL(urma_get_async_event(ctx_, &event)));
  EXPECT_EQ(event.urma_ctx, nullptr);
  module_->status = URMA_EAGAIN;
  EXPECT_ANSWER(urma_get_async_event(ctx_, &event), URMA_FAIL);
  module_->status = URMA_SUCCESS;
  EXPECT_ANSWER(urma_get_async_event(ctx_, &event), URMA_SUCCESS);
  EXPECT_EQ(event.urma_ctx, ctx_);
  const int calls = module_->calls;
  urma_ack_async_event(&event);
  EXPECT_EQ(module_->calls, calls + 1);
  WITHOUT(ack_async_event, urma_ack_async_event(&event));
  EXPECT_EQ(module_->calls, calls + 1);
}

TEST_F(DeviceLines, S1_34d_UserCtlWithoutArguments) {
  urma_user_ctl_in_t in = {};
  EXPECT_UNTOUCHED(urma_user_ctl_out_t, out);
  EXPECT_EINVAL(urma_user_ctl(nullptr, &in, &out));
  EXPECT_EINVAL(urma_user_ctl(ctx_, nullptr, &out));
  EXPECT_EINVAL(urma_user_ctl(ctx_, &in, nullptr));
}

TEST_F(ProviderLines, S1_34e_UserCtlAnswersWithTheProvider) {
  urma_user_ctl_in_t in = {1, 2, 3};
  urma_user_ctl_out_t out = {};
  WITHOUT(user_ctl, EXPECT_EINVAL(urma_user_ctl(ctx_, &in, &out)));
  const struct {
    int answer;
    urma_status_t status;
  } kAnswers[] = {{0, URMA_SUCCESS}, {EPERM, URMA_ENOPERM}, {EINVAL, URMA_FAIL}, {-EIO, URMA_FAIL}};
  for (const auto& expected : kAnswers) {
    module_->status = expected.answer;
    EXPECT_ANSWER(urma_user_ctl(ctx_, &in, &out), expected.status);
    EXPECT_EQ(module_->command.opcode, 3u);
  }
  module_->status = 0;
}

TEST_F(DeviceLines, S1_34f_ChannelsWithoutArguments) {
  urma_tp_cfg_t cfg = {};
  urma_tp_attr_t attr = {};
  EXPECT_EINVAL(urma_modify_tp(nullptr, 1, &cfg, &attr, {}));
  EXPECT_EINVAL(urma_modify_tp(ctx_, 1, nullptr, &attr, {}));
  EXPECT_EINVAL(urma_modify_tp(ctx_, 1, &cfg, nullptr, {}));
  EXPECT_UNTOUCHED(urma_tp_attr_value_t, value);
  EXPECT_UNTOUCHED(uint8_t, count);
  EXPECT_UNTOUCHED(uint32_t, bitmap);
  EXPECT_EINVAL(urma_set_tp_attr(nullptr, 1, 1, 1, &value));
  EXPECT_EINVAL(urma_set_tp_attr(ctx_, 1, 1, 1, nullptr));
  EXPECT_EINVAL(urma_get_tp_attr(nullptr, 1, &count, &bitmap, &value));
  EXPECT_EINVAL(urma_get_tp_attr(ctx_, 1, nullptr, &bitmap, &value));
  EXPECT_EINVAL(urma_get_tp_attr(ctx_, 1, &count, nullptr, &value));
  EXPECT_EINVAL(urma_get_tp_attr(ctx_, 1, &count, &bitmap, nullptr));
}

urma_get_tp_cfg_t channel_cfg(const urma_context_t* ctx) {
  urma_get_tp_cfg_t cfg = {};
  cfg.flag.bs.rtp = 1;
  cfg.trans_mode = URMA_TM_RM;
  cfg.local_eid = cfg.peer_eid = ctx->eid;
  return cfg;
}

TEST_F(DeviceLines, S1_34g_GetTpListWithoutArguments) {
  urma_get_tp_cfg_t cfg = channel_cfg(ctx_);
  EXPECT_UNTOUCHED(urma_tp_info_t, list);
  uint32_t count = 1;
  EXPECT_EINVAL(urma_get_tp_list(nullptr, &cfg, &count, &list));
  EXPECT_EINVAL(urma_get_tp_list(ctx_, nullptr, &count, &list));
  EXPECT_EINVAL(urma_get_tp_list(ctx_, &cfg, nullptr, &list));
  EXPECT_EINVAL(urma_get_tp_list(ctx_, &cfg, &count, nullptr));
  for (const uint32_t mode : {0u, 3u, 0xffu}) {
    cfg.trans_mode = static_cast<urma_transport_mode_t>(mode);
    EXPECT_EINVAL(urma_get_tp_list(ctx_, &cfg, &count, &list));
  }
  EXPECT_EQ(count, 1u);
  cfg.trans_mode = URMA_TM_RM;
  count = 0;
  EXPECT_EINVAL(urma_get_tp_list(ctx_, &cfg, &count, &list));
  EXPECT_EQ(count, 0u);
}

TEST_F(DeviceLines, S1_34h_GetTpListServesAnImport) {
  NEEDS_OPERATION(get_tp_list);
  NEEDS_OPERATION(import_jetty_ex);
  urma_get_tp_cfg_t cfg = channel_cfg(ctx_);
  urma_tp_info_t list = {};
  uint32_t count = 1;
  EXPECT_EQ(urma_get_tp_list(ctx_, &cfg, &count, &list), URMA_SUCCESS);
  EXPECT_EQ(count, 1u);
  Loop loop(ctx_);
  urma_rjetty_t remote = loop.remote_jetty();
  urma_token_t token = {};
  urma_import_jetty_ex_cfg_t channel = {};
  channel.tp_handle = list.tp_handle;
  const unsigned long before = refs();
  urma_target_jetty_t* target = urma_import_jetty_ex(ctx_, &remote, &token, &channel);
  ASSERT_NE(target, nullptr);
  EXPECT_EQ(refs(), before + 1);
  EXPECT_CHANGE(urma_unimport_jetty(target), -1);
  loop.check();
}

TEST_F(ProviderLines, S1_34i_ChannelsAnswerWithTheProvider) {
  urma_tp_cfg_t tp_cfg = {};
  urma_tp_attr_t attr = {};
  urma_get_tp_cfg_t cfg = channel_cfg(ctx_);
  urma_tp_info_t list = {};
  urma_tp_attr_value_t value = {};
  uint8_t attr_count = 0;
  uint32_t count = 1, bitmap = 0;
  for (const int status : {URMA_SUCCESS, URMA_FAIL, URMA_EAGAIN}) {
    module_->status = status;
    EXPECT_ANSWER(urma_modify_tp(ctx_, 1, &tp_cfg, &attr, {}), status);
    EXPECT_ANSWER(urma_get_tp_list(ctx_, &cfg, &count, &list), status);
    EXPECT_ANSWER(urma_set_tp_attr(ctx_, 1, 2, 0x1ffff, &value), status);
    EXPECT_EQ(module_->bitmap, 0xffffu);  // without bit 16
    EXPECT_ANSWER(urma_get_tp_attr(ctx_, 1, &attr_count, &bitmap, &value), status);
  }
  module_->status = URMA_SUCCESS;
  WITHOUT(modify_tp, EXPECT_EINVAL(urma_modify_tp(ctx_, 1, &tp_cfg, &attr, {})));
  WITHOUT(get_tp_list, EXPECT_EINVAL(urma_get_tp_list(ctx_, &cfg, &count, &list)));
  WITHOUT(set_tp_attr, EXPECT_EINVAL(urma_set_tp_attr(ctx_, 1, 2, 1, &value)));
  WITHOUT(get_tp_attr, EXPECT_EINVAL(urma_get_tp_attr(ctx_, 1, &attr_count, &bitmap, &value)));
}

TEST_F(DeviceLines, S1_34j_AddressesWithoutArguments) {
  EXPECT_UNTOUCHED(urma_net_addr_t, address);
  EXPECT_UNTOUCHED(urma_eid_t, eid);
  EXPECT_UNTOUCHED(uint64_t, mac_space);
  auto* mac = reinterpret_cast<uint8_t*>(&mac_space);
  EXPECT_EINVAL(urma_get_eid_by_ip(nullptr, &address, &eid));
  EXPECT_EINVAL(urma_get_eid_by_ip(ctx_, nullptr, &eid));
  EXPECT_EINVAL(urma_get_eid_by_ip(ctx_, &address, nullptr));
  EXPECT_EINVAL(urma_get_ip_by_eid(nullptr, &eid, &address));
  EXPECT_EINVAL(urma_get_ip_by_eid(ctx_, nullptr, &address));
  EXPECT_EINVAL(urma_get_ip_by_eid(ctx_, &eid, nullptr));
  EXPECT_EINVAL(urma_get_smac(nullptr, mac));
  EXPECT_EINVAL(urma_get_smac(ctx_, nullptr));
  EXPECT_EINVAL(urma_get_dmac(nullptr, &address, mac));
  EXPECT_EINVAL(urma_get_dmac(ctx_, nullptr, mac));
  EXPECT_EINVAL(urma_get_dmac(ctx_, &address, nullptr));
}

TEST_F(ProviderLines, S1_34k_AddressesAnswerWithTheProvider) {
  urma_net_addr_t address = {};
  urma_eid_t eid = {};
  uint8_t mac[URMA_MAC_BYTES] = {};
  for (const int status : {URMA_SUCCESS, URMA_FAIL}) {
    module_->status = status;
    EXPECT_ANSWER(urma_get_eid_by_ip(ctx_, &address, &eid), status);
    EXPECT_ANSWER(urma_get_ip_by_eid(ctx_, &eid, &address), status);
    EXPECT_ANSWER(urma_get_smac(ctx_, mac), status);
    EXPECT_ANSWER(urma_get_dmac(ctx_, &address, mac), status);
  }
  module_->status = URMA_SUCCESS;
  WITHOUT(get_eid_by_ip, EXPECT_EINVAL(urma_get_eid_by_ip(ctx_, &address, &eid)));
  WITHOUT(get_ip_by_eid, EXPECT_EINVAL(urma_get_ip_by_eid(ctx_, &eid, &address)));
  WITHOUT(get_smac, EXPECT_EINVAL(urma_get_smac(ctx_, mac)));
  WITHOUT(get_dmac, EXPECT_EINVAL(urma_get_dmac(ctx_, &address, mac)));
}

TEST_F(DeviceLines, S1_34l_GetNetAddrListWithoutArguments) {
  EXPECT_UNTOUCHED(uint32_t, count);
  EXPECT_NULL(urma_get_net_addr_list(nullptr, &count));
  EXPECT_NULL(urma_get_net_addr_list(ctx_, nullptr));
  if (caps().max_netaddr_cnt == 0) {
    EXPECT_NULL(urma_get_net_addr_list(ctx_, &count));
  }
  urma_free_net_addr_list(nullptr);
}

TEST_F(DeviceLines, S1_34m_GetNetAddrListAnswers) {
  NEEDS(caps().max_netaddr_cnt != 0, "network addresses");
  uint32_t count = 0;
  urma_net_addr_info_t* list = urma_get_net_addr_list(ctx_, &count);
  ASSERT_NE(list, nullptr);
  EXPECT_GT(count, 0u);
  EXPECT_LE(count, caps().max_netaddr_cnt);
  urma_free_net_addr_list(list);
}

TEST_F(ProviderLines, S1_34n_GetNetAddrListWithoutAddresses) {
  uint32_t count = 7;
  module_->status = URMA_FAIL;
  EXPECT_NULL(urma_get_net_addr_list(ctx_, &count));
  module_->status = URMA_SUCCESS;
  EXPECT_EQ(count, 7u);
  reopen(kModuleIb);
  EXPECT_NULL(urma_get_net_addr_list(ctx_, &count));
  EXPECT_EQ(count, 7u);
}

}  // namespace
}  // namespace urma_test
