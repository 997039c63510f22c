// SPDX-License-Identifier: MIT
//
// Proposes calls. It knows which arguments a call takes, and prefers sensible ones; only the model
// knows their effect.
#ifndef TEST_MODEL_GENERATOR_H_
#define TEST_MODEL_GENERATOR_H_

#include <cstdint>
#include <initializer_list>
#include <random>
#include <utility>
#include <vector>

#include "test/model/model.h"

namespace urma_model {

class Generator {
 public:
  Generator(uint64_t seed, const Model* model);

  // The calls that create the first objects in both processes, one at a time; false at their end.
  bool propose_start(Call* call);
  // Any call.
  Call propose();
  // The calls that destroy everything left, in an order that always works; false at the end.
  bool propose_end(Call* call);

 private:
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }
  uint64_t below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }
  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  // An object of a kind, kNull if there is none.
  int pick(Kind kind, int process);
  size_t count(Kind kind, int process) const;

  Call call_of(Fn fn, int process);
  void fill_config(Call* call);
  void fill_import(Call* call);
  void mistake_token(Config* c);
  void fill_requests(Call* call);
  Request send_request(const Call& call);
  Request receive_request(int process);
  // An address, usually within a segment.
  void place(int segment, uint32_t length, uint32_t* at);
  bool loosen(int slot, const Object& object, Call* call);
  static Fn end_of(const Object& object);

  std::mt19937_64 random_;
  const Model* const model_;
  uint32_t mode_ = 0;                      // the mode of most of the sequence
  std::vector<std::pair<Fn, int>> start_;  // and the process
  size_t step_ = 0;
  bool calm_ = false;  // only sensible choices
  int slots_ = 1;
  uint64_t user_ctx_ = 1;
};

}  // namespace urma_model

#endif  // TEST_MODEL_GENERATOR_H_
