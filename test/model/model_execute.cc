// SPDX-License-Identifier: MIT
//
// The execution of requests: their effect on memory, and their status.
#include <algorithm>
#include <cstring>

#include "test/model/model.h"

namespace urma_model {
namespace {

bool is_atomic(urma_opcode_t opcode) { return opcode >= URMA_OPC_CAS && opcode <= URMA_OPC_FXOR; }

uint32_t right_for(urma_opcode_t opcode) {
  if (opcode == URMA_OPC_READ) return URMA_ACCESS_READ;
  return is_atomic(opcode) ? URMA_ACCESS_ATOMIC : URMA_ACCESS_WRITE;
}

int received_opcode(urma_opcode_t opcode) {
  switch (opcode) {
    case URMA_OPC_SEND_IMM:
      return URMA_CR_OPC_SEND_WITH_IMM;
    case URMA_OPC_SEND_INVALIDATE:
      return URMA_CR_OPC_SEND_WITH_INV;
    case URMA_OPC_WRITE_IMM:
      return URMA_CR_OPC_WRITE_WITH_IMM;
    default:
      return URMA_CR_OPC_SEND;
  }
}

}  // namespace

bool Model::covered(int slot, uint32_t at, uint32_t length) const {
  const Object* segment = find(slot);
  return segment != nullptr && at >= segment->config.at &&
         at + length <= segment->config.at + segment->config.length;
}

std::vector<uint8_t> Model::bytes_at(int process, uint32_t at, uint32_t length) const {
  const auto& memory = processes[static_cast<size_t>(process)].memory;
  return {memory.begin() + at, memory.begin() + at + length};
}

void Model::copy(int from, uint32_t at, int to, uint32_t into, uint32_t length) {
  const Process source = processes[static_cast<size_t>(from)];
  Process& target = processes[static_cast<size_t>(to)];
  std::copy_n(source.memory.begin() + at, length, target.memory.begin() + into);
  std::copy_n(source.known.begin() + at, length, target.known.begin() + into);
}

// Whether messages reach the queue through this target: it exists, takes them, and the token is
// valid.
bool Model::reachable(int queue, const Request& r) const {
  const Object& q = *find(queue);
  const Object* target = find(q.config.mode == URMA_TM_RC ? q.bound : r.target);
  const Object* original = target == nullptr ? nullptr : find(target->original);
  if (original == nullptr || !original->active || original->id != target->id) return false;
  const Object* receiver = find(receiver_of(target->original));
  if (receiver == nullptr) return false;
  const Object* jfr = find(jfr_of(receiver_of(target->original)));
  if (jfr->state != URMA_JFR_STATE_READY) return false;
  if (receiver->kind == Kind::kJetty &&
      (receiver->state == URMA_JETTY_STATE_ERROR || receiver->state == URMA_JETTY_STATE_RESET)) {
    return false;
  }
  return jfr->config.policy == URMA_TOKEN_NONE || jfr->config.token == target->config.token;
}

std::vector<int> Model::remote_faults(const Request& r) const {
  std::vector<int> faults;
  const Object& import = *find(r.remote);
  const Object* segment = find(import.original);
  bool refused = segment == nullptr || segment->invalidated;
  if (segment != nullptr && r.opcode != URMA_OPC_SEND_INVALIDATE) {
    const uint32_t rights =
        (segment->config.access & URMA_ACCESS_LOCAL_ONLY) != 0 ? 0 : segment->config.access;
    refused = refused || !covered(import.original, r.remote_at, r.length) ||
              (rights & right_for(r.opcode)) == 0;
  }
  if (segment != nullptr && segment->config.policy != URMA_TOKEN_NONE) {
    refused = refused || segment->config.token != import.config.token;
  }
  if (refused) faults.push_back(URMA_CR_REM_ACCESS_ABORT_ERR);
  if (is_atomic(r.opcode) && r.remote_at % std::max(r.length, 1u) != 0) {
    faults.push_back(URMA_CR_REM_UNSUPPORTED_REQ_ERR);
  }
  return faults;
}

void Model::execute(int queue, const Request& r) {
  Object& q = objects[queue];
  if (q.state == URMA_JETTY_STATE_ERROR || q.state == URMA_JETTY_STATE_RESET) {
    return complete_send(queue, r, {URMA_CR_WR_FLUSH_ERR});
  }
  const int to = receiver_of(target_of(queue, r));
  if (q.state == URMA_JETTY_STATE_SUSPENDED || !q.waiting.empty()) {
    q.waiting.push_back({r, to, bytes_at(q.process, r.at, r.length)});
    return;
  }
  switch (r.opcode) {
    case URMA_OPC_NOP: {
      Request nothing = r;
      nothing.length = 0;
      return complete_send(queue, nothing, {URMA_CR_SUCCESS});
    }
    case URMA_OPC_SEND:
    case URMA_OPC_SEND_IMM:
    case URMA_OPC_SEND_INVALIDATE:
      return send(queue, r, to);
    default:
      return one_sided(queue, r);
  }
}

void Model::send(int queue, const Request& r, int to) {
  const Object& q = objects[queue];
  const bool unreliable = q.config.mode == URMA_TM_UM;
  std::vector<int> faults;
  if (!r.inlined && r.length != 0 && !covered(r.local, r.at, r.length)) {
    faults.push_back(URMA_CR_LOC_ACCESS_ERR);
  }
  const bool reached = reachable(queue, r);
  if (!reached && unreliable && faults.empty()) return complete_send(queue, r, {URMA_CR_SUCCESS});
  if (!reached) faults.push_back(unreliable ? URMA_CR_SUCCESS : URMA_CR_REM_ACCESS_ABORT_ERR);
  if (!faults.empty()) return complete_send(queue, r, faults);
  if (!objects[jfr_of(to)].receives.empty()) {
    return deliver(queue, r, bytes_at(q.process, r.at, r.length), to);
  }
  if (unreliable) return complete_send(queue, r, {URMA_CR_SUCCESS});
  if (q.config.rnr_retry < URMA_TYPICAL_RNR_RETRY) {
    return complete_send(queue, r, {URMA_CR_RNR_RETRY_CNT_EXC_ERR});
  }
  objects[queue].waiting.push_back({r, to, bytes_at(q.process, r.at, r.length)});
}

void Model::deliver(int queue, const Request& r, const std::vector<uint8_t>& payload, int to) {
  const Object& q = objects[queue];
  const int jfr_slot = jfr_of(to);
  Object& jfr = objects[jfr_slot];
  const Receive receive = jfr.receives.front();
  jfr.receives.pop_front();
  const Object& receiver = objects[to];
  Due due;
  Record& record = due.record;
  record.owner = to;
  record.receive = true;
  record.jetty = receiver.kind == Kind::kJetty;
  record.local_id = receiver.id;
  record.user_ctx = receive.user_ctx;
  record.remote_id = q.id;
  record.remote_uasid = objects[q.context].id;
  record.opcode = received_opcode(r.opcode);
  record.immediate = r.immediate;
  record.length = r.length;
  due.solicited = r.solicited;
  std::vector<int> sent = {URMA_CR_SUCCESS};
  if (r.opcode != URMA_OPC_WRITE_IMM) {
    std::vector<int> statuses, answers;
    if (r.length > receive.length) {
      statuses.push_back(URMA_CR_LOC_LEN_ERR);
      answers.push_back(URMA_CR_REM_RESP_LEN_ERR);
    }
    if (receive.length != 0 && (!receive.covered || find(receive.segment) == nullptr)) {
      statuses.push_back(URMA_CR_LOC_ACCESS_ERR);
      answers.push_back(URMA_CR_REM_OPERATION_ERR);
    }
    if (statuses.empty()) {
      receive_payload(q.process, r, payload, receiver.process, receive);
      if (r.opcode == URMA_OPC_SEND_INVALIDATE) invalidate(r, &record);
    } else {
      due.solicited = true;
      if (q.config.mode != URMA_TM_UM) sent = answers;
    }
    due.statuses = statuses;
  }
  if (due.statuses.empty()) due.statuses = {URMA_CR_SUCCESS};
  const bool own_jfc = receiver.kind == Kind::kJetty && receiver.receive_jfc != kNull;
  add_due(own_jfc ? receiver.receive_jfc : jfr.jfc, due);
  complete_send(queue, r, sent);
  check_threshold(jfr_slot);
}

void Model::invalidate(const Request& r, Record* record) {
  Object& segment = objects[objects[r.remote].original];
  segment.invalidated = true;
  const uint32_t token = segment.config.policy == URMA_TOKEN_NONE ? objects[r.remote].config.token
                                                                  : segment.config.token;
  record->immediate = uint64_t{token} << 32 | segment.id;
}

// A payload that was changed after posting may arrive either way.
void Model::receive_payload(int from, const Request& r, const std::vector<uint8_t>& payload, int to,
                            const Receive& receive) {
  const Process source = processes[static_cast<size_t>(from)];
  Process& target = processes[static_cast<size_t>(to)];
  for (uint32_t i = 0; i < r.length; ++i) {
    target.memory[receive.at + i] = payload[i];
    target.known[receive.at + i] =
        r.inlined || (source.known[r.at + i] && source.memory[r.at + i] == payload[i]);
  }
}

void Model::one_sided(int queue, const Request& r) {
  const Object& q = objects[queue];
  std::vector<int> faults = remote_faults(r);
  if (!r.inlined && r.length != 0 && !covered(r.local, r.at, r.length)) {
    faults.push_back(URMA_CR_LOC_ACCESS_ERR);
  }
  if (!faults.empty()) return complete_send(queue, r, faults);
  const int owner = objects[r.remote].original_process;
  if (is_atomic(r.opcode)) {
    atomic(q.process, r, owner);
  } else if (r.opcode == URMA_OPC_READ) {
    copy(owner, r.remote_at, q.process, r.at, r.length);
  } else {
    copy(q.process, r.at, owner, r.remote_at, r.length);
  }
  if (r.opcode == URMA_OPC_WRITE_NOTIFY) {
    Process& p = processes[static_cast<size_t>(owner)];
    std::memcpy(&p.memory[r.swap], &r.immediate, sizeof r.immediate);
    std::fill_n(p.known.begin() + static_cast<ptrdiff_t>(r.swap), 8, true);
  }
  if (r.opcode == URMA_OPC_WRITE_IMM)
    return deliver(queue, r, {}, receiver_of(target_of(queue, r)));
  complete_send(queue, r, {URMA_CR_SUCCESS});
}

void Model::atomic(int process, const Request& r, int owner) {
  using Word = unsigned __int128;
  const Word mask = r.length == 16 ? ~Word{0} : (Word{1} << 8 * r.length) - 1;
  const Process old = processes[static_cast<size_t>(owner)];
  Word before = 0;
  std::memcpy(&before, &old.memory[r.remote_at], r.length);
  const Word operand = r.operand & mask, swap = r.swap & mask;
  Word after = before;
  switch (r.opcode) {
    case URMA_OPC_CAS:
      after = before == operand ? swap : before;
      break;
    case URMA_OPC_SWAP:
      after = swap;
      break;
    case URMA_OPC_FADD:
      after = before + operand;
      break;
    case URMA_OPC_FSUB:
      after = before - operand;
      break;
    case URMA_OPC_FAND:
      after = before & operand;
      break;
    case URMA_OPC_FOR:
      after = before | operand;
      break;
    default:
      after = before ^ operand;
      break;
  }
  Process& remote = processes[static_cast<size_t>(owner)];
  const bool known =
      std::all_of(old.known.begin() + r.remote_at, old.known.begin() + r.remote_at + r.length,
                  [](bool k) { return k; });
  std::memcpy(&remote.memory[r.remote_at], &after, r.length);
  std::fill_n(remote.known.begin() + r.remote_at, r.length, known);
  Process& local = processes[static_cast<size_t>(process)];
  std::memcpy(&local.memory[r.at], &before, r.length);
  std::fill_n(local.known.begin() + r.at, r.length, known);
}

void Model::complete_send(int queue, const Request& r, std::vector<int> statuses) {
  const Object& q = objects[queue];
  const bool success = statuses[0] == URMA_CR_SUCCESS;
  if (success && !r.signalled) {
    objects[queue].silent.insert(r.user_ctx);
    return;
  }
  Due due;
  due.record.owner = queue;
  due.record.jetty = q.kind == Kind::kJetty;
  due.record.local_id = q.id;
  due.record.user_ctx = r.user_ctx;
  due.record.length = r.length;
  due.statuses = std::move(statuses);
  due.solicited = !success;
  add_due(q.jfc, due);
}

void Model::add_due(int slot, Due due) {
  Object& jfc = objects[slot];
  if (jfc.armed == 2 || (jfc.armed == 1 && due.solicited)) {
    jfc.armed = 0;
    jfc.events = 1;
  }
  jfc.due.push_back(std::move(due));
}

// Requests that wait for a queue that is gone or takes nothing any more.
void Model::fail_senders_to(int queue) {
  for (auto& [slot, sender] : objects) {
    if (sender.waiting.empty() || sender.state != URMA_JETTY_STATE_READY) continue;
    const int to = sender.waiting.front().target;
    if (to != queue && jfr_of(to) != queue) continue;
    for (const Waiting& one : std::exchange(sender.waiting, {})) {
      complete_send(slot, one.request, {URMA_CR_REM_ACCESS_ABORT_ERR});
    }
  }
}

void Model::resume_senders_to(int jfr) {
  for (auto& [slot, sender] : objects) {
    while (!sender.waiting.empty() && sender.state == URMA_JETTY_STATE_READY &&
           jfr_of(sender.waiting.front().target) == jfr && !objects[jfr].receives.empty()) {
      const Waiting one = sender.waiting.front();
      sender.waiting.pop_front();
      deliver(slot, one.request, one.payload, one.target);
      last_sender = slot;
      last_request = one.request;
    }
  }
}

}  // namespace urma_model
