// SPDX-License-Identifier: MIT
//
// The frame of the model, and the calls for the library, devices and contexts.
#include "test/model/model.h"

#include <algorithm>
#include <cerrno>

#include "third_party/fmt/format.h"

namespace urma_model {
namespace {

constexpr uint32_t kDeviceMaxSge = 16;
constexpr size_t kMaxTag = 63;
// user_ctl of aggregated devices: the one that needs no buffer, and none at all.
constexpr uint64_t kEnableSegmentCache = 5;

}  // namespace

std::string differs(const char* what, uint64_t expected, uint64_t actual) {
  return expected == actual
             ? std::string()
             : urma::format("{} is {:#x}, and should be {:#x}; ", what, actual, expected);
}

Model::Model() {
  for (Process& process : processes) process.known.fill(true);
}

const Object* Model::find(int slot) const {
  const auto found = objects.find(slot);
  return found == objects.end() ? nullptr : &found->second;
}

Object* Model::find(int slot) { return const_cast<Object*>(std::as_const(*this).find(slot)); }

bool Model::alive(int slot, Kind kind, int process) const {
  const Object* object = find(slot);
  return object != nullptr && object->kind == kind && object->process == process;
}

int Model::children(int context) const {
  return static_cast<int>(std::count_if(objects.begin(), objects.end(), [=](const auto& entry) {
    return entry.second.context == context;
  }));
}

uint64_t Model::refs(int process) const {
  uint64_t sum = 0;
  for (const auto& [slot, object] : objects) {
    if (object.process == process && object.kind == Kind::kContext) {
      sum += 1 + static_cast<uint64_t>(children(slot));
    }
  }
  return sum;
}

void Model::erase(int slot) { objects.erase(slot); }

bool Model::has_event(int jfce) const {
  return std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
    return entry.second.kind == Kind::kJfc && entry.second.jfce == jfce && entry.second.events != 0;
  });
}

// Ids and channels are looked up with the first context of the process.
void Model::complete(Call* call) const {
  if (const Object* original = find(call->other); original != nullptr) {
    call->remote_id = original->id;
  }
  if (call->fn == Fn::urma_poll_jfc && call->wait_for == 0) {
    const Object* jfc = find(call->on);
    if (jfc != nullptr && call->number > 0) {
      call->wait_for =
          static_cast<int>(std::min<size_t>(static_cast<size_t>(call->number), jfc->due.size()));
    }
  }
  const Object* on_object = find(call->on);
  if (call->fn == Fn::urma_wait_notify)
    call->value = on_object != nullptr && !on_object->news.empty() ? 2000 : 0;
  if (call->fn == Fn::urma_wait_jfc) call->value = has_event(call->on) ? 2000 : 0;
  const bool names_remote = call->fn == Fn::urma_import_jfr || call->fn == Fn::urma_import_jfr_ex ||
                            call->fn == Fn::urma_import_jetty ||
                            call->fn == Fn::urma_import_jetty_ex ||
                            call->fn == Fn::urma_import_jetty_async ||
                            call->fn == Fn::urma_import_seg || call->fn == Fn::urma_bind_jetty_ex;
  if (!names_remote) return;
  if (call->fn == Fn::urma_bind_jetty_ex) call->config.mode = URMA_TM_RC;
  call->group = kNull;
  for (const auto& [slot, object] : objects) {
    if (object.kind == Kind::kContext && object.process == call->process) call->group = slot;
  }
  // A channel belongs to its context.
  if (const Object* on = find(call->on); on != nullptr) {
    call->group = on->kind == Kind::kContext ? call->on : on->context;
  }
}

// Requests of one queue can be posted and polled in order while they are in flight; anything else
// could overtake them.
bool Model::wants_quiet(const Call& call) const {
  switch (call.fn) {
    case Fn::urma_poll_jfc:
      return false;
    case Fn::urma_flush_jfs:
    case Fn::urma_flush_jetty: {
      // To return what was posted in the error state, before it is polled.
      const Object* queue = find(call.on);
      return queue == nullptr || !queue->marker_polled;
    }
    case Fn::urma_post_jfs_wr:
    case Fn::urma_post_jetty_send_wr:
    case Fn::urma_write:
    case Fn::urma_read:
    case Fn::urma_send:
      if (last_sender == kNull) return false;
      return last_sender != call.on || !follows(call.on, last_request, call.request[0]);
    default:
      return true;
  }
}

std::string Model::compare_memory(int process, const uint8_t* actual) {
  Process& p = processes[static_cast<size_t>(process)];
  for (size_t i = 0; i < kArena; ++i) {
    if (p.known[i] && p.memory[i] != actual[i]) {
      return urma::format("byte {} of the memory of {} is {:#x}, and should be {:#x}", i,
                          process == 0 ? 'A' : 'B', actual[i], p.memory[i]);
    }
  }
  std::copy_n(actual, kArena, p.memory.begin());
  p.known.fill(true);
  return {};
}

Answer Model::predict(const Call& c) {
  bool handled = false;
  Answer answer = life_cycle(c, &handled);
  if (handled) return answer;
  switch (c.fn) {
    case Fn::urma_modify_jfc:
    case Fn::urma_modify_jfs:
    case Fn::urma_modify_jfr:
    case Fn::urma_modify_jetty:
      return modify(c);
    case Fn::urma_query_jfs:
    case Fn::urma_query_jfr:
    case Fn::urma_query_jetty:
      return query(c);
    case Fn::urma_flush_jfs:
      return flush(c, Kind::kJfs);
    case Fn::urma_flush_jetty:
      return flush(c, Kind::kJetty);
    case Fn::urma_create_jfce:
    case Fn::urma_delete_jfce:
    case Fn::urma_rearm_jfc:
    case Fn::urma_wait_jfc:
    case Fn::urma_ack_jfc:
    case Fn::urma_get_async_event:
    case Fn::urma_ack_async_event:
      return event(c);
    case Fn::urma_post_jfs_wr:
    case Fn::urma_post_jfr_wr:
    case Fn::urma_post_jetty_send_wr:
    case Fn::urma_post_jetty_recv_wr:
    case Fn::urma_write:
    case Fn::urma_read:
    case Fn::urma_send:
    case Fn::urma_recv:
    case Fn::urma_poll_jfc:
      return data(c);
    case Fn::urma_alloc_token_id:
    case Fn::urma_alloc_token_id_ex:
    case Fn::urma_free_token_id:
    case Fn::urma_register_seg:
    case Fn::urma_unregister_seg:
    case Fn::urma_import_seg:
    case Fn::urma_unimport_seg:
    case Fn::urma_get_seg_ctx:
      return segment(c);
    case Fn::urma_create_notifier:
    case Fn::urma_delete_notifier:
    case Fn::urma_import_jetty_async:
    case Fn::urma_unimport_jetty_async:
    case Fn::urma_bind_jetty_async:
    case Fn::urma_unbind_jetty_async:
    case Fn::urma_wait_notify:
    case Fn::urma_ack_notify:
      return notify(c);
    case Fn::urma_import_jfr:
    case Fn::urma_import_jfr_ex:
    case Fn::urma_unimport_jfr:
    case Fn::urma_import_jetty:
    case Fn::urma_import_jetty_ex:
    case Fn::urma_unimport_jetty:
    case Fn::urma_advise_jfr:
    case Fn::urma_advise_jfr_async:
    case Fn::urma_unadvise_jfr:
    case Fn::urma_advise_jetty:
    case Fn::urma_unadvise_jetty:
    case Fn::urma_bind_jetty:
    case Fn::urma_bind_jetty_ex:
    case Fn::urma_unbind_jetty:
    case Fn::urma_get_rjetty:
    case Fn::urma_get_tpn:
      return target(c);
    default:
      return fixed(c);
  }
}

Answer Model::fixed(const Call& c) {
  switch (c.fn) {
    case Fn::urma_create_context:
    case Fn::urma_delete_context:
    case Fn::urma_set_context_opt:
    case Fn::urma_user_ctl:
      return context_call(c);
    case Fn::urma_free_device_list:
    case Fn::urma_free_eid_list:
    case Fn::urma_free_net_addr_list:
    case Fn::urma_put_rjetty:
    case Fn::urma_put_seg_ctx:
      return succeed();
    case Fn::urma_get_net_addr_list:
    case Fn::urma_modify_tp:
    case Fn::urma_get_tp_list:
    case Fn::urma_set_tp_attr:
    case Fn::urma_get_tp_attr:
    case Fn::urma_get_eid_by_ip:
    case Fn::urma_get_ip_by_eid:
    case Fn::urma_get_smac:
    case Fn::urma_get_dmac:
    case Fn::urma_create_jetty_grp:
    case Fn::urma_delete_jetty_grp:
      return network(c);
    default:
      return library(c);
  }
}

Answer Model::library(const Call& c) {
  Process& p = processes[static_cast<size_t>(c.process)];
  const bool null_argument = (c.nulls & kFirstNull) != 0;
  switch (c.fn) {
    case Fn::urma_init:
      if (p.started) return refuse({URMA_EEXIST});
      return succeed([&p](const Result&) { p.started = true; });
    case Fn::urma_uninit:
      // With contexts left it is undefined.
      if (refs(c.process) != 0) return undefined();
      return succeed([&p](const Result&) { p.started = false; });
    case Fn::urma_get_device_list:
      if (null_argument) return null();
      return p.started ? succeed({}, 1) : null(ENODEV);
    case Fn::urma_get_eid_list:
      return null_argument || c.number == 1 || !p.started ? null() : succeed({}, 1);
    case Fn::urma_get_device_by_name:
      if (null_argument || c.number == 2) return null();
      return c.number == 1 || !p.started ? null(ENODEV) : succeed({}, 1);
    case Fn::urma_get_device_by_eid:
      if (!usable(c.on, Kind::kContext, c)) return undefined();
      return c.number == 1 || c.on == kNull ? null(ENODEV) : succeed({}, 1);
    case Fn::urma_query_device: {
      if (null_argument || c.number == 1 || !p.started) return refuse({URMA_EINVAL});
      Answer answer = succeed();
      answer.check = [](const Result& r) { return differs("max_jfs_sge", kDeviceMaxSge, r.out); };
      return answer;
    }
    case Fn::urma_get_uasid:
      if (null_argument) return refuse({URMA_EINVAL});
      return p.started ? succeed() : refuse({URMA_FAIL, URMA_SUCCESS});
    case Fn::urma_register_log_func:
    case Fn::urma_register_loc_log_func:
      return null_argument ? refuse({URMA_EINVAL}) : succeed();
    case Fn::urma_log_get_level:
      return succeed({}, p.level);
    case Fn::urma_log_set_level:
      return succeed([&p, c](const Result&) {
        if (c.number < URMA_VLOG_LEVEL_MAX) p.level = static_cast<int>(c.number);
      });
    case Fn::urma_log_get_thread_tag:
      return succeed({}, p.tag);
    case Fn::urma_log_set_thread_tag:
      return succeed([&p, c, null_argument](const Result&) {
        if (!null_argument && c.number <= static_cast<int64_t>(kMaxTag)) p.tag = c.number;
      });
    default:
      return succeed();
  }
}

Answer Model::context_call(const Call& c) {
  if (c.fn == Fn::urma_create_context) {
    if (c.number != 0 || !processes[static_cast<size_t>(c.process)].started) return null();
    return succeed(
        [this, c](const Result& r) {
          Object& context = objects[c.made];
          context.kind = Kind::kContext;
          context.process = c.process;
          context.aggregated = c.value != 0;
          context.id = r.uasid;
        },
        1);
  }
  if (!usable(c.on, Kind::kContext, c)) return undefined();
  if (c.on == kNull) return refuse({URMA_EINVAL});
  const Object& context = objects[c.on];
  const bool childless = children(c.on) == 0;
  switch (c.fn) {
    case Fn::urma_delete_context:
      if (!childless) return refuse({URMA_EAGAIN});
      return succeed([this, c](const Result&) { erase(c.on); });
    case Fn::urma_set_context_opt:
      if (!context.aggregated || c.number != 0 || (c.nulls & kFirstNull) != 0) {
        return refuse({URMA_EINVAL});
      }
      return childless ? succeed() : refuse({URMA_FAIL});
    default:  // urma_user_ctl
      if (c.nulls != 0) return refuse({URMA_EINVAL});
      if (!context.aggregated) return refuse({URMA_EINVAL, URMA_FAIL});
      return c.value == kEnableSegmentCache && childless ? succeed() : refuse({URMA_FAIL});
  }
}

Answer Model::network(const Call& c) {
  if (c.fn == Fn::urma_delete_jetty_grp) {
    const bool used = std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
      return entry.second.kind == Kind::kJetty && entry.second.group == c.on;
    });
    return simple_end(c, Kind::kGroup, URMA_ENOPERM, used);
  }
  if (!usable(c.on, Kind::kContext, c)) return undefined();
  switch (c.fn) {
    case Fn::urma_create_jetty_grp:
      if (c.on == kNull || c.nulls != 0 || c.number == 1 ||
          c.config.policy > URMA_TOKEN_PLAIN_TEXT) {
        return null();
      }
      return succeed(
          [this, c](const Result& r) {
            Object group = describe(c, Kind::kGroup);
            group.id = r.id;
            objects[c.made] = group;
          },
          1);
    case Fn::urma_get_net_addr_list:
      return c.on == kNull || c.nulls != 0 ? null() : succeed({}, 1);
    case Fn::urma_get_tp_list: {
      const bool one_mode = c.config.mode == URMA_TM_RM || c.config.mode == URMA_TM_RC;
      const bool refused = c.on == kNull || c.nulls != 0 || c.number == 1 ||
                           (!one_mode && c.config.mode != URMA_TM_UM);
      if (refused) return refuse({URMA_EINVAL});
      // Asks for RTP, which UM does not allow.
      if (!one_mode) return undefined();
      Answer answer = succeed();
      answer.check = [](const Result& r) { return r.out == 0 ? "no channel; " : ""; };
      return answer;
    }
    case Fn::urma_set_tp_attr:
    case Fn::urma_get_tp_attr:
      return c.on == kNull || c.nulls != 0 || c.number == 1 ? refuse({URMA_EINVAL, URMA_FAIL})
                                                            : succeed();
    case Fn::urma_modify_tp: {
      if (!usable(c.other, Kind::kTarget, c)) return undefined();
      if (c.on == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
      if (c.other == kNull) return refuse({URMA_EINVAL, URMA_FAIL});
      const Object& target = objects[c.other];
      if (target.context != c.on || target.config.mode == URMA_TM_RC) return undefined();
      return succeed();
    }
    case Fn::urma_get_eid_by_ip: {
      if (c.on == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
      Answer answer = succeed();
      answer.check = [](const Result& r) { return r.out == 1 ? "" : "another EID; "; };
      return answer;
    }
    default:
      return c.on == kNull || c.nulls != 0 ? refuse({URMA_EINVAL}) : succeed();
  }
}

}  // namespace urma_model
