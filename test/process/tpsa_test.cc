// SPDX-License-Identifier: MIT
//
// Programs that open libtpsa themselves, like UMDK's message queues, and ask it for paths.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "test/process/harness.h"
#include "urma_api.h"
#include "uvs_api.h"

namespace urma_test {
namespace {

class TpsaTest : public ProcessTest {};

void* opened() {
  void* library = ::dlopen(std::getenv("LIBTPSA"), RTLD_LAZY | RTLD_GLOBAL);
  EXPECT_NE(library, nullptr) << ::dlerror();
  return library;
}

#define FUNCTION(name) reinterpret_cast<decltype(&::name)>(::dlsym(RTLD_DEFAULT, #name))

constexpr uvs_eid_t kFrom = {{1, 2, 3}}, kTo = {{4, 5, 6}};

// Before urma_init, and by the only name that programs use.
TEST_F(TpsaTest, AnswersOnePathBetweenTwoAddresses) {
  run_one([](Channel&) {
    const auto get =
        reinterpret_cast<decltype(&uvs_get_path_set)>(::dlsym(opened(), "uvs_get_path_set"));
    ASSERT_NE(get, nullptr);
    for (const auto type : {UVS_RTP, UVS_CTP, UVS_UTP}) {
      for (const bool multi_path : {false, true}) {
        uvs_path_set_t set;
        std::memset(&set, 0xff, sizeof set);
        ASSERT_EQ(get(&kFrom, &kTo, type, multi_path, &set), 0);
        EXPECT_EQ(set.topo_type, UVS_TOPO_TYPE_FULLMESH_1D);
        EXPECT_EQ(set.chip_count, 1u);
        EXPECT_EQ(set.die_count, 1u);
        ASSERT_EQ(set.path_count, 1u);
        const uvs_path_t& path = set.paths[0];
        EXPECT_EQ(std::memcmp(&path.src_eid, &kFrom, sizeof kFrom), 0);
        EXPECT_EQ(std::memcmp(&path.dst_eid, &kTo, sizeof kTo), 0);
        EXPECT_EQ(path.src_port.port_idx, 4);
        EXPECT_EQ(path.src_port.value, path.dst_port.value);
        EXPECT_EQ(set.paths[1].src_eid.in6.interface_id, 0u);
      }
    }
    uvs_path_set_t set = {};
    uvs_tp_type_t none;
    const int number = 3;
    std::memcpy(&none, &number, sizeof none);
    EXPECT_EQ(get(nullptr, &kTo, UVS_RTP, false, &set), -EINVAL);
    EXPECT_EQ(get(&kFrom, nullptr, UVS_RTP, false, &set), -EINVAL);
    EXPECT_EQ(get(&kFrom, &kTo, UVS_RTP, false, nullptr), -EINVAL);
    EXPECT_EQ(get(&kFrom, &kTo, none, false, &set), -EINVAL);
    EXPECT_EQ(set.path_count, 0u);
  });
}

TEST_F(TpsaTest, AnswersOneRoute) {
  run_one([](Channel&) {
    opened();
    const auto get = FUNCTION(uvs_get_route_list);
    uvs_route_t route = {};
    route.src = kFrom;
    route.dst = kTo;
    uvs_route_list_t list = {};
    ASSERT_EQ(get(&route, &list), 0);
    ASSERT_EQ(list.len, 1u);
    EXPECT_EQ(std::memcmp(&list.buf[0].src, &kFrom, sizeof kFrom), 0);
    EXPECT_EQ(std::memcmp(&list.buf[0].dst, &kTo, sizeof kTo), 0);
    EXPECT_EQ(list.buf[0].flag.value, 7u);
    route.flag.bs.ctp = 1;
    ASSERT_EQ(get(&route, &list), 0);
    EXPECT_EQ(list.buf[0].flag.value, 2u);
    EXPECT_EQ(get(nullptr, &list), -EINVAL);
    EXPECT_EQ(get(&route, nullptr), -EINVAL);
  });
}

TEST_F(TpsaTest, NamesComeFromTheDeviceList) {
  run_one([](Channel&) {
    opened();
    const auto name_of = FUNCTION(uvs_get_device_name_by_eid);
    char name[URMA_MAX_DEV_NAME] = "as before";
    uvs_eid_t eid = kFrom;
    EXPECT_EQ(name_of(&eid, name, sizeof name), -ENODEV);
    ASSERT_EQ(FUNCTION(urma_init)(nullptr), URMA_SUCCESS);
    EXPECT_EQ(name_of(&eid, name, sizeof name), -ENODEV);
    EXPECT_STREQ(name, "as before");
    for (const char* device : {"urma_shm0", "bonding_dev_0"}) {
      uint32_t count = 0;
      urma_eid_info_t* eids = FUNCTION(urma_get_eid_list)(
          FUNCTION(urma_get_device_by_name)(std::string(device).data()), &count);
      ASSERT_NE(eids, nullptr);
      std::memcpy(&eid, &eids[count - 1].eid, sizeof eid);
      FUNCTION(urma_free_eid_list)(eids);
      EXPECT_EQ(name_of(&eid, name, std::strlen(device) + 1), 0);
      EXPECT_STREQ(name, device);
      EXPECT_EQ(name_of(&eid, name, std::strlen(device)), -ERANGE);
      EXPECT_STREQ(name, device);
    }
    EXPECT_EQ(name_of(nullptr, name, sizeof name), -EINVAL);
    EXPECT_EQ(name_of(&eid, nullptr, sizeof name), -EINVAL);
    EXPECT_EQ(name_of(&eid, name, 0), -EINVAL);
    EXPECT_EQ(FUNCTION(urma_uninit)(), URMA_SUCCESS);
  });
}

int lines = 0;

void count_line(int level, char* line) {
  if (level == URMA_VLOG_LEVEL_ERR && std::strstr(line, "there is no topology") != nullptr) ++lines;
}

TEST_F(TpsaTest, TopologyChangesAreRefusedWithOneLine) {
  run_one([](Channel&) {
    opened();
    ASSERT_EQ(FUNCTION(urma_register_log_func)(count_line), URMA_SUCCESS);
    uvs_eid_t eid = kFrom, other = kTo;
    char buffer[64] = {};
    const uvs_main_ue_eid_entry_t entry = {};
    uvs_main_ue_eid_batch_entry_t batch = {};
    batch.eid_num = 128;
    const int refusals[] = {
        FUNCTION(uvs_create_agg_dev)(&eid, "bonding_dev_1"),
        FUNCTION(uvs_delete_agg_dev)(&eid),
        FUNCTION(uvs_set_topo_info)(buffer, 64, 1),
        FUNCTION(uvs_set_share_topo_info)(buffer, 64, MAX_NODE_NUM),
        FUNCTION(uvs_get_topo_info)(buffer),
        FUNCTION(uvs_insert_main_ue_eid)(&entry),
        FUNCTION(uvs_insert_main_ue_eid_batch)(&batch),
        FUNCTION(uvs_delete_main_ue_eid)(&eid),
        FUNCTION(uvs_lookup_main_ue_eid)(&eid, &other),
        FUNCTION(uvs_flush_main_ue_eid)(),
    };
    int count = 0;
    for (const int refusal : refusals) {
      ++count;
      EXPECT_EQ(refusal, -ENOTSUP) << count;
    }
    EXPECT_EQ(lines, count);
    EXPECT_EQ(std::memcmp(&other, &kTo, sizeof kTo), 0);

    batch.eid_num = 129;
    const int wrong[] = {
        FUNCTION(uvs_create_agg_dev)(nullptr, "bonding_dev_1"),
        FUNCTION(uvs_create_agg_dev)(&eid, nullptr),
        FUNCTION(uvs_delete_agg_dev)(nullptr),
        FUNCTION(uvs_set_topo_info)(nullptr, 64, 1),
        FUNCTION(uvs_set_topo_info)(buffer, 0, 1),
        FUNCTION(uvs_set_topo_info)(buffer, 64, 0),
        FUNCTION(uvs_set_share_topo_info)(buffer, 64, MAX_NODE_NUM + 1),
        FUNCTION(uvs_get_topo_info)(nullptr),
        FUNCTION(uvs_insert_main_ue_eid)(nullptr),
        FUNCTION(uvs_insert_main_ue_eid_batch)(nullptr),
        FUNCTION(uvs_insert_main_ue_eid_batch)(&batch),
        FUNCTION(uvs_delete_main_ue_eid)(nullptr),
        FUNCTION(uvs_lookup_main_ue_eid)(nullptr, &other),
        FUNCTION(uvs_lookup_main_ue_eid)(&eid, nullptr),
    };
    for (const int refusal : wrong) EXPECT_EQ(refusal, -EINVAL);
    EXPECT_EQ(lines, count);
    FUNCTION(urma_unregister_log_func)();
  });
}

}  // namespace
}  // namespace urma_test
