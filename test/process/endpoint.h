// SPDX-License-Identifier: MIT
//
// The URMA objects of one process of a test: a context, queues, segments and imports. Each function
// checks its own calls, so that a test shows only what it is about.
#ifndef TEST_PROCESS_ENDPOINT_H_
#define TEST_PROCESS_ENDPOINT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <vector>

#include "test/process/harness.h"
#include "urma_api.h"

namespace urma_test {

inline constexpr uint32_t kNoToken = 0;
inline constexpr uint32_t kAllAccess = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

struct Config {
  bool jetty = true;  // false: a JFS and a JFR
  urma_transport_mode_t mode = URMA_TM_RM;
  bool lock_free = false;
  uint32_t id = 0;  // of the receive queue; 0: chosen by the library
  uint8_t max_sge = 1;
  uint32_t max_inline = 0;
  uint32_t send_depth = 64;
  uint32_t receive_depth = 64;
  uint32_t token = kNoToken;  // of the receive queue; kNoToken: policy NONE
  uint8_t rnr_retry = URMA_TYPICAL_RNR_RETRY;
  uint8_t err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  bool events = false;        // both JFCs raise events at one JFCE
  bool non_blocking = false;  // both JFCs
  bool one_jfc = false;       // one for sends and receives
};

// What importers need to reach a receive queue: EID and id, and no uasid, as in programs.
struct QueueId {
  urma_eid_t eid;
  uint32_t id;
  uint32_t token;
  bool jetty;
};

// What importers need to reach a segment.
struct SegmentId {
  urma_eid_t eid;
  uint64_t va;
  uint64_t len;
  uint32_t token_id;
  uint32_t token;
};

// Whether the device under test is a shared memory device, whose processes access each other's
// memory. That is the device that URMA_DEVICE names, or the default. Needs no urma_init.
bool over_shared_memory();
// At the beginning of a test for shared memory only.
#define SKIP_UNLESS_SHARED_MEMORY(what) \
  if (!over_shared_memory())            \
  GTEST_SKIP() << what " only over shared memory; set URMA_DEVICE=urma_shm0"

// Opens the device that URMA_DEVICE names, else the first one found. Needs urma_init.
urma_device_t* find_device();
// The index of its EID: URMA_EID_INDEX, else 0.
uint32_t find_eid_index();

// What differs between devices; docs/reference/verbs.md describes those that are not shared memory.
struct DeviceTraits {
  bool maps;            // processes access each other's memory; no device moves the bytes
  size_t max_atomic;    // bytes of a CAS or a WRITE_ATOMIC; 0: no atomics
  size_t max_datagram;  // bytes of a message in mode UM
  uint32_t modes;       // URMA_TM_RM and others, as a bit mask
  bool immediates;      // false: an iWARP device, whose messages do not wait for a receive either
  bool ordered;         // a WRITE's last byte is written last; else the device decides
  bool reconnects;      // a request outlives its connection; else the device ends it with an error

  bool has_mode(urma_transport_mode_t mode) const { return (modes & mode) != 0; }
};
DeviceTraits traits_of(const urma_context_t* ctx);
// The traits of the device that find_device() returns, for a process that has not started the
// library. Asks a child process, once.
const DeviceTraits& device_traits();
// At the beginning of a test for something that not every device supports.
#define SKIP_WITHOUT(condition, what) \
  if (!(condition)) GTEST_SKIP() << "the device does not support " << (what)

// Waits for one completion record of `jfc`; throws on timeout.
urma_cr_t wait_for(urma_jfc_t* jfc, milliseconds limit = seconds(10));
// As above; the record must report success of the request `user_ctx`.
urma_cr_t wait_for_success(urma_jfc_t* jfc, uint64_t user_ctx);
// As above; the record must have this status.
void wait_for_status(urma_jfc_t* jfc, urma_cr_status_t status);
bool has_nothing(urma_jfc_t* jfc);

// All URMA objects of a process. The constructor starts the library. Without close(), everything
// stays until the process ends, as after a failure.
class Endpoint {
 public:
  explicit Endpoint(const Config& config = {});
  Endpoint(const Endpoint&) = delete;

  // Destroys all objects in an order that always works, and ends the library.
  void close();
  // Not closed yet, and no exception is in flight.
  bool wants_closing() const { return !closed_ && std::uncaught_exceptions() == 0; }
  // The same without ending the library; open_queues() may follow.
  void close_queues();
  void open_queues();

  QueueId queue_id() const;
  // The id that a receiver sees as that of the sender.
  uint32_t sender_id() const { return jetty ? jetty->jetty_id.id : jfs->jfs_id.id; }
  uint32_t receiver_id() const { return jetty ? jetty->jetty_id.id : jfr->jfr_id.id; }

  urma_target_seg_t* add(void* memory, size_t size, uint32_t access = kAllAccess,
                         uint32_t token = kNoToken);
  void remove(urma_target_seg_t* segment);
  SegmentId segment_id(const urma_target_seg_t* segment, uint32_t token = kNoToken) const;

  urma_target_jetty_t* import(const QueueId& id);
  // `mapped`: waits until the owner has said what can be mapped.
  urma_target_seg_t* import(const SegmentId& id, bool mapped = false);
  // Binds the jetty to an imported one; close_queues() unbinds it.
  void bind(urma_target_jetty_t* peer);
  void unimport(urma_target_jetty_t* queue);
  void unimport(urma_target_seg_t* segment);

  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad);
  void post(urma_jfs_wr_t wr);
  urma_status_t post_receive(urma_jfr_wr_t* wr, urma_jfr_wr_t** bad);
  void post_receive(urma_target_seg_t* segment, void* memory, size_t size, uint64_t user_ctx = 0);

  Config config;
  urma_context_t* ctx = nullptr;
  urma_jfce_t* jfce = nullptr;  // if config.events
  urma_jfc_t* send_jfc = nullptr;
  urma_jfc_t* receive_jfc = nullptr;
  urma_jfr_t* jfr = nullptr;
  urma_jetty_t* jetty = nullptr;  // either this
  urma_jfs_t* jfs = nullptr;      // or this

 private:
  void open_send_queue();

  bool closed_ = false;
  std::vector<urma_target_seg_t*> segments_, imported_segments_;
  std::vector<urma_target_jetty_t*> imported_queues_;
};

// The last member of a class that has an endpoint and its memory; closes the endpoint.
class Closing {
 public:
  explicit Closing(Endpoint& endpoint) : endpoint_(endpoint) {}
  Closing(const Closing&) = delete;
  ~Closing() {
    if (endpoint_.wants_closing()) endpoint_.close();
  }

 private:
  Endpoint& endpoint_;
};

// What an importer needs to know.
struct Offer {
  QueueId queue;
  SegmentId segment;
};
inline Offer offer_of(const Endpoint& owner, const urma_target_seg_t* segment,
                      uint32_t token = kNoToken) {
  return {owner.queue_id(), owner.segment_id(segment, token)};
}

// Closed at the end of its scope. Its memory must outlive it.
class OwnedEndpoint : public Endpoint {
 public:
  using Endpoint::Endpoint;
  ~OwnedEndpoint() {
    if (wants_closing()) close();
  }
};

// A piece of local or remote memory.
urma_sge_t piece(urma_target_seg_t* segment, uint64_t address, size_t size);
inline urma_sge_t piece(urma_target_seg_t* segment, const void* address, size_t size) {
  return piece(segment, reinterpret_cast<uint64_t>(address), size);
}

// Requests that leave a completion record. They point to the pieces, which must live until the
// request is posted.
urma_jfs_wr_t write_request(urma_target_jetty_t* queue, urma_sge_t* local, urma_sge_t* remote,
                            uint64_t user_ctx = 0);
urma_jfs_wr_t write_imm_request(urma_target_jetty_t* queue, urma_sge_t* local, urma_sge_t* remote,
                                uint64_t immediate, uint64_t user_ctx = 0);
// Two remote pieces: one for the data, one for the value.
urma_jfs_wr_t write_notify_request(urma_target_jetty_t* queue, urma_sge_t* local,
                                   urma_sge_t* remote, uint64_t value, uint64_t user_ctx = 0);
urma_jfs_wr_t write_atomic_request(urma_target_jetty_t* queue, urma_sge_t* local,
                                   urma_sge_t* remote, uint64_t user_ctx = 0);
urma_jfs_wr_t read_request(urma_target_jetty_t* queue, urma_sge_t* local, urma_sge_t* remote,
                           uint64_t user_ctx = 0);
urma_jfs_wr_t send_request(urma_target_jetty_t* queue, urma_sge_t* local, uint64_t user_ctx = 0);
urma_jfs_wr_t send_imm_request(urma_target_jetty_t* queue, urma_sge_t* local, uint64_t immediate,
                               uint64_t user_ctx = 0);
urma_jfs_wr_t send_invalidate_request(urma_target_jetty_t* queue, urma_sge_t* local,
                                      urma_target_seg_t* segment, uint64_t user_ctx = 0);
urma_jfs_wr_t nop_request(urma_target_jetty_t* queue, uint64_t user_ctx = 0);
urma_jfs_wr_t cas_request(urma_target_jetty_t* queue, urma_sge_t* old, urma_sge_t* remote,
                          uint64_t compare, uint64_t swap, uint64_t user_ctx = 0);
urma_jfs_wr_t add_request(urma_target_jetty_t* queue, urma_sge_t* old, urma_sge_t* remote,
                          uint64_t operand, uint64_t user_ctx = 0);
// FADD and similar operations, and SWAP.
urma_jfs_wr_t fetch_request(urma_opcode_t opcode, urma_target_jetty_t* queue, urma_sge_t* old,
                            urma_sge_t* remote, uint64_t operand, uint64_t user_ctx = 0);

}  // namespace urma_test

#endif  // TEST_PROCESS_ENDPOINT_H_
