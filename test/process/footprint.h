// SPDX-License-Identifier: MIT
//
// The resources that a process uses.
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
  // All of it, including what is still shared with the parent of the fork: Pss changes when the
  // parent writes.
  uint64_t resident_bytes;
  // Shared memory of the library that is mapped or open here, by inode: its bytes, whichever
  // process touched them.
  std::map<uint64_t, uint64_t> shared;

  uint64_t bytes() const;
  // With resident_bytes: the growth of one process between two times.
  uint64_t held_bytes() const { return bytes() - own_bytes + resident_bytes; }
  // With that of another process; memory shared by both counts once.
  void add(const Footprint& other);
};

// Of the calling process. Throws if the kernel does not tell.
Footprint take_footprint();
// How much bytes() has grown since then; 0 if it has shrunk.
uint64_t growth(const Footprint& before, const Footprint& after);

// From one process to another.
void send_footprint(Channel& channel, const Footprint& footprint);
Footprint receive_footprint(Channel& channel);

size_t count_mappings();
// Those of the file that is mapped at `address`.
size_t count_mappings_of(const void* address);
size_t count_descriptors();
// Bytes of mappings marked to have no huge pages.
uint64_t bytes_without_huge_pages();

}  // namespace urma_test

#endif  // TEST_PROCESS_FOOTPRINT_H_
