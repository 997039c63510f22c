// SPDX-License-Identifier: MIT
#include "urma/core/process/devices.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "third_party/fmt/format.h"
#include "urma/base/host.h"
#include "urma/core/process/core.h"
#include "urma/core/process/detours.h"
#include "urma_api.h"
#include "urma_provider.h"

namespace urma::core {
namespace {

namespace fs = std::filesystem;

class DevicesTest : public testing::Test {
 protected:
  DevicesTest() {
    const char* base = ::getenv("TEST_TMPDIR");
    root_ = urma::format("{}/urmaXXXXXX", base == nullptr ? "/tmp" : base);
    EXPECT_NE(::mkdtemp(root_.data()), nullptr);
    fs::create_directories(root_ + "/modules");
    fs::create_directories(root_ + "/class");
    ::setenv("URMA_RUNTIME_DIR", (root_ + "/run").c_str(), 1);
    ::setenv("URMA_PROVIDER_PATH", (root_ + "/modules").c_str(), 1);
    ::setenv("URMA_SYSFS_ROOT", (root_ + "/class").c_str(), 1);
  }
  ~DevicesTest() override {
    urma_uninit();
    for (const char* name :
         {"URMA_RUNTIME_DIR", "URMA_PROVIDER_PATH", "URMA_SYSFS_ROOT", "URMA_TEST_FAIL_UNINIT",
          "URMA_TEST_EXPLAIN", "URMA_DEVICE_ALIAS", "URMA_BOND"}) {
      ::unsetenv(name);
    }
    fs::remove_all(root_);
  }

  void use_module(const std::string& file, const std::string& as) const {
    fs::create_symlink(fs::absolute("test/unit/modules/" + file), root_ + "/modules/" + as);
  }
  void use_own() const { use_module("liburma-test.so", "liburma-test.so"); }
  void use_foreign() const { use_module("liburma-foreign.so", "liburma-foreign.so"); }

  void sysfs(const std::string& file, const std::string& text) const {
    const auto path = fs::path(root_ + "/class/ubcore/" + file);
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void sysfs_device(const std::string& name) const {
    sysfs(name + "/ubdev", name);
    sysfs(name + "/driver_name", "other");
    sysfs(name + "/transport_type", "0");
    sysfs(name + "/device/vendor", "0xcc08");
    sysfs(name + "/device/device", "0xa001");
    sysfs(name + "/max_jfc_depth", "0x100");
    sysfs(name + "/max_msg_size", "8589934592");
    sysfs(name + "/max_eid_cnt", "3");
    sysfs(name + "/port_count", "1");
    sysfs(name + "/port0/state", "4");
    sysfs(name + "/reserved_jetty_id", "1-1023");
    sysfs(name + "/eids/eid0", "0000:0000:0000:0000:0000:0000:0000:0000");
    sysfs(name + "/eids/eid2", "fd00:0000:0000:0000:0000:0000:0000:0002");
  }

  std::string root_;
};

TEST_F(DevicesTest, AProviderMayReportWhatItOmitted) {
  use_own();
  ::setenv("URMA_TEST_EXPLAIN", "the second card has no cable", 1);
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  ASSERT_EQ(device_table().providers().size(), 1U);
  EXPECT_STREQ(device_table().providers()[0].reason, "the second card has no cable");
  EXPECT_EQ(device_table().providers()[0].loaded, 1U);
  EXPECT_EQ(device_table().providers()[0].devices, 1U);
  ASSERT_EQ(urma_uninit(), URMA_SUCCESS);
  ::unsetenv("URMA_TEST_EXPLAIN");
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_STREQ(device_table().providers()[0].reason, "");
}

TEST_F(DevicesTest, WithoutModulesInitFailsAndCanBeRepeated) {
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  EXPECT_EQ(urma_init(nullptr), URMA_FAIL);
  EXPECT_EQ(urma_init(nullptr), URMA_FAIL);
  use_own();
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
}

TEST_F(DevicesTest, BeforeInitNoDeviceIsFound) {
  int count = 7;
  errno = 0;
  EXPECT_EQ(urma_get_device_list(&count), nullptr);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(count, 0);
  char name[] = "urma_test0";
  errno = 0;
  EXPECT_EQ(urma_get_device_by_name(name), nullptr);
  EXPECT_EQ(errno, ENODEV);
  errno = 0;
  EXPECT_EQ(urma_get_device_by_eid(urma_eid_t{}, URMA_TRANSPORT_UB), nullptr);
  EXPECT_EQ(errno, ENODEV);
  uint32_t uasid;
  EXPECT_EQ(urma_get_uasid(&uasid), URMA_FAIL);
}

TEST_F(DevicesTest, ArgumentsAreChecked) {
  use_own();
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_EQ(urma_init(nullptr), URMA_EEXIST);
  uint32_t count = 0;
  urma_device_attr_t attr;
  urma_device_t foreign{};
  errno = 0;
  EXPECT_EQ(urma_get_device_list(nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(urma_get_eid_list(nullptr, &count), nullptr);
  EXPECT_EQ(urma_get_eid_list(&foreign, &count), nullptr);
  EXPECT_EQ(urma_get_device_by_name(nullptr), nullptr);
  errno = 0;
  EXPECT_EQ(urma_get_device_by_name(std::string(64, 'x').data()), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(urma_get_device_by_name(std::string(63, 'x').data()), nullptr);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(urma_query_device(nullptr, &attr), URMA_EINVAL);
  EXPECT_EQ(urma_query_device(&foreign, &attr), URMA_EINVAL);
  foreign.sysfs_dev = reinterpret_cast<urma_sysfs_dev*>(&foreign);
  EXPECT_EQ(urma_query_device(&foreign, &attr), URMA_FAIL);
  EXPECT_EQ(attr_of(&foreign), nullptr);
  EXPECT_EQ(attr_of(nullptr), nullptr);
  EXPECT_EQ(urma_create_context(nullptr, 0), nullptr);
  EXPECT_EQ(urma_create_context(&foreign, 0), nullptr);
  EXPECT_EQ(urma_get_uasid(nullptr), URMA_EINVAL);
  EXPECT_EQ(urma_register_provider_ops(nullptr), -1);
  EXPECT_EQ(urma_unregister_provider_ops(nullptr), -1);
  urma_provider_ops_t nameless{};
  EXPECT_EQ(urma_register_provider_ops(&nameless), -1);
  urma_free_device_list(nullptr);
  urma_free_eid_list(nullptr);
}

TEST_F(DevicesTest, OwnModuleWorksInEveryCycle) {
  use_own();
  use_module("liburma-test.so", "liburma-test.so.0");  // the same file again
  for (int cycle = 0; cycle < 3; ++cycle) {
    urma_init_attr_t conf{0, 0x777};
    ASSERT_EQ(urma_init(&conf), URMA_SUCCESS);
    int devices = 0;
    auto** list = urma_get_device_list(&devices);
    ASSERT_EQ(devices, 1);
    auto* dev = list[0];
    urma_free_device_list(list);
    EXPECT_STREQ(dev->name, "urma_test0");
    EXPECT_NE(dev->sysfs_dev, nullptr);
    EXPECT_EQ(attr_of(dev)->dev_cap.max_jfc, 123u);
    urma_device_attr_t attr;
    EXPECT_EQ(urma_query_device(dev, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.dev_cap.max_eid_cnt, 4u);
    uint32_t eids = 0;
    auto* infos = urma_get_eid_list(dev, &eids);
    ASSERT_EQ(eids, 2u);
    EXPECT_EQ(infos[1].eid_index, 1u);
    EXPECT_EQ(urma_get_device_by_eid(infos[1].eid, URMA_TRANSPORT_UB), dev);
    EXPECT_EQ(urma_get_device_by_eid(infos[1].eid, URMA_TRANSPORT_IB), nullptr);
    EXPECT_EQ(urma_get_device_by_name(dev->name), dev);

    auto* ctx = urma_create_context(dev, 1);
    ASSERT_NE(ctx, nullptr);
    EXPECT_EQ(ctx->dev, dev);
    EXPECT_EQ(ctx->dev_fd, -1);
    EXPECT_EQ(ctx->eid_index, 1u);
    EXPECT_EQ(std::memcmp(&ctx->eid, &infos[1].eid, sizeof ctx->eid), 0);
    EXPECT_EQ(ctx->uasid, 0x777u);
    EXPECT_EQ(ctx->aggr_mode, URMA_AGGR_MODE_STANDALONE);
    EXPECT_EQ(ctx->ref.atomic_cnt.load(), 1u);
    urma_free_eid_list(infos);
    uint32_t uasid = 0;
    EXPECT_EQ(urma_get_uasid(&uasid), URMA_SUCCESS);
    EXPECT_EQ(uasid, 0x777u);
    EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    errno = 0;
    EXPECT_EQ(urma_create_context(dev, 2), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  }
}

TEST_F(DevicesTest, UninitReportsAFailingProviderAndStillSucceeds) {
  use_own();
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  ::setenv("URMA_TEST_FAIL_UNINIT", "1", 1);
  EXPECT_EQ(urma_uninit(), URMA_FAIL);
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
}

TEST_F(DevicesTest, UnusableRuntimeLeavesNoDevices) {
  use_own();
  fs::create_directory(root_ + "/run");
  ::chmod((root_ + "/run").c_str(), 0755);
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  int count = 1;
  EXPECT_EQ(urma_get_device_list(&count), nullptr);
  EXPECT_EQ(count, 0);
}

TEST_F(DevicesTest, RequestedUasidInUseLeaksNothing) {
  use_own();
  int answer[2];
  ASSERT_EQ(::pipe(answer), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    urma_init_attr_t conf{0, 0x888};
    const char ok = urma_init(&conf) == URMA_SUCCESS;
    if (::write(answer[1], &ok, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char ok = 0;
  ASSERT_EQ(::read(answer[0], &ok, 1), 1);
  EXPECT_EQ(ok, 1);
  urma_init_attr_t conf{0, 0x888};
  EXPECT_EQ(urma_init(&conf), URMA_EEXIST);
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(answer[0]);
  ::close(answer[1]);
}

TEST_F(DevicesTest, ForeignModuleDrivesWhatSysfsShowsInEveryCycle) {
  use_foreign();
  std::ofstream(root_ + "/modules/liburma-broken.so") << "this is no module";
  for (int cycle = 0; cycle < 3; ++cycle) {
    fs::remove_all(root_ + "/class/ubcore");
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    int count = 0;
    EXPECT_EQ(urma_get_device_list(&count), nullptr);
    sysfs_device("udma0");
    auto** list = urma_get_device_list(&count);
    ASSERT_EQ(count, 1);
    auto* dev = list[0];
    urma_free_device_list(list);
    EXPECT_STREQ(dev->name, "udma0");
    EXPECT_EQ(dev->path, root_ + "/class/ubcore/udma0");
    EXPECT_STREQ(dev->ops->name, "foreign");
    const auto* attr = attr_of(dev);
    EXPECT_EQ(attr->dev_cap.max_jfc_depth, 256u);
    EXPECT_EQ(attr->dev_cap.max_msg_size, 8589934592u);
    EXPECT_EQ(attr->dev_cap.max_jfs, 0u);
    EXPECT_EQ(attr->port_cnt, 1);
    EXPECT_EQ(attr->port_attr[0].state, URMA_PORT_ACTIVE);
    EXPECT_EQ(attr->reserved_jetty_id_max, 1023u);
    uint32_t eids = 0;
    auto* infos = urma_get_eid_list(dev, &eids);
    ASSERT_EQ(eids, 1u);
    EXPECT_EQ(infos[0].eid_index, 2u);
    EXPECT_EQ(infos[0].eid.raw[15], 2);
    urma_free_eid_list(infos);
    urma_device_attr_t copy;
    errno = EPROTO;
    EXPECT_EQ(urma_query_device(dev, &copy), URMA_FAIL);
    EXPECT_EQ(errno, EPROTO);
    errno = 0;
    EXPECT_EQ(urma_create_context(dev, 2), nullptr);
    EXPECT_EQ(errno, EIO);

    fs::remove_all(root_ + "/class/ubcore/udma0");
    EXPECT_EQ(urma_get_device_list(&count), nullptr);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  }
}

TEST_F(DevicesTest, ForkedChildGetsErrorsAndChangesNothing) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer does not support fork in a program with threads";
#endif
  use_own();
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  char name[] = "urma_test0";
  auto* dev = urma_get_device_by_name(name);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    int count = 1;
    uint32_t uasid = 0;
    urma_device_attr_t attr;
    bool good = is_forked() && urma_init(nullptr) == URMA_FAIL && urma_uninit() == URMA_FAIL;
    good = good && urma_get_device_list(&count) == nullptr && count == 0;
    good = good && urma_query_device(dev, &attr) == URMA_FAIL;
    good = good && urma_create_context(dev, 0) == nullptr && urma_get_uasid(&uasid) == URMA_FAIL;
    // At once: the leak checker takes what the service thread held in the parent for lost here.
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(urma_get_device_by_name(name), dev);
  uint32_t uasid = 0;
  ASSERT_EQ(urma_get_uasid(&uasid), URMA_SUCCESS);
  EXPECT_TRUE(fs::exists(urma::format("{}/run/uasid-{:06x}", root_, uasid)));
  EXPECT_EQ(urma_init(nullptr), URMA_EEXIST);
}

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  int count = 0;
  auto** list = urma_get_device_list(&count);
  for (int i = 0; i < count; ++i) names.emplace_back(list[i]->name);
  urma_free_device_list(list);
  return names;
}

TEST(AliasesTest, EntriesAreParsed) {
  const auto aliases = parse_aliases("a=b, bonding_dev_0 = c ,,=x,y=,z,d=e=f,-");
  ASSERT_EQ(aliases.size(), 3u);
  EXPECT_EQ(aliases[0].name, "a");
  EXPECT_EQ(aliases[0].device, "b");
  EXPECT_EQ(aliases[1].name, "bonding_dev_0");
  EXPECT_EQ(aliases[1].device, "c");
  EXPECT_EQ(aliases[2].device, "e=f");
  EXPECT_TRUE(parse_aliases("-," + std::string(64, 'x') + "=y").empty());
  EXPECT_EQ(parse_aliases("-," + std::string(63, 'x') + "=y").size(), 1u);
}

TEST(AliasesTest, OneExistsByDefault) {
  for (const char* text : {"", "x=y"}) {
    const auto aliases = parse_aliases(text);
    EXPECT_EQ(aliases.size(), text[0] == '\0' ? 1u : 2u);
    EXPECT_EQ(aliases[0].name, "bonding_dev_0");
    EXPECT_EQ(aliases[0].device, "urma_shm0");
    EXPECT_EQ(aliases[0].setting, nullptr);
    EXPECT_TRUE(text[0] == '\0' || aliases[1].setting != nullptr);
  }
  EXPECT_TRUE(parse_aliases(" - ").empty());
  EXPECT_EQ(parse_aliases("bonding_dev_0=x").size(), 1u);
  EXPECT_EQ(parse_aliases("bonding_dev_0=x")[0].device, "x");
  EXPECT_EQ(parse_aliases("")[0].device, "urma_shm0");
  EXPECT_EQ(parse_aliases("", "net0")[0].device, "urma_bond0");
  EXPECT_EQ(parse_aliases("bonding_dev_0=x", "net0")[0].device, "x");
  EXPECT_TRUE(parse_aliases("-", "net0").empty());
}

TEST_F(DevicesTest, AliasIsTheSameDeviceUnderAnotherName) {
  use_own();
  ::setenv("URMA_DEVICE_ALIAS", "other=urma_test0,bonding_dev_7=other,urma_test0=other,x=nothing",
           1);
  for (int cycle = 0; cycle < 3; ++cycle) {
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    EXPECT_EQ(device_names(), (std::vector<std::string>{"urma_test0", "other", "bonding_dev_7"}));
    auto* real = urma_get_device_by_name(std::string("urma_test0").data());
    auto* other = urma_get_device_by_name(std::string("other").data());
    auto* bonding = urma_get_device_by_name(std::string("bonding_dev_7").data());
    EXPECT_STREQ(other->ops->name, "test");
    EXPECT_STREQ(bonding->ops->name, "ub_agg");
    for (auto* alias : {other, bonding}) {
      EXPECT_EQ(alias->type, real->type);
      const uint32_t count = alias == bonding ? 1 : 2;
      urma_device_attr_t attr;
      EXPECT_EQ(urma_query_device(alias, &attr), URMA_SUCCESS);
      EXPECT_EQ(attr.dev_cap.max_jfc, 123u);
      EXPECT_EQ(attr.dev_cap.max_eid_cnt, alias == bonding ? 1u : 4u);
      EXPECT_EQ(attr_of(alias), attr_of(alias));
      uint32_t eids = 0;
      auto* infos = urma_get_eid_list(alias, &eids);
      ASSERT_EQ(eids, count);
      EXPECT_EQ(urma_get_device_by_eid(infos[count - 1].eid, URMA_TRANSPORT_UB), real);
      urma_free_eid_list(infos);
      EXPECT_EQ(urma_create_context(alias, count), nullptr);
      auto* ctx = urma_create_context(alias, count - 1);
      ASSERT_NE(ctx, nullptr);
      EXPECT_EQ(ctx->dev, alias);
      EXPECT_STREQ(ctx->ops->name, alias == bonding ? "BOND_OPS" : "test");
      EXPECT_EQ(urma_delete_context(ctx), URMA_SUCCESS);
    }
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  }
}

std::vector<std::string> alias_lines;

void keep_alias_line(int /*level*/, char* line) {
  // A callback may query the devices.
  device_names();
  if (std::strstr(line, "URMA_DEVICE_ALIAS") != nullptr) alias_lines.emplace_back(line);
}

std::vector<std::string> kept_lines;

void keep_line(int level, char* line) {
  if (level <= URMA_VLOG_LEVEL_WARNING) kept_lines.emplace_back(line);
}

TEST_F(DevicesTest, EachBadAliasIsNamedOnce) {
  use_own();
  ::setenv("URMA_DEVICE_ALIAS", "urma_test0=other,x=nothing,good=urma_test0,nonsense", 1);
  alias_lines.clear();
  ASSERT_EQ(urma_register_log_func(keep_alias_line), URMA_SUCCESS);
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  device_names();
  EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
  ASSERT_EQ(alias_lines.size(), 3u);
  EXPECT_NE(alias_lines[0].find("nonsense"), std::string::npos);
  EXPECT_NE(alias_lines[1].find("urma_test0=other"), std::string::npos);
  EXPECT_NE(alias_lines[2].find("x=nothing"), std::string::npos);
  EXPECT_EQ(device_names().back(), "good");
}

// In any order, also of devices that appear later.
TEST_F(DevicesTest, AnAliasMayNameOneBehindIt) {
  use_foreign();
  sysfs_device("udma0");
  ::setenv("URMA_DEVICE_ALIAS", "a=b,b=c,c=udma0,d=e,d=udma0,e=udma0,f=g,g=udma1", 1);
  alias_lines.clear();
  ASSERT_EQ(urma_register_log_func(keep_alias_line), URMA_SUCCESS);
  EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
  ASSERT_EQ(alias_lines.size(), 3u);
  EXPECT_NE(alias_lines[0].find("d=e is left out: device d exists"), std::string::npos);
  EXPECT_NE(alias_lines[1].find("f=g has no effect until there is a device g"), std::string::npos);
  EXPECT_NE(alias_lines[2].find("g=udma1 has no effect until"), std::string::npos);
  EXPECT_EQ(device_names(), (std::vector<std::string>{"udma0", "c", "d", "e", "b", "a"}));
  sysfs_device("udma1");
  EXPECT_EQ(device_names().size(), 9u);
}

// A module of this name, and none of its devices, nor a word of it.
TEST_F(DevicesTest, TheBondedDeviceIsLoadedOnRequest) {
  use_foreign();
  use_module("liburma-test.so", "liburma-bond.so");
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_TRUE(device_names().empty());
  EXPECT_EQ(device_table().providers().size(), 1u);
  EXPECT_TRUE(loader().skipped().empty());
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  ::setenv("URMA_BOND", "net0", 1);
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_EQ(device_names(), (std::vector<std::string>{"urma_test0"}));
  EXPECT_EQ(device_table().providers().size(), 2u);
}

TEST_F(DevicesTest, ALineSaysThatTheBondedDeviceIsMissing) {
  use_own();
  ::setenv("URMA_BOND", "net0", 1);
  ASSERT_EQ(urma_register_log_func(keep_line), URMA_SUCCESS);
  for (const char* alias : {"", "bonding_dev_0=urma_test0", "-"}) {
    ::setenv("URMA_DEVICE_ALIAS", alias, 1);
    kept_lines.clear();
    EXPECT_EQ(urma_init(nullptr), URMA_SUCCESS);
    EXPECT_EQ(kept_lines.size(), alias[0] == '\0' ? 1u : 0u);
    for (const auto& line : kept_lines) {
      EXPECT_NE(line.find("URMA_BOND: bonding_dev_0=urma_bond0"), std::string::npos) << line;
    }
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  }
  EXPECT_EQ(urma_unregister_log_func(), URMA_SUCCESS);
}

TEST_F(DevicesTest, AliasExistsWithItsDevice) {
  use_foreign();
  ::setenv("URMA_DEVICE_ALIAS", "bonding_dev_0=udma0", 1);
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_TRUE(device_names().empty());
  sysfs_device("udma0");
  EXPECT_EQ(device_names(), (std::vector<std::string>{"udma0", "bonding_dev_0"}));
  auto* alias = urma_get_device_by_name(std::string("bonding_dev_0").data());
  EXPECT_EQ(alias->path, root_ + "/class/ubcore/udma0");
  EXPECT_STREQ(alias->ops->name, "ub_agg");
  EXPECT_EQ(attr_of(alias)->dev_cap.max_jfc_depth, 256u);
  uint32_t eids = 0;
  urma_free_eid_list(urma_get_eid_list(alias, &eids));
  EXPECT_EQ(eids, 1u);
  // When the kernel's file ends, so does the device.
  errno = 0;
  EXPECT_EQ(urma_create_context(alias, 0), nullptr);
  EXPECT_EQ(errno, EIO);
  fs::remove_all(root_ + "/class/ubcore/udma0");
  EXPECT_TRUE(device_names().empty());
  sysfs_device("udma0");
  EXPECT_EQ(device_names().size(), 2u);
}

TEST_F(DevicesTest, DeviceHasPrecedenceOverAnAlias) {
  use_foreign();
  sysfs_device("udma0");
  ::setenv("URMA_DEVICE_ALIAS", "udma1=udma0", 1);
  alias_lines.clear();
  ASSERT_EQ(urma_register_log_func(keep_alias_line), URMA_SUCCESS);
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  EXPECT_EQ(device_names().size(), 2u);
  auto* alias = urma_get_device_by_name(std::string("udma1").data());
  EXPECT_EQ(alias->path, root_ + "/class/ubcore/udma0");
  sysfs_device("udma1");
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(device_names().size(), 2u);
    auto* device = urma_get_device_by_name(std::string("udma1").data());
    ASSERT_NE(device, nullptr);
    EXPECT_EQ(device->path, root_ + "/class/ubcore/udma1");
  }
  EXPECT_EQ(alias->path, root_ + "/class/ubcore/udma0");
  ASSERT_EQ(alias_lines.size(), 1u);
  EXPECT_NE(alias_lines[0].find("udma1"), std::string::npos);
  fs::remove_all(root_ + "/class/ubcore/udma1");
  EXPECT_EQ(device_names().size(), 2u);
  EXPECT_EQ(urma_get_device_by_name(std::string("udma1").data()), alias);
  urma_unregister_log_func();
}

// Every exit path, with the library in use.
void leave(int how) {
  urma_init(nullptr);
  if (how == 0) std::exit(0);
  if (how == 1) std::quick_exit(0);
  std::thread([] { std::exit(0); }).join();
}

TEST_F(DevicesTest, LeavingWithoutUninitNeitherHangsNorCrashes) {
  use_own();
  for (int how = 0; how < 3; ++how) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      leave(how);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << how;
  }
}

TEST_F(DevicesTest, SysfsFilesAreReadAsOneValue) {
  std::ofstream(root_ + "/value") << "1234567\n";
  std::ofstream(root_ + "/empty");
  char text[16];
  EXPECT_EQ(urma_read_sysfs_file(root_.c_str(), "value", text, sizeof text), 7);
  EXPECT_STREQ(text, "1234567");
  EXPECT_EQ(urma_read_sysfs_file(root_.c_str(), "value", text, 8), -1);
  EXPECT_EQ(urma_read_sysfs_file(root_.c_str(), "value", text, 9), 7);
  EXPECT_EQ(urma_read_sysfs_file(root_.c_str(), "empty", text, sizeof text), -1);
  EXPECT_EQ(urma_read_sysfs_file(root_.c_str(), "missing", text, sizeof text), -1);
  EXPECT_EQ(urma_read_sysfs_file(nullptr, "value", text, sizeof text), -1);
}

}  // namespace
}  // namespace urma::core
