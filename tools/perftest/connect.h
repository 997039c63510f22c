// SPDX-License-Identifier: MIT
//
// How the queues and segments of the two sides get to know each other: steps 2 to 6 of the
// documented exchange.
#ifndef TOOLS_PERFTEST_CONNECT_H_
#define TOOLS_PERFTEST_CONNECT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "tools/perftest/config.h"
#include "tools/perftest/device.h"
#include "tools/perftest/exchange.h"
#include "tools/perftest/memory.h"
#include "tools/perftest/queues.h"

namespace perftest {

// What a lane sends to.
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
  // `credit` and `notify` are NULL where they are not asked for.
  Links(const Device& device, const Config& config, const Queues& queues, const Memory& memory,
        const Words* credit, const Words* notify, Exchange& exchange);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  const Link& operator[](uint32_t lane) const { return links_[lane]; }

 private:
  using Blob = std::vector<uint8_t>;
  using Target = std::unique_ptr<urma_target_jetty_t, urma_status_t (*)(urma_target_jetty_t*)>;
  struct Parts {
    const Device& device;
    const Config& config;
    const Queues& queues;
    const Memory& memory;
    Exchange& exchange;
  };
  // What the peer told of one lane.
  struct Offer {
    Blob segment;  // a urma_seg_t
    Blob jetty;    // a urma_rjetty_t; empty with -b
    urma_jfr_id_t receive_queue = {};
    urma_active_tp_cfg_t channel = {};
  };

  static std::vector<Offer> swap_jettys(const Parts& parts);
  static std::vector<Offer> swap_queues(const Parts& parts);
  static void swap_channels(const Parts& parts, std::vector<Offer>& offers);
  static std::vector<urma_seg_t> swap_words(const Parts& parts, const Words& words);

  void import_segments(const Parts& parts, const std::vector<Offer>& offers);
  void import_words(const Parts& parts, const std::vector<urma_seg_t>& peers,
                    urma_target_seg_t* Link::*member);
  void import_targets(const Parts& parts, std::vector<Offer>& offers);
  void import_in_background(const Parts& parts, std::vector<Offer>& offers);
  void bind(const Parts& parts, const std::vector<Offer>& offers);
  void bind_in_background(const Parts& parts);
  void await(const Parts& parts, uint32_t count);
  urma_target_seg_t* import_segment(const Parts& parts, urma_seg_t* seg);

  std::vector<ImportedSegment> segments_;
  Notifier notifier_;
  std::vector<Target> targets_;
  std::vector<urma_jetty_t*> bound_;
  std::vector<Link> links_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_CONNECT_H_
