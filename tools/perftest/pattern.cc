// SPDX-License-Identifier: MIT
#include "tools/perftest/pattern.h"

#include <algorithm>
#include <cstdio>

#include "tools/perftest/config.h"

namespace perftest {
namespace {

// Differs between neighbouring bytes, lines, pages, messages, jettys and sizes.
uint8_t byte_at(size_t index, uint32_t base) {
  return static_cast<uint8_t>(base + index * 13 + (index >> 6) * 7 + (index >> 12) * 5);
}

uint32_t base_of(size_t size, uint64_t sequence, uint32_t jetty) {
  return static_cast<uint32_t>(sequence * 167 + jetty * 31 + size * 3);
}

std::string hex(const uint8_t* bytes, size_t count) {
  std::string text;
  char digits[4];
  for (size_t i = 0; i < count; i++) {
    std::snprintf(digits, sizeof(digits), "%s%02x", i == 0 ? "" : " ", bytes[i]);
    text += digits;
  }
  return text;
}

}  // namespace

void fill_pattern(uint8_t* memory, size_t size, uint64_t sequence, uint32_t jetty) {
  const uint32_t base = base_of(size, sequence, jetty);
  for (size_t i = 0; i + 1 < size; i++) memory[i] = byte_at(i, base);
  if (size > 0) memory[size - 1] = pattern_mark(sequence);
}

std::optional<size_t> find_difference(const uint8_t* memory, size_t size, uint64_t sequence,
                                      uint32_t jetty) {
  const uint32_t base = base_of(size, sequence, jetty);
  for (size_t i = 0; i + 1 < size; i++) {
    if (memory[i] != byte_at(i, base)) return i;
  }
  if (size > 0 && memory[size - 1] != pattern_mark(sequence)) return size - 1;
  return std::nullopt;
}

void check_pattern(const uint8_t* memory, size_t size, uint64_t sequence, uint32_t jetty,
                   const std::string& what) {
  const std::optional<size_t> offset = find_difference(memory, size, sequence, jetty);
  if (!offset) return;
  constexpr size_t kShown = 8;
  const size_t count = std::min(kShown, size - *offset);
  std::string expected(size, '\0');
  fill_pattern(reinterpret_cast<uint8_t*>(expected.data()), size, sequence, jetty);
  throw RunError("--verify: " + what + " " + std::to_string(sequence) + " of jetty " +
                 std::to_string(jetty) + ", " + std::to_string(size) +
                 " bytes, is wrong at offset " + std::to_string(*offset) + ": " +
                 hex(memory + *offset, count) + " instead of " +
                 hex(reinterpret_cast<const uint8_t*>(expected.data()) + *offset, count));
}

}  // namespace perftest
