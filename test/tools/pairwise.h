// SPDX-License-Identifier: MIT
//
// Covering arrays: few rows that contain every pair of values of different factors.
#ifndef TEST_TOOLS_PAIRWISE_H_
#define TEST_TOOLS_PAIRWISE_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace urma_test {

// The value of each factor. Value 0 goes with every other value.
using PairwiseRow = std::vector<size_t>;
using PairwiseRule = std::function<bool(const PairwiseRow&)>;

class Pairwise {
 public:
  // `counts`: the number of values of each factor. The first `base` factors are those that others
  // depend on: a pair is left out if the rule allows it with no values of them, with 0 for all
  // others.
  Pairwise(std::vector<size_t> counts, size_t base, PairwiseRule rule)
      : counts_(std::move(counts)), base_(base), rule_(std::move(rule)) {
    find_bases();
    find_pairs();
  }

  std::vector<PairwiseRow> rows() {
    std::vector<PairwiseRow> rows;
    std::set<Pair> left = pairs_;
    while (!left.empty()) {
      PairwiseRow row = start(*left.begin());
      extend(&row, left);
      for (const Pair& pair : pairs_of(row)) left.erase(pair);
      rows.push_back(std::move(row));
    }
    return rows;
  }

  size_t pairs() const { return pairs_.size(); }

 private:
  using Value = std::pair<size_t, size_t>;  // factor and value
  using Pair = std::pair<Value, Value>;

  void find_bases() {
    PairwiseRow row(counts_.size());
    for (;;) {
      if (rule_(row)) bases_.push_back(row);
      size_t factor = 0;
      while (factor < base_ && ++row[factor] == counts_[factor]) row[factor++] = 0;
      if (factor == base_) return;
    }
  }

  void find_pairs() {
    for (size_t a = 0; a < counts_.size(); ++a) {
      for (size_t b = a + 1; b < counts_.size(); ++b) {
        for (size_t i = 0; i < counts_[a]; ++i) {
          for (size_t j = 0; j < counts_[b]; ++j) {
            const Pair pair = {{a, i}, {b, j}};
            if (!start(pair).empty()) pairs_.insert(pair);
          }
        }
      }
    }
  }

  // A row with only the pair, or an empty one. Pairs rotate through the bases, so that the rows
  // differ.
  PairwiseRow start(const Pair& pair) {
    for (size_t i = 0; i < bases_.size(); ++i) {
      PairwiseRow row = bases_[(i + turn_) % bases_.size()];
      bool fits = true;
      for (const auto& [factor, value] : {pair.first, pair.second}) {
        if (factor < base_ && row[factor] != value) fits = false;
        row[factor] = value;
      }
      if (!fits || !rule_(row)) continue;
      turn_ = (turn_ + i + 1) % bases_.size();
      return row;
    }
    return {};
  }

  // Gives each factor that is still 0 the value that covers most of the remaining pairs.
  void extend(PairwiseRow* row, const std::set<Pair>& left) const {
    for (size_t factor = base_; factor < counts_.size(); ++factor) {
      if ((*row)[factor] != 0) continue;
      size_t best = 0, most = covered(*row, factor, left);
      for (size_t value = 1; value < counts_[factor]; ++value) {
        (*row)[factor] = value;
        const size_t covers = covered(*row, factor, left);
        if (covers <= most || !rule_(*row)) continue;
        best = value;
        most = covers;
      }
      (*row)[factor] = best;
    }
  }

  static size_t covered(const PairwiseRow& row, size_t factor, const std::set<Pair>& left) {
    size_t count = 0;
    for (size_t other = 0; other < row.size(); ++other) {
      if (other == factor) continue;
      const Value one = {std::min(factor, other), row[std::min(factor, other)]};
      const Value two = {std::max(factor, other), row[std::max(factor, other)]};
      count += left.count({one, two});
    }
    return count;
  }

  static std::vector<Pair> pairs_of(const PairwiseRow& row) {
    std::vector<Pair> pairs;
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b) pairs.push_back({{a, row[a]}, {b, row[b]}});
    }
    return pairs;
  }

  const std::vector<size_t> counts_;
  const size_t base_;
  const PairwiseRule rule_;
  std::vector<PairwiseRow> bases_;
  std::set<Pair> pairs_;
  size_t turn_ = 0;
};

}  // namespace urma_test

#endif  // TEST_TOOLS_PAIRWISE_H_
