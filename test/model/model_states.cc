// SPDX-License-Identifier: MIT
//
// States of queues, and completion and asynchronous events.
#include <algorithm>
#include <cerrno>

#include "test/model/model.h"

namespace urma_model {
namespace {

constexpr uint32_t kJfcAttributes = JFC_MODERATE_COUNT | JFC_MODERATE_PERIOD;
constexpr uint32_t kJfrAttributes = JFR_STATE | JFR_RX_THRESHOLD;
constexpr int64_t kMaxCount = 1023;

// From (row) and to (column): RESET, READY, SUSPENDED, ERROR.
constexpr bool kPossible[4][4] = {{true, true, false, true},
                                  {true, true, true, true},
                                  {true, true, true, true},
                                  {true, true, false, true}};

}  // namespace

Answer Model::modify(const Call& c) {
  switch (c.fn) {
    case Fn::urma_modify_jfs:
      return modify_sender(c, Kind::kJfs);
    case Fn::urma_modify_jetty:
      return modify_sender(c, Kind::kJetty);
    case Fn::urma_modify_jfr:
      return modify_jfr(c);
    default:
      break;
  }
  if (!usable(c.on, Kind::kJfc, c)) return undefined();
  if (c.on == kNull || c.nulls != 0 || (c.value & kJfcAttributes) == 0)
    return refuse({URMA_EINVAL});
  if (!objects[c.on].active) return undefined();
  const bool count_fits = (c.value & JFC_MODERATE_COUNT) == 0 || c.number <= kMaxCount;
  // 0 and the shortest: later events would have to be waited for.
  const bool period_fits = (c.value & JFC_MODERATE_PERIOD) == 0 || c.config.length % 4 == 0;
  return count_fits && period_fits ? succeed() : refuse({URMA_EINVAL});
}

Answer Model::modify_sender(const Call& c, Kind kind) {
  const uint64_t state_bit = kind == Kind::kJfs ? uint64_t{JFS_STATE} : uint64_t{JETTY_STATE};
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || c.nulls != 0 || (c.value & state_bit) == 0 || c.number < 0 ||
      c.number > URMA_JETTY_STATE_ERROR) {
    return refuse({URMA_EINVAL});
  }
  const Object& o = objects[c.on];
  if (!o.active) return undefined();
  const auto state = static_cast<int>(c.number);
  if (!kPossible[o.state][state]) return refuse({URMA_EINVAL});
  if (o.state == state) return succeed();
  if (probed(c.on)) return undefined();
  return succeed([this, c, state](const Result&) { enter(c.on, state); });
}

void Model::enter(int slot, int state) {
  Object& o = objects[slot];
  if (state == URMA_JETTY_STATE_RESET) drop_waiting(slot);
  const std::deque<Waiting> waiting = std::exchange(o.waiting, {});
  const bool was_suspended = o.state == URMA_JETTY_STATE_SUSPENDED;
  o.state = state;
  o.marker_polled = false;
  if (state == URMA_JETTY_STATE_READY) {
    if (!was_suspended) return;
    for (const Waiting& one : waiting) execute(slot, one.request);
    last_sender = slot;
    return;
  }
  if (state != URMA_JETTY_STATE_SUSPENDED) fail_senders_to(slot);
  if (state == URMA_JETTY_STATE_RESET) return;
  for (const Waiting& one : waiting) complete_send(slot, one.request, {URMA_CR_WR_FLUSH_ERR});
  marker(slot,
         state == URMA_JETTY_STATE_ERROR ? URMA_CR_WR_FLUSH_ERR_DONE : URMA_CR_WR_SUSPEND_DONE);
}

void Model::marker(int slot, int status) {
  const Object& o = objects[slot];
  Due due;
  due.record.owner = slot;
  due.record.jetty = o.kind == Kind::kJetty;
  due.record.local_id = o.id;
  due.record.flush_done = status == URMA_CR_WR_FLUSH_ERR_DONE;
  due.record.suspend_done = status == URMA_CR_WR_SUSPEND_DONE;
  due.statuses = {status};
  due.solicited = true;
  add_due(o.jfc, due);
}

Answer Model::modify_jfr(const Call& c) {
  if (!usable(c.on, Kind::kJfr, c)) return undefined();
  const bool sets_state = (c.value & JFR_STATE) != 0;
  const bool sets_threshold = (c.value & JFR_RX_THRESHOLD) != 0;
  if (c.on == kNull || c.nulls != 0 || (c.value & kJfrAttributes) == 0) {
    return refuse({URMA_EINVAL});
  }
  Object& o = objects[c.on];
  if (!o.active || probed(c.on)) return undefined();
  if ((sets_state && (c.number < 0 || c.number > URMA_JFR_STATE_ERROR)) ||
      (sets_threshold && c.config.length > o.config.depth)) {
    return refuse({URMA_EINVAL});
  }
  const auto state = sets_state ? static_cast<int>(c.number) : o.state;
  // Whether emptying a queue counts as running low is unspecified.
  if (state != URMA_JFR_STATE_READY && (sets_threshold || o.threshold != 0)) return undefined();
  return succeed([this, c, state, sets_threshold](const Result&) {
    Object& jfr = objects[c.on];
    if (state != jfr.state) {
      jfr.state = state;
      flush_receives(c.on);
    }
    if (!sets_threshold) return;
    jfr.threshold = c.config.length;
    check_threshold(c.on);
  });
}

// A receive queue that is not READY holds nothing, and no one reaches it.
void Model::flush_receives(int slot) {
  Object& jfr = objects[slot];
  if (jfr.state == URMA_JFR_STATE_READY) return;
  fail_senders_to(slot);
  const std::deque<Receive> receives = std::exchange(jfr.receives, {});
  if (jfr.state == URMA_JFR_STATE_RESET) return;
  for (const Receive& receive : receives) flush_receive(slot, receive);
}

void Model::flush_receive(int slot, const Receive& receive) {
  const Object& jfr = objects[slot];
  Due due;
  due.record.owner = slot;
  due.record.receive = true;
  due.record.local_id = jfr.id;
  due.record.user_ctx = receive.user_ctx;
  due.record.opcode = kNull;
  due.statuses = {URMA_CR_WR_FLUSH_ERR};
  due.solicited = true;
  add_due(jfr.jfc, due);
}

void Model::check_threshold(int slot) {
  Object& jfr = objects[slot];
  if (jfr.threshold == 0 || jfr.receives.size() >= jfr.threshold) return;
  jfr.threshold = 0;
  Record news;
  news.owner = slot;
  news.status = URMA_EVENT_JFR_LIMIT;
  objects[jfr.context].news.push_back(news);
}

Answer Model::query(const Call& c) {
  const Kind kind = c.fn == Fn::urma_query_jfs   ? Kind::kJfs
                    : c.fn == Fn::urma_query_jfr ? Kind::kJfr
                                                 : Kind::kJetty;
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
  const Object& o = objects[c.on];
  if (!o.active) return undefined();
  const uint64_t state = uint64_t{o.config.depth} << 32 | static_cast<uint32_t>(o.state);
  const uint64_t threshold = kind == Kind::kJfr ? o.threshold : 0;
  Answer answer = succeed();
  answer.check = [=](const Result& r) {
    return differs("depth and state", state, r.out) +
           differs("mask and rx_threshold", threshold, r.out2);
  };
  return answer;
}

// After the marker was polled: what the queue holds, or what was posted in the error state and not
// polled, oldest first.
Answer Model::flush(const Call& c, Kind kind) {
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || c.nulls != 0 || c.number <= 0) return refuse({-URMA_EINVAL});
  Object& o = objects[c.on];
  if (c.number > o.config.depth) return refuse({-URMA_EINVAL});
  if (!o.active) return undefined();
  std::vector<uint64_t> left;
  if (o.marker_polled && o.state == URMA_JETTY_STATE_SUSPENDED) {
    for (const Waiting& one : o.waiting) left.push_back(one.request.user_ctx);
  } else if (o.marker_polled && o.state == URMA_JETTY_STATE_ERROR) {
    for (const Due& due : objects[o.jfc].due) {
      if (due.record.owner == c.on && !due.record.receive) left.push_back(due.record.user_ctx);
    }
  }
  left.resize(std::min({left.size(), static_cast<size_t>(c.number), kRecords}));
  const uint32_t id = o.id;
  Answer answer = succeed([this, c, left](const Result&) { hand_back(c.on, left.size()); },
                          static_cast<int64_t>(left.size()));
  answer.check = [left, id, kind](const Result& r) {
    std::string wrong;
    for (size_t i = 0; i < left.size(); ++i) {
      const Record& record = r.record[i];
      wrong += differs("user_ctx", left[i], record.user_ctx);
      wrong += differs("status", URMA_CR_WR_UNHANDLED, static_cast<uint64_t>(record.status));
      wrong += differs("local_id", id, record.local_id);
      wrong += differs("opcode", 0xff, static_cast<uint64_t>(record.opcode));
      wrong += differs("jetty", kind == Kind::kJetty ? 1 : 0, record.jetty ? 1 : 0);
    }
    return wrong;
  };
  return answer;
}

void Model::hand_back(int slot, size_t count) {
  Object& o = objects[slot];
  if (o.state == URMA_JETTY_STATE_SUSPENDED) {
    o.waiting.erase(o.waiting.begin(), o.waiting.begin() + static_cast<ptrdiff_t>(count));
    return;
  }
  std::erase_if(objects[o.jfc].due, [&](const Due& due) {
    return due.record.owner == slot && !due.record.receive && count != 0 && count-- != 0;
  });
}

// -------------------------------------------------------------------------------------------------
// Events
// -------------------------------------------------------------------------------------------------

Answer Model::event(const Call& c) {
  switch (c.fn) {
    case Fn::urma_create_jfce:
      if (!usable(c.on, Kind::kContext, c)) return undefined();
      if (c.on == kNull) return null();
      return succeed([this, c](const Result&) { objects[c.made] = describe(c, Kind::kJfce); }, 1);
    case Fn::urma_delete_jfce: {
      const bool used = std::any_of(objects.begin(), objects.end(), [&](const auto& entry) {
        return c.on != kNull && entry.second.jfce == c.on;
      });
      return simple_end(c, Kind::kJfce, URMA_FAIL, used);
    }
    case Fn::urma_rearm_jfc:
      return rearm(c);
    case Fn::urma_wait_jfc:
      return wait(c);
    case Fn::urma_ack_jfc: {
      if (!usable(c.on, Kind::kJfc, c)) return undefined();
      if (c.on == kNull || c.nulls != 0) return succeed();
      if (c.number > objects[c.on].unacked) return undefined();
      return succeed(
          [this, c](const Result&) { objects[c.on].unacked -= static_cast<int>(c.number); });
    }
    default:
      return async_event(c);
  }
}

Answer Model::rearm(const Call& c) {
  if (!usable(c.on, Kind::kJfc, c)) return undefined();
  if (c.on == kNull) return refuse({URMA_EINVAL});
  // Whether an unfetched event merges with the next is unspecified.
  if (!objects[c.on].active || objects[c.on].events != 0) return undefined();
  return succeed([this, c](const Result&) {
    Object& jfc = objects[c.on];
    if (jfc.jfce != kNull) jfc.armed = c.number != 0 && jfc.armed != 2 ? 1 : 2;
  });
}

Answer Model::wait(const Call& c) {
  if (!usable(c.on, Kind::kJfce, c)) return undefined();
  if (c.on == kNull || c.nulls != 0 || c.number == 0) return refuse({-1});
  std::set<int> pending;
  for (const auto& [slot, object] : objects) {
    if (object.kind == Kind::kJfc && object.jfce == c.on && object.events != 0) {
      pending.insert(slot);
    }
  }
  Answer answer = succeed([this](const Result& r) {
    for (int i = 0; i < r.count; ++i) {
      Object& jfc = objects[r.record[static_cast<size_t>(i)].owner];
      jfc.events = 0;
      ++jfc.unacked;
    }
  });
  answer.values.clear();
  const auto most = std::min<int64_t>(c.number, static_cast<int64_t>(pending.size()));
  for (int64_t n = std::min<int64_t>(1, most); n <= most; ++n) answer.values.push_back(n);
  answer.check = [pending](const Result& r) -> std::string {
    std::set<int> seen;
    for (int i = 0; i < r.count; ++i) {
      const int jfc = r.record[static_cast<size_t>(i)].owner;
      if (!pending.contains(jfc) || !seen.insert(jfc).second) return "an event of another JFC; ";
    }
    return {};
  };
  return answer;
}

Answer Model::async_event(const Call& c) {
  Process& p = processes[static_cast<size_t>(c.process)];
  if (c.fn == Fn::urma_ack_async_event) {
    if (c.number == 0) return succeed();
    if (!p.event_is_held) return undefined();
    return succeed([&p](const Result&) { p.event_is_held = false; });
  }
  if (!usable(c.on, Kind::kContext, c)) return undefined();
  if (c.on == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
  Object& context = objects[c.on];
  if (context.news.empty()) return refuse({URMA_FAIL});
  if (p.event_is_held) return undefined();
  const Record first = context.news.front();
  Answer answer = succeed([this, c, first](const Result&) {
    objects[c.on].news.pop_front();
    Process& process = processes[static_cast<size_t>(c.process)];
    process.event_is_held = true;
    process.held_event = first.owner;
  });
  answer.check = [first](const Result& r) {
    return differs("the event", static_cast<uint64_t>(first.status),
                   static_cast<uint64_t>(r.record[0].status)) +
           differs("its object", static_cast<uint64_t>(first.owner),
                   static_cast<uint64_t>(r.record[0].owner));
  };
  return answer;
}

}  // namespace urma_model
