// SPDX-License-Identifier: MIT
//
// urma_run: each of its methods; its program must run as if urma_run were absent.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "test/process/harness.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

constexpr char kNobody[] = "65534";

// An installation and a runtime directory, accessible to an ordinary user as well.
class Run : public testing::Test {
 protected:
  Run() {
    char place[] = "/tmp/urma-test-XXXXXX";
    root_ = ::mkdtemp(place);
    ::chmod(place, 0755);
    fs::create_directories(root_ + "/lib/urma");
    fs::create_directory(root_ + "/bin");
    fs::copy_file("lib/liburma.so.0", root_ + "/lib/liburma.so.0");
    for (const char* module : {"liburma-shm.so", "urma_run.so"}) {
      fs::copy_file(std::string("lib/urma/") + module, root_ + "/lib/urma/" + module);
    }
    for (const char* variable : {"URMA_RUN", "URMA_ADMIN", "RUN_PROGRAM"}) {
      const fs::path from = program_path(variable);
      fs::copy_file(from, root_ + "/bin/" + from.filename().string());
    }
    use_directory("runtime");
    // The settings of the user who runs the test do not apply, and others may not read them.
    ::setenv("HOME", root_.c_str(), 1);
    ::unsetenv("XDG_CONFIG_HOME");
  }
  ~Run() override {
    ::unsetenv("URMA_RUNTIME_DIR");
    // The process that kept the devices' files may still be removing them.
    const auto end = Clock::now() + patience(seconds(10));
    std::error_code error;
    do {
      fs::remove_all(root_, error);
    } while (error && Clock::now() < end);
    EXPECT_FALSE(error) << root_ << ": " << error.message();
  }

  void use_directory(const std::string& name) {
    ::setenv("URMA_RUNTIME_DIR", (root_ + "/" + name).c_str(), 1);
  }
  std::string program(const std::string& name) const { return place("bin/" + name); }
  std::string place(const std::string& name) const { return root_ + "/" + name; }

  // The user's file of settings.
  void write_settings(const std::string& line) const {
    fs::create_directory(place(".config"));
    std::ofstream(place(".config/urma.conf")) << line << "\n";
  }

  // Runs a shell under urma_run.
  ToolResult shell(Words options, const std::string& script) const {
    options.insert(options.end(), {"sh", "-c", script});
    return run_tool(program("urma_run"), options);
  }
  ToolResult nobody(Words options, const std::string& script) const {
    options.insert(options.begin(),
                   {"--reuid", kNobody, "--regid", kNobody, "--clear-groups", program("urma_run")});
    options.insert(options.end(), {"sh", "-c", script});
    return run_tool("/usr/bin/setpriv", options);
  }

 private:
  std::string root_;
};

// One method, as the user that it is for.
class RunWays : public Run, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    if (is_for_users()) {
      if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
      const char* directory = std::getenv("URMA_RUNTIME_DIR");
      ASSERT_EQ(::mkdir(directory, 0700), 0);
      ASSERT_EQ(::chown(directory, 65534, 65534), 0);
    }
    const ToolResult tried = run("true");
    if (tried.status == 125 && std::string(GetParam()) != "preload") GTEST_SKIP() << tried.err;
    ASSERT_EQ(tried.status, 0) << tried.err;
  }

  bool is_for_users() const { return std::string(GetParam()) == "userns"; }
  ToolResult run(const std::string& script, Words options = {}) const {
    options.insert(options.begin(), {"--way", GetParam()});
    return is_for_users() ? nobody(options, script) : shell(options, script);
  }
};

TEST_P(RunWays, ShowsTheDevices) {
  const ToolResult result = run(
      "cat /sys/class/ubcore/urma_shm0/ubdev; ls /sys/class/ubcore; ls /dev/uburma;"
      "ls /sys/class | grep -x ubcore; cd /sys/class && cat ubcore/urma_shm0/port_count;"
      "find -L /sys/class/ubcore -name state | grep shm; : </dev/uburma/urma_shm0 && echo opened;"
      "ls -ld /sys/class/ubcore >/dev/null && echo long");
  EXPECT_EQ(result.out,
            "urma_shm0\nbonding_dev_0\nurma_shm0\nbonding_dev_0\nurma_shm0\nubcore\n1\n"
            "/sys/class/ubcore/urma_shm0/port0/state\nopened\nlong\n")
      << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_P(RunWays, EveryWayOfLookingFindsTheDevices) {
  const ToolResult result = run(program("run_program") + " look");
  EXPECT_EQ(result.out,
            "listed\nscandir 1\nglob /sys/class/ubcore/urma_shm0/port0/state\n"
            "realpath ubcore/urma_shm0\nifstream urma_shm0\nmissing 1\nexists 1\n"
            "relative urma_shm0\n")
      << result.err;
}

TEST_P(RunWays, LeaveTheRestUnchanged) {
  const std::string script =
      "ls /sys/class | grep -vx ubcore; ls /dev | grep -vx uburma; readlink -f "
      "/sys/class/net/lo/subsystem; cat /sys/class/net/lo/mtu; pwd; umask; id -u; id -g; "
      "ls -d /sys/* /sys/class/net/*";
  const ToolResult inside = run(script);
  const ToolResult outside =
      is_for_users() ? run_tool("/usr/bin/setpriv", {"--reuid", kNobody, "--regid", kNobody,
                                                     "--clear-groups", "sh", "-c", script})
                     : run_tool("/bin/sh", {"-c", script});
  EXPECT_EQ(inside.out, outside.out);
}

TEST_P(RunWays, NamesHaveFilesAndCanBeOpened) {
  const ToolResult result =
      run("cat /sys/class/ubcore/bonding_dev_0/ubdev /sys/class/ubcore/bonding_dev_0/driver_name;"
          "echo 1 >/sys/class/ubcore/bonding_dev_0/port0/state;"
          "cat /sys/class/ubcore/urma_shm0/port0/state; ls /dev/uburma;" +
              program("urma_admin") + " show | grep -c ' bonding_dev_0 '",
          {"--name", "bonding_dev_0"});
  EXPECT_EQ(result.out, "bonding_dev_0\nub_agg\n1\nbonding_dev_0\nurma_shm0\n1\n") << result.err;
}

TEST_P(RunWays, NamesOfOtherKindsReachTheLibrary) {
  const ToolResult result = run(program("urma_admin") + " show --all", {"--name", "ubl0"});
  EXPECT_TRUE(has_line(result.out, " ubl0 ")) << result.out << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_P(RunWays, ChildrenSeeTheSame) {
  EXPECT_EQ(run("sh -c 'sh -c \"cat /sys/class/ubcore/urma_shm0/ubdev\"'").out, "urma_shm0\n");
}

INSTANTIATE_TEST_SUITE_P(All, RunWays, testing::Values("mount", "userns", "preload"),
                         [](const auto& info) { return std::string(info.param); });

TEST_F(Run, PreloadIsUsedWithoutCapabilitiesAndNamespaces) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give up its capabilities";
  const ToolResult result = run_tool(
      program("run_program"), {"confine", program("urma_run"), "-v", "sh", "-c",
                               "ls /sys/class | grep -x ubcore; grep CapEff /proc/self/status;"
                               "cat /sys/class/ubcore/urma_shm0/ubdev"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out, "ubcore\nCapEff:\t0000000000000000\nurma_shm0\n") << result.err;
  EXPECT_TRUE(has_line(result.err, "^urma_run: not by mount: ")) << result.err;
  EXPECT_TRUE(has_line(result.err, "^urma_run: not by userns: ")) << result.err;
  EXPECT_TRUE(has_line(result.err, "by a preloaded library$")) << result.err;
}

TEST_F(Run, KeepsTheExistingPreload) {
  ::setenv("LD_PRELOAD", "libm.so.6", 1);
  const ToolResult result = shell({"--way", "preload"}, "echo $LD_PRELOAD");
  ::unsetenv("LD_PRELOAD");
  EXPECT_EQ(result.out, "libm.so.6:" + program("../lib/urma/urma_run.so") + "\n") << result.err;
}

// With and without a process of urma_run in between.
class RunEnds : public Run, public testing::WithParamInterface<bool> {
 protected:
  Words options(Words words = {}) const {
    if (GetParam()) words.insert(words.begin(), "--isolated");
    return words;
  }
};

TEST_P(RunEnds, StatusIsThatOfTheProgram) {
  EXPECT_EQ(shell(options(), "exit 0").status, 0);
  EXPECT_EQ(shell(options(), "exit 7").status, 7);
  EXPECT_EQ(shell(options(), "ulimit -c 0; kill -SEGV $$").status, 128 + SIGSEGV);
  EXPECT_EQ(shell(options(), "kill -KILL $$").status, 128 + SIGKILL);
  EXPECT_EQ(run_tool(program("urma_run"), options({"/no/such"})).status, 127);
  EXPECT_EQ(run_tool(program("urma_run"), options({"/tmp"})).status, 126);
}

TEST_P(RunEnds, SignalsReachTheProgram) {
  Tool tool(program("urma_run"),
            options({"sh", "-c", "trap 'exit 9' TERM; echo up; while :; do sleep 0.01; done"}));
  tool.wait_for_line("^up$");
  tool.signal(SIGTERM);
  EXPECT_EQ(tool.wait(), 9);
}

TEST_P(RunEnds, ArgumentsAndStreamsPass) {
  const ToolResult result = shell(options(), "cat <&0; echo \"$1\" >&2; echo $0 a");
  EXPECT_EQ(result.out, "sh a\n");
}

INSTANTIATE_TEST_SUITE_P(Both, RunEnds, testing::Bool(),
                         [](const auto& info) { return info.param ? "Isolated" : "Replaced"; });

TEST_F(Run, IsolatedDirectoryIsRemovedAtTheEnd) {
  for (const char* end : {"exit 0", "kill -TERM $$", "kill -KILL $$"}) {
    const ToolResult result = shell(
        {"--isolated"}, std::string("stat -c %a $URMA_RUNTIME_DIR; echo $URMA_RUNTIME_DIR;") + end);
    const auto lines = lines_of(result.out);
    ASSERT_EQ(lines.size(), 2u) << result.err;
    EXPECT_EQ(lines[0], "700");
    EXPECT_FALSE(fs::exists(lines[1])) << end;
  }
}

// A helper that outlives urma_run itself then removes the directory, and the program ends with it.
TEST_F(Run, IsolatedDirectoryIsRemovedAfterAKill) {
  Tool tool(program("urma_run"),
            {"--isolated", "sh", "-c", "echo $URMA_RUNTIME_DIR; exec sleep 1000"});
  const std::string directory = tool.wait_for_line("^/")[0];
  ::kill(tool.pid(), SIGKILL);
  EXPECT_EQ(tool.wait(), 128 + SIGKILL);
  const auto deadline = Clock::now() + patience(seconds(20));
  while (fs::exists(directory) && Clock::now() < deadline) ::sched_yield();
  EXPECT_FALSE(fs::exists(directory));
}

TEST_F(Run, EidsApplyOnlyToANewDirectory) {
  const std::string script = "cat /sys/class/ubcore/urma_shm0/eids/eid[01]";
  EXPECT_EQ(shell({"--isolated", "--eid", "fd00::7"}, script).out, "fd00::7\nfd00::8\n");
  EXPECT_EQ(shell({"--isolated", "--eid", "fd00::1:ffff"}, script).out,
            "fd00::1:ffff\nfd00::2:0\n");
  EXPECT_EQ(shell({"--eid", "fd00::1", "--eid", "fd00::9"}, script).out, "fd00::1\nfd00::9\n");
  EXPECT_EQ(shell({"--eid", "fd00::1"}, script).out, "fd00::1\nfd00::9\n");
  const ToolResult refused = shell({"--eid", "fd00::2"}, script);
  EXPECT_EQ(refused.status, 125);
  EXPECT_TRUE(has_line(refused.err, "^urma_run: --eid fd00::2: .* has the EIDs fd00::1, fd00::9"))
      << refused.err;
}

TEST_F(Run, EidsApplyToANewDirectoryOfAFile) {
  write_settings("URMA_RUNTIME_DIR=" + place("of_file"));
  ::unsetenv("URMA_RUNTIME_DIR");
  const ToolResult result =
      shell({"--eid", "fd00::7"}, "cat /sys/class/ubcore/urma_shm0/eids/eid[01]");
  EXPECT_EQ(result.out, "fd00::7\nfd00::8\n") << result.err;
}

TEST_F(Run, NamesAddToThoseOfAFile) {
  write_settings("URMA_DEVICE_ALIAS=of_file=urma_shm0");
  const ToolResult result = shell({"--name", "added"}, "ls /sys/class/ubcore");
  EXPECT_EQ(result.out, "added\nbonding_dev_0\nof_file\nurma_shm0\n") << result.err;
}

TEST_F(Run, FaultsApplyOnlyToTheProgram) {
  EXPECT_EQ(shell({"--fault", "rnr:p=10"}, "echo $URMA_FAULT").out, "rnr:p=10\n");
}

TEST_F(Run, InsideAndOutsideShareADirectory) {
  Tool inside(program("urma_run"), {"sh", "-c", "echo up; exec sleep 1000"});
  inside.wait_for_line("^up$");
  EXPECT_TRUE(has_line(
      shell({}, "cat /sys/class/ubcore/urma_shm0/eids/eid0").out,
      lines_of(
          run_tool("/bin/cat", {std::string(::getenv("URMA_RUNTIME_DIR")) + "/eids"}).out)[0]));
}

TEST_F(Run, VersionIsThatOfTheLibrary) {
  const std::string library = lines_of(run_tool(program("urma_admin"), {"--version"}).out).back();
  const ToolResult version = run_tool(program("urma_run"), {"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out, "urma_run " + library.substr(library.find(' ') + 1) + "\n");
}

TEST_F(Run, WrongArgumentsAreNamed) {
  const std::vector<Words> wrong = {{},
                                    {"--no-such", "true"},
                                    {"--way", "magic", "true"},
                                    {"--eid", "::", "true"},
                                    {"--eid", "fd00::1", "--eid", "fd00::1", "true"},
                                    {"--name", "a/b", "true"}};
  for (const Words& words : wrong) {
    const ToolResult result = run_tool(program("urma_run"), words);
    EXPECT_EQ(result.status, 125);
    // The library may have logged before why a text is not an EID.
    const auto lines = lines_of(result.err);
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines.back().rfind("urma_run: ", 0), 0u) << result.err;
  }
  EXPECT_EQ(shell({"--name", "x=nothing"}, "true").status, 125);
  const ToolResult help = run_tool("/bin/sh", {"-c", program("urma_run") + " --help >/dev/full"});
  EXPECT_EQ(help.status, 125);
}

}  // namespace
}  // namespace urma_test
