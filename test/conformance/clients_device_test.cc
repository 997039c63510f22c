// SPDX-License-Identifier: MIT
//
// What programs rely on when they look for the library and for a device, and in the ids that they
// exchange.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <fstream>

#include "test/conformance/clients.h"
#include "test/process/configs.h"
#include "test/process/owned.h"
#include "test/process/self.h"
#include "urma_ubagg.h"

namespace urma_test {
namespace {

constexpr size_t kSize = 4096;

// -------------------------------------------------------------------------------------------------
// 1. Finding the library
// -------------------------------------------------------------------------------------------------

int lines_logged = 0;
void count_line(int, char* line) { lines_logged += std::strstr(line, "from a program") != nullptr; }

TEST_F(Clients, C1_01_EveryNameIsFoundByDlsym) {
  run_one([](Channel&) {
    void* library = ::dlopen(std::getenv("LIBURMA"), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << ::dlerror();
    int functions = 0;
#define X(name) \
  ++functions;  \
  EXPECT_NE(::dlsym(library, #name), nullptr) << #name;
#include "test/process/urma_api_names.inc"
#undef X
    EXPECT_EQ(functions, 128);

    using Log = void (*)(const char*, int, urma_vlog_level_t, const char*, ...);
    using Drop = bool (*)(urma_vlog_level_t);
    const auto log = reinterpret_cast<Log>(::dlsym(library, "urma_log"));
    const auto drop = reinterpret_cast<Drop>(::dlsym(library, "urma_log_drop"));
    EXPECT_NE(::dlsym(library, "urma_log_loc"), nullptr);
    ASSERT_NE(log, nullptr);
    ASSERT_NE(drop, nullptr);
    EXPECT_EQ(urma_register_log_func(count_line), URMA_SUCCESS);
    urma_log_set_level(URMA_VLOG_LEVEL_WARNING);
    EXPECT_FALSE(drop(URMA_VLOG_LEVEL_ERR));
    EXPECT_FALSE(drop(URMA_VLOG_LEVEL_WARNING));
    EXPECT_TRUE(drop(URMA_VLOG_LEVEL_INFO));
    log("program", 7, URMA_VLOG_LEVEL_ERR, "from a program: %d", 1);
    log("program", 8, URMA_VLOG_LEVEL_INFO, "from a program: %d", 2);
    EXPECT_EQ(lines_logged, 1);
    EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
    ::dlclose(library);
  });
}

std::string name_of_device() {
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  const std::string name = find_device()->name;
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  return name;
}

// From now on this process uses the device under the name that some programs require, which has one
// EID. Returns the name of the device behind it.
std::string use_alias() {
  std::string real = name_of_device();
  const std::string alias = "bonding_dev_0=" + real;
  EXPECT_EQ(::setenv("URMA_DEVICE_ALIAS", alias.c_str(), 1), 0);
  EXPECT_EQ(::setenv("URMA_DEVICE", "bonding_dev_0", 1), 0);
  EXPECT_EQ(::unsetenv("URMA_EID_INDEX"), 0);
  return real;
}

urma_status_t control(urma_context_t* ctx, uint32_t opcode, void* in = nullptr, uint32_t in_len = 0,
                      void* out = nullptr, uint32_t out_len = 0) {
  urma_user_ctl_in_t input = {reinterpret_cast<uint64_t>(in), in_len, opcode};
  urma_user_ctl_out_t output = {reinterpret_cast<uint64_t>(out), out_len, 0};
  return urma_user_ctl(ctx, &input, &output);
}

TEST_F(Clients, C1_03_ADeviceOfTheBondingName) {
  run_one([](Channel&) {
    const std::string real_name = use_alias();
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    char name[] = "bonding_dev_0";
    urma_device_t* device = urma_get_device_by_name(name);
    ASSERT_NE(device, nullptr);
    int count = 0;
    urma_device_t** list = urma_get_device_list(&count);
    bool listed = false;
    urma_device_t* real = nullptr;
    for (int i = 0; i < count; ++i) {
      listed = listed || list[i] == device;
      if (list[i]->name == real_name) real = list[i];
    }
    urma_free_device_list(list);
    EXPECT_TRUE(listed);
    ASSERT_NE(real, nullptr);
    EXPECT_EQ(device->type, URMA_TRANSPORT_UB);
    urma_device_attr_t attr, of_real;
    EXPECT_EQ(urma_query_device(device, &attr), URMA_SUCCESS);
    EXPECT_EQ(urma_query_device(real, &of_real), URMA_SUCCESS);
    EXPECT_EQ(attr.dev_cap.max_jfs_depth, of_real.dev_cap.max_jfs_depth);
    EXPECT_EQ(attr.port_cnt, of_real.port_cnt);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

TEST_F(Clients, C1_03_TheBondingNameAnswersItsControls) {
  run_one([](Channel&) {
    use_alias();
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_context_t* ctx = urma_create_context(find_device(), 0);
    ASSERT_NE(ctx, nullptr);
    urma_context_aggr_mode_t legacy = URMA_AGGR_MODE_BALANCE;
    EXPECT_EQ(control(ctx, BONDP_USER_CTL_SET_BONDING_MODE_LEGACY, &legacy, sizeof(legacy)),
              URMA_SUCCESS);
    EXPECT_EQ(urma_set_context_opt(ctx, URMA_OPT_AGGR_MODE, &legacy, sizeof(legacy)), URMA_SUCCESS);
    bondp_set_bonding_mode_in_t mode = {BONDP_BONDING_MODE_ACTIVE_BACKUP, BONDP_BONDING_LEVEL_PORT};
    EXPECT_EQ(control(ctx, BONDP_USER_CTL_SET_BONDING_MODE, &mode, sizeof(mode)), URMA_SUCCESS);
    EXPECT_EQ(control(ctx, BONDP_USER_CTL_ENABLE_SEG_CACHE), URMA_SUCCESS);
    EXPECT_EQ(control(ctx, BONDP_USER_CTL_DISABLE_MSN), URMA_SUCCESS);
    mode.bonding_mode = BONDP_BONDING_MODE_MAX;
    EXPECT_EQ(control(ctx, BONDP_USER_CTL_SET_BONDING_MODE, &mode, sizeof(mode)), URMA_FAIL);

    urma_jfce_t* jfce = urma_create_jfce(ctx);
    ASSERT_NE(jfce, nullptr);
    bondp_get_jfce_fd_list_in_t in = {jfce};
    bondp_get_jfce_fd_list_out_t fds = {};
    EXPECT_EQ(control(ctx, BONDP_USER_CTL_GET_JFCE_FD_LIST, &in, sizeof(in), &fds, sizeof(fds)),
              URMA_SUCCESS);
    ASSERT_GE(fds.count, 1u);
    ASSERT_LE(fds.count, static_cast<uint32_t>(URMA_UBAGG_DEV_MAX_NUM));
    for (uint32_t i = 0; i < fds.count; ++i) EXPECT_GE(::fcntl(fds.fd_list[i], F_GETFD), 0);
    // Too late now: the context has a child.
    mode.bonding_mode = BONDP_BONDING_MODE_BALANCE;
    EXPECT_EQ(control(ctx, BONDP_USER_CTL_SET_BONDING_MODE, &mode, sizeof(mode)), URMA_FAIL);
    EXPECT_EQ(urma_delete_jfce(jfce), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

TEST_F(Clients, C1_03_QueuesOfTheBondingNameWork) {
  const auto body = [](Channel& channel) {
    use_alias();
    Speaker speaker;
    bondp_query_port_in_t in = {};
    in.jetty = speaker.endpoint.jetty;
    bondp_query_port_out_t ports = {};
    EXPECT_EQ(control(speaker.endpoint.ctx, BONDP_USER_CTL_QUERY_PORT, &in, sizeof(in), &ports,
                      sizeof(ports)),
              URMA_SUCCESS);
    EXPECT_GE(ports.active_count, 1u);
    EXPECT_GE(ports.enabled_count, ports.active_count);
    speaker.post_receive(3);
    speaker.meet(channel);
    channel.sync();
    speaker.send(64, 4);
    wait_for_success(speaker.endpoint.send_jfc, 4);
    wait_for_success(speaker.endpoint.receive_jfc, 3);
    EXPECT_EQ(std::string(speaker.in.data(), 64), std::string(64, 'o'));
    channel.sync();
    speaker.endpoint.close();
  };
  run_two("first", body, "second", body);
}

// -------------------------------------------------------------------------------------------------
// 2. Device attributes
// -------------------------------------------------------------------------------------------------

urma_device_attr_t attributes() {
  urma_device_attr_t attr = {};
  EXPECT_EQ(urma_query_device(find_device(), &attr), URMA_SUCCESS);
  return attr;
}

TEST_F(Clients, C2_01_EachPriorityCarriesOneBit) {
  run_one([](Channel&) {
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    const urma_device_attr_t attr = attributes();
    uint32_t seen = 0;
    for (const urma_sl_info& info : attr.dev_cap.priority_info) {
      EXPECT_EQ(std::popcount(info.tp_type.value), 1);
      seen |= info.tp_type.value;
    }
    urma_tp_type_en wanted = {};
    wanted.bs.rtp = 1;
    wanted.bs.ctp = 1;
    if ((attr.dev_cap.trans_mode & URMA_TM_UM) != 0) wanted.bs.utp = 1;
    EXPECT_EQ(seen & wanted.value, wanted.value);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

// A queue of that priority sends a message to the queue of the endpoint.
void send_with_priority(Self& self, uint8_t priority, urma_tp_type_t tp_type) {
  SCOPED_TRACE(static_cast<int>(priority));
  Endpoint& endpoint = self.endpoint;
  urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
  cfg.id = 0;
  cfg.jfs_cfg.priority = priority;
  const OwnedJetty jetty = urma_create_jetty(endpoint.ctx, &cfg);
  EXPECT_EQ(jetty->jetty_cfg.jfs_cfg.priority, priority);
  urma_rjetty_t remote = {};
  remote.jetty_id.eid = jetty->jetty_id.eid;
  remote.jetty_id.id = jetty->jetty_id.id;
  remote.trans_mode = endpoint.config.mode;
  remote.type = URMA_JETTY;
  remote.tp_type = tp_type;
  const ImportedJetty target = urma_import_jetty(endpoint.ctx, &remote, nullptr);
  const bool bound = endpoint.config.mode == URMA_TM_RC;
  if (bound) {
    EXPECT_EQ(urma_bind_jetty(jetty, target), URMA_SUCCESS);
  }
  endpoint.post_receive(self.segment, self.in(), 64, 100u + priority);
  urma_sge_t here = piece(self.segment, self.out(), 64);
  urma_jfs_wr_t wr = send_request(target, &here, priority);
  urma_jfs_wr_t* bad;
  EXPECT_EQ(urma_post_jetty_send_wr(jetty, &wr, &bad), URMA_SUCCESS);
  wait_for_success(endpoint.send_jfc, priority);
  wait_for_success(endpoint.receive_jfc, 100u + priority);
  if (bound) {
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
  }
}

TEST_F(Clients, C2_01_EveryPrioritySends) {
  for (const urma_transport_mode_t mode : {URMA_TM_RM, URMA_TM_RC, URMA_TM_UM}) {
    SCOPED_TRACE(mode);
    if (!device_traits().has_mode(mode)) continue;
    run_one([mode](Channel&) {
      Self self(config_of(mode));
      const urma_device_attr_t attr = attributes();
      for (uint8_t priority = 0; priority < URMA_MAX_PRIORITY_CNT; ++priority) {
        const auto type = attr.dev_cap.priority_info[priority].tp_type;
        if (mode == URMA_TM_UM && type.bs.utp == 0) continue;
        if (mode != URMA_TM_UM) {
          send_with_priority(self, priority, type.bs.ctp != 0 ? URMA_CTP : URMA_RTP);
        } else {
          send_with_priority(self, priority, URMA_UTP);
        }
      }
    });
  }
}

TEST_F(Clients, C2_02_APortIsUpAndIndexesArePositions) {
  run_one([](Channel&) {
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    urma_device_t* device = find_device();
    EXPECT_EQ(device->type, URMA_TRANSPORT_UB);
    const urma_device_attr_t attr = attributes();
    ASSERT_GT(attr.port_cnt, 0);
    ASSERT_LE(attr.port_cnt, MAX_PORT_CNT);
    int active = 0;
    for (int i = 0; i < attr.port_cnt; ++i) {
      if (attr.port_attr[i].state != URMA_PORT_ACTIVE) continue;
      ++active;
      EXPECT_LE(static_cast<int>(attr.port_attr[i].active_speed), URMA_SP_800G);
    }
    EXPECT_GT(active, 0);
    uint32_t count = 0;
    urma_eid_info_t* eids = urma_get_eid_list(device, &count);
    ASSERT_NE(eids, nullptr);
    ASSERT_GT(count, 0u);
    const urma_eid_t zero = {};
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(eids[i].eid_index, i);
      EXPECT_NE(std::memcmp(&eids[i].eid, &zero, sizeof(zero)), 0);
      EXPECT_EQ(urma_get_device_by_eid(eids[i].eid, URMA_TRANSPORT_UB), device);
    }
    urma_free_eid_list(eids);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// Whether memory counts as resident that nothing has touched.
bool untouched_memory_counts() {
  constexpr size_t kMapped = size_t{1} << 30;
  const size_t before = resident_bytes();
  void* const memory = ::mmap(nullptr, kMapped, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  const size_t mapped = resident_bytes();
  ::munmap(memory, kMapped);
  return mapped > before + (size_t{1} << 20);
}

TEST_F(Clients, C2_03_DepthCostsNoMemory) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer uses extra memory for each allocation";
  if (untouched_memory_counts()) GTEST_SKIP() << "an emulator keeps some bytes for each page";
  const bool maps = device_traits().maps;
  run_one([maps](Channel&) {
    constexpr int kQueues = 8;
    Endpoint endpoint;
    const urma_device_cap_t cap = attributes().dev_cap;
    const size_t before = resident_bytes();
    std::vector<urma_jfc_t*> jfcs;
    std::vector<urma_jfr_t*> jfrs;
    std::vector<urma_jfs_t*> jfss;
    for (int i = 0; i < kQueues; ++i) {
      urma_jfc_cfg_t jfc_cfg = endpoint.send_jfc->jfc_cfg;
      jfc_cfg.depth = cap.max_jfc_depth;
      jfcs.push_back(urma_create_jfc(endpoint.ctx, &jfc_cfg));
      ASSERT_NE(jfcs.back(), nullptr);
      urma_jfr_cfg_t jfr_cfg = endpoint.jfr->jfr_cfg;
      jfr_cfg.id = 0;
      jfr_cfg.depth = cap.max_jfr_depth;
      jfr_cfg.max_sge = static_cast<uint8_t>(cap.max_jfr_sge);
      jfr_cfg.jfc = jfcs.back();
      jfrs.push_back(urma_create_jfr(endpoint.ctx, &jfr_cfg));
      ASSERT_NE(jfrs.back(), nullptr);
      urma_jfs_cfg_t jfs_cfg = endpoint.jetty->jetty_cfg.jfs_cfg;
      jfs_cfg.depth = cap.max_jfs_depth;
      jfs_cfg.max_sge = static_cast<uint8_t>(cap.max_jfs_sge);
      jfs_cfg.max_rsge = static_cast<uint8_t>(cap.max_jfs_rsge);
      jfs_cfg.max_inline_data = cap.max_jfs_inline_len;
      jfs_cfg.jfc = jfcs.back();
      jfss.push_back(urma_create_jfs(endpoint.ctx, &jfs_cfg));
      ASSERT_NE(jfss.back(), nullptr);
    }
    // The queues of a device are in its own memory, all of it touched.
    if (maps) {
      EXPECT_LT(resident_bytes() - before, size_t{2} << 20);
    }
    for (int i = 0; i < kQueues; ++i) {
      EXPECT_EQ(urma_delete_jfs(jfss[i]), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_jfr(jfrs[i]), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_jfc(jfcs[i]), URMA_SUCCESS);
    }
    endpoint.close();
  });
}

TEST_F(Clients, C2_03_LimitsFitTheFieldsOfPrograms) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    const urma_device_cap_t cap = attributes().dev_cap;
    for (const uint32_t sges : {cap.max_jfs_sge, cap.max_jfs_rsge, cap.max_jfr_sge}) {
      EXPECT_GE(sges, 13u);
      EXPECT_LE(sges, 255u);
    }
    urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
    cfg.id = 0;
    cfg.jfs_cfg.max_inline_data = cap.max_jfs_inline_len;
    const OwnedJetty jetty = urma_create_jetty(endpoint.ctx, &cfg);
    EXPECT_GE(jetty->jetty_cfg.jfs_cfg.max_inline_data, cap.max_jfs_inline_len);
  });
}

TEST_F(Clients, C2_04_TokenIdsFirstAndAdviceAtOnce) {
  run_one([](Channel&) {
    for (const bool jetty : {true, false}) {
      std::vector<char> memory(kSize);
      OwnedEndpoint endpoint(config_of(URMA_TM_RM, jetty));
      const OwnedTokenId token_id = urma_alloc_token_id(endpoint.ctx);
      urma_seg_cfg_t cfg = seg_config(memory.data(), memory.size(), kAllAccess);
      cfg.token_id = token_id;
      cfg.flag.bs.token_id_valid = URMA_TOKEN_ID_VALID;
      const OwnedSegment segment = urma_register_seg(endpoint.ctx, &cfg);
      EXPECT_EQ(segment->seg.token_id, token_id->token_id);
      EXPECT_EQ(segment->token_id, token_id);
      EXPECT_EQ(urma_free_token_id(token_id), URMA_EINVAL);  // in use
      urma_target_jetty_t* peer = endpoint.import(endpoint.queue_id());
      if (jetty) {
        EXPECT_EQ(urma_advise_jetty(endpoint.jetty, peer), URMA_SUCCESS);
        EXPECT_EQ(urma_unadvise_jetty(endpoint.jetty, peer), URMA_SUCCESS);
      } else {
        EXPECT_EQ(urma_advise_jfr(endpoint.jfs, peer), URMA_SUCCESS);
        EXPECT_EQ(urma_unadvise_jfr(endpoint.jfs, peer), URMA_SUCCESS);
      }
    }
  });
}

}  // namespace
}  // namespace urma_test
