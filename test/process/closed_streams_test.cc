// SPDX-License-Identifier: MIT
//
// A program that has closed its standard streams, as daemons do, may still write to them, and so
// does the log: none of their numbers may lead to a file of the library.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"

namespace urma_test {
namespace {

constexpr int kStreams = 3;

// Closes the streams of this process, and opens them again at its end.
class WithoutStreams {
 public:
  WithoutStreams() {
    for (int stream = 0; stream < kStreams; ++stream) {
      kept_[stream] = ::fcntl(stream, F_DUPFD_CLOEXEC, 200);
      ::close(stream);
    }
  }
  ~WithoutStreams() {
    for (int stream = 0; stream < kStreams; ++stream) {
      ::dup2(kept_[stream], stream);
      ::close(kept_[stream]);
    }
  }
  WithoutStreams(const WithoutStreams&) = delete;
  WithoutStreams& operator=(const WithoutStreams&) = delete;

  // What a program prints.
  static void print() {
    const std::string line = "a line of the program\n";
    for (int stream = 1; stream < kStreams; ++stream) {
      [[maybe_unused]] const ssize_t written = ::write(stream, line.data(), line.size());
    }
  }
  // Which numbers are those of a file.
  static std::string taken() {
    std::string all;
    for (int stream = 0; stream < kStreams; ++stream) {
      std::array<char, 200> file = {};
      const std::string link = "/proc/self/fd/" + std::to_string(stream);
      if (::readlink(link.c_str(), file.data(), file.size() - 1) < 0) continue;
      all += std::to_string(stream) + ": " + file.data() + "\n";
    }
    return all;
  }

 private:
  std::array<int, kStreams> kept_;
};

// Reads of the peer, granted and refused, messages, and what both print meanwhile.
void have_traffic(Endpoint& endpoint, Channel& channel) {
  std::vector<char> memory(10000);
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  urma_target_seg_t* remote = endpoint.import(channel.swap(endpoint.segment_id(segment)));
  urma_target_jetty_t* peer = endpoint.import(channel.swap(endpoint.queue_id()));
  constexpr int kTimes = 5;
  for (int i = 0; i < kTimes; ++i) endpoint.post_receive(segment, memory.data(), 100);
  channel.sync();
  for (int i = 0; i < kTimes; ++i) {
    WithoutStreams::print();
    urma_sge_t local = piece(segment, memory.data() + 1000, 100);
    urma_sge_t there = piece(remote, remote->seg.ubva.va + 1000, 100);
    endpoint.post(read_request(peer, &local, &there));
    wait_for_success(endpoint.send_jfc, 0);
    there.addr = remote->seg.ubva.va + 2 * memory.size();
    endpoint.post(read_request(peer, &local, &there));
    wait_for_status(endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    endpoint.post(send_request(peer, &local));
    wait_for_success(endpoint.send_jfc, 0);
    wait_for_success(endpoint.receive_jfc, 0);
  }
  channel.sync();
}

void expect_talk(bool closed_first) {
  auto body = [=](Channel& channel) {
    std::optional<WithoutStreams> without;
    if (closed_first) without.emplace();
    std::string taken;
    {
      Config config;
      config.events = true;
      OwnedEndpoint endpoint(config);
      if (!closed_first) without.emplace();
      have_traffic(endpoint, channel);
      urma_jfce_t* more = urma_create_jfce(endpoint.ctx);
      taken = WithoutStreams::taken();
      EXPECT_EQ(urma_delete_jfce(more), URMA_SUCCESS);
    }
    without.reset();
    EXPECT_EQ(taken, "");
  };
  run_two("first", body, "second", body);
}

using ClosedStreamsTest = ProcessTest;

TEST_F(ClosedStreamsTest, BeforeTheLibraryStarts) { expect_talk(true); }

TEST_F(ClosedStreamsTest, OnceTheLibraryHasStarted) { expect_talk(false); }

// Then calls fail as if none was left at all.
TEST_F(ClosedStreamsTest, NoHigherNumberIsLeft) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    std::optional<WithoutStreams> without(std::in_place);
    const rlimit few = {300, 300};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    std::vector<int> opened;
    for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
      if (fd >= kStreams) opened.push_back(fd);
    }
    for (int stream = 0; stream < kStreams; ++stream) ::close(stream);
    const urma_jfce_t* const refused = urma_create_jfce(endpoint.ctx);
    const int error = errno;
    const std::string taken = WithoutStreams::taken();
    for (const int fd : opened) ::close(fd);
    urma_jfce_t* const made = urma_create_jfce(endpoint.ctx);
    without.reset();
    EXPECT_EQ(refused, nullptr);
    EXPECT_EQ(error, ENOMEM);
    EXPECT_EQ(taken, "");
    ASSERT_NE(made, nullptr);
    EXPECT_EQ(urma_delete_jfce(made), URMA_SUCCESS);
  });
}

}  // namespace
}  // namespace urma_test
