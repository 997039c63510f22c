// SPDX-License-Identifier: MIT
//
// A successful post or poll makes no system call, allocates nothing and logs nothing. The user
// dispatch of the kernel catches system calls, and the malloc of this program catches allocations.
// Writes of a device's own library to the device do not count: some devices have such a doorbell.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/event_party.h"
#include "test/process/footprint.h"
#include "test/process/harness.h"
#include "urma_ext.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#define SYSCALL_DISPATCH_FILTER_ALLOW 0
#define SYSCALL_DISPATCH_FILTER_BLOCK 1
#endif

extern "C" void* __libc_malloc(size_t size);

namespace {

thread_local bool counting = false;
std::atomic<int> allocations{0};
std::atomic<int> system_calls{0};
volatile char dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
std::array<bool, 1024> is_device = {};  // by descriptor

}  // namespace

extern "C" ssize_t write(int fd, const void* data, size_t bytes) {
  const char before = dispatch;
  if (fd >= 0 && static_cast<size_t>(fd) < is_device.size() && is_device[fd]) {
    dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
  }
  const ssize_t written = ::syscall(SYS_write, fd, data, bytes);
  dispatch = before;
  return written;
}

extern "C" void* malloc(size_t size) {
  if (counting) allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}

namespace urma_test {
namespace {

constexpr int kWarmUp = 300;
constexpr int kRounds = 2000;

// The call is not made: its caller gets -1, and the call is counted.
void on_sigsys(int, siginfo_t* info, void*) {
  dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
  system_calls.fetch_add(1);
  std::fprintf(stderr, "system call %d on the short path\n", info->si_syscall);
}

// Counts the calls and allocations of this thread during its lifetime.
class Watch {
 public:
  Watch() {
    find_devices();
    struct sigaction action = {};
    action.sa_sigaction = on_sigsys;
    action.sa_flags = SA_SIGINFO;
    EXPECT_EQ(::sigaction(SIGSYS, &action, nullptr), 0);
    supported_ = ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &dispatch) == 0;
    allocations = 0;
    system_calls = 0;
    counting = true;
    dispatch = SYSCALL_DISPATCH_FILTER_BLOCK;
  }
  ~Watch() {
    dispatch = SYSCALL_DISPATCH_FILTER_ALLOW;
    counting = false;
    if (supported_) ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
  }
  bool supported() const { return supported_; }

 private:
  static void find_devices() {
    is_device.fill(false);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
      const auto fd = static_cast<size_t>(std::stoul(entry.path().filename().string()));
      if (target.starts_with("/dev/infiniband/") && fd < is_device.size()) is_device[fd] = true;
    }
  }

  bool supported_;
};

bool can_dispatch() {
  if (::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &dispatch) != 0) return false;
  return ::prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) == 0;
}

// Kernels with software RDMA devices may lack the dispatch. Goes after everything that is checked
// without it.
#define SKIP_WHERE_CALLS_ARE_NOT_SEEN()                                                \
  if (!device_traits().maps && !can_dispatch())                                        \
  GTEST_SKIP() << "allocates nothing; cannot count system calls without syscall user " \
                  "dispatch (Linux 5.11)"

struct Loop {
  Endpoint endpoint;
  std::vector<char> memory = std::vector<char>(4096);
  urma_target_seg_t* segment;
  urma_target_jetty_t* self;

  explicit Loop(const Config& config) : endpoint(config) {
    segment = endpoint.add(memory.data(), memory.size());
    self = endpoint.import(endpoint.queue_id());
  }
};

// Sends one message to itself, without any work of gtest. True on success.
bool round_trip(Loop& loop, uint32_t size) {
  urma_sge_t into = {reinterpret_cast<uint64_t>(loop.memory.data()), 2048, loop.segment, nullptr};
  urma_jfr_wr_t receive = {{&into, 1}, 7, nullptr};
  urma_jfr_wr_t* bad_receive;
  urma_sge_t from = {reinterpret_cast<uint64_t>(loop.memory.data()) + 2048, size, loop.segment,
                     nullptr};
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND;
  wr.flag.bs.complete_enable = 1;
  wr.tjetty = loop.self;
  wr.send.src = {&from, 1};
  urma_jfs_wr_t* bad;
  Endpoint& endpoint = loop.endpoint;
  const bool posted =
      endpoint.jetty != nullptr
          ? urma_post_jetty_recv_wr(endpoint.jetty, &receive, &bad_receive) == URMA_SUCCESS &&
                urma_post_jetty_send_wr(endpoint.jetty, &wr, &bad) == URMA_SUCCESS
          : urma_post_jfr_wr(endpoint.jfr, &receive, &bad_receive) == URMA_SUCCESS &&
                urma_post_jfs_wr(endpoint.jfs, &wr, &bad) == URMA_SUCCESS;
  if (!posted) return false;
  urma_cr_t received = {}, sent = {};
  // The first round waits for the ring to be opened.
  for (long polls = 0; polls < 200'000'000; ++polls) {
    if (urma_poll_jfc(endpoint.receive_jfc, 1, &received) == 1) break;
  }
  while (urma_poll_jfc(endpoint.send_jfc, 1, &sent) == 0) {
  }
  return received.status == URMA_CR_SUCCESS && sent.status == URMA_CR_SUCCESS &&
         received.completion_len == size;
}

struct Queues {
  bool jetty;
  bool lock_free;
  bool shared;  // another thread has used them before
};

class ShortPathTest : public ProcessTest, public testing::WithParamInterface<Queues> {};

TEST_P(ShortPathTest, MakesNoCallAndAllocatesNothing) {
  run_one([queues = GetParam()](Channel&) {
    Config config;
    config.jetty = queues.jetty;
    config.lock_free = queues.lock_free;
    Loop loop(config);
    if (queues.shared) std::thread([&] { EXPECT_TRUE(round_trip(loop, 8)); }).join();
    // The service thread handles what waited for the ring, under the lock of the queue.
    const auto looked_after = Clock::now() + patience(milliseconds(100));
    for (int i = 0; i < kWarmUp || Clock::now() < looked_after; ++i) {
      ASSERT_TRUE(round_trip(loop, 8));
    }
    int failed = 0;
    bool supported;
    {
      Watch watch;
      supported = watch.supported();
      for (int i = 0; i < kRounds; ++i) failed += round_trip(loop, i % 500) ? 0 : 1;
    }
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(system_calls, 0);
    EXPECT_TRUE(supported || !traits_of(loop.endpoint.ctx).maps)
        << "the kernel cannot dispatch system calls to user space";
    loop.endpoint.close();
  });
  SKIP_WHERE_CALLS_ARE_NOT_SEEN();
}

// One request and its completion, without any work of gtest. True on success.
bool complete(Endpoint& endpoint, urma_jfs_wr_t* wr) {
  urma_jfs_wr_t* bad;
  if (urma_post_jetty_send_wr(endpoint.jetty, wr, &bad) != URMA_SUCCESS) return false;
  urma_cr_t record = {};
  for (long polls = 0; polls < 200'000'000; ++polls) {
    if (urma_poll_jfc(endpoint.send_jfc, 1, &record) == 1) break;
  }
  return record.status == URMA_CR_SUCCESS && record.opcode != URMA_CR_OPC_SEND;
}

// In mapped memory: nothing waits, so the service thread does not take the lock of the queue.
TEST_F(ProcessTest, OneSidedRequestsMakeNoCallAndAllocateNothing) {
  run_one([](Channel&) {
    constexpr uint64_t kBytes = 64 << 10;
    Endpoint endpoint;
    auto* memory = static_cast<char*>(urma_ext_alloc(kBytes, 0));
    ASSERT_NE(memory, nullptr);
    urma_target_seg_t* segment = endpoint.add(memory, kBytes);
    urma_target_seg_t* remote = endpoint.import(endpoint.segment_id(segment), true);
    const DeviceTraits traits = traits_of(endpoint.ctx);
    ASSERT_EQ(remote->mva != 0, traits.maps);
    urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
    urma_sge_t here = piece(segment, memory, 8), wide = piece(segment, memory, 16);
    urma_sge_t there[] = {piece(remote, memory + 4096, 8), piece(remote, memory + 8192, 8)};
    const auto operand = reinterpret_cast<uint64_t>(memory + 1024);
    std::vector<urma_jfs_wr_t> requests = {
        write_request(self, &here, there),        read_request(self, &here, there),
        write_atomic_request(self, &here, there), write_notify_request(self, &here, there, 1),
        cas_request(self, &here, there, 0, 1),    nop_request(self)};
    if (traits.max_atomic == 16) {
      requests.push_back(cas_request(self, &wide, there, operand, operand));
      requests.push_back(write_atomic_request(self, &wide, there));
    }
    // A request that a device lacks takes several of its requests, which the service thread
    // handles.
    const std::vector<urma_opcode_t> native = {URMA_OPC_FADD, URMA_OPC_FSUB};
    const std::vector<urma_opcode_t> all = {URMA_OPC_SWAP, URMA_OPC_FADD, URMA_OPC_FSUB,
                                            URMA_OPC_FAND, URMA_OPC_FOR,  URMA_OPC_FXOR};
    for (const urma_opcode_t opcode : traits.maps ? all : native) {
      requests.push_back(fetch_request(opcode, self, &here, there, 1));
    }
    for (urma_jfs_wr_t& wr : requests) {
      SCOPED_TRACE(static_cast<int>(wr.opcode));
      for (int i = 0; i < kWarmUp; ++i) ASSERT_TRUE(complete(endpoint, &wr));
      int failed = 0;
      {
        Watch watch;
        for (int i = 0; i < kRounds; ++i) failed += complete(endpoint, &wr) ? 0 : 1;
      }
      EXPECT_EQ(failed, 0);
      EXPECT_EQ(allocations, 0);
      EXPECT_EQ(system_calls, 0);
    }
    endpoint.unimport(remote);
    endpoint.remove(segment);
    EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
    endpoint.close();
  });
  SKIP_WHERE_CALLS_ARE_NOT_SEEN();
}

// Returns after what the service thread does, and what that makes it do next.
void wait_for_service(const Endpoint& endpoint) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(urma_delete_jfce(urma_create_jfce(endpoint.ctx)), URMA_SUCCESS);
  }
}

// Large messages too, from memory that all may read, once it is mapped.
TEST_F(ProcessTest, LargeMessagesMakeNoCallAndAllocateNothing) {
  run_one([](Channel&) {
    constexpr uint64_t kBytes = 64 << 10;
    OwnedEndpoint endpoint;
    auto* memory = static_cast<char*>(urma_ext_alloc(2 * kBytes, 0));
    ASSERT_NE(memory, nullptr);
    urma_target_seg_t* segment = endpoint.add(memory, 2 * kBytes);
    urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
    urma_sge_t from = piece(segment, memory, kBytes),
               into = piece(segment, memory + kBytes, kBytes);
    urma_jfs_wr_t wr = send_request(self, &from);
    urma_jfs_wr_t* bad;
    urma_jfr_wr_t receive = {{&into, 1}, 0, nullptr}, *bad_receive;
    urma_cr_t received = {}, sent = {};
    const auto round_trip = [&] {
      if (urma_post_jetty_recv_wr(endpoint.jetty, &receive, &bad_receive) != URMA_SUCCESS ||
          urma_post_jetty_send_wr(endpoint.jetty, &wr, &bad) != URMA_SUCCESS) {
        return false;
      }
      while (urma_poll_jfc(endpoint.receive_jfc, 1, &received) == 0) {
      }
      while (urma_poll_jfc(endpoint.send_jfc, 1, &sent) == 0) {
      }
      return received.completion_len == kBytes && sent.status == URMA_CR_SUCCESS;
    };
    for (int i = 0; i < kWarmUp; ++i) ASSERT_TRUE(round_trip());
    const bool maps = traits_of(endpoint.ctx).maps;
    for (const auto limit = Clock::now() + patience(seconds(10));
         maps && count_mappings_of(memory) == 1;) {
      ASSERT_LT(Clock::now(), limit) << "the memory is not mapped";
      ASSERT_TRUE(round_trip());
    }
    wait_for_service(endpoint);
    int failed = 0;
    {
      Watch watch;
      for (int i = 0; i < kRounds; ++i) failed += round_trip() ? 0 : 1;
    }
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(system_calls, 0);
    endpoint.remove(segment);
    EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
  });
  SKIP_WHERE_CALLS_ARE_NOT_SEEN();
}

// A program that waits often arms and waits without a call if its message is there, or comes while
// it looks: but for emptying its sockets once in a while.
TEST_F(ProcessTest, WaitsThatFindTheirMessageMakeNoCall) {
  SKIP_UNLESS_SHARED_MEMORY("processes make no call for a message");
  if (!can_dispatch()) GTEST_SKIP() << "no syscall user dispatch here (Linux 5.11)";
  constexpr int kWaits = 50;
  const auto sleeper = [](Channel& channel) {
    Party party(channel);
    urma_jfc_t* const jfc = party.endpoint.receive_jfc;
    int calls = 0, found = 0;
    for (int i = 0; i < kWarmUp + kWaits; ++i) {
      party.post_receive();
      const int before = calls;
      urma_jfc_t* woken = nullptr;
      urma_status_t armed;
      int events;
      {
        Watch watch;
        armed = urma_rearm_jfc(jfc, false);
      }
      calls += system_calls;
      channel.send('s');
      channel.receive<char>();
      {
        Watch watch;
        events = urma_wait_jfc(party.endpoint.jfce, 1, kForEver, &woken);
      }
      calls += system_calls;
      if (i < kWarmUp) calls = before;
      found += armed == URMA_SUCCESS && events == 1 ? 1 : 0;
      party.ack(jfc);
      EXPECT_EQ(drain(jfc), 1);
      channel.receive<char>();
    }
    EXPECT_EQ(found, kWarmUp + kWaits);
    // Also, its locks may be held by a thread that does not run.
    EXPECT_LE(calls, 3);
  };
  const auto peer = [](Channel& channel) {
    Party party(channel, Config());
    for (int i = 0; i < kWarmUp + kWaits; ++i) {
      channel.receive<char>();
      party.send(8);
      channel.send('p');
      wait_for_success(party.endpoint.send_jfc, 0);
      channel.send('d');
    }
  };
  run_two("sleeper", sleeper, "peer", peer);
}

// Of a segment that was imported before: the import, a READ, and the end of the import.
TEST_F(ProcessTest, AnImportSeenBeforeMakesNoCall) {
  SKIP_UNLESS_SHARED_MEMORY("grants are kept after an import");
  run_one([](Channel&) {
    constexpr uint64_t kBytes = 64 << 10;
    OwnedEndpoint endpoint;
    auto* memory = static_cast<char*>(urma_ext_alloc(kBytes, 0));
    ASSERT_NE(memory, nullptr);
    urma_target_seg_t* segment = endpoint.add(memory, kBytes);
    urma_target_jetty_t* self = endpoint.import(endpoint.queue_id());
    urma_seg_t part = segment->seg;
    part.len = 2048;
    urma_sge_t here = piece(segment, memory, 8);
    // Several parts, in turn.
    const auto use = [&](int round) {
      part.ubva.va = segment->seg.ubva.va + static_cast<uint64_t>(round % 30) * part.len;
      urma_target_seg_t* remote = urma_import_seg(endpoint.ctx, &part, nullptr, 0, {});
      if (remote == nullptr) return false;
      urma_sge_t there = piece(remote, part.ubva.va, 8);
      urma_jfs_wr_t wr = read_request(self, &here, &there);
      const bool done = complete(endpoint, &wr);
      return urma_unimport_seg(remote) == URMA_SUCCESS && done;
    };
    for (int i = 0; i < kWarmUp; ++i) ASSERT_TRUE(use(i));
    wait_for_service(endpoint);
    int failed = 0;
    {
      Watch watch;
      for (int i = 0; i < kRounds; ++i) failed += use(i) ? 0 : 1;
    }
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(system_calls, 0);
    endpoint.remove(segment);
    EXPECT_EQ(urma_ext_free(memory), URMA_SUCCESS);
  });
  SKIP_WHERE_CALLS_ARE_NOT_SEEN();
}

// A send to an armed JFC makes one system call, the wakeup; none before, and none after. With a
// device, the receiver's side wakes.
TEST_F(ProcessTest, AnEventCostsItsSenderOneCall) {
  run_one([](Channel&) {
    Config config;
    config.events = true;
    Loop loop(config);
    const bool maps = traits_of(loop.endpoint.ctx).maps;
    for (int i = 0; i < kWarmUp; ++i) ASSERT_TRUE(round_trip(loop, 8));
    urma_sge_t into = piece(loop.segment, loop.memory.data(), 2048);
    urma_jfr_wr_t receive = {{&into, 1}, 7, nullptr};
    urma_jfr_wr_t* bad_receive;
    urma_sge_t from = piece(loop.segment, loop.memory.data() + 2048, 8);
    urma_jfs_wr_t wr = send_request(loop.self, &from);
    urma_jfs_wr_t* bad;
    Endpoint& endpoint = loop.endpoint;
    for (int i = 0; i < 50; ++i) {
      for (const bool armed : {false, true}) {
        ASSERT_EQ(urma_post_jetty_recv_wr(endpoint.jetty, &receive, &bad_receive), URMA_SUCCESS);
        ASSERT_TRUE(!armed || urma_rearm_jfc(endpoint.receive_jfc, false) == URMA_SUCCESS);
        wait_for_service(endpoint);
        {
          Watch watch;
          urma_post_jetty_send_wr(endpoint.jetty, &wr, &bad);
        }
        EXPECT_EQ(system_calls, armed && maps ? 1 : 0);
        wait_for_success(endpoint.receive_jfc, 7);
        wait_for_success(endpoint.send_jfc, 0);
        urma_jfc_t* jfc = nullptr;
        ASSERT_EQ(urma_wait_jfc(endpoint.jfce, 1, 0, &jfc), armed ? 1 : 0);
        uint32_t events = 1;
        if (armed) urma_ack_jfc(&jfc, &events, 1);
      }
    }
    loop.endpoint.close();
  });
  SKIP_WHERE_CALLS_ARE_NOT_SEEN();
}

// What would be found: the checks themselves work.
TEST_F(ProcessTest, TheWatchSeesCallsAndAllocations) {
  run_one([](Channel&) {
    void* volatile kept;
    {
      Watch watch;
      kept = malloc(100);
      ::getppid();
    }
    std::free(kept);
    EXPECT_EQ(allocations, 1);
    EXPECT_EQ(system_calls, can_dispatch() ? 1 : 0);
  });
  SKIP_WHERE_CALLS_ARE_NOT_SEEN();
}

INSTANTIATE_TEST_SUITE_P(Queues, ShortPathTest,
                         testing::Values(Queues{true, false, false}, Queues{true, true, false},
                                         Queues{true, false, true}, Queues{false, false, false},
                                         Queues{false, true, false}, Queues{false, false, true}),
                         [](const auto& info) {
                           const char* const use = info.param.lock_free ? "LockFree" : "Ordinary";
                           return std::string(info.param.jetty ? "Jetty" : "JfsJfr") +
                                  (info.param.shared ? "Shared" : use);
                         });

}  // namespace
}  // namespace urma_test
