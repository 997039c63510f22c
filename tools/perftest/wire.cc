// SPDX-License-Identifier: MIT

#include "tools/perftest/wire.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace perftest {
namespace {

// No descriptor has this number, so that no block of UMDK's tool has it at the place of one.
constexpr uint32_t kMark = 0x6d727501;
constexpr uint32_t kExtensionVersion = 1;

const Field& field(const std::string& name) {
  const auto found = std::find_if(fields().begin(), fields().end(),
                                  [&name](const Field& each) { return name == each.name; });
  if (found == fields().end()) throw RunError("no field " + name + " in the configuration");
  return *found;
}

class Encoder {
 public:
  void put(const char* name, uint64_t value) {
    const Field& place = field(name);
    std::memcpy(block_.data() + place.offset, &value, place.size);  // little-endian, as the block
  }

  void put(const char* name, const std::string& text) {
    const Field& place = field(name);
    std::memcpy(block_.data() + place.offset, text.data(),
                std::min<size_t>(text.size(), place.size - 1));
  }

  const Block& block() const { return block_; }

 private:
  Block block_ = {};
};

uint32_t time_type(const Config& config) {
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
uint32_t command(const Config& config) {
  return static_cast<uint32_t>(config.api) + (config.latency() ? 0 : 4);
}

void encode_test(const Config& config, Encoder& out) {
  out.put("cmd", command(config));
  out.put("type", static_cast<uint32_t>(config.kind));
  out.put("eid_idx", config.eid_index);
  out.put("api_type", static_cast<uint32_t>(config.api));
  out.put("all", config.all_sizes);
  out.put("atomic_type", static_cast<uint32_t>(config.atomic_type));
  out.put("dev_name", config.device);
  out.put("duration", config.duration_s);
  out.put("time_type", time_type(config));
  out.put("iters", config.iterations);
  out.put("no_peak", config.no_peak);
  out.put("size", config.size);
  out.put("order", config.order);
  out.put("min_size", config.min_size);
  out.put("max_size", config.max_size);
  out.put("enable_random_size", config.random_sizes);
  out.put("bw_unit", static_cast<uint32_t>(config.bw_unit));
  out.put("bidirection", config.bidirectional);
  out.put("warm_up", config.warm_up);
  out.put("inf_period", config.infinite_period_s);
  out.put("inf_period_ms", config.infinite_period_ms);
  out.put("cpu_freq_f", config.cpu_frequency_check);
}

void encode_queues(const Config& config, Encoder& out) {
  out.put("jfc_depth", config.jfc_depth);
  out.put("use_jfce", config.events);
  out.put("inline_size", config.inline_size);
  out.put("jettys", config.jettys);
  out.put("token_policy", config.token_policy);
  out.put("tp_type", config.ctp ? 1 : 0);  // urma_tp_type_t: RTP, CTP
  out.put("jfs_post_list", config.jfs_post_list);
  out.put("jetty_mode", static_cast<uint32_t>(config.jetty_mode));
  out.put("cq_mod", config.cq_mod);
  out.put("jfr_post_list", config.jfr_post_list);
  out.put("jfr_depth", config.jfr_depth);
  out.put("jfs_depth", config.jfs_depth);
  out.put("trans_mode", config.mode);
  out.put("order_type", config.order_type);
  out.put("cache_line_size", 64);
  out.put("page_size", config.page_size);
  out.put("use_flat_api", config.flat_api);
  out.put("jfc_inline", config.jfc_inline);
  out.put("err_timeout", config.err_timeout);
  out.put("lock_free", config.lock_free);
  out.put("priority", config.priority);
  out.put("share_jfr", config.share_jfr);
  out.put("jettys_pre_jfr", config.jettys_per_jfr);
  out.put("enable_ipv6", config.ipv6);
  out.put("port", config.port);
}

void encode_rest(const Config& config, Encoder& out) {
  out.put("is_rate_limit", config.rate_limited);
  uint64_t rate = 0;
  std::memcpy(&rate, &config.rate_limit, sizeof(rate));
  out.put("rate_limit", rate);
  out.put("burst_size", config.burst_size);
  out.put("rate_units", static_cast<uint32_t>(config.rate_unit));
  out.put("enable_credit", config.credit);
  out.put("credit_threshold", config.credit_threshold);
  out.put("credit_notify_cnt", config.credit_notify_count);
  out.put("seg_pre_jetty", config.segment_per_jetty);
  out.put("enable_imm", config.immediate);
  out.put("enable_notify", config.notify);
  out.put("enable_err_continue", config.error_continue);
  out.put("enable_user_tp", config.user_tp);
  out.put("oor_en", config.oor);
  out.put("spray_en", config.spray);
  out.put("cc_en", config.cc);
  out.put("cc_alg", config.cc_alg);
  out.put("retry_num", config.retry_num);
  out.put("ack_timeout", config.ack_timeout);
  out.put("sge_num", config.sge_num);
  out.put("enable_write_dirty", config.write_dirty_ms.has_value());
  out.put("write_dirty_period", config.write_dirty_ms.value_or(50));
  out.put("pair_num", config.pair_num);
  out.put("pair_flag", config.pairs);
}

Extension extension_of(const Config& config) {
  Extension extension;
  extension.verify = config.verify;
  extension.warmup = config.warmup_iterations.value_or(0);
  extension.own_warmup = config.warmup_iterations.has_value();
  extension.bidirectional = config.bidirectional;
  extension.notify = config.notify;
  extension.min_size = config.random_sizes ? config.min_size : 0;
  extension.max_size = config.random_sizes ? config.max_size : 0;
  extension.ctp = config.ctp;
  return extension;
}

std::string difference(const std::string& name, const std::string& option, uint64_t mine,
                       uint64_t peer) {
  return "Config inconsistent[" + name + "]: this side has " + std::to_string(mine) +
         ", the other " + std::to_string(peer) + "; give both the same " + option;
}

}  // namespace

Block encode(const Config& config) {
  Encoder out;
  encode_test(config, out);
  encode_queues(config, out);
  encode_rest(config, out);
  out.put("mark", kMark);
  out.put("extension", kExtensionVersion);
  return out.block();
}

uint64_t decode(const Block& block, const std::string& name) {
  const Field& place = field(name);
  uint64_t value = 0;
  std::memcpy(&value, block.data() + place.offset, std::min<size_t>(place.size, sizeof(value)));
  return value;
}

bool is_extended(const Block& block) { return decode(block, "mark") == kMark; }

std::vector<std::string> compare(const Config& config, const Block& mine, const Block& peer) {
  std::vector<std::string> lines;
  for (const Field& each : fields()) {
    if (each.option == nullptr) continue;
    if (config.pairs && std::string(each.name) == "jettys") continue;
    const uint64_t here = decode(mine, each.name);
    const uint64_t there = decode(peer, each.name);
    if (here != there) lines.push_back(difference(each.name, each.option, here, there));
  }
  return lines;
}

std::vector<std::string> compare(const Extension& mine, const Extension& peer) {
  const struct {
    const char* name;
    const char* option;
    uint64_t mine;
    uint64_t peer;
  } values[] = {
      {"verify", "--verify", mine.verify, peer.verify},
      {"warmup", "--warmup", mine.warmup, peer.warmup},
      {"warmup_given", "--warmup", mine.own_warmup, peer.own_warmup},
      {"bidirection", "-B", mine.bidirectional, peer.bidirectional},
      {"enable_notify", "--enable_notify", mine.notify, peer.notify},
      {"min_size", "--min_size", mine.min_size, peer.min_size},
      {"max_size", "--max_size", mine.max_size, peer.max_size},
      {"ctp", "--ctp", mine.ctp, peer.ctp},
  };
  std::vector<std::string> lines;
  for (const auto& [name, option, here, there] : values) {
    if (here != there) lines.push_back(difference(name, option, here, there));
  }
  return lines;
}

void negotiate(const Config& config, Exchange& exchange) {
  const Block mine = encode(config);
  std::vector<std::string> lines;
  bool extended = true;
  for (size_t pair = 0; pair < exchange.pairs(); pair++) {
    Block peer = {};
    exchange.sync_data(mine.data(), peer.data(), kBlockSize, pair);
    std::vector<std::string> found = compare(config, mine, peer);
    if (is_extended(peer)) {
      const Extension here = extension_of(config);
      Extension there;
      exchange.sync_data(&here, &there, sizeof(here), pair);
      const std::vector<std::string> more = compare(here, there);
      found.insert(found.end(), more.begin(), more.end());
    } else {
      extended = false;
    }
    if (lines.empty()) lines = std::move(found);
  }
  exchange.set_extended(extended);
  if (lines.empty()) return;
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  throw RunError(text);
}

}  // namespace perftest
