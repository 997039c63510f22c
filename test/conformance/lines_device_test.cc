// SPDX-License-Identifier: MIT
//
// Lines 1 to 9: the library, devices, EIDs and contexts.
#include <arpa/inet.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test/conformance/lines.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

// -------------------------------------------------------------------------------------------------
// Line 1
// -------------------------------------------------------------------------------------------------

TEST_F(LibraryLines, S1_01a_UninitBeforeInitSucceeds) {
  run_one([](Channel&) {
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

TEST_F(LibraryLines, S1_01b_InitOnceAndAgain) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    EXPECT_EQ(urma_init(nullptr), URMA_EEXIST);
    int count = 0;
    urma_device_t** list = urma_get_device_list(&count);
    EXPECT_NE(list, nullptr);
    EXPECT_GT(count, 0);
    urma_free_device_list(list);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  }
}

TEST_F(LibraryLines, S1_01c_GetDeviceListWithoutCount) {
  const auto refs = [] { return 0ul; };
  EXPECT_NULL(urma_get_device_list(nullptr));
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_NULL(urma_get_device_list(nullptr));
}

TEST_F(LibraryLines, S1_01d_FreeOfNull) {
  errno = kErrnoBefore;
  urma_free_device_list(nullptr);
  urma_free_eid_list(nullptr);
  EXPECT_EQ(errno, kErrnoBefore);
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  urma_free_device_list(nullptr);
  urma_free_eid_list(nullptr);
}

TEST_F(LibraryLines, S1_01e_BeforeInitNoDeviceIsFound) {
  const auto refs = [] { return 0ul; };
  int count = 7;
  EXPECT_NULL_WITH(urma_get_device_list(&count), ENODEV);
  EXPECT_EQ(count, 0);
  char name[] = "urma_shm0";
  EXPECT_NULL_WITH(urma_get_device_by_name(name), ENODEV);
  EXPECT_NULL_WITH(urma_get_device_by_eid({}, URMA_TRANSPORT_UB), ENODEV);
}

TEST_F(LibraryLines, S1_01f_InitAndUninitLeaveErrnoAlone) {
  const auto refs = [] { return 0ul; };
  EXPECT_ANSWER(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_ANSWER(urma_init(nullptr), URMA_EEXIST);
  EXPECT_ANSWER(urma_uninit(), URMA_SUCCESS);
}

// -------------------------------------------------------------------------------------------------
// Line 2
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_02a_GetEidListWithoutArguments) {
  EXPECT_UNTOUCHED(uint32_t, count);
  EXPECT_NULL(urma_get_eid_list(nullptr, &count));
  EXPECT_NULL(urma_get_eid_list(device_, nullptr));
  EXPECT_NULL(urma_get_eid_list(nullptr, nullptr));
}

TEST_F(DeviceLines, S1_02b_GetEidListOfAnUnknownDevice) {
  EXPECT_UNTOUCHED(uint32_t, count);
  auto stranger = std::make_unique<urma_device_t>(*device_);
  stranger->sysfs_dev = nullptr;
  EXPECT_NULL(urma_get_eid_list(stranger.get(), &count));
}

TEST_F(ProviderLines, S1_02c_GetEidListWithoutATable) {
  char name[] = "conformance_bare0";
  urma_device_t* bare = urma_get_device_by_name(name);
  ASSERT_NE(bare, nullptr);
  EXPECT_UNTOUCHED(uint32_t, count);
  EXPECT_NULL(urma_get_eid_list(bare, &count));
}

TEST_F(DeviceLines, S1_02d_GetEidListGivesPositions) {
  uint32_t count = 0;
  urma_eid_info_t* list = urma_get_eid_list(device_, &count);
  ASSERT_NE(list, nullptr);
  ASSERT_GT(count, 0u);
  EXPECT_LE(count, caps().max_eid_cnt);
  const urma_eid_t zero = {};
  for (uint32_t i = 0; i < count; ++i) {
    EXPECT_NE(std::memcmp(&list[i].eid, &zero, sizeof zero), 0);
    if (i > 0) {
      EXPECT_GT(list[i].eid_index, list[i - 1].eid_index);
    }
  }
  urma_free_eid_list(list);
}

TEST_F(DeviceLines, S1_02e_QueryDeviceWithoutArguments) {
  EXPECT_UNTOUCHED(urma_device_attr_t, attr);
  auto stranger = std::make_unique<urma_device_t>(*device_);
  stranger->sysfs_dev = nullptr;
  for (urma_device_t* device : {static_cast<urma_device_t*>(nullptr), stranger.get()}) {
    errno = kErrnoBefore;
    EXPECT_EQ(urma_query_device(device, &attr), URMA_EINVAL);
    EXPECT_EQ(errno, EINVAL);
  }
  errno = kErrnoBefore;
  EXPECT_EQ(urma_query_device(device_, nullptr), URMA_EINVAL);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(DeviceLines, S1_02f_QueryDeviceAnswers) {
  urma_device_attr_t attr = {};
  EXPECT_EQ(urma_query_device(device_, &attr), URMA_SUCCESS);
  EXPECT_GT(attr.dev_cap.max_jfc_depth, 0u);
  EXPECT_GT(attr.dev_cap.max_jfs_depth, 0u);
  EXPECT_GT(attr.dev_cap.max_jfr_depth, 0u);
  EXPECT_GT(attr.port_cnt, 0);
}

// A device in sysfs without its character device.
class SysfsLines : public ProviderLines {
 protected:
  SysfsLines() { ::setenv("URMA_SYSFS_ROOT", root_.path().c_str(), 1); }
  ~SysfsLines() override { ::unsetenv("URMA_SYSFS_ROOT"); }
  void SetUp() override {
    const std::string device = root_.path() + "/ubcore/gone0";
    std::filesystem::create_directories(device);
    std::ofstream(device + "/ubdev") << "gone0\n";
    std::ofstream(device + "/driver_name") << kModuleProvider << "\n";
    std::ofstream(device + "/max_jfc_depth") << "64\n";
    std::ofstream(device + "/max_eid_cnt") << "1\n";
    ProviderLines::SetUp();
  }

 private:
  ScratchDir root_;
};

TEST_F(SysfsLines, S1_02g_QueryDeviceOutOfReach) {
  char name[] = "gone0";
  urma_device_t* gone = urma_get_device_by_name(name);
  ASSERT_NE(gone, nullptr);
  EXPECT_UNTOUCHED(urma_device_attr_t, attr);
  EXPECT_EQ(urma_query_device(gone, &attr), URMA_FAIL);
}

TEST_F(SysfsLines, S1_02h_DeviceOutOfReachCannotBeOpened) {
  char name[] = "gone0";
  urma_device_t* gone = urma_get_device_by_name(name);
  ASSERT_NE(gone, nullptr);
  EXPECT_NULL_WITH(urma_create_context(gone, 0), EIO);
  uint32_t count = 7;
  EXPECT_NULL_WITH(urma_get_eid_list(gone, &count), EIO);
  EXPECT_EQ(count, 0u);
}

// -------------------------------------------------------------------------------------------------
// Line 3
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_03a_GetDeviceByNameNeedsANameThatFits) {
  EXPECT_NULL(urma_get_device_by_name(nullptr));
  std::string longest(64, 'x');
  EXPECT_NULL(urma_get_device_by_name(longest.data()));
  std::string longer(300, 'x');
  EXPECT_NULL(urma_get_device_by_name(longer.data()));
}

TEST_F(DeviceLines, S1_03b_GetDeviceByNameUnknown) {
  std::string unknown(63, 'x');
  EXPECT_NULL_WITH(urma_get_device_by_name(unknown.data()), ENODEV);
  std::string empty;
  EXPECT_NULL_WITH(urma_get_device_by_name(empty.data()), ENODEV);
  EXPECT_EQ(urma_get_device_by_name(device_->name), device_);
}

TEST_F(DeviceLines, S1_03c_GetDeviceByEidOfAnotherType) {
  for (int type = 0; type < URMA_TRANSPORT_MAX; ++type) {
    if (type == device_->type) continue;
    EXPECT_NULL_WITH(urma_get_device_by_eid(ctx_->eid, static_cast<urma_transport_type_t>(type)),
                     ENODEV);
  }
  urma_device_t* found = urma_get_device_by_eid(ctx_->eid, device_->type);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->type, device_->type);
}

TEST_F(DeviceLines, S1_03d_GetDeviceByEidUnknown) {
  urma_eid_t eid = ctx_->eid;
  for (uint8_t& byte : eid.raw) byte = static_cast<uint8_t>(~byte);
  EXPECT_NULL_WITH(urma_get_device_by_eid(eid, device_->type), ENODEV);
}

// -------------------------------------------------------------------------------------------------
// Line 4
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_04a_CreateContextWithoutDevice) {
  EXPECT_NULL(urma_create_context(nullptr, 0));
  auto stranger = std::make_unique<urma_device_t>(*device_);
  stranger->sysfs_dev = nullptr;
  EXPECT_NULL(urma_create_context(stranger.get(), 0));
  stranger->sysfs_dev = device_->sysfs_dev;
  stranger->ops = nullptr;
  EXPECT_NULL(urma_create_context(stranger.get(), 0));
}

TEST_F(ProviderLines, S1_04b_CreateContextWithoutOperation) {
  auto* const kept = device_->ops->create_context;
  device_->ops->create_context = nullptr;
  EXPECT_NULL(urma_create_context(device_, 0));
  device_->ops->create_context = kept;
  const OwnedContext other = urma_create_context(device_, 0);
}

TEST_F(DeviceLines, S1_04c_CreateContextFillsIn) {
  uint32_t count = 0;
  urma_eid_info_t* list = urma_get_eid_list(device_, &count);
  ASSERT_NE(list, nullptr);
  for (uint32_t i = 0; i < count; ++i) {
    const OwnedContext ctx = urma_create_context(device_, list[i].eid_index);
    EXPECT_EQ(ctx->eid_index, list[i].eid_index);
    EXPECT_EQ(std::memcmp(&ctx->eid, &list[i].eid, sizeof ctx->eid), 0);
    EXPECT_EQ(ctx->aggr_mode, URMA_AGGR_MODE_STANDALONE);
    EXPECT_EQ(ctx->ref.atomic_cnt.load(), 1u);
    EXPECT_EQ(ctx->dev, device_);
    EXPECT_NE(ctx->ops, nullptr);
  }
  urma_free_eid_list(list);
}

TEST_F(DeviceLines, S1_04d_CreateContextNeedsAnEntryOfTheTable) {
  EXPECT_NULL(urma_create_context(device_, caps().max_eid_cnt));
  EXPECT_NULL(urma_create_context(device_, UINT32_MAX));
  EXPECT_NE(ctx_, nullptr);
}

TEST_F(ProviderLines, S1_04e_CreateContextThatTheProviderRefuses) {
  module_->fails = true;
  EXPECT_NULL_WITH(urma_create_context(device_, 0), EIO);
  module_->error = EBUSY;
  EXPECT_NULL_WITH(urma_create_context(device_, 0), EBUSY);
  module_->fails = false;
}

// -------------------------------------------------------------------------------------------------
// Line 5
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_05a_DeleteContextWithoutContext) {
  EXPECT_EINVAL(urma_delete_context(nullptr));
  auto* const device = ctx_->dev;
  ctx_->dev = nullptr;
  EXPECT_EINVAL(urma_delete_context(ctx_));
  ctx_->dev = device;
}

TEST_F(DeviceLines, S1_05b_DeleteContextWithAChild) {
  urma_jfc_t* jfc = make_jfc();
  EXPECT_EQ(refs(), 2u);
  EXPECT_ANSWER(urma_delete_context(ctx_), URMA_EAGAIN);
  EXPECT_TRUE(has_nothing(jfc));
  EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  Loop loop(ctx_);
  EXPECT_ANSWER(urma_delete_context(ctx_), URMA_EAGAIN);
  loop.check();
}

TEST_F(ProviderLines, S1_05c_DeleteContextThatTheProviderRefuses) {
  for (const int status : {URMA_FAIL, URMA_ENOMEM}) {
    module_->status = status;
    EXPECT_ANSWER(urma_delete_context(ctx_), status);
  }
  module_->status = URMA_SUCCESS;
  EXPECT_EQ(urma_delete_jfc(make_jfc()), URMA_SUCCESS);
}

TEST_F(ProviderLines, S1_05d_DeleteContextWithoutOperation) {
  auto* const kept = device_->ops->delete_context;
  device_->ops->delete_context = nullptr;
  EXPECT_EINVAL(urma_delete_context(ctx_));
  device_->ops->delete_context = kept;
}

// -------------------------------------------------------------------------------------------------
// Line 6
// -------------------------------------------------------------------------------------------------

constexpr size_t kModeSize = sizeof(urma_context_aggr_mode_t);

TEST_F(DeviceLines, S1_06a_SetContextOptIsForAggregatedDevices) {
  urma_context_aggr_mode_t mode = URMA_AGGR_MODE_BALANCE;
  EXPECT_EINVAL(urma_set_context_opt(nullptr, URMA_OPT_AGGR_MODE, &mode, kModeSize));
  if (std::string(device_->ops->name) != "ub_agg") {
    EXPECT_EINVAL(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize));
  } else {
    EXPECT_EINVAL(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, nullptr, kModeSize));
    EXPECT_EINVAL(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize + 1));
    EXPECT_EQ(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize), URMA_SUCCESS);
    // Must come before the objects.
    const OwnedJfc jfc = make_jfc();
    EXPECT_EQ(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize), URMA_FAIL);
  }
  EXPECT_EQ(ctx_->aggr_mode, URMA_AGGR_MODE_STANDALONE);
}

TEST_F(ProviderLines, S1_06b_SetContextOptWithWrongArguments) {
  urma_context_aggr_mode_t mode = URMA_AGGR_MODE_BALANCE;
  const int calls = module_->calls;
  EXPECT_EINVAL(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize));
  EXPECT_EQ(module_->calls, calls);
  reopen(kModuleBonding);
  const int later_calls = module_->calls;
  EXPECT_EINVAL(urma_set_context_opt(nullptr, URMA_OPT_AGGR_MODE, &mode, kModeSize));
  EXPECT_EINVAL(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, nullptr, kModeSize));
  for (const size_t length : {size_t{0}, kModeSize - 1, kModeSize + 1, size_t{8}}) {
    EXPECT_EINVAL(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, length));
  }
  EXPECT_EINVAL(urma_set_context_opt(ctx_, static_cast<urma_opt_name_t>(1), &mode, kModeSize));
  WITHOUT(user_ctl,
          EXPECT_EINVAL(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize)));
  EXPECT_EQ(module_->calls, later_calls);
}

TEST_F(ProviderLines, S1_06c_SetContextOptAnswersWithTheProvider) {
  reopen(kModuleBonding);
  urma_context_aggr_mode_t mode = URMA_AGGR_MODE_BALANCE;
  module_->status = EPERM;
  EXPECT_ANSWER(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize), URMA_ENOPERM);
  module_->status = EIO;
  EXPECT_ANSWER(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize), URMA_FAIL);
  module_->status = 0;
  EXPECT_ANSWER(urma_set_context_opt(ctx_, URMA_OPT_AGGR_MODE, &mode, kModeSize), URMA_SUCCESS);
  EXPECT_EQ(module_->command.opcode, 4u);
  EXPECT_EQ(module_->command.addr, reinterpret_cast<uint64_t>(&mode));
  EXPECT_EQ(module_->command.len, kModeSize);
  EXPECT_EQ(ctx_->aggr_mode, URMA_AGGR_MODE_STANDALONE);
}

// -------------------------------------------------------------------------------------------------
// Lines 7 to 9
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_07a_GetUasid) {
  EXPECT_EINVAL(urma_get_uasid(nullptr));
  uint32_t uasid = 0;
  EXPECT_EQ(urma_get_uasid(&uasid), URMA_SUCCESS);
  EXPECT_EQ(uasid, ctx_->uasid);
}

TEST_F(LibraryLines, S1_07b_RegisterProviderOps) {
  urma_provider_ops_t ops = {};
  EXPECT_EQ(urma_register_provider_ops(nullptr), -1);
  EXPECT_EQ(urma_register_provider_ops(&ops), -1);
  EXPECT_EQ(urma_unregister_provider_ops(nullptr), -1);
  EXPECT_EQ(urma_unregister_provider_ops(&ops), -1);
  ops.name = "registered";
  EXPECT_EQ(urma_unregister_provider_ops(&ops), 0);
  EXPECT_EQ(urma_register_provider_ops(&ops), 0);
  // It has no init, so it is skipped, and the others work.
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_NE(find_device(), nullptr);
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_provider_ops(&ops), 0);
}

void expect_eid(const char* text, const char* expected) {
  urma_eid_t eid = {}, wanted = {};
  EXPECT_EQ(urma_str_to_eid(text, &eid), 0) << text;
  ASSERT_EQ(::inet_pton(AF_INET6, expected, wanted.raw), 1);
  EXPECT_EQ(std::memcmp(&eid, &wanted, sizeof eid), 0) << text;
}

TEST_F(LibraryLines, S1_08a_StrToEidRefuses) {
  EXPECT_UNTOUCHED(urma_eid_t, eid);
  EXPECT_EQ(urma_str_to_eid(nullptr, &eid), -EINVAL);
  EXPECT_EQ(urma_str_to_eid("2001:db8::1", nullptr), -EINVAL);
  for (const char* text : {"", "1", "12", "not-an-eid", "abc", "-123", "0x1ffffffff", "1.2.3"}) {
    EXPECT_EQ(urma_str_to_eid(text, &eid), -EINVAL) << text;
  }
}

TEST_F(LibraryLines, S1_08b_StrToEidReads) {
  expect_eid("192.168.10.1", "::ffff:192.168.10.1");
  expect_eid("2001:db8::1", "2001:db8::1");
  expect_eid("0x12345", "::ffff:0.1.35.69");
  expect_eid("12345", "::ffff:0.0.48.57");
}

TEST_F(LibraryLines, S1_09a_ReadSysfsFileRefuses) {
  ScratchDir dir;
  std::ofstream(dir.path() + "/empty");
  std::ofstream(dir.path() + "/full") << "1234567\n";
  char text[8];
  EXPECT_EQ(urma_read_sysfs_file(dir.path().c_str(), "missing", text, sizeof text), -1);
  EXPECT_EQ(urma_read_sysfs_file(dir.path().c_str(), "empty", text, sizeof text), -1);
  EXPECT_EQ(urma_read_sysfs_file(dir.path().c_str(), "full", text, sizeof text), -1);
}

TEST_F(LibraryLines, S1_09b_ReadSysfsFileTrimsOneNewline) {
  ScratchDir dir;
  std::ofstream(dir.path() + "/value") << "123\n";
  std::ofstream(dir.path() + "/plain") << "123";
  std::ofstream(dir.path() + "/two") << "12\n\n";
  char text[8];
  EXPECT_EQ(urma_read_sysfs_file(dir.path().c_str(), "value", text, sizeof text), 3);
  EXPECT_STREQ(text, "123");
  EXPECT_EQ(urma_read_sysfs_file(dir.path().c_str(), "plain", text, sizeof text), 3);
  EXPECT_STREQ(text, "123");
  EXPECT_EQ(urma_read_sysfs_file(dir.path().c_str(), "two", text, sizeof text), 3);
  EXPECT_STREQ(text, "12\n");
}

}  // namespace
}  // namespace urma_test
