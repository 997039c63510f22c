// SPDX-License-Identifier: MIT

#include "tools/perftest/wire.h"

namespace perftest {
namespace {

// The documented offsets. What lies between is padding, or pointers of UMDK's process.
constexpr Field kFields[] = {
    {"cmd", 0, 4, "test"},
    {"type", 4, 4, nullptr},
    {"eid_idx", 8, 4, nullptr},
    {"api_type", 12, 4, nullptr},
    {"all", 16, 1, "-a"},
    {"atomic_type", 20, 4, "-A"},
    {"jfc_depth", 24, 4, nullptr},
    {"dev_name", 28, 64, nullptr},
    {"duration", 92, 4, "-D"},
    {"use_jfce", 96, 1, nullptr},
    {"time_type", 100, 4, "-n, -D or -y"},
    {"inline_size", 104, 4, nullptr},
    {"jettys", 108, 4, "-J"},
    {"token_policy", 112, 4, "-K"},
    {"tp_type", 116, 4, nullptr},
    {"iters", 120, 8, "-n"},
    {"last_iters", 128, 8, nullptr},
    {"no_peak", 136, 1, nullptr},
    {"jfs_post_list", 140, 4, nullptr},
    {"jetty_mode", 144, 4, "-b"},
    {"cq_mod", 148, 4, nullptr},
    {"jfr_post_list", 152, 4, nullptr},
    {"jfr_depth", 156, 4, nullptr},
    {"size", 160, 4, "-s"},
    {"jfs_depth", 164, 4, nullptr},
    {"trans_mode", 168, 4, "-p"},
    {"order_type", 172, 4, nullptr},
    {"bw_unit", 176, 4, nullptr},
    {"min_size", 180, 4, nullptr},
    {"max_size", 184, 4, nullptr},
    {"enable_random_size", 188, 1, nullptr},
    {"cache_line_size", 192, 4, nullptr},
    {"page_size", 200, 8, nullptr},
    {"use_flat_api", 208, 1, "-f"},
    {"cpu_freq_f", 209, 1, nullptr},
    {"warm_up", 210, 1, nullptr},
    {"bidirection", 211, 1, nullptr},
    {"jfc_inline", 212, 1, nullptr},
    {"inf_period", 216, 4, nullptr},
    {"inf_period_ms", 220, 4, "--inf_period_ms"},
    {"order", 224, 4, "-a"},
    {"err_timeout", 228, 1, nullptr},
    {"lock_free", 229, 1, nullptr},
    {"priority", 230, 1, nullptr},
    {"share_jfr", 231, 1, nullptr},
    {"jettys_pre_jfr", 232, 4, nullptr},
    {"enable_ipv6", 256, 1, "--enable_ipv6"},
    {"port", 258, 2, nullptr},
    {"mark", 260, 4, nullptr},
    {"extension", 264, 4, nullptr},
    {"is_rate_limit", 272, 1, nullptr},
    {"rate_limit", 280, 8, nullptr},
    {"burst_size", 288, 4, nullptr},
    {"rate_units", 292, 4, nullptr},
    {"gap_cycles", 296, 8, nullptr},
    {"enable_credit", 304, 1, "--enable_credit"},
    {"credit_threshold", 308, 4, nullptr},
    {"credit_notify_cnt", 312, 4, nullptr},
    {"seg_pre_jetty", 316, 1, "--seg_pre_jetty"},
    {"enable_imm", 317, 1, "--enable_imm"},
    {"enable_notify", 318, 1, nullptr},
    {"enable_err_continue", 319, 1, "--enable_err_continue"},
    {"enable_user_tp", 320, 1, "--enable_user_tp"},
    {"oor_en", 321, 1, nullptr},
    {"spray_en", 322, 1, nullptr},
    {"cc_en", 323, 1, nullptr},
    {"cc_alg", 324, 4, nullptr},
    {"retry_num", 328, 4, nullptr},
    {"ack_timeout", 332, 4, nullptr},
    {"sge_num", 336, 4, "--sge_num"},
    {"enable_write_dirty", 340, 1, nullptr},
    {"write_dirty_period", 344, 4, "--enable_write_dirty"},
    {"pair_num", 348, 4, nullptr},
    {"pair_flag", 352, 1, nullptr},
    {"group_id", 353, 1, nullptr},
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
