// SPDX-License-Identifier: MIT
//
// The order in which a poll looks at many places of which most have nothing: looking at each of
// them would be most of the cost of the poll.
#ifndef JETTY_TURNS_H_
#define JETTY_TURNS_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace urma {

// Places that had something lately stand in front, and are looked at each time. Of the others only
// some are; all of them for a while once one had something. Not thread-safe.
class Turns {
 public:
  // Lists up to this length are looked at as a whole, without turns.
  static constexpr size_t kFew = 64;

  // `at_once` of the silent places are looked at each time.
  explicit Turns(size_t at_once) : at_once_(at_once) {}

  // True if none stands in front, and those whose turn it is rest: that was their turn. For a
  // list longer than kFew.
  template <typename Place, typename Rests>
  [[gnu::always_inline]] bool all_rest(const std::vector<Place>& list, const Rests& rests) {
    if (eager_ != 0 || lively_ != 0) return false;
    size_t next = next_;
    for (size_t left = at_once_; left > 0; --left) {
      if (next >= list.size()) next = 0;
      if (!rests(list[next++])) return false;
    }
    next_ = next;
    return true;
  }

  // Calls look(place), which tells whether it had something, until enough() is true. Places change
  // their order. silence_of(place) is a counter of this object's; it is not asked for after a look
  // that had nothing and after which enough() is true.
  template <typename Place, typename SilenceOf, typename Look, typename Enough>
  void take(std::vector<Place>& list, const SilenceOf& silence_of, const Look& look,
            const Enough& enough) {
    // The silent places come first: those in front may fill every poll, and would starve them.
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
  // The list has changed.
  void forget() { lively_ = 0; }

 private:
  // Turns in which all places are looked at.
  static constexpr uint32_t kEager = 64;
  // Unsuccessful looks that a place in front may have.
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
      if (enough()) {
        // A program that uses its queues in turn is at the next one.
        first_ = at;
        return;
      }
      if (had || ++silence_of(place) < kPatience) {
        ++at;
      } else {
        std::swap(place, list[--lively_]);
      }
    }
  }

  const size_t at_once_;
  uint32_t eager_ = 0;  // of kEager turns, the number left
  size_t lively_ = 0;   // places that stand in front
  size_t first_ = 0;    // the next turn begins behind it
  size_t next_ = 0;     // the silent place to look at next; never one of those in front
};

// Two that share something: after a turn in which something has moved, the other one begins. A turn
// of nothing changes nothing, so that no rhythm of the calls prefers one of them.
class Alternation {
 public:
  // Each of the two returns whether it has moved something. Whether one of them has. Any thread.
  template <typename One, typename Other>
  bool take(const One& one, const Other& other) {
    // Relaxed: any of the two may begin.
    const bool one_begins = one_begins_.load(std::memory_order_relaxed);
    bool moved = one_begins && one();
    moved |= other();
    if (!one_begins) moved |= one();
    if (moved) one_begins_.store(!one_begins, std::memory_order_relaxed);
    return moved;
  }

 private:
  std::atomic<bool> one_begins_{false};
};

}  // namespace urma

#endif  // JETTY_TURNS_H_
