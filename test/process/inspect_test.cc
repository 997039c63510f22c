// SPDX-License-Identifier: MIT
//
// One process works, and another one inspects it.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/inspect_reader.h"
#include "urma_perf.h"

namespace urma_test {
namespace {

constexpr uint32_t kMessage = 8;
constexpr uint8_t kForEver = 7;

struct Ids {
  uint32_t pid, uasid, send_jfc, receive_jfc, jfr, jetty;
  SegmentId segment;
};

// A process that sends to itself.
struct Worker {
  Worker() : endpoint(config()), memory(4096) {
    segment = endpoint.add(memory.data(), memory.size());
    self = endpoint.import(endpoint.queue_id());
  }
  static Config config() {
    Config config;
    config.events = true;
    config.rnr_retry = kForEver;
    return config;
  }
  Ids ids() const {
    uint32_t uasid = 0;
    EXPECT_EQ(urma_get_uasid(&uasid), URMA_SUCCESS);
    return {static_cast<uint32_t>(::getpid()), uasid,
            endpoint.send_jfc->jfc_id.id,      endpoint.receive_jfc->jfc_id.id,
            endpoint.jfr->jfr_id.id,           endpoint.jetty->jetty_id.id,
            endpoint.segment_id(segment)};
  }
  void post_receive(size_t bytes) { endpoint.post_receive(segment, memory.data(), bytes); }
  void send() {
    urma_sge_t here = piece(segment, memory.data() + 2048, kMessage);
    endpoint.post(send_request(self, &here));
  }
  void exchange() {
    post_receive(kMessage);
    send();
    wait_for_success(endpoint.receive_jfc, 0);
    wait_for_success(endpoint.send_jfc, 0);
  }
  void find_no_receive() {
    send();
    // The first polls wait for the ring; then the message is seen, and seen again. A message that a
    // device rejects is seen by the device only.
    while (maps && queue(URMA_EXT_QUEUE_JFR, endpoint.jfr->jfr_id.id).rnr == 0) {
      EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
      EXPECT_TRUE(has_nothing(endpoint.send_jfc));
    }
    EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
    post_receive(kMessage);
    wait_for_success(endpoint.receive_jfc, 0);
    wait_for_success(endpoint.send_jfc, 0);
  }
  void send_too_much() {
    post_receive(kMessage / 2);
    send();
    wait_for_status(endpoint.receive_jfc, URMA_CR_LOC_LEN_ERR);
    wait_for_status(endpoint.send_jfc, URMA_CR_REM_RESP_LEN_ERR);
  }
  void be_woken() {
    EXPECT_EQ(urma_rearm_jfc(endpoint.receive_jfc, false), URMA_SUCCESS);
    exchange();
    urma_jfc_t* jfc = nullptr;
    EXPECT_EQ(urma_wait_jfc(endpoint.jfce, 1, 5000, &jfc), 1);
    uint32_t events = 1;
    urma_ack_jfc(&jfc, &events, 1);
  }
  void be_refused() {
    urma_sge_t here = piece(segment, memory.data(), kMessage);
    urma_jfs_wr_t wr = send_request(nullptr, &here);
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(endpoint.post(&wr, &bad), URMA_EINVAL);
  }
  static urma_ext_queue_t queue(urma_ext_queue_kind_t kind, uint32_t id) {
    for (const auto& queue : queues(0)) {
      if (queue.kind == kind && queue.id == id) return queue;
    }
    throw std::runtime_error("a queue is not listed");
  }

  Endpoint endpoint;
  const bool maps = traits_of(endpoint.ctx).maps;
  std::vector<char> memory;
  urma_target_seg_t* segment;
  urma_target_jetty_t* self;
};

// Works, tells its ids, and ends when it is told to.
Body worker(const std::function<void(Worker&)>& work = [](Worker&) {}) {
  return [work](Channel& channel) {
    Worker worker;
    work(worker);
    channel.send(worker.ids());
    channel.sync();
    worker.endpoint.close();
  };
}

Body reader(const std::function<void(const Ids&)>& read) {
  return [read](Channel& channel) {
    const auto ids = channel.receive<Ids>();
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    read(ids);
    channel.sync();
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  };
}

urma_ext_queue_t find(const std::vector<urma_ext_queue_t>& queues, urma_ext_queue_kind_t kind,
                      uint32_t id) {
  for (const auto& queue : queues) {
    if (queue.kind == kind && queue.id == id) return queue;
  }
  throw std::runtime_error("queue " + std::to_string(id) + " is not listed");
}

class InspectTest : public ProcessTest {};

void work_in_all_ways(Worker& worker) {
  for (int i = 0; i < 5; ++i) worker.exchange();
  worker.find_no_receive();
  worker.send_too_much();
  worker.be_woken();
  worker.be_refused();
  worker.post_receive(kMessage);
}

void expect_counters(const std::vector<urma_ext_queue_t>& listed, const Ids& ids) {
  ASSERT_EQ(listed.size(), 4u);
  const auto jetty = find(listed, URMA_EXT_QUEUE_JETTY, ids.jetty);
  EXPECT_EQ(jetty.posts, 8u);
  EXPECT_EQ(jetty.refused, 1u);
  EXPECT_EQ(jetty.completions, 8u);
  EXPECT_EQ(jetty.by_status[URMA_CR_SUCCESS], 7u);
  EXPECT_EQ(jetty.by_status[URMA_CR_REM_RESP_LEN_ERR], 1u);
  EXPECT_EQ(jetty.bytes, 7u * kMessage);
  EXPECT_EQ(jetty.rnr, 0u);
  EXPECT_EQ(jetty.fill, 0u);
  EXPECT_EQ(jetty.state, uint32_t{URMA_JETTY_STATE_READY});
  EXPECT_EQ(jetty.trans_mode, uint32_t{URMA_TM_RM});
  EXPECT_EQ(jetty.depth, 64u);
  EXPECT_EQ(jetty.jfc_id, ids.send_jfc);
  EXPECT_EQ(jetty.jfr_id, ids.jfr);
  EXPECT_EQ(jetty.recv_jfc_id, ids.receive_jfc);
  const auto jfr = find(listed, URMA_EXT_QUEUE_JFR, ids.jfr);
  EXPECT_EQ(jfr.posts, 9u);
  EXPECT_EQ(jfr.completions, 8u);
  EXPECT_EQ(jfr.by_status[URMA_CR_LOC_LEN_ERR], 1u);
  EXPECT_EQ(jfr.bytes, 7u * kMessage);
  EXPECT_EQ(jfr.rnr, device_traits().maps ? 1u : 0u);
  EXPECT_EQ(jfr.fill, 1u);
  const auto send_jfc = find(listed, URMA_EXT_QUEUE_JFC, ids.send_jfc);
  EXPECT_EQ(send_jfc.completions, 8u);
  EXPECT_EQ(send_jfc.by_status[URMA_CR_REM_RESP_LEN_ERR], 1u);
  EXPECT_EQ(send_jfc.wakeups, 0u);
  EXPECT_GE(send_jfc.polls, 8u);
  const auto receive_jfc = find(listed, URMA_EXT_QUEUE_JFC, ids.receive_jfc);
  EXPECT_EQ(receive_jfc.completions, 8u);
  EXPECT_EQ(receive_jfc.by_status[URMA_CR_SUCCESS], 7u);
  EXPECT_EQ(receive_jfc.by_status[URMA_CR_LOC_LEN_ERR], 1u);
  EXPECT_EQ(receive_jfc.wakeups, 1u);
}

TEST_F(InspectTest, AnotherProcessReadsTheExactCounters) {
  device_traits();
  run_two("worker", worker([](Worker& worker) {
            work_in_all_ways(worker);
            expect_counters(queues(0), worker.ids());
            expect_counters(queues(static_cast<uint32_t>(::getpid())), worker.ids());
          }),
          "reader", reader([](const Ids& ids) {
            expect_counters(queues(ids.pid), ids);
            uint32_t count = 0;
            EXPECT_EQ(ask([&] { return urma_ext_query_queues(ids.pid, nullptr, &count); }),
                      URMA_SUCCESS);
            EXPECT_EQ(count, 4u);
          }));
}

// A write without a completion record leaves none, and is counted.
TEST_F(InspectTest, UnsignalledRequestsAreCounted) {
  run_one([](Channel&) {
    Worker worker;
    auto* memory = static_cast<char*>(urma_ext_alloc(8192, 0));
    urma_target_seg_t* segment = worker.endpoint.add(memory, 8192);
    urma_target_seg_t* remote = worker.endpoint.import(worker.endpoint.segment_id(segment), true);
    urma_sge_t here = piece(segment, memory, 16), there = piece(remote, memory + 4096, 16);
    urma_jfs_wr_t wr = write_request(worker.self, &here, &there);
    // A device reports requests without a record with the next one that has one.
    std::vector<bool> records = {true, false, false};
    if (!worker.maps) records.push_back(true);
    for (const bool recorded : records) {
      wr.flag.bs.complete_enable = recorded ? 1 : 0;
      worker.endpoint.post(wr);
      if (recorded) wait_for_success(worker.endpoint.send_jfc, 0);
    }
    const auto jetty = Worker::queue(URMA_EXT_QUEUE_JETTY, worker.ids().jetty);
    EXPECT_EQ(jetty.posts, records.size());
    EXPECT_EQ(jetty.completions, records.size());
    EXPECT_EQ(jetty.bytes, 16 * records.size());
    EXPECT_EQ(Worker::queue(URMA_EXT_QUEUE_JFC, worker.ids().send_jfc).completions,
              records.size() - 2);
    worker.endpoint.unimport(remote);
    worker.endpoint.remove(segment);
    EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
    worker.endpoint.close();
  });
}

TEST_F(InspectTest, ProcessesAndTheirSegmentsAreListed) {
  device_traits();
  run_two("worker", worker([](Worker& worker) {
            worker.endpoint.import(worker.endpoint.segment_id(worker.segment), true);
          }),
          "reader", reader([](const Ids& ids) {
            const auto listed = processes();
            ASSERT_EQ(listed.size(), 2u);
            EXPECT_LT(listed[0].pid, listed[1].pid);
            const auto& other = listed[0].pid == ids.pid ? listed[0] : listed[1];
            EXPECT_EQ(other.pid, ids.pid);
            EXPECT_EQ(other.uasid, ids.uasid);
            EXPECT_EQ(other.uid, ::geteuid());
            if (device_traits().maps) {
              EXPECT_EQ(other.slot, ids.segment.token_id >> 16);
            }
            EXPECT_STRNE(other.program, "");
            const uint64_t now = static_cast<uint64_t>(::time(nullptr)) * 1'000'000'000;
            EXPECT_GT(other.start_time_ns, now - 600'000'000'000);
            EXPECT_LT(other.start_time_ns, now + 2'000'000'000);
            uint64_t bytes[2] = {0, 0};
            for (const auto& segment : segments(ids.pid)) {
              EXPECT_EQ(segment.va, ids.segment.va);
              EXPECT_EQ(segment.len, ids.segment.len);
              EXPECT_EQ(segment.token_id, ids.segment.token_id);
              EXPECT_EQ(segment.access, kAllAccess);
              bytes[segment.imported] += segment.part.len;
            }
            EXPECT_EQ(bytes[0], ids.segment.len);
            EXPECT_EQ(bytes[1], ids.segment.len);
          }));
}

TEST_F(InspectTest, SettingsNameTheirOrigin) {
  run_two(
      "worker",
      [](Channel& channel) {
        ::setenv("URMA_SHM_RING_SIZE", "8192", 1);
        ::setenv("URMA_ROCM_IPC", "nonsense", 1);
        worker()(channel);
      },
      "reader", reader([](const Ids& ids) {
        int seen = 0;
        for (const auto& setting : settings(ids.pid)) {
          const std::string name = setting.name;
          EXPECT_STRNE(setting.help, "");
          if (name == "URMA_SHM_RING_SIZE") {
            EXPECT_EQ(setting.origin, URMA_EXT_ORIGIN_ENVIRONMENT);
            EXPECT_STREQ(setting.value, "8192");
            EXPECT_STREQ(setting.fallback, "4096");
            EXPECT_STREQ(setting.range, "4096-1048576");
            ++seen;
          } else if (name == "URMA_ROCM_IPC") {
            EXPECT_EQ(setting.origin, URMA_EXT_ORIGIN_REFUSED);
            EXPECT_STREQ(setting.value, "auto");
            EXPECT_STREQ(setting.given, "nonsense");
            ++seen;
          } else if (name == "URMA_SYSFS_ROOT") {
            EXPECT_EQ(setting.origin, URMA_EXT_ORIGIN_DEFAULT);
            EXPECT_STREQ(setting.value, "/sys/class");
            ++seen;
          }
        }
        EXPECT_EQ(seen, 3);
      }));
}

TEST_F(InspectTest, ProvidersSayWhyTheyAreNotLoaded) {
  ScratchDir modules;
  std::ofstream(modules.path() + "/liburma-broken.so") << "\177ELF and nothing else";
  run_two(
      "worker",
      [&](Channel& channel) {
        ::setenv("URMA_PROVIDER_PATH", modules.path().c_str(), 1);
        worker()(channel);
      },
      "reader", reader([](const Ids& ids) {
        const auto listed = providers(ids.pid);
        ASSERT_EQ(listed.size(), 5u);
        EXPECT_STREQ(listed[0].name, "shm");
        EXPECT_EQ(listed[0].loaded, 1u);
        EXPECT_EQ(listed[0].devices, 1u);
        EXPECT_STREQ(listed[0].reason, "");
        EXPECT_NE(std::string(listed[0].path).find("liburma-shm.so"), std::string::npos);
        EXPECT_STREQ(listed[1].name, "rocm");
        EXPECT_STREQ(listed[2].name, "tcp");
        EXPECT_STREQ(listed[3].name, "verbs");
        for (const int i : {1, 2, 3}) {
          EXPECT_EQ(listed[i].loaded, 1u);
          // Most machines have neither a GPU nor an RDMA device; which addresses count is a
          // setting.
          EXPECT_TRUE(listed[i].devices != 0 || listed[i].reason[0] != '\0');
        }
        EXPECT_STREQ(listed[4].name, "liburma-broken.so");
        EXPECT_EQ(listed[4].loaded, 0u);
        EXPECT_STRNE(listed[4].reason, "");
      }));
}

TEST_F(InspectTest, AProviderThatDoesNotStartSaysWhy) {
  run_one([dir = runtime_dir()](Channel&) {
    EXPECT_EQ(::chmod(dir.c_str(), 0755), 0);
    urma_init(nullptr);
    const auto listed = providers(0);
    ASSERT_EQ(listed.size(), 4u);
    EXPECT_STREQ(listed[0].name, "rocm");
    EXPECT_STREQ(listed[1].name, "tcp");
    EXPECT_STREQ(listed[2].name, "verbs");
    EXPECT_STREQ(listed[3].name, "shm");
    EXPECT_EQ(listed[3].loaded, 0u);
    EXPECT_NE(std::string(listed[3].reason).find("mode 0755"), std::string::npos)
        << listed[3].reason;
    urma_uninit();
    EXPECT_EQ(::chmod(dir.c_str(), 0700), 0);
  });
}

TEST_F(InspectTest, CallsOfAnotherProcessAreMeasured) {
  run_two(
      "worker",
      [](Channel& channel) {
        Worker worker;
        channel.send(worker.ids());
        channel.sync();
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(has_nothing(worker.endpoint.send_jfc));
        channel.sync();
        channel.sync();
        worker.endpoint.close();
      },
      "reader",
      [](Channel& channel) {
        const uint32_t pid = channel.receive<Ids>().pid;
        ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
        const auto perf = [pid](urma_ext_perf_op_t op) {
          return ask([=] { return urma_ext_perf(pid, op, nullptr, nullptr); });
        };
        EXPECT_EQ(perf(URMA_EXT_PERF_START), URMA_SUCCESS);
        channel.sync();
        channel.sync();
        EXPECT_EQ(perf(URMA_EXT_PERF_STOP), URMA_SUCCESS);
        uint32_t length = 1;
        char too_small[1];
        EXPECT_EQ(ask([&] { return urma_ext_perf(pid, URMA_EXT_PERF_SHOW, too_small, &length); }),
                  URMA_EINVAL);
        std::string table(length, '\0');
        EXPECT_EQ(
            ask([&] { return urma_ext_perf(pid, URMA_EXT_PERF_SHOW, table.data(), &length); }),
            URMA_SUCCESS);
        const size_t row = table.find("UB_POLL_JFC");
        ASSERT_NE(row, std::string::npos) << table;
        EXPECT_EQ(std::atoi(table.c_str() + row + std::strlen("UB_POLL_JFC")), 3) << table;
        channel.sync();
        EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
      });
}

TEST_F(InspectTest, EndedProcessesAreNotListedAndStoppedOnesDoNotAnswer) {
  Child worker_child("worker", worker());
  const auto ids = worker_child.channel().receive<Ids>();
  Child reader_child("reader", [ids](Channel& channel) {
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    EXPECT_TRUE(is_listed(ids.pid));
    channel.sync();
    channel.sync();  // it has stopped
    urma_ext_queue_t queue;
    uint32_t count = 1;
    EXPECT_EQ(urma_ext_query_queues(ids.pid, &queue, &count), URMA_ETIMEOUT);
    EXPECT_EQ(count, 1u);
    EXPECT_TRUE(is_listed(ids.pid));
    channel.sync();
    channel.sync();
    EXPECT_FALSE(is_listed(ids.pid));
    EXPECT_EQ(urma_ext_query_queues(ids.pid, &queue, &count), URMA_ENOPERM);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
  reader_child.channel().sync();
  worker_child.stop();
  reader_child.channel().sync();
  reader_child.channel().sync();
  worker_child.kill();
  reader_child.channel().sync();
  reader_child.expect_success();
}

TEST_F(InspectTest, AForkedChildIsRefused) {
  run_one([](Channel&) {
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      uint32_t count = 0;
      const bool refused = urma_ext_query_settings(0, nullptr, &count) == URMA_FAIL &&
                           urma_ext_query_providers(0, nullptr, &count) == URMA_FAIL &&
                           urma_ext_query_queues(0, nullptr, &count) == URMA_FAIL &&
                           urma_ext_perf(0, URMA_EXT_PERF_START, nullptr, nullptr) == URMA_FAIL;
      ::_exit(refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

TEST_F(InspectTest, WrongArgumentsAreRefused) {
  run_one([](Channel&) {
    uint32_t count = 1;
    EXPECT_EQ(urma_ext_query_queues(0, nullptr, &count), URMA_EINVAL);
    EXPECT_EQ(urma_ext_query_queues(0, nullptr, nullptr), URMA_EINVAL);
    count = 0;
    EXPECT_EQ(urma_ext_list_processes(nullptr, &count), URMA_FAIL);  // before urma_init
    EXPECT_EQ(urma_ext_query_queues(0, nullptr, &count), URMA_FAIL);
    EXPECT_EQ(urma_ext_query_settings(0, nullptr, &count), URMA_SUCCESS);
    EXPECT_GT(count, 5u);
    ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
    count = 0;
    EXPECT_EQ(urma_ext_query_queues(1, nullptr, &count), URMA_ENOPERM);
    EXPECT_EQ(urma_ext_perf(0, static_cast<urma_ext_perf_op_t>(3), nullptr, nullptr), URMA_EINVAL);
    EXPECT_EQ(urma_ext_perf(0, URMA_EXT_PERF_SHOW, nullptr, nullptr), URMA_EINVAL);
    EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
  });
}

}  // namespace
}  // namespace urma_test
