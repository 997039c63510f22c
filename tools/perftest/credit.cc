// SPDX-License-Identifier: MIT
#include "tools/perftest/credit.h"

#include <atomic>
#include <string>

#include "tools/perftest/requests.h"

namespace perftest {
CreditTaken::CreditTaken(const Session& session)
    : threshold_(session.config.credit_threshold), before_(session.config.jettys) {
  const Config& config = session.config;
  for (uint32_t lane = 0; lane < config.jettys; lane++) {
    words_.push_back(session.credit->at(lane));
    *words_.back() = 0;  // the peer restarts its count too
  }
  // The receiver may hold back all but one of the messages of a notice.
  const uint32_t needed = config.credit_notify_count + config.jfs_post_list - 1;
  if (threshold_ < needed) {
    throw UsageError(
        "--credit_threshold " + std::to_string(threshold_) +
        " would stop the sender indefinitely; allowed: --credit_notify_cnt + -l - 1 = " +
        std::to_string(needed) + " and more");
  }
}

uint64_t CreditTaken::room(uint32_t lane, uint64_t posted) const {
  const uint64_t ahead = before_[lane] + posted - *words_[lane];
  return ahead >= threshold_ ? 0 : threshold_ - ahead;
}

CreditGiven::CreditGiven(Session& session)
    : session_(session), taken_(session.config.jettys), told_(session.config.jettys) {
  const Config& config = session.config;
  if (config.jettys > 1 && config.duplex() && config.share_jfs) {
    throw UsageError(
        "--enable_credit with several jettys needs a sender for each: leave out --share_jfs");
  }
  if (config.jettys > 1 && !config.duplex() && session.queues.receive_queues() < config.jettys) {
    throw UsageError(
        "--enable_credit with -b and several jettys needs a receive queue for each: "
        "--jettys_pre_jfr 1");
  }
  if (!config.duplex()) return;
  for (uint32_t lane = 0; lane < config.jettys; lane++) {
    lane_by_peer_[session.links[lane].remote_id] = lane;
  }
}

uint32_t CreditGiven::lane_of(const urma_cr_t& record) const {
  if (taken_.size() == 1) return 0;
  if (!session_.config.duplex()) return static_cast<uint32_t>(record.user_ctx);
  const auto found = lane_by_peer_.find(record.remote_id.id);
  if (found == lane_by_peer_.end()) throw RunError("a message came from an unknown jetty");
  return found->second;
}

void CreditGiven::count(const urma_cr_t& record) {
  const uint32_t lane = lane_of(record);
  if (++taken_[lane] - told_[lane] >= session_.config.credit_notify_count) notify(lane);
}

void CreditGiven::take_completions() {
  urma_cr_t record;
  while (under_way_ > 0 && Session::poll(session_.queues.sent(), 1, &record) == 1) {
    if (record.status != URMA_CR_SUCCESS) session_.failed(record);
    delivered();
  }
}

// If too many are in flight, a later one covers this.
void CreditGiven::notify(uint32_t lane) {
  if (under_way_ == kMostUnderWay) return;
  const Link& link = session_.links[lane];
  const Words& words = *session_.credit;
  uint64_t* const source = words.source(lane);
  std::atomic_ref<uint64_t>(*source).store(taken_[lane], std::memory_order_relaxed);
  urma_sge_t from = {reinterpret_cast<uintptr_t>(source), sizeof(*source), words.segment(lane),
                     nullptr};
  urma_sge_t to = {link.credit->seg.ubva.va + words.offset(), sizeof(*source), link.credit,
                   nullptr};
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_WRITE;
  wr.flag.bs.complete_enable = 1;
  wr.tjetty = link.target;
  wr.user_ctx = lane | kSignalled | kCredit;
  wr.rw.src = {&from, 1};
  wr.rw.dst = {&to, 1};
  with_post(session_.config, [&](auto post) {
    ok(post.post(session_.queues.send_jetty(lane), session_.queues.send_jfs(lane), &wr),
       "posting a credit notice");
  });
  told_[lane] = taken_[lane];
  under_way_++;
}

}  // namespace perftest
