// SPDX-License-Identifier: MIT
//
// Descriptors as programs exchange them, with arbitrary contents, passed to the calls that import,
// whose results are used; and texts given as EIDs.
#include <memory>
#include <vector>

#include "test/fuzz/api_rig.h"
#include "test/process/configs.h"

namespace {

using urma_fuzz::Bytes;
using urma_fuzz::patch;
using urma_fuzz::require;

constexpr uint32_t kBytes = 4096, kToken = 0x1234;

// Everything that outlives an input: the objects to import.
struct Rig {
  static Rig& the() {
    static Rig& rig = *new Rig;
    return rig;
  }
  Rig() {
    urma_jfc_cfg_t jfc_cfg = urma_test::jfc_config(512);
    jfc = urma_create_jfc(ctx, &jfc_cfg);
    urma_jfr_cfg_t jfr_cfg = urma_test::jfr_config(jfc, 64);
    jfr_cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
    jfr_cfg.token_value.token = kToken;
    jfr = urma_create_jfr(ctx, &jfr_cfg);
    local = add(memory + kBytes, URMA_ACCESS_LOCAL_ONLY);
    require(jfc != nullptr && jfr != nullptr, "queues");
  }
  urma_target_seg_t* add(char* data, uint32_t access) const {
    urma_seg_cfg_t cfg = urma_test::seg_config(data, kBytes, access);
    cfg.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
    cfg.token_value.token = kToken;
    urma_target_seg_t* segment = urma_register_seg(ctx, &cfg);
    require(segment != nullptr, "a segment");
    return segment;
  }

  urma_context_t* ctx = urma_fuzz::start_library();
  // What is imported, and what requests use here.
  char* memory = urma_fuzz::fenced_pages(2 * kBytes);
  urma_jfc_t* jfc;
  urma_jfr_t* jfr;
  urma_target_seg_t* local;
};

// Descriptors are on the heap and have the minimum size, to detect reads past the end.
class Import {
 public:
  // A message may end the access to a segment, so each input has a new one.
  explicit Import(Rig* rig)
      : rig_(rig),
        offered_(rig->add(rig->memory, URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC)) {
    urma_jfs_cfg_t cfg = {};
    cfg.depth = 64;
    cfg.trans_mode = URMA_TM_RM;
    cfg.max_sge = cfg.max_rsge = 1;
    cfg.jfc = rig->jfc;
    jfs_ = urma_create_jfs(rig->ctx, &cfg);
    require(jfs_ != nullptr, "a JFS");
  }

  void step(Bytes* in) {
    switch (in->below(6)) {
      case 0:
        return import_segment(in);
      case 1:
        return import_jfr(in);
      case 2:
        return import_jetty(in);
      case 3:
        return post(in);
      case 4:
        return read_text(in);
      default:
        poll();
    }
  }
  void finish() {
    urma_jfs_attr_t attr = {};
    attr.mask = JFS_STATE;
    attr.state = URMA_JETTY_STATE_ERROR;
    urma_modify_jfs(jfs_, &attr);
    poll();
    urma_cr_t record;
    while (urma_flush_jfs(jfs_, 1, &record) > 0) continue;
    require(urma_delete_jfs(jfs_) == URMA_SUCCESS, "a JFS that is flushed can be deleted");
    for (urma_target_seg_t* segment : segments_) {
      require(urma_unimport_seg(segment) == URMA_SUCCESS, "what is imported can be unimported");
    }
    for (urma_target_jetty_t* target : jfrs_) {
      require(urma_unimport_jfr(target) == URMA_SUCCESS, "what is imported can be unimported");
    }
    for (urma_target_jetty_t* target : jetties_) {
      require(urma_unimport_jetty(target) == URMA_SUCCESS, "what is imported can be unimported");
    }
    require(urma_unregister_seg(offered_) == URMA_SUCCESS,
            "what is registered can be unregistered");
  }

 private:
  static constexpr size_t kMost = 8;  // of each kind

  urma_token_t token(Bytes* in) { return {in->chance(224) ? kToken : in->take<uint32_t>()}; }
  void import_segment(Bytes* in) {
    if (segments_.size() == kMost) return;
    auto seg = std::make_unique<urma_seg_t>(offered_->seg);
    patch(in, seg.get());
    urma_token_t shown = token(in);
    urma_import_seg_flag_t flag = {};
    patch(in, &flag);
    const uint64_t addr = in->chance(32) ? in->take<uint64_t>() : 0;
    urma_target_seg_t* segment = urma_import_seg(rig_->ctx, seg.get(), &shown, addr, flag);
    if (segment != nullptr) segments_.push_back(segment);
  }
  void import_jfr(Bytes* in) {
    if (jfrs_.size() == kMost) return;
    auto rjfr = std::make_unique<urma_rjfr_t>();
    rjfr->jfr_id = rig_->jfr->jfr_id;
    rjfr->trans_mode = URMA_TM_RM;
    patch(in, rjfr.get());
    urma_token_t shown = token(in);
    urma_target_jetty_t* target = urma_import_jfr(rig_->ctx, rjfr.get(), &shown);
    if (target != nullptr) jfrs_.push_back(target);
  }
  void import_jetty(Bytes* in) {
    if (jetties_.size() == kMost) return;
    auto rjetty = std::make_unique<urma_rjetty_t>();
    rjetty->jetty_id = rig_->jfr->jfr_id;
    rjetty->trans_mode = URMA_TM_RM;
    rjetty->type = URMA_JETTY;
    patch(in, rjetty.get());
    urma_token_t shown = token(in);
    urma_target_jetty_t* target = urma_import_jetty(rig_->ctx, rjetty.get(), &shown);
    if (target != nullptr) jetties_.push_back(target);
  }
  template <typename T>
  T* one_of(Bytes* in, const std::vector<T*>& all) {
    return all.empty() ? nullptr : all[in->below(static_cast<uint32_t>(all.size()))];
  }
  // Local memory is valid; the targets of the imports need not be.
  void post(Bytes* in) {
    urma_target_jetty_t* target = one_of(in, in->chance(128) ? jfrs_ : jetties_);
    urma_target_seg_t* remote = one_of(in, segments_);
    if (target == nullptr || remote == nullptr) return;
    const uint32_t bytes = in->below(64);
    urma_sge_t local = {}, far = {};
    local.addr = reinterpret_cast<uint64_t>(rig_->memory) + kBytes + in->below(4032);
    far.addr = (in->chance(128) ? offered_->seg.ubva.va : remote->seg.ubva.va) + in->below(kBytes);
    local.len = far.len = bytes;
    local.tseg = rig_->local;
    far.tseg = remote;
    urma_jfs_wr_t wr = {};
    wr.tjetty = target;
    wr.flag.bs.complete_enable = 1;
    const uint32_t which = in->below(4);
    wr.opcode = which == 0 ? URMA_OPC_WRITE : which == 1 ? URMA_OPC_READ : URMA_OPC_SEND;
    if (which < 2) {
      wr.rw.src = {which == 0 ? &local : &far, 1};
      wr.rw.dst = {which == 0 ? &far : &local, 1};
    } else {
      wr.send.src = {&local, 1};
      if (which == 3) {
        wr.opcode = URMA_OPC_SEND_INVALIDATE;
        wr.send.tseg = remote;
      }
    }
    urma_jfs_wr_t* bad = nullptr;
    urma_post_jfs_wr(jfs_, &wr, &bad);
  }
  void poll() {
    urma_cr_t records[16];
    const int got = urma_poll_jfc(rig_->jfc, 16, records);
    require(got >= 0 && got <= 16, "a poll returns no more than fits");
  }
  void read_text(Bytes* in) {
    const std::string text = in->text('\n');
    urma_eid_t eid = {};
    static_cast<void>(urma_str_to_eid(text.c_str(), &eid));
  }

  Rig* rig_;
  urma_target_seg_t* const offered_;
  urma_jfs_t* jfs_;
  std::vector<urma_target_seg_t*> segments_;
  std::vector<urma_target_jetty_t*> jfrs_, jetties_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes in(data, size);
  Import import(&Rig::the());
  while (!in.empty()) import.step(&in);
  import.finish();
  return 0;
}
