// SPDX-License-Identifier: MIT
//
// Parts of the tests of the transport between processes. A Node is everything that one process has
// of it: a service thread, a slot of the runtime directory, a transport and a context. With two
// Nodes in one process, a test controls each step of both sides.
#ifndef TEST_UNIT_SHM_HARNESS_H_
#define TEST_UNIT_SHM_HARNESS_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "jetty/context.h"
#include "test/process/harness.h"
#include "urma/base/host.h"
#include "urma/base/message_socket.h"
#include "urma/core/process/runtime.h"
#include "urma/core/process/service_thread.h"
#include "urma/core/process/settings.h"
#include "urma/providers/shm/protocol.h"
#include "urma/providers/shm/receiver.h"
#include "urma/providers/shm/ring.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {

using std::chrono::milliseconds;
using std::chrono::seconds;
using urma_test::Clock;
using urma_test::patience;

inline constexpr char kProvider[] = "test";
inline constexpr uint32_t kAllAccess = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

// True once the condition holds, false on timeout.
template <typename Condition>
bool eventually(const Condition& condition, milliseconds limit = seconds(10)) {
  const auto deadline = Clock::now() + patience(limit);
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Open descriptors of this process.
ptrdiff_t open_descriptors();

urma_sge_t piece(urma_target_seg_t* segment, const void* data, uint32_t bytes);

// Pages that can be unmapped before their owner ends.
class Pages {
 public:
  explicit Pages(size_t bytes);
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
  Host();
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  core::ServiceThread& service() { return service_; }
  Runtime& runtime() { return *runtime_; }
  std::string socket_name() { return runtime().socket_name(runtime().slot(), kProvider); }

  // Returns when the service thread has looked at everything that had reached it before.
  void settle();

 private:
  core::ServiceThread service_;
  std::unique_ptr<core::ProcessRuntime> runtime_;
};

// Pauses the service thread of a host during its lifetime.
class Pause {
 public:
  explicit Pause(Host& host);
  ~Pause() {
    state_->over = true;
    state_->over.notify_all();
  }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  struct State {
    std::atomic<bool> held{false}, over{false};
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// What new nodes share of their memory; NULL: nothing.
inline SharedPages* pages_of_nodes = nullptr;
// Gives new nodes another service around their own; empty: none.
inline std::function<Service*(Service&)> service_of_nodes;

// Destroys what it has created, the newest first.
class Node : public Host {
 public:
  Node();
  ~Node();

  Transport* transport() { return transport_.get(); }
  urma_jfce_t* make_jfce();
  urma_jfc_t* make_jfc(bool lock_free = false, urma_jfce_t* jfce = nullptr);
  urma_jfs_t* make_jfs(urma_jfc_t* jfc, uint32_t depth, bool lock_free = false);
  urma_jfr_t* make_jfr(urma_jfc_t* jfc, urma_transport_mode_t mode = URMA_TM_RM);
  // All segments of a node share one token id.
  urma_target_seg_t* add(void* data, uint64_t bytes, uint32_t access = kAllAccess);
  urma_target_jetty_t* import(const urma_jfr_id_t& id);
  // NULL if the library lacks resources for it.
  urma_target_seg_t* try_import(urma_seg_t segment, urma_import_seg_flag_t flag = {});
  urma_target_seg_t* import(const urma_seg_t& segment);
  // Waits until the owner has said what can be mapped; `access` of 0: all that it grants.
  urma_target_seg_t* import_mapped(const urma_seg_t& segment, uint32_t access = 0);
  // Ends one object early.
  void end(const void* object);

  // All one-sided requests name a target queue, as RM requires.
  urma_status_t send(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from, uint64_t user_ctx,
                     bool signalled = true);
  urma_status_t read(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from, urma_sge_t into,
                     uint64_t user_ctx);
  urma_status_t write(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from, urma_sge_t into,
                      uint64_t user_ctx);
  // Adds 1, and swaps 0 for 1.
  urma_status_t atomic(urma_opcode_t opcode, urma_jfs_t* jfs, urma_target_jetty_t* to,
                       urma_sge_t result, urma_sge_t word, uint64_t user_ctx);
  // A request built by the test.
  urma_status_t execute(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_jfs_wr_t wr,
                        uint64_t user_ctx);
  void receive(urma_jfr_t* jfr, std::vector<urma_sge_t> into, uint64_t user_ctx);
  // System calls that moved bytes between this process and another one.
  uint64_t copies() const { return transport_->copies; }
  // Call before the first of them: false from `allows`, which is called before each, lets it fail.
  void on_copy(std::function<bool(Direction)> allows) { transport_->allows = std::move(allows); }
  void arm(urma_jfc_t* jfc) { EXPECT_EQ(ops_.rearm_jfc(jfc, false), URMA_SUCCESS); }
  // The next event, acknowledged; NULL on timeout.
  urma_jfc_t* wait(urma_jfce_t* jfce, milliseconds limit);
  // Appends up to `count` records to `records`.
  void poll(urma_jfc_t* jfc, std::vector<urma_cr_t>* records, int count = 16);

 private:
  template <typename Object>
  static Object* made(Object* object) {
    if (object == nullptr) throw std::runtime_error("cannot create an object");
    return object;
  }
  template <typename Object>
  Object* keep(Object* object, urma_status_t (*end)(Object*)) {
    made_.emplace_back(made(object), [=] { EXPECT_EQ(end(object), URMA_SUCCESS); });
    return object;
  }
  // On failure, bad_wr points to the refused request.
  urma_status_t post(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_jfs_wr_t* wr, uint64_t user_ctx,
                     bool signalled);

  struct CountingTransport : Transport {
    using Transport::Transport;
    urma_cr_status_t copy(Direction direction, const PeerProcess& peer,
                          std::span<const iovec> local, std::span<const iovec> remote,
                          uint64_t* moved) override {
      ++copies;
      *moved = 0;
      if (allows && !allows(direction)) return URMA_CR_REM_ACCESS_ABORT_ERR;
      return Transport::copy(direction, peer, local, remote, moved);
    }
    std::atomic<uint64_t> copies{0};
    std::function<bool(Direction)> allows;
  };

  std::unique_ptr<CountingTransport> transport_;
  urma_device_t device_ = {};
  urma_ops_t ops_ = {};
  std::unique_ptr<Context> context_;
  urma_token_id_t* token_id_ = nullptr;
  std::vector<std::pair<const void*, std::function<void()>>> made_;
};

// A node that sends and one that owns the target.
struct Pair {
  explicit Pair(uint32_t depth = 64);

  // A first WRITE, so that both sides are connected.
  void connect();
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
  // Polls both until there is another record of a request.
  urma_cr_t wait_for_sent(milliseconds limit = seconds(10));
  // The same until this many of both kinds have come.
  bool wait_for(size_t sends, size_t receives);

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

}  // namespace urma::shm

#endif  // TEST_UNIT_SHM_HARNESS_H_
