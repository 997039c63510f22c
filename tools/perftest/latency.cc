// SPDX-License-Identifier: MIT
#include "tools/perftest/latency.h"

#include <algorithm>

#include "tools/perftest/latency_loop.h"
#include "tools/perftest/run.h"
#include "tools/perftest/verified.h"

namespace perftest {

Stamps::Stamps(const Session& session, uint64_t skipped, uint64_t counted)
    : session_(session),
      timed_(session.config.ends_by == EndsBy::kDuration),
      skipped_(skipped),
      counted_(counted) {
  if (!timed_) {
    samples_.reserve(counted);
    make_room(0);
    return;
  }
  quarter_ = ticks_of_ms(session.config.duration_s * 1000.0 / 4);
  next_ = 0;
}

// -D: the first quarter warms up, two are measured, one keeps the peer busy.
bool Stamps::next_phase(uint64_t i, uint64_t now) {
  switch (phase_++) {
    case 0:
      next_ = now + quarter_;
      return true;
    case 1:
      from_ = now;
      first_ = i;
      next_ = now + 2 * quarter_;
      return true;
    case 2:
      to_ = now;
      end_ = i;
      next_ = now + quarter_;
      return true;
    default:
      return false;
  }
}

void Stamps::make_room(uint64_t i) {
  const uint64_t taken = i > skipped_ ? i - skipped_ : 0;
  if (timed_ || samples_.size() == counted_ || samples_.size() > taken + kRoom / 2) return;
  samples_.resize(std::min(counted_, samples_.size() + kRoom));
}

void Stamps::summarize(uint64_t steps, Row& row) {
  const Config& config = session_.config;
  const int divisor = config.api == Api::kWrite || config.api == Api::kSend ? 2 : 1;
  if (!timed_) {
    row.iterations = steps > skipped_ ? steps - skipped_ : 0;
    samples_.resize(row.iterations == 0 ? 0 : row.iterations - 1);
    row.latency = summarize_latency(samples_, ticks_per_us(), divisor, config.percentiles);
    return;
  }
  if (phase_ < 2) return;
  if (phase_ == 2) {
    to_ = last_;
    end_ = steps;
  }
  row.iterations = end_ - first_;
  if (row.iterations == 0) return;
  const double us = static_cast<double>(to_ - from_) / ticks_per_us();
  const auto count = static_cast<double>(row.iterations);
  row.latency.avg_us = us / count / divisor;
  row.pps = count / us * 1e6;
}

LatencyTest::LatencyTest(Session& session) : session_(session) {
  if (session.two_sided()) receiver_ = std::make_unique<Receiver>(session);
}

void LatencyTest::start(uint32_t size) {
  const Config& config = session_.config;
  session_.expect(ping_pong());
  if (receiver_) receiver_->fill();
  if (config.verify) {
    if (config.api == Api::kRead) fill_pattern(session_.memory.in(0), size, 0, 0);
    session_.exchange.sync_time("verify_ready");
  }
  if (receiver_) session_.exchange.sync_time("send_lat_post_recv");
}

void LatencyTest::run(uint32_t size) {
  const Config& config = session_.config;
  start(size);
  uint64_t steps = 0;
  Row row;
  row.size = size;
  if (session_.client() || ping_pong()) {
    const bool timed = config.ends_by == EndsBy::kDuration;
    const uint64_t skipped = timed ? 0 : config.warmup_iterations.value_or(0);
    const uint64_t wanted = timed ? UINT64_MAX : skipped + config.iterations;
    Stamps stamps(session_, skipped, config.iterations);
    with_post(config, [&](auto post) {
      LatencyLoop<decltype(post)> loop(session_, size, receiver_.get());
      steps = ping_pong() ? loop.ping_pong(wanted, stamps) : loop.one_sided(wanted, stamps);
    });
    // Before summarizing: the peer, which has as many samples, then sorts them at the same time,
    // and this side does not wait much longer.
    if (ping_pong() && !timed && interrupted && steps < wanted) session_.exchange.notify_quit();
    stamps.summarize(steps, row);
    row.partial = timed ? interrupted.load() : steps < wanted;
    session_.partial |= row.partial;
  } else if (!config.verify) {
    session_.be_passive();
  }
  if (config.verify && config.api == Api::kAtomic) swap_counter(session_, steps);
  // Otherwise the owner could already change the data of this size for the next one.
  if (config.verify && config.api == Api::kRead) session_.end_size("verify_done");
  if (session_.client() || ping_pong()) session_.reporter.row(config, row);
}

}  // namespace perftest
