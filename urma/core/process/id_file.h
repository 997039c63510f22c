// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_PROCESS_ID_FILE_H_
#define URMA_CORE_PROCESS_ID_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "urma/base/id_blocks.h"
#include "urma/base/own_fd.h"
#include "urma/core/process/runtime_dir.h"

namespace urma::core {

// The file `ids` of the runtime directory, which stays empty: locks on its ranges (F_OFD_SETLK)
// tell which process owns which ids, so that the kernel frees those of a dead process. A block or a
// chosen id is a place of the file, locked for writing over 1 + slot bytes, which tells others the
// owner's slot. A process with chosen ids in a block that none has claimed locks the first byte of
// the block's place for reading.
class IdFile final : public IdClaims {
 public:
  // temporary_name is a name that only the caller uses. Throws Error if the file cannot be made.
  IdFile(const RuntimeDir& dir, const std::string& temporary_name, uint32_t slot);

  bool claim(uint32_t block) override;
  void release(uint32_t block) override;
  bool join(uint32_t block) override;
  void leave(uint32_t block) override;
  void reserve(IdKind kind, uint32_t eid_index, uint32_t id) override;
  void unreserve(IdKind kind, uint32_t eid_index, uint32_t id) override;
  bool reserved_elsewhere(IdKind /*kind*/, uint32_t /*id*/) override { return false; }

  // The slot of another living process that has the id.
  std::optional<uint32_t> owner(IdKind kind, uint32_t eid_index, uint32_t id) const;

 private:
  bool lock(short type, off_t place, off_t bytes);
  void unlock(off_t place, off_t bytes);
  std::optional<uint32_t> slot_at(off_t place) const;

  const std::string path_;
  const off_t locked_bytes_;  // 1 + slot
  OwnFd fd_;
};

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_ID_FILE_H_
