/* SPDX-License-Identifier: MIT */

// Endpoints for datagrams: one RM jetty each, which receives; each peer is
// sent to from a queue of its own.
//
// Short messages travel whole and are matched from a receive that is always posted (eager). A large
// one is announced; the receiver posts the buffer that it is for to a queue for that sender, its
// lane, and grants it; the sender sends there. So its bytes are copied once, and no memory is ever
// registered for others.
//
// Everything is guarded by the lock of the domain. Nothing happens without a call: the completion
// queues drive their endpoints when they are read.

#ifndef OFI_RDM_ENDPOINT_H
#define OFI_RDM_ENDPOINT_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "ofi/av.h"
#include "ofi/bound_queues.h"
#include "ofi/cntr.h"
#include "ofi/cq.h"
#include "ofi/deadline.h"
#include "ofi/device.h"
#include "ofi/domain.h"
#include "ofi/random.h"
#include "ofi/rdm_buffers.h"
#include "ofi/rdm_frame.h"
#include "ofi/rdm_match.h"
#include "ofi/rdm_peer.h"

namespace urma_fi {

// A send that has no completion yet.
struct Send {
  // kOther: it is no large message, or free.
  enum class State : uint8_t { kOther, kRequested, kGranted };

  Send* next;
  Send* previous;
  uint32_t index;
  uint32_t turn;  // no other send has it: a late grant names an earlier one
  State state = State::kOther;
  bool report;  // success too
  bool silent;  // failure neither
  bool counted;
  Peer* peer;
  void* context;
  uint64_t flags;          // of the completion
  char* copy;              // NULL: nothing was copied
  Pieces memory;           // of a large message
  std::vector<char> kept;  // its bytes, if the caller may change them at once
  Registered registered;
  GrantBody grant;
};

class RdmEndpoint final : public fid_ep, public Driven, public AddressUser, private BoundQueues {
 public:
  static int open(fid_domain* domain, fi_info* info, fid_ep** ep, void* context);
  ~RdmEndpoint();

  void progress() override;
  bool prepare_to_sleep() override;
  bool watches_peers() const override;
  void on_insert(fi_addr_t number, const Address& address) override;
  void on_remove(fi_addr_t number) override;

 private:
  // A send as its caller describes it.
  struct Outgoing {
    std::span<const iovec> pieces;
    fi_addr_t to;
    uint64_t kind;  // FI_MSG or FI_TAGGED
    uint64_t tag = 0;
    uint64_t data = 0;
    void* context = nullptr;
    uint64_t flags = 0;
  };

  // A receive as its caller describes it.
  struct Wanted {
    std::span<const iovec> pieces;
    fi_addr_t from;
    uint64_t kind;
    uint64_t tag = 0;
    uint64_t ignore = 0;
    void* context = nullptr;
    uint64_t flags = 0;
  };

  explicit RdmEndpoint(Domain* domain) : domain_(domain) {}

  // rdm_endpoint.cc: making and ending, progress
  int enable();
  int make_queues();
  void drop_queues();
  static void drop_ways(Peer* peer);
  int make_jetty();
  void flush();
  bool flush_all();
  void take(const urma_cr_t& record);
  int take_from(urma_jfc_t* jfc);
  void progress_all();
  void look_after_peers();
  static int close(fid_t head);
  static int bind(fid_t head, fid_t other, uint64_t flags);
  static int control(fid_t head, int command, void* argument);
  static ssize_t cancel(fid_t head, void* context);
  static int get_name(fid_t head, void* room, size_t* size);

  // rdm_send.cc
  ssize_t send(const Outgoing& message);
  ssize_t send_now(Peer* peer, const Outgoing& message, size_t bytes);
  ssize_t send_inline(Peer* peer, const Outgoing& message, size_t bytes);
  ssize_t send_copy(Peer* peer, const Outgoing& message, size_t bytes);
  ssize_t send_request(Peer* peer, const Outgoing& message, size_t bytes);
  void keep_bytes(Send* send);
  Send* take_send(Peer* peer, const Outgoing& message);
  void put_send(Send* send);
  Peer* peer_at(fi_addr_t number) const {
    return number < peers_by_number_.size() ? peers_by_number_[number] : nullptr;
  }
  bool reach(Peer* peer);
  bool open_queue(Peer* peer);
  urma_status_t post(Peer* peer, urma_target_jetty_t* target, uint64_t beside, urma_sge_t* pieces,
                     uint32_t count, uint64_t user_ctx, uint32_t how);
  urma_status_t post_frame(Peer* peer, uint64_t tag, const char* frame, size_t bytes,
                           uint64_t user_ctx, bool confirmed);
  void take_sent(Send* send, const urma_cr_t& record);
  void end_send(Send* send, int error, int status);
  void report_send(const Outgoing& message);
  void take_probed(Peer* peer, const urma_cr_t& record);
  void probe(Peer* peer);
  bool settle(Peer* peer);
  void lose(Peer* peer, int status);

  // rdm_receive.cc
  ssize_t receive(const Wanted& wanted);
  ssize_t look(const Wanted& wanted, Receive* receive);
  void take_claimed(const Wanted& wanted, Receive* receive);
  void give(Receive* receive, Unexpected* message);
  void discard(Unexpected* message);
  void take_bounce(const urma_cr_t& record);
  Peer* sender_of(const Frame& frame, const urma_eid_t& eid);
  bool recognise(Peer* peer, uint16_t incarnation);
  void answer_probe(Peer* peer, const ProbeBody& probe);
  void take_frame(Peer* peer, const Frame& frame, uint64_t tag);
  void take_message(const Envelope& message, const char* bytes);
  void copy_to(Receive* receive, const Envelope& message, const char* bytes);
  void put_message(Unexpected* message);
  void end_receive(Receive* receive, int error, int status);
  void report_receive(const Receive& receive, const Envelope& message, size_t bytes, int error,
                      int status);
  bool register_memory(const Pieces& memory, uint64_t bytes, Registered* registered);
  void unregister(Registered* registered);

  // rdm_rendezvous.cc: large messages
  void take_announced(Receive* receive);
  bool open_lane(Peer* peer);
  void grant(Receive* receive);
  void grant_waiting(Peer* peer);
  void send_grant(Peer* peer, const GrantFrame& frame);
  void answer_nothing(const Envelope& message, uint8_t flags);
  bool post_grant(Peer* peer, const GrantFrame& frame);
  void take_lane(Receive* receive, const urma_cr_t& record);
  void take_grant(Peer* peer, const Frame& frame);
  static bool leads_to(const LaneOut& lane, const GrantBody& grant);
  bool reach_lane(Peer* peer, const GrantBody& grant);
  void return_grant(Peer* peer, const GrantBody& grant);
  void take_returned(Peer* peer, const GrantBody& grant);
  bool post_data(Send* send);
  void delay(Peer* peer);
  void send_delayed();
  bool send_delayed_to(Peer* peer);
  void close_lane(Peer* peer, int error);
  Receive* withdraw_waiting(const void* context);

  // rdm_calls.cc: the calls of libfabric
  uint64_t send_flags(uint64_t flags) const {
    return report_sends_ ? flags | FI_COMPLETION : flags;
  }
  uint64_t call_flags() const { return send_flags(info_->tx_attr->op_flags); }
  uint64_t receive_flags() const { return info_->rx_attr->op_flags; }
  static ssize_t recv(fid_ep*, void*, size_t, void*, fi_addr_t, void*);
  static ssize_t recvv(fid_ep*, const iovec*, void**, size_t, fi_addr_t, void*);
  static ssize_t recvmsg(fid_ep*, const fi_msg*, uint64_t);
  static ssize_t send_one(fid_ep*, const void*, size_t, void*, fi_addr_t, void*);
  static ssize_t sendv(fid_ep*, const iovec*, void**, size_t, fi_addr_t, void*);
  static ssize_t sendmsg(fid_ep*, const fi_msg*, uint64_t);
  static ssize_t inject(fid_ep*, const void*, size_t, fi_addr_t);
  static ssize_t senddata(fid_ep*, const void*, size_t, void*, uint64_t, fi_addr_t, void*);
  static ssize_t injectdata(fid_ep*, const void*, size_t, uint64_t, fi_addr_t);
  static ssize_t trecv(fid_ep*, void*, size_t, void*, fi_addr_t, uint64_t, uint64_t, void*);
  static ssize_t trecvv(fid_ep*, const iovec*, void**, size_t, fi_addr_t, uint64_t, uint64_t,
                        void*);
  static ssize_t trecvmsg(fid_ep*, const fi_msg_tagged*, uint64_t);
  static ssize_t tsend(fid_ep*, const void*, size_t, void*, fi_addr_t, uint64_t, void*);
  static ssize_t tsendv(fid_ep*, const iovec*, void**, size_t, fi_addr_t, uint64_t, void*);
  static ssize_t tsendmsg(fid_ep*, const fi_msg_tagged*, uint64_t);
  static ssize_t tinject(fid_ep*, const void*, size_t, fi_addr_t, uint64_t);
  static ssize_t tsenddata(fid_ep*, const void*, size_t, void*, uint64_t, fi_addr_t, uint64_t,
                           void*);
  static ssize_t tinjectdata(fid_ep*, const void*, size_t, uint64_t, fi_addr_t, uint64_t);

  static RdmEndpoint* of(fid_ep* ep) { return static_cast<RdmEndpoint*>(ep); }

  static fi_ops fid_ops_;
  static fi_ops_ep ep_ops_;
  static fi_ops_cm cm_ops_;
  static fi_ops_msg msg_ops_;
  static fi_ops_tagged tagged_ops_;
  static fi_ops_rma rma_ops_;
  static fi_ops_atomic atomic_ops_;

  Domain* domain_;
  std::shared_ptr<Device> device_;
  fi_info* info_ = nullptr;
  Address source_;  // id 0: any
  Av* av_ = nullptr;
  bool directed_ = false;  // receives name their source
  bool enabled_ = false;

  // A poll of a JFC with a single source is cheap: what arrives has one of its own. All else goes
  // to the other one.
  urma_jfc_t* arrivals_ = nullptr;
  urma_jfc_t* records_ = nullptr;
  uint32_t expected_ = 0;  // records that are sure to come there, apart from those of probes
  urma_jfr_t* jfr_ = nullptr;
  urma_jetty_t* jetty_ = nullptr;  // only receives
  Origin origin_{};
  size_t inline_size_ = 0;
  Buffers buffers_;
  PeerTable peers_;
  std::vector<Peer*> peers_by_number_;  // NULL: removed
  Matcher matcher_;
  Pool<Send> sends_;
  // A restarted process uses others.
  uint32_t turns_ = static_cast<uint32_t>(random_number());
  uint64_t lane_number_ = 0;    // of the last grant
  std::vector<Peer*> delayed_;  // whose queues were full
  uint32_t polls_ = 0;
  uint32_t idle_ = 0;  // without an arrival
  Clock::time_point looked_after_;
};

}  // namespace urma_fi

#endif  // OFI_RDM_ENDPOINT_H
