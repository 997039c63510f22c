// SPDX-License-Identifier: MIT
//
// Shares blocks of malloc, takes them back and frees them; then prints how many were shared and how
// many blocks of calloc were not zero. Run with the allocator under test preloaded.
//
//   in_place_allocator_program LIBRARY unregister|leave
//
// LIBRARY is a part of the file name of the expected malloc. With `leave`, the blocks are freed
// while they are shared.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "segment/inplace/page_table.h"
#include "urma_opcode.h"

namespace {

constexpr uint64_t kBlockBytes = 4 << 20;
constexpr int kBlocks = 16;
constexpr int kRounds = 4;
constexpr urma::Audience kAudience = {7, URMA_TOKEN_PLAIN_TEXT, 42,
                                      URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC};

std::string file_of_malloc() {
  Dl_info info = {};
  void* const function = ::dlsym(RTLD_DEFAULT, "malloc");
  return ::dladdr(function, &info) != 0 ? info.dli_fname : "";
}

bool is_zero(const char* block) {
  return block[0] == 0 && std::memcmp(block, block + 1, kBlockBytes - 1) == 0;
}

struct Outcome {
  int shared = 0;
  int dirty = 0;
};

std::vector<urma::SharedPages::RangeId> share_all(urma::PageTable& table,
                                                  const std::vector<void*>& blocks,
                                                  Outcome* outcome) {
  std::vector<urma::SharedPages::RangeId> ranges;
  for (void* const block : blocks) {
    const auto range = table.add(reinterpret_cast<uint64_t>(block), kBlockBytes, kAudience);
    while (!table.share(range, kBlockBytes)) {
    }
    const auto parts = table.parts(range);
    if (std::any_of(parts.begin(), parts.end(),
                    [](const urma::SharedPart& part) { return part.len >= kBlockBytes / 2; })) {
      ++outcome->shared;
    }
    ranges.push_back(range);
  }
  return ranges;
}

void play_round(urma::PageTable& table, bool unregister, Outcome* outcome) {
  std::vector<void*> blocks;
  for (int i = 0; i < kBlocks; ++i) {
    blocks.push_back(std::malloc(kBlockBytes));
    std::memset(blocks.back(), 0xaa, kBlockBytes);
  }
  const auto ranges = share_all(table, blocks, outcome);
  if (unregister) {
    for (const auto range : ranges) table.remove(range);
  }
  for (void* const block : blocks) std::free(block);
  for (void*& block : blocks) {
    block = std::calloc(1, kBlockBytes);
    if (!is_zero(static_cast<char*>(block))) ++outcome->dirty;
  }
  for (void* const block : blocks) std::free(block);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return EXIT_FAILURE;
  if (file_of_malloc().find(argv[1]) == std::string::npos) {
    std::puts("absent");
    return EXIT_SUCCESS;
  }
  urma::PageTable table;
  Outcome outcome;
  for (int round = 0; round < kRounds; ++round) {
    play_round(table, std::strcmp(argv[2], "unregister") == 0, &outcome);
  }
  std::printf("%d %d\n", outcome.shared, outcome.dirty);
  return EXIT_SUCCESS;
}
