// SPDX-License-Identifier: MIT
//
// Reading the options of queues, as they are in effect.
#include <cstring>
#include <optional>
#include <span>

#include "jetty/queues.h"
#include "urma/base/log.h"
#include "urma_provider.h"

namespace urma {
namespace {

// Sizes that programs know of the records that URMA_*_FULL_CTX reads.
constexpr uint32_t kJfcContextBytes = 128;
constexpr uint32_t kJfrContextBytes = 64;
constexpr uint32_t kSendContextBytes = 256;

// The members of such a record; the rest of it is 0.
struct FullContext {
  uint32_t id;
  uint32_t depth;
  uint32_t state;
  uint32_t reserved;
  uint64_t producer;
  uint64_t consumer;
};

// The program's buffer for one value.
class Buffer {
 public:
  Buffer(uint64_t option, void* data, uint32_t length)
      : option_(option), data_(data), length_(length) {}

  template <typename Value>
  urma_status_t put(const Value& value) const {
    return copy(&value, sizeof(value));
  }
  urma_status_t put(const FullContext& context, uint32_t bytes) const {
    if (!fits(bytes)) return URMA_EINVAL;
    std::memset(data_, 0, bytes);
    std::memcpy(data_, &context, sizeof(context));
    return URMA_SUCCESS;
  }
  // The member that the option names: of the object's configuration, its option record, or the
  // configuration of its send queue.
  urma_status_t put_member(std::span<const opt_map_t> table, const void* cfg, const void* opt,
                           const void* send_cfg = nullptr) const {
    for (const opt_map_t& row : table) {
      if (row.opt != option_) continue;
      const void* of = nullptr;
      switch (row.tgt) {
        case TARGET_CFG:
          of = cfg;
          break;
        case TARGET_OPT:
          of = opt;
          break;
        case TARGET_JFS_CFG:
          of = send_cfg;
          break;
      }
      return copy(static_cast<const char*>(of) + row.offset, row.size);
    }
    URMA_LOG_LIMITED(ERR, "get_opt: option {:#x} is not one of this object; see urma_opcode.h",
                     option_);
    return URMA_EINVAL;
  }

 private:
  urma_status_t copy(const void* value, size_t bytes) const {
    if (!fits(bytes)) return URMA_EINVAL;
    std::memcpy(data_, value, bytes);
    return URMA_SUCCESS;
  }
  bool fits(size_t bytes) const {
    if (bytes == length_) return true;
    URMA_LOG_LIMITED(ERR, "get_opt: len {} does not match option {:#x}; pass {}", length_, option_,
                     bytes);
    return false;
  }

  const uint64_t option_;
  void* const data_;
  const uint32_t length_;
};

uint16_t index_of(uint64_t count) { return static_cast<uint16_t>(count); }

// What only a live send queue knows of its options; nothing for others, and while it is inactive.
std::optional<urma_status_t> put_live(const Buffer& buffer, uint64_t option, uint32_t id,
                                      Sender* sender) {
  if (sender == nullptr) return std::nullopt;
  switch (option) {
    case URMA_JFS_ID:
      return buffer.put(id);
    case URMA_JFS_PI:
      return buffer.put(index_of(sender->posted()));
    case URMA_JFS_CI:
      return buffer.put(index_of(sender->retired()));
    default:
      return std::nullopt;
  }
}

FullContext send_context(uint32_t id, const urma_jfs_cfg_t& cfg, Sender* sender) {
  FullContext context = {id, cfg.depth, URMA_JETTY_STATE_RESET, 0, 0, 0};
  if (sender == nullptr) return context;
  context.state = sender->state();
  context.producer = sender->posted();
  context.consumer = sender->retired();
  return context;
}

}  // namespace

urma_status_t Jfc::set_option(uint64_t option, void* /*value*/, uint32_t /*length*/) {
  if (option >= URMA_JFC_DEPTH && option < URMA_JFC_FULL_CTX) return URMA_SUCCESS;
  URMA_LOG_LIMITED(ERR, "set_jfc_opt: option {:#x} is unknown or read only; see urma_opcode.h",
                   option);
  return URMA_FAIL;
}

urma_status_t Jfc::get_option(uint64_t option, void* value, uint32_t length) {
  const Buffer buffer(option, value, length);
  if (option == URMA_JFC_FULL_CTX) {
    const uint32_t state = is_open() ? URMA_JFC_STATE_VALID : URMA_JFC_STATE_INVALID;
    return buffer.put({jfc_id.id, jfc_cfg.depth, state, 0, 0, 0}, kJfcContextBytes);
  }
  if (option == URMA_JFC_ID && is_open()) return buffer.put(jfc_id.id);
  return buffer.put_member({JFC_OPT_TABLE, JFC_OPT_MAP_COUNT}, &jfc_cfg, &urma_jfc_opt);
}

urma_status_t Jfs::get_option(uint64_t option, void* value, uint32_t length) {
  const Buffer buffer(option, value, length);
  if (option == URMA_JFS_FULL_CTX) {
    return buffer.put(send_context(jfs_id.id, jfs_cfg, live_), kSendContextBytes);
  }
  if (const auto put = put_live(buffer, option, jfs_id.id, live_)) return *put;
  return buffer.put_member({JFS_OPT_TABLE, JFS_OPT_MAP_COUNT}, &jfs_cfg, &urma_jfs_opt);
}

urma_status_t Jfr::set_option(uint64_t option, void* value, uint32_t length) {
  uint32_t receives = 0;
  if (live_ == nullptr || option != URMA_JFR_DEPTH || length != sizeof receives)
    return URMA_SUCCESS;
  std::memcpy(&receives, value, sizeof receives);
  return live_->make_room(receives) ? URMA_SUCCESS : URMA_FAIL;
}

urma_status_t Jfr::get_option(uint64_t option, void* value, uint32_t length) {
  const Buffer buffer(option, value, length);
  if (option == URMA_JFR_FULL_CTX) {
    FullContext context = {jfr_id.id, jfr_cfg.depth, URMA_JFR_STATE_RESET, 0, 0, 0};
    if (live_ != nullptr) {
      context.state = live_->state();
      context.producer = live_->posted();
      context.consumer = live_->consumed();
    }
    return buffer.put(context, kJfrContextBytes);
  }
  if (live_ != nullptr && option == URMA_JFR_ID) return buffer.put(jfr_id.id);
  if (live_ != nullptr && option == URMA_JFR_PI) return buffer.put(index_of(live_->posted()));
  if (live_ != nullptr && option == URMA_JFR_CI) return buffer.put(index_of(live_->consumed()));
  return buffer.put_member({JFR_OPT_TABLE, JFR_OPT_MAP_COUNT}, &jfr_cfg, &urma_jfr_opt);
}

urma_status_t Jetty::get_option(uint64_t option, void* value, uint32_t length) {
  const Buffer buffer(option, value, length);
  if (option == URMA_JETTY_FULL_CTX) {
    return buffer.put(send_context(jetty_id.id, jetty_cfg.jfs_cfg, live_), kSendContextBytes);
  }
  if (option == URMA_JETTY_ID && live_ != nullptr) return buffer.put(jetty_id.id);
  if (const auto put = put_live(buffer, option, jetty_id.id, live_)) return *put;
  return buffer.put_member({JETTY_OPT_TABLE, JETTY_OPT_MAP_COUNT}, &jetty_cfg, &urma_jetty_opt,
                           &jetty_cfg.jfs_cfg);
}

}  // namespace urma
