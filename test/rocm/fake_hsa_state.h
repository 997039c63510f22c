// SPDX-License-Identifier: MIT
#ifndef TEST_ROCM_FAKE_HSA_STATE_H_
#define TEST_ROCM_FAKE_HSA_STATE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "urma/providers/rocm/hsa.h"

namespace fake_hsa {

inline constexpr uint64_t kCpu = 1;
inline constexpr uint64_t kFirstGpu = 2;
// The distance between the agents' address of locked memory and the program's.
inline constexpr uint64_t kLockedAt = 1ULL << 52;

struct Memory {
  uint64_t base;
  uint64_t bytes;
  char* shadow;  // if the CPU reaches it
  int fd;
  uint64_t agent;
  uint32_t flags;
  hsa_amd_pointer_type_t type;
  std::vector<std::pair<hsa_amd_deallocation_callback_t, void*>> on_free;
};

struct Signal {
  std::atomic<hsa_signal_value_t> value;
};
// Of each handle that stands for something in another process.
inline constexpr uint32_t kHandleMagic = 0x46414b45;

struct Handler {
  Signal* signal;
  hsa_signal_value_t below;
  hsa_amd_signal_handler call;
  void* arg;
};

struct Task {
  char* to;
  const char* from;
  size_t bytes;
  std::vector<Signal*> after;
  Signal* signal;
  bool fails;
};

// One per process.
struct State {
  State();

  long setting(const std::string& name);
  void set(const std::string& name, long value);
  void count(const std::string& name, long more = 1);

  // With `mutex` held.
  Memory* find(uint64_t addr, uint64_t bytes);
  // The CPU's address for an agent's address; NULL if no agent reaches it.
  char* reach(uint64_t addr, uint64_t bytes);

  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::map<std::string, long> numbers;
  std::map<uint64_t, Memory> memory;
  std::multimap<uint64_t, uint64_t> locked;  // bytes by address
  std::deque<Task> tasks;
  std::vector<Handler> handlers;
  std::map<Signal*, int> shared_signals;  // with the descriptor of the page of each
  int initialised = 0;
  bool threads = false;
};

State& state();
Signal* signal_of(hsa_signal_t handle);
// Like a runtime that waits for a peer, and what it finds then; -1 if that is nothing.
int open_shared(uint32_t pid, uint32_t fd);
// The threads that execute copies and call handlers; with the mutex held.
void start_threads();

}  // namespace fake_hsa

#endif  // TEST_ROCM_FAKE_HSA_STATE_H_
