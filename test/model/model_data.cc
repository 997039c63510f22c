// SPDX-License-Identifier: MIT
//
// Posting and polling: which requests are refused, and which records must come.

#include <algorithm>

#include "test/model/model.h"
#include "third_party/fmt/format.h"

namespace urma_model {
namespace {

constexpr uint32_t kDeviceInline = 512, kDeviceSge = 16;
constexpr uint32_t kSmallDepth = 16;  // of queues that sequences fill
constexpr uint32_t kVisible = 8;      // bytes whose change is certain to be seen
constexpr int kAnyBad = -2;

bool is_send(urma_opcode_t opcode) {
  return opcode == URMA_OPC_SEND || opcode == URMA_OPC_SEND_IMM;
}
bool is_atomic(urma_opcode_t opcode) { return opcode >= URMA_OPC_CAS && opcode <= URMA_OPC_FXOR; }
bool is_message(urma_opcode_t opcode) {
  return opcode == URMA_OPC_WRITE_IMM || is_send(opcode) || opcode == URMA_OPC_SEND_INVALIDATE;
}
bool names_remote(urma_opcode_t opcode) {
  return opcode <= URMA_OPC_READ || is_atomic(opcode) || opcode == URMA_OPC_WRITE_ATOMIC ||
         opcode == URMA_OPC_SEND_INVALIDATE;
}
bool offered(urma_opcode_t opcode) {
  switch (opcode) {
    case URMA_OPC_WRITE:
    case URMA_OPC_WRITE_IMM:
    case URMA_OPC_WRITE_NOTIFY:
    case URMA_OPC_READ:
    case URMA_OPC_SEND:
    case URMA_OPC_SEND_IMM:
    case URMA_OPC_SEND_INVALIDATE:
    case URMA_OPC_NOP:
    case URMA_OPC_WRITE_ATOMIC:
      return true;
    default:
      return is_atomic(opcode);
  }
}

bool length_fits(const Request& r) {
  if (r.opcode == URMA_OPC_CAS) return r.length == 4 || r.length == 8 || r.length == 16;
  if (is_atomic(r.opcode)) return r.length == 4 || r.length == 8;
  if (r.opcode != URMA_OPC_WRITE_ATOMIC) return true;
  return r.length != 0 && r.length <= 16 && (r.length & (r.length - 1)) == 0;
}

}  // namespace

int Model::target_of(int queue, const Request& r) const {
  const Object& q = *find(queue);
  const Object* target = find(q.config.mode == URMA_TM_RC ? q.bound : r.target);
  return target == nullptr ? kNull : target->original;
}

// The status with which a posted request is refused; 0 if it is not.
int Model::refusal(int queue, const Request& r) const {
  const Object& q = *find(queue);
  const uint32_t max_inline = q.config.inline_data == 0 ? kDeviceInline : q.config.inline_data;
  const uint32_t max_sge = q.config.sge == 0 ? kDeviceSge : q.config.sge;
  if (!offered(r.opcode) || !length_fits(r)) return URMA_EINVAL;
  if (q.config.mode == URMA_TM_RC ? q.bound == kNull : r.target == kNull) return URMA_EINVAL;
  const bool sends = is_send(r.opcode) || r.opcode == URMA_OPC_NOP;
  if (q.config.mode == URMA_TM_UM && !sends) return URMA_EINVAL;
  if (names_remote(r.opcode) && r.remote == kNull) return URMA_EINVAL;
  if (r.opcode == URMA_OPC_NOP) return 0;
  if (is_atomic(r.opcode)) return r.inlined || r.local == kNull ? URMA_EINVAL : 0;
  if (r.pieces == kTooMany || r.pieces > max_sge) return URMA_EINVAL;
  if (r.inlined) return r.opcode == URMA_OPC_READ || r.length > max_inline ? URMA_EINVAL : 0;
  return r.pieces != 0 && r.length != 0 && r.local == kNull ? URMA_EINVAL : 0;
}

// What the contract leaves open, and what would race.
bool Model::undefined_request(int queue, const Request& r, size_t before) const {
  const Object& q = *find(queue);
  const auto own = [&](int slot, Kind kind) {
    return slot == kNull || (alive(slot, kind, q.process) && find(slot)->context == q.context);
  };
  if (!own(r.target, Kind::kTarget) || !own(r.local, Kind::kSegment) ||
      !own(r.remote, Kind::kImport)) {
    return true;
  }
  // The pieces determine the length of a request, and some kinds take only one.
  const bool one_piece = is_atomic(r.opcode) || r.opcode == URMA_OPC_WRITE_ATOMIC;
  if ((r.pieces == 0 && r.length != 0) || (one_piece && r.pieces != 1)) return true;
  if (r.pieces == kTooMany && r.local == kNull && !r.inlined) return true;
  if (refusal(queue, r) != 0) return false;
  if (q.config.depth < kSmallDepth && !r.signalled) return true;
  if (r.at + r.length > kArena || r.remote_at + r.length > kArena) return true;
  if (q.state == URMA_JETTY_STATE_ERROR || q.state == URMA_JETTY_STATE_RESET) return false;
  if (r.opcode == URMA_OPC_NOP) return before != 0 || !q.waiting.empty();
  // Nothing would show when it is done.
  if (!r.signalled && !is_message(r.opcode) && r.length < kVisible) return true;
  if (q.state == URMA_JETTY_STATE_SUSPENDED && !is_send(r.opcode)) return true;
  return undefined_route(queue, r, before);
}

bool Model::undefined_route(int queue, const Request& r, size_t before) const {
  const Object& q = *find(queue);
  const int through = q.config.mode == URMA_TM_RC ? q.bound : r.target;
  const Object& target = *find(through);
  if (!target.notified || !q.notified || target.config.mode != q.config.mode) return true;
  const int to = target.original;
  const Object* original = find(to);
  if (original == nullptr || !original->active || original->id != target.id) {
    // Its id may have been given to another one.
    for (const auto& [slot, object] : objects) {
      if (object.kind == target.original_kind && object.active && object.id == target.id)
        return true;
    }
    if (q.config.mode == URMA_TM_RC) return true;
  } else {
    if (original->kind != Kind::kGroup && original->config.mode != q.config.mode) return true;
    if (q.config.mode == URMA_TM_RC) {
      const Object* back = find(original->bound);
      if (back == nullptr || back->original != queue || !original->notified) return true;
    }
  }
  const int member = receiver_of(to);
  if (original != nullptr && original->kind == Kind::kGroup &&
      (member == kNull || !is_send(r.opcode))) {
    return true;
  }
  if (!q.waiting.empty() && (!is_send(r.opcode) || q.waiting.back().target != member)) return true;
  // A request that fails by itself, after others that wait, may be flushed or fail.
  const bool behind = before != 0 || !q.waiting.empty();
  if (behind && !r.inlined && r.length != 0 && !covered(r.local, r.at, r.length)) {
    return true;
  }
  const Object* jfr = find(jfr_of(member));
  if (r.opcode <= URMA_OPC_WRITE_IMM || is_send(r.opcode) || r.opcode == URMA_OPC_SEND_INVALIDATE) {
    const size_t ready = jfr == nullptr ? 0 : jfr->receives.size();
    const bool may_wait =
        is_send(r.opcode) && (original == nullptr || original->kind != Kind::kGroup);
    if (r.opcode != URMA_OPC_WRITE && !may_wait && ready <= before) return true;
    // Nothing shows when a datagram without a receive is dropped.
    if (q.config.mode == URMA_TM_UM && !r.signalled && ready <= before) return true;
    // Two senders that wait for the same receives.
    for (const auto& [slot, object] : objects) {
      if (slot != queue && !object.waiting.empty() &&
          jfr_of(object.waiting.front().target) == jfr_of(member) && jfr != nullptr) {
        return true;
      }
    }
  }
  return names_remote(r.opcode) && undefined_import(queue, r, target.original_process);
}

bool Model::undefined_import(int queue, const Request& r, int process) const {
  const Object& import = *find(r.remote);
  const Object* original = find(import.original);
  // Whether memory can be reached through a queue that takes no messages is unspecified.
  if (import.original_process != process || !reachable(queue, r)) return true;
  if (original == nullptr) {
    for (const auto& [slot, object] : objects) {
      if (object.kind == Kind::kSegment && object.process == process && object.id == import.id) {
        return true;
      }
    }
  }
  const bool faulty = original == nullptr || !remote_faults(r).empty();
  // Whether an empty request is checked this closely is unspecified.
  if (r.length == 0 && (faulty || import.config.length == 0)) return true;
  if (r.opcode == URMA_OPC_WRITE_NOTIFY) {
    return r.swap % 8 != 0 || r.swap < import.config.at ||
           r.swap + 8 > import.config.at + import.config.length || faulty;
  }
  if (r.opcode == URMA_OPC_SEND_INVALIDATE) {
    // Unspecified, too, for a segment that no peer can reach, or with a token that no one checks.
    return faulty || original->config.access == URMA_ACCESS_LOCAL_ONLY ||
           original->config.token != import.config.token;
  }
  return r.opcode == URMA_OPC_WRITE_ATOMIC && r.remote_at % r.length != 0;
}

int Model::jfr_of(int queue) const {
  const Object* o = find(queue);
  return o == nullptr ? kNull : o->kind == Kind::kJetty ? o->jfr : queue;
}

// The only member of a group, if that is the target.
int Model::receiver_of(int queue) const {
  const Object* o = find(queue);
  if (o == nullptr || o->kind != Kind::kGroup) return queue;
  int member = kNull, members = 0;
  for (const auto& [slot, object] : objects) {
    if (object.kind != Kind::kJetty || object.group != queue) continue;
    member = object.active ? slot : kNull;
    ++members;
  }
  return members == 1 ? member : kNull;
}

Answer Model::data(const Call& c) {
  switch (c.fn) {
    case Fn::urma_post_jfs_wr:
      return post_sends(c, Kind::kJfs);
    case Fn::urma_post_jetty_send_wr:
      return post_sends(c, Kind::kJetty);
    case Fn::urma_post_jfr_wr:
      return post_receives(c, Kind::kJfr);
    case Fn::urma_post_jetty_recv_wr:
      return post_receives(c, Kind::kJetty);
    case Fn::urma_recv:
      if (c.request[0].local == kNull) {
        return usable(c.on, Kind::kJfr, c) ? refuse({URMA_EINVAL}) : undefined();
      }
      if (!alive(c.request[0].local, Kind::kSegment, c.process)) return undefined();
      if (c.number == 1 && c.on != kNull) {
        return usable(c.on, Kind::kJfr, c) ? refuse({URMA_FAIL}) : undefined();
      }
      return post_receives(c, Kind::kJfr);
    case Fn::urma_poll_jfc:
      return poll(c);
    default:
      return flat_send(c);
  }
}

// The rest of a flat call is like in a list of one.
Answer Model::flat_send(const Call& c) {
  const Request& r = c.request[0];
  const urma_opcode_t opcode = c.fn == Fn::urma_write  ? URMA_OPC_WRITE
                               : c.fn == Fn::urma_read ? URMA_OPC_READ
                                                       : URMA_OPC_SEND;
  if (r.opcode != opcode || r.pieces != 1 || c.requests != 1 || c.nulls != 0) return undefined();
  Answer answer = post_sends(c, Kind::kJfs);
  if (answer.undefined) return answer;
  const bool local_missing =
      r.local == kNull && (opcode == URMA_OPC_READ || (opcode == URMA_OPC_SEND && !r.inlined));
  if (c.on == kNull || r.target == kNull || (opcode != URMA_OPC_SEND && r.remote == kNull) ||
      local_missing) {
    return refuse({URMA_EINVAL});
  }
  answer.bad = kNull;
  return answer;
}

Answer Model::post_sends(const Call& c, Kind kind) {
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
  const Object& q = objects[c.on];
  Answer answer = succeed();
  if (!q.active) {
    answer = refuse({URMA_EINVAL});
    answer.bad = kAnyBad;
    return answer;
  }
  const size_t unpolled = static_cast<size_t>(std::count_if(
      objects[q.jfc].due.begin(), objects[q.jfc].due.end(),
      [&](const Due& due) { return due.record.owner == c.on && !due.record.receive; }));
  size_t accepted = 0;
  for (; accepted < c.requests; ++accepted) {
    const Request& r = c.request[accepted];
    if (undefined_request(c.on, r, accepted)) return undefined();
    int status = refusal(c.on, r);
    if (status == 0 && q.waiting.size() >= q.config.depth) {
      status = URMA_ENOMEM;
    } else if (status == 0 && q.waiting.size() + unpolled + accepted >= q.config.depth) {
      return undefined();
    }
    // Requests of a list may overtake each other if they take different paths, or read.
    if (accepted != 0 && status == 0 && !follows(c.on, c.request[accepted - 1], r)) {
      return undefined();
    }
    if (status == 0) continue;
    answer = refuse({status});
    answer.bad = static_cast<int>(accepted);
    break;
  }
  answer.effect = [this, c, accepted](const Result&) {
    for (size_t i = 0; i < accepted; ++i) execute(c.on, c.request[i]);
    if (accepted == 0) return;
    last_sender = c.on;
    last_request = c.request[accepted - 1];
  };
  return answer;
}

// Whether one request is certain to finish before the next one begins.
bool Model::follows(int queue, const Request& first, const Request& second) const {
  if (first.target != second.target) return false;
  const Object* to = find(target_of(queue, second));
  if (to != nullptr && to->process == find(queue)->process) return false;
  // A message is placed when its receiver takes it; other requests do not wait for that.
  if (is_message(first.opcode) && names_remote(second.opcode)) return false;
  const bool reads = first.opcode == URMA_OPC_READ || is_atomic(first.opcode);
  return !reads || second.fence;
}

Answer Model::post_receives(const Call& c, Kind kind) {
  if (!usable(c.on, kind, c)) return undefined();
  if (c.on == kNull || c.nulls != 0) return refuse({URMA_EINVAL});
  const Object& q = objects[c.on];
  const int slot = jfr_of(c.on);
  Answer answer = succeed();
  if (!q.active || !find(slot)->active) {
    answer = refuse({URMA_EINVAL});
    answer.bad = kAnyBad;
    return answer;
  }
  const Object& jfr = objects[slot];
  if (jfr.state == URMA_JFR_STATE_RESET || jfr.haunted) return undefined();
  const uint32_t max_sge = jfr.config.sge == 0 ? kDeviceSge : jfr.config.sge;
  size_t accepted = 0;
  for (; accepted < c.requests; ++accepted) {
    const Request& r = c.request[accepted];
    if (r.local != kNull &&
        (!alive(r.local, Kind::kSegment, c.process) || objects[r.local].context != jfr.context)) {
      return undefined();
    }
    if (r.at + r.length > kArena || (r.pieces == 0 && r.length != 0)) return undefined();
    int status = 0;
    if (r.pieces == kTooMany || r.pieces > max_sge) status = URMA_EINVAL;
    const bool full = jfr.receives.size() + accepted >= jfr.config.depth;
    if (r.pieces != 0 && r.length != 0 && r.local == kNull) status = URMA_EINVAL;
    if (status != 0 && full) return undefined();
    if (full) status = URMA_ENOMEM;
    if (status == 0) continue;
    answer = refuse({status});
    answer.bad = c.fn == Fn::urma_recv ? kNull : static_cast<int>(accepted);
    break;
  }
  answer.effect = [this, c, slot, accepted](const Result&) {
    for (size_t i = 0; i < accepted; ++i) add_receive(slot, c.request[i]);
    resume_senders_to(slot);
  };
  return answer;
}

void Model::add_receive(int slot, const Request& r) {
  Object& jfr = objects[slot];
  const Receive receive = {r.user_ctx, r.at, r.length, r.local,
                           r.length == 0 || covered(r.local, r.at, r.length)};
  if (jfr.state == URMA_JFR_STATE_ERROR) {
    flush_receive(slot, receive);
  } else {
    jfr.receives.push_back(receive);
  }
}

Answer Model::poll(const Call& c) {
  if (!usable(c.on, Kind::kJfc, c)) return undefined();
  if (c.on == kNull || c.nulls != 0 || c.number < 0) return refuse({-1});
  const Object& jfc = objects[c.on];
  if (c.number == 0) return succeed();
  if (!jfc.active) return refuse({-1});
  Answer answer = succeed();
  answer.values.clear();
  answer.check = [this, c](const Result& r) {
    std::string wrong;
    for (int i = 0; i < r.count; ++i) wrong += take(c.on, r.record[static_cast<size_t>(i)]);
    if (r.count < c.wait_for) {
      wrong += urma::format("{} records came, and {} were due: ", r.count, c.wait_for);
      for (const Due& due : objects[c.on].due)
        wrong += "\n      " + urma_model::describe(due.record);
    }
    return wrong;
  };
  return answer;
}

// Finds the expectation for a record, and removes it.
std::string Model::take(int jfc, const Record& got) {
  std::vector<Due>& due = objects[jfc].due;
  Object* sender = got.receive ? nullptr : find(got.owner);
  // A request without a record that was still in flight when its queue stopped has one after all.
  if (sender != nullptr && got.status == URMA_CR_WR_FLUSH_ERR &&
      sender->silent.erase(got.user_ctx) != 0) {
    return {};
  }
  const auto found = std::find_if(due.begin(), due.end(), [&](const Due& one) {
    const Record& wanted = one.record;
    const Object* owner = find(wanted.owner);
    const bool unordered = owner != nullptr && owner->config.mode == URMA_TM_UM;
    return wanted.local_id == got.local_id && wanted.jetty == got.jetty &&
           wanted.receive == got.receive && (!unordered || wanted.user_ctx == got.user_ctx);
  });
  if (found == due.end()) return "a record that nothing has caused: " + urma_model::describe(got);
  const Due one = *found;
  due.erase(found);
  const std::string wrong = compare(one, got);
  // Requests posted before it are done.
  if (sender != nullptr) {
    sender->silent.erase(sender->silent.begin(), sender->silent.lower_bound(got.user_ctx));
  }
  if (one.record.flush_done || one.record.suspend_done)
    objects[one.record.owner].marker_polled = true;
  return wrong.empty() ? wrong : wrong + "in " + urma_model::describe(got);
}

std::string Model::compare(const Due& due, const Record& got) const {
  const Record& wanted = due.record;
  const bool marker = wanted.flush_done || wanted.suspend_done;
  const bool success = got.status == URMA_CR_SUCCESS;
  std::string wrong;
  if (std::find(due.statuses.begin(), due.statuses.end(), got.status) == due.statuses.end()) {
    wrong += differs("the status", static_cast<uint64_t>(due.statuses[0]),
                     static_cast<uint64_t>(got.status));
  }
  if (!marker) {
    wrong += differs("user_ctx", wanted.user_ctx, got.user_ctx);
    wrong +=
        differs("the owner", static_cast<uint64_t>(wanted.owner), static_cast<uint64_t>(got.owner));
  }
  wrong += differs("flush_err_done", wanted.flush_done, got.flush_done);
  wrong += differs("suspend_done", wanted.suspend_done, got.suspend_done);
  if (!wanted.receive && got.opcode <= URMA_CR_OPC_FLUSH_WRITE)
    wrong += "the opcode is a receive's; ";
  if (success && !marker) wrong += differs("the length", wanted.length, got.length);
  if (!wanted.receive || !success) return wrong;
  wrong += differs("the opcode", static_cast<uint64_t>(wanted.opcode),
                   static_cast<uint64_t>(got.opcode));
  wrong += differs("remote_id.id", wanted.remote_id, got.remote_id);
  wrong += differs("remote_id.uasid", wanted.remote_uasid, got.remote_uasid);
  if (wanted.opcode != URMA_CR_OPC_SEND)
    wrong += differs("imm_data", wanted.immediate, got.immediate);
  return wrong;
}

}  // namespace urma_model
