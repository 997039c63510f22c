// SPDX-License-Identifier: MIT
//
// The HSA runtime of this process as programs call it, once the library has opened it.
#ifndef TEST_ROCM_HSA_LIBRARY_H_
#define TEST_ROCM_HSA_LIBRARY_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "urma/providers/rocm/hsa.h"

namespace urma_test {

class HsaLibrary {
 public:
  HsaLibrary() {
    const char* const named = std::getenv("URMA_ROCM_LIBRARY");
    library_ = ::dlopen(named != nullptr ? named : "libhsa-runtime64.so.1", RTLD_NOW);
    EXPECT_NE(library_, nullptr) << ::dlerror();
    find("hsa_amd_signal_create", &create_);
    find("hsa_signal_destroy", &destroy_);
    find("hsa_signal_load_scacquire", &load_);
    find("hsa_signal_store_screlease", &store_);
    find("hsa_signal_wait_scacquire", &wait_);
  }

  // Of a signal, its number. `attributes` are HSA_AMD_SIGNAL_IPC and the like.
  uint64_t create(hsa_signal_value_t value, uint64_t attributes) const {
    hsa_signal_t made = {};
    EXPECT_EQ(create_(value, 0, nullptr, attributes, &made), HSA_STATUS_SUCCESS);
    return made.handle;
  }
  void destroy(uint64_t signal) const { EXPECT_EQ(destroy_({signal}), HSA_STATUS_SUCCESS); }
  hsa_signal_value_t load(uint64_t signal) const { return load_({signal}); }
  void store(uint64_t signal, hsa_signal_value_t value) const { store_({signal}, value); }
  // Until the value is below `below`, with a deadline.
  hsa_signal_value_t wait(uint64_t signal, hsa_signal_value_t below) const {
    constexpr int kTurns = 200;
    constexpr uint64_t kTurnNs = 100'000'000;
    for (int turn = 0; turn < kTurns && load(signal) >= below; ++turn) {
      wait_({signal}, HSA_SIGNAL_CONDITION_LT, below, kTurnNs, HSA_WAIT_STATE_BLOCKED);
    }
    return load(signal);
  }

 private:
  template <typename Function>
  void find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(::dlsym(library_, name));
    EXPECT_NE(*function, nullptr) << name;
  }

  void* library_;
  decltype(&::hsa_amd_signal_create) create_;
  decltype(&::hsa_signal_destroy) destroy_;
  decltype(&::hsa_signal_load_scacquire) load_;
  decltype(&::hsa_signal_store_screlease) store_;
  decltype(&::hsa_signal_wait_scacquire) wait_;
};

}  // namespace urma_test

#endif  // TEST_ROCM_HSA_LIBRARY_H_
