// SPDX-License-Identifier: MIT
//
// The extensions that inspect processes.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "urma/base/bits.h"
#include "urma/base/error.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/core.h"
#include "urma/core/process/neighbours.h"
#include "urma/core/process/perf.h"
#include "urma/core/process/snapshot.h"
#include "urma_ext.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)

bool is_self(uint32_t pid) { return pid == 0 || pid == static_cast<uint32_t>(::getpid()); }

// In a forked child, locks may be held by threads that do not exist there.
void require_not_forked(const char* call) {
  if (!is_forked()) return;
  urma::fail(URMA_FAIL, "{}: this process was forked while its parent used the library; exec first",
             call);
}

void require_init(const char* call) {
  require_not_forked(call);
  if (!in_use()) urma::fail(URMA_FAIL, "{}: {}", call, not_started_text());
}

// -------------------------------------------------------------------------------------------------
// Answers of other processes: texts are terminated, and each enum has one of its values.
// -------------------------------------------------------------------------------------------------

template <size_t Bytes>
bool ends(const char (&text)[Bytes]) {
  return std::memchr(text, '\0', Bytes) != nullptr;
}

template <typename Enum>
bool up_to(const Enum& value, Enum last) {
  return urma::bits_of(value) <= static_cast<uint32_t>(last);
}

bool credible(const urma_ext_queue_t& queue) {
  return ends(queue.device) && up_to(queue.kind, URMA_EXT_QUEUE_JETTY);
}

bool credible(const urma_ext_segment_t& segment) {
  return ends(segment.device) && segment.imported <= 1 && segment.part_index < segment.part_count &&
         up_to(segment.part.path, URMA_EXT_PATH_DEVICE) &&
         up_to(segment.part.reason, URMA_EXT_REASON_ENDED);
}

bool credible(const urma_ext_connection_t& connection) {
  return ends(connection.device) && up_to(connection.kind, URMA_EXT_QUEUE_JETTY) &&
         up_to(connection.peer_kind, URMA_EXT_QUEUE_JETTY) &&
         up_to(connection.state, URMA_EXT_CONNECTION_FAILED) && connection.incoming <= 1 &&
         connection.stream <= 1;
}

bool credible(const urma_ext_setting_t& setting) {
  return ends(setting.name) && ends(setting.value) && ends(setting.given) &&
         ends(setting.fallback) && ends(setting.range) && ends(setting.help) &&
         up_to(setting.origin, URMA_EXT_ORIGIN_USER_FILE);
}

bool credible(const urma_ext_provider_t& provider) {
  return ends(provider.name) && ends(provider.path) && ends(provider.reason) &&
         provider.loaded <= 1;
}

template <typename Record>
std::vector<Record> records_of(const char* call, uint32_t pid, Topic topic) {
  require_init(call);
  auto records = ask_records<Record>(*runtime(), pid, topic);
  const bool all = std::all_of(records.begin(), records.end(),
                               [](const Record& record) { return credible(record); });
  if (!all) urma::fail(URMA_FAIL, "{}: process {} sent an invalid answer", call, pid);
  return records;
}

template <typename Record>
void hand_out(const std::vector<Record>& records, Record* array, uint32_t* count) {
  const size_t room = array == nullptr ? 0 : *count;
  std::copy_n(records.begin(), std::min(room, records.size()), array);
  *count = static_cast<uint32_t>(records.size());
}

template <typename Record>
bool has_room(const char* call, const Record* array, const uint32_t* count) {
  return given(call, "count", count) && (*count == 0 || given(call, "the array", array));
}

// `here` lists what the calling process has.
template <typename Record, typename Here>
urma_status_t list(const char* name, uint32_t pid, Topic topic, const Here& here, Record* array,
                   uint32_t* count) {
  return entry(name, [&](const char* call) -> urma_status_t {
    if (!has_room(call, array, count)) return URMA_EINVAL;
    require_not_forked(call);
    hand_out(is_self(pid) ? here(call) : records_of<Record>(call, pid, topic), array, count);
    return URMA_SUCCESS;
  });
}

// The same for what exists only between urma_init and urma_uninit.
template <typename Record>
auto while_in_use(std::vector<Record> (*now)()) {
  return [now](const char* call) {
    require_init(call);
    return now();
  };
}

std::string perf_table(const char* call, uint32_t pid) {
  if (is_self(pid)) return perf::table();
  require_init(call);
  const std::vector<char> table = ask_process(*runtime(), pid, Topic::kPerfShow, sizeof(char));
  // Bytes behind an early end are not text.
  return std::string(table.data(), ::strnlen(table.data(), table.size()));
}

void measure(const char* call, uint32_t pid, bool start) {
  if (!is_self(pid)) {
    require_init(call);
    ask_process(*runtime(), pid, start ? Topic::kPerfStart : Topic::kPerfStop, 1);
  } else if (start) {
    perf::start();
  } else {
    perf::stop();
  }
}

urma_status_t show_perf(const char* call, uint32_t pid, char* text, uint32_t* len) {
  if (!given(call, "len", len) || (*len != 0 && !given(call, "text", text))) return URMA_EINVAL;
  const std::string table = perf_table(call, pid);
  const uint32_t room = *len;
  *len = static_cast<uint32_t>(table.size() + 1);
  if (room < *len) return URMA_EINVAL;
  std::memcpy(text, table.c_str(), table.size() + 1);
  return URMA_SUCCESS;
}

}  // namespace

URMA_EXPORT urma_status_t urma_ext_list_processes(urma_ext_process_t* processes, uint32_t* count) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!has_room(call, processes, count)) return URMA_EINVAL;
    require_init(call);
    hand_out(list_processes(*runtime()), processes, count);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_ext_query_queues(uint32_t pid, urma_ext_queue_t* queues,
                                                uint32_t* count) {
  return list(__func__, pid, Topic::kQueues, while_in_use(queues_now), queues, count);
}

URMA_EXPORT urma_status_t urma_ext_query_segments_of(uint32_t pid, urma_ext_segment_t* segments,
                                                     uint32_t* count) {
  return list(__func__, pid, Topic::kSegments, while_in_use(segments_now), segments, count);
}

URMA_EXPORT urma_status_t urma_ext_query_connections(uint32_t pid,
                                                     urma_ext_connection_t* connections,
                                                     uint32_t* count) {
  return list(__func__, pid, Topic::kConnections, while_in_use(connections_now), connections,
              count);
}

URMA_EXPORT urma_status_t urma_ext_query_settings(uint32_t pid, urma_ext_setting_t* settings,
                                                  uint32_t* count) {
  return list(
      __func__, pid, Topic::kSettings, [](const char*) { return settings_now(); }, settings, count);
}

URMA_EXPORT urma_status_t urma_ext_query_providers(uint32_t pid, urma_ext_provider_t* providers,
                                                   uint32_t* count) {
  return list(
      __func__, pid, Topic::kProviders, [](const char*) { return providers_now(); }, providers,
      count);
}

URMA_EXPORT urma_status_t urma_ext_perf(uint32_t pid, urma_ext_perf_op_t op, char* text,
                                        uint32_t* len) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!up_to(op, URMA_EXT_PERF_SHOW)) {
      URMA_LOG_LIMITED(ERR, "{}: op is unknown; use START (0), STOP (1) or SHOW (2)", call);
      return URMA_EINVAL;
    }
    require_not_forked(call);
    if (op == URMA_EXT_PERF_SHOW) return show_perf(call, pid, text, len);
    measure(call, pid, op == URMA_EXT_PERF_START);
    return URMA_SUCCESS;
  });
}
