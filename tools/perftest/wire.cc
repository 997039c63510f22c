// SPDX-License-Identifier: MIT

#include "tools/perftest/wire.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace perftest {
namespace {

const Field& field(std::string_view name) {
  const auto found = std::find_if(fields().begin(), fields().end(),
                                  [&name](const Field& each) { return name == each.name; });
  if (found == fields().end())
    throw RunError("no field " + std::string(name) + " in the configuration");
  return *found;
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
  Block block = {};
  for (const Field& each : fields()) {
    if (each.value == nullptr) continue;
    const uint64_t value = each.value(config);
    std::memcpy(block.data() + each.offset, &value, each.size);  // little-endian, as the block
  }
  const Field& name = field("dev_name");
  std::memcpy(block.data() + name.offset, config.device.data(),
              std::min<size_t>(config.device.size(), name.size - 1));
  return block;
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
  bool extended = true, says_end = true;
  for (size_t pair = 0; pair < exchange.pairs(); pair++) {
    Block peer = {};
    exchange.sync_data(mine.data(), peer.data(), kBlockSize, pair);
    std::vector<std::string> found = compare(config, mine, peer);
    if (is_extended(peer)) {
      const Extension here = extension_of(config);
      Extension there;
      exchange.sync_data(&here, &there, sizeof(here), pair);
      says_end = says_end && there.says_end != 0;
      const std::vector<std::string> more = compare(here, there);
      found.insert(found.end(), more.begin(), more.end());
    } else {
      extended = false;
    }
    if (lines.empty()) lines = std::move(found);
  }
  exchange.set_extended(extended, extended && says_end);
  if (lines.empty()) return;
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  throw RunError(text);
}

}  // namespace perftest
