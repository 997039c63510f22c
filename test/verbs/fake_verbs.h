// SPDX-License-Identifier: MIT
//
// RDMA devices in software behind Api, for tests: all in this process, with real data movement. A
// request runs in the thread that posts it, in order, before post_send() returns, unless something
// holds it back; so tests are deterministic without waiting.
#ifndef TEST_VERBS_FAKE_VERBS_H_
#define TEST_VERBS_FAKE_VERBS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "urma/providers/verbs/api.h"

namespace urma::verbs {

struct FakeGid {
  std::string ip;                        // "10.0.0.1" or "fe80::1"
  uint32_t type = IBV_GID_TYPE_ROCE_V2;  // IBV_GID_TYPE_*
  uint32_t netdev = 1;
};

struct FakeDeviceOptions {
  std::string name = "fake0";
  bool iwarp = false;       // no immediates, atomics, datagrams; connected by cm_* only
  bool infiniband = false;  // the link layer
  uint16_t lid = 1;         // of InfiniBand
  std::vector<FakeGid> gids = {{"fe80::1"}, {"10.0.0.1"}};
  uint8_t ports = 1;
  ibv_port_state port_state = IBV_PORT_ACTIVE;
  ibv_mtu mtu = IBV_MTU_1024;
  uint32_t max_inline = 256;
  uint32_t max_sge = 16;
  uint32_t max_qp_wr = 1024;
  uint32_t max_cqe = 65536;
  uint32_t max_srq_wr = 4096;
  uint32_t max_rd_atomic = 16;
  uint32_t max_message = 1U << 30;
  bool has_atomics = true;
  bool has_srq = true;
  bool has_srq_resize = true;
  bool has_resize_cq = true;
  bool has_dmabuf = false;
  bool has_on_demand = false;
  bool has_rereg = false;       // can remove rights from an existing region
  bool vague_receives = false;  // like Soft-RoCE: of a receive, but not whether it was too short
  bool tells_netdev = true;     // with the GIDs; older kernels do not for iWARP
};

// The fate of a control message, each from 0 (never) to 1.
struct FakeChances {
  double lost = 0;
  double repeated = 0;
  double late = 0;  // it arrives after the next one
};

struct FakeFabric;

// One at a time per process: the verbs have no argument that could name it.
class FakeVerbs {
 public:
  FakeVerbs();
  FakeVerbs(const FakeVerbs&) = delete;
  FakeVerbs& operator=(const FakeVerbs&) = delete;
  // Anything still open then is a leak, and fails the test.
  ~FakeVerbs();

  const Api* api() const { return &api_; }
  // For tests that replace a function. Not while another thread uses it.
  Api& table() { return api_; }

  // Before it is looked for.
  void add_device(const FakeDeviceOptions& options);
  // From now on the device reports these attributes.
  void set_gids(const std::string& device, const std::vector<FakeGid>& gids);
  void set_port_state(const std::string& device, ibv_port_state state);
  void set_lid(const std::string& device, uint16_t lid);
  // open_device() fails with this error; 0: it works again.
  void set_open_error(const std::string& device, int error);
  // get_device_list() fails with this error; 0: it works again.
  void set_list_error(int error);

  // The n-th call (1: the next one) of a verb, named as in Api, fails with this error number,
  // without effect. poll_cq fails with -1. A call of a verb that cannot fail ends the test.
  void fail(const std::string& verb, int error, uint64_t nth = 1);
  // The number of its calls.
  uint64_t calls(const std::string& verb) const;

  // While stalled, a queue pair executes no request of its own; they wait in order.
  void stall(uint32_t qp_num);
  void resume(uint32_t qp_num);
  // The same for all, including those created later.
  void stall_all();
  void resume_all();
  // While held, its requests are executed, but their completions do not appear.
  void hold(uint32_t qp_num);
  void release(uint32_t qp_num);
  // The next executed request of the sender fails with this status, with all consequences: the
  // queue pair goes to ERR, and later requests are flushed.
  void fail_request(uint32_t qp_num, ibv_wc_status status);

  // From now on. Control messages use the network of the machine.
  void set_datagrams(const FakeChances& chances);
  uint64_t lost_datagrams() const;

  // Requests to and from this device find no peer: RETRY_EXC_ERR, and datagrams are lost.
  void set_reachable(const std::string& device, bool reachable);
  // A finite number of retries of a receiver that is not ready passes at once, unless the timers
  // are manual: then each fire_rnr_timers() is one retry of every waiting sender.
  void set_manual_rnr(bool manual);
  void fire_rnr_timers();

  // Ends the iWARP connection of this queue pair, as when TCP ends.
  void break_connection(uint32_t qp_num);
  // Unanswered calls fail, as after a timeout.
  void give_up_calls();
  // How often cm_destroy_id would have waited for one.
  uint64_t waits_for_calls() const;

  // Of all open contexts of the device.
  void raise_port_event(const std::string& device, ibv_event_type type, int port = 1);
  void raise_qp_event(uint32_t qp_num, ibv_event_type type);
  void raise_cq_event(ibv_cq* cq, ibv_event_type type);
  void raise_srq_event(ibv_srq* srq, ibv_event_type type);

  // Whether the completions of a queue pair vanish from the queue when it is destroyed. Devices
  // differ; false: they stay.
  void set_clean_on_destroy(bool clean);
  // Whether a queue pair gets the lowest free number. Devices differ; false: numbers are never
  // reused.
  void set_reuse_numbers(bool reuse);
  // Bytes of the pages that regions pin, each page counted per region; and the limit of the kernel,
  // 0: none.
  uint64_t locked_bytes() const;
  void set_locked_limit(uint64_t bytes);
  // The IBV_ACCESS_* of the region with this key, 0: none.
  int access_of_rkey(uint32_t rkey) const;
  int access_of_lkey(uint32_t lkey) const;
  // The GID index that a queue pair sends from.
  uint32_t gid_index_of(uint32_t qp_num) const;
  // Existing objects: contexts, domains, regions, queues, channels, addresses.
  uint64_t objects() const;
  // Existing queue pairs, in the order of creation.
  std::vector<uint32_t> queue_pairs() const;

 private:
  Api api_;
  std::unique_ptr<FakeFabric> fabric_;
};

}  // namespace urma::verbs

#endif  // TEST_VERBS_FAKE_VERBS_H_
