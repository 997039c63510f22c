// SPDX-License-Identifier: MIT
//
// Copies of the fake, and the handlers that it calls when they have ended.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <thread>

#include "test/rocm/fake_hsa.h"
#include "test/rocm/fake_hsa_state.h"

namespace fake_hsa {
namespace {

bool ready(const Task& task) {
  return std::all_of(task.after.begin(), task.after.end(),
                     [](const Signal* signal) { return signal->value.load() == 0; });
}

// With the mutex held; tasks.end() if none can be executed.
std::deque<Task>::iterator choose() {
  auto& tasks = state().tasks;
  if (state().numbers["HOLD"] != 0 && state().numbers["LET"] == 0) return tasks.end();
  if (state().numbers["REORDER"] == 0) return std::find_if(tasks.begin(), tasks.end(), ready);
  const auto last = std::find_if(tasks.rbegin(), tasks.rend(), ready);
  return last == tasks.rend() ? tasks.end() : std::prev(last.base());
}

void execute_copies() {
  std::unique_lock lock(state().mutex);
  while (true) {
    const auto chosen = choose();
    if (chosen == state().tasks.end()) {
      state().changed.wait_for(lock, std::chrono::milliseconds(1));
      continue;
    }
    const Task task = std::move(*chosen);
    state().tasks.erase(chosen);
    if (state().numbers["LET"] > 0) --state().numbers["LET"];
    const long delay = state().numbers["DELAY_US"];
    lock.unlock();
    if (delay != 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
    if (!task.fails) std::memcpy(task.to, task.from, task.bytes);
    lock.lock();
    --state().numbers["UNDER_WAY"];
    if (task.fails) {
      task.signal->value.store(-1);
    } else {
      task.signal->value.fetch_sub(1);
    }
    state().changed.notify_all();
  }
}

void call_handlers() {
  std::unique_lock lock(state().mutex);
  while (true) {
    auto& handlers = state().handlers;
    const auto due = std::find_if(handlers.begin(), handlers.end(), [](const Handler& handler) {
      return handler.signal->value.load() < handler.below;
    });
    if (due == handlers.end()) {
      state().changed.wait_for(lock, std::chrono::milliseconds(1));
      continue;
    }
    const Handler handler = *due;
    handlers.erase(due);
    lock.unlock();
    handler.call(handler.signal->value.load(), handler.arg);
    lock.lock();
  }
}

// With the mutex held. Locked memory belongs to the CPU.
bool owns(hsa_agent_t agent, const void* memory) {
  const auto addr = reinterpret_cast<uint64_t>(memory);
  const Memory* const found = addr < kLockedAt ? state().find(addr, 1) : nullptr;
  return agent.handle == (found == nullptr ? kCpu : found->agent);
}

hsa_status_t take(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
                  size_t bytes, uint32_t dependencies, const hsa_signal_t* after,
                  hsa_signal_t completion) {
  const std::lock_guard lock(state().mutex);
  if (state().numbers["REFUSE_COPIES"] > 0) {
    --state().numbers["REFUSE_COPIES"];
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  // Memory that no agent reaches would make a real engine fault.
  char* const target = state().reach(reinterpret_cast<uint64_t>(to), bytes);
  const char* const source = state().reach(reinterpret_cast<uint64_t>(from), bytes);
  if (target == nullptr || source == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (!owns(to_agent, to) || !owns(from_agent, from)) return HSA_STATUS_ERROR_INVALID_AGENT;
  Task task = {target, source, bytes, {}, signal_of(completion), false};
  for (uint32_t i = 0; i < dependencies; ++i) task.after.push_back(signal_of(after[i]));
  if (state().numbers["FAIL_COPIES"] > 0) {
    --state().numbers["FAIL_COPIES"];
    task.fails = true;
  }
  ++state().numbers["COPIES"];
  ++state().numbers["UNDER_WAY"];
  if (dependencies != 0) ++state().numbers["CHAINED"];
  state().tasks.push_back(std::move(task));
  start_threads();
  state().changed.notify_all();
  return HSA_STATUS_SUCCESS;
}

}  // namespace

// As long as the process lives.
void start_threads() {
  if (state().threads) return;
  state().threads = true;
  std::thread(execute_copies).detach();
  std::thread(call_handlers).detach();
}

}  // namespace fake_hsa

using fake_hsa::state;

// Debian 12's header does not know engines.
#if HSA_AMD_INTERFACE_VERSION_MAJOR > 1 || HSA_AMD_INTERFACE_VERSION_MINOR >= 2
using EngineId = hsa_amd_sdma_engine_id_t;
#else
using EngineId = uint32_t;
#endif

extern "C" {

hsa_status_t hsa_amd_memory_async_copy(void* dst, hsa_agent_t dst_agent, const void* src,
                                       hsa_agent_t src_agent, size_t size, uint32_t dependencies,
                                       const hsa_signal_t* after, hsa_signal_t completion) {
  return fake_hsa::take(dst, dst_agent, src, src_agent, size, dependencies, after, completion);
}

__attribute__((visibility("default"))) hsa_status_t hsa_amd_memory_async_copy_on_engine(
    void* dst, hsa_agent_t dst_agent, const void* src, hsa_agent_t src_agent, size_t size,
    uint32_t dependencies, const hsa_signal_t* after, hsa_signal_t completion, EngineId engine,
    bool /*force*/) {
  state().count("ON_ENGINES");
  state().count(engine == 1 ? "BY_ENGINE_1" : "BY_ENGINE_2");
  return fake_hsa::take(dst, dst_agent, src, src_agent, size, dependencies, after, completion);
}

__attribute__((visibility("default"))) hsa_status_t hsa_amd_memory_copy_engine_status(
    hsa_agent_t /*dst*/, hsa_agent_t /*src*/, uint32_t* mask) {
  *mask = static_cast<uint32_t>(state().setting("ENGINES"));
  return HSA_STATUS_SUCCESS;
}

}  // extern "C"
