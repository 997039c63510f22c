// SPDX-License-Identifier: MIT
//
// Creation, configuration and end of queues: what is refused, and what ends with them.
#include <algorithm>
#include <cerrno>
#include <set>

#include "test/model/model.h"

namespace urma_model {
namespace {

constexpr uint32_t kMaxDepth = 65536, kMaxInline = 512, kMaxSge = 16, kMaxChosenId = 65535;

bool is_mode(uint32_t mode) {
  return mode == URMA_TM_RM || mode == URMA_TM_RC || mode == URMA_TM_UM;
}

uint32_t resolved(uint32_t mode, uint32_t order) {
  if (order != URMA_DEF_ORDER) return order;
  return mode == URMA_TM_RM ? URMA_OI : mode == URMA_TM_RC ? URMA_OL : URMA_NO;
}

bool order_fits(uint32_t mode, uint32_t order) {
  switch (order) {
    case URMA_DEF_ORDER:
      return true;
    case URMA_OT:
    case URMA_OL:
      return mode == URMA_TM_RC;
    case URMA_OI:
      return mode == URMA_TM_RM;
    case URMA_NO:
      return mode != URMA_TM_RM;
    default:
      return false;
  }
}

bool depth_fits(uint32_t depth) { return depth != 0 && depth <= kMaxDepth; }

bool sends_well(const Config& c) {
  return is_mode(c.mode) && order_fits(c.mode, c.order) && depth_fits(c.depth) &&
         c.inline_data <= kMaxInline && c.sge <= kMaxSge;
}

}  // namespace

Object Model::describe(const Call& c, Kind kind) const {
  Object o;
  o.kind = kind;
  o.process = c.process;
  o.context = c.on;
  o.config = c.config;
  o.group = c.group;
  switch (kind) {
    case Kind::kJfc:
      o.jfce = c.other;
      break;
    case Kind::kJetty:
      o.jfr = c.more;
      o.receive_jfc = c.extra;
      [[fallthrough]];
    case Kind::kJfs:
    case Kind::kJfr:
      o.jfc = c.other;
      break;
    default:
      break;
  }
  return o;
}

// Parts are NULL, or alive and in the same context: everything else is undefined.
bool Model::parts_usable(const Call& c, Kind kind) const {
  const auto fits = [&](int slot, Kind wanted) {
    return usable(slot, wanted, c) &&
           (slot == kNull || c.on == kNull || find(slot)->context == c.on);
  };
  return fits(c.other, kind == Kind::kJfc ? Kind::kJfce : Kind::kJfc) && fits(c.more, Kind::kJfr) &&
         fits(c.extra, Kind::kJfc) && fits(c.group, Kind::kGroup);
}

// What create and active check.
bool Model::config_good(const Object& o) const {
  const Config& c = o.config;
  switch (o.kind) {
    case Kind::kJfc:
      return depth_fits(c.depth);
    case Kind::kJfs:
      return o.jfc != kNull && sends_well(c) && c.mode != URMA_TM_RC;
    case Kind::kJfr:
      return o.jfc != kNull && is_mode(c.mode) && depth_fits(c.depth) && c.sge <= kMaxSge &&
             c.policy <= URMA_TOKEN_PLAIN_TEXT && c.id <= kMaxChosenId;
    case Kind::kJetty: {
      const Object* jfr = find(o.jfr);
      if (o.jfc == kNull || jfr == nullptr || !c.share_jfr || !sends_well(c) ||
          c.id > kMaxChosenId) {
        return false;
      }
      if (jfr->config.mode != c.mode ||
          resolved(jfr->config.mode, jfr->config.order) != resolved(c.mode, c.order)) {
        return false;
      }
      const Object* group = find(o.group);
      return group == nullptr ||
             (c.mode == URMA_TM_RM && group->config.policy == jfr->config.policy &&
              group->config.token == jfr->config.token);
    }
    default:
      return true;
  }
}

// Chosen ids are shared by all processes of the machine.
bool Model::id_taken(const Object& o) const {
  if (o.config.id == 0 || (o.kind != Kind::kJfr && o.kind != Kind::kJetty)) return false;
  return std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
    return entry.second.kind == o.kind && entry.second.active && entry.second.id == o.config.id;
  });
}

Answer Model::create(const Call& c, Kind kind, bool alloc) {
  if (!usable(c.on, Kind::kContext, c) || !parts_usable(c, kind)) return undefined();
  const Answer refusal = alloc ? refuse({URMA_EINVAL}) : null();
  if (c.on == kNull || (c.nulls & kFirstNull) != 0 || (alloc && (c.nulls & kSecondNull) != 0)) {
    return refusal;
  }
  const Object o = describe(c, kind);
  if (alloc) {
    // The rest is checked on activation; who checks the policy is unspecified.
    if (!c.config.share_jfr || c.config.policy > URMA_TOKEN_PLAIN_TEXT) return undefined();
    const bool needs_jfc = kind == Kind::kJfs || kind == Kind::kJfr;
    const bool needs_mode = kind == Kind::kJfs || (kind != Kind::kJfc && c.config.order == 0);
    if ((needs_jfc && o.jfc == kNull) || (needs_mode && !is_mode(c.config.mode))) return refusal;
    // A group or a mode that does not fit may be detected here or later.
    if (o.group != kNull || !is_mode(c.config.mode)) return undefined();
  } else {
    for (const int part : {o.jfc, o.jfr, o.receive_jfc}) {
      if (part != kNull && !find(part)->active) return undefined();
    }
    if (!config_good(o)) return refusal;
    if (id_taken(o)) return null(EEXIST);
  }
  Answer answer = succeed(
      [this, c, o, alloc](const Result& r) {
        Object made = o;
        made.active = !alloc;
        made.id = r.id;
        objects[c.made] = made;
      },
      alloc ? URMA_SUCCESS : 1);
  answer.check = [c, alloc](const Result& r) -> std::string {
    if (alloc) return {};
    if (r.id == 0) return "the id is 0; ";
    return c.config.id == 0 ? std::string() : differs("the id", c.config.id, r.id);
  };
  return answer;
}

Answer Model::activate(const Call& c, Kind kind) {
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || objects[c.on].active) return refuse({URMA_EINVAL});
  Object& o = objects[c.on];
  bool parts_active = true;
  for (const int part : {o.jfc, o.jfr, o.receive_jfc}) {
    if (part == kNull) continue;
    if (find(part) == nullptr) return undefined();
    parts_active = parts_active && find(part)->active;
  }
  if (!config_good(o) || !parts_active) return refuse({URMA_EINVAL});
  if (id_taken(o)) return refuse({URMA_EEXIST});
  return succeed([this, c](const Result& r) {
    Object& made = objects[c.on];
    made.active = true;
    made.id = r.id;
    made.state = URMA_JETTY_STATE_READY;
    made.marker_polled = false;
  });
}

Answer Model::set_option(const Call& c, Kind kind) {
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || c.nulls != 0 || objects[c.on].active || c.number == 1 || c.number == 4) {
    return refuse({URMA_EINVAL});
  }
  if (c.number == 2) return refuse({URMA_EINVAL, URMA_FAIL});
  return succeed([this, c](const Result&) {
    if (c.number == 0) {
      objects[c.on].config.depth = static_cast<uint32_t>(c.value);
    } else {
      objects[c.on].user_ctx = c.value;
    }
  });
}

Answer Model::get_option(const Call& c, Kind kind) {
  if (!usable(c.on, kind, c)) return undefined();
  const bool good = c.number == 0 || c.number == 3 || c.number == 5;
  if (c.on == kNull || c.nulls != 0 || !good) return refuse({URMA_EINVAL, URMA_FAIL});
  const Object& o = objects[c.on];
  Answer answer = succeed();
  const uint64_t expected = c.number == 0 ? o.config.depth : o.user_ctx;
  answer.check = [c, expected](const Result& r) {
    return c.number == 5 ? std::string() : differs("the value", expected, r.out);
  };
  return answer;
}

// What prevents the end of an object.
Answer Model::removable(int slot) {
  const Object& o = objects[slot];
  bool used = false, used_by_inactive = false;
  for (const auto& [other, object] : objects) {
    if (object.jfc != slot && object.receive_jfc != slot && object.jfr != slot) continue;
    (object.active ? used : used_by_inactive) = true;
  }
  if (o.kind == Kind::kJetty && o.bound != kNull) return refuse({URMA_ENOPERM});
  const Process& p = processes[static_cast<size_t>(o.process)];
  const bool events = o.unacked != 0 || (p.event_is_held && p.held_event == slot);
  if (probed(slot)) return undefined();
  if (used) return refuse({URMA_EAGAIN});
  // Its users would keep a pointer to it; without non_blocking the call would never return.
  if (used_by_inactive || (events && !o.config.non_blocking)) return undefined();
  if (events) return refuse({URMA_EAGAIN});
  return succeed();
}

void Model::drop_waiting(int queue) {
  for (const Waiting& one : std::exchange(objects[queue].waiting, {})) {
    if (Object* jfr = find(jfr_of(one.target)); jfr != nullptr) jfr->haunted = true;
  }
}

void Model::retire(int slot) {
  fail_senders_to(slot);
  Object& o = objects[slot];
  drop_waiting(slot);
  o.receives.clear();
  o.due.clear();
  o.armed = o.events = 0;
  o.threshold = 0;
  for (auto& [other, object] : objects) {
    std::erase_if(object.due, [&](const Due& due) { return due.record.owner == slot; });
    if (object.kind != Kind::kContext) continue;
    std::erase_if(object.news, [&](const Record& news) { return news.owner == slot; });
  }
  if (last_sender == slot) last_sender = kNull;
}

Answer Model::end_queue(const Call& c, Kind kind, bool active) {
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || objects[c.on].active != active) return refuse({URMA_EINVAL});
  Answer answer = removable(c.on);
  if (answer.undefined || answer.refused) return answer;
  answer.effect = [this, c](const Result&) {
    retire(c.on);
    erase(c.on);
  };
  return answer;
}

Answer Model::deactivate(const Call& c, Kind kind) {
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || !objects[c.on].active) return refuse({URMA_EINVAL});
  Answer answer = removable(c.on);
  const Object& o = objects[c.on];
  const bool told = o.unacked != 0 || o.events != 0;
  if (answer.undefined || o.bound != kNull || told) return undefined();
  if (answer.refused) return answer;
  answer.effect = [this, c](const Result&) {
    retire(c.on);
    objects[c.on].active = false;
  };
  return answer;
}

Answer Model::end_batch(const Call& c, Kind kind) {
  const std::array<int, 3> all = {c.on, c.other, c.more};
  if (c.number > 3) return undefined();
  for (const int slot : all) {
    if (!usable(slot, kind, c)) return undefined();
  }
  if (c.nulls != 0 || c.number <= 0) return refuse({URMA_EINVAL});
  const std::vector<int> batch(all.begin(), all.begin() + c.number);
  Answer refusal = refuse({URMA_EINVAL});
  refusal.bad = c.on == kNull ? kNull : 0;
  // The same object twice is undefined, and so is the order of two failing checks.
  std::set<int> distinct;
  bool bound = false, broken = false;
  for (const int slot : batch) {
    if (slot == kNull) {
      broken = true;
      continue;
    }
    if (!distinct.insert(slot).second) return undefined();
    const Object& o = objects[slot];
    broken = broken || !o.active || batch[0] == kNull || o.context != objects[batch[0]].context;
    bound = bound || o.bound != kNull;
  }
  if (broken && bound) return undefined();
  if (bound) refusal.values = {URMA_ENOPERM};
  if (broken || bound) return refusal;
  size_t gone = 0;
  Answer answer = succeed();
  for (; gone < batch.size(); ++gone) {
    const Answer one = removable(batch[gone]);
    if (one.undefined) return undefined();
    if (!one.refused) continue;
    answer = one;
    answer.bad = static_cast<int>(gone);
    break;
  }
  answer.effect = [this, batch, gone](const Result&) {
    for (size_t i = 0; i < gone; ++i) {
      retire(batch[i]);
      erase(batch[i]);
    }
  };
  return answer;
}

Answer Model::simple_end(const Call& c, Kind kind, urma_status_t in_use, bool used) {
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull) return refuse({URMA_EINVAL});
  if (used) return refuse({in_use});
  return succeed([this, c](const Result&) { erase(c.on); });
}

Answer Model::life_cycle(const Call& c, bool* handled) {
  *handled = true;
  switch (c.fn) {
#define LIFE_CYCLE(q, kind)                  \
  case Fn::urma_create_##q:                  \
    return create(c, kind, /*alloc=*/false); \
  case Fn::urma_alloc_##q:                   \
    return create(c, kind, /*alloc=*/true);  \
  case Fn::urma_set_##q##_opt:               \
    return set_option(c, kind);              \
  case Fn::urma_get_##q##_opt:               \
    return get_option(c, kind);              \
  case Fn::urma_active_##q:                  \
    return activate(c, kind);                \
  case Fn::urma_deactive_##q:                \
    return deactivate(c, kind);              \
  case Fn::urma_free_##q:                    \
    return end_queue(c, kind, false);        \
  case Fn::urma_delete_##q:                  \
    return end_queue(c, kind, true);         \
  case Fn::urma_delete_##q##_batch:          \
    return end_batch(c, kind)
    LIFE_CYCLE(jfc, Kind::kJfc);
    LIFE_CYCLE(jfs, Kind::kJfs);
    LIFE_CYCLE(jfr, Kind::kJfr);
    LIFE_CYCLE(jetty, Kind::kJetty);
    default:
      *handled = false;
      return {};
  }
}

}  // namespace urma_model
