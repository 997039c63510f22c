// SPDX-License-Identifier: MIT
#include "urma/core/process/trace.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/base/mutex.h"
#include "urma/core/process/detours.h"
#include "urma/core/process/timeline.h"

namespace urma::core::trace {
namespace {

constexpr uint64_t kMoments = 1 << 16;  // per thread, between two turns of the service thread
constexpr uint64_t kPeriodNs = 10'000'000;

// One thread writes moments, the service thread takes them.
class Buffer {
 public:
  Buffer()
      : thread(::gettid()),
        moments_(
            static_cast<Moment*>(::mmap(nullptr, kMoments * sizeof(Moment), PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    if (moments_ == MAP_FAILED) fail_errno(URMA_ENOMEM, "making room for a timeline");
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { ::munmap(moments_, kMoments * sizeof(Moment)); }

  // Where the next moment goes; NULL if there is no room.
  Moment* reserve() {
    if (next_ - free_from_ == kMoments) [[unlikely]] {
      // SYNC(trace-room): what was there has been read; pairs with the release in take().
      free_from_ = taken_.load(std::memory_order_acquire);
      if (next_ - free_from_ == kMoments) {
        lost.fetch_add(1, std::memory_order_relaxed);
        return nullptr;
      }
    }
    return &moments_[next_ % kMoments];
  }
  void commit() {
    // SYNC(trace-moment): the moment is written; pairs with the acquire in take().
    put_.store(++next_, std::memory_order_release);
  }
  void take(std::vector<Entry>* entries) {
    // SYNC(trace-moment): pairs with the release in commit().
    const uint64_t end = put_.load(std::memory_order_acquire);
    uint64_t at = taken_.load(std::memory_order_relaxed);
    for (; at != end; ++at) entries->push_back({moments_[at % kMoments], thread});
    // SYNC(trace-room): pairs with the acquire in reserve().
    taken_.store(end, std::memory_order_release);
  }

  const int32_t thread;
  std::atomic<uint64_t> lost{0};
  std::atomic<bool> ended{false};  // the thread has ended, or has another buffer

 private:
  Moment* const moments_;
  uint64_t next_ = 0;       // of the thread
  uint64_t free_from_ = 0;  // what it last saw of taken_
  std::atomic<uint64_t> put_{0};
  std::atomic<uint64_t> taken_{0};
};

struct Tracer {
  Mutex mutex;
  std::vector<std::shared_ptr<Buffer>> buffers URMA_GUARDED_BY(mutex);

  // Of the service thread.
  Service* service = nullptr;
  std::optional<Timeline> timeline;
  std::vector<Entry> entries;
  uint64_t lost = 0;
};

Tracer& tracer() {
  static auto& the_tracer = *new Tracer;
  return the_tracer;
}

std::atomic<uint32_t> current_round{0};  // odd while there is a timeline

// Keeps a thread's buffer until the thread ends.
struct Keeper {
  ~Keeper() { leave(); }
  void leave() {
    // SYNC(trace-ended): release pairs with the acquire in write_out(): all moments were put.
    if (buffer != nullptr) buffer->ended.store(true, std::memory_order_release);
    buffer.reset();
  }
  std::shared_ptr<Buffer> buffer;
};
thread_local Keeper keeper;
// The same, to be read without a call: with a destructor, each access checks whether it is
// registered.
constinit thread_local Buffer* own = nullptr;
constinit thread_local uint32_t own_round = 0;

// The calling thread's first moment in this timeline.
[[gnu::cold, gnu::noinline]] Buffer* make_own(uint32_t round) noexcept {
  own_round = round;
  own = nullptr;
  keeper.leave();
  if (round % 2 == 0) return nullptr;
  guarded(URMA_LOG_SITE, [] {
    auto buffer = std::make_shared<Buffer>();
    const MutexLock lock(tracer().mutex);
    tracer().buffers.push_back(buffer);
    keeper.buffer = std::move(buffer);
  });
  return own = keeper.buffer.get();
}

Buffer* own_buffer() {
  const uint32_t round = current_round.load(std::memory_order_relaxed);
  if (own_round != round) [[unlikely]]
    return make_own(round);
  return own;
}

uint64_t bytes_of(const urma_sg_t& list) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < list.num_sge; ++i) bytes += list.sge[i].len;
  return bytes;
}

// The request was accepted, so it is valid.
uint64_t bytes_of(const urma_jfs_wr_t& wr) {
  switch (wr.opcode) {
    case URMA_OPC_READ:
      return bytes_of(wr.rw.dst);
    case URMA_OPC_WRITE:
    case URMA_OPC_WRITE_IMM:
    case URMA_OPC_WRITE_NOTIFY:
    case URMA_OPC_WRITE_ATOMIC:
      return bytes_of(wr.rw.src);
    case URMA_OPC_SEND:
    case URMA_OPC_SEND_IMM:
    case URMA_OPC_SEND_INVALIDATE:
      return bytes_of(wr.send.src);
    case URMA_OPC_NOP:
    case URMA_OPC_FLUSH_DMA:
      return 0;
    default:
      return wr.cas.src->len;
  }
}

// `peer` is that of a bound queue; else the requests name theirs.
void put_posts(const void* queue, uint32_t id, const urma_target_jetty_t* peer,
               const urma_jfs_wr_t* wr, const urma_jfs_wr_t* end, uint64_t began) {
  Buffer* buffer = own_buffer();
  if (buffer == nullptr) return;
  const uint64_t now = ticks();
  for (; wr != nullptr && wr != end; wr = wr->next) {
    Moment* moment = buffer->reserve();
    if (moment == nullptr) continue;
    const urma_target_jetty_t* target = peer != nullptr ? peer : wr->tjetty;
    moment->ticks = now;
    moment->user_ctx = wr->user_ctx;
    moment->bytes = bytes_of(*wr);
    moment->queue = reinterpret_cast<uint64_t>(queue);
    moment->peer_eid = target != nullptr ? target->id.eid : urma_eid_t{};
    moment->queue_id = id;
    moment->peer_id = target != nullptr ? target->id.id : 0;
    moment->took = static_cast<uint32_t>(now - began);
    moment->what = What::kPosted;
    moment->opcode = static_cast<uint8_t>(wr->opcode);
    moment->status = 0;
    moment->signalled = wr->flag.bs.complete_enable != 0;
    buffer->commit();
  }
}

// Writes everything recorded so far. Moments being recorded now may come with the next turn, so
// those younger than the start of this turn wait for it.
void write_out(bool all) {
  Tracer& self = tracer();
  const uint64_t now = ticks(), ns = monotonic_ns();
  {
    const MutexLock lock(self.mutex);
    std::erase_if(self.buffers, [&self](const std::shared_ptr<Buffer>& buffer) {
      // SYNC(trace-ended): acquire pairs with the release in Keeper::leave(): take() finds the last
      // moments of a thread that has ended, whose buffer is not looked at again.
      const bool ended = buffer->ended.load(std::memory_order_acquire);
      buffer->take(&self.entries);
      self.lost += buffer->lost.exchange(0, std::memory_order_relaxed);
      return ended;
    });
  }
  auto& entries = self.entries;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.moment.ticks < b.moment.ticks; });
  const auto end =
      all ? entries.end() : std::find_if(entries.begin(), entries.end(), [now](const Entry& entry) {
        return entry.moment.ticks > now;
      });
  self.timeline->write({entries.begin(), end}, now, ns);
  entries.erase(entries.begin(), end);
  if (all && self.lost != 0) self.timeline->write_lost(self.lost);
  if (!self.timeline->flush()) {
    URMA_LOG(WARNING, "URMA_TRACE: the file cannot be written any more: {}; it ends here",
             std::strerror(errno));
  }
}

void take_turn() {
  if (!tracer().timeline) return;
  guarded(URMA_LOG_SITE, [] { write_out(false); });
  tracer().service->after(kPeriodNs, take_turn);
}

}  // namespace

void posted(const urma_jfs_t* jfs, const urma_jfs_wr_t* wr, const urma_jfs_wr_t* end,
            uint64_t began) {
  put_posts(jfs, jfs->jfs_id.id, nullptr, wr, end, began);
}

void posted(const urma_jetty_t* jetty, const urma_jfs_wr_t* wr, const urma_jfs_wr_t* end,
            uint64_t began) {
  // In other modes each request names its target.
  const bool bound = jetty->jetty_cfg.jfs_cfg.trans_mode == URMA_TM_RC;
  put_posts(jetty, jetty->jetty_id.id, bound ? jetty->remote_jetty : nullptr, wr, end, began);
}

void polled(const urma_cr_t* records, int count) {
  Buffer* buffer = own_buffer();
  if (buffer == nullptr) return;
  const uint64_t now = ticks();
  for (int i = 0; i < count; ++i) {
    Moment* moment = buffer->reserve();
    if (moment == nullptr) continue;
    const urma_cr_t& record = records[i];
    moment->ticks = now;
    moment->user_ctx = record.user_ctx;
    moment->bytes = record.completion_len;
    moment->queue = record.user_data;
    moment->peer_eid = record.remote_id.eid;
    moment->queue_id = record.local_id;
    moment->peer_id = record.remote_id.id;
    moment->took = 0;
    moment->what = record.flag.bs.s_r != 0 ? What::kReceived : What::kCompleted;
    moment->opcode = static_cast<uint8_t>(record.opcode);
    moment->status = static_cast<uint8_t>(record.status);
    moment->signalled = true;
    buffer->commit();
  }
}

void start(const std::string& file, Service* service) {
  if (file.empty()) return;
  Tracer& self = tracer();
  service->run([&] {
    try {
      self.timeline.emplace(file);
    } catch (const Error& error) {
      URMA_LOG(WARNING, "URMA_TRACE: {}; there is no timeline of this process", error.what());
      return;
    }
    self.service = service;
    // The rate of the clock is known from the second turn on.
    self.timeline->write({}, ticks(), monotonic_ns());
    // Relaxed: calls that do not see it are not recorded.
    current_round.fetch_add(1, std::memory_order_relaxed);
    begin_detour(kTraced);
    service->after(kPeriodNs, take_turn);
  });
}

void stop() {
  Tracer& self = tracer();
  // Relaxed: the callers of start() and stop() hold the same lock.
  if (current_round.load(std::memory_order_relaxed) % 2 == 0) return;
  end_detour(kTraced);
  self.service->run([&] {
    guarded(URMA_LOG_SITE, [] { write_out(true); });
    current_round.fetch_add(1, std::memory_order_relaxed);
    self.timeline.reset();
    self.entries = {};
    const MutexLock lock(self.mutex);
    self.buffers.clear();
  });
  if (self.lost != 0) {
    URMA_LOG(WARNING,
             "URMA_TRACE: {} moments were lost, recorded faster than written; trace fewer requests",
             std::exchange(self.lost, 0));
  }
}

}  // namespace urma::core::trace
