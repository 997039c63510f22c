// SPDX-License-Identifier: MIT
//
// Queries other processes, as tools do.
#ifndef TEST_PROCESS_INSPECT_READER_H_
#define TEST_PROCESS_INSPECT_READER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "test/process/harness.h"
#include "urma_api.h"
#include "urma_ext.h"

namespace urma_test {

// Retries while a busy machine delays the answer too long.
template <typename Call>
urma_status_t ask(const Call& call) {
  const auto deadline = Clock::now() + patience(seconds(10));
  urma_status_t status;
  do {
    status = call();
  } while (status == URMA_ETIMEOUT && Clock::now() < deadline);
  return status;
}

// Everything that `query(array, &count)` lists.
template <typename Record, typename Query>
std::vector<Record> all(const Query& query) {
  std::vector<Record> records(1000);
  uint32_t count = static_cast<uint32_t>(records.size());
  const urma_status_t status = ask([&] { return query(records.data(), &count); });
  if (status != URMA_SUCCESS) throw std::runtime_error("status " + std::to_string(status));
  EXPECT_LE(count, records.size());
  records.resize(count);
  return records;
}

inline std::vector<urma_ext_process_t> processes() {
  return all<urma_ext_process_t>(urma_ext_list_processes);
}
inline std::vector<urma_ext_queue_t> queues(uint32_t pid) {
  return all<urma_ext_queue_t>(
      [=](auto* array, uint32_t* count) { return urma_ext_query_queues(pid, array, count); });
}
inline std::vector<urma_ext_segment_t> segments(uint32_t pid) {
  return all<urma_ext_segment_t>(
      [=](auto* array, uint32_t* count) { return urma_ext_query_segments_of(pid, array, count); });
}
inline std::vector<urma_ext_connection_t> connections(uint32_t pid) {
  return all<urma_ext_connection_t>(
      [=](auto* array, uint32_t* count) { return urma_ext_query_connections(pid, array, count); });
}
// Of this process, those streams that it has begun itself: others on the host begin some to it, to
// see whom they have found.
inline size_t streams_begun() {
  const auto listed = connections(0);
  return std::count_if(listed.begin(), listed.end(), [](const auto& connection) {
    return connection.stream != 0 && connection.incoming == 0;
  });
}
inline std::vector<urma_ext_setting_t> settings(uint32_t pid) {
  return all<urma_ext_setting_t>(
      [=](auto* array, uint32_t* count) { return urma_ext_query_settings(pid, array, count); });
}
// Without files that the build has left next to the modules.
inline std::vector<urma_ext_provider_t> providers(uint32_t pid) {
  auto listed = all<urma_ext_provider_t>(
      [=](auto* array, uint32_t* count) { return urma_ext_query_providers(pid, array, count); });
  std::erase_if(listed, [](const auto& provider) {
    return std::string_view(provider.reason) == "not an ELF file";
  });
  return listed;
}

inline bool is_listed(uint32_t pid) {
  const auto listed = processes();
  return std::any_of(listed.begin(), listed.end(),
                     [pid](const auto& process) { return process.pid == pid; });
}

}  // namespace urma_test

#endif  // TEST_PROCESS_INSPECT_READER_H_
