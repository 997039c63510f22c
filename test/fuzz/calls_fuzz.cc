// SPDX-License-Identifier: MIT
//
// Sequences of calls of every function of urma_api.h, legal and illegal, in two processes, against
// the model of the contract: the input spells out what test/model draws from a seed. Calls that the
// contract leaves undefined are left out.
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "test/fuzz/bytes.h"
#include "test/fuzz/runtime_dir.h"
#include "test/model/runner.h"
#include "test/model/shapes.h"

namespace urma_model {
namespace {

using urma_fuzz::Bytes;
using urma_fuzz::require;

constexpr size_t kLongest = 60;  // calls per sequence

bool is_atomic(urma_opcode_t opcode) { return opcode >= URMA_OPC_CAS && opcode <= URMA_OPC_FXOR; }

class Decoder {
 public:
  explicit Decoder(Bytes* in)
      : in_(*in), mode_(one_of<uint32_t>({URMA_TM_RM, URMA_TM_RC, URMA_TM_UM})) {}

  std::vector<Call> decode() {
    std::vector<Call> calls;
    for (const Fn fn : kStart) {
      for (int process = 0; process < 2; ++process) calls.push_back(call_of(fn, process));
    }
    while (!in_.empty() && calls.size() < kLongest) {
      const auto process = static_cast<int>(in_.below(2));
      calls.push_back(call_of(weighted(in_.take<uint16_t>()), process));
    }
    return calls;
  }

 private:
  // Without these most of the others are refused.
  static constexpr Fn kStart[] = {Fn::urma_create_context, Fn::urma_create_jfce,
                                  Fn::urma_create_jfc, Fn::urma_create_jfr, Fn::urma_register_seg};

  struct Made {
    int slot;
    Kind kind;
    int process;
    Config config;
    int jfr;
  };

  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[in_.below(static_cast<uint32_t>(choices.size()))];
  }
  int pick(Kind kind, int process) {
    std::vector<int> choices;
    for (const Made& one : made_) {
      if (one.kind == kind && one.process == process) choices.push_back(one.slot);
    }
    if (choices.empty() || in_.chance(4)) return kNull;
    return choices[in_.below(static_cast<uint32_t>(choices.size()))];
  }
  const Made* find(int slot) const {
    for (const Made& one : made_) {
      if (one.slot == slot) return &one;
    }
    return nullptr;
  }

  Call call_of(Fn fn, int process) {
    const Shape& shape = shape_of(fn);
    Call call;
    call.fn = fn;
    call.process = process;
    const auto part = [&](Kind kind) { return kind == Kind::kNone ? kNull : pick(kind, process); };
    call.on = part(shape.on);
    call.other = part(shape.other);
    call.more = part(shape.more);
    if (in_.chance(64)) call.extra = part(shape.extra);
    if (in_.chance(64)) call.group = part(shape.group);
    if (shape.pointers != 0 && in_.chance(10)) {
      call.nulls = 1u << in_.below(static_cast<uint32_t>(shape.pointers));
    }
    const auto listed = [&](const auto& list) {
      return list[in_.below(static_cast<uint32_t>(list.size()))];
    };
    if (!shape.numbers.empty()) call.number = listed(shape.numbers);
    if (!shape.values.empty()) call.value = listed(shape.values);
    fill_config(&call);
    if (shape.makes == Kind::kTarget || shape.makes == Kind::kImport) fill_import(&call);
    fill_requests(&call);
    if (shape.makes != Kind::kNone && next_ < static_cast<int>(kSlots)) {
      call.made = next_++;
      made_.push_back({call.made, shape.makes, process, call.config, call.more});
    }
    return call;
  }

  void fill_config(Call* call) {
    Config& c = call->config;
    const bool jfc = call->fn == Fn::urma_create_jfc || call->fn == Fn::urma_alloc_jfc;
    const bool registers = call->fn == Fn::urma_register_seg;
    c.mode = mode_;
    if (const Made* jfr = find(call->more); jfr != nullptr) {
      c.mode = jfr->config.mode;
      c.order = jfr->config.order;
    }
    c.depth = one_of<uint32_t>({64, 64, 64, jfc ? 128u : 4u});
    c.policy = one_of<uint32_t>({URMA_TOKEN_NONE, URMA_TOKEN_PLAIN_TEXT});
    c.token = one_of<uint32_t>({0x11, 0x22});
    c.sge = one_of<uint32_t>({2, 1, 0});
    c.inline_data = one_of<uint32_t>({64, 16, 0});
    c.rnr_retry = one_of<uint32_t>({URMA_TYPICAL_RNR_RETRY, URMA_TYPICAL_RNR_RETRY, 0});
    c.token_given = call->other != kNull;
    c.length = registers ? one_of<uint32_t>({256, 4096}) : in_.below(5);
    c.at = c.length == 4096 ? 4096 * in_.below(2) : 8 * in_.below(900);
    if (registers) c.access = one_of<uint32_t>({14, 14, 6, 2, 1, 4, 8, 9, 10});
    if (!in_.chance(16)) return;
    switch (in_.below(8)) {
      case 0:
        c.mode = in_.below(6);
        break;
      case 1:
        c.order = in_.below(7);
        break;
      case 2:
        c.depth = one_of<uint32_t>({0, 70000, UINT32_MAX});
        break;
      case 3:
        c.policy = 2;
        break;
      case 4:
        c.sge = 17;
        break;
      case 5:
        c.inline_data = 513;
        break;
      case 6:
        // The other kinds have no id to choose.
        if (const Kind made = shape_of(call->fn).makes;
            made == Kind::kJfr || made == Kind::kJetty) {
          c.id = one_of<uint32_t>({77, 70000});
        }
        break;
      default:
        c.non_blocking = false;
    }
  }
  // What its owner would have reported, or almost.
  void fill_import(Call* call) {
    Kind kind = shape_of(call->fn).other;
    if (call->number == URMA_JETTY_GROUP) kind = Kind::kGroup;
    call->other = pick(kind, static_cast<int>(in_.below(2)));
    const Made* original = find(call->other);
    if (original == nullptr) return;
    Config& c = call->config;
    c = original->config;
    if (const Made* jfr = find(original->jfr); jfr != nullptr) {
      c.policy = jfr->config.policy;
      c.token = jfr->config.token;
    }
    if (in_.chance(32)) c.token ^= 0x100;
    if (kind == Kind::kSegment) return;
    if (kind == Kind::kGroup) c.mode = URMA_TM_RM;
    c.access = c.mode == URMA_TM_UM ? uint32_t{URMA_UTP} : one_of<uint32_t>({URMA_RTP, URMA_CTP});
    if (in_.chance(16)) c.mode = one_of<uint32_t>({0, URMA_TM_RM, URMA_TM_RC, URMA_TM_UM});
    if (in_.chance(16)) c.access = in_.below(3);
  }
  void place(int segment, uint32_t length, uint32_t* at) {
    const Made* found = find(segment);
    if (found == nullptr) return;
    const uint32_t room = found->config.length > length ? found->config.length - length : 0;
    *at = found->config.at + in_.below(room / 8 + 1) * 8;
    if (in_.chance(16)) *at = found->config.at + room + in_.below(9);
    if (in_.chance(16)) *at += in_.below(8);
  }
  void fill_requests(Call* call) {
    const Fn fn = call->fn;
    const bool flat =
        fn == Fn::urma_write || fn == Fn::urma_read || fn == Fn::urma_send || fn == Fn::urma_recv;
    const bool list = fn == Fn::urma_post_jfs_wr || fn == Fn::urma_post_jetty_send_wr ||
                      fn == Fn::urma_post_jfr_wr || fn == Fn::urma_post_jetty_recv_wr;
    if (!flat && !list) return;
    call->requests = flat ? 1 : 1 + in_.below(kRequests);
    for (size_t i = 0; i < call->requests; ++i) {
      Request& r = call->request[i];
      r = request(*call);
      if (flat) r.pieces = 1;
      if (fn == Fn::urma_write) r.opcode = URMA_OPC_WRITE;
      if (fn == Fn::urma_read) r.opcode = URMA_OPC_READ;
      if (fn == Fn::urma_send || fn == Fn::urma_recv) r.opcode = URMA_OPC_SEND;
    }
  }
  Request request(const Call& call) {
    static constexpr urma_opcode_t kOpcodes[] = {
        URMA_OPC_SEND,        URMA_OPC_SEND_IMM,     URMA_OPC_WRITE,
        URMA_OPC_WRITE_IMM,   URMA_OPC_READ,         URMA_OPC_CAS,
        URMA_OPC_FADD,        URMA_OPC_SWAP,         URMA_OPC_FSUB,
        URMA_OPC_FAND,        URMA_OPC_FOR,          URMA_OPC_FXOR,
        URMA_OPC_NOP,         URMA_OPC_WRITE_NOTIFY, URMA_OPC_SEND_INVALIDATE,
        URMA_OPC_WRITE_ATOMIC};
    Request r;
    r.opcode = kOpcodes[in_.below(std::size(kOpcodes))];
    r.user_ctx = user_ctx_++;
    r.signalled = !in_.chance(48);
    r.solicited = in_.chance(64);
    r.fence = in_.chance(64);
    r.inlined = in_.chance(32);
    r.target = pick(Kind::kTarget, call.process);
    r.local = pick(Kind::kSegment, call.process);
    r.remote = pick(Kind::kImport, call.process);
    r.length = one_of<uint32_t>({8, 16, 33, 64, 200, 1, 0});
    const bool atomic = is_atomic(r.opcode) || r.opcode == URMA_OPC_WRITE_ATOMIC;
    if (atomic) r.length = one_of<uint32_t>({4, 8, 16, 3});
    if (!atomic && in_.chance(48)) r.pieces = r.length == 0 ? 0 : one_of<uint8_t>({2, kTooMany});
    r.operand = in_.chance(128) ? 0 : in_.take<uint16_t>();
    r.swap = in_.take<uint16_t>();
    r.immediate = in_.take<uint16_t>();
    place(r.local, r.length, &r.at);
    place(r.remote, r.length, &r.remote_at);
    if (const Made* import = find(r.remote);
        r.opcode == URMA_OPC_WRITE_NOTIFY && import != nullptr) {
      r.swap = (import->config.at + 7) / 8 * 8 + 8 * in_.below(4);
    }
    return r;
  }

  Bytes& in_;
  const uint32_t mode_;
  std::vector<Made> made_;
  int next_ = 1;
  uint64_t user_ctx_ = 1;
};

void* map_memory(size_t bytes, int sharing) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "memory");
  return memory;
}

// The fuzzer's counters are in memory of each module, at the address of its first load: a module
// that urma_uninit unloads may be loaded elsewhere, with other memory at the old address.
void keep_modules() {
  std::vector<std::string> paths;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        const std::string path = info->dlpi_name;
        if (path.find("/liburma-") != std::string::npos) {
          static_cast<std::vector<std::string>*>(found)->push_back(path);
        }
        return 0;
      },
      &paths);
  require(!paths.empty(), "the library has loaded its modules");
  for (const std::string& path : paths) {
    require(::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != nullptr, "a module");
  }
}

// This process and another one, which live as long as the fuzzer.
Runner& runner() {
  static Runner* running = [] {
    urma_fuzz::enter_runtime_dir();
    ::setenv("URMA_DEVICE_ALIAS", "bonding_dev_0=urma_shm0", 1);
    auto* arena = static_cast<uint8_t*>(map_memory(kArena, MAP_PRIVATE));
    auto* report = static_cast<Report*>(map_memory(sizeof(Report), MAP_PRIVATE));
    static auto ends = urma_test::Channel::pair();
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ends.first = urma_test::Channel();
      try {
        serve(ends.second, arena);
      } catch (const std::exception&) {
        // The fuzzer is gone.
      }
      ::_exit(0);
    }
    ends.second = urma_test::Channel();
    auto* runner = new Runner(&ends.first, arena, report);
    keep_modules();
    return runner;
  }();
  return *running;
}

}  // namespace
}  // namespace urma_model

// Before the fuzzer has threads: one of them could hold a lock of the sanitizer during the fork,
// which no one would release in the child.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  urma_model::runner();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  urma_model::Runner& runner = urma_model::runner();
  urma_fuzz::Bytes in(data, size);
  const auto calls = urma_model::Decoder(&in).decode();
  if (!runner.replay(1, calls)) {
    std::fputs(runner.text().c_str(), stderr);
    urma_fuzz::require(false, "the contract allows each answer");
  }
  return 0;
}
