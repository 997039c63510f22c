// SPDX-License-Identifier: MIT
//
// How the two sides exchange queues and segments: steps 2 to 6 of the documented exchange.
#ifndef TOOLS_PERFTEST_CONNECT_H_
#define TOOLS_PERFTEST_CONNECT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/device.h"
#include "tools/perftest/exchange.h"
#include "tools/perftest/memory.h"
#include "tools/perftest/queues.h"

namespace perftest {

// The target of a lane.
struct Link {
  urma_target_jetty_t* target = nullptr;
  urma_target_seg_t* segment = nullptr;
  uint64_t in = 0;                      // address of the first `in` slot
  uint32_t remote_id = 0;               // of the peer's jetty, or of its receive queue with -b
  urma_target_seg_t* credit = nullptr;  // --enable_credit: where the peer looks for its credit
  urma_target_seg_t* notify = nullptr;  // --enable_notify: where the peer is notified
};

class Links {
 public:
  // `credit` and `notify` are NULL if not requested.
  Links(const Device& device, const Config& config, const Queues& queues, const Memory& memory,
        const Words* credit, const Words* notify, Exchange& exchange);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  const Link& operator[](uint32_t lane) const { return links_[lane]; }

  // Unimports the peer's queues; its segments stay.
  void disconnect();
  // Connects the queues that both sides have made since.
  void reconnect();

 private:
  using Blob = std::vector<uint8_t>;
  using Target = std::unique_ptr<urma_target_jetty_t, urma_status_t (*)(urma_target_jetty_t*)>;
  // The peer's data about the queues of one lane.
  struct Offer {
    Blob jetty;  // a urma_rjetty_t; empty with -b
    urma_jfr_id_t receive_queue = {};
    urma_active_tp_cfg_t channel = {};
  };

  template <typename T>
  std::vector<T> swap_array(const std::function<T(uint32_t lane)>& own);
  // A urma_seg_t for each lane: with the data after it, or without (-b).
  std::vector<Blob> swap_segment_contexts();
  std::vector<Blob> swap_segments();
  std::vector<Offer> swap_targets();
  std::vector<urma_seg_t> swap_words(const Words& words);
  void swap_channels(std::vector<Offer>& offers);

  void import_segments(const std::vector<Blob>& segments);
  uint64_t in_offset(uint32_t lane, uint64_t length) const;
  void import_words(std::vector<urma_seg_t>& peers, urma_target_seg_t* Link::*member);
  urma_target_seg_t* import_segment(urma_seg_t* seg);

  void connect(std::vector<Offer>& offers);
  void import_targets(std::vector<Offer>& offers);
  void import_in_background(std::vector<Offer>& offers);
  void bind(const std::vector<Offer>& offers);
  void bind_in_background();
  void await(uint32_t count);

  const Device& device_;
  const Config& config_;
  const Queues& queues_;
  const Memory& memory_;
  Exchange& exchange_;
  std::vector<ImportedSegment> segments_;
  Notifier notifier_;
  std::vector<Target> targets_;
  std::vector<urma_jetty_t*> bound_;
  std::vector<Link> links_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_CONNECT_H_
