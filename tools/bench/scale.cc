// SPDX-License-Identifier: MIT
//
// Throughput of several threads: each with a jetty of its own, and all with one; and of one thread
// over several jettys that complete into one JFC. Small writes into the memory of another process,
// in chains whose last request is signalled.

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tools/bench/measure.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"

namespace bench {
namespace {

constexpr uint32_t kBytes = 8;
constexpr uint32_t kChain = 16;
constexpr size_t kLine = 64;
constexpr size_t kMaxThreads = 32;
constexpr size_t kMaxFigures = 6;
constexpr uint32_t kQueueCounts[] = {1, 8, 64, 512};
constexpr uint64_t kChains = 20000;  // of each thread
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

// Like the session's, either lock_free or for several threads.
Jfc make_jfc(const Session& session, uint32_t depth, bool lock_free) {
  urma_jfc_cfg_t cfg = session.sent()->jfc_cfg;
  cfg.depth = depth;
  cfg.flag.bs.lock_free = lock_free;
  Jfc jfc(urma_create_jfc(session.jetty()->urma_ctx, &cfg));
  require(jfc != nullptr, "urma_create_jfc");
  return jfc;
}

Jetty make_jetty(const Session& session, urma_jfc_t* jfc, uint32_t depth, bool lock_free) {
  urma_jetty_cfg_t cfg = session.jetty()->jetty_cfg;
  cfg.id = 0;
  cfg.jfs_cfg.jfc = jfc;
  cfg.jfs_cfg.depth = depth;
  cfg.jfs_cfg.flag.bs.lock_free = lock_free;
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

// Writes per second of `threads` threads; thread i uses queue i, or all use the first.
double rate_of(const Session& session, size_t threads, bool shared) {
  const size_t queues = shared ? 1 : threads;
  const auto depth = static_cast<uint32_t>(kChain * (shared ? threads : 1));
  std::vector<Jfc> jfcs;
  std::vector<Jetty> jetties;
  for (size_t i = 0; i < queues; i++) {
    jfcs.push_back(make_jfc(session, depth, !shared));
    jetties.push_back(make_jetty(session, jfcs.back().get(), depth, !shared));
  }
  std::vector<double> times;
  times.reserve(kRepeats);
  for (int repeat = 0; repeat < kRepeats; repeat++) {
    times.push_back(time_threads(threads, [&](size_t thread) {
      Chain chain(session, thread);
      const size_t queue = thread % queues;
      for (uint64_t i = 0; i < kChains; i++) {
        chain.write(jetties[queue].get(), jfcs[queue].get());
      }
    }));
  }
  return static_cast<double>(threads * kChains * kChain) * 1e9 / median(std::move(times));
}

Outcome measure_threads(Channel& peer, bool shared) {
  const Session session(peer, {});
  Outcome outcome;
  for (const size_t threads : thread_counts()) {
    outcome.values.push_back(rate_of(session, threads, shared));
  }
  outcome.note = session.why_not_mapped();
  peer.sync();
  return outcome;
}

// One thread that takes its queues in turn.
Outcome measure_queues(Channel& peer) {
  const Session session(peer, {});
  Outcome outcome;
  for (const uint32_t count : kQueueCounts) {
    const Jfc jfc = make_jfc(session, kChain, true);
    std::vector<Jetty> jetties;
    for (uint32_t i = 0; i < count; i++) {
      jetties.push_back(make_jetty(session, jfc.get(), kChain, true));
    }
    Chain chain(session, 0);
    const double time = time_steps({kRepeats * 10, kChains / 10}, [&](uint64_t i) {
      chain.write(jetties[i % count].get(), jfc.get());
    });
    outcome.values.push_back(kChain * 1e9 / time);
  }
  outcome.note = session.why_not_mapped();
  peer.sync();
  return outcome;
}

void own_memory(Channel& peer) {
  const Session session(peer, {});
  peer.sync();
}

std::vector<std::string> names_of(const std::vector<ScaleRow>& rows) {
  std::vector<std::string> names;
  names.reserve(rows.size());
  for (const ScaleRow& row : rows) names.push_back(row.figure);
  return names;
}

std::vector<ScaleRow> thread_rows(const std::string& how) {
  std::vector<ScaleRow> rows;
  for (const size_t threads : thread_counts()) {
    std::string what = std::to_string(threads);
    what.append(threads == 1 ? " thread, " : " threads, ").append(how);
    rows.push_back({"scale, " + what, "writes of 8 B, " + what, "scale, 1 thread, " + how});
  }
  return rows;
}

std::vector<ScaleRow> queue_rows() {
  std::vector<ScaleRow> rows;
  for (const uint32_t count : kQueueCounts) {
    const std::string text = std::to_string(count) + (count == 1 ? " jetty" : " jetties");
    rows.push_back(
        {"scale, " + text, "writes of 8 B, 1 thread, " + text + " on a JFC", "scale, 1 jetty"});
  }
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

std::vector<ScaleRow> scale_rows() {
  std::vector<ScaleRow> rows = thread_rows("a jetty each");
  for (const auto& more : {thread_rows("one jetty"), queue_rows()}) {
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

std::vector<Measure> scale_measures() {
  return {
      {"scale, threads with a jetty each", names_of(thread_rows("a jetty each")),
       [](Channel& peer) { return measure_threads(peer, /*shared=*/false); }, own_memory},
      {"scale, threads with one jetty", names_of(thread_rows("one jetty")),
       [](Channel& peer) { return measure_threads(peer, /*shared=*/true); }, own_memory},
      {"scale, jetties of one thread", names_of(queue_rows()), measure_queues, own_memory},
  };
}

}  // namespace bench
