// SPDX-License-Identifier: MIT
#include "tools/perftest/bandwidth.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "tools/perftest/bandwidth_loop.h"
#include "tools/perftest/dirty.h"
#include "tools/perftest/report_swap.h"
#include "tools/perftest/run.h"

namespace perftest {
namespace {

// The tag of the exchange before a test: tests of messages, including WRITE_IMM, post receives.
std::string first_tag(const Session& session) {
  if (!session.two_sided()) return "before_" + session.config.test;
  const bool infinite = session.config.ends_by == EndsBy::kUser;
  return infinite ? "run_send_bw_infinite" : "send_bw_post_recv";
}

// Requests of each lane before the measured ones. Both sides know the number if the peer has to
// receive them.
uint64_t warm_up_requests(const Session& session, const SendPlan& plan) {
  const Config& config = session.config;
  if (!config.warm_up || (session.two_sided() && !config.warmup_iterations)) return 0;
  const uint64_t wanted = config.warmup_iterations.value_or(plan.window);
  return (wanted + plan.list - 1) / plan.list * plan.list;
}

template <typename Post>
void end_credit_round(const Sender<Post>& sender, CreditTaken& credit) {
  for (const Lane& lane : sender.lanes()) credit.end_round(lane.index, lane.posted);
}

double in_megabytes(double bytes) { return bytes / (1 << 20); }

}  // namespace

BandwidthTest::BandwidthTest(Session& session) : session_(session) {
  if (session.receives() && !session.config.verify) receiver_ = std::make_unique<Receiver>(session);
  if (session.config.credit && session.active()) credit_ = std::make_unique<CreditTaken>(session);
}

void BandwidthTest::run(uint32_t size) {
  if (session_.config.verify && !verified_) verified_ = std::make_unique<VerifiedTest>(session_);
  Row row;
  if (verified_) {
    row = verified_->run(size);
  } else {
    start();
    row = measure(size);
    end();
    if (!session_.measures() || session_.says_end()) row.partial = session_.partial;
    if (!row.partial) tell_losses();
  }
  const bool swapped = reports_are_swapped(session_);
  if (swapped) {
    const bool partial = row.partial;
    row = swap_reports(session_, row);
    row.partial = partial;
  }
  if (swapped || session_.measures()) session_.reporter.row(session_.config, row);
}

void BandwidthTest::start() {
  session_.expect(session_.two_sided());
  if (receiver_) {
    receiver_->forget(receiver_->received());
    receiver_->fill();
  }
  session_.exchange.sync_time(first_tag(session_));
}

// Whether this side knows how many messages come, and some may not.
bool BandwidthTest::may_lose() const {
  const Config& config = session_.config;
  return receiver_ && config.mode == URMA_TM_UM && config.ends_by == EndsBy::kIterations;
}

void BandwidthTest::tell_losses() const {
  const uint64_t expected = session_.config.iterations * session_.config.jettys;
  if (!may_lose() || receiver_->received() >= expected) return;
  std::fprintf(stderr, "warning: %lu of %lu messages were lost (UM)\n",
               static_cast<unsigned long>(expected - receiver_->received()),
               static_cast<unsigned long>(expected));
}

void BandwidthTest::end() {
  session_.exchange.set_timeout(Exchange::kWhilePeerLives);
  if (!session_.two_sided() || session_.says_end()) {
    session_.end_size("after_" + session_.config.test);
  } else if (session_.config.ends_by == EndsBy::kUser && interrupted) {
    session_.exchange.notify_quit();
  }
}

template <typename Post>
bool BandwidthTest::warm_up(const SendPlan& plan) {
  const uint64_t requests = warm_up_requests(session_, plan);
  if (requests == 0) return true;
  std::unique_ptr<Sender<Post>> sender;
  CreditGiven* const given = receiver_ ? receiver_->credit() : nullptr;
  if (session_.active()) {
    sender = std::make_unique<Sender<Post>>(session_, plan, requests, credit_.get(), given, false);
  }
  const uint64_t arrivals = receiver_ ? requests * session_.config.jettys : 0;
  Schedule schedule(session_, plan, EndsBy::kIterations, 0);
  BandwidthLoop<Post> loop(session_, sender.get(), receiver_.get(), arrivals, &schedule);
  const bool lossy = session_.config.mode == URMA_TM_UM;
  const bool complete = loop.run() || (lossy && !session_.watch.stopped());
  if (receiver_ && complete) receiver_->forget(std::min(arrivals, receiver_->received()));
  if (sender && credit_) end_credit_round(*sender, *credit_);
  return complete;
}

template <typename Post>
void BandwidthTest::measure_with(const SendPlan& plan, Row& row) {
  const Config& config = session_.config;
  const bool counted = config.ends_by == EndsBy::kIterations;
  const uint64_t each = counted ? config.iterations : kNoLimit;
  const uint64_t all = counted ? config.iterations * config.jettys : kNoLimit;
  row.partial = !warm_up<Post>(plan);
  if (row.partial) return;
  std::unique_ptr<Sender<Post>> sender;
  if (session_.active()) {
    sender = std::make_unique<Sender<Post>>(session_, plan, each, credit_.get(),
                                            receiver_ ? receiver_->credit() : nullptr,
                                            counted && !config.no_peak);
  }
  Schedule schedule(session_, plan, config.ends_by, counted ? all : 0,
                    config.sync_stream && sender ? &sender->lanes() : nullptr);
  BandwidthLoop<Post> loop(session_, sender.get(), receiver_.get(), all, &schedule);
  row.partial = !loop.run();
  const Span& span = schedule.span();
  row.iterations = span.messages();
  const double bytes =
      static_cast<double>(plan.bytes(span.messages() / config.jettys)) * config.jettys;
  row.bandwidth = bandwidth_of(bytes, span.messages(), span.seconds());
  if (!sender) return;
  if (!sender->completed_at().empty()) {
    const double mean = bytes / static_cast<double>(span.messages());
    const double rate =
        best_rate(sender->posted_at(), sender->completed_at(), sender->completed_until());
    row.bandwidth.peak_mbs = in_megabytes(rate * mean * ticks_per_us() * 1e6);
  }
  schedule.add_jetty_rows(row);
  if (credit_) end_credit_round(*sender, *credit_);
}

Row BandwidthTest::measure(uint32_t size) {
  const Config& config = session_.config;
  Row row;
  row.size = size;
  if (!session_.measures()) {
    session_.be_passive();
    return row;
  }
  const SendPlan plan(session_, size);
  const DirtyWriter dirty(session_);
  with_post(config, [&](auto post) { measure_with<decltype(post)>(plan, row); });
  if (session_.says_end()) {
    row.partial = session_.watch.stopped();
  } else if (may_lose()) {
    row.partial = row.partial && session_.watch.stopped();
  }
  session_.partial |= row.partial;
  return row;
}

}  // namespace perftest
