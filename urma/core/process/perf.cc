// SPDX-License-Identifier: MIT
#include "urma/core/process/perf.h"

#include <algorithm>
#include <array>
#include <bit>

#include "third_party/fmt/format.h"
#include "urma/base/cache_line.h"
#include "urma/base/mutex.h"

namespace urma::core::perf {
namespace {

constexpr size_t kBuckets = 64;  // bucket b counts times of b significant bits

constexpr std::array<const char*, URMA_PERF_RECORD_TYPE_MAX> kNames = {
    "UB_JETTY_POST_SEND", "BOND_JETTY_POST_SEND", "UB_JFS_POST_SEND", "BOND_JFS_POST_SEND",
    "UB_JETTY_POST_RECV", "BOND_JETTY_POST_RECV", "UB_POST_JFR_RECV", "BOND_POST_JFR_RECV",
    "UB_POLL_JFC",        "BOND_POLL_JFC",        "UB_WAIT_JFC",      "BOND_WAIT_JFC",
    "UB_ACK_JFC",         "UB_REARM_JFC",         "BOND_REARM_JFC",
};

// What one thread measured of one kind of call. Only that thread writes it, except start(), which
// may lose the record of a call in progress.
struct Histogram {
  std::atomic<uint64_t> sum;
  std::atomic<uint64_t> min;  // 0: nothing yet
  std::atomic<uint64_t> max;
  std::array<std::atomic<uint64_t>, kBuckets> buckets;
};

struct alignas(kCacheLine) ThreadRecord {
  std::array<Histogram, URMA_PERF_RECORD_TYPE_MAX> types;
};

// Zero pages until a thread writes its own: no cost without measuring.
std::array<ThreadRecord, URMA_PERF_THREAD_MAX_NUM> g_records;

// Upper half: round of measuring; lower half: threads that took a record in it.
std::atomic<uint64_t> g_round{uint64_t{1} << 32};

void clear(Histogram& histogram) {
  histogram.sum.store(0, std::memory_order_relaxed);
  histogram.min.store(0, std::memory_order_relaxed);
  histogram.max.store(0, std::memory_order_relaxed);
  for (auto& bucket : histogram.buckets) bucket.store(0, std::memory_order_relaxed);
}

// The record of the calling thread in this round; NULL if too many threads measure.
ThreadRecord* own_record() {
  thread_local uint32_t round = 0;
  thread_local uint32_t index = 0;
  const uint64_t now = g_round.load(std::memory_order_acquire);
  if (round != now >> 32) {
    const uint64_t ticket = g_round.fetch_add(1, std::memory_order_acq_rel);
    round = static_cast<uint32_t>(ticket >> 32);
    index = static_cast<uint32_t>(ticket);
  }
  return index < g_records.size() ? &g_records[index] : nullptr;
}

void add(std::atomic<uint64_t>& counter, uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

// All threads together.
struct Summary {
  uint64_t count = 0;
  uint64_t sum = 0;
  uint64_t min = 0;
  uint64_t max = 0;
  std::array<uint64_t, kBuckets> buckets{};

  // The time that `share` of all calls did not exceed, to the accuracy of a bucket.
  uint64_t percentile(double share) const {
    if (count == 0) return 0;
    const double wanted = share * static_cast<double>(count);
    uint64_t below = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      const uint64_t here = buckets[i];
      if (here == 0 || static_cast<double>(below + here) < wanted) {
        below += here;
        continue;
      }
      const uint64_t low = i == 0 ? 0 : uint64_t{1} << (i - 1);
      const double part = (wanted - static_cast<double>(below)) / static_cast<double>(here);
      const auto inside = static_cast<uint64_t>(part * static_cast<double>(low));
      return std::clamp(low + inside, min, max);
    }
    return max;
  }
};

Summary summarize(size_t type) {
  Summary summary;
  for (const ThreadRecord& record : g_records) {
    const Histogram& histogram = record.types[type];
    const uint64_t max = histogram.max.load(std::memory_order_relaxed);
    if (max == 0) continue;
    const uint64_t min = histogram.min.load(std::memory_order_relaxed);
    summary.min = summary.min == 0 ? min : std::min(summary.min, min);
    summary.max = std::max(summary.max, max);
    summary.sum += histogram.sum.load(std::memory_order_relaxed);
    for (size_t i = 0; i < kBuckets; ++i) {
      const uint64_t here = histogram.buckets[i].load(std::memory_order_relaxed);
      summary.buckets[i] += here;
      summary.count += here;
    }
  }
  return summary;
}

}  // namespace

void start() {
  static Mutex one_at_a_time;
  const MutexLock lock(one_at_a_time);
  end_detour(kMeasured);
  const uint64_t before = g_round.load(std::memory_order_acquire);
  const size_t used = std::min<size_t>(static_cast<uint32_t>(before), g_records.size());
  for (size_t i = 0; i < used; ++i) {
    for (Histogram& histogram : g_records[i].types) clear(histogram);
  }
  g_round.store(((before >> 32) + 1) << 32, std::memory_order_release);
  begin_detour(kMeasured);
}

void stop() { end_detour(kMeasured); }

void record(urma_perf_record_type_t type, uint64_t ns) {
  ThreadRecord* record = own_record();
  if (record == nullptr) return;
  const uint64_t time = std::max<uint64_t>(ns, 1);
  Histogram& histogram = record->types[type];
  const uint64_t min = histogram.min.load(std::memory_order_relaxed);
  if (min == 0 || time < min) histogram.min.store(time, std::memory_order_relaxed);
  if (time > histogram.max.load(std::memory_order_relaxed)) {
    histogram.max.store(time, std::memory_order_relaxed);
  }
  add(histogram.sum, time);
  add(histogram.buckets[std::min<size_t>(std::bit_width(time), kBuckets - 1)], 1);
}

std::string table() {
  std::string text =
      urma::format("{:<21}{:>12}{:>11}{:>11}{:>13}{:>11}{:>11}{:>11}\n", "type", "count", "avg ns",
                   "min ns", "max ns", "p50 ns", "p90 ns", "p99 ns");
  for (size_t type = 0; type < kNames.size(); ++type) {
    const Summary summary = summarize(type);
    const uint64_t average = summary.count == 0 ? 0 : summary.sum / summary.count;
    text += urma::format("{:<21}{:>12}{:>11}{:>11}{:>13}{:>11}{:>11}{:>11}\n", kNames[type],
                         summary.count, average, summary.min, summary.max, summary.percentile(0.50),
                         summary.percentile(0.90), summary.percentile(0.99));
  }
  return text;
}

}  // namespace urma::core::perf
