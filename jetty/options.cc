// SPDX-License-Identifier: MIT
//
// Reading the options of queues, as they are in effect.
#include <algorithm>
#include <cstring>

#include "jetty/queues.h"
#include "urma/base/log.h"

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
    if (!fits(sizeof(value))) return URMA_EINVAL;
    std::memcpy(data_, &value, sizeof(value));
    return URMA_SUCCESS;
  }
  urma_status_t put(const FullContext& context, uint32_t bytes) const {
    if (!fits(bytes)) return URMA_EINVAL;
    std::memset(data_, 0, bytes);
    std::memcpy(data_, &context, sizeof(context));
    return URMA_SUCCESS;
  }
  urma_status_t refuse() const {
    URMA_LOG_LIMITED(ERR, "get_opt: option {:#x} is not one of this object; see urma_opcode.h",
                     option_);
    return URMA_EINVAL;
  }

 private:
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

// The options that JFS and jetty share. `sender` is NULL while they are inactive.
urma_status_t put_send_option(const Buffer& buffer, uint64_t option, const urma_jfs_cfg_t& cfg,
                              const urma_jfs_opt_t& opt, uint32_t id, Sender* sender) {
  const bool live = sender != nullptr;
  switch (option) {
    case URMA_JFS_DEPTH:
      return buffer.put(cfg.depth);
    case URMA_JFS_FLAG:
      return buffer.put(cfg.flag);
    case URMA_JFS_TRANS_MODE:
      return buffer.put(cfg.trans_mode);
    case URMA_JFS_PRIORITY:
      return buffer.put(cfg.priority);
    case URMA_JFS_MAX_SGE:
      return buffer.put(cfg.max_sge);
    case URMA_JFS_MAX_RSGE:
      return buffer.put(cfg.max_rsge);
    case URMA_JFS_MAX_INLINE_DATA:
      return buffer.put(cfg.max_inline_data);
    case URMA_JFS_RNR_RETRY:
      return buffer.put(cfg.rnr_retry);
    case URMA_JFS_ERR_TIMEOUT:
      return buffer.put(cfg.err_timeout);
    case URMA_JFS_BIND_JFC:
      return buffer.put(cfg.jfc);
    case URMA_JFS_USER_CTX:
      return buffer.put(cfg.user_ctx);
    case URMA_JFS_SQE_BASE_ADDR:
      return buffer.put(opt.urma_jfs_sqe_base_addr);
    case URMA_JFS_ID:
      return buffer.put(live ? id : opt.urma_jfs_id);
    case URMA_JFS_DB_ADDR:
      return buffer.put(opt.urma_jfs_db_addr);
    case URMA_JFS_DB_STATUS:
      return buffer.put(opt.urma_jfs_db_status);
    case URMA_JFS_PI:
      return buffer.put(live ? static_cast<uint16_t>(sender->posted()) : opt.urma_jfs_pi);
    case URMA_JFS_PI_TYPE:
      return buffer.put(opt.urma_jfs_pi_type);
    case URMA_JFS_CI:
      return buffer.put(live ? static_cast<uint16_t>(sender->retired()) : opt.urma_jfs_ci);
    default:
      return buffer.refuse();
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
  switch (option) {
    case URMA_JFC_DEPTH:
      return buffer.put(jfc_cfg.depth);
    case URMA_JFC_CEQN:
      return buffer.put(jfc_cfg.ceqn);
    case URMA_JFC_FLAG:
      return buffer.put(jfc_cfg.flag);
    case URMA_JFC_BIND_JFCE:
      return buffer.put(jfc_cfg.jfce);
    case URMA_JFC_USER_CTX:
      return buffer.put(jfc_cfg.user_ctx);
    case URMA_JFC_CQE_BASE_ADDR:
      return buffer.put(urma_jfc_opt.urma_jfc_cqe_base_addr);
    case URMA_JFC_ID:
      return buffer.put(is_open() ? jfc_id.id : urma_jfc_opt.urma_jfc_id);
    case URMA_JFC_DB_ADDR:
      return buffer.put(urma_jfc_opt.urma_jfc_db_addr);
    case URMA_JFC_DB_STATUS:
      return buffer.put(urma_jfc_opt.urma_jfc_db_status);
    case URMA_JFC_PI:
      return buffer.put(urma_jfc_opt.urma_jfc_pi);
    case URMA_JFC_PI_TYPE:
      return buffer.put(urma_jfc_opt.urma_jfc_pi_type);
    case URMA_JFC_CI:
      return buffer.put(urma_jfc_opt.urma_jfc_ci);
    case URMA_JFC_FULL_CTX: {
      const uint32_t state = is_open() ? URMA_JFC_STATE_VALID : URMA_JFC_STATE_INVALID;
      return buffer.put({jfc_id.id, jfc_cfg.depth, state, 0, 0, 0}, kJfcContextBytes);
    }
    default:
      return buffer.refuse();
  }
}

urma_status_t Jfs::get_option(uint64_t option, void* value, uint32_t length) {
  const Buffer buffer(option, value, length);
  Sender* live = active() ? &sender() : nullptr;
  if (option == URMA_JFS_FULL_CTX) {
    return buffer.put(send_context(jfs_id.id, jfs_cfg, live), kSendContextBytes);
  }
  return put_send_option(buffer, option, jfs_cfg, urma_jfs_opt, jfs_id.id, live);
}

urma_status_t Jfr::set_option(uint64_t option, void* value, uint32_t length) {
  uint32_t receives = 0;
  if (!active() || option != URMA_JFR_DEPTH || length != sizeof receives) return URMA_SUCCESS;
  std::memcpy(&receives, value, sizeof receives);
  return live_->make_room(receives) ? URMA_SUCCESS : URMA_FAIL;
}

urma_status_t Jfr::get_option(uint64_t option, void* value, uint32_t length) {
  const Buffer buffer(option, value, length);
  const bool live = active();
  switch (option) {
    case URMA_JFR_DEPTH:
      return buffer.put(jfr_cfg.depth);
    case URMA_JFR_FLAG:
      return buffer.put(jfr_cfg.flag);
    case URMA_JFR_TRANS_MODE:
      return buffer.put(jfr_cfg.trans_mode);
    case URMA_JFR_MAX_SGE:
      return buffer.put(jfr_cfg.max_sge);
    case URMA_JFR_MIN_RNR_TIMER:
      return buffer.put(jfr_cfg.min_rnr_timer);
    case URMA_JFR_BIND_JFC:
      return buffer.put(jfr_cfg.jfc);
    case URMA_JFR_TOKEN_VALUE:
      return buffer.put(jfr_cfg.token_value);
    case URMA_JFR_USER_CTX:
      return buffer.put(jfr_cfg.user_ctx);
    case URMA_JFR_RQE_BASE_ADDR:
      return buffer.put(urma_jfr_opt.urma_jfr_rqe_base_addr);
    case URMA_JFR_ID:
      return buffer.put(live ? jfr_id.id : urma_jfr_opt.urma_jfr_id);
    case URMA_JFR_DB_ADDR:
      return buffer.put(urma_jfr_opt.urma_jfr_db_addr);
    case URMA_JFR_DB_STATUS:
      return buffer.put(urma_jfr_opt.urma_jfr_db_status);
    case URMA_JFR_PI:
      return buffer.put(live ? static_cast<uint16_t>(receiver().posted())
                             : urma_jfr_opt.urma_jfr_pi);
    case URMA_JFR_PI_TYPE:
      return buffer.put(urma_jfr_opt.urma_jfr_pi_type);
    case URMA_JFR_CI:
      return buffer.put(live ? static_cast<uint16_t>(receiver().consumed())
                             : urma_jfr_opt.urma_jfr_ci);
    case URMA_JFR_FULL_CTX: {
      FullContext context = {jfr_id.id, jfr_cfg.depth, URMA_JFR_STATE_RESET, 0, 0, 0};
      if (live) {
        context.state = receiver().state();
        context.producer = receiver().posted();
        context.consumer = receiver().consumed();
      }
      return buffer.put(context, kJfrContextBytes);
    }
    default:
      return buffer.refuse();
  }
}

urma_status_t Jetty::get_option(uint64_t option, void* value, uint32_t length) {
  const Buffer buffer(option, value, length);
  Sender* live = active() ? &sender() : nullptr;
  switch (option) {
    case URMA_JETTY_ID:
      return buffer.put(live != nullptr ? jetty_id.id : jetty_cfg.id);
    case URMA_JETTY_FLAG:
      return buffer.put(jetty_cfg.flag);
    case URMA_JETTY_BIND_JFR:
      return buffer.put(jetty_cfg.shared.jfr);
    case URMA_JETTY_BIND_RX_JFC:
      return buffer.put(jetty_cfg.shared.jfc);
    case URMA_JETTY_BIND_JTG:
      return buffer.put(jetty_cfg.jetty_grp);
    case URMA_JETTY_USER_CTX:
      return buffer.put(jetty_cfg.user_ctx);
    case URMA_JETTY_FULL_CTX:
      return buffer.put(send_context(jetty_id.id, jetty_cfg.jfs_cfg, live), kSendContextBytes);
    default:
      return put_send_option(buffer, option, jetty_cfg.jfs_cfg, urma_jetty_opt.jfs_opt, jetty_id.id,
                             live);
  }
}

}  // namespace urma
