// SPDX-License-Identifier: MIT
//
// The transport channels of a context, as programs see them. Messages go through shared memory
// whatever a channel says; a channel is a name that imports can share, and keeps what is set on it.
#ifndef JETTY_CHANNELS_H_
#define JETTY_CHANNELS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>

#include "urma/base/mutex.h"
#include "urma_types.h"

namespace urma {

// The two ends of a channel. There is one channel for each such combination.
struct ChannelKey {
  urma_eid_t local;
  urma_eid_t peer;
  urma_transport_mode_t mode;
  urma_tp_type_t type;
};

// Whether urma_get_tp_list, and the imports of a mode, can have this channel type.
bool type_allowed(urma_transport_mode_t mode, urma_tp_type_t type);

// Any thread.
class ChannelTable {
 public:
  struct Channel {
    ChannelKey key;
    uint64_t handle;  // names it to the program; never 0
    uint32_t number;  // its tpn
    urma_tp_attr_value_t attr;
  };

  // `serial` tells the handles of this table from those of every other table.
  explicit ChannelTable(uint64_t serial) : serial_(serial) {}

  // The channel of a key; the first call makes it.
  Channel at(const ChannelKey& key);
  // The channel of a handle. Throws Error(URMA_EINVAL) for a handle that is not of this table.
  Channel at(uint64_t handle);

  // Sets the members of the channel's attributes that the bitmap names. Throws Error(URMA_EINVAL).
  void set(uint64_t handle, uint32_t bitmap, const urma_tp_attr_value_t& attr);
  // The members that exist, as a bitmap.
  static uint32_t members();

  // Whether a channel, or an import without one, has this number.
  bool in_use(uint32_t number) const;

 private:
  friend class ChannelUse;

  Channel* find(uint64_t handle) URMA_REQUIRES(mutex_);

  const uint64_t serial_;
  mutable Mutex mutex_;
  std::deque<Channel> channels_ URMA_GUARDED_BY(mutex_);  // by number, from 1 on
  std::unordered_map<uint32_t, uint32_t> uses_ URMA_GUARDED_BY(mutex_);
};

// The number of a channel, in use for as long as an import lives.
class ChannelUse {
 public:
  ChannelUse() = default;
  ChannelUse(std::shared_ptr<ChannelTable> table, uint32_t number);
  ~ChannelUse();
  ChannelUse(ChannelUse&& other) noexcept
      : table_(std::move(other.table_)), number_(other.number_) {}
  ChannelUse& operator=(ChannelUse&& other) noexcept {
    std::swap(table_, other.table_);
    std::swap(number_, other.number_);
    return *this;
  }
  uint32_t number() const { return number_; }

 private:
  std::shared_ptr<ChannelTable> table_;
  uint32_t number_ = 0;
};

}  // namespace urma

#endif  // JETTY_CHANNELS_H_
