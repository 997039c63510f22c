// SPDX-License-Identifier: MIT
//
// The defaults of each test, and conflicts of options.

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <string>

#include "tools/perftest/options.h"
#include "tools/perftest/values.h"

namespace perftest {
namespace {

constexpr uint32_t kLargestAtomic = 8;
constexpr uint32_t kLargestCtpMessage = 4096;
constexpr uint32_t kCtpOrder = 12;
constexpr uint64_t kPeakIterations = 50000;  // above that, peaks are off

// Between two completions, a network of 100 Mb/s moves them well within the limit of watch.cc.
constexpr uint32_t kMostBytesOfACompletion = 64 << 20;

// The start of an example line in an error.
std::string example(const Config& config, const std::string& options) {
  return config.test + " -d " + (config.device.empty() ? "urma_shm0" : config.device) +
         (options.empty() ? "" : " " + options);
}

void refuse_if(bool wrong, const std::string& given, const std::string& allowed,
               const std::string& example_line) {
  if (wrong) throw refusal(given, allowed, example_line);
}

// Rejects an option that a test does not have.
void only_for(const Draft& draft, const char* option, bool allowed, const std::string& where,
              const std::string& example_line) {
  refuse_if(draft.has(option) && !allowed,
            "--" + std::string(option) + " with " + draft.config.test, where, example_line);
}

// Rejects two options that exclude each other.
void not_both(const Draft& draft, const char* one, const char* other) {
  refuse_if(draft.has(one) && draft.has(other),
            "--" + std::string(one) + " and --" + std::string(other), "only one of them",
            example(draft.config, ""));
}

void check_tests(const Draft& draft) {
  const Config& config = draft.config;
  const bool bandwidth = config.bandwidth();
  const bool send = config.api == Api::kSend;
  const bool write = config.api == Api::kWrite;
  const bool atomic = config.api == Api::kAtomic;
  const std::string in_bw = "tests of bandwidth";
  only_for(draft, "atomic_type", atomic, "atomic_lat, atomic_bw", "atomic_lat -d urma_shm0 -A faa");
  for (const char* option :
       {"bidirection", "no_peak", "infinite", "enable_err_continue", "min_size", "max_size",
        "enable_write_dirty", "window", "enable_sync_stream"}) {
    only_for(draft, option, bandwidth, in_bw, "write_bw -d urma_shm0");
  }
  only_for(draft, "warm_up", bandwidth && !send, "read_bw, write_bw, atomic_bw",
           "write_bw -d urma_shm0 -w");
  not_both(draft, "warm_up", "enable_imm");  // the peer would have to receive them: --warmup
  only_for(draft, "rate_limit", bandwidth && !atomic, "read_bw, write_bw, send_bw",
           "write_bw -d urma_shm0 --rate_limit 1");
  only_for(draft, "enable_imm", write || send, "tests of write and send",
           "send_lat -d urma_shm0 --enable_imm");
  only_for(draft, "enable_notify", write, "tests of write",
           "write_lat -d urma_shm0 --enable_notify");
  for (const char* option : {"enable_credit", "credit_threshold", "credit_notify_cnt"}) {
    only_for(draft, option, send && bandwidth, "send_bw", "send_bw -d urma_shm0 --enable_credit");
  }
  only_for(draft, "use_jfce", !write, "tests of read, send and atomic", "send_lat -d urma_shm0 -e");
  only_for(draft, "poll-always", !send, "tests of read, write and atomic",
           "read_lat -d urma_net0 --poll-always");
  only_for(draft, "use_flat_api", !atomic, "tests of read, write and send",
           "write_lat -d urma_shm0 -b -f");
  only_for(draft, "all", !atomic, "tests of read, write and send", "write_bw -d urma_shm0 -a");
  only_for(draft, "percentiles", config.latency(), "tests of latency",
           "send_lat -d urma_shm0 --percentiles 50,99");
  refuse_if(config.jettys > 1 && !bandwidth,
            "-J " + std::to_string(config.jettys) + " with " + config.test,
            "more than one jetty in " + in_bw, "write_bw -d urma_shm0 -J 4");
  refuse_if(config.pair_num > 1 && !bandwidth,
            "--pair_num " + std::to_string(config.pair_num) + " with " + config.test,
            "more than one pair in " + in_bw, "write_bw -d urma_shm0 --pair_num 2 --seg_pre_jetty");
  refuse_if(config.jfs_post_list > 1 && !bandwidth,
            "-l " + std::to_string(config.jfs_post_list) + " with " + config.test,
            "chains of requests in " + in_bw, "write_bw -d urma_shm0 -l 16 -Q 16");
  refuse_if(config.jfr_post_list > 1 && !bandwidth && !send,
            "-r " + std::to_string(config.jfr_post_list) + " with " + config.test,
            in_bw + ", and send_lat", "send_bw -d urma_shm0 -r 16");
}

void check_modes(const Draft& draft) {
  const Config& config = draft.config;
  const bool simplex = !config.duplex();
  refuse_if(config.mode == URMA_TM_UM && config.api != Api::kSend, "-p 2 with " + config.test,
            "mode UM in send_lat, send_bw", "send_lat -d urma_shm0 -p 2");
  refuse_if(config.mode == URMA_TM_RC && simplex, "-p 1 and -b", "mode RC with jettys, without -b",
            example(config, "-p 1"));
  refuse_if(config.mode == URMA_TM_RC && config.share_jfs, "-p 1 and --share_jfs",
            "--share_jfs in the modes RM and UM", example(config, "--share_jfs"));
  refuse_if(config.flat_api && !simplex, "-f without -b", "the flat functions with JFS and JFR",
            example(config, "-b -f"));
  refuse_if(config.flat_api && (config.immediate || config.notify),
            std::string("-f with --enable_") + (config.immediate ? "imm" : "notify"),
            "the flat functions, which have no immediate, or the requests that do",
            example(config, "-b -f"));
  refuse_if(config.flat_api && config.sge_num > 1,
            "-f with --sge_num " + std::to_string(config.sge_num),
            "one piece with the flat functions", example(config, "-b -f"));
  refuse_if(config.credit && config.mode == URMA_TM_UM, "--enable_credit and -p 2",
            "credits in the modes RM and RC", example(config, "--enable_credit"));
  refuse_if(config.pairs && !config.segment_per_jetty, "--pair_num without --seg_pre_jetty",
            "--pair_num with a segment for each jetty",
            example(config, "--pair_num 2 --seg_pre_jetty"));
  refuse_if(config.uboe && (config.source_ip.empty() || config.destination_ip.empty()),
            "-u without --sip and --dip", "both addresses",
            example(config, "-u --sip 10.0.0.1 --dip 10.0.0.2"));
  const bool bonding = config.bonding || config.device.starts_with("bonding");
  refuse_if(draft.has("aggr_mode") && !bonding, "--aggr_mode for " + config.device,
            "aggregated devices, bonding_...",
            config.test + " -d bonding_dev_0 --aggr_mode balance");
  refuse_if(bonding && draft.has("bond_level") && config.bond_level == "iodie" && !config.ctp,
            "--bond_level iodie without --ctp", "that level with --ctp",
            example(config, "--bond_level iodie --ctp"));
  not_both(draft, "poll-always", "use_jfce");
  not_both(draft, "bond_level", "single_path");
  not_both(draft, "enable_imm", "enable_notify");
  not_both(draft, "layout", "inline_size");
  not_both(draft, "enable_write_dirty", "verify");
  const bool one_sided_load = config.api == Api::kRead || config.api == Api::kAtomic;
  refuse_if(config.layout == Layout::kShort && one_sided_load, "--layout short with " + config.test,
            "inline messages in tests of write and send", "send_lat -d urma_shm0 --layout short");
  refuse_if(config.layout == Layout::kBcopy && config.api == Api::kAtomic,
            "--layout bcopy with " + config.test, "zcopy", example(config, "--layout zcopy"));
}

void check_endings(const Draft& draft) {
  const Config& config = draft.config;
  for (const char* option : {"use_jfce", "all", "iters", "infinite"})
    not_both(draft, "duration", option);
  for (const char* option : {"all", "iters"}) not_both(draft, "infinite", option);
  // Such a run of latency has no times of single iterations, and its first quarter warms up.
  not_both(draft, "duration", "percentiles");
  if (config.latency()) not_both(draft, "duration", "warmup");
  const bool receives = config.api == Api::kSend || (config.api == Api::kWrite && config.immediate);
  refuse_if(config.ends_by == EndsBy::kUser && config.bidirectional && receives,
            "-y with -B and " + config.test + (config.immediate ? " --enable_imm" : ""),
            "one direction, or write and read", "write_bw -d urma_shm0 -y -B");
  refuse_if(draft.has("inf_period_ms") && config.ends_by != EndsBy::kUser,
            "--inf_period_ms without -y", "a period with -y",
            "write_bw -d urma_shm0 -y --inf_period_ms 500");
  refuse_if(config.infinite_period_ms % 50 != 0,
            "--inf_period_ms " + std::to_string(config.infinite_period_ms), "a multiple of 50",
            "--inf_period_ms 500");
  for (const char* option : {"rate_units", "burst_size"}) {
    refuse_if(draft.has(option) && !config.rate_limited,
              "--" + std::string(option) + " without --rate_limit", "it with a limit",
              "write_bw -d urma_shm0 --rate_limit 1 --" + std::string(option) +
                  (option[0] == 'r' ? " G" : " 16"));
  }
  for (const char* option : {"credit_threshold", "credit_notify_cnt"}) {
    refuse_if(draft.has(option) && !config.credit,
              "--" + std::string(option) + " without --enable_credit", "it with credits",
              example(config, "--enable_credit --" + std::string(option) + " 64"));
  }
}

void check_process(const Draft& draft) {
  const Config& config = draft.config;
  not_both(draft, "loopback", "server");
  not_both(draft, "loopback", "accept-forever");
  not_both(draft, "loopback", "pair_num");
  // Both sides would use the same value.
  not_both(draft, "loopback", "jetty_id");
  not_both(draft, "loopback", "va");
  not_both(draft, "server", "accept-forever");
  not_both(draft, "accept-forever", "batch");
  refuse_if(config.log_to_stdout && config.format != Format::kText, "--stdout with --format",
            "the log on stdout beside the text report", example(config, "--stdout"));
  refuse_if(config.server_cpu && !config.loopback, "--cpu with two CPUs",
            "two with --loopback, else one", "--cpu 2");
}

void check_sizes(const Draft& draft) {
  const Config& config = draft.config;
  not_both(draft, "all", "size");
  not_both(draft, "all", "min_size");
  refuse_if(config.api == Api::kAtomic && config.size != kLargestAtomic,
            "-s " + std::to_string(config.size) + " with " + config.test, "8 bytes",
            "atomic_lat -d urma_shm0 -s 8");
  refuse_if(config.api == Api::kAtomic && config.sge_num > 1,
            "--sge_num " + std::to_string(config.sge_num) + " with " + config.test,
            "one piece of 8 bytes", "atomic_lat -d urma_shm0");
  if (config.api == Api::kSend && config.ctp) {
    refuse_if(config.size > kLargestCtpMessage, "-s " + std::to_string(config.size) + " with --ctp",
              "at most 4096 bytes in a message", example(config, "--ctp -s 4096"));
    refuse_if(config.all_sizes && config.order > kCtpOrder,
              "-a" + std::to_string(config.order) + " with --ctp", "-a1 to -a12",
              example(config, "--ctp -a12"));
  }
  refuse_if(
      !config.all_sizes && config.size % config.sge_num != 0,
      "-s " + std::to_string(config.size) + " with --sge_num " + std::to_string(config.sge_num),
      "a size that is a multiple of --sge_num", "-s 64 --sge_num 2");
  refuse_if(config.all_sizes && config.sge_num > 2,
            "-a with --sge_num " + std::to_string(config.sge_num),
            "1 or 2 pieces, which divide all sizes", example(config, "-a --sge_num 2"));
  refuse_if(draft.has("min_size") != draft.has("max_size"), "one of --min_size and --max_size",
            "both", "write_bw -d urma_shm0 --min_size 64 --max_size 4096");
  if (!config.random_sizes) return;
  const std::string range = "--min_size " + std::to_string(config.min_size) + " --max_size " +
                            std::to_string(config.max_size);
  refuse_if(config.min_size > config.max_size || config.max_size > config.size,
            range + " -s " + std::to_string(config.size), "min_size <= max_size <= -s",
            "write_bw -d urma_shm0 -s 4096 --min_size 64 --max_size 4096");
  refuse_if(config.sge_num != 1, range + " --sge_num " + std::to_string(config.sge_num),
            "--sge_num 1", "write_bw -d urma_shm0 --min_size 64 --max_size 4096");
}

void default_sizes(Draft& draft) {
  Config& config = draft.config;
  const bool atomic = config.api == Api::kAtomic;
  if (!draft.has("size")) {
    config.size = atomic ? kLargestAtomic : config.latency() ? 2 : 65536;
    if (config.ctp && config.api == Api::kSend)
      config.size = std::min(config.size, kLargestCtpMessage);
    // Rounds the default to a multiple of the number of pieces, which the user gave.
    if (!atomic) config.size += (config.sge_num - config.size % config.sge_num) % config.sge_num;
  }
  if (config.order == 0) config.order = config.api == Api::kSend ? kCtpOrder : 16;
  config.random_sizes = draft.has("min_size") && draft.has("max_size");
}

// Requests come in chains of both lengths; neither is 0.
uint64_t chain_step(const Config& config) {
  const uint64_t step = std::lcm<uint64_t>(config.jfs_post_list, config.jfr_post_list);
  assert(step != 0);
  return step;
}

// `iterations` rounded up to whole chains.
uint64_t whole_chains(uint64_t iterations, const Config& config) {
  const uint64_t step = chain_step(config);
  return (iterations + step - 1) / step * step;
}

void default_iterations(Draft& draft) {
  Config& config = draft.config;
  const uint64_t step = chain_step(config);
  if (config.ends_by != EndsBy::kIterations) {
    config.iterations = 0;
  } else if (!draft.has("iters")) {
    config.iterations = whole_chains(config.latency() ? 10000 : kBandwidthIterations, config);
  }
  refuse_if(config.iterations % step != 0, "-n " + std::to_string(config.iterations),
            "a multiple of -l and -r, here of " + std::to_string(step),
            "-n " + std::to_string(whole_chains(config.iterations, config)));
  if (draft.has("infinite") && !draft.has("inf_period_ms")) {
    config.infinite_period_ms = config.infinite_period_s * 1000;
  }
  const bool send_server = config.api == Api::kSend && !config.is_client() && !config.bidirectional;
  if (config.bandwidth() &&
      (config.iterations > kPeakIterations || config.ends_by != EndsBy::kIterations ||
       send_server || config.sync_stream)) {
    config.no_peak = true;
  }
  if (config.warmup_iterations) config.warm_up = *config.warmup_iterations > 0;
}

uint32_t default_moderation(const Config& config) {
  if (config.jfs_post_list > 1) return config.jfs_post_list;
  return std::clamp(kMostBytesOfACompletion / config.sizes().back(), 1U, 100U);
}

void default_send_queue(Draft& draft) {
  Config& config = draft.config;
  if (!draft.has("jfs_depth")) {
    config.jfs_depth = std::max(config.latency() ? 1U : 128U, config.window);
  }
  refuse_if(
      config.window > config.jfs_depth,
      "--window " + std::to_string(config.window) + " with -T " + std::to_string(config.jfs_depth),
      "a window up to -T", "--window 64 -T 64");
  refuse_if(
      config.jfs_post_list > config.jfs_depth,
      "-l " + std::to_string(config.jfs_post_list) + " with -T " + std::to_string(config.jfs_depth),
      "chains up to -T", "-l 16 -T 128");
  if (config.window == 0) config.window = config.jfs_depth;
  refuse_if(config.window < config.jfs_post_list,
            "--window " + std::to_string(config.window) + " with -l " +
                std::to_string(config.jfs_post_list),
            "a window that holds a chain", "--window 32 -l 16");
  if (config.burst_size == 0) config.burst_size = config.jfs_depth;

  if (!draft.has("cq_mod")) config.cq_mod = default_moderation(config);
  if (config.latency() && config.api != Api::kSend) config.cq_mod = 1;
  config.cq_mod = std::min({config.cq_mod, config.jfs_depth, config.window});
  refuse_if(
      config.jfs_post_list > 1 && config.jfs_post_list % config.cq_mod != 0,
      "-l " + std::to_string(config.jfs_post_list) + " with -Q " + std::to_string(config.cq_mod),
      "a chain that is a multiple of -Q", "-l 16 -Q 4");
  if (config.jfc_depth == 0) config.jfc_depth = config.latency() ? 512 : 4096;
  if (config.api == Api::kRead || config.api == Api::kAtomic) config.inline_size = 0;
  if (config.layout == Layout::kShort) {
    config.inline_size = config.all_sizes ? 1U << config.order : config.size;
  }
}

void default_receive_queue(Draft& draft) {
  Config& config = draft.config;
  const bool receives = config.api == Api::kSend || config.api == Api::kWrite;
  if (!draft.has("jfr_depth")) config.jfr_depth = receives ? 512 : 1;
  if (config.iterations > 0) {
    config.jfr_depth = static_cast<uint32_t>(
        std::min<uint64_t>(config.jfr_depth, config.iterations * config.jettys));
  }
  config.jfr_depth += config.jfr_depth % 2;
  refuse_if(
      config.jfr_post_list > config.jfr_depth,
      "-r " + std::to_string(config.jfr_post_list) + " with -R " + std::to_string(config.jfr_depth),
      "chains up to -R", "-r 16 -R 512");
  if (config.credit_threshold == 0)
    config.credit_threshold = std::max(1U, config.jfr_depth * 3 / 4);
  if (config.credit_notify_count == 0)
    config.credit_notify_count = std::max(1U, config.jfr_depth / 4);
  refuse_if(config.credit && config.credit_notify_count > config.credit_threshold,
            "--credit_notify_cnt " + std::to_string(config.credit_notify_count) +
                " with --credit_threshold " + std::to_string(config.credit_threshold),
            "a count up to the threshold", "--credit_threshold 96 --credit_notify_cnt 32");
}

void default_jettys(Draft& draft) {
  Config& config = draft.config;
  if (config.pairs) {
    refuse_if(draft.has("jettys") && config.jettys != config.pair_num,
              "-J " + std::to_string(config.jettys) + " with --pair_num " +
                  std::to_string(config.pair_num),
              "one jetty for each pair, which --pair_num sets by itself",
              "--pair_num 2 --seg_pre_jetty");
    config.jettys = config.pair_num;
  }
  if (config.jettys_per_jfr == 0) config.jettys_per_jfr = config.jettys;
  refuse_if(config.jettys_per_jfr > config.jettys,
            "--jettys_pre_jfr " + std::to_string(config.jettys_per_jfr) + " with " +
                std::to_string(config.jettys) + " jettys",
            "at most the number of jettys", "-J 4 --jettys_pre_jfr 2");
}

void default_rest(Draft& draft) {
  Config& config = draft.config;
  if (config.single_path) config.bond_level = "port";
  if (config.page_size == 0) config.page_size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  refuse_if(config.page_size % 4096 != 0, "--page_size " + std::to_string(config.page_size),
            "a multiple of 4096", "--page_size 4096");
  if (config.log_to_stdout) config.verbosity = UINT32_MAX;
  if (config.percentiles.empty()) config.percentiles = {99, 99.9, 99.99, 99.999};
}

}  // namespace

void resolve(Draft& draft) {
  check_process(draft);
  check_tests(draft);
  check_modes(draft);
  check_endings(draft);
  default_jettys(draft);
  default_sizes(draft);
  check_sizes(draft);
  default_iterations(draft);
  default_send_queue(draft);
  default_receive_queue(draft);
  default_rest(draft);
}

std::vector<uint32_t> Config::sizes() const {
  if (!all_sizes) return {size};
  std::vector<uint32_t> sizes;
  for (uint32_t bits = 1; bits <= order; bits++) sizes.push_back(1U << bits);
  return sizes;
}

uint64_t Config::buffer_size() const { return all_sizes ? kAllSizesBuffer : size; }

}  // namespace perftest
