// SPDX-License-Identifier: MIT
//
// What tests of the transport between processes are made of. A Node is all that one process has of
// it: a service thread, a slot of the runtime directory, a transport and a context. Two of them in
// one process let a test take each step of both sides itself.
#ifndef TEST_UNIT_LOCAL_HARNESS_H_
#define TEST_UNIT_LOCAL_HARNESS_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "jetty/context.h"
#include "jetty/ops.h"
#include "test/process/harness.h"
#include "urma/base/connection.h"
#include "urma/base/host.h"
#include "urma/core/runtime.h"
#include "urma/core/service_thread.h"
#include "urma/core/settings.h"
#include "urma/providers/local/process_vm_copy.h"
#include "urma/providers/local/protocol.h"
#include "urma/providers/local/receiver.h"
#include "urma/providers/local/ring.h"
#include "urma/providers/local/sender.h"
#include "urma/providers/local/transport.h"
#include "urma/providers/shm/device.h"

namespace urma::local {

using std::chrono::milliseconds;
using std::chrono::seconds;
using urma_test::Clock;
using urma_test::patience;

inline constexpr char kProvider[] = "test";
inline constexpr uint32_t kAllAccess = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

// True once the condition holds, false where it does not within the limit.
template <typename Condition>
bool eventually(const Condition& condition, milliseconds limit = seconds(10)) {
  const auto deadline = Clock::now() + patience(limit);
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Descriptors that this process has open.
inline ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

inline urma_sge_t piece(urma_target_seg_t* segment, const void* data, uint32_t bytes) {
  urma_sge_t sge = {};
  sge.addr = reinterpret_cast<uint64_t>(data);
  sge.len = bytes;
  sge.tseg = segment;
  return sge;
}

// Pages that can go before their owner does.
class Pages {
 public:
  explicit Pages(size_t bytes)
      : data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
        bytes_(bytes) {
    if (data_ == MAP_FAILED) throw std::runtime_error("no memory");
  }
  ~Pages() { unmap(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  char* data() const { return static_cast<char*>(data_); }
  uint32_t bytes() const { return static_cast<uint32_t>(bytes_); }
  void protect(int protection) { EXPECT_EQ(::mprotect(data_, bytes_, protection), 0); }
  void unmap() {
    if (data_ != nullptr) ::munmap(std::exchange(data_, nullptr), bytes_);
  }

 private:
  void* data_;
  const size_t bytes_;
};

// A slot of the runtime directory, with a service thread.
class Host {
 public:
  Host() {
    core::settings().load();
    service_.start(core::settings().text("URMA_SERVICE"));
    service_.run([this] {
      runtime_ = std::make_unique<core::ProcessRuntime>(service_, core::settings(), 0);
    });
  }
  ~Host() {
    service_.run([this] { runtime_.reset(); });
    service_.stop();
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  core::ServiceThread& service() { return service_; }
  Runtime& runtime() { return *runtime_; }
  std::string socket_name() { return runtime().socket_name(runtime().slot(), kProvider); }

  // Returns when the service thread has looked at all that had reached it before.
  void settle() {
    for (int i = 0; i < 3; ++i) service_.run([] {});
  }
  // What the service thread has used of a processor.
  milliseconds service_time() {
    timespec used = {};
    service_.run([&] { ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used); });
    return std::chrono::duration_cast<milliseconds>(seconds(used.tv_sec) +
                                                    std::chrono::nanoseconds(used.tv_nsec));
  }

 private:
  core::ServiceThread service_;
  std::unique_ptr<core::ProcessRuntime> runtime_;
};

// Holds up the service thread of a host while it lives.
class Pause {
 public:
  explicit Pause(Host& host) {
    host.service().post([state = state_] {
      state->held = true;
      while (!state->over) std::this_thread::yield();
    });
    while (!state_->held) std::this_thread::yield();
  }
  ~Pause() { state_->over = true; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  struct State {
    std::atomic<bool> held{false}, over{false};
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// What the nodes made from now on share of their memory; NULL: nothing.
inline SharedPages* pages_of_nodes = nullptr;

// What it makes ends with it, the newest first.
class Node : public Host {
 public:
  Node() {
    static Runtime* current;
    current = &runtime();
    urma_host table = *host();
    table.service = &service();
    table.pages = pages_of_nodes;
    table.runtime = []() -> Runtime* { return current; };
    transport_ = std::make_unique<Transport>(kProvider, table, &copy_);
    const auto eids = static_cast<uint32_t>(runtime().eids().size());
    context_ =
        std::make_unique<Context>(transport_.get(), shm::device_attr(eids), &device_, /*index=*/0);
    context_->ops = &ops_;
  }
  ~Node() {
    while (!made_.empty()) end(made_.back().first);
    context_.reset();
    transport_->stop();
  }

  Transport* transport() { return transport_.get(); }
  urma_jfce_t* make_jfce() { return keep(ops_.create_jfce(context_.get()), ops_.delete_jfce); }
  urma_jfc_t* make_jfc(bool lock_free = false, urma_jfce_t* jfce = nullptr) {
    urma_jfc_cfg_t cfg = {};
    cfg.depth = 1024;
    cfg.jfce = jfce;
    cfg.flag.bs.lock_free = lock_free;
    return keep(ops_.create_jfc(context_.get(), &cfg), ops_.delete_jfc);
  }
  urma_jfs_t* make_jfs(urma_jfc_t* jfc, uint32_t depth, bool lock_free = false) {
    urma_jfs_cfg_t cfg = {};
    cfg.depth = depth;
    cfg.flag.bs.lock_free = lock_free;
    cfg.trans_mode = URMA_TM_RM;
    cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
    cfg.jfc = jfc;
    return keep(ops_.create_jfs(context_.get(), &cfg), ops_.delete_jfs);
  }
  urma_jfr_t* make_jfr(urma_jfc_t* jfc, urma_transport_mode_t mode = URMA_TM_RM) {
    urma_jfr_cfg_t cfg = {};
    cfg.depth = 256;
    cfg.trans_mode = mode;
    cfg.jfc = jfc;
    return keep(ops_.create_jfr(context_.get(), &cfg), ops_.delete_jfr);
  }
  // All segments of a node have one token id.
  urma_target_seg_t* add(void* data, uint64_t bytes, uint32_t access = kAllAccess) {
    if (token_id_ == nullptr) {
      token_id_ = keep(ops_.alloc_token_id(context_.get()), ops_.free_token_id);
    }
    urma_seg_cfg_t cfg = {};
    cfg.va = reinterpret_cast<uint64_t>(data);
    cfg.len = bytes;
    cfg.token_id = token_id_;
    cfg.flag.bs.access = access;
    return keep(ops_.register_seg(context_.get(), &cfg), ops_.unregister_seg);
  }
  urma_target_jetty_t* import(const urma_jfr_id_t& id) {
    urma_rjfr_t jfr = {};
    jfr.jfr_id = id;
    jfr.trans_mode = URMA_TM_RM;
    urma_token_t token = {};
    return keep(ops_.import_jfr(context_.get(), &jfr, &token), ops_.unimport_jfr);
  }
  // NULL where the library has no means for it.
  urma_target_seg_t* try_import(urma_seg_t segment, urma_import_seg_flag_t flag = {}) {
    urma_token_t token = {};
    urma_target_seg_t* imported = ops_.import_seg(context_.get(), &segment, &token, 0, flag);
    return imported != nullptr ? keep(imported, ops_.unimport_seg) : nullptr;
  }
  urma_target_seg_t* import(const urma_seg_t& segment) { return made(try_import(segment)); }
  // Waits until the owner has said what can be mapped; `access` of 0: all that it grants.
  urma_target_seg_t* import_mapped(const urma_seg_t& segment, uint32_t access = 0) {
    urma_import_seg_flag_t flag = {};
    flag.bs.mapping = URMA_SEG_MAPPED;
    flag.bs.access = access;
    return made(try_import(segment, flag));
  }
  // Ends one object before its time.
  void end(const void* object) {
    auto found = std::find_if(made_.begin(), made_.end(),
                              [&](const auto& entry) { return entry.first == object; });
    const std::function<void()> end_it = found->second;
    made_.erase(found);
    end_it();
  }

  // All one-sided requests name a target queue, as RM demands.
  urma_status_t send(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from, uint64_t user_ctx,
                     bool signalled = true) {
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_SEND;
    wr.send.src = {&from, 1};
    return post(jfs, to, &wr, user_ctx, signalled);
  }
  urma_status_t read(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from, urma_sge_t into,
                     uint64_t user_ctx) {
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_READ;
    wr.rw.src = {&from, 1};
    wr.rw.dst = {&into, 1};
    return post(jfs, to, &wr, user_ctx, true);
  }
  urma_status_t write(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from, urma_sge_t into,
                      uint64_t user_ctx) {
    urma_jfs_wr_t wr = {};
    wr.opcode = URMA_OPC_WRITE;
    wr.rw.src = {&from, 1};
    wr.rw.dst = {&into, 1};
    return post(jfs, to, &wr, user_ctx, true);
  }
  // Adds 1, and swaps 0 for 1.
  urma_status_t atomic(urma_opcode_t opcode, urma_jfs_t* jfs, urma_target_jetty_t* to,
                       urma_sge_t result, urma_sge_t word, uint64_t user_ctx) {
    urma_jfs_wr_t wr = {};
    wr.opcode = opcode;
    if (opcode == URMA_OPC_FADD) {
      wr.faa.src = &result;
      wr.faa.dst = &word;
      wr.faa.operand = 1;
    } else {
      wr.cas.src = &result;
      wr.cas.dst = &word;
      wr.cas.swap_data = 1;
    }
    return post(jfs, to, &wr, user_ctx, true);
  }
  // A request that the test has made.
  urma_status_t execute(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_jfs_wr_t wr,
                        uint64_t user_ctx) {
    return post(jfs, to, &wr, user_ctx, true);
  }
  void receive(urma_jfr_t* jfr, std::vector<urma_sge_t> into, uint64_t user_ctx) {
    urma_jfr_wr_t wr = {};
    wr.src = {into.data(), static_cast<uint32_t>(into.size())};
    wr.user_ctx = user_ctx;
    urma_jfr_wr_t* bad = nullptr;
    EXPECT_EQ(ops_.post_jfr_wr(jfr, &wr, &bad), URMA_SUCCESS);
  }
  // Calls of the kernel that moved bytes between this process and another one.
  uint64_t copies() const { return copy_.calls; }
  void arm(urma_jfc_t* jfc) { EXPECT_EQ(ops_.rearm_jfc(jfc, false), URMA_SUCCESS); }
  // The next event, acknowledged; NULL where none comes in time.
  urma_jfc_t* wait(urma_jfce_t* jfce, milliseconds limit) {
    urma_jfc_t* jfc = nullptr;
    if (ops_.wait_jfc(jfce, 1, static_cast<int>(limit.count()), &jfc) != 1) return nullptr;
    uint32_t events = 1;
    ops_.ack_jfc(&jfc, &events, 1);
    return jfc;
  }
  // Adds up to `count` records to the end of `records`.
  void poll(urma_jfc_t* jfc, std::vector<urma_cr_t>* records, int count = 16) {
    const size_t before = records->size();
    records->resize(before + static_cast<size_t>(count));
    const int got = ops_.poll_jfc(jfc, count, records->data() + before);
    EXPECT_GE(got, 0);
    records->resize(before + static_cast<size_t>(std::max(got, 0)));
  }

 private:
  template <typename Object>
  static Object* made(Object* object) {
    if (object == nullptr) throw std::runtime_error("an object could not be made");
    return object;
  }
  template <typename Object>
  Object* keep(Object* object, urma_status_t (*end)(Object*)) {
    made_.emplace_back(made(object), [=] { EXPECT_EQ(end(object), URMA_SUCCESS); });
    return object;
  }
  // A request that is refused is the one that bad_wr names.
  urma_status_t post(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_jfs_wr_t* wr, uint64_t user_ctx,
                     bool signalled) {
    wr->tjetty = to;
    wr->user_ctx = user_ctx;
    wr->flag.bs.complete_enable = signalled ? 1 : 0;
    urma_jfs_wr_t* bad = nullptr;
    const urma_status_t status = ops_.post_jfs_wr(jfs, wr, &bad);
    EXPECT_EQ(bad, status == URMA_SUCCESS ? nullptr : wr);
    return status;
  }

  struct CountingCopy : CopyEngine {
    urma_cr_status_t copy(Direction direction, const PeerProcess& peer,
                          std::span<const iovec> local, std::span<const iovec> remote,
                          uint64_t* moved) override {
      ++calls;
      return engine.copy(direction, peer, local, remote, moved);
    }
    local::ProcessVmCopy engine;
    std::atomic<uint64_t> calls{0};
  };

  CountingCopy copy_;
  std::unique_ptr<Transport> transport_;
  urma_device_t device_ = {};
  urma_ops_t ops_ = [] {
    urma_ops_t ops = make_ops(kProvider);
    add_post_ops<Sender, Receiver>(&ops);
    return ops;
  }();
  std::unique_ptr<Context> context_;
  urma_token_id_t* token_id_ = nullptr;
  std::vector<std::pair<const void*, std::function<void()>>> made_;
};

// A node that sends and one that owns what is sent to.
struct Pair {
  explicit Pair(uint32_t depth = 64) : jfs(sender.make_jfs(send_jfc, depth)) {}

  // A first WRITE, so that both know each other.
  void connect() {
    remote = sender.import(registered->seg);
    EXPECT_EQ(write(0), URMA_SUCCESS);
    EXPECT_EQ(wait_for_sent().status, URMA_CR_SUCCESS);
    sent.clear();
  }
  urma_sge_t here(uint32_t bytes = 8) const { return piece(local, source.data(), bytes); }
  urma_sge_t there(uint32_t bytes = 8) const { return piece(remote, target.data(), bytes); }
  urma_status_t write(uint64_t user_ctx) {
    return sender.write(jfs, queue, here(), there(), user_ctx);
  }
  urma_status_t send(uint64_t user_ctx, bool signalled = true) {
    return sender.send(jfs, queue, here(), user_ctx, signalled);
  }
  void post_receive(uint64_t user_ctx) {
    owner.receive(jfr, {piece(registered, target.data(), 1024)}, user_ctx);
  }
  void poll() {
    sender.poll(send_jfc, &sent);
    owner.poll(receive_jfc, &received);
  }
  // Polls both until there is one more record of a request.
  urma_cr_t wait_for_sent(milliseconds limit = seconds(10)) {
    const size_t before = sent.size();
    const auto one_more = [&] {
      poll();
      return sent.size() > before;
    };
    if (!eventually(one_more, limit)) throw std::runtime_error("a request does not complete");
    return sent[before];
  }
  // The same until so many of both kinds have come.
  bool wait_for(size_t sends, size_t receives) {
    return eventually([&] {
      poll();
      return sent.size() >= sends && received.size() >= receives;
    });
  }

  std::vector<char> source = std::vector<char>(4096, 's');
  std::vector<char> target = std::vector<char>(4096, 't');
  Node owner;
  Node sender;
  urma_jfc_t* const receive_jfc = owner.make_jfc();
  urma_jfr_t* const jfr = owner.make_jfr(receive_jfc);
  urma_target_seg_t* const registered = owner.add(target.data(), target.size());
  urma_jfc_t* const send_jfc = sender.make_jfc();
  urma_jfs_t* const jfs;
  urma_target_seg_t* const local = sender.add(source.data(), source.size());
  urma_target_jetty_t* const queue = sender.import(jfr->jfr_id);
  urma_target_seg_t* remote = nullptr;  // `registered`, as imported by connect()
  std::vector<urma_cr_t> sent, received;
};

}  // namespace urma::local

#endif  // TEST_UNIT_LOCAL_HARNESS_H_
