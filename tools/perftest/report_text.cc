// SPDX-License-Identifier: MIT
//
// The report in the format of UMDK's tool, and the common parts of reporters.

#include "tools/perftest/report_text.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "tools/perftest/columns.h"

namespace perftest {
namespace {

constexpr size_t kRule = 87;
constexpr int kTitleIndent = 20;
constexpr size_t kWidth = 7;

std::string pad(const std::string& text, size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

std::string title(const Config& config) {
  static constexpr const char* kApis[] = {"URMA_READ", "URMA_WRITE", "URMA_SEND", "URMA_ATOMIC"};
  std::string text = kApis[static_cast<uint32_t>(config.api)];
  text += " ";
  if (config.api == Api::kAtomic) text += config.atomic_type == AtomicType::kCas ? "cas " : "faa ";
  if (config.latency()) {
    text += "Latency Test";
  } else {
    if (config.bidirectional) text += "Bidirectional ";
    if (config.jfs_post_list > 1) text += "JFS Post List ";
    text += "BandWidth Test";
  }
  if (config.events) text += " Test with jfc events.";
  return text;
}

// Minimum width of a value, as in UMDK's formats; a longer one shifts the rest.
size_t width_of(const Column& column) { return column.key == "iterations" ? 10 : kWidth; }

// Two blanks between titles; a value of the usual width starts below its title.
std::string heading(const std::vector<Column>& columns) {
  std::string line = " " + pad(columns[0].title, kWidth) + " ";
  for (size_t i = 1; i < columns.size(); i++) {
    line += columns[i].title;
    if (i + 1 < columns.size()) line += "  ";
  }
  return line;
}

std::string line_of(const Config& config, const Row& row) {
  const std::vector<Column> columns = columns_of(config, row);
  std::string line = " ";
  for (size_t i = 0; i < columns.size(); i++) {
    const Column& column = columns[i];
    line += pad(format_number(column.value, column.digits, config.thousands), width_of(column));
    if (i + 1 == columns.size()) break;
    const size_t gap = i == 0 ? 1 : column.title.size() + 2 - width_of(column);
    line += std::string(gap, ' ');
  }
  return line;
}

class TextReporter : public Reporter {
 public:
  explicit TextReporter(ReportStream& stream) : stream_(stream), progress_(stream) {}

  void begin(const Config& config, const std::string& transport) override {
    final_only_ = config.final_only;
    if (!config.batch_label.empty()) stream_.put("# " + config.batch_label);
    if (final_only_) return;
    stream_.put(rule());
    stream_.put(std::string(kTitleIndent, ' ') + title(config));
    print_facts(config, transport);
    stream_.put(rule());
    stream_.put(heading(columns_of(config, Row())));
  }

  void row(const Config& config, const Row& row) override {
    progress_.clear();
    if (final_only_ && config.ends_by == EndsBy::kUser) {
      last_ = {config, row};
    } else {
      print_row(config, row);
    }
  }

  void progress(uint64_t done, uint64_t total) override {
    if (!final_only_) progress_.show(done, total);
  }

  void end(const Outcome& outcome) override {
    progress_.clear();
    if (last_) print_row(last_->first, last_->second);
    if (!final_only_) stream_.put(rule());
    if (outcome.partial) stream_.put("partial: ended by the user before its time");
    if (outcome.verified) stream_.put("verified: every byte was right");
  }

 private:
  void print_row(const Config& config, const Row& row) {
    if (row.jettys.empty()) {
      stream_.put(line_of(config, row));
      return;
    }
    for (size_t i = 0; i < row.jettys.size(); i++) {
      stream_.put("Jetty " + pad(std::to_string(i), 2) + ": " + line_of(config, row.jettys[i]));
    }
    stream_.put(rule());
    stream_.put("TOTAL   : " + line_of(config, row));
  }

  void print_pair(const char* left, const std::string& value, const char* right,
                  const std::string& other) {
    stream_.put(" " + pad(left, 20) + ": " + pad(value, 10) + "\t\t " + pad(right, 17) + ": " +
                other);
  }

  void print_fact(const char* name, const std::string& value) {
    stream_.put(" " + pad(name, 20) + ": " + value);
  }

  void print_facts(const Config& config, const std::string& transport) {
    const bool sends = config.is_client() || config.bidirectional;
    const bool receives = !config.is_client() || config.bidirectional || config.latency();
    print_pair("Number of jettys", std::to_string(config.jettys), "Transport mode", transport);
    print_pair("JFC depth", std::to_string(config.jfc_depth), "Device name", config.device);
    print_pair("Trans mode", mode_name(config.mode), "JETTY mode",
               config.duplex() ? "DUPLEX" : "SIMPLEX");
    if (sends) print_fact("JFS depth", std::to_string(config.jfs_depth));
    if (sends && config.bandwidth()) {
      print_fact("JFS post list", std::to_string(config.jfs_post_list));
    }
    if (receives && config.api == Api::kSend) {
      print_fact("JFR post list", std::to_string(config.jfr_post_list));
      print_fact("JFR depth", std::to_string(config.jfr_depth));
    }
    if (config.bandwidth()) print_fact("CQ Moderation", std::to_string(config.cq_mod));
    if (config.api == Api::kSend || config.api == Api::kWrite) {
      print_fact("Max inline size", std::to_string(config.inline_size) + "[B]");
    }
  }

  ReportStream& stream_;
  ProgressLine progress_;
  bool final_only_ = false;
  std::optional<std::pair<Config, Row>> last_;
};

class SilentReporter : public Reporter {
 public:
  void begin(const Config&, const std::string&) override {}
  void row(const Config&, const Row&) override {}
  void progress(uint64_t, uint64_t) override {}
  void end(const Outcome&) override {}
};

}  // namespace

void ProgressLine::show(uint64_t done, uint64_t total) {
  if (!stream_.terminal()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(500);
  std::string text = std::to_string(done);
  if (total > 0) text += " of " + std::to_string(total);
  std::fprintf(stream_.out(), "\r\033[K%s", text.c_str());
  std::fflush(stream_.out());
  shown_ = true;
}

void ProgressLine::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stream_.out());
  shown_ = false;
}

std::string rule() { return std::string(kRule, '-'); }

std::unique_ptr<Reporter> make_text_reporter(ReportStream& stream) {
  return std::make_unique<TextReporter>(stream);
}

std::unique_ptr<Reporter> make_silent_reporter() { return std::make_unique<SilentReporter>(); }

}  // namespace perftest
