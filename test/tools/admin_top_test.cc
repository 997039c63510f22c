// SPDX-License-Identifier: MIT
//
// urma_admin top: the activity of a process, on a terminal and elsewhere.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr size_t kSize = 64;
constexpr uint64_t kMessages = 10;

// Sends itself messages whenever the test says so, and writes once where it is not allowed.
void talk(Channel& test) {
  Endpoint endpoint;
  std::vector<char> in(kSize), out(kSize);
  urma_target_seg_t* in_segment = endpoint.add(in.data(), in.size());
  urma_target_seg_t* out_segment = endpoint.add(out.data(), out.size());
  urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
  urma_target_seg_t* remote = endpoint.import(endpoint.segment_id(in_segment));
  urma_sge_t here = piece(out_segment, out.data(), kSize);
  test.send(endpoint.sender_id());
  test.sync();  // the tool has taken its first sample
  for (uint64_t i = 0; i < kMessages; ++i) {
    endpoint.post_receive(in_segment, in.data(), kSize, i);
    endpoint.post(send_request(self, &here, i));
    wait_for_success(endpoint.send_jfc, i);
    wait_for_success(endpoint.receive_jfc, i);
  }
  urma_sge_t there = piece(remote, remote->seg.ubva.va + kSize, kSize);
  endpoint.post(write_request(self, &here, &there, 0));
  wait_for_status(endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
  test.sync();
  test.sync();  // the test has seen enough
  endpoint.close();
}

class AdminTopTest : public ToolTest {
 protected:
  void end() {
    talker_.channel().sync();
    talker_.expect_success();
  }
  void let_it_talk() {
    talker_.channel().sync();
    talker_.channel().sync();
  }

  Child talker_{"talker", talk};
  uint32_t sender_ = talker_.channel().receive<uint32_t>();
};

// What has been done between the previous report and this one.
struct Done {
  double posts = 0, bytes = 0, failed = 0;
  uint64_t errors = 0;
};

void add_done(const json& report, uint32_t id, Done* done) {
  const double seconds = report.at("seconds");
  for (const auto& queue : report.at("queues")) {
    if (queue.at("kind") != "jetty" || queue.at("id") != id) continue;
    done->posts += queue.at("posts_per_second").get<double>() * seconds;
    done->bytes += queue.at("bytes_per_second").get<double>() * seconds;
    done->failed += queue.at("errors_per_second").get<double>() * seconds;
    done->errors = queue.at("errors");
  }
}

TEST_F(AdminTopTest, PrintsWhatWasDone) {
  Tool top(program_path("URMA_ADMIN"), {"top", "--json"});
  Done done;
  add_done(json::parse(top.wait_for_line(".")[0]), sender_, &done);
  EXPECT_EQ(done.errors, 0u);
  EXPECT_EQ(done.posts, 0);
  let_it_talk();
  while (done.errors == 0) add_done(json::parse(top.wait_for_line(".")[0]), sender_, &done);
  EXPECT_NEAR(done.posts, kMessages + 1, 0.01);
  EXPECT_NEAR(done.bytes, kMessages * kSize, 0.01);
  EXPECT_NEAR(done.failed, 1, 0.01);
  top.signal(SIGINT);
  EXPECT_EQ(top.wait(), 0) << top.err();
  end();
}

// All that a process has done before is no rate, once it answers again.
TEST_F(AdminTopTest, SilentProcessHasDoneNothingMeanwhile) {
  let_it_talk();
  const struct {
    Words arguments;
    const char* list;
  } reports[] = {{{"top", "--json"}, "queues"},
                 {{"show", "queues", "--watch", "1", "--json"}, "rates"}};
  for (const auto& [arguments, list] : reports) {
    Tool tool(program_path("URMA_ADMIN"), arguments);
    const auto next = [&tool, name = list] {
      return json::parse(tool.wait_for_line(std::string("\"") + name + "\":\\[")[0]).at(name);
    };
    EXPECT_FALSE(next().empty());
    talker_.stop();
    while (!next().empty()) {
    }
    ::kill(talker_.pid(), SIGCONT);
    json queues = next();
    while (queues.empty()) queues = next();
    for (const json& queue : queues) EXPECT_EQ(queue.at("posts_per_second"), 0) << queue;
    tool.signal(SIGINT);
    EXPECT_EQ(tool.wait(), 0) << tool.err();
  }
  end();
}

TEST_F(AdminTopTest, PlainTextWithoutATerminal) {
  let_it_talk();
  const ToolResult result =
      run_tool(program_path("URMA_ADMIN"), {"top", "--count", "2", "--watch", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out.find('\033'), std::string::npos);
  EXPECT_TRUE(has_line(result.out, "^1 processes, [0-9]+ queues: 0 posts/s, .* 0 errors/s"));
  EXPECT_TRUE(has_line(result.out, "^pid +program +device .* MB/s +errors/s +errors +rnr/s$"));
  EXPECT_TRUE(has_line(result.out, "urma_shm0 +jetty +" + std::to_string(sender_) + " .* 1 +0$"))
      << result.out;
  end();
}

TEST_F(AdminTopTest, EachReportClearsTheScreen) {
  ToolOptions options;
  options.terminal = true;
  Tool top(program_path("URMA_ADMIN"), {"top"}, options);
  top.wait_for_line("\033\\[H\033\\[2J1 processes");
  top.wait_for_line("jetty +" + std::to_string(sender_));
  top.wait_for_line("\033\\[H\033\\[2J1 processes");
  top.signal(SIGTERM);
  EXPECT_EQ(top.wait(), 0) << top.out();
  let_it_talk();
  end();
}

TEST_F(AdminTopTest, TotalsForPrometheus) {
  let_it_talk();
  const ToolResult result = run_tool(program_path("URMA_ADMIN"), {"top", "--format", "prometheus"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string labels =
      "\\{pid=\"[0-9]+\",program=\"[^\"]+\",device=\"urma_shm0\","
      "kind=\"jetty\",id=\"" +
      std::to_string(sender_) + "\"";
  EXPECT_TRUE(has_line(result.out, "^urma_processes 1$")) << result.out;
  EXPECT_TRUE(has_line(result.out, "^# TYPE urma_queue_posts_total counter$"));
  EXPECT_TRUE(has_line(result.out, "^urma_queue_posts_total" + labels + "\\} 11$")) << result.out;
  EXPECT_TRUE(has_line(result.out, "^urma_queue_bytes_total" + labels + "\\} 640$")) << result.out;
  EXPECT_TRUE(
      has_line(result.out, "^urma_queue_completions_total" + labels + ",status=\"[^\"]+\"\\} 10$"))
      << result.out;
  EXPECT_TRUE(
      has_line(result.out, "^urma_queue_completions_total" + labels + ",status=\"[^\"]+\"\\} 1$"))
      << result.out;
  // Each line is a comment, or a name with its labels and one number.
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(has_line(line, "^(# (HELP|TYPE) urma_[a-z_]+ .+|urma_[a-z_]+(\\{.+\\})? [0-9]+)$"))
        << line;
  }
  end();
}

TEST_F(AdminTopTest, WrongArguments) {
  const std::string admin = program_path("URMA_ADMIN");
  EXPECT_EQ(run_tool(admin, {"top", "--count", "0"}).status, 2);
  EXPECT_EQ(run_tool(admin, {"top", "--format", "yaml"}).status, 2);
  EXPECT_EQ(run_tool(admin, {"top", "--format", "prometheus", "--watch", "1"}).status, 2);
  EXPECT_EQ(run_tool(admin, {"show", "queues", "--format", "prometheus"}).status, 2);
  EXPECT_EQ(run_tool(admin, {"top", "--pid", "1", "--count", "1"}).status, 1);
  EXPECT_EQ(run_tool(admin, {"top", "--dev", "none", "--count", "1"}).status, 1);
  let_it_talk();
  end();
}

}  // namespace
}  // namespace urma_test
