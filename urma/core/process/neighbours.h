// SPDX-License-Identifier: MIT
//
// The other processes of the runtime directory, and what they answer. Any wait ends at a deadline,
// and nothing that comes from there is believed before it is checked.
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

// All processes of this user that share the directory, this one among them, by pid.
std::vector<urma_ext_process_t> list_processes(const Runtime& runtime);

// The bytes of what process `pid` answers, whole records of `record_bytes`. Throws Error with the
// status that urma_ext.h tells of.
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
