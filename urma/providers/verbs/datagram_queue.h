// SPDX-License-Identifier: MIT
//
// Mode UM: messages as datagrams. Each has our header before the program's bytes, since a
// datagram tells only the sender's queue pair and port.
#ifndef URMA_PROVIDERS_VERBS_DATAGRAM_QUEUE_H_
#define URMA_PROVIDERS_VERBS_DATAGRAM_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "segment/lazy_array.h"
#include "urma/providers/verbs/memory.h"
#include "urma/providers/verbs/offloaded_path.h"

namespace urma::verbs {

struct DatagramHeader {
  urma_eid_t sender_eid;
  uint32_t sender_id;
  uint32_t sender_uasid;
  uint32_t target_id;
  uint16_t has_immediate;
  uint16_t to_jetty;  // a JFR and a jetty may have the same id
  uint64_t immediate;
};
static_assert(sizeof(DatagramHeader) == 40);

// The device puts this before the sent bytes.
inline constexpr uint32_t kRoutingHeader = 40;

// How many bytes of a program one datagram takes.
uint32_t max_datagram(const DeviceInfo& info);

// The receiving end of all targets of one receiver. It adds to each receive a piece in front, for
// the headers, and one behind, for bytes beyond the program's buffers: a device would drop a
// message that is too long, or fail the queue pair, but its receiver must be told.
class DatagramReceives {
 public:
  static constexpr uint32_t kPieces = 2;

  // Throws Error.
  DatagramReceives(const ContextResources& resources, const std::shared_ptr<CqPump>& pump,
                   uint32_t depth, uint32_t max_pieces);

  int post(ibv_recv_wr* first, ibv_recv_wr** bad);
  // A receive in memory that is gone ends the queue pair. All receives must be posted again. Peers
  // that knew it before reach it again. Throws Error.
  void reopen() { pair_.reopen(); }
  // Messages sent here before reopen() are lost. False if the device refuses.
  bool shut() { return pair_.shut(); }
  // Where the headers of the receive in this place go.
  ibv_sge header_piece(uint32_t place) const;
  // Where the excess of all receives goes: nobody reads it.
  ibv_sge rest_piece() const;
  // The header received there, read once.
  DatagramHeader header(uint32_t place) const;
  // For senders.
  ConnectReply reply() const;

 private:
  const Api* const api_;
  const uint32_t qkey_;
  const uint32_t most_;     // bytes of a program in one datagram
  const uint64_t rest_at_;  // behind the headers
  LazyMemory headers_;
  MemoryRegion region_;
  QueuePair pair_;
};

// The sending end, of all paths of one sender. Guarded by the lock of its queue.
class DatagramSends {
 public:
  // Throws Error.
  DatagramSends(const ContextResources& resources, const std::shared_ptr<CqPump>& pump,
                const QueuePairLimits& limits, const urma_jfs_cfg_t& cfg);

  ibv_qp* pair() const { return pair_.handle(); }
  bool has_room() const { return under_way_ < sends_; }
  void sent() { ++under_way_; }
  // False if it was only flushed, behind the one that broke the queue pair: send it again.
  bool completed(ibv_wc_status status);
  // Reopens a broken queue pair once it has nothing in flight: false before. Throws Error.
  bool mend();
  // Stops waiting for this many requests in flight: the queue pair is broken.
  void lose(uint32_t count);
  // The first bytes of the request in this place of the send queue: the header, and the program's
  // inline data.
  ibv_sge write_head(uint32_t place, const DatagramHeader& header, const void* data,
                     uint32_t bytes) const;

 private:
  const size_t stride_;
  LazyMemory headers_;
  MemoryRegion region_;
  std::atomic<bool> broken_{false};  // set by its completions, or by the device at any time
  QueuePair pair_;
  const uint32_t sends_;
  uint32_t under_way_ = 0;
};

class DatagramPath : public OffloadedPath {
 public:
  DatagramPath(Sender* sender, RemoteQueue* target, uint32_t hint)
      : OffloadedPath(sender, target, hint) {}
  ~DatagramPath() override { disconnect(); }

  bool has_short_way() const override { return false; }
  bool advance() override;
  void flush() override;
  void drop() override;
  void completed(uint32_t mark, ibv_wc_status status) override;
  void lose() override { end_under_way(URMA_CR_LOC_OPERATION_ERR); }
  bool linger() override;

 private:
  Step send(SendEntry* entry, urma_cr_status_t* status) override;

  bool mended();
  bool connected();
  void disconnect();
  bool post_waiting();
  Step post(SendEntry* entry, urma_cr_status_t* status);
  urma_cr_status_t check(SendEntry* entry) const;
  void end_under_way(urma_cr_status_t status);
  bool had_time() const;
  void await_device();
  void flush_doomed();

  AhHandle address_;
  uint32_t flushed_ = 0;  // the first ones in flight, which the device has given back
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_DATAGRAM_QUEUE_H_
