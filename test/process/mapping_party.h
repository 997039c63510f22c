// SPDX-License-Identifier: MIT
//
// Shared parts of the tests of memory that peers map.
#ifndef TEST_PROCESS_MAPPING_PARTY_H_
#define TEST_PROCESS_MAPPING_PARTY_H_

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/sanitized.h"
#include "urma_ext.h"

namespace urma_test {

inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kMiB = 1 << 20;

// Why private memory cannot be moved on this machine; empty if it can.
std::string why_not_in_place();

#define SKIP_UNLESS_IN_PLACE()                               \
  do {                                                       \
    const std::string why = ::urma_test::why_not_in_place(); \
    if (!why.empty()) GTEST_SKIP() << why;                   \
  } while (0)

// Private memory between inaccessible pages.
class Pages {
 public:
  explicit Pages(uint64_t bytes);
  ~Pages();
  Pages(const Pages&) = delete;

  char* get() const { return data_; }
  // The 8-byte word at `offset`, for words shared by several threads or processes.
  volatile uint64_t* word(uint64_t offset) const {
    return reinterpret_cast<volatile uint64_t*>(data_ + offset);
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint64_t bytes_;
  char* data_;
};

inline volatile uint64_t* word_at(void* memory, uint64_t offset) {
  return reinterpret_cast<volatile uint64_t*>(static_cast<char*>(memory) + offset);
}

// A pattern that differs between pages.
void fill(char* data, uint64_t bytes);
void expect_filled(const char* data, uint64_t bytes);

// How many of the mappings that overlap the range are of a memfd.
int memfd_areas(const void* start, uint64_t bytes);
int memfd_areas();  // of the whole process
int open_descriptors();

std::vector<urma_ext_part_t> parts_of(const urma_target_seg_t* segment);
void expect_all_mapped(const urma_target_seg_t* segment);
void expect_all_copied(const urma_target_seg_t* segment, urma_ext_reason_t reason);

// A segment under a shared token id. The caller unregisters it.
urma_target_seg_t* add_under(Endpoint& endpoint, urma_token_id_t* token_id, uint32_t token,
                             void* memory, uint64_t bytes);

// The signal that kills a process that writes there; 0: none.
int signal_of_a_store(volatile uint64_t* word);

// A process that works in a segment of another one, word by word. Offsets are relative to that
// segment. Closed at the end of its scope.
class Importer {
 public:
  explicit Importer(const Offer& offer, bool mapped = true);

  // Replaces the previous import.
  void import_again(const SegmentId& id, bool mapped = true);
  void turn_to(const Offer& offer);  // of another process
  char* mva() const { return reinterpret_cast<char*>(remote->mva); }
  volatile uint64_t* mapped_word(uint64_t offset) const { return word_at(mva(), offset); }

  // Requests that must succeed.
  void write(uint64_t offset, uint64_t value);
  uint64_t read(uint64_t offset);
  uint64_t add(uint64_t offset, uint64_t operand, uint32_t width = 8);  // returns the old value
  uint64_t cas(uint64_t offset, uint64_t compare, uint64_t swap, uint32_t width = 8);
  void send_word(uint64_t value);  // a message of 8 bytes
  // The status of a request.
  urma_cr_status_t try_write(uint64_t offset, uint64_t value);
  urma_cr_status_t try_read(uint64_t offset);
  urma_cr_status_t try_add(uint64_t offset, uint64_t operand);
  void expect_refused(urma_cr_status_t status);  // all of them
  void close() { endpoint.close(); }

  Endpoint endpoint;
  urma_target_jetty_t* queue;
  urma_target_seg_t* remote;

 private:
  urma_cr_status_t end_of(const urma_jfs_wr_t& wr);
  urma_sge_t here(uint32_t width) { return piece(local_, words_.data(), width); }
  urma_sge_t there(uint64_t offset, uint32_t width) {
    return piece(remote, remote->seg.ubva.va + offset, width);
  }
  uint64_t result(uint32_t width) const;

  alignas(8) std::array<uint64_t, 8> words_ = {};
  urma_target_seg_t* local_;
  const Closing closing_{endpoint};
};

// Passes every value of type T that `from` sends to each of `to`.
template <typename T>
void pass_on(Child& from, std::initializer_list<Child*> to) {
  const T value = from.channel().receive<T>();
  for (Child* child : to) child->channel().send(value);
}

// A meeting point of all of them and the test process.
inline void meet(std::initializer_list<Child*> all) {
  for (Child* child : all) child->channel().receive<char>();
  for (Child* child : all) child->channel().send('s');
}

}  // namespace urma_test

#endif  // TEST_PROCESS_MAPPING_PARTY_H_
