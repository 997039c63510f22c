// SPDX-License-Identifier: MIT
//
// A program of the public interface that lives as long as its fuzzer.
#ifndef TEST_FUZZ_API_RIG_H_
#define TEST_FUZZ_API_RIG_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "test/fuzz/bytes.h"
#include "test/fuzz/runtime_dir.h"
#include "urma_api.h"

namespace urma_fuzz {

// Starts the library in its own runtime directory, and creates a context.
inline urma_context_t* start_library() {
  enter_runtime_dir();
  require(urma_init(nullptr) == URMA_SUCCESS, "the library starts");
  char name[] = "urma_shm0";
  urma_context_t* ctx = urma_create_context(urma_get_device_by_name(name), 0);
  require(ctx != nullptr, "a context");
  ::fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK);
  return ctx;
}

// Pages between two inaccessible ones.
inline char* fenced_pages(size_t bytes) {
  constexpr size_t kPage = 4096;
  void* all = ::mmap(nullptr, bytes + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(all != MAP_FAILED, "memory");
  char* data = static_cast<char*>(all) + kPage;
  require(::mprotect(data, bytes, PROT_READ | PROT_WRITE) == 0, "usable memory");
  return data;
}

// Numbers of the input in a struct, at offsets that the input chooses.
template <typename Struct>
void patch(Bytes* in, Struct* object) {
  for (uint32_t patches = in->below(5); patches > 0; --patches) {
    const uint32_t at = in->below(sizeof(Struct));
    const auto bytes = in->some(std::min<size_t>(8, sizeof(Struct) - at));
    if (!bytes.empty())
      std::memcpy(reinterpret_cast<char*>(object) + at, bytes.data(), bytes.size());
  }
}

}  // namespace urma_fuzz

#endif  // TEST_FUZZ_API_RIG_H_
