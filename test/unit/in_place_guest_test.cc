// SPDX-License-Identifier: MIT
//
// Memory of a running virtual machine that is moved: no write of the guest is lost.
#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "test/unit/in_place_harness.h"
#include "urma/base/fd.h"

#ifdef __x86_64__
namespace urma {
namespace {

constexpr uint64_t kBytes = 6 * kMiB;
// The addresses of the guest's code, of its stop flag, and of its counters, one per page.
constexpr uint64_t kCodeAt = kPage;
constexpr uint64_t kStopAt = 2 * kPage;
constexpr uint64_t kCountersAt = 3 * kPage;
constexpr auto kDuration = std::chrono::milliseconds(400);

constexpr uint8_t kCode[] = {
    0x43,                                // again: inc ebx, the number of rounds
    0x89, 0xf2,                          // mov edx, esi
    0xff, 0x02,                          // next: inc dword [edx]
    0x81, 0xc2, 0x00, 0x10, 0x00, 0x00,  // add edx, 4096
    0x39, 0xfa,                          // cmp edx, edi
    0x72, 0xf4,                          // jb next
    0x83, 0x7d, 0x00, 0x00,              // cmp dword [ebp], 0
    0x74, 0xeb,                          // je again
    0xf4,                                // hlt
};

// One processor in 32-bit mode without paging, on memory of this process.
class Guest {
 public:
  // why() is empty if it can run.
  explicit Guest(char* memory) : memory_(memory) {
    std::memcpy(memory + kCodeAt, kCode, sizeof kCode);
    if (!make() && why_.empty()) why_ = std::string("needs KVM: ") + std::strerror(errno);
  }
  ~Guest() {
    if (run_ != MAP_FAILED) ::munmap(run_, run_bytes_);
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  const std::string& why() const { return why_; }

  // Until it stops by itself; false if it stopped for another reason.
  bool run() {
    auto* const state = static_cast<kvm_run*>(run_);
    do {
      state->exit_reason = KVM_EXIT_UNKNOWN;
      if (::ioctl(cpu_.get(), KVM_RUN, 0) != 0 && errno != EINTR) {
        end_ = std::string("KVM_RUN: ") + std::strerror(errno);
        return false;
      }
    } while (state->exit_reason == KVM_EXIT_INTR);
    end_ = "exit " + std::to_string(state->exit_reason);
    return state->exit_reason == KVM_EXIT_HLT;
  }
  const std::string& end() const { return end_; }

  // Relaxed: the word orders nothing.
  void stop() { word(kStopAt).store(1, std::memory_order_relaxed); }
  uint32_t count(uint64_t at) { return word(at).load(std::memory_order_relaxed); }

  uint32_t rounds() {
    kvm_regs registers = {};
    return ::ioctl(cpu_.get(), KVM_GET_REGS, &registers) == 0 ? static_cast<uint32_t>(registers.rbx)
                                                              : 0;
  }

 private:
  std::atomic_ref<uint32_t> word(uint64_t at) {
    return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(memory_ + at));
  }

  bool make() {
    kvm_.reset(::open("/dev/kvm", O_RDWR | O_CLOEXEC));
    if (!kvm_.valid()) {
      why_ = std::string("needs /dev/kvm: ") + std::strerror(errno);
      return false;
    }
    machine_.reset(::ioctl(kvm_.get(), KVM_CREATE_VM, 0));
    if (!machine_.valid()) return false;
    constexpr unsigned long kBehindTheMemory = 0xfffbd000;
    ::ioctl(machine_.get(), KVM_SET_TSS_ADDR, kBehindTheMemory);
    kvm_userspace_memory_region region = {0, 0, 0, kBytes, address(memory_)};
    if (::ioctl(machine_.get(), KVM_SET_USER_MEMORY_REGION, &region) != 0) return false;
    cpu_.reset(::ioctl(machine_.get(), KVM_CREATE_VCPU, 0));
    const int bytes = ::ioctl(kvm_.get(), KVM_GET_VCPU_MMAP_SIZE, 0);
    if (!cpu_.valid() || bytes <= 0) return false;
    run_bytes_ = static_cast<size_t>(bytes);
    run_ = ::mmap(nullptr, run_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, cpu_.get(), 0);
    return run_ != MAP_FAILED && set_registers();
  }

  bool set_registers() {
    kvm_sregs special = {};
    if (::ioctl(cpu_.get(), KVM_GET_SREGS, &special) != 0) return false;
    special.cr0 |= 1;  // protected mode
    for (kvm_segment* segment : {&special.cs, &special.ds, &special.es, &special.ss}) {
      segment->base = 0;
      segment->limit = 0xffffffff;
      segment->selector = segment == &special.cs ? 8 : 16;
      segment->type = segment == &special.cs ? 11 : 3;
      segment->present = segment->s = segment->db = segment->g = 1;
      segment->dpl = 0;
    }
    kvm_regs registers = {};
    registers.rip = kCodeAt;
    registers.rflags = 2;
    registers.rsi = kCountersAt;
    registers.rdi = kBytes;
    registers.rbp = kStopAt;
    return ::ioctl(cpu_.get(), KVM_SET_SREGS, &special) == 0 &&
           ::ioctl(cpu_.get(), KVM_SET_REGS, &registers) == 0;
  }

  char* const memory_;
  std::string why_;
  std::string end_;
  Fd kvm_;
  Fd machine_;
  Fd cpu_;
  size_t run_bytes_ = 0;
  void* run_ = MAP_FAILED;
};

struct Outcome {
  std::string skipped;
  uint32_t rounds = 0;
  uint64_t moves = 0;
  uint64_t wrong = 0;  // counters that differ from the number of rounds
};

// Calls move() repeatedly while the guest counts.
Outcome count_while(char* memory, const std::function<void()>& move) {
  Outcome outcome;
  Guest guest(memory);
  outcome.skipped = guest.why();
  if (!outcome.skipped.empty()) return outcome;
  std::atomic<bool> ended{false};
  bool stopped_itself = false;
  std::thread cpu([&] {
    stopped_itself = guest.run();
    ended.store(true, std::memory_order_relaxed);
  });
  while (guest.count(kCountersAt) == 0 && !ended.load(std::memory_order_relaxed)) {
    std::this_thread::yield();
  }
  const auto until = std::chrono::steady_clock::now() + kDuration;
  while (std::chrono::steady_clock::now() < until && !ended.load(std::memory_order_relaxed)) {
    move();
    ++outcome.moves;
  }
  guest.stop();
  cpu.join();
  outcome.rounds = guest.rounds();
  // A machine without virtualization fails in the first round, before the memory is moved.
  if (!stopped_itself && outcome.moves == 0)
    outcome.skipped = "the guest ended with " + guest.end();
  EXPECT_TRUE(stopped_itself || outcome.moves == 0) << guest.end();
  for (uint64_t at = kCountersAt; at < kBytes; at += kPage) {
    if (guest.count(at) != outcome.rounds) ++outcome.wrong;
  }
  return outcome;
}

TEST(InPlaceGuest, NoWriteIsLost) {
  SKIP_UNLESS_IN_PLACE();
  PrivateMemory memory(kBytes);
  PageTable table;
  uint64_t unshared = 0;
  const Outcome outcome = count_while(memory.get(), [&] {
    SharedPages::RangeId range;
    for (const auto& part : shared_parts(table, memory.get(), kBytes, &range)) {
      if (part.reason != URMA_EXT_REASON_NONE) unshared += part.len;
    }
    table.remove(range);
  });
  if (!outcome.skipped.empty()) GTEST_SKIP() << outcome.skipped;
  EXPECT_EQ(outcome.wrong, 0u) << "after " << outcome.rounds << " rounds of the guest";
  EXPECT_GT(outcome.rounds, 0u);
  EXPECT_GT(outcome.moves, 0u);
  EXPECT_EQ(unshared, 0u);
}

// What the test above must be able to detect.
TEST(InPlaceGuest, WithoutTheFreezeWritesAreLost) {
  SKIP_UNLESS_IN_PLACE();
  PrivateMemory memory(kBytes);
  const Outcome outcome = count_while(memory.get(), [&] {
    void* const copy =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(copy, MAP_FAILED);
    std::memcpy(copy, memory.get(), kBytes);
    ASSERT_NE(::mremap(copy, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, memory.get()),
              MAP_FAILED);
  });
  if (!outcome.skipped.empty()) GTEST_SKIP() << outcome.skipped;
  EXPECT_GT(outcome.wrong, 0u) << "after " << outcome.moves << " moves";
}

}  // namespace
}  // namespace urma
#else
TEST(InPlaceGuest, NoWriteIsLost) { GTEST_SKIP() << "the guest's program is code of x86-64"; }
#endif
