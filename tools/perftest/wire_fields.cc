// SPDX-License-Identifier: MIT

#include <bit>

#include "tools/perftest/wire.h"

namespace perftest {
namespace {

uint64_t time_type(const Config& config) {
  switch (config.ends_by) {
    case EndsBy::kIterations:
      return 1U << 0;
    case EndsBy::kDuration:
      return 1U << 1;
    case EndsBy::kUser:
      return 1U << 2;
  }
  return 0;
}

// UMDK's numbers of the tests: latency first, then bandwidth.
uint64_t command(const Config& config) {
  return static_cast<uint64_t>(config.api) + (config.latency() ? 0 : 4);
}

// UMDK's tool leaves the default number there with -y, and none with -D.
uint64_t iterations(const Config& config) {
  return config.ends_by == EndsBy::kUser ? kBandwidthIterations : config.iterations;
}

uint64_t rate_bits(const Config& config) { return std::bit_cast<uint64_t>(config.rate_limit); }

template <auto Member>
uint64_t of(const Config& config) {
  return static_cast<uint64_t>(config.*Member);
}

// The documented offsets, and this tool's values. The gaps are padding, or pointers of UMDK's
// process.
constexpr Field kFields[] = {
    {"cmd", 0, 4, "test", command},
    {"type", 4, 4, nullptr, of<&Config::kind>},
    {"eid_idx", 8, 4, nullptr, of<&Config::eid_index>},
    {"api_type", 12, 4, nullptr, of<&Config::api>},
    {"all", 16, 1, "-a", of<&Config::all_sizes>},
    {"atomic_type", 20, 4, "-A", of<&Config::atomic_type>},
    {"jfc_depth", 24, 4, nullptr, of<&Config::jfc_depth>},
    {"dev_name", 28, 64, nullptr, nullptr},
    {"duration", 92, 4, "-D", of<&Config::duration_s>},
    {"use_jfce", 96, 1, nullptr, of<&Config::events>},
    {"time_type", 100, 4, "-n, -D or -y", time_type},
    {"inline_size", 104, 4, nullptr, of<&Config::inline_size>},
    {"jettys", 108, 4, "-J", of<&Config::jettys>},
    {"token_policy", 112, 4, "-K", of<&Config::token_policy>},
    // urma_tp_type_t: RTP, CTP.
    {"tp_type", 116, 4, nullptr, [](const Config& c) -> uint64_t { return c.ctp ? 1 : 0; }},
    {"iters", 120, 8, "-n", iterations},
    {"last_iters", 128, 8, nullptr, nullptr},
    {"no_peak", 136, 1, nullptr, of<&Config::no_peak>},
    {"jfs_post_list", 140, 4, nullptr, of<&Config::jfs_post_list>},
    {"jetty_mode", 144, 4, "-b", of<&Config::jetty_mode>},
    {"cq_mod", 148, 4, nullptr, of<&Config::cq_mod>},
    {"jfr_post_list", 152, 4, nullptr, of<&Config::jfr_post_list>},
    {"jfr_depth", 156, 4, nullptr, of<&Config::jfr_depth>},
    {"size", 160, 4, "-s", [](const Config& c) { return c.buffer_size(); }},
    {"jfs_depth", 164, 4, nullptr, of<&Config::jfs_depth>},
    {"trans_mode", 168, 4, "-p", of<&Config::mode>},
    {"order_type", 172, 4, nullptr, of<&Config::order_type>},
    {"bw_unit", 176, 4, nullptr, of<&Config::bw_unit>},
    {"min_size", 180, 4, nullptr, of<&Config::min_size>},
    {"max_size", 184, 4, nullptr, of<&Config::max_size>},
    {"enable_random_size", 188, 1, nullptr, of<&Config::random_sizes>},
    {"cache_line_size", 192, 4, nullptr, [](const Config&) -> uint64_t { return 64; }},
    {"page_size", 200, 8, nullptr, of<&Config::page_size>},
    {"use_flat_api", 208, 1, "-f", of<&Config::flat_api>},
    {"cpu_freq_f", 209, 1, nullptr, of<&Config::cpu_frequency_check>},
    {"warm_up", 210, 1, nullptr, of<&Config::warm_up>},
    {"bidirection", 211, 1, nullptr, of<&Config::bidirectional>},
    {"jfc_inline", 212, 1, nullptr, of<&Config::jfc_inline>},
    {"inf_period", 216, 4, nullptr, of<&Config::infinite_period_s>},
    {"inf_period_ms", 220, 4, "--inf_period_ms", of<&Config::infinite_period_ms>},
    {"order", 224, 4, "-a", of<&Config::order>},
    {"err_timeout", 228, 1, nullptr, of<&Config::err_timeout>},
    {"lock_free", 229, 1, nullptr, of<&Config::lock_free>},
    {"priority", 230, 1, nullptr, of<&Config::priority>},
    {"share_jfr", 231, 1, nullptr, of<&Config::share_jfr>},
    {"jettys_pre_jfr", 232, 4, nullptr, of<&Config::jettys_per_jfr>},
    {"enable_ipv6", 256, 1, "--enable_ipv6", of<&Config::ipv6>},
    {"port", 258, 2, nullptr, of<&Config::port>},
    {"mark", 260, 4, nullptr, [](const Config&) -> uint64_t { return kMark; }},
    {"extension", 264, 4, nullptr, [](const Config&) -> uint64_t { return kExtensionVersion; }},
    {"is_rate_limit", 272, 1, nullptr, of<&Config::rate_limited>},
    {"rate_limit", 280, 8, nullptr, rate_bits},
    {"burst_size", 288, 4, nullptr, of<&Config::burst_size>},
    {"rate_units", 292, 4, nullptr, of<&Config::rate_unit>},
    {"gap_cycles", 296, 8, nullptr, nullptr},
    {"enable_credit", 304, 1, "--enable_credit", of<&Config::credit>},
    {"credit_threshold", 308, 4, nullptr, of<&Config::credit_threshold>},
    {"credit_notify_cnt", 312, 4, nullptr, of<&Config::credit_notify_count>},
    {"seg_pre_jetty", 316, 1, "--seg_pre_jetty", of<&Config::segment_per_jetty>},
    {"enable_imm", 317, 1, "--enable_imm", of<&Config::immediate>},
    {"enable_notify", 318, 1, nullptr, of<&Config::notify>},
    {"enable_err_continue", 319, 1, "--enable_err_continue", of<&Config::error_continue>},
    {"enable_user_tp", 320, 1, "--enable_user_tp", of<&Config::user_tp>},
    {"oor_en", 321, 1, nullptr, of<&Config::oor>},
    {"spray_en", 322, 1, nullptr, of<&Config::spray>},
    {"cc_en", 323, 1, nullptr, of<&Config::cc>},
    {"cc_alg", 324, 4, nullptr, of<&Config::cc_alg>},
    {"retry_num", 328, 4, nullptr, of<&Config::retry_num>},
    {"ack_timeout", 332, 4, nullptr, of<&Config::ack_timeout>},
    {"sge_num", 336, 4, "--sge_num", of<&Config::sge_num>},
    {"enable_write_dirty", 340, 1, nullptr,
     [](const Config& c) -> uint64_t { return c.write_dirty_ms.has_value(); }},
    {"write_dirty_period", 344, 4, "--enable_write_dirty",
     [](const Config& c) -> uint64_t { return c.write_dirty_ms.value_or(50); }},
    {"pair_num", 348, 4, nullptr, of<&Config::pair_num>},
    {"pair_flag", 352, 1, nullptr, of<&Config::pairs>},
    {"group_id", 353, 1, nullptr, nullptr},
};

constexpr bool in_order() {
  uint32_t end = 0;
  for (const Field& field : kFields) {
    const uint32_t alignment = field.size > 8 ? 4 : field.size;
    if (field.offset < end || field.offset % alignment != 0) return false;
    end = field.offset + field.size;
  }
  return end <= kBlockSize;
}
static_assert(in_order(), "fields overlap, or do not lie as a compiler would lay them");

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> all(std::begin(kFields), std::end(kFields));
  return all;
}

}  // namespace perftest
