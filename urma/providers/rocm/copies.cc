// SPDX-License-Identifier: MIT
#include "urma/providers/rocm/copies.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/base/log.h"

namespace urma::rocm {
namespace {

constexpr uint64_t kPage = 4096;
// A part of this size is worth an engine of its own.
constexpr uint64_t kBytesPerEngine = 8 << 20;
constexpr uint32_t kMostEngines = 4;
// Loads through a bus take about a microsecond for each cache line.
constexpr uint64_t kReadOverBus = 256;
// The longest wait for the end of a copy. Afterwards its memory is left to it.
constexpr uint64_t kEndPatienceNs = 10'000'000'000;
constexpr uint64_t kWaitSliceNs = 10'000'000;

bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

Buffer::Buffer(Copies* copies, uint64_t bytes)
    : copies_(copies), bytes_((std::max<uint64_t>(bytes, 1) + kPage - 1) / kPage * kPage) {
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail_errno(URMA_ENOMEM, "a buffer for a copy");
  auto agents = copies->topology().handles();
  void* for_agent = nullptr;
  const auto status = copies->api().hsa_amd_memory_lock(
      memory, bytes_, agents.data(), static_cast<int>(agents.size()), &for_agent);
  if (status != HSA_STATUS_SUCCESS) {
    ::munmap(memory, bytes_);
    fail(URMA_ENOMEM, "hsa_amd_memory_lock of {} bytes for a copy: {}; raise ulimit -l", bytes_,
         status_text(copies->api(), status));
  }
  data_ = static_cast<char*>(memory);
  place_ = copies->places().add(
      {number(memory), bytes_, number(for_agent), copies->topology().cpu()->handle, true});
}

Buffer::~Buffer() {
  copies_->places().remove(number(data_), place_);
  copies_->api().hsa_amd_memory_unlock(data_);
  ::munmap(data_, bytes_);
}

// The engine cannot be stopped: its memory, and the buffers of this copy, stay until it is through.
void Copy::end() {
  const bool through = ended_ == parts_.size() || wait();
  if (!through) {
    URMA_LOG_LIMITED(ERR, "a copy of the HSA runtime does not end; its memory is never freed");
    for (auto& buffer : buffers_) (void)buffer.release();
  }
  buffers_.clear();
  ended_ = 0;
  status_ = URMA_CR_SUCCESS;
  const MutexLock lock(copies_->mutex_);
  if (through) {
    for (const Part& part : parts_) copies_->signals_.give_back(part.signal);
  }
  parts_.clear();
  copies_->idle_.splice(copies_->idle_.begin(), copies_->active_, place_);
}

bool Copy::ended(urma_cr_status_t* status) {
  for (; ended_ != parts_.size(); ++ended_) {
    const auto value = copies_->api().hsa_signal_load_scacquire(parts_[ended_].signal->handle);
    if (value > 0) return false;
    // The runtime reports a failed copy by a negative value.
    if (value < 0) status_ = URMA_CR_LOC_OPERATION_ERR;
  }
  *status = status_;
  return true;
}

void Copy::wake_when_ended() {
  if (ended_ != parts_.size()) copies_->signals_.wake_when_ended(parts_[ended_].signal);
}

bool Copy::touches(uint64_t begin, uint64_t bytes) const {
  return std::any_of(parts_.begin(), parts_.end(), [=](const Part& part) {
    return overlap(part.to, part.bytes, begin, bytes) ||
           overlap(part.from, part.bytes, begin, bytes);
  });
}

bool Copy::wait() {
  const uint64_t deadline = monotonic_ns() + kEndPatienceNs;
  for (const Part& part : parts_) {
    while (copies_->api().hsa_signal_load_scacquire(part.signal->handle) > 0) {
      if (monotonic_ns() > deadline) return false;
      copies_->api().hsa_signal_wait_scacquire(part.signal->handle, HSA_SIGNAL_CONDITION_LT, 1,
                                               kWaitSliceNs, HSA_WAIT_STATE_BLOCKED);
    }
  }
  return true;
}

CopyHandle Copies::begin(std::span<const CopyPiece> pieces) {
  CopyHandle copy;
  {
    const MutexLock lock(mutex_);
    if (idle_.empty()) idle_.emplace_back(this);
    active_.splice(active_.begin(), idle_, idle_.begin());
    active_.front().place_ = active_.begin();
    copy.reset(&active_.front());
  }
  for (const CopyPiece& piece : pieces) {
    if (piece.bytes != 0) add_piece(copy.get(), piece);
  }
  return copy;
}

Copies::End Copies::end_of(const Place& place, uint64_t addr) const {
  return {place.for_agent + (addr - place.begin), place.agent};
}

// Memory without a place belongs to this library, such as inline data, and only the CPU reaches it:
// it goes through a buffer unless the CPU copies.
void Copies::add_piece(Copy* copy, const CopyPiece& piece) {
  const auto to = places_.find(number(piece.to), piece.bytes);
  const auto from = places_.find(number(piece.from), piece.bytes);
  const bool over_bus = from.has_value() && topology().find(from->agent)->gpu;
  const bool by_cpu = (!to.has_value() || to->cpu) && (!from.has_value() || from->cpu);
  const uint64_t most = over_bus ? std::min(cpu_bytes_, kReadOverBus) : cpu_bytes_;
  if (by_cpu && piece.bytes <= most) {
    std::memcpy(piece.to, piece.from, piece.bytes);
    // Writes to a bus have left the processor when others are told.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return;
  }
  if (to.has_value() && from.has_value()) {
    return start(copy, piece, end_of(*to, number(piece.to)), end_of(*from, number(piece.from)));
  }
  if (!to.has_value()) fail(URMA_FAIL, "a copy to {:#x}: no engine reaches it", number(piece.to));
  copy->buffers_.push_back(buffer(piece.bytes));
  char* const between = copy->buffers_.back()->data();
  const Place place = *places_.find(number(between), piece.bytes);
  const End middle = end_of(place, number(between));
  std::memcpy(between, piece.from, piece.bytes);
  start(copy, {piece.to, between, piece.bytes}, end_of(*to, number(piece.to)), middle);
}

// A mask of the engines that can; 0 if the runtime chooses.
uint32_t Copies::engines_between(hsa_agent_t to, hsa_agent_t from) const {
  if (api().copy_on_engine == nullptr || api().copy_engine_status == nullptr) return 0;
  uint32_t mask = 0;
  return api().copy_engine_status(to, from, &mask) == HSA_STATUS_SUCCESS ? mask : 0;
}

void Copies::start(Copy* copy, const CopyPiece& piece, End to, End from) {
  uint32_t engines = piece.bytes < 2 * kBytesPerEngine ? 0 : engines_between(to.agent, from.agent);
  const uint32_t count =
      std::clamp<uint32_t>(static_cast<uint32_t>(std::min<uint64_t>(std::popcount(engines),
                                                                    piece.bytes / kBytesPerEngine)),
                           1, kMostEngines);
  const uint64_t share = (piece.bytes / count + kPage - 1) / kPage * kPage;
  {
    // What has begun must be known.
    const MutexLock lock(mutex_);
    copy->parts_.reserve(copy->parts_.size() + count);
  }
  for (uint64_t at = 0; at < piece.bytes; at += share) {
    const uint64_t bytes = std::min(share, piece.bytes - at);
    Signal* const signal = signals_.take();
    const uint32_t engine = engines & (~engines + 1);
    engines &= ~engine;
    auto* const target = reinterpret_cast<void*>(to.addr + at);
    const auto* const source = reinterpret_cast<const void*>(from.addr + at);
    const auto status = engine != 0
                            ? api().copy_on_engine(target, to.agent, source, from.agent, bytes, 0,
                                                   nullptr, signal->handle, engine, false)
                            : api().hsa_amd_memory_async_copy(target, to.agent, source, from.agent,
                                                              bytes, 0, nullptr, signal->handle);
    if (status != HSA_STATUS_SUCCESS) {
      signals_.give_back(signal);
      fail(URMA_FAIL, "hsa_amd_memory_async_copy of {} bytes: {}", bytes,
           status_text(api(), status));
    }
    const MutexLock lock(mutex_);
    copy->parts_.push_back({signal, number(piece.to) + at, number(piece.from) + at, bytes});
  }
}

void Copies::settle(uint64_t begin, uint64_t bytes) {
  const MutexLock lock(mutex_);
  for (Copy& copy : active_) {
    if (copy.touches(begin, bytes) && !copy.wait()) {
      URMA_LOG_LIMITED(
          ERR, "memory at {:#x} goes away, but a copy of the HSA runtime still uses it", begin);
    }
  }
}

}  // namespace urma::rocm
