// SPDX-License-Identifier: MIT
#include "test/model/generator.h"

#include <algorithm>

#include "test/model/shapes.h"

namespace urma_model {
namespace {

constexpr int kMutation = 4;     // percent of sensible choices that are replaced
constexpr size_t kContexts = 2;  // of a process
constexpr uint32_t kTokens[] = {0x11, 0x22};
constexpr uint32_t kWellKnownId = 77;
constexpr urma_opcode_t kUnknownOpcode = static_cast<urma_opcode_t>(0x33);

bool is_atomic(urma_opcode_t opcode) { return opcode >= URMA_OPC_CAS && opcode <= URMA_OPC_FXOR; }

bool posts_sends(Fn fn) {
  return fn == Fn::urma_post_jfs_wr || fn == Fn::urma_post_jetty_send_wr || fn == Fn::urma_write ||
         fn == Fn::urma_read || fn == Fn::urma_send;
}
bool posts_receives(Fn fn) {
  return fn == Fn::urma_post_jfr_wr || fn == Fn::urma_post_jetty_recv_wr || fn == Fn::urma_recv;
}
bool uses_config(Fn fn) {
  return fn == Fn::urma_modify_jfc || fn == Fn::urma_modify_jfr || fn == Fn::urma_get_tp_list;
}
// Whether it has unfinished requests, or will have them.
bool holds(const Object& o) {
  const bool sends = o.kind == Kind::kJfs || o.kind == Kind::kJetty;
  return sends && o.active && (!o.waiting.empty() || o.state == URMA_JETTY_STATE_SUSPENDED);
}
bool is_flat(Fn fn) {
  return fn == Fn::urma_write || fn == Fn::urma_read || fn == Fn::urma_send || fn == Fn::urma_recv;
}

}  // namespace

Generator::Generator(uint64_t seed, const Model* model) : random_(seed), model_(model) {
  mode_ = chance(60) ? URMA_TM_RM : chance(65) ? URMA_TM_RC : URMA_TM_UM;
  if (chance(8)) return;  // then nothing exists at first
  const bool jetties = mode_ == URMA_TM_RC || chance(60);
  const auto both = [this](Fn fn) {
    start_.push_back({fn, 0});
    start_.push_back({fn, 1});
  };
  for (const Fn fn :
       {Fn::urma_create_context, Fn::urma_create_jfce, Fn::urma_create_jfc, Fn::urma_create_jfr}) {
    both(fn);
  }
  both(jetties ? Fn::urma_create_jetty : Fn::urma_create_jfs);
  both(Fn::urma_register_seg);
  both(jetties ? Fn::urma_import_jetty : Fn::urma_import_jfr);
  both(Fn::urma_import_seg);
  if (mode_ == URMA_TM_RC && chance(70)) both(Fn::urma_bind_jetty);
  if (chance(50)) both(jetties ? Fn::urma_post_jetty_recv_wr : Fn::urma_post_jfr_wr);
}

bool Generator::propose_start(Call* call) {
  if (step_ == start_.size()) return false;
  calm_ = true;
  *call = call_of(start_[step_].first, start_[step_].second);
  calm_ = false;
  ++step_;
  return true;
}

Call Generator::propose() {
  const auto process = static_cast<int>(below(2));
  while (true) {
    const Fn fn = weighted(below(1 << 20));
    Call call = call_of(fn, process);
    const Kind on = shape_of(fn).on;
    const bool none = on != Kind::kNone && count(on, process) == 0;
    if (none && !chance(kMutation)) continue;
    if (fn == Fn::urma_create_context && count(Kind::kContext, process) >= kContexts) continue;
    return call;
  }
}

size_t Generator::count(Kind kind, int process) const {
  return static_cast<size_t>(
      std::count_if(model_->objects.begin(), model_->objects.end(), [=](const auto& entry) {
        return entry.second.kind == kind && entry.second.process == process;
      }));
}

int Generator::pick(Kind kind, int process) {
  std::vector<int> choices;
  for (const auto& [slot, object] : model_->objects) {
    if (object.kind == kind && object.process == process) choices.push_back(slot);
  }
  return choices.empty() ? kNull : choices[below(choices.size())];
}

Call Generator::call_of(Fn fn, int process) {
  const Shape& shape = shape_of(fn);
  Call call;
  call.fn = fn;
  call.process = process;
  const auto argument = [&](Kind kind, int null_percent) {
    if (kind == Kind::kNone || (!calm_ && chance(null_percent))) return kNull;
    return pick(kind, process);
  };
  call.on = argument(shape.on, kMutation / 2);
  call.other = argument(shape.other, shape.other == Kind::kToken ? 20 : kMutation);
  call.more = argument(shape.more, kMutation);
  call.extra = calm_ ? kNull : argument(shape.extra, 70);
  call.group = calm_ ? kNull : argument(shape.group, 75);
  const bool imports = shape.makes == Kind::kTarget || shape.makes == Kind::kImport;
  if (shape.pointers != 0 && !calm_ && chance(imports ? 4 * kMutation : kMutation)) {
    call.nulls = 1u << below(static_cast<uint64_t>(shape.pointers));
  }
  if (!shape.numbers.empty()) call.number = shape.numbers[calm_ ? 0 : below(shape.numbers.size())];
  if (!shape.values.empty()) call.value = shape.values[calm_ ? 0 : below(shape.values.size())];
  if (shape.makes != Kind::kNone) call.made = slots_++;
  if (shape.makes != Kind::kNone || uses_config(fn)) fill_config(&call);
  if (shape.makes == Kind::kTarget || shape.makes == Kind::kImport) fill_import(&call);
  if (posts_sends(fn) || posts_receives(fn)) fill_requests(&call);
  return call;
}

void Generator::fill_config(Call* call) {
  Config& c = call->config;
  const auto strange = [this] { return !calm_ && chance(kMutation); };
  c.mode = chance(85) || calm_ ? mode_ : one_of<uint32_t>({URMA_TM_RM, URMA_TM_RC, URMA_TM_UM});
  if (const Object* jfr = model_->find(call->more); jfr != nullptr) {
    c.mode = jfr->config.mode;
    c.order = jfr->config.order;
  }
  // A JFC needs room for all completions of its queues.
  const bool jfc = call->fn == Fn::urma_create_jfc || call->fn == Fn::urma_alloc_jfc;
  c.depth = one_of<uint32_t>({64, 64, 64, jfc ? 128u : 4u});
  c.policy = chance(60) ? URMA_TOKEN_NONE : URMA_TOKEN_PLAIN_TEXT;
  c.token = kTokens[below(2)];
  c.sge = one_of<uint32_t>({2, 2, 1, 0});
  c.inline_data = one_of<uint32_t>({64, 16, 0});
  c.rnr_retry = chance(75) ? URMA_TYPICAL_RNR_RETRY : 0;
  c.non_blocking = calm_ || chance(80);
  c.token_given = call->other != kNull;
  const bool registers = call->fn == Fn::urma_register_seg;
  const bool whole_page = registers && chance(30);
  c.length = whole_page ? 4096 : registers ? 256 : static_cast<uint32_t>(below(5));
  c.at =
      whole_page ? 4096 * static_cast<uint32_t>(below(2)) : 8 * static_cast<uint32_t>(below(900));
  if (registers) c.access = one_of<uint32_t>({14, 14, 14, 14, 6, 2, 1});
  if (registers && strange()) c.access = one_of<uint32_t>({4, 8, 9, 10});
  if (strange()) c.mode = one_of<uint32_t>({0, 3, 0xff});
  if (strange()) c.order = static_cast<uint32_t>(below(7));
  if (strange()) c.depth = one_of<uint32_t>({0, 70000});
  if (strange()) c.policy = 2;
  if (strange()) c.sge = 17;
  if (strange()) c.inline_data = 513;
  const Kind made = shape_of(call->fn).makes;
  const bool chooses = made == Kind::kJfr || made == Kind::kJetty;
  if (chooses && strange()) c.id = one_of<uint32_t>({kWellKnownId, kWellKnownId, 70000});
  if (strange()) c.share_jfr = false;
  if (strange()) c.token_given = !c.token_given;
}

// Often, if the owner checks it: few imports get more than one request through.
void Generator::mistake_token(Config* c) {
  if (chance(c->policy == URMA_TOKEN_NONE ? 4 : 35)) c->token ^= 0x100;
}

// What its owner would have reported.
void Generator::fill_import(Call* call) {
  Kind kind = shape_of(call->fn).other;
  if (call->number == URMA_JETTY_GROUP) kind = Kind::kGroup;
  const int owner = calm_ || chance(70) ? 1 - call->process : call->process;
  call->other = pick(kind, owner);
  const Object* original = model_->find(call->other);
  if (original == nullptr) return;
  Config& c = call->config;
  const Object* jfr = model_->find(original->jfr);
  c = original->config;
  if (jfr != nullptr) c.policy = jfr->config.policy;
  if (jfr != nullptr) c.token = jfr->config.token;
  if (kind == Kind::kSegment) {
    if (!calm_) mistake_token(&c);
    return;
  }
  if (kind == Kind::kGroup) c.mode = URMA_TM_RM;
  c.access = c.mode == URMA_TM_UM ? uint32_t{URMA_UTP} : one_of<uint32_t>({URMA_RTP, URMA_CTP});
  if (calm_) return;
  mistake_token(&c);
  if (chance(kMutation)) c.mode = one_of<uint32_t>({0, URMA_TM_RM, URMA_TM_RC, URMA_TM_UM});
  if (chance(kMutation)) c.order = static_cast<uint32_t>(below(6));
  if (chance(kMutation)) c.access = static_cast<uint32_t>(below(3));
  if (chance(kMutation)) c.policy = 2;
}

void Generator::place(int segment, uint32_t length, uint32_t* at) {
  const Object* found = model_->find(segment);
  if (found == nullptr) return;
  const Config& c = found->config;
  // Also just beyond the end, and not always word-aligned.
  const uint32_t room = c.length > length ? c.length - length : 0;
  *at = c.at + static_cast<uint32_t>(below(room / 8 + 1)) * 8;
  if (calm_) return;
  if (chance(kMutation)) *at = c.at + room + static_cast<uint32_t>(below(9));
  if (chance(kMutation)) *at += static_cast<uint32_t>(below(8));
  if (chance(kMutation / 2)) *at = c.at - std::min<uint32_t>(c.at, 1);
}

void Generator::fill_requests(Call* call) {
  call->requests = is_flat(call->fn) || chance(60) ? 1 : 1 + below(kRequests);
  for (size_t i = 0; i < call->requests; ++i) {
    Request& r = call->request[i];
    r = posts_sends(call->fn) ? send_request(*call) : receive_request(call->process);
    if (!is_flat(call->fn)) continue;
    r.opcode = call->fn == Fn::urma_write  ? URMA_OPC_WRITE
               : call->fn == Fn::urma_read ? URMA_OPC_READ
                                           : URMA_OPC_SEND;
    if (r.pieces != 1) r.length = 8;
    r.pieces = 1;
  }
  // Most lists have one target.
  for (size_t i = 1; i < call->requests; ++i) {
    if (chance(90)) call->request[i].target = call->request[0].target;
  }
}

Request Generator::send_request(const Call& call) {
  static constexpr urma_opcode_t kOpcodes[] = {
      URMA_OPC_SEND,      URMA_OPC_SEND,         URMA_OPC_SEND,  URMA_OPC_SEND_IMM,
      URMA_OPC_SEND_IMM,  URMA_OPC_WRITE,        URMA_OPC_WRITE, URMA_OPC_WRITE_IMM,
      URMA_OPC_READ,      URMA_OPC_READ,         URMA_OPC_CAS,   URMA_OPC_FADD,
      URMA_OPC_SWAP,      URMA_OPC_FSUB,         URMA_OPC_FAND,  URMA_OPC_FOR,
      URMA_OPC_FXOR,      URMA_OPC_WRITE_NOTIFY, URMA_OPC_NOP,   URMA_OPC_SEND_INVALIDATE,
      URMA_OPC_FLUSH_DMA, URMA_OPC_WRITE_ATOMIC};
  Request r;
  const Object* queue = model_->find(call.on);
  const bool datagram = queue != nullptr && queue->config.mode == URMA_TM_UM && !chance(8);
  r.opcode = kOpcodes[below(datagram ? 5 : std::size(kOpcodes))];
  if (chance(1)) r.opcode = kUnknownOpcode;
  r.user_ctx = user_ctx_++;
  r.signalled = chance(80);
  r.solicited = chance(30);
  r.fence = chance(30);
  r.target = chance(kMutation / 2) ? kNull : pick(Kind::kTarget, call.process);
  r.local = chance(kMutation / 2) ? kNull : pick(Kind::kSegment, call.process);
  r.length = one_of<uint32_t>({8, 8, 16, 33, 64, 200, 1, 0});
  if (is_atomic(r.opcode)) r.length = one_of<uint32_t>({4, 8, 8, 16, 3});
  if (r.opcode == URMA_OPC_WRITE_ATOMIC) r.length = one_of<uint32_t>({1, 2, 4, 8, 16, 3});
  const bool one_piece = is_atomic(r.opcode) || r.opcode == URMA_OPC_WRITE_ATOMIC;
  r.pieces = one_piece || chance(85) ? 1 : r.length == 0 ? 0 : chance(80) ? 2 : kTooMany;
  r.inlined = chance(15);
  r.operand = chance(50) ? 0 : random_();
  r.swap = random_();
  r.immediate = random_();
  place(r.local, r.length, &r.at);
  const Object* target =
      model_->find(queue != nullptr && queue->bound != kNull ? queue->bound : r.target);
  for (int attempt = 0; attempt < 4; ++attempt) {
    r.remote = pick(Kind::kImport, call.process);
    const Object* import = model_->find(r.remote);
    if (import != nullptr && target != nullptr &&
        import->original_process == target->original_process)
      break;
  }
  place(r.remote, r.length, &r.remote_at);
  if (const Object* import = model_->find(r.remote);
      r.opcode == URMA_OPC_WRITE_NOTIFY && import != nullptr) {
    r.swap = (import->config.at + 7) / 8 * 8 + 8 * below(4);
  }
  if (chance(kMutation / 2)) r.remote = kNull;
  return r;
}

Request Generator::receive_request(int process) {
  Request r;
  r.user_ctx = user_ctx_++;
  r.local = !calm_ && chance(kMutation / 2) ? kNull : pick(Kind::kSegment, process);
  r.length = calm_ ? 200 : one_of<uint32_t>({200, 200, 200, 64, 8, 0});
  r.pieces = calm_ || chance(85) ? 1 : r.length == 0 ? 0 : chance(80) ? 2 : kTooMany;
  place(r.local, r.length, &r.at);
  return r;
}

// -------------------------------------------------------------------------------------------------
// The end
// -------------------------------------------------------------------------------------------------

bool Generator::propose_end(Call* call) {
  for (int process = 0; process < 2; ++process) {
    if (!model_->processes[static_cast<size_t>(process)].event_is_held) continue;
    *call = {};
    call->fn = Fn::urma_ack_async_event;
    call->process = process;
    call->number = 1;
    return true;
  }
  for (const auto& [slot, object] : model_->objects) {
    if (object.kind != Kind::kNotifier || object.news.empty()) continue;
    *call = {};
    call->fn = Fn::urma_wait_notify;
    call->process = object.process;
    call->on = slot;
    call->number = 4;
    return true;
  }
  for (const auto& [slot, object] : model_->objects) {
    if (loosen(slot, object, call)) return true;
  }
  for (const Kind kind :
       {Kind::kJetty, Kind::kJfs, Kind::kTarget, Kind::kImport, Kind::kJfr, Kind::kJfc, Kind::kJfce,
        Kind::kSegment, Kind::kToken, Kind::kGroup, Kind::kNotifier, Kind::kContext}) {
    for (const auto& [slot, object] : model_->objects) {
      if (object.kind != kind) continue;
      *call = {};
      call->fn = end_of(object);
      call->process = object.process;
      call->on = slot;
      return true;
    }
  }
  return false;
}

// What prevents the end of an object; false if nothing does.
bool Generator::loosen(int slot, const Object& object, Call* call) {
  *call = {};
  call->process = object.process;
  call->on = slot;
  if (holds(object)) {
    call->fn = object.kind == Kind::kJfs ? Fn::urma_modify_jfs : Fn::urma_modify_jetty;
    call->value = object.kind == Kind::kJfs ? uint64_t{JFS_STATE} : uint64_t{JETTY_STATE};
    call->number = URMA_JETTY_STATE_RESET;
    return true;
  }
  if (object.kind == Kind::kJetty && object.bound != kNull) {
    for (const auto& [other, sender] : model_->objects) {
      if (holds(sender)) return false;
    }
    call->fn = object.in_background ? Fn::urma_unbind_jetty_async : Fn::urma_unbind_jetty;
    return true;
  }
  if (object.unacked == 0) return false;
  call->fn = Fn::urma_ack_jfc;
  call->number = object.unacked;
  return true;
}

Fn Generator::end_of(const Object& object) {
  switch (object.kind) {
    case Kind::kJetty:
      return object.active ? Fn::urma_delete_jetty : Fn::urma_free_jetty;
    case Kind::kJfs:
      return object.active ? Fn::urma_delete_jfs : Fn::urma_free_jfs;
    case Kind::kJfr:
      return object.active ? Fn::urma_delete_jfr : Fn::urma_free_jfr;
    case Kind::kJfc:
      return object.active ? Fn::urma_delete_jfc : Fn::urma_free_jfc;
    case Kind::kTarget:
      return object.imported_as_jfr ? Fn::urma_unimport_jfr
             : object.in_background ? Fn::urma_unimport_jetty_async
                                    : Fn::urma_unimport_jetty;
    case Kind::kImport:
      return Fn::urma_unimport_seg;
    case Kind::kJfce:
      return Fn::urma_delete_jfce;
    case Kind::kSegment:
      return Fn::urma_unregister_seg;
    case Kind::kToken:
      return Fn::urma_free_token_id;
    case Kind::kGroup:
      return Fn::urma_delete_jetty_grp;
    case Kind::kNotifier:
      return Fn::urma_delete_notifier;
    default:
      return Fn::urma_delete_context;
  }
}

}  // namespace urma_model
