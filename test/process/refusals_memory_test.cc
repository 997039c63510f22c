// SPDX-License-Identifier: MIT
//
// Processes whose memory a cgroup limits: in-place sharing needs no memory for copies, and the
// peers of a process killed for lack of memory learn of it.
#include <errno.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/mapping_party.h"

namespace urma_test {
namespace {

constexpr uint64_t kBytes = 64 * kMiB;
// Less than the process itself plus twice the shared memory.
constexpr uint64_t kLimit = 112 * kMiB;

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.flush();
  return file.good();
}

// A memory cgroup of the test, of version 1 or 2.
class MemoryCgroup {
 public:
  MemoryCgroup() {
    struct Place {
      const char* folder;
      const char* limit;
    };
    constexpr Place kPlaces[] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                 {"/sys/fs/cgroup", "memory.max"},
                                 {"/sys/fs/cgroup/unified", "memory.max"}};
    for (const Place& place : kPlaces) {
      path_ = std::string(place.folder) + "/urma-test-" + std::to_string(::getpid());
      if (::mkdir(path_.c_str(), 0755) != 0) continue;
      if (write_file(path_ + '/' + place.limit, std::to_string(kLimit))) return;
      ::rmdir(path_.c_str());
    }
    path_.clear();
  }
  ~MemoryCgroup() {
    if (!path_.empty() && ::rmdir(path_.c_str()) != 0) ADD_FAILURE() << path_ << ": " << errno;
  }
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;

  bool made() const { return !path_.empty(); }
  // Limits the calling process; false if refused.
  bool enter() const { return write_file(path_ + "/cgroup.procs", std::to_string(::getpid())); }

 private:
  std::string path_;
};

class CgroupTest : public ProcessTest {
 protected:
  void SetUp() override {
    SKIP_UNLESS_SHARED_MEMORY("pages are moved");
    if (!cgroup_.made())
      GTEST_SKIP() << "cannot create a memory cgroup; run as root, with cgroups mounted";
  }

  MemoryCgroup cgroup_;
};

TEST_F(CgroupTest, SharedMemoryIsChargedOnce) {
  SKIP_UNLESS_IN_PLACE();
  run_two(
      "owner",
      [this](Channel& channel) {
        ASSERT_TRUE(cgroup_.enter());
        const Pages memory(kBytes);
        OwnedEndpoint endpoint;
        fill(memory.get(), kBytes);
        urma_target_seg_t* segment = endpoint.add(memory.get(), kBytes);
        channel.send(offer_of(endpoint, segment));
        channel.sync();
        expect_filled(memory.get(), kBytes);
        EXPECT_EQ(*memory.word(8), 3U);
        endpoint.remove(segment);
        EXPECT_EQ(memfd_areas(memory.get(), kBytes), 0);
        expect_filled(memory.get(), kBytes);
        channel.sync();
      },
      "importer",
      [](Channel& channel) {
        Importer peer(channel.receive<Offer>());
        expect_all_mapped(peer.remote);
        peer.write(8, 3);
        channel.sync();
        channel.sync();
      });
}

TEST_F(CgroupTest, AProcessKilledForMemoryIsReportedAsGone) {
  Child owner("owner", [this](Channel& channel) {
    ASSERT_TRUE(cgroup_.enter());
    Endpoint endpoint;
    auto* own = static_cast<char*>(urma_ext_alloc(4 * kLimit, 0));
    ASSERT_NE(own, nullptr);
    urma_target_seg_t* segment = endpoint.add(own, 4 * kLimit);
    channel.send(offer_of(endpoint, segment));
    channel.receive<char>();
    fill(own, 4 * kLimit);
    ADD_FAILURE() << "the cgroup did not enforce its limit";
  });
  Child importer("importer", [](Channel& channel) {
    Importer peer(channel.receive<Offer>());
    peer.write(8, 3);
    channel.send('w');
    const auto deadline = Clock::now() + patience(seconds(10));
    urma_cr_status_t status = URMA_CR_SUCCESS;
    while (status == URMA_CR_SUCCESS && Clock::now() < deadline) status = peer.try_write(8, 3);
    EXPECT_EQ(status, URMA_CR_ACK_TIMEOUT_ERR);
  });
  importer.channel().send(owner.channel().receive<Offer>());
  importer.channel().receive<char>();
  owner.channel().send('f');
  const int status = owner.wait();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status << owner.output();
  importer.expect_success();
}

}  // namespace
}  // namespace urma_test
