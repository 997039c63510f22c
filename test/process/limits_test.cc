// SPDX-License-Identifier: MIT
//
// Limits of the process that the library hits: they fail a request or the start of the library, and
// nothing else.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"
#include "test/process/mapping_party.h"
#include "test/process/refusal.h"

namespace urma_test {
namespace {

// Enough for log lines, but not for a ring.
constexpr rlim_t kFileBytes = 4000;

void limit(int resource, rlim_t most) {
  const rlimit both = {most, most};
  ASSERT_EQ(::setrlimit(static_cast<__rlimit_resource>(resource), &both), 0);
}

// The library fails to start, or starts without a device, and says so in time; the process
// continues.
void expect_no_start() {
  const urma_status_t status = urma_init(nullptr);
  if (status != URMA_SUCCESS) return;
  int devices = 0;
  urma_device_t** list = urma_get_device_list(&devices);
  for (int i = 0; i < devices; ++i) EXPECT_STRNE(list[i]->name, "urma_shm0");
  if (list != nullptr) urma_free_device_list(list);
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
}

class LimitsTest : public ProcessTest {
 protected:
  void SetUp() override { SKIP_UNLESS_SHARED_MEMORY("the library meets these limits"); }
};

// A message to a queue of another process, to which no ring leads yet, ends with `status`.
void send_under(const std::function<void()>& limited, urma_cr_status_t status) {
  run_two(
      "receiver",
      [](Channel& channel) {
        const Pages room(kPage);
        OwnedEndpoint receiver;
        urma_target_seg_t* segment = receiver.add(room.get(), kPage);
        receiver.post_receive(segment, room.get(), kPage);
        channel.send(receiver.queue_id());
        channel.sync();
      },
      "sender",
      [=](Channel& channel) {
        const Pages room(kPage);
        OwnedEndpoint sender;
        urma_target_seg_t* segment = sender.add(room.get(), kPage);
        urma_target_jetty_t* queue = sender.import(channel.receive<QueueId>());
        limited();
        urma_sge_t here = piece(segment, room.get(), 8);
        sender.post(send_request(queue, &here));
        EXPECT_EQ(wait_for(sender.send_jfc).status, status);
        channel.sync();
      });
}

TEST_F(LimitsTest, ShortFilesFailTheMessage) {
  send_under([] { limit(RLIMIT_FSIZE, kFileBytes); }, URMA_CR_LOC_OPERATION_ERR);
}

TEST_F(LimitsTest, NoMemfdFailsTheMessage) {
  send_under([] { refuse(SYS_memfd_create, EPERM); }, URMA_CR_LOC_OPERATION_ERR);
}

TEST_F(LimitsTest, NoAddressSpaceFailsTheMessage) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends a program that runs out of address space";
  // Less than is in use already.
  send_under([] { limit(RLIMIT_AS, kMiB); }, URMA_CR_LOC_OPERATION_ERR);
}

TEST_F(LimitsTest, NoDescriptorsFailTheMessage) {
  send_under([] { limit(RLIMIT_NOFILE, static_cast<rlim_t>(open_descriptors())); },
             URMA_CR_LOC_OPERATION_ERR);
}

TEST_F(LimitsTest, ShortFilesAtTheStart) {
  run_one([](Channel&) {
    limit(RLIMIT_FSIZE, kFileBytes);
    expect_no_start();
  });
}

TEST_F(LimitsTest, NoMemfdAtTheStart) {
  run_one([](Channel&) {
    refuse(SYS_memfd_create, ENOSYS);
    expect_no_start();
  });
}

TEST_F(LimitsTest, NoDescriptorsAtTheStart) {
  run_one([](Channel&) {
    limit(RLIMIT_NOFILE, static_cast<rlim_t>(open_descriptors()) + 2);
    expect_no_start();
  });
}

// For the calling process alone.
bool mount_at(const std::string& directory, unsigned long flags) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", directory.c_str(), "tmpfs", flags, "size=4k,mode=0700") == 0;
}

bool may_mount_at(const std::string& directory) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(mount_at(directory, 0) ? 0 : 1);
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

// The library starts with a runtime directory on a full or read-only file system.
void start_in_file_system(const std::string& directory, unsigned long flags, bool full) {
  ASSERT_TRUE(mount_at(directory, flags));
  if (full) {
    const int fd = ::open((directory + "/full").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const std::string page(kPage, 'x');
    EXPECT_EQ(::write(fd, page.data(), page.size()), ssize_t{kPage});
    ::close(fd);
  }
  expect_no_start();
}

TEST_F(LimitsTest, RuntimeDirectoryIsReadOnly) {
  if (!may_mount_at(runtime_dir())) GTEST_SKIP() << "this user may not mount a file system";
  run_one([this](Channel&) { start_in_file_system(runtime_dir(), MS_RDONLY, /*full=*/false); });
}

TEST_F(LimitsTest, RuntimeDirectoryIsFull) {
  if (!may_mount_at(runtime_dir())) GTEST_SKIP() << "this user may not mount a file system";
  run_one([this](Channel&) { start_in_file_system(runtime_dir(), 0, /*full=*/true); });
}

// Sockets are reached through it.
TEST_F(LimitsTest, NoProcAtTheStart) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer reads /proc";
  if (!may_mount_at("/proc")) GTEST_SKIP() << "this user may not mount a file system";
  run_one([](Channel&) {
    const LogLines lines;
    ASSERT_TRUE(mount_at("/proc", 0));
    expect_no_start();
    EXPECT_LINE("control socket", ".shm: there is no /proc/self/fd; mount /proc");
  });
}

}  // namespace
}  // namespace urma_test
