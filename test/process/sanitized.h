// SPDX-License-Identifier: MIT
//
// What a test leaves out where a sanitizer looks on.
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

// How often a test does what differs by chance alone: less often where each time takes five to ten
// times as long.
constexpr uint64_t repetitions(uint64_t count) { return kSanitized ? (count + 9) / 10 : count; }

// While one lives, its thread leaves handles behind, as careless programs do; no leaks are told.
#if defined(__SANITIZE_ADDRESS__)
using CarelessThread = __lsan::ScopedDisabler;
#else
struct CarelessThread {
  CarelessThread() {}
};
#endif

}  // namespace urma_test

#endif  // TEST_PROCESS_SANITIZED_H_
