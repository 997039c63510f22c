// SPDX-License-Identifier: MIT
//
// The options of urma_perftest in pairs: at least one run uses every pair of values of different
// options, unless the documented rules exclude it.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "test/tools/pairwise.h"
#include "test/tools/perftest_party.h"
#include "test/tools/tool_process.h"

namespace urma_test {
namespace {

// The values of an option, each as arguments; the first one leaves it out.
using Choice = std::vector<std::string>;

const std::vector<Choice> kChoices = {
    {"send_lat", "send_bw", "write_lat", "write_bw", "read_lat", "read_bw", "atomic_lat",
     "atomic_bw"},
    {"", "-p 1", "-p 2"},
    {"", "-b"},
    // The ones before are those that others depend on.
    {"", "-e"},
    {"", "-f"},
    {"", "-s 1024", "-s 8192", "-s 65536", "-a6", "-s 4096 --min_size 1 --max_size 4096"},
    {"", "-I 64", "-I 512", "--layout short", "--layout bcopy", "--layout zcopy"},
    {"", "-l 4", "-l 4 -Q 2"},
    {"", "-r 4"},
    {"", "-T 16", "-T 64 --window 8"},
    {"", "-R 16", "-R 2"},
    {"", "-C 256"},
    {"", "-J 3", "-J 4 --jettys_pre_jfr 2", "--pair_num 2 --seg_pre_jetty"},
    {"", "--seg_pre_jetty"},
    {"", "--share_jfs"},
    {"", "-j true"},
    {"", "-L"},
    {"", "-O 3", "-O 9 --ctp"},
    {"", "-E 20"},
    {"", "-K 1"},
    {"", "--sge_num 2"},
    {"", "--enable_imm", "--enable_notify"},
    {"", "-A faa"},
    {"", "-B"},
    {"", "-w", "--warmup 8"},
    {"", "-N"},
    {"", "--enable_credit", "--enable_credit --credit_threshold 12 --credit_notify_cnt 4"},
    {"", "--async_import"},
    {"", "--tp_aware", "--tp_aware --tp_reuse"},
    {"", "--rate_limit 1000", "--rate_limit 500 --rate_units P --burst_size 4"},
    {"", "--enable_sync_stream"},
    {"", "--enable_err_continue"},
    {"", "--wait_jfc_timeout 0", "--wait_jfc_timeout -1"},
    {"", "--page_size 8192"},
    {"", "--verify"},
    {"", "--eid_idx 1"},
    {"", "--format csv", "--format json", "--thousands", "--final"},
    {"", "--bw_unit GB", "--bw_unit KB"},
    {"", "--percentiles 50,90"},
    {"", "--poll-always"},
    {"", "--enable_write_dirty"},
    {"", "-F"},
};
constexpr size_t kBase = 3;

Arguments words_of(const std::string& text) {
  Arguments words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// A test and its options.
class Line {
 public:
  explicit Line(const PairwiseRow& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      const Arguments words = words_of(kChoices[i][row[i]]);
      words_.insert(words_.end(), words.begin(), words.end());
    }
  }

  const std::string& test() const { return words_.front(); }
  Arguments options() const { return {words_.begin() + 1, words_.end()}; }
  std::string text() const {
    std::string text;
    for (const std::string& word : words_) text += (text.empty() ? "" : " ") + word;
    return text;
  }

  bool has(const std::string& word) const {
    return std::find(words_.begin(), words_.end(), word) != words_.end();
  }
  bool has(const std::string& option, const std::string& value) const {
    const auto found = std::find(words_.begin(), words_.end(), option);
    return found != words_.end() && found + 1 != words_.end() && found[1] == value;
  }
  bool is(const std::string& kind) const { return test().rfind(kind, 0) == 0; }
  bool bandwidth() const { return test().find("_bw") != std::string::npos; }

 private:
  Arguments words_;
};

bool sizes_are_allowed(const Line& line) {
  const bool sized = line.has("-s") || line.has("-a6");
  if (line.is("atomic") && sized) return false;
  if (line.is("send") && line.has("--ctp") && (line.has("-s", "8192") || line.has("-s", "65536"))) {
    return false;
  }
  // Larger than the device can inline.
  if (line.has("short") && (line.has("-s") || (line.bandwidth() && !line.has("-a6")))) return false;
  if (line.has("--min_size") && (line.has("--sge_num") || !line.bandwidth())) return false;
  return true;
}

bool modes_are_allowed(const Line& line) {
  if (line.has("-p", "2") && !line.is("send")) return false;
  if (line.has("-p", "1") && (line.has("-b") || line.has("--share_jfs"))) return false;
  if (line.has("-f") && (!line.has("-b") || line.is("atomic"))) return false;
  // A flat call takes one piece and no further options.
  if (line.has("-f") &&
      (line.has("--enable_imm") || line.has("--enable_notify") || line.has("--sge_num"))) {
    return false;
  }
  // The channels of this priority do not carry mode UM.
  return !(line.has("-O", "3") && line.has("-p", "2"));
}

bool tests_are_allowed(const Line& line) {
  const bool write = line.is("write"), send = line.is("send"), atomic = line.is("atomic");
  if (line.has("-e") && write) return false;
  if (line.has("-A") && !atomic) return false;
  if (line.has("--sge_num") && atomic) return false;
  if (line.has("--enable_imm") && !write && !send) return false;
  if (line.has("--enable_notify") && !write) return false;
  if (line.has("--enable_credit") && (line.test() != "send_bw" || line.has("-p", "2")))
    return false;
  if (line.has("-w") && (!line.bandwidth() || send || line.has("--enable_imm"))) return false;
  if (line.has("-r") && !line.bandwidth() && !send) return false;
  if (line.has("--rate_limit") && (!line.bandwidth() || atomic)) return false;
  if (line.has("--percentiles") && line.bandwidth()) return false;
  if (line.has("--poll-always") && (send || line.has("-e"))) return false;
  if (line.has("short") && !write && !send) return false;
  if (line.has("bcopy") && atomic) return false;
  if (line.bandwidth()) return true;
  for (const char* option :
       {"-l", "--window", "-J", "--pair_num", "-B", "-N", "--enable_sync_stream",
        "--enable_err_continue", "--enable_write_dirty"}) {
    if (line.has(option)) return false;
  }
  return true;
}

bool options_agree(const Line& line) {
  if (line.has("--enable_write_dirty") && line.has("--verify")) return false;
  if (line.has("--credit_threshold") && line.has("-R")) return false;
  // The sender of each message must be known.
  const bool several = line.has("-J") || line.has("--pair_num");
  if (line.has("--enable_credit") && several && (line.has("-b") || line.has("--share_jfs"))) {
    return false;
  }
  if (line.has("-R", "2") && (line.has("-r") || line.has("-l"))) return false;
  return true;
}

bool is_allowed(const PairwiseRow& row) {
  const Line line(row);
  return sizes_are_allowed(line) && modes_are_allowed(line) && tests_are_allowed(line) &&
         options_agree(line);
}

std::vector<std::string> all_lines() {
  std::vector<size_t> counts;
  for (const Choice& choice : kChoices) counts.push_back(choice.size());
  std::vector<std::string> lines;
  for (const PairwiseRow& row : Pairwise(counts, kBase, is_allowed).rows()) {
    lines.push_back(Line(row).text());
  }
  return lines;
}

class PerftestPairs : public PerftestTest, public ::testing::WithParamInterface<std::string> {};

// Removes the choice of a format, which concerns one side. A server with a format other than text
// would not report that it waits.
Arguments take_format(Arguments* options) {
  for (const char* name : {"--format", "--final", "--thousands"}) {
    const auto found = std::find(options->begin(), options->end(), name);
    if (found == options->end()) continue;
    const auto end = found + (std::string(name) == "--format" ? 2 : 1);
    const Arguments format(found, end);
    options->erase(found, end);
    return format;
  }
  return {};
}

TEST_P(PerftestPairs, Work) {
  Arguments options = words_of(GetParam());
  const std::string test = options.front();
  options.erase(options.begin());
  const Arguments format = take_format(&options);
  options.insert(options.end(), {"-n", "24"});
  const PerftestResult result = run_perftest(test, options, {}, format);
  EXPECT_TRUE(result.good()) << GetParam() << "\n" << result.text();
}

INSTANTIATE_TEST_SUITE_P(Options, PerftestPairs, ::testing::ValuesIn(all_lines()),
                         [](const auto& info) { return std::to_string(info.index); });

}  // namespace
}  // namespace urma_test
