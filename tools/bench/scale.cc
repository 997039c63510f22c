// SPDX-License-Identifier: MIT
//
// Throughput of several threads: each with a jetty of its own, and all with one; and of one thread
// over several jettys that complete into one JFC. Small writes into the memory of another process,
// in chains whose last request is signalled.

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/bench/measure.h"
#include "tools/bench/ring.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"

namespace bench {
namespace {

constexpr uint32_t kBytes = 8;
constexpr uint32_t kChain = 16;
constexpr size_t kMaxThreads = 32;
constexpr size_t kMaxFigures = 6;
constexpr uint32_t kMostQueues = 512;
constexpr uint32_t kQueueCounts[] = {1, 8, 64, kMostQueues};
constexpr uint64_t kChains = 20000;  // of each thread
constexpr double kManyTarget = 0.7;  // of the rate of one jetty
constexpr uint64_t kRingChains = 10 * kChains;
constexpr int kRepeats = 5;

// Before this process is pinned to one of them.
const std::vector<int>& allowed_cores() {
  static const std::vector<int> kCores = [] {
    cpu_set_t allowed;
    if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) fail_errno("sched_getaffinity");
    std::vector<int> cores;
    for (int core = 0; core < CPU_SETSIZE; core++) {
      if (CPU_ISSET(core, &allowed)) cores.push_back(core);
    }
    return cores;
  }();
  return kCores;
}

using Jfc = Handle<urma_jfc_t, urma_delete_jfc>;
using Jetty = Handle<urma_jetty_t, urma_delete_jetty>;

// Like the session's.
Jfc make_jfc(const Session& session, uint32_t depth) {
  urma_jfc_cfg_t cfg = session.sent()->jfc_cfg;
  cfg.depth = depth;
  Jfc jfc(urma_create_jfc(session.jetty()->urma_ctx, &cfg));
  require(jfc != nullptr, "urma_create_jfc");
  return jfc;
}

Jetty make_jetty(const Session& session, urma_jfc_t* jfc, uint32_t depth) {
  urma_jetty_cfg_t cfg = session.jetty()->jetty_cfg;
  cfg.id = 0;
  cfg.jfs_cfg.jfc = jfc;
  cfg.jfs_cfg.depth = depth;
  Jetty jetty(urma_create_jetty(session.jetty()->urma_ctx, &cfg));
  require(jetty != nullptr, "urma_create_jetty");
  return jetty;
}

// The requests of one thread.
class Chain {
 public:
  Chain(const Session& session, size_t line)
      : here_(session.here(line * kLine, kBytes)), there_(session.there(line * kLine, kBytes)) {
    for (uint32_t i = 0; i < kChain; i++) {
      requests_[i].opcode = URMA_OPC_WRITE;
      requests_[i].tjetty = session.target();
      requests_[i].rw.src = {&here_, 1};
      requests_[i].rw.dst = {&there_, 1};
      requests_[i].next = i + 1 < kChain ? &requests_[i + 1] : nullptr;
    }
    requests_.back().flag.bs.complete_enable = 1;
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // Takes one completion for its chain, no matter whose.
  void write(urma_jetty_t* jetty, urma_jfc_t* jfc) {
    urma_jfs_wr_t* bad;
    const urma_status_t status = urma_post_jetty_send_wr(jetty, requests_.data(), &bad);
    if (status != URMA_SUCCESS) ok(status, "urma_post_jetty_send_wr");
    urma_cr_t cr;
    while (poll(jfc, 1, &cr) == 0) {
    }
  }

 private:
  urma_sge_t here_, there_;
  std::array<urma_jfs_wr_t, kChain> requests_ = {};
};

// The time from the start of all threads to the end of the last. `work` is called with the number
// of a thread, each on its own core if there are enough.
template <typename Work>
double time_threads(size_t threads, const Work& work) {
  std::atomic<size_t> ready{0};
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> running;
  const auto body = [&](size_t thread) {
    try {
      pin(allowed_cores()[thread % allowed_cores().size()]);
      ready.fetch_add(1);
      while (ready.load() <= threads) {
      }
      work(thread);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  for (size_t thread = 0; thread < threads; thread++) running.emplace_back(body, thread);
  while (ready.load() != threads) ::sched_yield();
  const double start = now_ns();
  ready.fetch_add(1);
  for (std::thread& thread : running) thread.join();
  const double time = now_ns() - start;
  if (failure != nullptr) std::rethrow_exception(failure);
  return time;
}

// Chains of 16 per second times 16: `threads` threads, each of which calls `work` with its number
// for `chains` of them.
template <typename Work>
double rate_of(size_t threads, uint64_t chains, const Work& work) {
  std::vector<double> times;
  times.reserve(kRepeats);
  for (int repeat = 0; repeat < kRepeats; repeat++) times.push_back(time_threads(threads, work));
  return static_cast<double>(threads * chains * kChain) * 1e9 / median(std::move(times));
}

// Each thread fills and empties a ring of its own.
double ring_rate(size_t threads) {
  std::vector<std::unique_ptr<RingMemory>> rings;
  for (size_t i = 0; i < threads; i++) rings.push_back(std::make_unique<RingMemory>());
  return rate_of(threads, kRingChains, [&](size_t thread) {
    std::memset(static_cast<void*>(rings[thread].get()), 0, sizeof(RingMemory));
    Producer out(*rings[thread]);
    Consumer in(*rings[thread]);
    for (uint64_t i = 0; i < kRingChains; i++) {
      for (uint64_t k = 0; k < kChain; k++) out.push(i + k);
      for (uint64_t k = 0; k < kChain; k++) {
        if (in.pop() != i + k) throw Failure("a ring lost a message");
      }
    }
  });
}

// Writes per second of `threads` threads; thread i uses queue i, or all use the first.
double write_rate(const Session& session, size_t threads, bool shared) {
  const size_t queues = shared ? 1 : threads;
  const auto depth = static_cast<uint32_t>(kChain * (shared ? threads : 1));
  std::vector<Jfc> jfcs;
  std::vector<Jetty> jetties;
  for (size_t i = 0; i < queues; i++) {
    jfcs.push_back(make_jfc(session, depth));
    jetties.push_back(make_jetty(session, jfcs.back().get(), depth));
  }
  return rate_of(threads, kChains, [&](size_t thread) {
    Chain chain(session, thread);
    const size_t queue = thread % queues;
    for (uint64_t i = 0; i < kChains; i++) {
      chain.write(jetties[queue].get(), jfcs[queue].get());
    }
  });
}

Outcome measure_rings(Channel&) {
  Outcome outcome;
  for (const size_t threads : thread_counts()) outcome.values.push_back(ring_rate(threads));
  return outcome;
}

Outcome measure_threads(Channel& peer, bool lock_free, bool shared) {
  const Session session(peer, {.lock_free = lock_free});
  Outcome outcome;
  for (const size_t threads : thread_counts()) {
    outcome.values.push_back(write_rate(session, threads, shared));
  }
  outcome.note = session.why_not_mapped();
  peer.sync();
  return outcome;
}

// One thread that takes its queues in turn; then, of the most queues, always the same one.
Outcome measure_queues(Channel& peer, bool lock_free) {
  const Session session(peer, {.lock_free = lock_free});
  Outcome outcome;
  Chain chain(session, 0);
  for (const uint32_t count : kQueueCounts) {
    const Jfc jfc = make_jfc(session, kChain);
    std::vector<Jetty> jetties;
    for (uint32_t i = 0; i < count; i++) jetties.push_back(make_jetty(session, jfc.get(), kChain));
    const auto rate = [&](uint32_t used) {
      const double time = time_steps({kRepeats * 10, kChains / 10}, [&](uint64_t i) {
        chain.write(jetties[i % used].get(), jfc.get());
      });
      return kChain * 1e9 / time;
    };
    outcome.values.push_back(rate(count));
    if (count == kMostQueues) outcome.values.push_back(rate(1));
  }
  outcome.note = session.why_not_mapped();
  peer.sync();
  return outcome;
}

void own_memory(Channel& peer, bool lock_free) {
  const Session session(peer, {.lock_free = lock_free});
  peer.sync();
}

std::vector<std::string> names_of(const std::vector<ScaleRow>& rows) {
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const ScaleRow& row : rows) names.push_back(row.figure);
  return names;
}

std::string count_of(size_t threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

// The target is that of two threads.
std::vector<ScaleRow> thread_rows(const std::string& how, double target) {
  std::vector<ScaleRow> rows;
  for (const size_t threads : thread_counts()) {
    const std::string what = count_of(threads) + ", " + how;
    rows.push_back({"scale, " + what, "writes of 8 B, " + what, "scale, 1 thread, " + how,
                    threads == 2 ? target : 0});
  }
  return rows;
}

// 1.8 times the rate of one thread, if two cores can do twice as much as one.
std::vector<ScaleRow> own_rows() {
  std::vector<ScaleRow> rows = thread_rows("a jetty each", 0.9);
  for (size_t i = 1; i < rows.size(); i++) {
    rows[i].gain = "rings, " + count_of(thread_counts()[i]);
    rows[i].gain_beside = "rings, 1 thread";
  }
  return rows;
}

std::vector<ScaleRow> shared_rows() { return thread_rows("one jetty", 0.8); }

std::vector<ScaleRow> queue_rows() {
  std::vector<ScaleRow> rows;
  const auto add = [&rows](const std::string& queues, const std::string& how, double target) {
    rows.push_back({"scale, " + queues + how,
                    "writes of 8 B, 1 thread, " + queues + " on a JFC" + how, "scale, 1 jetty",
                    target});
  };
  for (const uint32_t count : kQueueCounts) {
    add(std::to_string(count) + (count == 1 ? " jetty" : " jetties"), "",
        count == kMostQueues ? kManyTarget : 0);
  }
  add(std::to_string(kMostQueues) + " jetties", ", one used", kManyTarget);
  return rows;
}

}  // namespace

std::vector<size_t> thread_counts() {
  std::vector<size_t> counts;
  const size_t most = std::min(kMaxThreads, allowed_cores().size());
  for (size_t threads = 1; threads <= most && counts.size() < kMaxFigures; threads *= 2) {
    counts.push_back(threads);
  }
  return counts;
}

std::vector<ScaleRow> ring_rows() {
  std::vector<ScaleRow> rows;
  for (const size_t threads : thread_counts()) {
    const std::string what = count_of(threads);
    rows.push_back({"rings, " + what, "bare: a ring for each thread, " + what, {}});
  }
  return rows;
}

std::vector<ScaleRow> scale_rows() {
  std::vector<ScaleRow> rows = own_rows();
  for (const auto& more : {shared_rows(), queue_rows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

std::vector<Measure> thread_measures() {
  return {{"rings", names_of(ring_rows()), measure_rings, {}}};
}

std::vector<Measure> scale_measures(bool lock_free) {
  const auto other = [=](Channel& peer) { own_memory(peer, lock_free); };
  std::vector<Measure> measures = {
      {"scale, threads with a jetty each",
       names_of(own_rows()),
       [=](Channel& peer) { return measure_threads(peer, lock_free, /*shared=*/false); },
       other,
       {"rings"}},
      {"scale, jetties of one thread", names_of(queue_rows()),
       [=](Channel& peer) { return measure_queues(peer, lock_free); }, other},
  };
  if (!lock_free) {
    measures.push_back(
        {"scale, threads with one jetty", names_of(shared_rows()),
         [](Channel& peer) { return measure_threads(peer, /*lock_free=*/false, /*shared=*/true); },
         other});
  }
  return measures;
}

}  // namespace bench
