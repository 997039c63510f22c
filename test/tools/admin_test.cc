// SPDX-License-Identifier: MIT
//
// urma_admin on an otherwise idle machine: its commands, formats and error messages.
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr char kDevice[] = "urma_shm0";
constexpr char kEid[] = "([0-9a-f]{4}:){7}[0-9a-f]{4}";

ToolResult admin(const Words& words, const ToolOptions& options = {}) {
  return run_tool(program_path("URMA_ADMIN"), words, options);
}

json admin_json(Words words) {
  words.emplace_back("--json");
  const ToolResult result = admin(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return json::parse(result.out);
}

std::string joined(const Words& words) {
  std::string text;
  for (const auto& word : words) text += word + ' ';
  return text;
}

// From here on, of urma_shm0 only.
ToolOptions without_alias() { return {{"URMA_DEVICE_ALIAS=-"}}; }

class AdminTest : public ToolTest {};

TEST_F(AdminTest, TableAsDocumented) {
  const ToolResult result = admin({"show"}, without_alias());
  ASSERT_EQ(result.status, 0) << result.err;
  const auto lines = lines_of(result.out);
  ASSERT_EQ(lines.size(), 4u) << result.out;
  EXPECT_EQ(lines[0],
            "num  ubep_dev            tp_type     eid                                             "
            "link");
  EXPECT_TRUE(has_line(lines[1], "^-{3}  -{16}    -{8}    -{44}    -{8}$"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(has_line(lines[2 + i], "^0    urma_shm0           UB          eid" +
                                           std::to_string(i) + " " + kEid + "    ACTIVE  $"))
        << lines[2 + i];
  }
  EXPECT_EQ(admin({"show", "--brief"}, without_alias()).out, result.out);
  EXPECT_EQ(admin({"show", "-b", "-d", kDevice}).out, result.out);
  EXPECT_EQ(admin({"-a", "show"}, without_alias()).out, result.out);
  EXPECT_EQ(admin({"show", "dev", kDevice}).out, result.out);
}

TEST_F(AdminTest, AggregatedDevicesInPlaceOfTheirMembers) {
  const auto aggregated = lines_of(admin({"show"}).out);
  ASSERT_EQ(aggregated.size(), 3u);
  EXPECT_TRUE(has_line(aggregated[2], "^0    bonding_dev_0 "));
  const auto all = lines_of(admin({"show", "--all"}).out);
  ASSERT_EQ(all.size(), 5u);
  EXPECT_TRUE(has_line(all[2], "^0    urma_shm0 "));
  EXPECT_TRUE(has_line(all[4], "^1    bonding_dev_0 "));
  const auto one = lines_of(admin({"show", "--dev", "bonding_dev_0"}).out);
  ASSERT_EQ(one.size(), 3u);
  EXPECT_TRUE(has_line(one[0], "link      sub_udma_devs$"));
  EXPECT_TRUE(has_line(one[2], "ACTIVE    urma_shm0$"));
}

TEST_F(AdminTest, WholeAsDocumented) {
  const ToolResult result = admin({"show", "--whole"}, without_alias());
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* name : {"name",
                           "guid",
                           "eid0",
                           "eid1",
                           "feature",
                           "max_jfc",
                           "max_jfs",
                           "max_jfr",
                           "max_jetty",
                           "max_jetty_grp",
                           "max_jetty_in_jetty_grp",
                           "max_jfc_depth",
                           "max_jfs_depth",
                           "max_jfr_depth",
                           "max_jfs_inline_len",
                           "max_jfs_sge",
                           "max_jfs_rsge",
                           "max_jfr_sge",
                           "max_msg_size",
                           "max_read_size",
                           "max_write_size",
                           "max_cas_size",
                           "atomic_feature",
                           "emulated_atomics",
                           "emulated_atomics_4",
                           "dmabuf",
                           "immediate",
                           "trans_mode",
                           "congestion_ctrl_alg",
                           "ceq_cnt",
                           "port_count",
                           "reserved_jetty_id_min",
                           "reserved_jetty_id_max",
                           "port0",
                           "max_mtu",
                           "state"}) {
    const std::string padding(27 - std::string(name).size(), ' ');
    EXPECT_TRUE(has_line(result.out, "^" + std::string(name) + padding + ":")) << name;
  }
  EXPECT_TRUE(has_line(result.out, "^max_mtu +: [0-9]+ \\[MTU_[0-9]+\\]$"));
  EXPECT_TRUE(has_line(result.out, "^trans_mode +: 0x7 .URMA_TM_RM.URMA_TM_RC.URMA_TM_UM.$"));
  EXPECT_TRUE(has_line(result.out, "^atomic_feature +: 0x7f .CAS.SWAP.FETCH_AND_ADD"));
  EXPECT_TRUE(has_line(result.out, "^emulated_atomics +: 0x0 .]$"));
  EXPECT_TRUE(has_line(result.out, "^dmabuf +: 0$"));
  EXPECT_TRUE(has_line(result.out, "^immediate +: 1$"));
  EXPECT_TRUE(has_line(result.out, "^priority +sl +tp_type$"));
  EXPECT_TRUE(has_line(result.out, "^8 +8 +CTP$"));
  EXPECT_TRUE(has_line(result.out, "^>>>>>+$"));
  EXPECT_EQ(admin({"-w", "-d", kDevice, "show"}).out, result.out);
}

TEST_F(AdminTest, DevicesAsJson) {
  const json brief = admin_json({"show", "--dev", kDevice});
  ASSERT_EQ(brief["devices"].size(), 1u);
  EXPECT_EQ(brief["devices"][0]["name"], kDevice);
  EXPECT_EQ(brief["devices"][0]["tp_type"], "UB");
  EXPECT_EQ(brief["devices"][0]["link"], "ACTIVE");
  EXPECT_EQ(brief["devices"][0]["eids"].size(), 2u);
  const json whole = admin_json({"show", "--whole", "--dev", kDevice});
  const json& device = whole["devices"][0];
  EXPECT_EQ(device["eids"], brief["devices"][0]["eids"]);
  EXPECT_EQ(device["trans_mode"]["names"], json({"URMA_TM_RM", "URMA_TM_RC", "URMA_TM_UM"}));
  EXPECT_EQ(device["ports"].size(), device["port_count"].get<size_t>());
  EXPECT_EQ(device["priorities"].size(), 16u);
  EXPECT_EQ(admin_json({"show", "topo"})["nodes"][0]["devices"][0]["name"], kDevice);
  EXPECT_EQ(admin_json({"show", "dev", kDevice, "tp"})["tp"], json::array());
  EXPECT_EQ(admin_json({"system", "show"})["dev_sharing"], "on");
}

TEST_F(AdminTest, HelpAndVersion) {
  const ToolResult version = admin({"-V"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(lines_of(version.out).front(), "Version: 0.0.1");
  EXPECT_TRUE(has_line(version.out, "^liburma [0-9]+\\.[0-9]+\\.[0-9]+$")) << version.out;
  EXPECT_EQ(admin({"show", "--version"}).out, version.out);
  for (const Words& words : std::vector<Words>{
           {"-h"}, {"--help"}, {"show", "-h"}, {"eid", "-h"}, {"eid", "add", "--help"}}) {
    const ToolResult help = admin(words);
    EXPECT_EQ(help.status, 0) << joined(words);
    EXPECT_TRUE(has_line(help.out, "^Usage: urma_admin")) << help.out;
    EXPECT_EQ(help.err, "") << joined(words);
  }
}

struct Case {
  Words words;
  int status;
  std::string expected;  // in a line of stdout, or of stderr if the status is not 0
};

void expect_case(const Case& example) {
  SCOPED_TRACE(joined(example.words));
  const ToolResult result = admin(example.words);
  EXPECT_EQ(result.status, example.status) << result.err;
  const std::string& text = example.status == 0 ? result.out : result.err;
  EXPECT_TRUE(has_line(text, example.expected)) << text;
  if (example.status != 0) {
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(has_line(result.err, "^Failed to execute command.$"), example.status == 1);
  EXPECT_FALSE(has_line(result.err, "^$")) << result.err;
}

// Every line of the contract, on a machine without processes to inspect.
TEST_F(AdminTest, EveryDocumentedCommandExists) {
  const std::vector<Case> cases = {
      {{"show", "topo"}, 0, "node 0"},
      {{"show", "topo", "0"}, 0, "node 0"},
      {{"show", "topo", "7"}, 1, "no node 7"},
      {{"show", "dev", kDevice, "jfc"}, 0, "no other process"},
      {{"show", "dev", kDevice, "jfs"}, 0, "no other process"},
      {{"show", "dev", kDevice, "jfr"}, 0, "no other process"},
      {{"show", "dev", kDevice, "jetty"}, 0, "no other process"},
      {{"show", "dev", kDevice, "jetty_group"}, 1, "jetty groups"},
      {{"show", "dev", kDevice, "rc"}, 0, "no other process"},
      {{"show", "dev", kDevice, "seg"}, 0, "no other process"},
      {{"show", "dev", kDevice, "jetty", "0x10001"}, 1, "has a jetty 65537"},
      {{"show", "dev", kDevice, "seg", "5"}, 1, "has a seg 5"},
      {{"show", "dev", kDevice, "tp"}, 0, "no transport channels"},
      {{"show", "dev", kDevice, "tp", "1"}, 1, "has a tp 1"},
      {{"show", "dev", kDevice, "tpreuse"}, 0, "no transport channels"},
      {{"show", "processes"}, 0, "no other process"},
      {{"show", "queues"}, 0, "no other process"},
      {{"show", "segments"}, 0, "no other process"},
      {{"dev", "set", kDevice, "ns", "/proc/1/ns/net"}, 1, "network namespace"},
      {{"dev", "set", kDevice, "sl", "--sl", "3", "--priority", "3"}, 0, "already"},
      {{"dev", "set", kDevice, "sl", "-s", "3", "-p", "4"}, 1, "always has service level 4"},
      {{"dev", "expose", kDevice, "/proc/1/ns/net"}, 1, "network namespace"},
      {{"dev", "unexpose", kDevice, "/proc/1/ns/net"}, 1, "network namespace"},
      {{"eid", "add", kDevice, "2", "fd00::1"}, 1, "instead: use one of those"},
      {{"eid", "add", kDevice, "2", "10.0.0.1", "--ns", "x", "--mode", "static"}, 1, "instead"},
      {{"eid", "add", kDevice, "1", "fd00::1"}, 1, "EID 1 of urma_shm0 is fd75"},
      {{"eid", "del", kDevice, "1"}, 1, "instead: use one of those"},
      {{"eid", "del", kDevice, "9"}, 1, "has no EID 9; it has: 0, 1"},
      {{"eid", "set", kDevice, "0", "ns", "/proc/1/ns/net"}, 1, "network namespace"},
      {{"eid", "set", kDevice, "0", "mode", "static"}, 0, "static already"},
      {{"eid", "set", kDevice, "0", "mode", "dynamic"}, 1, "instead: leave it static"},
      {{"main_ue_eid", "insert", "fd00::1", "fd00::2"}, 1, "no table of main EIDs"},
      {{"main_ue_eid", "delete", "fd00::1"}, 1, "no table of main EIDs"},
      {{"main_ue_eid", "lookup", "fd00::1"}, 1, "no table of main EIDs"},
      {{"main_ue_eid", "flush"}, 1, "no table of main EIDs"},
      {{"system", "show"}, 0, "^dev_sharing : on$"},
      {{"system", "set", "dev_sharing", "on"}, 0, "already"},
      {{"system", "set", "dev_sharing", "off"}, 1, "network namespace"},
      {{"system", "set", "eid_sharing", "on"}, 0, "already"},
      {{"system", "set", "eid_sharing", "off"}, 1, "network namespace"},
      {{"agg", "add", "fd00::1", "bonding_dev_0"}, 1, "bonding_dev_0 already exists"},
      {{"agg", "add", "fd00::1", "bonding_dev_1"}, 1, "no device has the EID fd00"},
      {{"agg", "del", "fd00::1"}, 1, "URMA_DEVICE_ALIAS"},
      {{"agg", "expose", "fd00::1", "/proc/1/ns/net"}, 1, "URMA_DEVICE_ALIAS"},
      {{"perf", "start"}, 1, "no other process"},
      {{"perf", "stop"}, 1, "no other process"},
      {{"perf", "show"}, 1, "no other process"}};
  for (const auto& example : cases) expect_case(example);
}

TEST_F(AdminTest, AggregationNamesTheVariable) {
  const json devices = admin_json({"show", "--dev", kDevice})["devices"];
  const std::string eid = devices[0]["eids"][1]["eid"];
  expect_case({{"agg", "add", eid, "bonding_dev_0"},
               1,
               "instead: URMA_DEVICE_ALIAS=bonding_dev_0=urma_shm0$"});
}

TEST_F(AdminTest, OldCommandsWorkWithAWarning) {
  const std::vector<Case> cases = {
      {{"add_eid", "-d", kDevice, "-i", "2", "-e", "fd00::1"}, 1, "instead: use one of those"},
      {{"del_eid", "-d", kDevice, "-i", "1"}, 1, "instead: use one of those"},
      {{"set_eid_mode", "-d", kDevice}, 0, "static already"},
      {{"set_eid_mode", "-d", kDevice, "-m"}, 1, "instead: leave it static"},
      {{"-m", "set_eid_mode", "-d", kDevice}, 1, "instead: leave it static"},
      {{"show_stats", "-d", kDevice, "-R", "4", "-k", "9"}, 1, "has a jfs 9"},
      {{"show_stats", "-d", kDevice, "-R", "5", "-k", "9"}, 1, "has a jfr 9"},
      {{"show_stats", "-d", kDevice, "-R", "6", "-k", "9"}, 1, "has a jetty 9"},
      {{"show_stats", "-d", kDevice, "-R", "8"}, 0, "no other process"},
      {{"show_res", "-d", kDevice, "-R", "5", "-k", "9"}, 1, "has a jfs 9"},
      {{"show_res", "-d", kDevice, "-R", "6", "-k", "9"}, 1, "has a jfr 9"},
      {{"show_res", "-d", kDevice, "-R", "7", "-k", "9"}, 1, "has a jetty 9"},
      {{"show_res", "-d", kDevice, "-R", "8", "-k", "9"}, 1, "jetty groups"},
      {{"show_res", "-d", kDevice, "-R", "9", "-k", "9"}, 1, "has a jfc 9"},
      {{"show_res", "-d", kDevice, "-R", "10", "-k", "9"}, 1, "has a rc 9"},
      {{"show_res", "-d", kDevice, "-R", "11", "-k", "9"}, 1, "has a seg 9"},
      {{"list_res", "--dev", kDevice, "--resource_type", "7"}, 0, "no other process"},
      {{"set_ns_mode", "-M", "1"}, 0, "already"},
      {{"set_ns_mode", "--ns_mode", "0"}, 1, "network namespace"},
      {{"set_dev_ns", "-d", kDevice, "-n", "/proc/1/ns/net"}, 1, "network namespace"}};
  for (const auto& example : cases) {
    expect_case(example);
    EXPECT_TRUE(has_line(admin(example.words).err, "^urma_admin: warning: [a-z_]+ is obsolete"))
        << joined(example.words);
  }
}

TEST_F(AdminTest, EveryGlobalOptionIsTaken) {
  for (const Words& words : std::vector<Words>{{"-a", "--all"},
                                               {"-b", "--brief"},
                                               {"-C", "--key_cnt", "1"},
                                               {"-d", "--dev", kDevice},
                                               {"-e", "--eid", "fd00::1"},
                                               {"-m", "--eid_mode"},
                                               {"-v", "--ue_idx", "1"},
                                               {"-i", "--idx", "1"},
                                               {"-w", "--whole"},
                                               {"-R", "--resource_type", "5"},
                                               {"-k", "--key", "5"},
                                               {"-K", "--key_ext", "5"},
                                               {"-n", "--ns", "x"},
                                               {"-M", "--ns_mode", "0"},
                                               {"-p", "--priority", "5"},
                                               {"-s", "--sl", "5"}}) {
    for (const std::string& name : {words[0], words[1]}) {
      Words behind = {"show", name};
      behind.insert(behind.end(), words.begin() + 2, words.end());
      Words before(behind.begin() + 1, behind.end());
      before.emplace_back("show");
      const ToolResult result = admin(behind);
      EXPECT_EQ(result.status, 0) << joined(behind) << result.err;
      EXPECT_TRUE(has_line(result.out, std::string(kDevice).append("|bonding_dev_0")));
      EXPECT_EQ(admin(before).out, result.out) << joined(before);
    }
  }
}

TEST_F(AdminTest, WrongCommandsAndValues) {
  const std::vector<Case> cases = {
      {{}, 2, "a command is missing"},
      {{"shwo"}, 2, "shwo"},
      {{"show", "foo"}, 2, "foo; .*allowed: show .*, show topo, show dev, .*example: urma_admin"},
      {{"show", "perf"}, 2, "perf"},
      {{"eid"}, 2, "allowed: eid add, eid del, eid set"},
      {{"eid", "add", kDevice}, 2, "IDX is required"},
      {{"eid", "add", kDevice, "x", "fd00::1"}, 2, "IDX 'x' is not a number from 0 to 1023"},
      {{"eid", "add", kDevice, "2", "x"}, 2, "EID 'x' is not"},
      {{"eid", "add", kDevice, "2", "::"}, 2, "EID '::' is not"},
      {{"eid", "set", kDevice, "0", "mode", "wild"}, 2, "'wild' is not static or dynamic"},
      {{"show", "dev", kDevice, "cow"}, 2, "'cow' is not one of jfc.jfs.jfr"},
      {{"show", "dev", kDevice, "jetty", "-1"}, 2, "'-1'"},
      {{"show", "-i", "1024"}, 2, "--idx '1024' is not a number from 0 to 1023"},
      {{"show", "-p", "16"}, 2, "--priority '16' is not"},
      {{"show", "-M", "2"}, 2, "--ns_mode '2' is not one of 0.1.exclusive.shared"},
      {{"show", "--dev"}, 2, "--dev"},
      {{"show", "--wrong"}, 2, "--wrong"},
      {{"show", "-a", "-b"}, 2, "exclude each other"},
      {{"show", "--pid", "1"}, 2, "--pid does not apply to this command"},
      {{"show", "config", "--watch", "1"}, 2, "--watch does not apply to this command"},
      {{"show", "queues", "--pid", "0"}, 2, "--pid '0' is not"},
      {{"show", "queues", "--watch", "0"}, 2, "--watch '0' is not"},
      {{"show", "queues", "--count", "2"}, 2, "--count needs --watch"},
      {{"dev", "set", kDevice, "sl", "--sl", "1"}, 2, "--priority is missing"},
      {{"dev", "set", kDevice, "ns"}, 2, "NETNS is missing"},
      {{"system", "set", "dev_sharing", "maybe"}, 2, "'maybe' is not one of on.off"},
      {{"show_res", "-d", kDevice, "-R", "3", "-k", "1"}, 2, "'3' is not one of 5 .jfs., 6 .jfr."},
      {{"show_res", "-d", kDevice, "-R", "7"}, 2, "--key is missing"},
      {{"show_stats", "-d", kDevice, "-R", "7"},
       2,
       "'7' is not one of 4 .jfs., 5 .jfr., 6 .jetty."},
      {{"list_res", "-R", "7"}, 2, "--dev is missing"}};
  for (const auto& example : cases) {
    SCOPED_TRACE(joined(example.words));
    expect_case(example);
    const ToolResult result = admin(example.words);
    const auto lines = lines_of(result.err);
    const bool warned = has_line(result.err, "warning");
    ASSERT_EQ(lines.size(), warned ? 2u : 1u) << result.err;
    EXPECT_TRUE(has_line(lines.back(), "; given: .*; allowed: .*; example: urma_admin ."));
  }
}

TEST_F(AdminTest, UnknownDeviceGivesTheList) {
  for (const Words& words : std::vector<Words>{{"show", "--dev", "mlx5_0"},
                                               {"show", "dev", "mlx5_0", "jetty"},
                                               {"show", "queues", "--dev", "mlx5_0"},
                                               {"eid", "add", "mlx5_0", "2", "fd00::1"},
                                               {"dev", "expose", "mlx5_0", "x"},
                                               {"list_res", "-d", "mlx5_0", "-R", "5"}}) {
    expect_case({words, 1, "no device 'mlx5_0'; there are: urma_shm0, bonding_dev_0$"});
  }
  const ToolResult result = admin({"show", "--dev", "mlx5_0", "--json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(json::parse(result.out)["error"].get<std::string>().find("urma_shm0"),
            std::string::npos);
}

TEST_F(AdminTest, NoDevices) {
  const ToolOptions nowhere = {{"URMA_RUNTIME_DIR=/proc/none"}};
  EXPECT_EQ(admin({"show", "--dev", kDevice}, nowhere).status, 1);
  const ToolResult providers = admin({"show", "providers", "--json"}, nowhere);
  ASSERT_EQ(providers.status, 0) << providers.err;
  EXPECT_EQ(json::parse(providers.out)["providers"][0]["devices"], 0);
}

// No other process is to blame.
TEST_F(AdminTest, ProcessesCannotBeListed) {
  const ToolResult result = admin({"show", "processes"}, {{"URMA_RUNTIME_DIR=/proc/none"}});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has_line(result.err, "^urma_admin: the library cannot tell \\(status [0-9]+\\)"))
      << result.err;
}

TEST_F(AdminTest, OutputCannotBeWritten) {
  for (const char* words : {" show", " --help", " --version"}) {
    const ToolResult result =
        run_tool("/bin/sh", {"-c", program_path("URMA_ADMIN") + words + " >/dev/full"});
    EXPECT_EQ(result.status, 1) << words;
    EXPECT_TRUE(has_line(result.err, "cannot write to stdout")) << words;
  }
}

}  // namespace
}  // namespace urma_test
