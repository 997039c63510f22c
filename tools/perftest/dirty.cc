// SPDX-License-Identifier: MIT
#include "tools/perftest/dirty.h"

#include <atomic>
#include <chrono>

namespace perftest {
namespace {

constexpr uint64_t kPage = 4096;

// Keeps the contents, so that a message being copied stays intact.
void dirty_page(uint8_t* page) { std::atomic_ref<uint8_t>(*page).fetch_or(0); }

}  // namespace

DirtyWriter::DirtyWriter(const Session& session) {
  if (session.config.write_dirty_ms) thread_ = std::thread([this, &session] { run(session); });
}

DirtyWriter::~DirtyWriter() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void DirtyWriter::run(const Session& session) {
  const auto pause = std::chrono::milliseconds(*session.config.write_dirty_ms);
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, pause, [this] { return end_; })) {
    for (uint32_t lane = 0; lane < session.config.jettys; lane++) {
      uint8_t* const out = session.memory.out(lane);
      for (uint64_t at = 0; at < session.memory.slot_bytes(); at += kPage) dirty_page(out + at);
    }
  }
}

}  // namespace perftest
