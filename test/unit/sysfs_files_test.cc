// SPDX-License-Identifier: MIT
//
// The attribute files of a device read back as the same device.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "urma/core/process/sysfs.h"

namespace urma::core {
namespace {

// Every byte of the attributes that has a file differs.
urma_device_attr_t some_attr() {
  urma_device_attr_t attr;
  std::memset(&attr, 0, sizeof attr);
  for (size_t i = 0; i < sizeof attr.guid.raw; ++i) attr.guid.raw[i] = static_cast<uint8_t>(i + 1);
  attr.dev_cap.max_jfc = 101;
  attr.dev_cap.max_jfs_inline_len = 102;
  attr.dev_cap.max_msg_size = UINT32_MAX;
  attr.dev_cap.feature.value = 0x80000001;
  attr.dev_cap.atomic_feat.value = 0x7f;
  attr.dev_cap.trans_mode = 7;
  attr.dev_cap.max_eid_cnt = 3;
  attr.dev_cap.page_size_cap = 4096;
  attr.dev_cap.max_netaddr_cnt = 9;
  for (int i = 0; i < URMA_MAX_PRIORITY_CNT; ++i) {
    attr.dev_cap.priority_info[i].SL = static_cast<uint32_t>(i);
    attr.dev_cap.priority_info[i].tp_type.value = 1U << (i % 3);
  }
  attr.reserved_jetty_id_min = 1;
  attr.reserved_jetty_id_max = 77;
  attr.port_cnt = 2;
  attr.port_attr[1] = {URMA_MTU_4096, URMA_PORT_ARMED, URMA_LINK_X4, URMA_SP_100G, URMA_MTU_1024};
  return attr;
}

TEST(SysfsFiles, ReadBackAsTheSameDevice) {
  std::string root = testing::TempDir() + "sysfs_files.XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const std::string device = root + "/ubcore/some0";
  const urma_device_attr_t attr = some_attr();
  std::vector<urma_eid_info_t> eids = {{{{1, 2, 3}}, 0}, {{{4, 5, 6}}, 2}};
  for (const AttributeFile& file :
       sysfs_files("some0", "some", URMA_TRANSPORT_IB, attr, eids, false)) {
    EXPECT_FALSE(file.writable) << file.name;
    const std::filesystem::path path = device + "/" + file.name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << file.text;
  }
  const auto devices = list_sysfs_devices(root);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "some0");
  EXPECT_EQ(devices[0].driver_name, "some");
  EXPECT_EQ(devices[0].type, URMA_TRANSPORT_IB);
  const urma_device_attr_t read = read_sysfs_attr(device);
  EXPECT_EQ(std::memcmp(&read, &attr, sizeof attr), 0);
  const auto read_eids = read_sysfs_eids(device, attr.dev_cap.max_eid_cnt);
  ASSERT_EQ(read_eids.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(std::memcmp(&read_eids[i].eid, &eids[i].eid, sizeof(urma_eid_t)), 0);
    EXPECT_EQ(read_eids[i].eid_index, eids[i].eid_index);
  }
  std::filesystem::remove_all(root);
}

// The state that can be written is what was written, and nobody has taken the port down yet: so one
// without a link does not look as if somebody had.
TEST(SysfsFiles, TheFirstPortCanBeWrittenAndIsUp) {
  urma_device_attr_t attr = some_attr();
  attr.port_attr[0].state = URMA_PORT_DOWN;
  std::map<std::string, AttributeFile> files;
  for (AttributeFile& file : sysfs_files("some0", "some", URMA_TRANSPORT_IB, attr, /*eids=*/{},
                                         /*ports_writable=*/true)) {
    EXPECT_EQ(file.writable, file.name == "port0/state") << file.name;
    files[file.name] = std::move(file);
  }
  EXPECT_EQ(files["port0/state"].text, std::to_string(URMA_PORT_ACTIVE) + "\n");
  EXPECT_EQ(files["port1/state"].text, std::to_string(URMA_PORT_ARMED) + "\n");
}

}  // namespace
}  // namespace urma::core
