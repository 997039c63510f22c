// SPDX-License-Identifier: MIT
//
// The fake runtime of this process, once the library has opened it.
#ifndef TEST_ROCM_FAKE_RUNTIME_H_
#define TEST_ROCM_FAKE_RUNTIME_H_

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <vector>

#include "test/process/harness.h"
#include "test/rocm/fake_hsa.h"

namespace urma_test {

// For FAKE_HSA_HANG_MS: until it is changed.
inline constexpr char kForEver[] = "600000";

// Throws on timeout.
inline void wait_until(const std::function<bool()>& condition) {
  const auto end = Clock::now() + patience(seconds(10));
  while (!condition()) {
    if (Clock::now() > end) throw std::runtime_error("the condition did not become true in time");
    ::poll(nullptr, 0, 1);
  }
}

class FakeRuntime {
 public:
  FakeRuntime() : library_(::dlopen(std::getenv("URMA_ROCM_LIBRARY"), RTLD_NOW)) {
    find("fake_hsa_set", &set_);
    find("fake_hsa_get", &get_);
    find("fake_hsa_read", &read_);
    find("fake_hsa_write", &write_);
  }

  void set(const char* name, long value) const { set_(name, value); }
  long get(const char* name) const { return get_(name); }
  void write(void* to, const std::vector<char>& bytes) const {
    ASSERT_TRUE(write_(to, bytes.data(), bytes.size()));
  }
  std::vector<char> read(const void* from, size_t bytes) const {
    std::vector<char> found(bytes);
    EXPECT_TRUE(read_(from, found.data(), bytes));
    return found;
  }

 private:
  template <typename Function>
  void find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(::dlsym(library_, name));
    EXPECT_NE(*function, nullptr) << name;
  }

  void* library_;
  decltype(&fake_hsa_set) set_;
  decltype(&fake_hsa_get) get_;
  decltype(&fake_hsa_read) read_;
  decltype(&fake_hsa_write) write_;
};

}  // namespace urma_test

#endif  // TEST_ROCM_FAKE_RUNTIME_H_
