// SPDX-License-Identifier: MIT
//
// One document for each run, printed when the run is over; with --batch an array of them, with
// --accept-forever one to a line. Its keys:
//
//   test, device, batch     strings; batch only with --batch
//   side                    "client", "server" or "loopback"
//   transport, mode         "UB", "URMA_TM_RM"
//   jetty_mode              "DUPLEX" or "SIMPLEX"
//   options                 size, iterations, jettys, jfs_depth, jfr_depth, jfc_depth, cq_mod,
//                           jfs_post_list, jfr_post_list, window, inline_size, sge_num: numbers;
//                           bidirectional, events, lock_free, flat_api, immediate, notify: booleans
//   results                 one for each size (each period with -y):
//     size, iterations      numbers; iterations of all jettys together
//     min_us, max_us, median_us, avg_us, stdev_us
//                           tests of latency; with -D only avg_us and pps
//     percentiles           [{"percent": 99, "us": 1.2}, ...], as --percentiles has them
//     bw_peak_mbs, bw_avg_mbs, msg_rate_mpps
//                           tests of bandwidth; 2^20 bytes per second, 10^6 messages per second
//     partial               cut short by the user
//     jettys                with --enable_sync_stream: the same for each jetty
//   verified                --verify was given, and every byte was right
//   partial                 the run was cut short by the user

#include <nlohmann/json.hpp>
#include <string>

#include "tools/perftest/columns.h"
#include "tools/perftest/report_text.h"

namespace perftest {
namespace {

using Json = nlohmann::ordered_json;

Json options_of(const Config& config) {
  return {
      {"size", config.size},
      {"iterations", config.iterations},
      {"jettys", config.jettys},
      {"jfs_depth", config.jfs_depth},
      {"jfr_depth", config.jfr_depth},
      {"jfc_depth", config.jfc_depth},
      {"cq_mod", config.cq_mod},
      {"jfs_post_list", config.jfs_post_list},
      {"jfr_post_list", config.jfr_post_list},
      {"window", config.window},
      {"inline_size", config.inline_size},
      {"sge_num", config.sge_num},
      {"bidirectional", config.bidirectional},
      {"events", config.events},
      {"lock_free", config.lock_free},
      {"flat_api", config.flat_api},
      {"immediate", config.immediate},
      {"notify", config.notify},
  };
}

Json row_of(const Config& config, const Row& row) {
  Json json = {{"size", row.size}, {"iterations", row.iterations}};
  const bool percentiles = config.latency() && config.ends_by == EndsBy::kIterations;
  for (const Column& column : columns_of(config, row)) {
    const bool is_percentile = column.key.starts_with("p") && column.key != "pps";
    if (column.key != "size" && column.key != "iterations" && !is_percentile) {
      json[column.key] = column.value;
    }
  }
  if (percentiles) {
    json["percentiles"] = Json::array();
    for (const auto& [percent, value] : row.latency.percentiles) {
      json["percentiles"].push_back({{"percent", percent}, {"us", value}});
    }
  }
  json["partial"] = row.partial;
  for (const Row& jetty : row.jettys) json["jettys"].push_back(row_of(config, jetty));
  return json;
}

class JsonReporter : public Reporter {
 public:
  explicit JsonReporter(ReportStream& stream) : stream_(stream) {}

  void begin(const Config& config, const std::string& transport) override {
    document_ = {{"test", config.test}, {"device", config.device}};
    if (!config.batch_label.empty()) document_["batch"] = config.batch_label;
    document_["side"] = config.loopback ? "loopback" : config.is_client() ? "client" : "server";
    document_["transport"] = transport;
    document_["mode"] = mode_name(config.mode);
    document_["jetty_mode"] = config.duplex() ? "DUPLEX" : "SIMPLEX";
    document_["options"] = options_of(config);
    document_["results"] = Json::array();
    indent_ = config.accept_forever ? -1 : 2;
  }

  void row(const Config& config, const Row& row) override {
    if (config.final_only && config.ends_by == EndsBy::kUser) document_["results"].clear();
    document_["results"].push_back(row_of(config, row));
  }

  void progress(uint64_t, uint64_t) override {}

  void end(const Outcome& outcome) override {
    document_["verified"] = outcome.verified;
    document_["partial"] = outcome.partial;
    // An invalid UTF-8 name must not spoil the whole report.
    stream_.put_document(
        document_.dump(indent_, ' ', false, nlohmann::json::error_handler_t::replace));
  }

 private:
  ReportStream& stream_;
  Json document_;
  int indent_ = 2;
};

}  // namespace

std::unique_ptr<Reporter> make_json_reporter(ReportStream& stream) {
  return std::make_unique<JsonReporter>(stream);
}

bool ReportStream::is_new_header(const std::string& header) {
  if (header == header_) return false;
  header_ = header;
  return true;
}

void ReportStream::put(const std::string& line) {
  std::fprintf(out_, "%s\n", line.c_str());
  flush();
}

void ReportStream::put_document(const std::string& json) {
  if (list_) std::fputs(documents_ == 0 ? "[\n" : ",\n", out_);
  std::fputs(json.c_str(), out_);
  if (!list_) std::fputc('\n', out_);
  documents_++;
  flush();
}

void ReportStream::close() {
  if (list_ && documents_ > 0) std::fputs("\n]\n", out_);
  flush();
}

void ReportStream::flush() {
  if (std::fflush(out_) == 0 && std::ferror(out_) == 0) return;
  throw RunError("cannot write the report");
}

std::unique_ptr<Reporter> make_reporter(const Config& config, ReportStream& stream) {
  switch (config.format) {
    case Format::kText:
      return make_text_reporter(stream);
    case Format::kCsv:
      return make_csv_reporter(stream);
    case Format::kJson:
      return make_json_reporter(stream);
  }
  return make_silent_reporter();
}

}  // namespace perftest
