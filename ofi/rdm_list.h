/* SPDX-License-Identifier: MIT */

// Lists of objects that hold their own links, and the pools that these objects come from.

#ifndef OFI_RDM_LIST_H
#define OFI_RDM_LIST_H

#include <cstddef>
#include <cstdint>
#include <deque>

namespace urma_fi {

// An object with members `next` and `previous` is in one list at most.
template <typename T>
class List {
 public:
  bool empty() const { return first_ == nullptr; }
  T* front() const { return first_; }

  void push_back(T* item) {
    item->next = nullptr;
    item->previous = last_;
    (last_ == nullptr ? first_ : last_->next) = item;
    last_ = item;
  }

  void push_front(T* item) {
    item->next = first_;
    item->previous = nullptr;
    (first_ == nullptr ? last_ : first_->previous) = item;
    first_ = item;
  }

  void remove(T* item) {
    (item->previous == nullptr ? first_ : item->previous->next) = item->next;
    (item->next == nullptr ? last_ : item->next->previous) = item->previous;
  }

  // NULL: the list is empty.
  T* pop_front() {
    T* item = first_;
    if (item != nullptr) remove(item);
    return item;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

// Objects with members `next` and `index`. They keep their place and what they have allocated.
template <typename T>
class Pool {
 public:
  T* take() {
    if (free_ == nullptr) {
      items_.emplace_back();
      items_.back().index = static_cast<uint32_t>(items_.size() - 1);
      return &items_.back();
    }
    T* item = free_;
    free_ = item->next;
    return item;
  }

  void put(T* item) {
    item->next = free_;
    free_ = item;
  }

  // NULL: there has never been such an object.
  T* at(uint32_t index) { return index < items_.size() ? &items_[index] : nullptr; }

  std::deque<T>& all() { return items_; }

 private:
  std::deque<T> items_;
  T* free_ = nullptr;
};

}  // namespace urma_fi

#endif  // OFI_RDM_LIST_H
