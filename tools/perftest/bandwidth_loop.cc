// SPDX-License-Identifier: MIT
#include "tools/perftest/bandwidth_loop.h"

#include "tools/perftest/run.h"

namespace perftest {
namespace {

// How often a loop that always has work checks for an end.
constexpr double kLookMs = 20;

}  // namespace

Bandwidth bandwidth_of(double bytes, uint64_t messages, double seconds) {
  if (seconds <= 0) return {};
  constexpr double kMegabyte = 1 << 20;
  Bandwidth bandwidth;
  bandwidth.avg_mbs = bytes / seconds / kMegabyte;
  bandwidth.msg_rate_mpps = static_cast<double>(messages) / seconds / 1e6;
  return bandwidth;
}

double best_rate(const std::vector<uint64_t>& posted_at, const std::vector<uint64_t>& completed_at,
                 const std::vector<uint64_t>& completed_until) {
  const size_t count = completed_until.size();
  const auto rate = [&](size_t first, size_t width) {
    const size_t last = first + width - 1;
    const uint64_t messages = completed_until[last] - (first == 0 ? 0 : completed_until[first - 1]);
    const uint64_t time = completed_at[last] - posted_at[first];
    return static_cast<double>(messages) / static_cast<double>(time);
  };
  double best = count == 0 ? 0 : rate(0, count);
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t i = 0; i + width <= count; i++) best = std::max(best, rate(i, width));
  }
  return best;
}

Schedule::Schedule(Session& session, const SendPlan& plan, EndsBy ends_by, uint64_t total,
                   const std::vector<Lane>* lanes)
    : session_(session), plan_(plan), ends_by_(ends_by), total_(total), lanes_(lanes) {}

void Schedule::start(uint64_t now) {
  const Config& config = session_.config;
  begin_span(now, 0);
  const uint64_t quarter = ticks_of_ms(config.duration_s * 1000.0 / 4);
  measured_from_ = now + quarter;
  measured_to_ = now + 3 * quarter;
  stop_at_ = now + 4 * quarter;
  period_end_ = now + ticks_of_ms(config.infinite_period_ms);
  // A test that a user ended before this size has no message of it.
  const bool ended = interrupted || session_.exchange.quit_came();
  next_ = ended ? now : now + ticks_of_ms(kLookMs);
}

bool Schedule::tick(uint64_t now, uint64_t count) {
  next_ = now + ticks_of_ms(kLookMs);
  session_.reporter.progress(count, total_);
  (void)session_.watch.look();
  if (ends_by_ == EndsBy::kDuration) return tick_duration(now, count);
  if (ends_by_ == EndsBy::kUser) tick_period(now, count);
  return true;
}

bool Schedule::tick_duration(uint64_t now, uint64_t count) {
  if (now >= measured_from_) {
    measured_from_ = UINT64_MAX;
    begin_span(now, count);
  }
  if (now >= measured_to_) {
    measured_to_ = UINT64_MAX;
    end_span(now, count);
  }
  next_ = std::min({next_, measured_from_, measured_to_, stop_at_});
  return now < stop_at_;
}

void Schedule::tick_period(uint64_t now, uint64_t count) {
  next_ = std::min(next_, period_end_);
  if (now < period_end_) return;
  period_end_ += ticks_of_ms(session_.config.infinite_period_ms);
  finish(now, count);
  Row row;
  row.size = session_.config.size;
  row.iterations = span_.messages();
  const double bytes = static_cast<double>(plan_.bytes(span_.messages()));
  row.bandwidth = bandwidth_of(bytes, span_.messages(), span_.seconds());
  add_jetty_rows(row);
  session_.reporter.row(session_.config, row);
  begin_span(now, count);
}

void Schedule::finish(uint64_t now, uint64_t count) {
  if (ends_by_ == EndsBy::kDuration && measured_to_ == UINT64_MAX) return;
  end_span(now, count);
}

void Schedule::begin_span(uint64_t now, uint64_t count) {
  span_ = {now, now, count, count, lane_counts()};
}

void Schedule::end_span(uint64_t now, uint64_t count) {
  span_.end = now;
  span_.until = count;
  span_.lanes_until = lane_counts();
}

std::vector<uint64_t> Schedule::lane_counts() const {
  std::vector<uint64_t> counts;
  if (lanes_ == nullptr) return counts;
  for (const Lane& lane : *lanes_) counts.push_back(lane.completed);
  return counts;
}

void Schedule::add_jetty_rows(Row& row) const {
  for (size_t i = 0; i < span_.lanes_until.size(); i++) {
    const uint64_t finished = (*lanes_)[i].finished_at;
    const Span own = {span_.start, finished == 0 ? span_.end : finished, span_.lanes_before[i],
                      span_.lanes_until[i]};
    const auto bytes = static_cast<double>(plan_.bytes(own.messages()));
    Row& line = row.jettys.emplace_back();
    line.size = row.size;
    line.iterations = own.messages();
    line.bandwidth = bandwidth_of(bytes, own.messages(), own.seconds());
  }
}

}  // namespace perftest
