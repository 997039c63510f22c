// SPDX-License-Identifier: MIT
//
// Runs each input of the given folders once: findings of fuzzers, as an ordinary test.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "test/fuzz/bytes.h"

namespace {

std::vector<std::string> inputs_of(const char* place) {
  if (!std::filesystem::is_directory(place)) return {place};
  std::vector<std::string> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(place)) {
    inputs.push_back(entry.path().string());
  }
  std::sort(inputs.begin(), inputs.end());
  return inputs;
}

}  // namespace

int main(int count, char** places) {
  size_t run = 0;
  for (int i = 1; i < count; ++i) {
    for (const std::string& input : inputs_of(places[i])) {
      std::ifstream file(input, std::ios::binary);
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      // Printed before: an input that ends the program is the last one.
      std::printf("%s\n", input.c_str());
      std::fflush(stdout);
      // A copy on the heap, so that the address sanitizer knows its end.
      const std::vector<uint8_t> bytes(text.begin(), text.end());
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      ++run;
    }
  }
  std::printf("%zu inputs\n", run);
  return run == 0 ? 1 : 0;
}
