// SPDX-License-Identifier: MIT
//
// Contexts of a provider written by hand, and what the calls leave alone: errno, and locks while
// the provider or the program's log function runs.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "test/unit/core_fake.h"
#include "urma/core/process/detours.h"
#include "urma/core/process/living.h"
#include "urma_ext.h"

namespace {

std::atomic<int> until_one_fails{0};  // 0: none

}  // namespace

void* operator new(size_t bytes) {
  void* memory = until_one_fails > 0 && --until_one_fails == 0 ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace core_fake {
namespace {

constexpr char kDevice[] = "fake1";

// All contexts have the same address, one after the other.
urma_context_t g_context;
urma_ops_t g_ops;
int g_living;

urma_context_t* open(urma_device_t*, uint32_t, int) {
  ++g_living;
  new (&g_context) urma_context_t{};
  g_context.ops = &g_ops;
  return &g_context;
}

urma_status_t close(urma_context_t* ctx) {
  EXPECT_EQ(ctx->ops, &g_ops);
  --g_living;
  return g_provider.status;
}

class ContextApi : public CoreApi {
 public:
  static urma_device_t* device(const char* name = kDevice) {
    return urma::core::device_table().find(name);
  }

 protected:
  static void SetUpTestSuite() {
    CoreApi::SetUpTestSuite();
    static urma_provider_ops_t provider = {};
    provider.name = "fake";
    provider.create_context = open;
    provider.delete_context = close;
    static const urma_eid_t eid = {{1}};
    static const urma::DeviceMemoryCalls memory = {};
    urma::DeviceDescription description = {};
    description.name = kDevice;
    description.type = URMA_TRANSPORT_UB;
    description.attr.port_cnt = 1;
    description.attr.dev_cap.max_eid_cnt = 1;
    description.eids = &eid;
    description.eid_count = 1;
    description.memory = &memory;
    urma::core::device_table().add_device(&provider, description);
    urma::core::device_table().set_aliases({{"bonding_dev_0", kDevice, nullptr}});
  }
  void SetUp() override {
    CoreApi::SetUp();
    g_ops = full_ops();
    g_living = 0;
  }
};

// -------------------------------------------------------------------------------------------------
// Contexts
// -------------------------------------------------------------------------------------------------

urma_status_t close_while_another_opens(urma_context_t*) {
  std::thread([] { EXPECT_EQ(urma_create_context(ContextApi::device(), 0), &g_context); }).join();
  return URMA_SUCCESS;
}

TEST_F(ContextApi, AContextMadeWhileAnotherEndsIsListed) {
  urma_provider_ops_t* provider = device()->ops;
  ASSERT_EQ(urma_create_context(device(), 0), &g_context);
  provider->delete_context = close_while_another_opens;
  EXPECT_STATUS(urma_delete_context(&g_context), URMA_SUCCESS);
  provider->delete_context = close;
  // As urma_uninit does, which shuts the gate of all that are listed.
  urma::core::abandon_living();
  EXPECT_STATUS(urma_delete_context(&g_context), URMA_EINVAL);
}

TEST_F(ContextApi, AContextThatLivesOnStaysListed) {
  ASSERT_EQ(urma_create_context(device(), 0), &g_context);
  g_provider.status = URMA_FAIL;
  EXPECT_STATUS(urma_delete_context(&g_context), URMA_FAIL);
  urma::core::abandon_living();
  EXPECT_STATUS(urma_delete_context(&g_context), URMA_EINVAL);
}

// Fails one allocation after the other.
void open_short_of_memory(urma_device_t* device) {
  bool failed = true;
  for (int number = 1; failed; ++number) {
    until_one_fails = number;
    errno = EPROTO;
    urma_context_t* ctx = urma_create_context(device, 0);
    const int error = errno;
    failed = until_one_fails.exchange(0) == 0;
    if (ctx == nullptr) {
      EXPECT_EQ(error, ENOMEM) << number;
      EXPECT_EQ(g_living, 0) << number;
    } else {
      EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    }
  }
}

TEST_F(ContextApi, AContextThatCannotBeMadeWhollyIsGivenBack) {
  open_short_of_memory(device());
  open_short_of_memory(device("bonding_dev_0"));
}

// -------------------------------------------------------------------------------------------------
// Calls that leave something alone
// -------------------------------------------------------------------------------------------------

TEST_F(ContextApi, CallsThatReturnAStatusLeaveErrnoAlone) {
  urma_jfce_t* jfce = urma_create_jfce(&ctx_);
  ops_.delete_jfce = [](urma_jfce_t* object) -> urma_status_t {
    delete object;
    errno = EIO;
    return URMA_SUCCESS;
  };
  EXPECT_STATUS(urma_delete_jfce(jfce), URMA_SUCCESS);
  ops_.modify_tp = [](urma_context_t*, uint32_t, urma_tp_cfg_t*, urma_tp_attr_t*,
                      urma_tp_attr_mask_t) -> urma_status_t {
    errno = EIO;
    return URMA_FAIL;
  };
  urma_tp_cfg_t cfg = {};
  urma_tp_attr_t attr = {};
  EXPECT_STATUS(urma_modify_tp(&ctx_, 1, &cfg, &attr, {}), URMA_FAIL);
  urma_jfc_t jfc = {};
  jfc.urma_ctx = &ctx_;
  ops_.rearm_jfc = [](urma_jfc_t*, bool) -> urma_status_t {
    errno = EAGAIN;
    return URMA_SUCCESS;
  };
  EXPECT_STATUS(urma_rearm_jfc(&jfc, false), URMA_SUCCESS);
  ctx_.dev = device();
  urma_ext_memory_handle_t handle;
  urma_target_seg_t* owned = nullptr;
  g_provider.fails = true;
  EXPECT_STATUS(urma_ext_create_memory_handle(&ctx_, &handle, 8, &handle, &owned), URMA_FAIL);
}

TEST_F(ContextApi, AProviderMayAskForDevicesWhileItGivesTheUasid) {
  static urma_provider_ops_t provider = {};
  provider.name = "asking";
  provider.get_uasid = [](uint32_t* uasid) -> urma_status_t {
    char name[] = "fake1";
    EXPECT_EQ(urma_get_device_by_name(name), ContextApi::device());
    *uasid = 7;
    return URMA_SUCCESS;
  };
  urma::core::device_table().add_provider(&provider);
  uint32_t uasid = 0;
  ::alarm(20);  // it may wait for itself
  EXPECT_STATUS(urma_get_uasid(&uasid), URMA_SUCCESS);
  ::alarm(0);
  EXPECT_EQ(uasid, 7U);
}

urma_jetty_grp_t* g_group;
int g_lines, g_lines_with_lock;

void look_at_the_list(int, char*) {
  ++g_lines;
  if (pthread_mutex_trylock(&g_group->list_mutex) != 0) {
    ++g_lines_with_lock;
  } else {
    pthread_mutex_unlock(&g_group->list_mutex);
  }
}

TEST_F(ContextApi, AGroupIsNotLockedWhileALineIsLogged) {
  make_queues();
  urma_jetty_grp_cfg_t cfg = {};
  g_group = jetty_cfg_.jetty_grp = urma_create_jetty_grp(&ctx_, &cfg);
  ASSERT_NE(g_group, nullptr);
  urma_jetty_t* members[2];
  for (auto& one : members) one = urma_create_jetty(&ctx_, &jetty_cfg_);
  EXPECT_EQ(urma_register_log_func(look_at_the_list), URMA_SUCCESS);
  g_lines = 0;
  EXPECT_NULL(urma_create_jetty(&ctx_, &jetty_cfg_), URMA_ENOPERM);
  EXPECT_STATUS(urma_delete_jetty_grp(g_group), URMA_ENOPERM);
  EXPECT_EQ(g_lines, 2);
  EXPECT_EQ(g_lines_with_lock, 0);
  EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
  for (urma_jetty_t* one : members) EXPECT_STATUS(urma_delete_jetty(one), URMA_SUCCESS);
  EXPECT_STATUS(urma_delete_jetty_grp(g_group), URMA_SUCCESS);
  end_queues();
}

TEST_F(ContextApi, APortThatChangesOftenNeedsNoMoreMemory) {
  auto& table = urma::core::device_table();
  for (int i = 0; i < 1000; ++i) {
    table.set_port_state(kDevice, 0, i % 2 == 0 ? URMA_PORT_ACTIVE : URMA_PORT_DOWN);
  }
  EXPECT_EQ(table.attr_of(device())->port_attr[0].state, URMA_PORT_DOWN);
  EXPECT_LE(device()->sysfs_dev->attrs.size(), 3U);
}

TEST_F(ContextApi, CallsWithoutAContextFailInAForkedChild) {
  urma_device_attr_t attr;
  urma_ext_device_t details;
  const urma_ext_rdma_interface_t* rdma;
  char text[4096];
  uint32_t length = sizeof text;
  EXPECT_STATUS(urma_ext_query_device(device_, &details), URMA_SUCCESS);
  urma::core::begin_detour(urma::core::kForked);
  EXPECT_STATUS(urma_query_device(device_, &attr), URMA_FAIL);
  EXPECT_STATUS(urma_ext_query_device(device_, &details), URMA_EINVAL);
  EXPECT_EQ(urma_ext_query_rdma_interface(&rdma), -EINVAL);
  EXPECT_STATUS(urma_start_perf(), URMA_EINVAL);
  EXPECT_STATUS(urma_get_perf_info(text, &length), URMA_EINVAL);
  EXPECT_STATUS(urma_stop_perf(), URMA_EINVAL);
  urma::core::end_detour(urma::core::kForked);
}

}  // namespace
}  // namespace core_fake
