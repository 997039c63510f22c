// SPDX-License-Identifier: MIT
//
// The state of the fake devices. FakeFabric::mutex guards all of it.
#ifndef TEST_VERBS_FAKE_VERBS_STATE_H_
#define TEST_VERBS_FAKE_VERBS_STATE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "test/verbs/fake_verbs.h"
#include "urma/base/fd.h"
#include "urma/providers/verbs/datagram.h"

namespace urma::verbs {

using FakeLock = std::unique_lock<std::mutex>;

struct FakeContext;
struct FakeQp;

struct FakeDevice : ibv_device {
  FakeDeviceOptions options;
  bool reachable = true;
  int open_error = 0;
  std::set<FakeContext*> contexts;
};

// A queue of events with a descriptor that is readable while there are any.
template <typename Event>
struct FakeEvents {
  FakeEvents();
  void push(const Event& event);
  // Takes the oldest one. Waits for one, unless the descriptor is non-blocking: then EAGAIN.
  int take(FakeLock* lock, Event* event);
  void remove_if(const std::function<bool(const Event&)>& predicate);

  Fd fd;
  std::deque<Event> events;
};

struct FakeContext : ibv_context {
  FakeDevice* owner;
  FakeEvents<ibv_async_event> events;
  uint32_t children = 0;  // domains, queues and channels
};

struct FakePd : ibv_pd {
  uint32_t children = 0;
};

struct FakeMr : ibv_mr {
  uint64_t iova;
  char* base;  // the address of the byte at iova
  int access;
  uint64_t locked;  // bytes of pages

  char* map_start;  // of a dma-buf: mapped while the region exists
  size_t map_bytes;
};

struct FakeCq;

struct FakeChannel : ibv_comp_channel {
  FakeEvents<FakeCq*> events;
  uint32_t users = 0;
};

struct FakeCompletion {
  ibv_wc wc;
  bool solicited;
  // Of the sender: the slots of the queue up to this one are free once the completion is polled.
  std::optional<uint64_t> retires;
};

struct FakeCq : ibv_cq {
  FakeContext* owner;
  FakeChannel* completion_channel;
  std::deque<FakeCompletion> entries;
  uint32_t capacity;
  bool armed = false;
  bool solicited_only = false;
  bool overrun = false;
  uint32_t users = 0;
  uint32_t unacked = 0;        // completion events taken
  uint32_t async_unacked = 0;  // asynchronous ones
};

struct FakeReceive {
  uint64_t wr_id;
  std::vector<ibv_sge> sges;
};

struct FakeSrq : ibv_srq {
  FakeContext* owner;
  std::deque<FakeReceive> receives;
  uint32_t max_wr;
  uint32_t max_sge;
  uint32_t limit = 0;
  uint32_t users = 0;
  uint32_t async_unacked = 0;
};

struct FakeAh : ibv_ah {
  ibv_ah_attr attr;
};

struct FakeRequest {
  ibv_send_wr wr;
  std::vector<ibv_sge> sges;
  std::optional<std::vector<char>> inlined;
  ibv_ah_attr address;  // of a datagram
  uint64_t sequence;
  bool signaled;
};

struct FakeQp : ibv_qp {
  FakeContext* owner;
  ibv_qp_state current;  // ibv_qp::state is what the program set last
  ibv_qp_cap caps;
  bool signal_all;
  ibv_qp_attr attr;
  std::deque<FakeRequest> requests;
  std::deque<FakeReceive> receives;
  uint64_t posted = 0;   // requests in total
  uint64_t retired = 0;  // with free slots again
  bool stalled = false;
  bool held = false;
  bool waits_for_first = false;  // iWARP: the called end before anything has arrived
  bool dead_wire = false;        // iWARP after TERMINATE: takes requests and never completes them
  std::deque<FakeCompletion> held_completions;
  std::optional<ibv_wc_status> forced;
  std::optional<uint32_t> rnr_left;  // while the receiver is not ready
  uint32_t async_unacked = 0;
};

struct FakeCmEvent : rdma_cm_event {
  std::vector<uint8_t> data;
};

struct FakeCmChannel : rdma_event_channel {
  FakeEvents<FakeCmEvent*> events;
  uint32_t ids = 0;
};

enum class FakeCmState { kIdle, kListening, kCalling, kCalled, kConnected };

struct FakeCmId : rdma_cm_id {
  FakeCmState state = FakeCmState::kIdle;
  NetAddress local = {};
  FakeCmId* peer = nullptr;
  uint32_t qp_num = 0;
  uint32_t unacked = 0;
};

struct FakeLateDatagram {
  Fd fd;
  std::vector<uint8_t> bytes;
  SocketAddress to;
  socklen_t to_length;
};

struct FakeNetwork {
  bool happens(double chance);

  FakeChances chances;
  std::mt19937_64 random;  // the same numbers each time
  std::optional<FakeLateDatagram> late;
  uint64_t lost = 0;
};

struct FakeFailure {
  uint64_t at;  // call number
  int error;
};

struct FakeFabric {
  static constexpr uint32_t kFirstQp = 0x11;
  static FakeFabric* current;

  std::mutex mutex;
  std::condition_variable acked;
  std::vector<std::unique_ptr<FakeDevice>> devices;
  std::map<uint32_t, FakeQp*> queue_pairs;
  std::map<uint32_t, FakeMr*> local_keys;
  std::map<uint32_t, FakeMr*> remote_keys;
  std::set<const ibv_ah*> addresses;
  std::map<std::string, uint64_t> calls;
  std::map<std::string, std::vector<FakeFailure>> failures;
  uint64_t objects = 0;
  uint64_t locked_bytes = 0;
  uint64_t locked_limit = 0;
  uint32_t next_key = 0x100;
  uint32_t next_qp = kFirstQp;
  std::set<FakeCmId*> cm_ids;
  std::map<NetAddress, FakeCmId*> cm_listening;
  uint32_t cm_ports = 0;  // given out
  uint64_t cm_waits = 0;
  FakeNetwork network;
  int list_error = 0;
  bool stall_all = false;
  bool manual_rnr = false;
  bool clean_on_destroy = false;
  bool reuse_numbers = false;

  FakeDevice* device(const std::string& name);
  FakeQp* queue_pair(uint32_t qp_num);

  // Completions and events (fake_verbs_completions.cc).
  void complete(FakeCq* cq, const FakeCompletion& completion);
  void complete_send(FakeQp* qp, const FakeRequest& request, ibv_wc_status status);
  void raise(FakeContext* context, const ibv_async_event& event);
  void raise(FakeQp* qp, ibv_event_type type);
  void raise(FakeCq* cq, ibv_event_type type);
  void raise(FakeSrq* srq, ibv_event_type type);

  // Execution (fake_verbs_execute.cc). Executes what can be executed now, and flushes what no
  // longer can. Called after every change that may affect that.
  void kick();
  bool advance(FakeQp* qp);
  bool flush(FakeQp* qp);
  void enter_error(FakeQp* qp);

  // Ends the iWARP connection of this queue pair (fake_verbs_cm.cc).
  void disconnect(uint32_t qp_num);
};

// One call of a verb: counted, and perhaps chosen to fail. Holds the lock.
class FakeCall {
 public:
  explicit FakeCall(const char* verb);
  FakeFabric* operator->() const { return FakeFabric::current; }
  FakeFabric& fabric() const { return *FakeFabric::current; }
  int error() const { return error_; }
  FakeLock& lock() { return lock_; }

 private:
  FakeLock lock_;
  int error_ = 0;
};

// Sets errno and returns NULL.
std::nullptr_t fake_null(int error);
// The queue that an event is about; NULL for a port or a device.
const void* fake_element(const ibv_async_event& event);
// The GID at this index of the device's table.
ibv_gid fake_gid(const FakeDevice& device, uint32_t index);
// A record with meaningless fields, to detect a reader of fields that were not set.
ibv_wc fake_completion(uint64_t wr_id, ibv_wc_status status, uint32_t qp_num);

// The verbs of each file.
void fill_fake_devices(Api* api);
void fill_fake_completions(Api* api);
void fill_fake_queues(Api* api);
void fill_fake_cm(Api* api);
void fill_fake_datagrams(Api* api);

}  // namespace urma::verbs

#endif  // TEST_VERBS_FAKE_VERBS_STATE_H_
