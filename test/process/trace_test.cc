// SPDX-License-Identifier: MIT
//
// URMA_TRACE: the timeline shows when each request was posted, published and completed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "test/process/self.h"

namespace urma_test {
namespace {

using nlohmann::json;

// One request, as shown by the events of a file.
struct Traced {
  std::string name;
  json args;
  double posted = 0, published = 0, completed = 0, begun = 0, ended = 0;
  int status = -1;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::map<std::string, Traced> requests_in(const json& events) {
  std::map<std::string, Traced> requests;
  for (const json& event : events) {
    if (!event.contains("id2")) continue;
    Traced& request = requests[event["id2"]["local"].get<std::string>()];
    const auto phase = event["ph"].get<std::string>();
    const auto name = event["name"].get<std::string>();
    const double ts = event["ts"].get<double>();
    if (phase == "b") {
      request.name = name;
      request.args = event["args"];
      request.begun = ts;
    } else if (phase == "e") {
      request.ended = ts;
      request.status = event["args"]["status"].get<int>();
    } else if (name == "posted") {
      request.posted = ts;
    } else if (name == "published") {
      request.published = ts;
    } else if (name == "completed") {
      request.completed = ts;
    }
  }
  return requests;
}

size_t count_of(const json& events, const std::string& name) {
  return static_cast<size_t>(std::count_if(
      events.begin(), events.end(), [&](const json& event) { return event["name"] == name; }));
}

void expect_in_order(const Traced& request) {
  EXPECT_GT(request.posted, 0);
  EXPECT_EQ(request.begun, request.posted);
  EXPECT_LE(request.posted, request.published);
  EXPECT_LE(request.published, request.completed);
  EXPECT_EQ(request.ended, request.completed);
}

class TraceTest : public ProcessTest {
 protected:
  TraceTest() { ::setenv("URMA_TRACE", file().c_str(), 1); }
  ~TraceTest() override { ::unsetenv("URMA_TRACE"); }

  std::string file() const { return scratch_.path() + "/trace.json"; }
  json events() const { return json::parse(text_of(file())); }
  const ScratchDir& scratch() const { return scratch_; }

 private:
  ScratchDir scratch_;
};

urma_jfs_wr_t write_of(Self& self, urma_sge_t* from, urma_sge_t* to, size_t size, uint64_t ctx) {
  *from = piece(self.segment, self.out(), size);
  *to = piece(self.remote, self.in(), size);
  return write_request(self.queue, from, to, ctx);
}

TEST_F(TraceTest, RecordsEveryRequest) {
  constexpr uint64_t kWrites = 50;
  run_one([](Channel&) {
    Self self;
    urma_sge_t from, to;
    for (uint64_t i = 0; i < kWrites; ++i) {
      self.endpoint.post(write_of(self, &from, &to, 8 * (i + 1), 100 + i));
      wait_for_success(self.endpoint.send_jfc, 100 + i);
    }
    self.endpoint.post_receive(self.segment, self.in(), 4096, 7);
    from = piece(self.segment, self.out(), 100);
    self.endpoint.post(send_request(self.queue, &from, 8));
    wait_for_success(self.endpoint.receive_jfc, 7);
    wait_for_success(self.endpoint.send_jfc, 8);
    std::ofstream(std::string(::getenv("URMA_TRACE")) + ".id") << self.endpoint.sender_id();
  });
  const json all = events();
  const auto requests = requests_in(all);
  ASSERT_EQ(requests.size(), kWrites + 1);
  const auto id = std::stoul(text_of(file() + ".id"));
  std::map<uint64_t, Traced> by_ctx;
  for (const auto& [number, request] : requests) {
    expect_in_order(request);
    EXPECT_EQ(request.status, 0);
    EXPECT_EQ(request.args["queue"], id);
    by_ctx[request.args["user_ctx"].get<uint64_t>()] = request;
  }
  for (uint64_t i = 0; i < kWrites; ++i) {
    EXPECT_EQ(by_ctx[100 + i].name, "WRITE");
    EXPECT_EQ(by_ctx[100 + i].args["bytes"], 8 * (i + 1));
  }
  EXPECT_EQ(by_ctx[8].name, "SEND");
  EXPECT_EQ(by_ctx[8].args["bytes"], 100);
  EXPECT_EQ(count_of(all, "received SEND"), 1U);
  EXPECT_EQ(count_of(all, "post"), kWrites + 1);
  EXPECT_EQ(count_of(all, "process_name"), 1U);
  EXPECT_EQ(count_of(all, "lost"), 0U);
}

TEST_F(TraceTest, UnsignalledRequestsEndWithTheNextCompletion) {
  run_one([](Channel&) {
    Self self;
    urma_sge_t from, to;
    for (uint64_t i = 0; i < 4; ++i) {
      urma_jfs_wr_t wr = write_of(self, &from, &to, 8, 0);
      wr.flag.bs.complete_enable = i == 3 ? 1 : 0;
      self.endpoint.post(wr);
    }
    wait_for_success(self.endpoint.send_jfc, 0);
  });
  const auto requests = requests_in(events());
  ASSERT_EQ(requests.size(), 4U);
  for (const auto& [number, request] : requests) {
    expect_in_order(request);
    EXPECT_EQ(request.status, 0);
  }
}

TEST_F(TraceTest, OnlyAcceptedRequestsAreRecorded) {
  run_one([](Channel&) {
    Self self;
    urma_sge_t from[3], to[3];
    urma_jfs_wr_t chain[3];
    for (size_t i = 0; i < 3; ++i) chain[i] = write_of(self, &from[i], &to[i], 64, i);
    chain[0].next = &chain[1];
    chain[1].next = &chain[2];
    chain[2].next = nullptr;
    from[1].tseg = nullptr;
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_NE(self.endpoint.post(chain, &bad), URMA_SUCCESS);
    EXPECT_EQ(bad, &chain[1]);
    wait_for_success(self.endpoint.send_jfc, 0);
  });
  const auto requests = requests_in(events());
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests.begin()->second.args["user_ctx"], 0);
}

// A round trip between two processes: each has its own file, on the same clock.
TEST_F(TraceTest, EachProcessHasItsFile) {
  ::setenv("URMA_TRACE", (scratch().path() + "/%p.json").c_str(), 1);
  auto party = [this](bool sends, Channel& channel) {
    {
      Self self;
      urma_target_jetty_t* peer = self.endpoint.import(channel.swap(self.endpoint.queue_id()));
      self.endpoint.post_receive(self.segment, self.in(), 4096, 1);
      channel.sync();
      urma_sge_t from = piece(self.segment, self.out(), 16);
      if (sends) {
        self.endpoint.post(send_request(peer, &from, 2));
        wait_for_success(self.endpoint.send_jfc, 2);
      } else {
        wait_for_success(self.endpoint.receive_jfc, 1);
      }
      channel.sync();
    }
    const std::string mine = scratch().path() + "/" + std::to_string(::getpid()) + ".json";
    const json all = json::parse(text_of(mine));
    EXPECT_EQ(requests_in(all).size(), sends ? 1U : 0U);
    EXPECT_EQ(count_of(all, "received SEND"), sends ? 0U : 1U);
    double when = 0;
    for (const json& event : all) {
      if (event["name"] == (sends ? "posted" : "received SEND")) when = event["ts"].get<double>();
    }
    // The record is polled after the post, and less than a minute after it.
    const double other = channel.swap(when);
    const double took = sends ? other - when : when - other;
    EXPECT_GT(took, 0);
    EXPECT_LT(took, 60e6);
  };
  run_two(
      "sender", [&](Channel& channel) { party(true, channel); }, "receiver",
      [&](Channel& channel) { party(false, channel); });
}

TEST_F(TraceTest, EachThreadHasATrack) {
  constexpr uint64_t kEach = 20;
  run_one([](Channel&) {
    Self self;
    auto work = [&self](uint64_t first) {
      urma_sge_t from, to;
      for (uint64_t i = 0; i < kEach; ++i)
        self.endpoint.post(write_of(self, &from, &to, 8, first + i));
    };
    std::thread other(work, 1000);
    work(5000);
    other.join();
    for (uint64_t i = 0; i < 2 * kEach; ++i) wait_for(self.endpoint.send_jfc);
  });
  const json all = events();
  const auto requests = requests_in(all);
  EXPECT_EQ(requests.size(), 2 * kEach);
  for (const auto& [number, request] : requests) expect_in_order(request);
  std::map<int, size_t> posts;
  for (const json& event : all) {
    if (event["name"] == "post") ++posts[event["tid"].get<int>()];
  }
  EXPECT_EQ(posts.size(), 2U);
  for (const auto& [thread, count] : posts) EXPECT_EQ(count, kEach);
}

// A program may exit without cleanup: what it wrote until then can be read.
TEST_F(TraceTest, FileIsCompleteWithoutUninit) {
  run_one([](Channel&) {
    Self self;
    urma_sge_t from, to;
    self.endpoint.post(write_of(self, &from, &to, 8, 9));
    wait_for_success(self.endpoint.send_jfc, 9);
    const auto deadline = Clock::now() + patience(seconds(10));
    const std::string path = ::getenv("URMA_TRACE");
    while (true) {
      const json so_far = json::parse(text_of(path), nullptr, /*allow_exceptions=*/false);
      if (!so_far.is_discarded() && !requests_in(so_far).empty()) break;
      ASSERT_LT(Clock::now(), deadline);
    }
    ::_exit(0);
  });
  EXPECT_EQ(requests_in(events()).size(), 1U);
}

// One that nobody reads, one that the test reads, and a device.
TEST_F(TraceTest, LibraryStartsWithWhatIsNoFile) {
  const std::string alone = scratch().path() + "/alone", read = scratch().path() + "/read";
  ASSERT_EQ(::mkfifo(alone.c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(read.c_str(), 0600), 0);
  const int reader = ::open(read.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  for (const std::string& path : {alone, read, std::string("/dev/null")}) {
    ::setenv("URMA_TRACE", path.c_str(), 1);
    Child child("child", [](Channel&) { Self self; });
    child.expect_success();
    EXPECT_NE(child.output().find("there is no timeline of this process"), std::string::npos)
        << child.output();
  }
  char byte;
  EXPECT_EQ(::read(reader, &byte, 1), 0) << "something was written there";
  ::close(reader);
}

TEST_F(TraceTest, LibraryStartsWithoutItsFile) {
  ::setenv("URMA_TRACE", "/nowhere/at/all.json", 1);
  Child child("child", [](Channel&) { Self self; });
  child.expect_success();
  EXPECT_NE(child.output().find("URMA_TRACE: opening /nowhere/at/all.json"), std::string::npos)
      << child.output();
}

}  // namespace
}  // namespace urma_test
