// SPDX-License-Identifier: MIT
//
// urma_admin and two processes that talk over TCP.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

using nlohmann::json;

constexpr uint32_t kMessages = 3;
constexpr size_t kSize = 1000;

void receiver(Channel& channel) {
  std::vector<char> memory(2 * kSize);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  for (uint32_t i = 0; i < kMessages; ++i) endpoint.post_receive(segment, memory.data(), kSize, i);
  channel.send(offer_of(endpoint, segment));
  for (uint32_t i = 0; i < kMessages; ++i) wait_for_success(endpoint.receive_jfc, i);
  channel.sync();
  channel.sync();
}

// Some messages, and one write.
void sender(Channel& channel) {
  std::vector<char> memory(kSize);
  OwnedEndpoint endpoint;
  urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
  const auto offer = channel.receive<Offer>();
  urma_target_jetty_t* queue = endpoint.import(offer.queue);
  urma_target_seg_t* theirs = endpoint.import(offer.segment);
  urma_sge_t local = piece(segment, memory.data(), kSize);
  urma_sge_t remote = piece(theirs, offer.segment.va + kSize, kSize);
  for (uint32_t i = 0; i < kMessages; ++i) {
    endpoint.post(send_request(queue, &local, i));
    wait_for_success(endpoint.send_jfc, i);
  }
  endpoint.post(write_request(queue, &local, &remote, kMessages));
  wait_for_success(endpoint.send_jfc, kMessages);
  channel.sync();
  channel.sync();
}

enum class Trust { kNone, kSecret, kTls };

class AdminStreamsTest : public ToolTest, public testing::WithParamInterface<Trust> {
 protected:
  AdminStreamsTest() {
    if (GetParam() == Trust::kNone) return;
    const std::string secret = folder_.path() + "/secret";
    std::ofstream(secret) << "a secret of sixteen bytes, or more";
    ::chmod(secret.c_str(), S_IRUSR);
    ::setenv("URMA_TCP_SECRET_FILE", secret.c_str(), 1);
    if (GetParam() == Trust::kTls) ::setenv("URMA_TCP_TLS", "psk", 1);
  }
  ~AdminStreamsTest() override {
    ::unsetenv("URMA_TCP_SECRET_FILE");
    ::unsetenv("URMA_TCP_TLS");
  }
  static ToolResult admin(const std::vector<std::string>& words) {
    return run_tool(program_path("URMA_ADMIN"), words);
  }
  // The only stream of a process.
  static json stream_of(const json& report, const Child& process) {
    for (const json& listed : report["processes"]) {
      if (listed["pid"] != process.pid()) continue;
      EXPECT_EQ(listed["streams"].size(), 1U) << listed;
      return listed["streams"][0];
    }
    throw std::runtime_error("not listed: " + report.dump());
  }
  void talk() {
    other_.emplace("receiver", receiver);
    child_.emplace("sender", sender);
    child_->channel().send(other_->channel().receive<Offer>());
    other_->channel().sync();
    child_->channel().sync();
  }
  void end() {
    other_->channel().sync();
    child_->channel().sync();
    other_->expect_success();
    child_->expect_success();
  }

  // Two processes that have talked.
  std::optional<Child> other_, child_;

 private:
  ScratchDir folder_;
};

TEST_P(AdminStreamsTest, BothEndsAreListedWithPeerProtectionAndCounts) {
  talk();
  const ToolResult result = admin({"show", "dev", "urma_net0", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["devices"].size(), 1U);
  const json out = stream_of(report, *child_);
  const json in = stream_of(report, *other_);
  for (const json& end : {out, in}) {
    EXPECT_EQ(end["device"], "urma_net0");
    EXPECT_EQ(end["state"], "READY");
    EXPECT_EQ(end["status"], nullptr);
    EXPECT_EQ(end["secret"], GetParam() != Trust::kNone);
    EXPECT_EQ(end["tls"], GetParam() == Trust::kTls);
    EXPECT_GT(end["age_seconds"], 0);
  }
  EXPECT_EQ(out["direction"], "out");
  EXPECT_EQ(in["direction"], "in");
  EXPECT_EQ(out["peer_eid"], in["eid"]);
  EXPECT_EQ(out["peer_port"], in["port"]);
  EXPECT_EQ(in["peer_eid"], out["eid"]);
  EXPECT_EQ(in["peer_port"], out["port"]);
  EXPECT_EQ(out["sent_requests"], kMessages + 1);
  EXPECT_EQ(in["received_requests"], kMessages + 1);
  EXPECT_EQ(out["received_requests"], 0);
  EXPECT_EQ(out["sent_bytes"], in["received_bytes"]);
  EXPECT_EQ(out["received_bytes"], in["sent_bytes"]);
  EXPECT_GT(out["sent_bytes"], (kMessages + 1) * kSize);
  end();
}

TEST_P(AdminStreamsTest, TheTableHasThemToo) {
  talk();
  const std::string protection[] = {"none", "secret", "secret, TLS"};
  const std::string row = "^urma_net0 +(in|out) +[0-9a-f:]+ +[0-9]+ +[0-9a-f:]+ +[0-9]+ +READY +" +
                          protection[static_cast<int>(GetParam())] + " +[0-9.]+ s +[0-9 ]+$";
  for (const auto& words : {std::vector<std::string>{"show", "dev", "urma_net0"},
                            std::vector<std::string>{"show", "dev", "urma_net0", "rc"}}) {
    const std::string table = admin(words).out;
    EXPECT_TRUE(has_line(table, "^connections of process " + std::to_string(child_->pid())));
    EXPECT_TRUE(has_line(table, row)) << table;
  }
  const auto only = std::to_string(other_->pid());
  const std::string table = admin({"show", "dev", "urma_net0", "--pid", only}).out;
  EXPECT_TRUE(has_line(table, "^connections of process " + only)) << table;
  EXPECT_FALSE(has_line(table, "^connections of process " + std::to_string(child_->pid())));
  end();
}

std::string name_of(const testing::TestParamInfo<Trust>& info) {
  const char* const names[] = {"Nothing", "Secret", "Tls"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(By, AdminStreamsTest,
                         testing::Values(Trust::kNone, Trust::kSecret, Trust::kTls), name_of);

}  // namespace
}  // namespace urma_test
