// SPDX-License-Identifier: MIT
//
// The contents of messages with --verify, and their check.
#ifndef TOOLS_PERFTEST_PATTERN_H_
#define TOOLS_PERFTEST_PATTERN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace perftest {

// Depends on the message's number in its jetty, and on its size. The last byte differs from those
// of the 254 messages before it and is never 0: write_lat waits for it.
void fill_pattern(uint8_t* memory, size_t size, uint64_t sequence, uint32_t jetty);

// The last byte of that pattern.
inline uint8_t pattern_mark(uint64_t sequence) { return static_cast<uint8_t>(sequence % 255 + 1); }

// The offset of the first byte that differs from the pattern.
std::optional<size_t> find_difference(const uint8_t* memory, size_t size, uint64_t sequence,
                                      uint32_t jetty);

// If there is a difference, throws a RunError with the offset and the bytes around it.
void check_pattern(const uint8_t* memory, size_t size, uint64_t sequence, uint32_t jetty,
                   const std::string& what);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_PATTERN_H_
