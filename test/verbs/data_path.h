// SPDX-License-Identifier: MIT
//
// Two ends of the data path in one process, over software devices: queues as a provider makes them,
// a service thread that works when the test says so, and a handshake that is a function call.
#ifndef TEST_VERBS_DATA_PATH_H_
#define TEST_VERBS_DATA_PATH_H_

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "test/verbs/fake_verbs.h"
#include "test/verbs/test_connector.h"
#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/receiver.h"
#include "urma/providers/verbs/remote_region.h"
#include "urma/providers/verbs/sender.h"

namespace urma::verbs {

inline constexpr uint32_t kAllAccess = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

// Runs posted work in turn(), in the calling thread. post() from any thread.
class HandService : public Service {
 public:
  void post(Task task) override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  void run(const Task& task) override { task(); }
  bool on_thread() const override { return true; }
  void watch(int fd, uint32_t /*events*/, Ready ready) override { watched_[fd] = std::move(ready); }
  void rewatch(int /*fd*/, uint32_t /*events*/) override {}
  void unwatch(int fd) override { watched_.erase(fd); }
  TimerId after(uint64_t delay_ns, Task task) override {
    timers_.emplace(++last_timer_, std::pair(monotonic_ns() + delay_ns, std::move(task)));
    return last_timer_;
  }
  void cancel(TimerId timer) override { timers_.erase(timer); }

  // Those that have not come yet.
  size_t timers() const { return timers_.size(); }
  // True if something was done.
  bool turn();
  void settle() {
    for (int quiet = 0; quiet < 2; quiet = turn() ? 0 : quiet + 1) {
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Task> tasks_;
  std::map<int, Ready> watched_;
  std::map<TimerId, std::pair<uint64_t, Task>> timers_;
  TimerId last_timer_ = 0;
};

// What the transport of a provider does besides moving data.
class TestTransport : public urma::Transport {
 public:
  explicit TestTransport(Service* service) : urma::Transport(service) {}

  std::span<const urma_eid_t> eids() const override { return {}; }
  uint32_t uasid() const override { return 7; }
  bool has_remote_bells() const override { return false; }
  uint32_t take_id(IdKind, uint32_t, uint32_t) override { return ++last_id_; }
  void free_id(IdKind, uint32_t, uint32_t) override {}
  std::unique_ptr<urma::Sender> make_sender(const urma_jfs_cfg_t&, const QueueIdentity&,
                                            const urma_jetty_id_t&) override {
    return nullptr;
  }
  std::unique_ptr<urma::Receiver> make_receiver(const urma_jfr_cfg_t&, const QueueIdentity&,
                                                const urma_eid_t&, EventSubject*) override {
    return nullptr;
  }
  void enter(Segment*) override {}
  void unregister(Segment*) override {}
  ImportedSegment* import_segment(urma_context_t*, const urma_seg_t&, urma_token_t,
                                  uint32_t) override {
    return nullptr;
  }
  void probe(const ProbeTarget&, std::function<void(Answer)>) override {}
  void connect_ahead(const RemoteQueue&) override {}
  void stop() {
    end_service();
    cancel_timers();
  }

 private:
  uint32_t last_id_ = 0;
};

class TestJfc : public CompletionQueue {
 public:
  TestJfc(urma_context_t* ctx, const urma_jfc_cfg_t& cfg, urma::Transport* transport,
          AsyncEvents* events, EventChannel* channel);
  ~TestJfc();
  // Apart, as behind the slot of a poll.
  [[gnu::noinline]] int poll(int count, urma_cr_t* cr) { return CompletionQueue::poll(count, cr); }

 private:
  Bell bell_of_its_own_ = {};
};

class Fabric;

// Registered memory, which peers may use if `access` says so.
struct Buffer {
  Buffer(Fabric* fabric, size_t bytes, uint32_t access = kAllAccess);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  char* data() { return reinterpret_cast<char*>(words.data()); }
  uint64_t addr() { return reinterpret_cast<uint64_t>(words.data()); }
  urma_sge_t sge(size_t offset, uint32_t bytes);
  urma_sge_t remote_sge(size_t offset, uint32_t bytes);
  // Ends its registration.
  void end();

  Fabric* fabric;
  std::vector<uint64_t> words;
  KeyedSegment segment = {};
  std::unique_ptr<MemoryRegion> region;
  RemoteRegion* imported = nullptr;
};

struct SendEnd {
  SendEnd(Fabric* fabric, const urma_jfs_cfg_t& cfg);

  std::unique_ptr<Sender> sender;
  std::unique_ptr<Attachment> attachment;
};

struct ReceiveEnd {
  ReceiveEnd(Fabric* fabric, const urma_jfr_cfg_t& cfg, uint32_t id);
  ~ReceiveEnd();
  ReceiveEnd(const ReceiveEnd&) = delete;
  ReceiveEnd& operator=(const ReceiveEnd&) = delete;

  Fabric* fabric;
  uint32_t id;
  urma_jfr_t object = {};
  EventSubject subject;
  std::unique_ptr<Receiver> receiver;
  std::unique_ptr<Attachment> attachment;
};

// The verbs of this machine if the program was linked with them, else NULL.
const Api* real_verbs();
// The real device that tests run on: URMA_TEST_VERBS_DEVICE, such as urma_rxe0. NULL: a software
// device.
inline const char* real_device() {
  return real_verbs() == nullptr ? nullptr : ::getenv("URMA_TEST_VERBS_DEVICE");
}
// At the beginning of a test that needs control of the device that no real one offers.
#define NEEDS_FAKE()            \
  if (real_device() != nullptr) \
  GTEST_SKIP() << "needs the simulated device; unset URMA_TEST_VERBS_DEVICE"

// One device, with everything around the queues under test.
class Fabric {
 public:
  explicit Fabric(const FakeDeviceOptions& options = {}, uint32_t most_connections = 1024);
  ~Fabric();

  // All of them lock_free, as tests are single-threaded: this takes the short paths, and the others
  // where those end.
  std::unique_ptr<TestJfc> make_jfc(uint32_t depth = 64, EventChannel* channel = nullptr);
  urma_jfs_cfg_t jfs_cfg(TestJfc* jfc, uint32_t depth = 16);
  urma_jfr_cfg_t jfr_cfg(TestJfc* jfc, uint32_t depth = 16);
  std::unique_ptr<RemoteQueue> import(uint32_t id, urma_transport_mode_t mode = URMA_TM_RM);
  // Until nothing more happens.
  void settle() { service.settle(); }
  // Polls until `count` records have come.
  std::vector<urma_cr_t> poll(TestJfc* jfc, size_t count);

  std::unique_ptr<FakeVerbs> fake;
  HandService service;
  TestTransport transport{&service};
  Connections connections;
  TestConnector connector{&service, &connections, &resources};
  LocalKeys keys;
  NotifyChannels notify;
  AsyncEvents events;
  urma_eid_t eid = {};
  urma_device_t urma_device = {};
  urma_context_t ctx = {};
  std::unique_ptr<Device> device;
  struct TestRevoker : Revoker {
    bool revoke(const urma_eid_t&, const TokenKey& key, uint64_t va, uint64_t len) override {
      revoked.push_back({key.token_id, va, len});
      return allow;
    }
    struct Revoked {
      uint32_t token_id;
      uint64_t va;
      uint64_t len;
    };
    std::vector<Revoked> revoked;
    bool allow = true;
  } revoker;
  ContextResources resources;

 private:
  Fabric(std::unique_ptr<FakeVerbs> verbs, const FakeDeviceOptions& options,
         uint32_t most_connections);
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_DATA_PATH_H_
