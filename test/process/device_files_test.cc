// SPDX-License-Identifier: MIT
//
// The attributes of a device as files: read with cat, written with echo, removed with the last
// process.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

// Called once, when this process removes a device's first file.
std::function<void()> at_first_removal;

bool is_of_a_device(int folder) {
  char path[PATH_MAX] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(folder);
  return ::readlink(link.c_str(), path, sizeof(path) - 1) > 0 &&
         std::strstr(path, "/ubcore/") != nullptr;
}

class DeviceFilesTest : public ProcessTest {
 protected:
  void SetUp() override { SKIP_UNLESS_SHARED_MEMORY("a device has these files"); }
  std::string folder() const { return runtime_dir() + "/class/ubcore/urma_shm0"; }
  bool there() const { return std::filesystem::exists(folder()); }
};

std::string folder_here() {
  return std::string(std::getenv("URMA_RUNTIME_DIR")) + "/class/ubcore/urma_shm0";
}

// Like a user in a shell.
std::string cat(const std::string& file) {
  const std::string command = "cat " + folder_here() + "/" + file;
  FILE* pipe = ::popen(command.c_str(), "r");
  char text[256] = "";
  EXPECT_NE(std::fgets(text, sizeof(text), pipe), nullptr) << file;
  EXPECT_EQ(::pclose(pipe), 0) << file;
  return text;
}

int echo(const std::string& text, const std::string& file) {
  return std::system(("echo " + text + " > " + folder_here() + "/" + file).c_str());
}

urma_async_event_t next_event(const urma_context_t* ctx) {
  urma_async_event_t event = {};
  EXPECT_EQ(urma_get_async_event(const_cast<urma_context_t*>(ctx), &event), URMA_SUCCESS);
  return event;
}

urma_device_attr_t attr_of(const urma_context_t* ctx) {
  urma_device_attr_t attr;
  EXPECT_EQ(urma_query_device(ctx->dev, &attr), URMA_SUCCESS);
  return attr;
}

// A process that uses the library until it is told to end.
void user(Channel& test) {
  OwnedEndpoint endpoint;
  test.sync();
  test.sync();
}

TEST_F(DeviceFilesTest, AgreeWithAQuery) {
  run_one([](Channel&) {
    Endpoint endpoint;
    const urma_device_attr_t attr = attr_of(endpoint.ctx);
    const auto number = [](uint64_t value) { return std::to_string(value) + "\n"; };
    EXPECT_EQ(cat("ubdev"), "urma_shm0\n");
    EXPECT_EQ(cat("driver_name"), "shm\n");
    EXPECT_EQ(cat("transport_type"), number(URMA_TRANSPORT_UB));
    EXPECT_EQ(cat("max_jfc"), number(attr.dev_cap.max_jfc));
    EXPECT_EQ(cat("max_jfs_inline_size"), number(attr.dev_cap.max_jfs_inline_len));
    EXPECT_EQ(cat("max_msg_size"), number(attr.dev_cap.max_msg_size));
    EXPECT_EQ(cat("feature"), number(attr.dev_cap.feature.value));
    EXPECT_EQ(cat("trans_mode"), number(attr.dev_cap.trans_mode));
    EXPECT_EQ(cat("reserved_jetty_id"), "1-65535\n");
    EXPECT_EQ(cat("port_count"), "1\n");
    EXPECT_EQ(cat("port0/state"), number(URMA_PORT_ACTIVE));
    EXPECT_EQ(cat("port0/active_speed"), number(attr.port_attr[0].active_speed));
    EXPECT_EQ(cat("priority/priority3/tp_type"),
              number(attr.dev_cap.priority_info[3].tp_type.value));
    uint32_t count = 0;
    urma_eid_info_t* eids = urma_get_eid_list(endpoint.ctx->dev, &count);
    urma_eid_t eid;
    std::string text = cat("eids/eid1");
    text.pop_back();
    EXPECT_EQ(urma_str_to_eid(text.c_str(), &eid), 0);
    EXPECT_EQ(std::memcmp(&eid, &eids[1].eid, sizeof(eid)), 0);
    urma_free_eid_list(eids);
    struct stat status;
    EXPECT_EQ(::stat((folder_here() + "/max_jfc").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0444u);
    EXPECT_EQ(::stat((folder_here() + "/port0/state").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0644u);
    endpoint.close();
  });
  EXPECT_FALSE(there());
}

TEST_F(DeviceFilesTest, StayUntilTheLastProcessEnds) {
  Child first("first", user), second("second", user);
  first.channel().sync();
  second.channel().sync();
  EXPECT_TRUE(there());
  first.channel().sync();
  first.expect_success();
  EXPECT_TRUE(there());
  second.channel().sync();
  second.expect_success();
  EXPECT_FALSE(there());
  EXPECT_FALSE(std::filesystem::exists(runtime_dir() + "/class"));
}

// The next process cleans up, and so does the last to leave.
TEST_F(DeviceFilesTest, OfAKilledProcessEndWithTheNextOne) {
  Child killed("killed", user);
  killed.channel().sync();
  std::ofstream(folder() + "/port0/state") << "1\n";
  const std::string stray = runtime_dir() + "/class/ubcore/no_device";
  ASSERT_EQ(::mkdir(stray.c_str(), 0700), 0);
  killed.kill();
  EXPECT_TRUE(there());
  Child next("next", [](Channel& test) {
    OwnedEndpoint endpoint;
    EXPECT_EQ(cat("port0/state"), "4\n");
    EXPECT_EQ(attr_of(endpoint.ctx).port_attr[0].state, URMA_PORT_ACTIVE);
    test.sync();
    test.sync();
  });
  next.channel().sync();
  EXPECT_TRUE(there());
  EXPECT_FALSE(std::filesystem::exists(stray));
  Child other("other", user);
  other.channel().sync();
  other.kill();
  next.channel().sync();
  next.expect_success();
  EXPECT_FALSE(there());
}

// A process that stays where it removes the first file, as on a busy disk, until it is told to go
// on.
void slow_to_remove(Channel& test) {
  at_first_removal = [&test] {
    test.sync();
    test.sync();
  };
}

TEST_F(DeviceFilesTest, AProcessStartsWhileTheLastOneRemovesThem) {
  Child ending("ending", [](Channel& test) {
    slow_to_remove(test);
    OwnedEndpoint endpoint;
  });
  ending.channel().sync();
  Child next("next", user);
  next.channel().sync();
  EXPECT_TRUE(there());
  ending.channel().sync();
  ending.expect_success();
  EXPECT_TRUE(there());
  next.channel().sync();
  next.expect_success();
  EXPECT_FALSE(std::filesystem::exists(runtime_dir() + "/class"));
}

TEST_F(DeviceFilesTest, AProcessStartsWhileAnotherRemovesThoseOfAKilledOne) {
  Child killed("killed", user);
  killed.channel().sync();
  killed.kill();
  Child slow("slow", [](Channel& test) {
    slow_to_remove(test);
    OwnedEndpoint endpoint;
    test.sync();
  });
  slow.channel().sync();
  Child next("next", user);
  next.channel().sync();
  EXPECT_TRUE(there());
  slow.channel().sync();
  slow.channel().sync();
  slow.expect_success();
  EXPECT_TRUE(there());
  next.channel().sync();
  next.expect_success();
  EXPECT_FALSE(std::filesystem::exists(runtime_dir() + "/class"));
}

TEST_F(DeviceFilesTest, OfAProcessKilledAsItRemovesThemEndWithTheNextOne) {
  Child ending("ending", [](Channel& test) {
    slow_to_remove(test);
    OwnedEndpoint endpoint;
  });
  ending.channel().sync();
  ending.kill();
  EXPECT_GT(runtime_entries().size(), 2u);
  Child next("next", user);
  next.channel().sync();
  EXPECT_TRUE(there());
  next.channel().sync();
  next.expect_success();
  EXPECT_EQ(runtime_entries(), (std::vector<std::string>{"eids", "ids"}));
}

// Two processes; the port is down when one of them starts.
TEST_F(DeviceFilesTest, PortStateCanBeWritten) {
  run_two(
      "early",
      [](Channel& peer) {
        OwnedEndpoint endpoint;
        ASSERT_EQ(echo("1", "port0/state"), 0);
        urma_async_event_t event = next_event(endpoint.ctx);
        EXPECT_EQ(event.event_type, URMA_EVENT_PORT_DOWN);
        EXPECT_EQ(event.element.port_id, 0u);
        EXPECT_EQ(attr_of(endpoint.ctx).port_attr[0].state, URMA_PORT_DOWN);
        peer.sync();
        peer.sync();
        EXPECT_EQ(next_event(endpoint.ctx).event_type, URMA_EVENT_PORT_ACTIVE);
        EXPECT_EQ(attr_of(endpoint.ctx).port_attr[0].state, URMA_PORT_ACTIVE);
        peer.sync();
      },
      "late",
      [](Channel& peer) {
        peer.sync();
        OwnedEndpoint endpoint;
        EXPECT_EQ(attr_of(endpoint.ctx).port_attr[0].state, URMA_PORT_DOWN);
        EXPECT_EQ(cat("port0/state"), "1\n");
        peer.sync();
        // An invalid state changes nothing.
        ASSERT_EQ(echo("up", "port0/state"), 0);
        ASSERT_EQ(echo("44", "port0/state"), 0);
        ASSERT_EQ(echo("4", "port0/state"), 0);
        EXPECT_EQ(next_event(endpoint.ctx).event_type, URMA_EVENT_PORT_ACTIVE);
        pollfd ready = {endpoint.ctx->async_fd, POLLIN, 0};
        EXPECT_EQ(::poll(&ready, 1, 0), 0);
        peer.sync();
      });
}

}  // namespace
}  // namespace urma_test

// Stands before the one of the C library, which removes with it what is in a folder.
extern "C" __attribute__((visibility("default"))) int unlinkat(int folder, const char* name,
                                                               int flags) noexcept {
  using urma_test::at_first_removal;
  if (at_first_removal && urma_test::is_of_a_device(folder)) {
    std::exchange(at_first_removal, nullptr)();
  }
  return static_cast<int>(::syscall(SYS_unlinkat, folder, name, flags));
}
