// SPDX-License-Identifier: MIT
#include "test/model/shapes.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace urma_model {
namespace {

using K = Kind;

#define QUEUE_SHAPES(q, kind, ...)                                                           \
  {.fn = Fn::urma_create_##q,                                                                \
   .weight = 4,                                                                              \
   .makes = kind,                                                                            \
   .on = K::kContext,                                                                        \
   __VA_ARGS__,                                                                              \
   .pointers = 1},                                                                           \
      {.fn = Fn::urma_alloc_##q,                                                             \
       .weight = 3,                                                                          \
       .makes = kind,                                                                        \
       .on = K::kContext,                                                                    \
       __VA_ARGS__,                                                                          \
       .pointers = 2},                                                                       \
      {.fn = Fn::urma_set_##q##_opt,                                                         \
       .weight = 3,                                                                          \
       .on = kind,                                                                           \
       .pointers = 1,                                                                        \
       .numbers = {0, 0, 1, 2, 3, 3, 4},                                                     \
       .values = {0, 64, 64, 128, 70000}},                                                   \
      {.fn = Fn::urma_active_##q, .weight = 4, .on = kind},                                  \
      {.fn = Fn::urma_get_##q##_opt,                                                         \
       .weight = 3,                                                                          \
       .on = kind,                                                                           \
       .pointers = 1,                                                                        \
       .numbers = {0, 1, 2, 3, 4, 5, 6}},                                                    \
      {.fn = Fn::urma_deactive_##q, .weight = 2, .on = kind},                                \
      {.fn = Fn::urma_free_##q, .weight = 2, .on = kind},                                    \
      {.fn = Fn::urma_delete_##q, .weight = 2, .on = kind}, {                                \
    .fn = Fn::urma_delete_##q##_batch, .weight = 4, .on = kind, .other = kind, .more = kind, \
    .pointers = 2, .numbers = {                                                              \
      -1,                                                                                    \
      0,                                                                                     \
      1,                                                                                     \
      1,                                                                                     \
      1,                                                                                     \
      2,                                                                                     \
      2,                                                                                     \
      3                                                                                      \
    }                                                                                        \
  }

const std::vector<Shape>& table() {
  static const std::vector<Shape> rows = {
      QUEUE_SHAPES(jfc, K::kJfc, .other = K::kJfce),
      QUEUE_SHAPES(jfs, K::kJfs, .other = K::kJfc),
      QUEUE_SHAPES(jfr, K::kJfr, .other = K::kJfc),
      QUEUE_SHAPES(jetty, K::kJetty, .other = K::kJfc, .more = K::kJfr, .extra = K::kJfc,
                   .group = K::kGroup),

      {.fn = Fn::urma_init, .weight = 1},
      {.fn = Fn::urma_uninit, .weight = 1, .refusable = false},
      {.fn = Fn::urma_get_device_list, .weight = 1, .pointers = 1},
      {.fn = Fn::urma_free_device_list, .weight = 1, .refusable = false},
      {.fn = Fn::urma_get_eid_list, .weight = 1, .pointers = 1, .numbers = {0, 0, 1}},
      {.fn = Fn::urma_free_eid_list, .weight = 1, .refusable = false},
      {.fn = Fn::urma_get_device_by_name, .weight = 1, .pointers = 1, .numbers = {0, 0, 1, 2}},
      {.fn = Fn::urma_get_device_by_eid, .weight = 1, .on = K::kContext, .numbers = {0, 0, 1}},
      {.fn = Fn::urma_query_device, .weight = 1, .pointers = 1, .numbers = {0, 0, 1}},
      {.fn = Fn::urma_create_context,
       .weight = 4,
       .makes = K::kContext,
       .numbers = {0, 0, 0, 1, 2},
       .values = {0, 0, 0, 1}},
      {.fn = Fn::urma_delete_context, .weight = 2, .on = K::kContext},
      {.fn = Fn::urma_set_context_opt,
       .weight = 8,
       .on = K::kContext,
       .pointers = 1,
       .numbers = {0, 0, 0, 1, 2}},
      {.fn = Fn::urma_user_ctl,
       .weight = 8,
       .on = K::kContext,
       .pointers = 2,
       .values = {5, 5, 5, 99}},
      {.fn = Fn::urma_get_uasid, .weight = 1, .pointers = 1},

      {.fn = Fn::urma_modify_jfc,
       .weight = 2,
       .on = K::kJfc,
       .pointers = 1,
       .numbers = {0, 1, 5000},
       .values = {0, 1, 2, 3}},
      {.fn = Fn::urma_modify_jfs,
       .weight = 6,
       .on = K::kJfs,
       .pointers = 1,
       .numbers = {0, 1, 1, 1, 2, 3, 3, 4},
       .values = {1, 1, 1, 1, 1, 1, 0, 2}},
      {.fn = Fn::urma_modify_jfr,
       .weight = 5,
       .on = K::kJfr,
       .pointers = 1,
       .numbers = {0, 1, 1, 1, 2, 3},
       .values = {0, 1, 1, 2, 2, 3}},
      {.fn = Fn::urma_modify_jetty,
       .weight = 8,
       .on = K::kJetty,
       .pointers = 1,
       .numbers = {0, 1, 1, 1, 2, 3, 3, 4},
       .values = {2, 2, 2, 2, 2, 2, 0, 1}},
      {.fn = Fn::urma_query_jfs, .weight = 3, .on = K::kJfs, .pointers = 2},
      {.fn = Fn::urma_query_jfr, .weight = 3, .on = K::kJfr, .pointers = 2},
      {.fn = Fn::urma_query_jetty, .weight = 3, .on = K::kJetty, .pointers = 2},
      {.fn = Fn::urma_flush_jfs,
       .weight = 4,
       .on = K::kJfs,
       .pointers = 1,
       .numbers = {1, 2, 8, 0, 100000}},
      {.fn = Fn::urma_flush_jetty,
       .weight = 4,
       .on = K::kJetty,
       .pointers = 1,
       .numbers = {1, 2, 8, 0, 100000}},

      {.fn = Fn::urma_import_jfr,
       .weight = 4,
       .makes = K::kTarget,
       .on = K::kContext,
       .other = K::kJfr,
       .pointers = 2,
       .numbers = {URMA_JFR}},
      {.fn = Fn::urma_import_jfr_ex,
       .weight = 2,
       .makes = K::kTarget,
       .on = K::kContext,
       .other = K::kJfr,
       .pointers = 3,
       .numbers = {URMA_JFR}},
      {.fn = Fn::urma_unimport_jfr, .weight = 2, .on = K::kTarget},
      {.fn = Fn::urma_import_jetty,
       .weight = 5,
       .makes = K::kTarget,
       .on = K::kContext,
       .other = K::kJetty,
       .pointers = 2,
       .numbers = {URMA_JETTY, URMA_JETTY, URMA_JETTY_GROUP}},
      {.fn = Fn::urma_import_jetty_ex,
       .weight = 2,
       .makes = K::kTarget,
       .on = K::kContext,
       .other = K::kJetty,
       .pointers = 3,
       .numbers = {URMA_JETTY}},
      {.fn = Fn::urma_unimport_jetty, .weight = 3, .on = K::kTarget},
      {.fn = Fn::urma_advise_jfr, .weight = 1, .on = K::kJfs, .other = K::kTarget},
      {.fn = Fn::urma_advise_jfr_async,
       .weight = 1,
       .on = K::kJfs,
       .other = K::kTarget,
       .pointers = 2},
      {.fn = Fn::urma_unadvise_jfr, .weight = 1, .on = K::kJfs, .other = K::kTarget},
      {.fn = Fn::urma_advise_jetty, .weight = 1, .on = K::kJetty, .other = K::kTarget},
      {.fn = Fn::urma_unadvise_jetty, .weight = 1, .on = K::kJetty, .other = K::kTarget},
      {.fn = Fn::urma_bind_jetty, .weight = 4, .on = K::kJetty, .other = K::kTarget},
      {.fn = Fn::urma_bind_jetty_ex,
       .weight = 3,
       .on = K::kJetty,
       .other = K::kTarget,
       .pointers = 1},
      {.fn = Fn::urma_unbind_jetty, .weight = 3, .on = K::kJetty},
      {.fn = Fn::urma_get_rjetty, .weight = 1, .on = K::kJetty, .pointers = 2},
      {.fn = Fn::urma_put_rjetty, .weight = 1, .refusable = false},
      {.fn = Fn::urma_get_tpn, .weight = 1, .on = K::kJetty},

      {.fn = Fn::urma_create_notifier, .weight = 5, .makes = K::kNotifier, .on = K::kContext},
      {.fn = Fn::urma_delete_notifier, .weight = 2, .on = K::kNotifier},
      {.fn = Fn::urma_import_jetty_async,
       .weight = 4,
       .makes = K::kTarget,
       .on = K::kNotifier,
       .other = K::kJetty,
       .pointers = 2,
       .numbers = {URMA_JETTY},
       .values = {7, 8, 9}},
      {.fn = Fn::urma_unimport_jetty_async, .weight = 3, .on = K::kTarget},
      {.fn = Fn::urma_bind_jetty_async,
       .weight = 8,
       .on = K::kNotifier,
       .other = K::kJetty,
       .more = K::kTarget,
       .values = {7, 8, 9}},
      {.fn = Fn::urma_unbind_jetty_async, .weight = 8, .on = K::kJetty},
      {.fn = Fn::urma_wait_notify,
       .weight = 8,
       .on = K::kNotifier,
       .pointers = 1,
       .numbers = {0, 1, 4, 4}},
      {.fn = Fn::urma_ack_notify, .weight = 1, .on = K::kContext, .pointers = 1},
      {.fn = Fn::urma_create_jetty_grp,
       .weight = 2,
       .makes = K::kGroup,
       .on = K::kContext,
       .pointers = 1,
       .numbers = {0, 0, 0, 1}},
      {.fn = Fn::urma_delete_jetty_grp, .weight = 2, .on = K::kGroup},

      {.fn = Fn::urma_create_jfce, .weight = 2, .makes = K::kJfce, .on = K::kContext},
      {.fn = Fn::urma_delete_jfce, .weight = 2, .on = K::kJfce},
      {.fn = Fn::urma_rearm_jfc, .weight = 5, .on = K::kJfc, .numbers = {0, 0, 1}},
      {.fn = Fn::urma_wait_jfc,
       .weight = 5,
       .on = K::kJfce,
       .pointers = 1,
       .numbers = {0, 1, 2, 4}},
      {.fn = Fn::urma_ack_jfc,
       .weight = 4,
       .on = K::kJfc,
       .pointers = 2,
       .numbers = {0, 1, 1, 1},
       .refusable = false},
      {.fn = Fn::urma_get_async_event, .weight = 4, .on = K::kContext, .pointers = 1},
      {.fn = Fn::urma_ack_async_event, .weight = 3, .numbers = {0, 1, 1}, .refusable = false},

      {.fn = Fn::urma_alloc_token_id, .weight = 4, .makes = K::kToken, .on = K::kContext},
      {.fn = Fn::urma_alloc_token_id_ex,
       .weight = 4,
       .makes = K::kToken,
       .on = K::kContext,
       .numbers = {0, 1, 1}},
      {.fn = Fn::urma_free_token_id, .weight = 6, .on = K::kToken},
      {.fn = Fn::urma_register_seg,
       .weight = 8,
       .makes = K::kSegment,
       .on = K::kContext,
       .other = K::kToken,
       .pointers = 1,
       .numbers = {0, 0, 0, 0, 0, 0, 0, 1}},
      {.fn = Fn::urma_unregister_seg, .weight = 3, .on = K::kSegment},
      {.fn = Fn::urma_import_seg,
       .weight = 5,
       .makes = K::kImport,
       .on = K::kContext,
       .other = K::kSegment,
       .pointers = 2},
      {.fn = Fn::urma_unimport_seg, .weight = 2, .on = K::kImport},
      {.fn = Fn::urma_get_seg_ctx, .weight = 1, .on = K::kSegment, .pointers = 2},
      {.fn = Fn::urma_put_seg_ctx, .weight = 1, .refusable = false},

      {.fn = Fn::urma_post_jfs_wr, .weight = 22, .on = K::kJfs, .pointers = 2},
      {.fn = Fn::urma_post_jfr_wr, .weight = 14, .on = K::kJfr, .pointers = 2},
      {.fn = Fn::urma_post_jetty_send_wr, .weight = 34, .on = K::kJetty, .pointers = 2},
      {.fn = Fn::urma_post_jetty_recv_wr, .weight = 14, .on = K::kJetty, .pointers = 2},
      {.fn = Fn::urma_write, .weight = 6, .on = K::kJfs},
      {.fn = Fn::urma_read, .weight = 6, .on = K::kJfs},
      {.fn = Fn::urma_send, .weight = 6, .on = K::kJfs},
      {.fn = Fn::urma_recv, .weight = 6, .on = K::kJfr, .numbers = {0, 0, 0, 0, 0, 1}},
      {.fn = Fn::urma_poll_jfc,
       .weight = 20,
       .on = K::kJfc,
       .pointers = 1,
       .numbers = {-1, 0, 1, 1, 2, 4, 16, 32}},

      {.fn = Fn::urma_register_log_func, .weight = 1, .pointers = 1},
      {.fn = Fn::urma_register_loc_log_func, .weight = 1, .pointers = 1},
      {.fn = Fn::urma_unregister_log_func, .weight = 1, .refusable = false},
      {.fn = Fn::urma_log_get_level, .weight = 1, .refusable = false},
      {.fn = Fn::urma_log_set_level,
       .weight = 1,
       .numbers = {0, 3, 7, 8, 1000},
       .refusable = false},
      {.fn = Fn::urma_log_get_thread_tag, .weight = 1, .refusable = false},
      {.fn = Fn::urma_log_set_thread_tag,
       .weight = 1,
       .pointers = 1,
       .numbers = {0, 5, 63, 64},
       .refusable = false},

      {.fn = Fn::urma_get_net_addr_list, .weight = 1, .on = K::kContext, .pointers = 1},
      {.fn = Fn::urma_free_net_addr_list, .weight = 1, .refusable = false},
      {.fn = Fn::urma_modify_tp,
       .weight = 2,
       .on = K::kContext,
       .other = K::kTarget,
       .pointers = 2},
      {.fn = Fn::urma_get_tp_list,
       .weight = 1,
       .on = K::kContext,
       .pointers = 3,
       .numbers = {0, 0, 0, 1}},
      {.fn = Fn::urma_set_tp_attr,
       .weight = 1,
       .on = K::kContext,
       .pointers = 1,
       .numbers = {0, 0, 1}},
      {.fn = Fn::urma_get_tp_attr,
       .weight = 1,
       .on = K::kContext,
       .pointers = 3,
       .numbers = {0, 0, 1}},
      {.fn = Fn::urma_get_eid_by_ip, .weight = 1, .on = K::kContext, .pointers = 2},
      {.fn = Fn::urma_get_ip_by_eid, .weight = 1, .on = K::kContext, .pointers = 2},
      {.fn = Fn::urma_get_smac, .weight = 1, .on = K::kContext, .pointers = 1},
      {.fn = Fn::urma_get_dmac, .weight = 1, .on = K::kContext, .pointers = 2},
  };
  return rows;
}

}  // namespace

const Shape& shape_of(Fn fn) {
  for (const Shape& row : table()) {
    if (row.fn == fn) return row;
  }
  throw std::logic_error(std::string("no shape of ") + name_of(fn));
}

Fn weighted(uint64_t at) {
  static const int kSum =
      std::accumulate(table().begin(), table().end(), 0,
                      [](int sum, const Shape& row) { return sum + row.weight; });
  at %= static_cast<uint64_t>(kSum);
  for (const Shape& row : table()) {
    if (at < static_cast<uint64_t>(row.weight)) return row.fn;
    at -= static_cast<uint64_t>(row.weight);
  }
  return Fn::urma_init;
}

}  // namespace urma_model
