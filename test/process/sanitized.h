// SPDX-License-Identifier: MIT
//
// What tests skip under a sanitizer.
#ifndef TEST_PROCESS_SANITIZED_H_
#define TEST_PROCESS_SANITIZED_H_

#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace urma_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

// How often a test repeats what varies by chance: less often when each time takes five times as
// long.
constexpr uint64_t repetitions(uint64_t count) { return kSanitized ? (count + 4) / 5 : count; }

// During its lifetime the thread may leak handles, like careless programs; leaks are not reported.
#if defined(__SANITIZE_ADDRESS__)
using CarelessThread = __lsan::ScopedDisabler;
#else
struct CarelessThread {
  CarelessThread() {}
};
#endif

}  // namespace urma_test

#endif  // TEST_PROCESS_SANITIZED_H_
