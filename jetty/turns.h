// SPDX-License-Identifier: MIT
//
// In which order a poll looks at many places of which most have nothing: a look at each of them
// would be all that the poll costs.
#ifndef JETTY_TURNS_H_
#define JETTY_TURNS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace urma {

// Places that had something lately stand in front, and have their turn each time. Of the others
// some have theirs; all of them for a while once one of them had something. Not thread-safe.
class Turns {
 public:
  // Lists that are no longer than this are gone through as a whole, without turns.
  static constexpr size_t kFew = 64;

  // Of the silent ones, so many have their turn at a time.
  explicit Turns(size_t at_once) : at_once_(at_once) {}

  // Calls look(place), which tells whether it had something, until enough() is true. Places change
  // their order. silence_of(place) is a counter of this object's; it is not asked for behind a look
  // that had nothing and after which enough() is true.
  template <typename Place, typename SilenceOf, typename Look, typename Enough>
  void take(std::vector<Place>& list, const SilenceOf& silence_of, const Look& look,
            const Enough& enough) {
    // First, so that those in front, which may fill every poll, do not starve them.
    const size_t most = eager_ != 0 ? list.size() : at_once_;
    eager_ -= eager_ != 0 ? 1 : 0;
    for (size_t left = std::min(most, list.size() - lively_); left > 0; --left) {
      if (next_ >= list.size()) next_ = lively_;
      Place& place = list[next_++];
      if (!look(place)) [[likely]]
        continue;
      eager_ = kEager;
      silence_of(place) = 0;
      std::swap(place, list[lively_++]);
      if (enough()) return;
    }
    if (lively_ != 0) take_lively(list, silence_of, look, enough);
  }
  // The list is not what it was.
  void forget() { lively_ = 0; }

 private:
  // Turns for which all have theirs.
  static constexpr uint32_t kEager = 64;
  // Looks that a place in front may have in vain.
  static constexpr uint32_t kPatience = 256;

  template <typename Place, typename SilenceOf, typename Look, typename Enough>
  void take_lively(std::vector<Place>& list, const SilenceOf& silence_of, const Look& look,
                   const Enough& enough) {
    if (++first_ >= lively_) first_ = 0;
    size_t at = first_;
    for (size_t left = lively_; left > 0 && lively_ > 0; --left) {
      if (at >= lively_) at = 0;
      Place& place = list[at];
      const bool had = look(place);
      if (had) silence_of(place) = 0;
      if (enough()) return;
      if (had || ++silence_of(place) < kPatience) {
        ++at;
      } else {
        std::swap(place, list[--lively_]);
      }
    }
  }

  const size_t at_once_;
  uint32_t eager_ = 0;  // of kEager, so many are left
  size_t lively_ = 0;   // so many stand in front
  size_t first_ = 0;    // of them, where the next turn begins
  size_t next_ = 0;     // the silent one whose turn it is; never one of those in front
};

}  // namespace urma

#endif  // JETTY_TURNS_H_
