// SPDX-License-Identifier: MIT
//
// What a process takes of the machine.
#ifndef TEST_PROCESS_FOOTPRINT_H_
#define TEST_PROCESS_FOOTPRINT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "test/process/harness.h"

namespace urma_test {

struct Footprint {
  uint64_t own_bytes;  // Pss of its private memory
  // All of it, also what is still shared with the process that it was forked from: Pss changes when
  // that one writes.
  uint64_t resident_bytes;
  // Shared memory of the library that is mapped or open here, by inode: the bytes that it takes of
  // the machine, whoever has touched them.
  std::map<uint64_t, uint64_t> shared;

  uint64_t bytes() const;
  // With resident_bytes: for what one process holds from one time to another.
  uint64_t held_bytes() const { return bytes() - own_bytes + resident_bytes; }
  // With that of another process; what both share counts once.
  void add(const Footprint& other);
};

// Of the calling process. Throws where the kernel does not tell.
Footprint take_footprint();
// How far bytes() has grown since; negative growth is none.
uint64_t growth(const Footprint& before, const Footprint& after);

// From one process to another.
void send_footprint(Channel& channel, const Footprint& footprint);
Footprint receive_footprint(Channel& channel);

size_t count_mappings();
// Those of the file that is mapped at `address`.
size_t count_mappings_of(const void* address);
size_t count_descriptors();
// Bytes of mappings that the kernel has been told to keep free of huge pages.
uint64_t bytes_without_huge_pages();

}  // namespace urma_test

#endif  // TEST_PROCESS_FOOTPRINT_H_
