// SPDX-License-Identifier: MIT
#ifndef URMA_PROVIDERS_SHM_DEVICE_PATH_H_
#define URMA_PROVIDERS_SHM_DEVICE_PATH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "urma/providers/shm/device_memory.h"
#include "urma/providers/shm/path.h"

namespace urma::shm {

// A path of a provider with memory of devices: what lies there, here or at the target, is copied by
// the provider's engine while the program goes on. Everything else takes the way of QueuePath.
//
// Reads and writes run side by side, unless one asks for the order; each of the other requests
// waits for those before it.
class DevicePath final : public QueuePath {
 public:
  DevicePath(Sender* sender, RemoteQueue* target, uint32_t hint);
  ~DevicePath() override;

  bool advance() override;
  void give_up_first() override;
  void flush() override;

 private:
  enum class Local { kNone, kHost, kDevice };

  // A read or write under way.
  struct Outstanding {
    SendEntry* entry;
    std::unique_ptr<DeviceCopy> copy;
  };
  // What the first pending request waits for.
  struct Current {
    std::unique_ptr<DeviceCopy> copy;
    std::unique_ptr<HostBuffer> buffer;
    uint64_t bytes = 0;   // of the buffer, that are in use
    bool staged = false;  // the message lies in the buffer
  };
  // What a receiver may still be reading.
  struct Staged {
    SendEntry* entry;
    std::unique_ptr<HostBuffer> buffer;
  };

  Step execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step atomic(SendEntry* entry, urma_cr_status_t* status) override;
  Step write_value(const Grant& grant, uint64_t addr, uint64_t value,
                   urma_cr_status_t* status) override;
  Step send(SendEntry* entry, urma_cr_status_t* status) override;

  Step execute_kind(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status);
  void reap_copies();
  void wake_when_ended(DeviceCopy* copy);
  Local local_memory(SendEntry* entry);
  Step transfer_to_device(SendEntry* entry, const DeviceView& view, uint64_t offset,
                          urma_cr_status_t* status);
  Step transfer_by_buffer(SendEntry* entry, const Grant& grant, uint64_t* budget,
                          urma_cr_status_t* status);
  Step move_buffer(SendEntry* entry, const Grant& grant, uint64_t* moved, urma_cr_status_t* status);
  Step await_current(urma_cr_status_t* status);
  void begin_current(std::span<const CopyPiece> pieces);
  void collect_pieces(SendEntry* entry, uint64_t skip, uint64_t bytes, char* other,
                      bool from_local);

  DeviceEngine* const engine_;
  SendQueue* const queue_;
  Transport* const transport_;
  const CompletionQueue* const jfc_;
  std::deque<Outstanding> copies_;
  Current current_;
  std::vector<Staged> staged_;
  std::vector<CopyPiece> pieces_;  // kept for the next one
};

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_DEVICE_PATH_H_
