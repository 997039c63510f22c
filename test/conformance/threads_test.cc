// SPDX-License-Identifier: MIT
//
// Many threads on one queue: every completion comes once, in the order in which its thread posted.
// Also: deleting an object waits for the events of this object, and for nothing else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "test/conformance/clients.h"
#include "test/process/configs.h"

namespace urma_test {
namespace {

constexpr uint32_t kThreads = 8;
constexpr uint32_t kEach = kSanitized ? 400 : 4000;  // requests of one thread
constexpr uint32_t kBatch = 16;
constexpr uint32_t kMessages = kThreads * kEach / 4;

// The kind of a request, by its number within its thread; a READ for what a device lacks.
constexpr urma_opcode_t kKinds[] = {URMA_OPC_SEND, URMA_OPC_WRITE, URMA_OPC_READ, URMA_OPC_FADD};
urma_opcode_t kind_of(uint32_t number, const DeviceTraits& device) {
  const urma_opcode_t kind = kKinds[number % 4];
  return kind == URMA_OPC_FADD && device.max_atomic == 0 ? URMA_OPC_READ : kind;
}

uint64_t name_of(uint32_t thread, uint32_t number) { return uint64_t{thread} << 32 | number; }
uint32_t thread_of(uint64_t name) { return static_cast<uint32_t>(name >> 32); }
uint32_t number_of(uint64_t name) { return static_cast<uint32_t>(name); }

// What all threads together have seen.
class Ledger {
 public:
  // `last` holds what the calling thread has seen of each poster: records come to it in the order
  // of posting, whatever other threads take in between.
  void enter(uint64_t name, std::array<int64_t, kThreads>* last) {
    const uint32_t thread = thread_of(name), number = number_of(name);
    if (thread >= kThreads || number >= kEach) {
      ++wrong_;
      return;
    }
    if (seen_[thread * kEach + number].fetch_add(1) != 0) ++wrong_;
    if ((*last)[thread] >= static_cast<int64_t>(number)) ++disordered_;
    (*last)[thread] = number;
    ++total_;
  }
  uint32_t total() const { return total_; }
  void expect(uint32_t total) const {
    EXPECT_EQ(total_, total);
    EXPECT_EQ(wrong_, 0u);
    EXPECT_EQ(disordered_, 0u);
  }

 private:
  std::unique_ptr<std::atomic<uint8_t>[]> seen_ { new std::atomic<uint8_t>[ kThreads * kEach ]() };
  std::atomic<uint32_t> total_{0}, wrong_{0}, disordered_{0};
};

// Shared memory of the target: a counter, a word for each thread that it writes, and one that it
// reads.
struct Board {
  alignas(64) uint64_t counter;
  uint64_t written[kThreads];
  uint64_t read[kThreads];
};

// The data of a thread on the posting side.
struct Slot {
  uint64_t out, in;
};

void together(const std::function<void(uint32_t)>& body) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Takes what is there. Only counts failures: an exception would end the process silently.
class Poller {
 public:
  Poller(urma_jfc_t* jfc, std::function<uint64_t(const urma_cr_t&)> name, Ledger* ledger)
      : jfc_(jfc), name_(std::move(name)), ledger_(ledger) {
    last_.fill(-1);
  }
  bool poll() {
    urma_cr_t records[kBatch];
    const int n = urma_poll_jfc(jfc_, kBatch, records);
    for (int i = 0; i < n; ++i) {
      if (records[i].status != URMA_CR_SUCCESS) ++failed;
      ledger_->enter(name_(records[i]), &last_);
    }
    return n > 0;
  }

  static std::atomic<uint32_t> failed;

 private:
  urma_jfc_t* jfc_;
  std::function<uint64_t(const urma_cr_t&)> name_;
  Ledger* ledger_;
  std::array<int64_t, kThreads> last_;
};
std::atomic<uint32_t> Poller::failed{0};

Config config_of_threads(urma_transport_mode_t mode) {
  Config config = config_of(mode);
  config.send_depth = 256;
  // Receives are posted again while messages arrive, or all in advance if messages do not wait.
  config.receive_depth = device_traits().immediates ? 256 : kMessages;
  return config;
}

urma_jfs_wr_t request(urma_opcode_t kind, uint64_t name, urma_target_jetty_t* queue,
                      urma_sge_t* here, urma_sge_t* there) {
  switch (kind) {
    case URMA_OPC_SEND: {
      urma_jfs_wr_t wr = send_request(queue, here, name);
      wr.flag.bs.inline_flag = URMA_INLINE_ENABLE;
      return wr;
    }
    case URMA_OPC_WRITE: {
      urma_jfs_wr_t wr = write_request(queue, here, there, name);
      wr.flag.bs.inline_flag = URMA_INLINE_ENABLE;
      return wr;
    }
    case URMA_OPC_READ:
      return read_request(queue, here, there, name);
    default:
      return add_request(queue, here, there, 1, name);
  }
}

void post_all(Endpoint& endpoint, urma_target_jetty_t* queue, urma_target_seg_t* remote) {
  std::array<Slot, kThreads> slots = {};
  urma_target_seg_t* local = endpoint.add(slots.data(), sizeof(slots), URMA_ACCESS_LOCAL_ONLY);
  const uint64_t board = remote->seg.ubva.va;
  const DeviceTraits device = traits_of(endpoint.ctx);
  Ledger completed;
  std::atomic<uint32_t> refused{0};
  const auto deadline = Clock::now() + patience(seconds(30));
  together([&](uint32_t thread) {
    Poller poller(
        endpoint.send_jfc, [](const urma_cr_t& cr) { return cr.user_ctx; }, &completed);
    Slot& slot = slots[thread];
    for (uint32_t number = 0; number < kEach; ++number) {
      const uint64_t name = name_of(thread, number);
      const urma_opcode_t kind = kind_of(number, device);
      const bool sends = kind == URMA_OPC_SEND || kind == URMA_OPC_WRITE;
      slot.out = name;
      urma_sge_t here = piece(sends ? nullptr : local, sends ? &slot.out : &slot.in, 8);
      const uint64_t at = kind == URMA_OPC_WRITE  ? offsetof(Board, written) + 8 * thread
                          : kind == URMA_OPC_READ ? offsetof(Board, read) + 8 * thread
                                                  : offsetof(Board, counter);
      urma_sge_t there = piece(remote, board + at, 8);
      urma_jfs_wr_t wr = request(kind, name, queue, &here, &there);
      urma_jfs_wr_t* bad;
      urma_status_t status;
      while ((status = endpoint.post(&wr, &bad)) == URMA_ENOMEM && Clock::now() < deadline) {
        if (!poller.poll()) ::sched_yield();
      }
      if (status != URMA_SUCCESS) ++refused;
    }
    while (completed.total() < kThreads * kEach && Clock::now() < deadline) {
      if (!poller.poll()) ::sched_yield();
    }
  });
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(Poller::failed, 0u);
  completed.expect(kThreads * kEach);
  EXPECT_TRUE(has_nothing(endpoint.send_jfc));
}

// Every receive has its own place, returned as soon as it has been checked. `ready` is called once
// all are posted.
void receive_all(Endpoint& endpoint, const std::function<void()>& ready) {
  std::vector<uint64_t> places(endpoint.config.receive_depth);
  urma_target_seg_t* segment = endpoint.add(places.data(), places.size() * 8);
  const auto post = [&](uint64_t place) {
    urma_sge_t into = piece(segment, &places[place], 8);
    urma_jfr_wr_t wr = {{&into, 1}, place, nullptr};
    urma_jfr_wr_t* bad;
    return endpoint.post_receive(&wr, &bad);
  };
  for (uint64_t i = 0; i < places.size(); ++i) EXPECT_EQ(post(i), URMA_SUCCESS);
  ready();
  Ledger received;
  std::atomic<uint32_t> refused{0};
  const auto deadline = Clock::now() + patience(seconds(30));
  together([&](uint32_t) {
    const auto name = [&](const urma_cr_t& cr) {
      const uint64_t name = places[cr.user_ctx];
      if (post(cr.user_ctx) != URMA_SUCCESS) ++refused;
      return name;
    };
    Poller poller(endpoint.receive_jfc, name, &received);
    while (received.total() < kMessages && Clock::now() < deadline) {
      if (!poller.poll()) ::sched_yield();
    }
  });
  EXPECT_EQ(refused, 0u);
  EXPECT_EQ(Poller::failed, 0u);
  received.expect(kMessages);
}

class Threads : public ProcessTest, public testing::WithParamInterface<urma_transport_mode_t> {};

TEST_P(Threads, ShareOneJettyAndItsCompletions) {
  const urma_transport_mode_t mode = GetParam();
  const Config config = config_of_threads(mode);
  run_two(
      "sender",
      [mode, &config](Channel& channel) {
        OwnedEndpoint endpoint(config);
        urma_target_jetty_t* queue = endpoint.import(channel.swap(endpoint.queue_id()));
        if (mode == URMA_TM_RC) endpoint.bind(queue);
        urma_target_seg_t* remote = endpoint.import(channel.receive<SegmentId>());
        channel.sync();
        post_all(endpoint, queue, remote);
        channel.sync();
      },
      "receiver",
      [mode, &config](Channel& channel) {
        OwnedEndpoint endpoint(config);
        urma_target_jetty_t* queue = endpoint.import(channel.swap(endpoint.queue_id()));
        if (mode == URMA_TM_RC) endpoint.bind(queue);
        auto board = std::make_unique<Board>();
        channel.send(endpoint.segment_id(endpoint.add(board.get(), sizeof(*board))));
        receive_all(endpoint, [&channel] { channel.sync(); });
        channel.sync();
        EXPECT_EQ(board->counter,
                  traits_of(endpoint.ctx).max_atomic == 0 ? 0 : kThreads * kEach / 4);
        for (uint32_t i = 0; i < kThreads; ++i) {
          EXPECT_EQ(board->written[i], name_of(i, kEach - 3));  // the last of its thread
        }
      });
}

INSTANTIATE_TEST_SUITE_P(All, Threads, testing::Values(URMA_TM_RM, URMA_TM_RC),
                         [](const auto& info) { return info.param == URMA_TM_RM ? "Rm" : "Rc"; });

// -------------------------------------------------------------------------------------------------
// Deleting waits for acknowledgements
// -------------------------------------------------------------------------------------------------

using DeleteTest = ProcessTest;

// Runs `remove` in a thread: it must not return before `acknowledge`, and must return after it.
void expect_to_wait(const std::function<urma_status_t()>& remove,
                    const std::function<void()>& acknowledge) {
  std::atomic<bool> gone{false};
  urma_status_t status = URMA_FAIL;
  std::thread thread([&] {
    status = remove();
    gone = true;
  });
  // It may not have started yet; then this proves less but never fails wrongly.
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(gone);
    ::sched_yield();
  }
  acknowledge();
  thread.join();
  EXPECT_EQ(status, URMA_SUCCESS);
}

urma_jfc_t* create_jfc(Endpoint& endpoint) {
  urma_jfc_cfg_t cfg = endpoint.send_jfc->jfc_cfg;
  urma_jfc_t* jfc = urma_create_jfc(endpoint.ctx, &cfg);
  EXPECT_NE(jfc, nullptr);
  return jfc;
}

urma_jfr_t* create_jfr(Endpoint& endpoint, urma_jfc_t* jfc, bool non_blocking = false) {
  urma_jfr_cfg_t cfg = endpoint.jfr->jfr_cfg;
  cfg.id = 0;
  cfg.jfc = jfc;
  cfg.flag.bs.non_blocking = non_blocking ? 1 : 0;
  urma_jfr_t* jfr = urma_create_jfr(endpoint.ctx, &cfg);
  EXPECT_NE(jfr, nullptr);
  return jfr;
}

// Sends itself a message through a JFR, so that its JFC raises the event it was armed for.
void raise_event(Endpoint& endpoint, urma_jfc_t* jfc, urma_target_seg_t* segment, char* memory) {
  urma_jfr_t* jfr = create_jfr(endpoint, jfc);
  urma_sge_t into = piece(segment, memory, 64);
  urma_jfr_wr_t wr = {{&into, 1}, 1, nullptr};
  urma_jfr_wr_t* bad;
  EXPECT_EQ(urma_post_jfr_wr(jfr, &wr, &bad), URMA_SUCCESS);
  EXPECT_EQ(urma_rearm_jfc(jfc, false), URMA_SUCCESS);
  urma_rjfr_t remote = remote_jfr(jfr->jfr_id);
  urma_target_jetty_t* target = urma_import_jfr(endpoint.ctx, &remote, nullptr);
  ASSERT_NE(target, nullptr);
  urma_sge_t here = piece(segment, memory + 64, 8);
  endpoint.post(send_request(target, &here, 2));
  wait_for_success(endpoint.send_jfc, 2);
  urma_jfc_t* fired = nullptr;
  EXPECT_EQ(
      urma_wait_jfc(endpoint.jfce, 1, static_cast<int>(patience(seconds(10)).count()), &fired), 1);
  EXPECT_EQ(fired, jfc);
  EXPECT_EQ(urma_unimport_jfr(target), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);  // its messages are still unpolled
}

TEST_F(DeleteTest, AJfcWaitsForItsOwnEvents) {
  run_one([](Channel&) {
    Config config;
    config.events = true;
    std::vector<char> memory(4096);
    OwnedEndpoint endpoint(config);
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    urma_jfc_t* fired = create_jfc(endpoint);
    urma_jfc_t* quiet = create_jfc(endpoint);
    urma_jfc_t* unasked = create_jfc(endpoint);
    raise_event(endpoint, fired, segment, memory.data());
    // Neither an event of another object holds these up, nor that one of them is armed.
    EXPECT_EQ(urma_rearm_jfc(quiet, false), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(quiet), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(unasked), URMA_SUCCESS);
    expect_to_wait([&] { return urma_delete_jfc(fired); },
                   [&] {
                     uint32_t one = 1;
                     urma_ack_jfc(&fired, &one, 1);
                   });
  });
}

// Raises JFR_LIMIT at once: fewer receives are posted than this.
void ask_for_limit(urma_jfr_t* jfr) {
  urma_jfr_attr_t attr = {};
  attr.mask = JFR_RX_THRESHOLD;
  attr.rx_threshold = 1;
  EXPECT_EQ(urma_modify_jfr(jfr, &attr), URMA_SUCCESS);
}

TEST_F(DeleteTest, AJfrWaitsForItsOwnAsyncEvents) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    const int flags = ::fcntl(endpoint.ctx->async_fd, F_GETFL);
    EXPECT_EQ(::fcntl(endpoint.ctx->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
    for (const bool non_blocking : {false, true}) {
      SCOPED_TRACE(non_blocking);
      urma_jfr_t* limited = create_jfr(endpoint, endpoint.receive_jfc, non_blocking);
      urma_jfr_t* quiet = create_jfr(endpoint, endpoint.receive_jfc);
      urma_jfr_t* unheard = create_jfr(endpoint, endpoint.receive_jfc);
      ask_for_limit(limited);
      urma_async_event_t event = {};
      EXPECT_EQ(urma_get_async_event(endpoint.ctx, &event), URMA_SUCCESS);
      EXPECT_EQ(event.event_type, URMA_EVENT_JFR_LIMIT);
      EXPECT_EQ(event.element.jfr, limited);
      EXPECT_EQ(event.urma_ctx, endpoint.ctx);
      // An unfetched event goes with its object.
      ask_for_limit(unheard);
      EXPECT_EQ(urma_delete_jfr(unheard), URMA_SUCCESS);
      EXPECT_EQ(urma_delete_jfr(quiet), URMA_SUCCESS);
      urma_async_event_t none = {};
      EXPECT_EQ(urma_get_async_event(endpoint.ctx, &none), URMA_FAIL);
      if (non_blocking) {
        EXPECT_EQ(urma_delete_jfr(limited), URMA_EAGAIN);
        urma_ack_async_event(&event);
        EXPECT_EQ(urma_delete_jfr(limited), URMA_SUCCESS);
      } else {
        expect_to_wait([&] { return urma_delete_jfr(limited); },
                       [&] { urma_ack_async_event(&event); });
      }
    }
  });
}

// Bound to a process that is going to die.
void doomed(Channel& channel) {
  Speaker speaker(config_of(URMA_TM_RC));
  speaker.post_receive(1);
  speaker.endpoint.bind(speaker.endpoint.import(channel.swap(speaker.endpoint.queue_id())));
  wait_for_success(speaker.endpoint.receive_jfc, 1);
  channel.sync();
  channel.receive<char>();  // never comes
}

void survivor(Channel& channel) {
  Speaker speaker(config_of(URMA_TM_RC));
  Endpoint& endpoint = speaker.endpoint;
  urma_jetty_cfg_t cfg = endpoint.jetty->jetty_cfg;
  cfg.id = 0;
  urma_jetty_t* jetty = urma_create_jetty(endpoint.ctx, &cfg);
  urma_jetty_t* quiet = urma_create_jetty(endpoint.ctx, &cfg);
  ASSERT_TRUE(jetty != nullptr && quiet != nullptr);
  QueueId mine = endpoint.queue_id();
  mine.id = jetty->jetty_id.id;
  urma_target_jetty_t* peer = endpoint.import(channel.swap(mine));
  EXPECT_EQ(urma_bind_jetty(jetty, peer), URMA_SUCCESS);
  urma_sge_t here = piece(speaker.out_segment, speaker.out.data(), 8);
  urma_jfs_wr_t wr = send_request(nullptr, &here, 2);
  urma_jfs_wr_t* bad;
  EXPECT_EQ(urma_post_jetty_send_wr(jetty, &wr, &bad), URMA_SUCCESS);
  wait_for_success(endpoint.send_jfc, 2);
  channel.sync();
  urma_async_event_t event = {};
  EXPECT_EQ(urma_get_async_event(endpoint.ctx, &event), URMA_SUCCESS);  // sleeps until then
  EXPECT_EQ(event.event_type, URMA_EVENT_JETTY_ERR);
  EXPECT_EQ(event.element.jetty, jetty);
  EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jetty(quiet), URMA_SUCCESS);
  expect_to_wait([&] { return urma_delete_jetty(jetty); }, [&] { urma_ack_async_event(&event); });
  endpoint.close();
}

TEST_F(DeleteTest, AJettyWaitsForItsOwnAsyncEvents) {
  Child a("survivor", survivor);
  Child b("doomed", doomed);
  introduce<QueueId>(a, b);
  b.channel().sync();
  a.channel().sync();
  b.kill();
  a.expect_success();
}

}  // namespace
}  // namespace urma_test
