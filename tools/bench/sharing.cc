// SPDX-License-Identifier: MIT
//
// The time until memory of another process can be used by plain loads and stores, and until it is
// private again.

#include <sched.h>
#include <sys/mman.h>

#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/measure.h"
#include "tools/bench/session.h"
#include "tools/bench/timing.h"

namespace bench {
namespace {

constexpr size_t kTouched = 1UL << 30;
constexpr size_t kUntouched = 64UL << 30;
constexpr size_t kPage = 4096;
constexpr size_t kNeededKib = 3UL << 20;  // twice the touched memory, and some air
constexpr double kPatienceNs = 3e9;

uint64_t& mark(char* memory, size_t page) {
  return *reinterpret_cast<uint64_t*>(memory + page * kPage);
}

void require_memory() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  size_t kib = 0;
  while (file >> key && key != "MemAvailable:") file.ignore(200, '\n');
  file >> kib;
  require(kib >= kNeededKib, "less than 3 GiB of memory are available");
}

void check_marks(char* memory, const char* where) {
  for (size_t page = 0; page < kTouched / kPage; page++) {
    require(mark(memory, page) == page + 1, std::string("wrong bytes in a page ") + where);
  }
}

// Waits until loads and stores reach all of an import.
void await_mapped(const urma_target_seg_t& import) {
  const double deadline = now_ns() + kPatienceNs;
  while (true) {
    const std::string reason = why_not_mapped(import);
    if (reason.empty() && import.mva != 0) return;
    require(import.mva != 0, reason.empty() ? "mapped, but its mva is 0" : reason);
    require(now_ns() < deadline, reason);
    ::sched_yield();
  }
}

// The importer: it returns the time of the import, and what the owner reports of its own calls.
Outcome import_memory(Channel& peer, bool touched) {
  const Device device;
  const auto seg = peer.receive<urma_seg_t>();
  const double start = now_ns();
  Import import = import_segment(device, seg, URMA_SEG_MAPPED);
  await_mapped(*import);
  const double time = now_ns() - start;
  if (touched) check_marks(reinterpret_cast<char*>(import->mva), "of the importer");
  import.reset();
  peer.sync();
  const auto registering = peer.receive<double>();
  const auto undoing = peer.receive<double>();
  return {{registering + time, undoing}, {}};
}

// The owner: registers, lets the other process import, and unregisters.
void own_memory(Channel& peer, const std::function<char*()>& make, size_t bytes, bool touched) {
  const Device device;
  char* const memory = make();
  double start = now_ns();
  Segment segment = register_memory(device, memory, bytes);
  const double registering = now_ns() - start;
  peer.send(segment->seg);
  peer.sync();
  start = now_ns();
  ok(urma_unregister_seg(segment.release()), "urma_unregister_seg");
  const double undoing = now_ns() - start;
  if (touched) check_marks(memory, "that is private again");
  peer.send(registering);
  peer.send(undoing);
}

char* make_touched() {
  require_memory();
  char* const memory = make_memory(kTouched).release();  // stays until the process ends
  for (size_t page = 0; page < kTouched / kPage; page++) mark(memory, page) = page + 1;
  return memory;
}

char* make_untouched() {
  void* memory = ::mmap(nullptr, kUntouched, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail_errno("mmap of 64 GiB without reserve");
  return static_cast<char*>(memory);
}

}  // namespace

std::vector<Measure> sharing_measures() {
  return {
      {"sharing 1 GiB",
       {"share 1 GiB", "undo 1 GiB"},
       [](Channel& peer) { return import_memory(peer, true); },
       [](Channel& peer) { own_memory(peer, make_touched, kTouched, true); },
       {"pages: pwrite, pread", "pages: memcpy, userfaultfd"}},
      {"sharing 64 GiB untouched",
       {"share 64 GiB untouched", "undo 64 GiB untouched"},
       [](Channel& peer) { return import_memory(peer, false); },
       [](Channel& peer) { own_memory(peer, make_untouched, kUntouched, false); }},
  };
}

}  // namespace bench
