// SPDX-License-Identifier: MIT
#include "tools/admin/show_connections.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "third_party/fmt/format.h"
#include "tools/admin/names.h"
#include "tools/admin/processes.h"
#include "tools/admin/show_queues.h"
#include "tools/admin/text.h"

namespace admin {
namespace {

using Connection = urma_ext_connection_t;

const char* state_name(uint32_t state) {
  static constexpr const char* kNames[] = {"CONNECTING", "WAITING", "READY", "CLOSING", "FAILED"};
  return state < std::size(kNames) ? kNames[state] : "unknown";
}

std::string device_of(const Connection& connection) {
  return printable(connection.device, sizeof connection.device);
}

double age_of(const Connection& connection) {
  constexpr double kNsPerSecond = 1e9;
  return static_cast<double>(connection.age_ns) / kNsPerSecond;
}

std::string state_text(const Connection& connection) {
  std::string text = state_name(connection.state);
  if (connection.status != 0) text += " " + status_name(connection.status);
  return text;
}

std::string protection_text(const Connection& connection) {
  const bool secret = (connection.protection & URMA_EXT_PROTECTION_SECRET) != 0;
  const bool tls = (connection.protection & URMA_EXT_PROTECTION_TLS) != 0;
  if (tls) return secret ? "secret, TLS" : "TLS";
  return secret ? "secret" : "none";
}

Json stream_json(const Connection& stream) {
  return {{"device", device_of(stream)},
          {"direction", stream.incoming != 0 ? "in" : "out"},
          {"eid", eid_text(stream.eid)},
          {"port", stream.number},
          {"peer_eid", eid_text(stream.peer_eid)},
          {"peer_port", stream.peer_number},
          {"state", state_name(stream.state)},
          {"status", stream.status == 0 ? Json() : Json(status_name(stream.status))},
          {"secret", (stream.protection & URMA_EXT_PROTECTION_SECRET) != 0},
          {"tls", (stream.protection & URMA_EXT_PROTECTION_TLS) != 0},
          {"sent_bytes", stream.sent_bytes},
          {"received_bytes", stream.received_bytes},
          {"sent_requests", stream.sent_requests},
          {"received_requests", stream.received_requests},
          {"age_seconds", age_of(stream)}};
}

std::vector<std::string> stream_row(const Connection& stream) {
  return {device_of(stream),
          stream.incoming != 0 ? "in" : "out",
          eid_text(stream.eid),
          urma::format("{}", stream.number),
          eid_text(stream.peer_eid),
          urma::format("{}", stream.peer_number),
          state_text(stream),
          protection_text(stream),
          urma::format("{:.1f} s", age_of(stream)),
          urma::format("{}", stream.sent_requests),
          urma::format("{}", stream.received_requests),
          urma::format("{}", stream.sent_bytes),
          urma::format("{}", stream.received_bytes)};
}

Json connection_json(const Connection& connection) {
  return {{"device", device_of(connection)},
          {"direction", connection.incoming != 0 ? "in" : "out"},
          {"eid", eid_text(connection.eid)},
          {"kind", kind_name(connection.kind)},
          {"id", connection.id},
          {"peer_eid", eid_text(connection.peer_eid)},
          {"peer_kind", kind_name(connection.peer_kind)},
          {"peer_id", connection.peer_id},
          {"trans_mode", mode_name(connection.trans_mode)},
          {"state", state_name(connection.state)},
          {"status", connection.status == 0 ? Json() : Json(status_name(connection.status))},
          {"qp", connection.number},
          {"peer_qp", connection.peer_number},
          {"handle", connection.handle},
          {"age_seconds", age_of(connection)}};
}

std::vector<std::string> connection_row(const Connection& connection) {
  return {device_of(connection),
          connection.incoming != 0 ? "in" : "out",
          urma::format("{} {}", kind_name(connection.kind), connection.id),
          urma::format("{} {}", kind_name(connection.peer_kind), connection.peer_id),
          eid_text(connection.peer_eid),
          mode_name(connection.trans_mode),
          state_text(connection),
          urma::format("{:.1f} s", age_of(connection)),
          urma::format("{}", connection.number),
          urma::format("{}", connection.peer_number)};
}

// The object that queues_report() made for the process, or a new one.
Json* process_of(const urma_ext_process_t& process, Report* report) {
  Json& all = report->json["processes"];
  for (Json& known : all) {
    if (known["pid"] == process.pid) return &known;
  }
  all.push_back(process_json(process));
  return &all.back();
}

void add_process(const Answer<Connection>& answer, Report* report) {
  Json& json = *process_of(answer.process, report);
  if (!answer.error.empty()) json["error"] = answer.error;
  json["connections"] = Json::array();
  json["streams"] = Json::array();
  Table table(
      {"device", "way", "queue", "peer", "peer_eid", "mode", "state", "age", "qp", "peer_qp"});
  Table streams({"device", "way", "eid", "port", "peer_eid", "peer_port", "state", "protection",
                 "age", "requests_out", "requests_in", "bytes_out", "bytes_in"});
  for (const Connection& connection : answer.entries) {
    if (connection.stream != 0) {
      json["streams"].push_back(stream_json(connection));
      streams.add(stream_row(connection));
    } else {
      json["connections"].push_back(connection_json(connection));
      table.add(connection_row(connection));
    }
  }
  if (table.empty() && streams.empty() && answer.error.empty()) return;
  report->text += urma::format("connections of process {}\n", process_text(answer.process));
  if (!answer.error.empty()) report->text += answer.error + '\n';
  if (!table.empty()) report->text += table.text();
  if (!streams.empty()) report->text += streams.text();
}

// A stream belongs to no queue.
bool is_asked(const Options& options, const Connection& connection) {
  return device_of(connection) == options.device &&
         (!options.id || (connection.stream == 0 && connection.id == *options.id));
}

}  // namespace

void add_streams(const Options& options, Report* report) {
  auto answers = ask_processes(options, urma_ext_query_connections);
  report->json["processes"] = Json::array();
  for (auto& answer : answers) {
    std::erase_if(answer.entries, [&](const auto& entry) {
      return entry.stream == 0 || !is_asked(options, entry);
    });
    if (!answer.entries.empty() || !answer.error.empty()) add_process(answer, report);
  }
}

Report show_connections(const Options& options, const std::string& missing) {
  auto answers = ask_processes(options, urma_ext_query_connections);
  bool none = true;
  for (auto& answer : answers) {
    std::erase_if(answer.entries, [&](const auto& entry) { return !is_asked(options, entry); });
    none = none && answer.entries.empty();
  }
  Report report = queues_report(
      options,
      [&options](const urma_ext_queue_t& queue) {
        return printable(queue.device, sizeof queue.device) == options.device &&
               queue.kind == URMA_EXT_QUEUE_JETTY && queue.trans_mode == URMA_TM_RC &&
               (!options.id || queue.id == *options.id);
      },
      none ? missing : "");
  for (const auto& answer : answers) add_process(answer, &report);
  return report;
}

}  // namespace admin
