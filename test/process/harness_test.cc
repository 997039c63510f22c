// SPDX-License-Identifier: MIT
//
// A harness that misses failures would make all tests based on it worthless.
#include "test/process/harness.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace urma_test {
namespace {

// Children that are expected to fail must not outlive the statement that expects the failure.
void fail_with(const Body& body) {
  Child child("child", body);
  child.expect_success();
}

TEST(HarnessTest, FailuresOfAChildAreReported) {
  EXPECT_NONFATAL_FAILURE(fail_with([](Channel&) { EXPECT_EQ(1 + 1, 3) << "sums"; }), "sums");
  EXPECT_NONFATAL_FAILURE(fail_with([](Channel&) { ASSERT_TRUE(false) << "asserted"; }),
                          "asserted");
  EXPECT_NONFATAL_FAILURE(fail_with([](Channel&) { throw std::runtime_error("thrown"); }),
                          "thrown");
  EXPECT_NONFATAL_FAILURE(fail_with([](Channel&) {
                            std::fputs("printed", stderr);
                            std::_Exit(3);
                          }),
                          "exit status 3\nprinted");
  EXPECT_NONFATAL_FAILURE(fail_with([](Channel&) { ::raise(SIGKILL); }), "signal 9");
}

TEST(HarnessTest, TheFirstFailureEndsAChild) {
  Child child("child", [](Channel& channel) {
    EXPECT_TRUE(false);
    channel.send('x');
  });
  EXPECT_THROW(child.channel().receive<char>(), std::runtime_error);
  EXPECT_EQ(WEXITSTATUS(child.wait()), 1);
}

char device_of(const char* name) {
  Child child(name, [](Channel& channel) { channel.send(std::getenv("URMA_DEVICE")[0]); });
  return child.channel().receive<char>();
}

TEST(HarnessTest, AnInquiryDoesNotCountAsTheFirstChild) {
  ::setenv("URMA_DEVICE", "1", 1);
  ::setenv("URMA_PEER_DEVICE", "2", 1);
  EXPECT_EQ(device_of(kInquirer), '1');
  EXPECT_EQ(device_of("first"), '1');
  EXPECT_EQ(device_of("second"), '2');
  ::unsetenv("URMA_PEER_DEVICE");
  ::unsetenv("URMA_DEVICE");
}

TEST(HarnessTest, LaterChildrenUseThePeerDevice) {
  ::setenv("URMA_DEVICE", "1", 1);
  EXPECT_EQ(device_of("a"), '1');
  EXPECT_EQ(device_of("b"), '1');
  ::setenv("URMA_PEER_DEVICE", "2", 1);
  EXPECT_EQ(device_of("b"), '2');
  EXPECT_EQ(device_of("c"), '2');
  EXPECT_EQ(device_of("a"), '1');
  EXPECT_EQ(device_of(kInquirer), '1');
  ::unsetenv("URMA_PEER_DEVICE");
  ::unsetenv("URMA_DEVICE");
}

TEST(HarnessTest, NothingHangs) {
  EXPECT_NONFATAL_FAILURE(
      {
        Child child("sleeper", [](Channel&) { ::pause(); });
        child.wait(milliseconds(100));
      },
      "sleeper did not end in time");
  pid_t pid;
  {
    const Child dropped("sleeper", [](Channel&) { ::pause(); });
    pid = dropped.pid();
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(HarnessTest, ChildrenTalkToEachOther) {
  run_two(
      "asking",
      [](Channel& channel) {
        EXPECT_EQ(channel.swap(20), 22);
        channel.sync();
      },
      "answering",
      [](Channel& channel) {
        EXPECT_EQ(channel.swap(22), 20);
        channel.sync();
      });
}

TEST(HarnessTest, AChannelEndsWithItsProcess) {
  run_two(
      "left", [](Channel& channel) { EXPECT_THROW(channel.receive<int>(), std::runtime_error); },
      "leaving", [](Channel&) {});
  Child killed("killed", [](Channel&) { ::pause(); });
  killed.kill();
  EXPECT_THROW(killed.channel().receive<int>(), std::runtime_error);
}

TEST(HarnessTest, AnotherTypeIsNotReceived) {
  auto [a, b] = Channel::pair();
  a.send(uint64_t{1});
  EXPECT_THROW(b.receive<uint32_t>(), std::runtime_error);
}

TEST(HarnessTest, ProgramsRunWithArguments) {
  Child child("sh", std::vector<std::string>{"/bin/sh", "-c", "echo said; exit 4"});
  EXPECT_EQ(WEXITSTATUS(child.wait()), 4);
  EXPECT_EQ(child.output(), "said\n");
}

TEST_F(ProcessTest, HasAPrivateRuntimeDirectory) {
  EXPECT_EQ(std::getenv("URMA_RUNTIME_DIR"), runtime_dir());
  EXPECT_TRUE(runtime_entries().empty());
  const auto permissions = std::filesystem::status(runtime_dir()).permissions();
  EXPECT_EQ(permissions & std::filesystem::perms::all, std::filesystem::perms::owner_all);
}

}  // namespace
}  // namespace urma_test
