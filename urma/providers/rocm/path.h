// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_ROCM_PATH_H_
#define URMA_PROVIDERS_ROCM_PATH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "urma/providers/rocm/copies.h"
#include "urma/providers/shm/path.h"

namespace urma::rocm {

// The runtime copies memory of devices, here or at the target, while the program goes on.
// Everything else takes the way of QueuePath.
//
// Reads and writes run side by side, unless one asks for order; each other request waits for those
// before it.
class Path : public shm::QueuePath {
 public:
  Path(shm::Sender* sender, RemoteQueue* target, uint32_t hint);

  bool advance() override;

 protected:
  Step execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  void next_begins() override;

 private:
  enum class Local { kNone, kHost, kDevice };

  // A read or write in progress.
  struct Outstanding {
    SendEntry* entry;
    CopyHandle copy;
  };
  // What the first pending request waits for.
  struct Current {
    std::unique_ptr<Buffer> buffer;
    CopyHandle copy;      // ends before its buffer
    uint64_t bytes = 0;   // bytes of the buffer in use
    bool staged = false;  // the message lies in the buffer
  };
  // A buffer that a receiver may still be reading.
  struct Staged {
    SendEntry* entry;
    std::unique_ptr<Buffer> buffer;
  };

  Step transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step atomic(SendEntry* entry, urma_cr_status_t* status) override;
  Step write_value(const shm::Grant& grant, uint64_t addr, uint64_t value,
                   urma_cr_status_t* status) override;
  Step send(SendEntry* entry, urma_cr_status_t* status) override;

  void reap_copies();
  void wake_when_ended(Copy* copy);
  Local local_memory(SendEntry* entry);
  Step transfer_to_device(SendEntry* entry, const shm::OpaqueView& view, uint64_t offset,
                          urma_cr_status_t* status);
  Step transfer_by_buffer(SendEntry* entry, const shm::Grant& grant, uint64_t* budget,
                          urma_cr_status_t* status);
  Step await_current(urma_cr_status_t* status);
  void collect_pieces(SendEntry* entry, uint64_t skip, uint64_t bytes, char* other,
                      bool from_local);

  Copies* const engine_;
  const CompletionQueue* const jfc_;
  std::deque<Outstanding> copies_;
  Current current_;
  std::vector<Staged> staged_;
  std::vector<CopyPiece> pieces_;  // kept for the next request
};

}  // namespace urma::rocm

#endif  // URMA_PROVIDERS_ROCM_PATH_H_
