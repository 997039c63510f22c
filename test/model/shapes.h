// SPDX-License-Identifier: MIT
//
// Which arguments each call takes: one row for each function of urma_api.h.
#ifndef TEST_MODEL_SHAPES_H_
#define TEST_MODEL_SHAPES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "test/model/call.h"

namespace urma_model {

struct Shape {
  Fn fn;
  int weight;  // how often it is proposed, relative to the others
  Kind makes = Kind::kNone;
  Kind on = Kind::kNone, other = Kind::kNone, more = Kind::kNone, extra = Kind::kNone,
       group = Kind::kNone;
  int pointers = 0;  // after the handle, that may be NULL
  std::vector<int64_t> numbers = {};
  std::vector<uint64_t> values = {};
  bool refusable = true;  // can fail
};

const Shape& shape_of(Fn fn);
// A function, by weight: `at` is taken modulo the sum of all.
Fn weighted(uint64_t at);

}  // namespace urma_model

#endif  // TEST_MODEL_SHAPES_H_
