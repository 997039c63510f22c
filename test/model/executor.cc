// SPDX-License-Identifier: MIT
//
// The calls on queues.
#include "test/model/executor.h"

#include <cerrno>
#include <cstring>
#include <iterator>

namespace urma_model {
namespace {

// What differs between the kinds of queues.
#define QUEUE_CALLS(Name, q, number_of_id, depth_of, depth_option, user_option, full_option, size) \
  struct Name {                                                                                    \
    using Object = urma_##q##_t;                                                                   \
    using Config = urma_##q##_cfg_t;                                                               \
    static constexpr auto create = urma_create_##q;                                                \
    static constexpr auto alloc = urma_alloc_##q;                                                  \
    static constexpr auto set_opt = urma_set_##q##_opt;                                            \
    static constexpr auto get_opt = urma_get_##q##_opt;                                            \
    static constexpr auto delete_batch = urma_delete_##q##_batch;                                  \
    static constexpr uint64_t kDepth = depth_option, kUser = user_option, kFull = full_option;     \
    static constexpr uint32_t kFullSize = size;                                                    \
    static const urma_jetty_id_t& id(const Object& queue) { return queue.number_of_id; }           \
    static uint32_t depth(const Config& config) { return config.depth_of; }                        \
  }
QUEUE_CALLS(Jfc, jfc, jfc_id, depth, URMA_JFC_DEPTH, URMA_JFC_USER_CTX, URMA_JFC_FULL_CTX, 128);
QUEUE_CALLS(Jfs, jfs, jfs_id, depth, URMA_JFS_DEPTH, URMA_JFS_USER_CTX, URMA_JFS_FULL_CTX, 256);
QUEUE_CALLS(Jfr, jfr, jfr_id, depth, URMA_JFR_DEPTH, URMA_JFR_USER_CTX, URMA_JFR_FULL_CTX, 64);
QUEUE_CALLS(Jetty, jetty, jetty_id, jfs_cfg.depth, URMA_JFS_DEPTH, URMA_JETTY_USER_CTX,
            URMA_JETTY_FULL_CTX, 256);

struct QueryJfs : Jfs {
  using Attr = urma_jfs_attr_t;
  static constexpr auto query = urma_query_jfs;
  static constexpr auto flush = urma_flush_jfs;
  static uint32_t threshold(const Attr&) { return 0; }
};
struct QueryJfr : Jfr {
  using Attr = urma_jfr_attr_t;
  static constexpr auto query = urma_query_jfr;
  static uint32_t threshold(const Attr& attr) { return attr.rx_threshold; }
};
struct QueryJetty : Jetty {
  using Attr = urma_jetty_attr_t;
  static constexpr auto query = urma_query_jetty;
  static constexpr auto flush = urma_flush_jetty;
  static uint32_t threshold(const Attr&) { return 0; }
};

// Also values that are no enumerators.
template <typename Enum>
void put(uint32_t value, Enum* into) {
  std::memcpy(into, &value, sizeof value);
}

}  // namespace

int Executor::slot_of(const void* object) const {
  const auto found = slots_.find(object);
  return found == slots_.end() ? kNull : found->second;
}

bool Executor::ended(const Call& c, urma_status_t status, Result* r) {
  r->value = status;
  if (status != URMA_SUCCESS || c.on == kNull) return true;
  slots_.erase(objects_[static_cast<size_t>(c.on)]);
  objects_[static_cast<size_t>(c.on)] = nullptr;
  contexts_.erase(c.on);
  return true;
}

void Executor::fill(const Call& c, urma_jfc_cfg_t* cfg) const {
  cfg->depth = c.config.depth;
  cfg->flag.bs.non_blocking = c.config.non_blocking ? 1 : 0;
  cfg->jfce = at<urma_jfce_t>(c.other);
}

void Executor::fill(const Call& c, urma_jfs_cfg_t* cfg) const {
  cfg->depth = c.config.depth;
  cfg->flag.bs.order_type = c.config.order & 0xff;
  cfg->flag.bs.non_blocking = c.config.non_blocking ? 1 : 0;
  put(c.config.mode, &cfg->trans_mode);
  cfg->max_sge = static_cast<uint8_t>(c.config.sge);
  cfg->max_rsge = 1;
  cfg->max_inline_data = c.config.inline_data;
  cfg->rnr_retry = static_cast<uint8_t>(c.config.rnr_retry);
  cfg->err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg->jfc = at<urma_jfc_t>(c.other);
}

void Executor::fill(const Call& c, urma_jfr_cfg_t* cfg) const {
  cfg->id = c.config.id;
  cfg->depth = c.config.depth;
  cfg->flag.bs.token_policy = c.config.policy & 7;
  cfg->flag.bs.order_type = c.config.order & 0xff;
  cfg->flag.bs.non_blocking = c.config.non_blocking ? 1 : 0;
  put(c.config.mode, &cfg->trans_mode);
  cfg->max_sge = static_cast<uint8_t>(c.config.sge);
  cfg->min_rnr_timer = 1;
  cfg->jfc = at<urma_jfc_t>(c.other);
  cfg->token_value.token = c.config.token;
}

void Executor::fill(const Call& c, urma_jetty_cfg_t* cfg) const {
  cfg->id = c.config.id;
  cfg->flag.bs.share_jfr = c.config.share_jfr ? 1 : 0;
  cfg->flag.bs.non_blocking = c.config.non_blocking ? 1 : 0;
  fill(c, &cfg->jfs_cfg);
  if (c.config.share_jfr) {
    cfg->shared.jfr = at<urma_jfr_t>(c.more);
    cfg->shared.jfc = at<urma_jfc_t>(c.extra);
  } else {
    static urma_jfr_cfg_t outdated;
    outdated = {};
    fill(c, &outdated);
    cfg->jfr_cfg = &outdated;
  }
  cfg->jetty_grp = at<urma_jetty_grp_t>(c.group);
}

template <typename Queue>
bool Executor::create(const Call& c, Result* r) {
  typename Queue::Config cfg = {};
  fill(c, &cfg);
  auto* queue = Queue::create(at<urma_context_t>(c.on), unless_null(c, kFirstNull, &cfg));
  if (queue != nullptr) r->id = Queue::id(*queue).id;
  return made(c, queue, r);
}

template <typename Queue>
bool Executor::alloc(const Call& c, Result* r) {
  typename Queue::Config cfg = {};
  typename Queue::Object* queue = nullptr;
  fill(c, &cfg);
  const urma_status_t result =
      Queue::alloc(at<urma_context_t>(c.on), unless_null(c, kFirstNull, &cfg),
                   unless_null(c, kSecondNull, &queue));
  if (result == URMA_SUCCESS) {
    made(c, queue, r);
    r->id = Queue::id(*queue).id;
  }
  return status(result, r);
}

template <typename Queue>
bool Executor::delete_batch(const Call& c, Result* r) {
  using Object = typename Queue::Object;
  const int slots[] = {c.on, c.other, c.more};
  Object* batch[] = {at<Object>(c.on), at<Object>(c.other), at<Object>(c.more)};
  Object* bad = nullptr;
  r->value = Queue::delete_batch(unless_null(c, kFirstNull, batch), static_cast<int>(c.number),
                                 unless_null(c, kSecondNull, &bad));
  for (int i = 0; i < 3; ++i) {
    if (bad != nullptr && batch[i] == bad && r->bad == kNull) r->bad = i;
  }
  const int64_t gone = r->value == URMA_SUCCESS ? c.number : r->value == URMA_EAGAIN ? r->bad : 0;
  for (int64_t i = 0; i < gone; ++i) {
    slots_.erase(batch[i]);
    objects_[static_cast<size_t>(slots[i])] = nullptr;
  }
  return true;
}

// The cases of set and get: 0 depth, 1 and 4 wrong length or option 0, 2 unknown, 3 user_ctx, 5 the
// whole context, 6 the whole context with a wrong length.
template <typename Queue>
bool Executor::set_option(const Call& c, Result* r) {
  static constexpr uint64_t kOption[] = {Queue::kDepth, Queue::kDepth, 0x7777, Queue::kUser,
                                         Queue::kDepth};
  static constexpr uint32_t kLength[] = {4, 8, 4, 8, 0};
  uint64_t value = c.value;
  return status(Queue::set_opt(at<typename Queue::Object>(c.on), kOption[c.number],
                               unless_null(c, kFirstNull, &value), kLength[c.number]),
                r);
}

template <typename Queue>
bool Executor::get_option(const Call& c, Result* r) {
  static constexpr uint64_t kOption[] = {
      Queue::kDepth, 0, 0x7777, Queue::kUser, Queue::kDepth, Queue::kFull, Queue::kFull};
  static constexpr uint32_t kLength[] = {4, 4, 4, 8, 8, Queue::kFullSize, Queue::kFullSize - 4};
  alignas(8) std::array<char, 512> value = {};
  r->value = Queue::get_opt(at<typename Queue::Object>(c.on), kOption[c.number],
                            unless_null(c, kFirstNull, value.data()), kLength[c.number]);
  std::memcpy(&r->out, value.data(), sizeof r->out);
  return true;
}

template <typename Queue>
bool Executor::query(const Call& c, Result* r) {
  typename Queue::Config cfg = {};
  typename Queue::Attr attr = {};
  attr.mask = 0xff;
  r->value = Queue::query(at<typename Queue::Object>(c.on), unless_null(c, kFirstNull, &cfg),
                          unless_null(c, kSecondNull, &attr));
  r->out = uint64_t{Queue::depth(cfg)} << 32 | static_cast<uint32_t>(attr.state);
  r->out2 = uint64_t{attr.mask} << 32 | Queue::threshold(attr);
  return true;
}

template <typename Queue>
bool Executor::flush(const Call& c, Result* r) {
  std::array<urma_cr_t, kRecords> records = {};
  r->value = Queue::flush(at<typename Queue::Object>(c.on), static_cast<int>(c.number),
                          unless_null(c, kFirstNull, records.data()));
  for (int64_t i = 0; i < r->value; ++i) record(records[static_cast<size_t>(i)], r);
  return true;
}

bool Executor::run_life_cycle(const Call& c, Result* r) {
  switch (c.fn) {
#define LIFE_CYCLE(q, Q)                                         \
  case Fn::urma_create_##q:                                      \
    return create<Q>(c, r);                                      \
  case Fn::urma_alloc_##q:                                       \
    return alloc<Q>(c, r);                                       \
  case Fn::urma_set_##q##_opt:                                   \
    return set_option<Q>(c, r);                                  \
  case Fn::urma_get_##q##_opt:                                   \
    return get_option<Q>(c, r);                                  \
  case Fn::urma_active_##q: {                                    \
    auto* queue = at<urma_##q##_t>(c.on);                        \
    r->value = urma_active_##q(queue);                           \
    if (queue != nullptr) r->id = Q::id(*queue).id;              \
    return true;                                                 \
  }                                                              \
  case Fn::urma_deactive_##q:                                    \
    return status(urma_deactive_##q(at<urma_##q##_t>(c.on)), r); \
  case Fn::urma_free_##q:                                        \
    return ended(c, urma_free_##q(at<urma_##q##_t>(c.on)), r);   \
  case Fn::urma_delete_##q:                                      \
    return ended(c, urma_delete_##q(at<urma_##q##_t>(c.on)), r); \
  case Fn::urma_delete_##q##_batch:                              \
    return delete_batch<Q>(c, r)
    LIFE_CYCLE(jfc, Jfc);
    LIFE_CYCLE(jfs, Jfs);
    LIFE_CYCLE(jfr, Jfr);
    LIFE_CYCLE(jetty, Jetty);
    default:
      return false;
  }
}

bool Executor::run_queue(const Call& c, Result* r) {
  switch (c.fn) {
    case Fn::urma_modify_jfc: {
      urma_jfc_attr_t attr = {static_cast<uint32_t>(c.value), static_cast<uint16_t>(c.number),
                              static_cast<uint16_t>(c.config.length)};
      return status(urma_modify_jfc(at<urma_jfc_t>(c.on), unless_null(c, kFirstNull, &attr)), r);
    }
    case Fn::urma_modify_jfs: {
      urma_jfs_attr_t attr = {};
      attr.mask = static_cast<uint32_t>(c.value);
      put(static_cast<uint32_t>(c.number), &attr.state);
      return status(urma_modify_jfs(at<urma_jfs_t>(c.on), unless_null(c, kFirstNull, &attr)), r);
    }
    case Fn::urma_modify_jfr: {
      urma_jfr_attr_t attr = {};
      attr.mask = static_cast<uint32_t>(c.value);
      attr.rx_threshold = c.config.length;
      put(static_cast<uint32_t>(c.number), &attr.state);
      return status(urma_modify_jfr(at<urma_jfr_t>(c.on), unless_null(c, kFirstNull, &attr)), r);
    }
    case Fn::urma_modify_jetty: {
      urma_jetty_attr_t attr = {};
      attr.mask = static_cast<uint32_t>(c.value);
      put(static_cast<uint32_t>(c.number), &attr.state);
      return status(urma_modify_jetty(at<urma_jetty_t>(c.on), unless_null(c, kFirstNull, &attr)),
                    r);
    }
    case Fn::urma_query_jfs:
      return query<QueryJfs>(c, r);
    case Fn::urma_query_jfr:
      return query<QueryJfr>(c, r);
    case Fn::urma_query_jetty:
      return query<QueryJetty>(c, r);
    case Fn::urma_flush_jfs:
      return flush<QueryJfs>(c, r);
    case Fn::urma_flush_jetty:
      return flush<QueryJetty>(c, r);
    default:
      return false;
  }
}

Result Executor::run(const Call& c) {
  Result r;
  errno = 0;
  run_life_cycle(c, &r) || run_queue(c, &r) || run_target(c, &r) || run_segment(c, &r) ||
      run_data(c, &r) || run_flat(c, &r) || run_event(c, &r) || run_notify(c, &r) ||
      run_network(c, &r) || run_fixed(c, &r);
  r.error = errno;
  for (const int slot : contexts_) r.refs += at<urma_context_t>(slot)->ref.atomic_cnt.load();
  return r;
}

}  // namespace urma_model
