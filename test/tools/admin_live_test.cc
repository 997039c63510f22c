// SPDX-License-Identifier: MIT
//
// urma_admin while other processes use the library: its reports must match what they did.
#include <gtest/gtest.h>
#include <liburing.h>
#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/tools/tool_process.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

constexpr uint64_t kMessages = 20;
constexpr uint64_t kMoreMessages = 10;
constexpr uint64_t kWrites = 3;
constexpr uint64_t kWrong = 2;
constexpr size_t kSize = 64;
constexpr size_t kOwnBytes = 64 << 10;
constexpr size_t kPage = 4096;
constexpr size_t kPlainBytes = 3 * kPage;

// What the server tells the client.
struct Offer {
  QueueId queue;
  SegmentId mapped;
  SegmentId copied;
};

// What both tell the test.
struct Ids {
  uint32_t sender;
  uint32_t receiver;
  uint32_t mapped_token_id;
  uint32_t copied_token_id;
};

// Receives all messages, with memory that its peer maps and memory that it does not.
void serve(Channel& test) {
  ::setenv("URMA_SHM_INPLACE", "0", 1);
  ::setenv("URMA_SHM_RING_SIZE", "8192", 1);
  ::setenv("URMA_ROCM_IPC", "bicycle", 1);
  Endpoint endpoint;
  void* own = urma_ext_alloc(kOwnBytes, 0);
  // Whole pages, so that all of it has the same reason.
  auto* plain = static_cast<char*>(std::aligned_alloc(kPage, kPlainBytes));
  urma_target_seg_t* mapped = endpoint.add(own, kOwnBytes);
  urma_target_seg_t* copied = endpoint.add(plain, kPlainBytes);
  for (uint64_t i = 0; i < kMessages + kMoreMessages; ++i) {
    endpoint.post_receive(copied, plain, kSize, i);
  }
  test.send(Offer{endpoint.queue_id(), endpoint.segment_id(mapped), endpoint.segment_id(copied)});
  test.send(Ids{endpoint.sender_id(), endpoint.jfr->jfr_id.id, mapped->seg.token_id,
                copied->seg.token_id});
  for (uint64_t i = 0; i < kMessages; ++i) wait_for_success(endpoint.receive_jfc, i);
  test.sync();
  for (uint64_t i = 0; i < kMoreMessages; ++i) {
    wait_for_success(endpoint.receive_jfc, kMessages + i);
  }
  test.sync();
  test.sync();  // the client has ended
  endpoint.remove(mapped);
  EXPECT_EQ(urma_ext_free(own), URMA_SUCCESS);
  endpoint.close();
  std::free(plain);
}

// Sends the messages, writes into both segments, and writes where it is not allowed.
void use(Channel& test) {
  std::vector<char> buffer(kSize);
  OwnedEndpoint endpoint;
  urma_target_seg_t* local = endpoint.add(buffer.data(), buffer.size(), URMA_ACCESS_LOCAL_ONLY);
  const auto offer = test.receive<Offer>();
  urma_target_jetty_t* queue = endpoint.import(offer.queue);
  urma_target_seg_t* mapped = endpoint.import(offer.mapped, true);
  urma_target_seg_t* copied = endpoint.import(offer.copied, true);
  test.send(Ids{endpoint.sender_id(), endpoint.jfr->jfr_id.id, offer.mapped.token_id,
                offer.copied.token_id});
  urma_sge_t here = piece(local, buffer.data(), kSize);
  const auto send = [&](uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      endpoint.post(send_request(queue, &here, i));
      wait_for_success(endpoint.send_jfc, i);
    }
  };
  send(kMessages);
  for (uint64_t i = 0; i < kWrites; ++i) {
    for (const auto& [segment, va] :
         {std::pair{mapped, offer.mapped.va}, std::pair{copied, offer.copied.va}}) {
      urma_sge_t there = piece(segment, va, kSize);
      endpoint.post(write_request(queue, &here, &there, i));
      wait_for_success(endpoint.send_jfc, i);
    }
  }
  for (uint64_t i = 0; i < kWrong; ++i) {
    urma_sge_t there = piece(mapped, offer.mapped.va + offer.mapped.len, kSize);
    endpoint.post(write_request(queue, &here, &there, i));
    wait_for_status(endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
  }
  test.sync();
  test.sync();  // the test has started to measure
  send(kMoreMessages);
  test.sync();
  test.sync();  // the test has looked at everything
}

ToolResult admin(const Words& words) { return run_tool(program_path("URMA_ADMIN"), words); }

json admin_json(Words words) {
  words.emplace_back("--json");
  const ToolResult result = admin(words);
  EXPECT_EQ(result.status, 0) << result.err;
  return json::parse(result.out);
}

// The entry in a list of objects whose `key` is `value`.
json entry_of(const json& list, const char* key, const json& value) {
  for (const auto& entry : list) {
    if (entry.at(key) == value) return entry;
  }
  ADD_FAILURE() << "no entry with " << key << " " << value << " in " << list.dump(2);
  return {};
}

// A queue of one kind among the queues of one process. Ids are unique per kind.
json queue_of(const json& report, pid_t pid, const std::string& kind, uint32_t id) {
  const json process = entry_of(report.at("processes"), "pid", pid);
  for (const auto& queue : process.at("queues")) {
    if (queue.at("kind") == kind && queue.at("id") == id) return queue;
  }
  ADD_FAILURE() << "no " << kind << " " << id << " in " << report.dump(2);
  return {};
}

class AdminLiveTest : public ToolTest {
 protected:
  // Two processes that have exchanged the first messages.
  void start() {
    client_.channel().send(server_.channel().receive<Offer>());
    server_ids_ = server_.channel().receive<Ids>();
    client_ids_ = client_.channel().receive<Ids>();
    client_.channel().sync();
    server_.channel().sync();
  }
  void exchange_more() {
    client_.channel().sync();
    client_.channel().sync();
    server_.channel().sync();
  }
  void end() {
    client_.channel().sync();
    client_.expect_success();
    server_.channel().sync();
    server_.expect_success();
  }
  static std::string text(int64_t number) { return std::to_string(number); }

  Child server_{"server", serve};
  Child client_{"client", use};
  Ids server_ids_;
  Ids client_ids_;
};

TEST_F(AdminLiveTest, QueuesCountRequests) {
  start();
  const json all = admin_json({"show", "queues"});
  EXPECT_EQ(all["processes"].size(), 2u);
  const json jetty = queue_of(all, client_.pid(), "jetty", client_ids_.sender);
  EXPECT_EQ(jetty["device"], "urma_shm0");
  EXPECT_EQ(jetty["state"], "READY");
  EXPECT_EQ(jetty["trans_mode"], "RM");
  EXPECT_EQ(jetty["posts"], kMessages + 2 * kWrites + kWrong);
  EXPECT_EQ(jetty["completions"], kMessages + 2 * kWrites + kWrong);
  EXPECT_EQ(jetty["errors"], kWrong);
  EXPECT_EQ(jetty["errors_by_status"], json({{"URMA_CR_REM_ACCESS_ABORT_ERR", kWrong}}));
  EXPECT_EQ(jetty["bytes"], (kMessages + 2 * kWrites) * kSize);
  const json jfr = queue_of(all, server_.pid(), "jfr", server_ids_.receiver);
  EXPECT_EQ(jfr["posts"], kMessages + kMoreMessages);
  EXPECT_EQ(jfr["completions"], kMessages);
  EXPECT_EQ(jfr["fill"], kMoreMessages);
  EXPECT_EQ(jfr["bytes"], kMessages * kSize);
  const json jfc = queue_of(all, server_.pid(), "jfc", jfr["jfc_id"]);
  EXPECT_EQ(jfc["completions"], kMessages);
  EXPECT_GE(jfc["polls"], kMessages);

  const json one = admin_json({"show", "queues", "--pid", text(client_.pid())});
  ASSERT_EQ(one["processes"].size(), 1u);
  EXPECT_EQ(queue_of(one, client_.pid(), "jetty", client_ids_.sender), jetty);
  const ToolResult table = admin({"show", "queues", "--pid", text(client_.pid())});
  EXPECT_TRUE(has_line(table.out, "^process " + text(client_.pid()) + " \\(.+\\)$"));
  EXPECT_TRUE(
      has_line(table.out, "^device +kind +id +state +mode +fill/depth .* polls +near +far$"));
  EXPECT_TRUE(has_line(table.out, "urma_shm0 +jetty +" + text(client_ids_.sender) + " +READY"));
  EXPECT_TRUE(has_line(table.out, "^jetty [0-9]+: 2 URMA_CR_REM_ACCESS_ABORT_ERR$"));
  exchange_more();
  end();
}

TEST_F(AdminLiveTest, ObjectsOfADevice) {
  start();
  const auto show = [](const std::string& kind, const std::string& id = "") {
    Words words = {"show", "dev", "urma_shm0", kind};
    if (!id.empty()) words.push_back(id);
    return admin_json(words);
  };
  const json jetties = show("jetty");
  for (const auto& process : jetties["processes"]) {
    ASSERT_EQ(process["queues"].size(), 1u);
    EXPECT_EQ(process["queues"][0]["kind"], "jetty");
  }
  const json one = show("jetty", text(client_ids_.sender));
  EXPECT_EQ(entry_of(one["processes"], "pid", client_.pid())["queues"].size(), 1u);
  EXPECT_EQ(entry_of(one["processes"], "pid", server_.pid())["queues"].size(), 0u);
  EXPECT_EQ(entry_of(show("jfc")["processes"], "pid", client_.pid())["queues"].size(), 2u);
  const json rc = entry_of(show("rc")["processes"], "pid", client_.pid());
  EXPECT_EQ(rc["queues"].size(), 0u);
  EXPECT_EQ(rc["connections"], json::array());
  EXPECT_EQ(admin_json({"list_res", "-d", "urma_shm0", "-R", "7"}), jetties);
  EXPECT_EQ(admin_json({"show_res", "-d", "urma_shm0", "-R", "7", "-k", text(client_ids_.sender)}),
            one);
  const json segment = show("seg", text(server_ids_.mapped_token_id));
  EXPECT_EQ(entry_of(segment["processes"], "pid", server_.pid())["segments"].size(), 1u);
  exchange_more();
  end();
}

// The path of every part of the segment with this token id, and why it is no better.
void expect_parts(const json& segments, uint32_t token_id, bool imported, const std::string& path,
                  const std::string& reason) {
  SCOPED_TRACE(token_id);
  for (const auto& segment : segments) {
    if (segment["token_id"] != token_id || segment["imported"] != imported) continue;
    uint64_t bytes = 0;
    for (const auto& part : segment["parts"]) {
      EXPECT_EQ(part["path"], path);
      EXPECT_EQ(part["reason"], reason);
      EXPECT_EQ(part["reason_text"].get<std::string>().empty(), reason == "NONE");
      bytes += part["len"].get<uint64_t>();
    }
    EXPECT_EQ(bytes, segment["len"]);
    return;
  }
  ADD_FAILURE() << segments.dump(2);
}

TEST_F(AdminLiveTest, SegmentsAndWhyTheyAreCopied) {
  start();
  const json report = admin_json({"show", "segments"});
  const json own = entry_of(report["processes"], "pid", server_.pid())["segments"];
  expect_parts(own, server_ids_.mapped_token_id, false, "mapped", "NONE");
  expect_parts(own, server_ids_.copied_token_id, false, "copied", "OFF");
  const json imported = entry_of(report["processes"], "pid", client_.pid())["segments"];
  expect_parts(imported, server_ids_.mapped_token_id, true, "mapped", "NONE");
  for (const auto& segment : imported) {
    if (segment["imported"] != true || segment["token_id"] != server_ids_.copied_token_id) continue;
    EXPECT_EQ(segment["parts"][0]["path"], "copied");
  }
  const ToolResult table = admin({"show", "segments", "--pid", text(server_.pid())});
  EXPECT_TRUE(has_line(table.out, "registered +0x[0-9a-f]+ +65536 .*READ.WRITE.ATOMIC .*mapped$"));
  EXPECT_TRUE(has_line(table.out, "registered .* copied +[a-zA-Z]"));
  exchange_more();
  end();
}

TEST_F(AdminLiveTest, SettingsAndProvidersOfAProcess) {
  start();
  const json settings = admin_json({"show", "config", "--pid", text(server_.pid())})["settings"];
  EXPECT_EQ(entry_of(settings, "name", "URMA_SHM_RING_SIZE")["value"], "8192");
  EXPECT_EQ(entry_of(settings, "name", "URMA_SHM_RING_SIZE")["origin"], "environment");
  EXPECT_EQ(entry_of(settings, "name", "URMA_LOG_SINK")["origin"], "default");
  const json refused = entry_of(settings, "name", "URMA_ROCM_IPC");
  EXPECT_EQ(refused["origin"], "refused");
  EXPECT_EQ(refused["given"], "bicycle");
  EXPECT_EQ(refused["value"], "auto");
  const json own = admin_json({"show", "config"})["settings"];
  EXPECT_EQ(entry_of(own, "name", "URMA_RUNTIME_DIR")["value"], runtime_dir());
  EXPECT_EQ(entry_of(own, "name", "URMA_SHM_RING_SIZE")["origin"], "default");
  const json providers =
      admin_json({"show", "providers", "--pid", text(server_.pid())})["providers"];
  EXPECT_EQ(entry_of(providers, "name", "shm")["devices"], 1);
  exchange_more();
  end();
}

TEST_F(AdminLiveTest, CallsAreMeasured) {
  start();
  EXPECT_EQ(admin({"perf", "start"}).status, 0);
  exchange_more();
  const ToolResult stopped = admin({"perf", "stop", "--pid", text(client_.pid())});
  EXPECT_TRUE(has_line(stopped.out, "^process " + text(client_.pid()) + " .*: stopped$"));
  const json report = admin_json({"perf", "show", "--pid", text(client_.pid())});
  const json calls = report["processes"][0]["calls"];
  const json posts = entry_of(calls, "type", "UB_JETTY_POST_SEND");
  EXPECT_EQ(posts["count"], kMoreMessages);
  EXPECT_GE(posts["max_ns"], posts["min_ns"]);
  EXPECT_GE(entry_of(calls, "type", "UB_POLL_JFC")["count"], kMoreMessages);
  EXPECT_TRUE(has_line(admin({"perf", "show"}).out, "^UB_JETTY_POST_SEND +10 "));
  end();
}

TEST_F(AdminLiveTest, ProcessesAreListed) {
  start();
  const json processes = admin_json({"show", "processes"})["processes"];
  EXPECT_EQ(processes.size(), 2u);
  const json client = entry_of(processes, "pid", client_.pid());
  const json server = entry_of(processes, "pid", server_.pid());
  EXPECT_EQ(server["slot"], server_ids_.mapped_token_id >> 16);
  EXPECT_EQ(client["uid"], ::geteuid());
  const ToolResult nobody = admin({"show", "queues", "--pid", text(::getpid())});
  EXPECT_EQ(nobody.status, 1);
  EXPECT_TRUE(has_line(nobody.err,
                       "has the pid " + text(::getpid()) + "; there are: .*" + text(client_.pid())))
      << nobody.err;
  exchange_more();
  end();
}

TEST_F(AdminLiveTest, StoppedProcessCausesNoHang) {
  start();
  server_.stop();
  const std::string why = "process " + text(server_.pid()) + " does not answer; it may be stopped";
  for (const Words& words : std::vector<Words>{{"show", "queues"},
                                               {"show", "segments"},
                                               {"show", "config"},
                                               {"show", "providers"},
                                               {"perf", "show"},
                                               {"perf", "start"}}) {
    Words with_pid = words;
    with_pid.insert(with_pid.end(), {"--pid", text(server_.pid())});
    const ToolResult result = admin(with_pid);
    EXPECT_EQ(result.status, 1) << words[1];
    EXPECT_TRUE(has_line(result.err, why)) << result.err;
  }
  // The others are still listed.
  const json all = admin_json({"show", "queues"});
  EXPECT_NE(entry_of(all["processes"], "pid", server_.pid())["error"], "");
  EXPECT_EQ(queue_of(all, client_.pid(), "jetty", client_ids_.sender)["state"], "READY");
  ASSERT_EQ(::kill(server_.pid(), SIGCONT), 0);
  exchange_more();
  end();
}

// What was done between the previous report and this one, computed from its rates.
double done_since(const json& report, const char* rate_name) {
  for (const auto& rate : report.at("rates")) {
    if (rate.at("kind") != "jetty") continue;
    return rate.at(rate_name).get<double>() * report.at("seconds").get<double>();
  }
  return 0;
}

TEST_F(AdminLiveTest, WatchPrintsRates) {
  start();
  Tool watch(program_path("URMA_ADMIN"),
             {"show", "queues", "--pid", text(client_.pid()), "--watch", "1", "--json"});
  const auto bytes = [&](const json& report) -> uint64_t {
    return queue_of(report, client_.pid(), "jetty", client_ids_.sender).at("bytes");
  };
  json report = json::parse(watch.wait_for_line(".")[0]);
  const uint64_t before = bytes(report);
  EXPECT_EQ(before, (kMessages + 2 * kWrites) * kSize);
  EXPECT_FALSE(report.contains("rates"));
  exchange_more();
  // On a busy machine a report comes in the middle of the messages.
  double posts = 0, moved = 0;
  while (bytes(report) < before + kMoreMessages * kSize) {
    report = json::parse(watch.wait_for_line(".")[0]);
    posts += done_since(report, "posts_per_second");
    moved += done_since(report, "bytes_per_second");
  }
  EXPECT_NEAR(posts, kMoreMessages, 0.01);
  EXPECT_NEAR(moved, kMoreMessages * kSize, 0.01);
  watch.signal(SIGINT);
  EXPECT_EQ(watch.wait(), 0) << watch.err();
  end();
}

TEST_F(AdminLiveTest, WatchCounts) {
  start();
  const ToolResult result = admin({"show", "queues", "--watch", "1", "--count", "2", "--json"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(lines_of(result.out).size(), 2u);
  exchange_more();
  end();
}

TEST_F(AdminLiveTest, WatchEndsWithCtrlC) {
  start();
  const auto before = runtime_entries();
  Tool watch(program_path("URMA_ADMIN"), {"show", "queues", "--watch", "3600"});
  watch.wait_for_line("^process " + text(std::max(client_.pid(), server_.pid())));
  watch.wait_for_line("jetty");
  watch.signal(SIGINT);
  EXPECT_EQ(watch.wait(), 0) << watch.err();
  EXPECT_EQ(runtime_entries(), before);
  exchange_more();
  end();
}

class AdminProviderTest : public ToolTest {};

TEST_F(AdminProviderTest, FileThatIsNotAModule) {
  const ScratchDir modules;
  std::ofstream(modules.path() + "/liburma-broken.so") << "\177ELF and nothing else";
  const ToolResult result = run_tool(program_path("URMA_ADMIN"), {"show", "providers", "--json"},
                                     {{"URMA_PROVIDER_PATH=" + modules.path()}});
  ASSERT_EQ(result.status, 0) << result.err;
  const json providers = json::parse(result.out)["providers"];
  const json shm = entry_of(providers, "loaded", true);
  EXPECT_EQ(shm["name"], "shm");
  EXPECT_EQ(shm["devices"], 1);
  const json broken = entry_of(providers, "loaded", false);
  EXPECT_EQ(broken["path"], modules.path() + "/liburma-broken.so");
  EXPECT_NE(broken["reason"], "");
}

// Has a segment that its peer maps, and that ends while io_uring holds a page of it.
void leave_pages(Channel& test) {
  Endpoint endpoint;
  auto* memory = static_cast<char*>(std::aligned_alloc(kPage, kPlainBytes));
  std::memset(memory, 1, kPlainBytes);
  urma_target_seg_t* segment = endpoint.add(memory, kPlainBytes);
  test.send(endpoint.segment_id(segment));
  test.sync();  // it is mapped
  io_uring ring;
  const iovec buffer = {memory, kPage};
  int error = ::io_uring_queue_init(8, &ring, 0);
  if (error == 0) error = ::io_uring_register_buffers(&ring, &buffer, 1);
  endpoint.remove(segment);
  test.send(error);
  test.sync();  // it is inspected
  if (error == 0) ::io_uring_queue_exit(&ring);
  endpoint.close();
  std::free(memory);
}

class AdminEndedTest : public ToolTest {};

TEST_F(AdminEndedTest, PagesThatAnEndedSegmentLeavesShared) {
  Child server("server", leave_pages);
  Child client("client", [](Channel& test) {
    OwnedEndpoint endpoint;
    urma_target_seg_t* remote = endpoint.import(test.receive<SegmentId>(), true);
    test.send(remote->mva != 0);
    test.sync();
  });
  const auto segment = server.channel().receive<SegmentId>();
  client.channel().send(segment);
  const bool mapped = client.channel().receive<bool>();
  server.channel().sync();
  const int error = server.channel().receive<int>();
  if (mapped && error == 0) {
    const json report = admin_json({"show", "segments", "--pid", std::to_string(server.pid())});
    const json ended = entry_of(report["processes"], "pid", server.pid())["segments"];
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0]["ended"], true);
    EXPECT_EQ(ended[0]["len"], kPlainBytes);
    expect_parts(ended, segment.token_id, false, "mapped", "ENDED");
    const ToolResult table = admin({"show", "segments", "--pid", std::to_string(server.pid())});
    EXPECT_TRUE(has_line(table.out, "^- +ended .* mapped +the segment has ended"));
  }
  server.channel().sync();
  client.channel().sync();
  server.expect_success();
  client.expect_success();
  if (!mapped || error != 0)
    GTEST_SKIP() << "cannot map memory or set up io_uring: errno " << -error;
}

}  // namespace
}  // namespace urma_test
