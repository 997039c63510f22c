// SPDX-License-Identifier: MIT
//
// A line of names, and a line for each row. The names are the keys of report_json.cc; with --batch
// the first is `batch`; with --enable_sync_stream `jetty` follows it.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/perftest/columns.h"
#include "tools/perftest/report_text.h"

namespace perftest {
namespace {

class CsvReporter : public Reporter {
 public:
  explicit CsvReporter(ReportStream& stream) : stream_(stream) {}

  void begin(const Config& config, const std::string&) override {
    std::string header = config.batch_label.empty() ? "" : "batch,";
    header += "test,device,";
    if (config.sync_stream) header += "jetty,";
    for (const Column& column : columns_of(config, Row())) header += column.key + ",";
    header += "partial";
    if (stream_.is_new_header(header)) stream_.put(header);
  }

  void row(const Config& config, const Row& row) override {
    if (config.final_only && config.ends_by == EndsBy::kUser) {
      last_ = {config, row};
    } else {
      print_row(config, row);
    }
  }

  void progress(uint64_t, uint64_t) override {}

  void end(const Outcome&) override {
    if (last_) print_row(last_->first, last_->second);
  }

 private:
  void print_row(const Config& config, const Row& row) {
    for (size_t i = 0; i < row.jettys.size(); i++) {
      print_line(config, row.jettys[i], std::to_string(i));
    }
    print_line(config, row, "total");
  }

  void print_line(const Config& config, const Row& row, const std::string& jetty) {
    std::string line = config.batch_label.empty() ? "" : config.batch_label + ",";
    line += config.test + "," + config.device + ",";
    if (config.sync_stream) line += jetty + ",";
    for (const Column& column : columns_of(config, row)) {
      // Times of tens of nanoseconds need more than the two digits of the text.
      const int digits = column.digits == 2 ? 4 : column.digits;
      line += format_number(column.value, digits, false) + ",";
    }
    stream_.put(line + (row.partial ? "1" : "0"));
  }

  ReportStream& stream_;
  std::optional<std::pair<Config, Row>> last_;
};

}  // namespace

std::unique_ptr<Reporter> make_csv_reporter(ReportStream& stream) {
  return std::make_unique<CsvReporter>(stream);
}

}  // namespace perftest
