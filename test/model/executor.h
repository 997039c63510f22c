// SPDX-License-Identifier: MIT
//
// Makes calls: translates a Call into arguments, and what the library returns into a Result. It
// does not judge.
#ifndef TEST_MODEL_EXECUTOR_H_
#define TEST_MODEL_EXECUTOR_H_

#include <array>
#include <cerrno>
#include <set>
#include <unordered_map>

#include "test/model/call.h"

namespace urma_model {

class Executor {
 public:
  // `arena`: kArena bytes, at the same address in both processes.
  explicit Executor(uint8_t* arena) : arena_(arena) { objects_.fill(nullptr); }

  Result run(const Call& call);

 private:
  // Each returns false for calls of another kind.
  bool run_queue(const Call& c, Result* r);
  bool run_life_cycle(const Call& c, Result* r);
  bool run_target(const Call& c, Result* r);
  bool run_segment(const Call& c, Result* r);
  bool run_data(const Call& c, Result* r);
  bool run_flat(const Call& c, Result* r);
  bool run_event(const Call& c, Result* r);
  bool run_notify(const Call& c, Result* r);
  bool run_fixed(const Call& c, Result* r);
  bool run_network(const Call& c, Result* r);

  template <typename T>
  T* at(int slot) const {
    return slot == kNull ? nullptr : static_cast<T*>(objects_[static_cast<size_t>(slot)]);
  }
  // The object itself, or its address by slot: a call with this bit in `nulls` gets NULL.
  template <typename T>
  static T* unless_null(const Call& c, uint32_t bit, T* argument) {
    return (c.nulls & bit) != 0 ? nullptr : argument;
  }
  uint64_t address(uint32_t at) const { return reinterpret_cast<uint64_t>(arena_) + at; }
  int slot_of(const void* object) const;

  template <typename T>
  bool made(const Call& c, T* object, Result* r);
  // Forgets the object that the call has ended.
  bool ended(const Call& c, urma_status_t status, Result* r);
  bool status(int64_t value, Result* r) const {
    r->value = value;
    return true;
  }

  // Each signal handled meanwhile ends a wait, and a fuzzer has a timer.
  template <typename Wait>
  static int64_t uninterrupted(const Wait& wait) {
    while (true) {
      const int64_t found = wait();
      if (found >= 0 || errno != EINTR) return found;
    }
  }

  template <typename Queue>
  bool alloc(const Call& c, Result* r);
  template <typename Queue>
  bool create(const Call& c, Result* r);
  template <typename Queue>
  bool delete_batch(const Call& c, Result* r);
  template <typename Queue>
  bool set_option(const Call& c, Result* r);
  template <typename Queue>
  bool get_option(const Call& c, Result* r);
  template <typename Queue>
  bool query(const Call& c, Result* r);
  template <typename Queue>
  bool flush(const Call& c, Result* r);

  void fill(const Call& c, urma_jfc_cfg_t* cfg) const;
  void fill(const Call& c, urma_jfs_cfg_t* cfg) const;
  void fill(const Call& c, urma_jfr_cfg_t* cfg) const;
  void fill(const Call& c, urma_jetty_cfg_t* cfg) const;
  urma_rjetty_t remote_of(const Call& c) const;
  uint64_t find_channel(const Call& c) const;

  void record(const urma_cr_t& cr, Result* r) const;
  bool poll(const Call& c, Result* r);
  template <typename Queue>
  bool post_sends(const Call& c, urma_status_t (*post)(Queue*, urma_jfs_wr_t*, urma_jfs_wr_t**),
                  Result* r);
  template <typename Queue>
  bool post_receives(const Call& c, urma_status_t (*post)(Queue*, urma_jfr_wr_t*, urma_jfr_wr_t**),
                     Result* r);

  uint8_t* const arena_;
  std::array<void*, kSlots> objects_;
  std::unordered_map<const void*, int> slots_;
  std::set<int> contexts_;
  urma_async_event_t event_ = {};  // fetched and not acknowledged
};

template <typename T>
bool Executor::made(const Call& c, T* object, Result* r) {
  r->value = object != nullptr ? 1 : 0;
  if (object == nullptr) return true;
  objects_[static_cast<size_t>(c.made)] = object;
  slots_[object] = c.made;
  return true;
}

}  // namespace urma_model

#endif  // TEST_MODEL_EXECUTOR_H_
