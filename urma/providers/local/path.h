// SPDX-License-Identifier: MIT
//
// The way from one send queue to one imported queue: executes its requests in post order.
#ifndef URMA_PROVIDERS_LOCAL_PATH_H_
#define URMA_PROVIDERS_LOCAL_PATH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "jetty/send_queue.h"
#include "urma/providers/local/remote.h"
#include "urma/providers/local/ring.h"

namespace urma::local {

class Sender;

// A ring that the owner of the target is asked to take; shared with the service thread.
struct RingOpening {
  uint32_t number = 0;
  RingProducer ring;
  std::atomic<bool> ended{false};
  // Valid once ended.
  Answer answer = Answer::kUnreachable;
  std::shared_ptr<Link> link;
  RemoteBell bell;  // of the receiver's JFC

  explicit RingOpening(uint32_t bytes) : ring(bytes) {}
};

// An atomic that the owner's service thread executes.
struct AtomicCall {
  std::atomic<bool> ended{false};
  // Valid once ended.
  Answer answer = Answer::kUnreachable;
  uint64_t old_value = 0;
};

class QueuePath : public SendPath {
 public:
  QueuePath(Sender* sender, RemoteQueue* target);
  ~QueuePath() override;

  void enqueue(SendEntry* entry);
  bool advance() override;
  // The next look is one of many in vain: for those who look seldom.
  void insist();
  // Ends all requests: those that the target has received with success, the others with
  // WR_FLUSH_ERR, which may take until the owner has answered. The path can be used again.
  void flush();
  // True where nothing needs this path any more: it may be deleted.
  bool unused() const { return entries == 0 && !target_->imported.load(); }
  uint64_t serial() const { return serial_; }
  // True where no request waits to be executed.
  bool idle() const { return first_pending_ == kNoEntry; }
  // True where a message of so many bytes can be published without a look at what the receiver has
  // written: that line comes from another core, and would hold up the message.
  bool takes_now(uint64_t bytes) const;
  // Publishes such a message. The entry is committed afterwards.
  void publish_now(const SendEntry& entry, const void* data);

 private:
  enum class Step { kDone, kInFlight, kWait };

  SendEntry* take_first();
  void reap();
  bool reap_answers();
  void fail_all(urma_cr_status_t status);
  void press_if_slow(bool moved);
  Step execute_guarded(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status);
  Step execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status);

  Step transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status);
  Step atomic(SendEntry* entry, urma_cr_status_t* status);
  // Finds the grant for an access, asking the owner where need be.
  Step authorize(SendEntry* entry, uint32_t access, const Grant** grant, urma_cr_status_t* status);
  urma_cr_status_t transfer_some(SendEntry* entry, const Grant& grant, uint64_t budget,
                                 uint64_t* moved);
  bool atomic_mapped(SendEntry* entry, const Grant& grant);
  void call_atomic(SendEntry* entry, const Grant& grant);
  bool local_memory_stands(SendEntry* entry) const;

  Step send(SendEntry* entry, urma_cr_status_t* status);
  Step write_imm(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status);
  Step open_ring(urma_cr_status_t* status);
  void request_ring();
  bool publish(SendEntry* entry);
  void publish_write(SendEntry* entry);
  void wake(bool solicited);
  void ask_to_close();
  void drop_ring();

  Sender* sender_;
  RemoteQueue* target_;
  const uint64_t serial_;
  uint32_t first_pending_ = kNoEntry;
  uint32_t last_pending_ = kNoEntry;
  uint64_t asked_ = 0;  // the attempt that the first pending request waits for, 0: none
  std::shared_ptr<AtomicCall> atomic_call_;
  std::shared_ptr<RingOpening> opening_;
  RingProducer* ring_ = nullptr;  // once the owner has taken it
  bool closing_ = false;          // the owner was asked to give back what is in ring_
  uint32_t fruitless_ = 0;
  uint64_t waiting_since_ns_ = 0;
};

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_PATH_H_
