/* SPDX-License-Identifier: MIT */

// Active endpoints: one RC jetty and its JFR each.

#ifndef OFI_ENDPOINT_H
#define OFI_ENDPOINT_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "ofi/atomics.h"
#include "ofi/bound_queues.h"
#include "ofi/deadline.h"
#include "ofi/device.h"
#include "ofi/fid.h"
#include "ofi/op.h"
#include "ofi/passive.h"

namespace urma_fi {

class Cntr;
class Cq;
class Domain;
class Eq;

enum class State { kIdle, kConnecting, kAccepting, kConnected, kShut };

class Endpoint final : public fid_ep, public JettyOwner, private BoundQueues {
 public:
  static int open(fid_domain* domain, fi_info* info, fid_ep** ep, void* context);
  ~Endpoint();

  const Device* device() const { return device_.get(); }

  // The following is guarded by the mutex of the event queue once the endpoint is enabled.
  State state = State::kIdle;
  uint64_t number = 0;              // the peer's name for it; 0: not enabled
  uint64_t peer_number = 0;         // its name for the peer
  Address peer;                     // of the port that speaks for the peer
  Clock::time_point patience_ends;  // while it is connecting

  // Binds the jetty to the peer's. Returns 0 or a negative code, with nothing bound.
  int join(uint32_t peer_jetty);
  // Unbinds it.
  void part();

  void on_peer_lost() override;

 private:
  struct Remote {
    uint64_t address;
    uint64_t key;
  };
  // What an atomic request takes from memory, NULL what it lacks.
  struct AtomicData {
    const void* operand = nullptr;
    const void* compare = nullptr;
    void* result = nullptr;
    void* descriptor = nullptr;  // of the result's memory
  };

  explicit Endpoint(Domain* domain) : domain_(domain) {}

  // endpoint.cc: making and ending
  int enable();
  int make_queues();
  int register_results();
  void drop_queues();
  void drain();
  static int close(fid_t head);
  static int bind(fid_t head, fid_t other, uint64_t flags);
  static int control(fid_t head, int command, void* argument);
  static ssize_t send_room(fid_ep* ep);
  static ssize_t receive_room(fid_ep* ep);

  // endpoint_cm.cc: connecting
  static int connect(fid_ep* ep, const void* address, const void* data, size_t size);
  static int accept(fid_ep* ep, const void* data, size_t size);
  int answer(const void* data, size_t size);
  bool request_stands() const;
  void turn_away();
  static int shutdown(fid_ep* ep, uint64_t flags);
  static int get_name(fid_t fid, void* address, size_t* size);
  static int get_peer(fid_ep* ep, void* address, size_t* size);
  void say_goodbye();

  // endpoint_msg.cc: messages
  ssize_t receive(std::span<const iovec> pieces, void** descriptors, void* context, uint64_t flags);
  ssize_t send(std::span<const iovec> pieces, void** descriptors, uint64_t data, void* context,
               uint64_t flags);
  static ssize_t recv(fid_ep*, void*, size_t, void*, fi_addr_t, void*);
  static ssize_t recvv(fid_ep*, const iovec*, void**, size_t, fi_addr_t, void*);
  static ssize_t recvmsg(fid_ep*, const fi_msg*, uint64_t);
  static ssize_t send_one(fid_ep*, const void*, size_t, void*, fi_addr_t, void*);
  static ssize_t sendv(fid_ep*, const iovec*, void**, size_t, fi_addr_t, void*);
  static ssize_t sendmsg(fid_ep*, const fi_msg*, uint64_t);
  static ssize_t inject(fid_ep*, const void*, size_t, fi_addr_t);
  static ssize_t senddata(fid_ep*, const void*, size_t, void*, uint64_t, fi_addr_t, void*);
  static ssize_t injectdata(fid_ep*, const void*, size_t, uint64_t, fi_addr_t);

  // endpoint_rma.cc: one-sided requests
  ssize_t read_remote(std::span<const iovec> pieces, void** descriptors, Remote from, void* context,
                      uint64_t flags);
  ssize_t write_remote(std::span<const iovec> pieces, void** descriptors, Remote to, uint64_t data,
                       void* context, uint64_t flags);
  static ssize_t read(fid_ep*, void*, size_t, void*, fi_addr_t, uint64_t, uint64_t, void*);
  static ssize_t readv(fid_ep*, const iovec*, void**, size_t, fi_addr_t, uint64_t, uint64_t, void*);
  static ssize_t readmsg(fid_ep*, const fi_msg_rma*, uint64_t);
  static ssize_t write(fid_ep*, const void*, size_t, void*, fi_addr_t, uint64_t, uint64_t, void*);
  static ssize_t writev(fid_ep*, const iovec*, void**, size_t, fi_addr_t, uint64_t, uint64_t,
                        void*);
  static ssize_t writemsg(fid_ep*, const fi_msg_rma*, uint64_t);
  static ssize_t inject_write(fid_ep*, const void*, size_t, fi_addr_t, uint64_t, uint64_t);
  static ssize_t writedata(fid_ep*, const void*, size_t, void*, uint64_t, fi_addr_t, uint64_t,
                           uint64_t, void*);
  static ssize_t inject_writedata(fid_ep*, const void*, size_t, uint64_t, fi_addr_t, uint64_t,
                                  uint64_t);

  // endpoint_atomic.cc: atomic requests, on one element each
  ssize_t atomic_remote(AtomicCall call, const AtomicData& data, Remote at, fi_datatype type,
                        fi_op op, void* context, uint64_t flags);
  ssize_t atomicmsg(AtomicCall call, const fi_msg_atomic* message, AtomicData data, uint64_t flags);
  urma_target_seg_t* import(uint64_t key);
  void drop_imports();
  static ssize_t change(fid_ep*, const void*, size_t, void*, fi_addr_t, uint64_t, uint64_t,
                        fi_datatype, fi_op, void*);
  static ssize_t changev(fid_ep*, const fi_ioc*, void**, size_t, fi_addr_t, uint64_t, uint64_t,
                         fi_datatype, fi_op, void*);
  static ssize_t changemsg(fid_ep*, const fi_msg_atomic*, uint64_t);
  static ssize_t inject_change(fid_ep*, const void*, size_t, fi_addr_t, uint64_t, uint64_t,
                               fi_datatype, fi_op);
  static ssize_t fetch(fid_ep*, const void*, size_t, void*, void*, void*, fi_addr_t, uint64_t,
                       uint64_t, fi_datatype, fi_op, void*);
  static ssize_t fetchv(fid_ep*, const fi_ioc*, void**, size_t, fi_ioc*, void**, size_t, fi_addr_t,
                        uint64_t, uint64_t, fi_datatype, fi_op, void*);
  static ssize_t fetchmsg(fid_ep*, const fi_msg_atomic*, fi_ioc*, void**, size_t, uint64_t);
  static ssize_t compare(fid_ep*, const void*, size_t, void*, const void*, void*, void*, void*,
                         fi_addr_t, uint64_t, uint64_t, fi_datatype, fi_op, void*);
  static ssize_t comparev(fid_ep*, const fi_ioc*, void**, size_t, const fi_ioc*, void**, size_t,
                          fi_ioc*, void**, size_t, fi_addr_t, uint64_t, uint64_t, fi_datatype,
                          fi_op, void*);
  static ssize_t comparemsg(fid_ep*, const fi_msg_atomic*, const fi_ioc*, void**, size_t, fi_ioc*,
                            void**, size_t, uint64_t);

  // The flags of a call without any, and of one with some.
  uint64_t call_flags() const { return message_flags(info_->tx_attr->op_flags); }
  uint64_t message_flags(uint64_t flags) const {
    return report_sends_ ? flags | FI_COMPLETION : flags;
  }
  // Fills `sges` from the pieces. Returns the total size, or a negative code.
  ssize_t gather(std::span<const iovec> pieces, void** descriptors, bool by_value,
                 urma_sge_t* sges) const;
  // Whether the bytes travel inline, so that the memory needs no registration.
  bool by_value(std::span<const iovec> pieces, void** descriptors, uint64_t flags) const;
  // `unwanted`: the local entry of a request whose result nobody wants; it gets a place.
  ssize_t post(urma_jfs_wr_t* request, void* context, uint64_t kind, uint64_t flags, Cntr* counter,
               urma_sge_t* unwanted = nullptr);

  static Endpoint* of(fid_ep* ep) { return static_cast<Endpoint*>(ep); }

  static fi_ops fid_ops_;
  static fi_ops_ep ep_ops_;
  static fi_ops_cm cm_ops_;
  static fi_ops_msg msg_ops_;
  static fi_ops_rma rma_ops_;
  static fi_ops_tagged tagged_ops_;
  static fi_ops_atomic atomic_ops_;

  Domain* domain_;
  std::shared_ptr<Device> device_;
  fi_info* info_ = nullptr;
  std::optional<Request> request_;  // to answer, if it still stands
  bool may_turn_away_ = true;       // after a failed call the caller answers it
  Eq* eq_ = nullptr;
  urma_jfr_t* jfr_ = nullptr;
  urma_jetty_t* jetty_ = nullptr;
  urma_target_jetty_t* target_ = nullptr;
  std::atomic<bool> bound_{false};
  std::mutex imports_mutex_;
  std::map<uint64_t, urma_target_seg_t*> imports_;  // by key
  OpPool sends_;
  urma_target_seg_t* results_ = nullptr;  // of the requests in sends_; NULL: without FI_ATOMIC
  OpPool receives_;
};

}  // namespace urma_fi

#endif  // OFI_ENDPOINT_H
