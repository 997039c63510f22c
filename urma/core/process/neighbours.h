// SPDX-License-Identifier: MIT
//
// The other processes of the runtime directory, and their answers. Each wait has a deadline, and
// answers are checked before use.
#ifndef URMA_CORE_PROCESS_NEIGHBOURS_H_
#define URMA_CORE_PROCESS_NEIGHBOURS_H_

#include <sys/types.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "urma/base/message_socket.h"
#include "urma/base/runtime.h"
#include "urma/core/process/inspect_protocol.h"
#include "urma_ext.h"

namespace urma::core {

// All processes of this user that share the directory, including this one, by pid.
std::vector<urma_ext_process_t> list_processes(const Runtime& runtime);

// The answer of process `pid`: whole records of `record_bytes`. Throws Error with the status that
// urma_ext.h documents.
std::vector<char> ask_process(const Runtime& runtime, uint32_t pid, Topic topic,
                              uint32_t record_bytes);

template <typename Record>
std::vector<Record> ask_records(const Runtime& runtime, uint32_t pid, Topic topic) {
  static_assert(std::is_trivially_copyable_v<Record>);
  const std::vector<char> bytes = ask_process(runtime, pid, topic, sizeof(Record));
  std::vector<Record> records(bytes.size() / sizeof(Record));
  if (!records.empty()) std::memcpy(records.data(), bytes.data(), bytes.size());
  return records;
}

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_NEIGHBOURS_H_
