// SPDX-License-Identifier: MIT
//
// Reads a fuzzer's input: numbers and texts, one after the other.
#ifndef TEST_FUZZ_BYTES_H_
#define TEST_FUZZ_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace urma_fuzz {

// Ends the program if the code under test broke a promise: the fuzzer keeps the input.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : left_(data, size) {}

  bool empty() const { return left_.empty(); }

  // After the end of the input, everything is 0.
  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value = {};
    const auto some = some_of(sizeof(T));
    if (!some.empty()) std::memcpy(&value, some.data(), some.size());
    return value;
  }
  uint32_t below(uint32_t limit) {
    return (limit <= 256 ? take<uint8_t>() : take<uint32_t>()) % limit;
  }
  bool chance(uint32_t of_256) { return take<uint8_t>() < of_256; }
  // Up to `most` bytes; the next byte of the input says how many.
  std::span<const uint8_t> some(size_t most) { return some_of(std::min<size_t>(below(256), most)); }
  std::span<const uint8_t> rest() { return some_of(left_.size()); }
  // Up to the next `end`, or to the end of the input.
  std::string text(char end) {
    const auto found = std::find(left_.begin(), left_.end(), static_cast<uint8_t>(end));
    const auto taken = some_of(static_cast<size_t>(found - left_.begin()));
    some_of(1);
    return {taken.begin(), taken.end()};
  }

 private:
  std::span<const uint8_t> some_of(size_t bytes) {
    const auto taken = left_.first(std::min(bytes, left_.size()));
    left_ = left_.subspan(taken.size());
    return taken;
  }

  std::span<const uint8_t> left_;
};

}  // namespace urma_fuzz

// The fuzzer's entry point, and what it calls once before.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

#endif  // TEST_FUZZ_BYTES_H_
