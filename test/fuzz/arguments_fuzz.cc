// SPDX-License-Identifier: MIT
//
// Calls with arbitrary arguments except pointers: configurations, attributes, options, requests.
// Handles are NULL or existing objects. The only check is that everything created can be destroyed.
#include <cerrno>
#include <memory>
#include <vector>

#include "test/fuzz/api_rig.h"
#include "urma_ext.h"

namespace {

using urma_fuzz::Bytes;
using urma_fuzz::patch;
using urma_fuzz::require;

// Requests use one half locally and import the other: a request that copied a place onto itself
// would be an error of the program.
constexpr uint32_t kHalf = 8192, kBytes = 2 * kHalf;

struct Rig {
  static Rig& the() {
    static Rig& rig = *new Rig;
    return rig;
  }
  urma_context_t* ctx = urma_fuzz::start_library();
  char* memory = urma_fuzz::fenced_pages(kBytes);
};

// The values of a sensible program, before the input changes them.
template <typename Cfg>
Cfg usual() {
  Cfg cfg = {};
  cfg.depth = 16;
  if constexpr (requires { cfg.max_sge; }) {
    cfg.trans_mode = URMA_TM_RM;
    cfg.max_sge = 1;
  }
  return cfg;
}

template <typename T>
class Objects {
 public:
  static constexpr size_t kMost = 6;

  bool full() const { return all_.size() >= kMost; }
  void add(T* object) {
    if (object != nullptr) all_.push_back(object);
  }
  // Sometimes NULL.
  T* one(Bytes* in) const {
    if (all_.empty() || in->chance(8)) return nullptr;
    return all_[in->below(static_cast<uint32_t>(all_.size()))];
  }
  template <typename End>
  void end(const End& end) {
    for (T* object : all_) end(object);
    all_.clear();
  }

 private:
  std::vector<T*> all_;
};

class Program {
 public:
  explicit Program(Rig* rig) : rig_(rig), ctx_(rig->ctx) {
    require(ctx_->ref.atomic_cnt.load() == 1, "nothing remains of the previous input");
    make_jfc(nullptr);
    make_segment(nullptr, 0, &segments_);
    make_segment(nullptr, kHalf, &offered_);
  }

  void step(Bytes* in) {
    switch (in->below(16)) {
      case 0:
        return make_jfc(in);
      case 1:
        return make_jfs(in);
      case 2:
        return make_jfr(in);
      case 3:
        return make_jetty(in);
      case 4:
        return in->chance(128) ? make_segment(in, 0, &segments_)
                               : make_segment(in, kHalf, &offered_);
      case 5:
        return import(in);
      case 6:
        return modify(in);
      case 7:
        return set_option(in);
      case 8:
        return post_send(in);
      case 9:
        return post_receive(in);
      case 10:
        return bind(in);
      case 11:
        return control(in);
      case 12:
        return network(in);
      case 13:
        return look(in);
      case 14:
        return events(in);
      default:
        return poll(in);
    }
  }
  void finish() {
    jetties_.end([](urma_jetty_t* jetty) {
      urma_unbind_jetty(jetty);
      urma_jetty_attr_t attr = {};
      attr.mask = JETTY_STATE;
      attr.state = URMA_JETTY_STATE_RESET;
      urma_modify_jetty(jetty, &attr);
      require(urma_delete_jetty(jetty) == URMA_SUCCESS, "a jetty can be deleted");
    });
    jfss_.end([](urma_jfs_t* jfs) {
      urma_jfs_attr_t attr = {};
      attr.mask = JFS_STATE;
      attr.state = URMA_JETTY_STATE_RESET;
      urma_modify_jfs(jfs, &attr);
      require(urma_delete_jfs(jfs) == URMA_SUCCESS, "a JFS can be deleted");
    });
    targets_.end([](urma_target_jetty_t* target) {
      require(urma_unimport_jetty(target) == URMA_SUCCESS, "a target can be unimported");
    });
    jfrs_.end([](urma_jfr_t* jfr) {
      require(urma_delete_jfr(jfr) == URMA_SUCCESS, "a JFR can be deleted");
    });
    jfcs_.end([](urma_jfc_t* jfc) {
      require(urma_delete_jfc(jfc) == URMA_SUCCESS, "a JFC can be deleted");
    });
    jfces_.end([](urma_jfce_t* jfce) {
      require(urma_delete_jfce(jfce) == URMA_SUCCESS, "a JFCE can be deleted");
    });
    imports_.end([](urma_target_seg_t* segment) {
      require(urma_unimport_seg(segment) == URMA_SUCCESS, "a segment can be unimported");
    });
    const auto unregister = [](urma_target_seg_t* segment) {
      require(urma_unregister_seg(segment) == URMA_SUCCESS, "a segment can be unregistered");
    };
    segments_.end(unregister);
    offered_.end(unregister);
    tokens_.end([](urma_token_id_t* token) {
      require(urma_free_token_id(token) == URMA_SUCCESS, "a token id can be freed");
    });
  }

 private:
  void make_jfc(Bytes* in) {
    if (jfcs_.full()) return;
    auto cfg = usual<urma_jfc_cfg_t>();
    cfg.depth = 256;
    if (in != nullptr) {
      if (in->chance(64)) jfces_.add(jfces_.full() ? nullptr : urma_create_jfce(ctx_));
      patch(in, &cfg);
      cfg.jfce = jfces_.one(in);
    }
    jfcs_.add(urma_create_jfc(ctx_, &cfg));
  }
  urma_jfs_cfg_t jfs_cfg(Bytes* in) {
    auto cfg = usual<urma_jfs_cfg_t>();
    cfg.max_rsge = 1;
    patch(in, &cfg);
    cfg.jfc = jfcs_.one(in);
    return cfg;
  }
  void make_jfs(Bytes* in) {
    if (jfss_.full()) return;
    urma_jfs_cfg_t cfg = jfs_cfg(in);
    jfss_.add(urma_create_jfs(ctx_, &cfg));
  }
  void make_jfr(Bytes* in) {
    if (jfrs_.full()) return;
    auto cfg = usual<urma_jfr_cfg_t>();
    patch(in, &cfg);
    cfg.jfc = jfcs_.one(in);
    jfrs_.add(urma_create_jfr(ctx_, &cfg));
  }
  void make_jetty(Bytes* in) {
    if (jetties_.full()) return;
    urma_jetty_cfg_t cfg = {};
    patch(in, &cfg);
    cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
    cfg.jfs_cfg = jfs_cfg(in);
    cfg.shared.jfr = jfrs_.one(in);
    cfg.shared.jfc = in->chance(64) ? jfcs_.one(in) : nullptr;
    cfg.jetty_grp = nullptr;
    jetties_.add(urma_create_jetty(ctx_, &cfg));
  }
  void make_segment(Bytes* in, uint32_t half, Objects<urma_target_seg_t>* into) {
    if (into->full()) return;
    urma_seg_cfg_t cfg = {};
    cfg.flag.bs.access = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;
    uint32_t at = 0, bytes = kHalf;
    if (in != nullptr) {
      if (in->chance(64)) tokens_.add(tokens_.full() ? nullptr : urma_alloc_token_id(ctx_));
      patch(in, &cfg);
      at = in->below(kHalf);
      bytes = in->below(kHalf - at + 1);
      cfg.token_id = in->chance(64) ? tokens_.one(in) : nullptr;
    }
    cfg.va = reinterpret_cast<uint64_t>(rig_->memory) + half + at;
    cfg.len = bytes;
    into->add(urma_register_seg(ctx_, &cfg));
  }
  void import(Bytes* in) {
    urma_token_t token = {in->take<uint8_t>()};
    if (in->chance(128)) {
      const urma_target_seg_t* segment = offered_.one(in);
      if (segment == nullptr || imports_.full()) return;
      urma_seg_t seg = segment->seg;
      imports_.add(urma_import_seg(ctx_, in->chance(8) ? nullptr : &seg,
                                   in->chance(8) ? nullptr : &token, 0, {}));
      return;
    }
    if (targets_.full()) return;
    urma_rjetty_t remote = {};
    remote.trans_mode = URMA_TM_RM;
    remote.type = URMA_JETTY;
    if (const urma_jetty_t* jetty = jetties_.one(in); jetty != nullptr) {
      remote.jetty_id = jetty->jetty_id;
      remote.trans_mode = jetty->jetty_cfg.jfs_cfg.trans_mode;
    }
    patch(in, &remote);
    targets_.add(urma_import_jetty(ctx_, &remote, &token));
  }
  void modify(Bytes* in) {
    const uint32_t which = in->below(4);
    if (which == 0) {
      urma_jfs_attr_t attr = {};
      patch(in, &attr);
      urma_modify_jfs(jfss_.one(in), &attr);
    } else if (which == 1) {
      urma_jfr_attr_t attr = {};
      patch(in, &attr);
      urma_modify_jfr(jfrs_.one(in), &attr);
    } else if (which == 2) {
      urma_jetty_attr_t attr = {};
      patch(in, &attr);
      urma_modify_jetty(jetties_.one(in), &attr);
    } else {
      urma_jfc_attr_t attr = {};
      patch(in, &attr);
      urma_modify_jfc(jfcs_.one(in), &attr);
    }
  }
  // The value has exactly as many bytes as the call is told, on the heap.
  void set_option(Bytes* in) {
    const uint64_t option = in->chance(192) ? in->take<uint16_t>() : in->take<uint64_t>();
    const auto given = in->some(64);
    std::vector<uint8_t> value(given.begin(), given.end());
    const auto bytes = static_cast<uint32_t>(value.size());
    const bool set = in->chance(128);
    const auto call = [&](auto* object, auto setter, auto getter) {
      static_cast<void>(set ? setter(object, option, value.data(), bytes)
                            : getter(object, option, value.data(), bytes));
    };
    switch (in->below(4)) {
      case 0:
        return call(jfcs_.one(in), urma_set_jfc_opt, urma_get_jfc_opt);
      case 1:
        return call(jfss_.one(in), urma_set_jfs_opt, urma_get_jfs_opt);
      case 2:
        return call(jfrs_.one(in), urma_set_jfr_opt, urma_get_jfr_opt);
      default:
        return call(jetties_.one(in), urma_set_jetty_opt, urma_get_jetty_opt);
    }
  }
  urma_sge_t place(Bytes* in, bool remote) {
    urma_sge_t sge = {};
    sge.tseg = remote ? imports_.one(in) : segments_.one(in);
    sge.addr = reinterpret_cast<uint64_t>(rig_->memory) + (remote ? kHalf : 0) + in->below(kHalf);
    sge.len = in->below(256);
    if (in->chance(16)) sge.addr = in->take<uint64_t>();
    if (in->chance(16)) sge.len = in->take<uint32_t>();
    return sge;
  }
  // Local memory is accessed only after its segment was checked, except for inline data.
  void post_send(Bytes* in) {
    urma_sge_t here[2] = {place(in, false), place(in, false)};
    urma_sge_t there[2] = {place(in, true), place(in, true)};
    urma_jfs_wr_t wr = {};
    const auto opcode = in->take<uint8_t>();
    std::memcpy(&wr.opcode, &opcode, sizeof(opcode));
    wr.flag.value = in->take<uint32_t>();
    wr.flag.bs.inline_flag = 0;
    wr.tjetty = targets_.one(in);
    wr.user_ctx = 1;
    const bool atomic = opcode >= URMA_OPC_CAS && opcode <= URMA_OPC_FXOR;
    uint64_t operands[4] = {};
    if (atomic) {
      wr.cas.src = &here[0];
      wr.cas.dst = &there[0];
      if (here[0].len > 8) {
        wr.cas.cmp_addr = reinterpret_cast<uint64_t>(&operands[0]);
        wr.cas.swap_addr = reinterpret_cast<uint64_t>(&operands[2]);
      }
    } else if (opcode >= URMA_OPC_SEND && opcode <= URMA_OPC_SEND_INVALIDATE) {
      wr.send.src = {here, in->below(3)};
      wr.send.tseg = imports_.one(in);
    } else {
      wr.rw.src = {here, in->below(3)};
      wr.rw.dst = {there, in->below(3)};
      if (opcode == URMA_OPC_READ) std::swap(wr.rw.src, wr.rw.dst);
    }
    urma_jfs_wr_t* bad = nullptr;
    if (in->chance(128)) {
      urma_post_jfs_wr(jfss_.one(in), &wr, &bad);
    } else {
      urma_post_jetty_send_wr(jetties_.one(in), &wr, &bad);
    }
  }
  void post_receive(Bytes* in) {
    urma_sge_t here[2] = {place(in, false), place(in, false)};
    urma_jfr_wr_t wr = {};
    wr.src = {here, in->below(3)};
    urma_jfr_wr_t* bad = nullptr;
    if (in->chance(128)) {
      urma_post_jfr_wr(jfrs_.one(in), &wr, &bad);
    } else {
      urma_post_jetty_recv_wr(jetties_.one(in), &wr, &bad);
    }
  }
  void bind(Bytes* in) {
    urma_jetty_t* jetty = jetties_.one(in);
    if (in->chance(160)) {
      urma_bind_jetty(jetty, targets_.one(in));
    } else {
      urma_unbind_jetty(jetty);
    }
  }
  void control(Bytes* in) {
    std::vector<uint8_t> room(64);
    urma_user_ctl_in_t given = {};
    urma_user_ctl_out_t taken = {};
    given.opcode = in->chance(192) ? in->below(16) : in->take<uint32_t>();
    given.addr = taken.addr = reinterpret_cast<uint64_t>(room.data());
    given.len = taken.len = in->below(65);
    urma_user_ctl(ctx_, &given, &taken);
    const auto option = in->take<uint8_t>();
    urma_opt_name_t name = {};
    std::memcpy(&name, &option, sizeof(option));
    urma_set_context_opt(ctx_, name, room.data(), in->below(65));
  }
  void network(Bytes* in) {
    urma_net_addr_t address = {};
    urma_eid_t eid = ctx_->eid;
    patch(in, &address);
    patch(in, &eid);
    uint8_t mac[URMA_MAC_BYTES];
    urma_get_eid_by_ip(ctx_, &address, &eid);
    urma_get_ip_by_eid(ctx_, &eid, &address);
    urma_get_dmac(ctx_, &address, mac);
    urma_get_tp_cfg_t filter = {};
    filter.local_eid = filter.peer_eid = ctx_->eid;
    patch(in, &filter);
    uint32_t count = in->below(5);
    std::vector<urma_tp_info_t> channels(count);
    urma_get_tp_list(ctx_, &filter, &count, channels.data());
    urma_tp_attr_value_t value = {};
    patch(in, &value);
    urma_set_tp_attr(ctx_, in->take<uint64_t>(), in->take<uint8_t>(), in->take<uint32_t>(), &value);
  }
  void look(Bytes* in) {
    urma_jfs_cfg_t jfs = {};
    urma_jfs_attr_t jfs_attr = {};
    urma_query_jfs(jfss_.one(in), &jfs, &jfs_attr);
    urma_jfr_cfg_t jfr = {};
    urma_jfr_attr_t jfr_attr = {};
    urma_query_jfr(jfrs_.one(in), &jfr, &jfr_attr);
    std::vector<urma_ext_part_t> parts(in->below(5));
    auto count = static_cast<uint32_t>(parts.size());
    urma_ext_query_segment(in->chance(128) ? segments_.one(in) : imports_.one(in), parts.data(),
                           &count);
    const auto reason = in->take<uint32_t>();
    urma_ext_reason_t asked = {};
    std::memcpy(&asked, &reason, sizeof(asked));
    static_cast<void>(urma_ext_reason_text(asked));
    static_cast<void>(urma_get_tpn(jetties_.one(in)));
  }
  void events(Bytes* in) {
    urma_rearm_jfc(jfcs_.one(in), in->chance(128));
    urma_jfc_t* raised[4] = {};
    const int count = urma_wait_jfc(jfces_.one(in), in->below(5), 0, raised);
    require(count <= 4, "a wait returns no more than fits");
    for (int i = 0; i < count; ++i) {
      uint32_t one = 1;
      urma_ack_jfc(&raised[i], &one, 1);
    }
    urma_async_event_t event = {};
    if (urma_get_async_event(ctx_, &event) == URMA_SUCCESS) urma_ack_async_event(&event);
  }
  void poll(Bytes* in) {
    std::vector<urma_cr_t> records(in->below(9));
    const auto room = static_cast<int>(records.size());
    const uint32_t which = in->below(3);
    const int got = which == 0   ? urma_poll_jfc(jfcs_.one(in), room, records.data())
                    : which == 1 ? urma_flush_jfs(jfss_.one(in), room, records.data())
                                 : urma_flush_jetty(jetties_.one(in), room, records.data());
    require(got <= room, "no more records are returned than fit");
  }

  Rig* rig_;
  urma_context_t* ctx_;
  Objects<urma_jfce_t> jfces_;
  Objects<urma_jfc_t> jfcs_;
  Objects<urma_jfs_t> jfss_;
  Objects<urma_jfr_t> jfrs_;
  Objects<urma_jetty_t> jetties_;
  Objects<urma_token_id_t> tokens_;
  Objects<urma_target_seg_t> segments_, offered_, imports_;
  Objects<urma_target_jetty_t> targets_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes in(data, size);
  Program program(&Rig::the());
  while (!in.empty()) program.step(&in);
  program.finish();
  return 0;
}
