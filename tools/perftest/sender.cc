// SPDX-License-Identifier: MIT
#include "tools/perftest/sender.h"

#include <random>

namespace perftest {
namespace {

constexpr uint32_t kRandomSizes = 1024;

uint32_t requests_in_turn(const Session& session, uint32_t list) {
  const uint32_t wanted =
      session.config.layout == Layout::kBcopy ? session.memory.staging_slots() : kRandomSizes;
  return std::max(wanted / list * list, list);
}

}  // namespace

SendPlan::SendPlan(const Session& session, uint32_t size) {
  const Config& config = session.config;
  window = config.window;
  list = config.jfs_post_list;
  copies = config.layout == Layout::kBcopy;
  in_turn = copies || config.random_sizes;
  requests_ = in_turn ? requests_in_turn(session, list) : std::max(list, 2U);
  if (in_turn && list == 1) requests_ = std::max(requests_, 2U);
  if (copies) {
    if (requests_ > session.memory.staging_slots()) {
      const std::string most = std::to_string(session.memory.staging_slots());
      throw UsageError("given -l " + std::to_string(list) + " with --layout bcopy and -s " +
                       std::to_string(size) + "; allowed: chains of at most " + most +
                       " requests of this size; example: -l " + most);
    }
    window = std::min(window, requests_);
  }
  const uint32_t moderation = std::min(config.cq_mod, window);
  batch = list == 1 ? moderation : (list % moderation == 0 ? moderation : list);
  sizes_ = {size};
  if (config.random_sizes) {
    std::mt19937 random(config.max_size);
    std::uniform_int_distribution<uint32_t> any(config.min_size, config.max_size);
    sizes_.resize(requests_);
    for (uint32_t& one : sizes_) one = any(random);
  }
  bytes_before_ = {0};
  for (uint32_t one : sizes_) bytes_before_.push_back(bytes_before_.back() + one);
}

Lane SendPlan::make_lane(const Session& session, uint32_t index) const {
  Lane lane = {session.queues.send_jetty(index), session.queues.send_jfs(index), index,
               std::make_unique<Requests>(session, index, requests_)};
  const Link& link = session.links[index];
  for (uint32_t i = 0; i < requests_; i++) {
    const uint8_t* const from =
        copies ? session.memory.staging(index, i) : session.memory.out(index);
    lane.requests->aim(i, size_of(i), from, link.in);
  }
  if (list == 1) {
    lane.requests->signal(1, true);
    return lane;
  }
  for (uint32_t first = 0; first < requests_; first += list) {
    for (uint32_t i = 0; i < list; i++) {
      lane.requests->signal(first + i, (i + 1) % batch == 0);
    }
    lane.requests->chain(first, list);
  }
  return lane;
}

uint64_t SendPlan::bytes(uint64_t messages) const {
  const uint64_t cycle = sizes_.size();
  return messages / cycle * bytes_before_.back() + bytes_before_[messages % cycle];
}

}  // namespace perftest
