// SPDX-License-Identifier: MIT
#include "test/unit/shm_harness.h"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "jetty/device_limits.h"
#include "jetty/ops.h"
#include "test/process/configs.h"

namespace urma::shm {

ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

urma_sge_t piece(urma_target_seg_t* segment, const void* data, uint32_t bytes) {
  urma_sge_t sge = {};
  sge.addr = reinterpret_cast<uint64_t>(data);
  sge.len = bytes;
  sge.tseg = segment;
  return sge;
}

Pages::Pages(size_t bytes)
    : data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
      bytes_(bytes) {
  if (data_ == MAP_FAILED) throw std::runtime_error("no memory");
}

Host::Host() {
  core::settings().load();
  service_.start();
  service_.run(
      [this] { runtime_ = std::make_unique<core::ProcessRuntime>(service_, core::settings(), 0); });
}

Host::~Host() {
  service_.run([this] { runtime_.reset(); });
  service_.stop();
}

void Host::settle() {
  for (int i = 0; i < 3; ++i) service_.run([] {});
}

Pause::Pause(Host& host) {
  host.service().post([state = state_] {
    state->held = true;
    state->over.wait(false);
  });
  while (!state_->held) std::this_thread::yield();
}

Node::Node() {
  ops_ = make_ops(kProvider);
  add_post_ops<Sender, Receiver>(&ops_);
  static Runtime* current;
  current = &runtime();
  urma_host table = *host();
  table.service = service_of_nodes ? service_of_nodes(service()) : &service();
  table.pages = pages_of_nodes;
  table.runtime = []() -> Runtime* { return current; };
  transport_ = std::make_unique<CountingTransport>(kProvider, table);
  const auto eids = static_cast<uint32_t>(runtime().eids().size());
  context_ = std::make_unique<Context>(transport_.get(), software_device(kProvider, eids), &device_,
                                       /*index=*/0);
  context_->ops = &ops_;
}

Node::~Node() {
  while (!made_.empty()) end(made_.back().first);
  context_.reset();
  transport_->stop();
}

urma_jfce_t* Node::make_jfce() { return keep(ops_.create_jfce(context_.get()), ops_.delete_jfce); }

urma_jfc_t* Node::make_jfc(bool lock_free, urma_jfce_t* jfce) {
  urma_jfc_cfg_t cfg = urma_test::jfc_config(1024, jfce);
  cfg.flag.bs.lock_free = lock_free;
  return keep(ops_.create_jfc(context_.get(), &cfg), ops_.delete_jfc);
}

urma_jfs_t* Node::make_jfs(urma_jfc_t* jfc, uint32_t depth, bool lock_free) {
  urma_jfs_cfg_t cfg = {};
  cfg.depth = depth;
  cfg.flag.bs.lock_free = lock_free;
  cfg.trans_mode = URMA_TM_RM;
  cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.jfc = jfc;
  return keep(ops_.create_jfs(context_.get(), &cfg), ops_.delete_jfs);
}

urma_jfr_t* Node::make_jfr(urma_jfc_t* jfc, urma_transport_mode_t mode) {
  urma_jfr_cfg_t cfg = {};
  cfg.depth = 256;
  cfg.trans_mode = mode;
  cfg.jfc = jfc;
  return keep(ops_.create_jfr(context_.get(), &cfg), ops_.delete_jfr);
}

urma_target_seg_t* Node::add(void* data, uint64_t bytes, uint32_t access) {
  if (token_id_ == nullptr) {
    token_id_ = keep(ops_.alloc_token_id(context_.get()), ops_.free_token_id);
  }
  urma_seg_cfg_t cfg = urma_test::seg_config(data, bytes, access);
  cfg.token_id = token_id_;
  urma_target_seg_t* segment = ops_.register_seg(context_.get(), &cfg);
  if (segment == nullptr) return nullptr;
  // The fields that the library sets.
  segment->seg.ubva = {context_->eid, context_->uasid, cfg.va};
  segment->seg.len = bytes;
  segment->seg.token_id = token_id_->token_id;
  return keep(segment, ops_.unregister_seg);
}

urma_target_jetty_t* Node::import(const urma_jfr_id_t& id) {
  urma_rjfr_t jfr = urma_test::remote_jfr(id);
  urma_token_t token = {};
  return keep(ops_.import_jfr(context_.get(), &jfr, &token), ops_.unimport_jfr);
}

urma_target_seg_t* Node::try_import(urma_seg_t segment, urma_import_seg_flag_t flag) {
  urma_token_t token = {};
  urma_target_seg_t* imported = ops_.import_seg(context_.get(), &segment, &token, 0, flag);
  return imported != nullptr ? keep(imported, ops_.unimport_seg) : nullptr;
}

urma_target_seg_t* Node::import(const urma_seg_t& segment) { return made(try_import(segment)); }

urma_target_seg_t* Node::import_mapped(const urma_seg_t& segment, uint32_t access) {
  urma_import_seg_flag_t flag = {};
  flag.bs.mapping = URMA_SEG_MAPPED;
  flag.bs.access = access;
  return made(try_import(segment, flag));
}

void Node::end(const void* object) {
  auto found = std::find_if(made_.begin(), made_.end(),
                            [&](const auto& entry) { return entry.first == object; });
  const std::function<void()> end_it = found->second;
  made_.erase(found);
  end_it();
}

urma_status_t Node::send(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from,
                         uint64_t user_ctx, bool signalled) {
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_SEND;
  wr.send.src = {&from, 1};
  return post(jfs, to, &wr, user_ctx, signalled);
}

urma_status_t Node::read(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from, urma_sge_t into,
                         uint64_t user_ctx) {
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_READ;
  wr.rw.src = {&from, 1};
  wr.rw.dst = {&into, 1};
  return post(jfs, to, &wr, user_ctx, true);
}

urma_status_t Node::write(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_sge_t from,
                          urma_sge_t into, uint64_t user_ctx) {
  urma_jfs_wr_t wr = {};
  wr.opcode = URMA_OPC_WRITE;
  wr.rw.src = {&from, 1};
  wr.rw.dst = {&into, 1};
  return post(jfs, to, &wr, user_ctx, true);
}

urma_status_t Node::atomic(urma_opcode_t opcode, urma_jfs_t* jfs, urma_target_jetty_t* to,
                           urma_sge_t result, urma_sge_t word, uint64_t user_ctx) {
  urma_jfs_wr_t wr = {};
  wr.opcode = opcode;
  if (opcode == URMA_OPC_FADD) {
    wr.faa.src = &result;
    wr.faa.dst = &word;
    wr.faa.operand = 1;
  } else {
    wr.cas.src = &result;
    wr.cas.dst = &word;
    wr.cas.swap_data = 1;
  }
  return post(jfs, to, &wr, user_ctx, true);
}

urma_status_t Node::execute(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_jfs_wr_t wr,
                            uint64_t user_ctx) {
  return post(jfs, to, &wr, user_ctx, true);
}

void Node::receive(urma_jfr_t* jfr, std::vector<urma_sge_t> into, uint64_t user_ctx) {
  urma_jfr_wr_t wr = {};
  wr.src = {into.data(), static_cast<uint32_t>(into.size())};
  wr.user_ctx = user_ctx;
  urma_jfr_wr_t* bad = nullptr;
  EXPECT_EQ(ops_.post_jfr_wr(jfr, &wr, &bad), URMA_SUCCESS);
}

urma_jfc_t* Node::wait(urma_jfce_t* jfce, milliseconds limit) {
  urma_jfc_t* jfc = nullptr;
  if (ops_.wait_jfc(jfce, 1, static_cast<int>(limit.count()), &jfc) != 1) return nullptr;
  uint32_t events = 1;
  ops_.ack_jfc(&jfc, &events, 1);
  return jfc;
}

void Node::poll(urma_jfc_t* jfc, std::vector<urma_cr_t>* records, int count) {
  const size_t before = records->size();
  records->resize(before + static_cast<size_t>(count));
  const int got = ops_.poll_jfc(jfc, count, records->data() + before);
  EXPECT_GE(got, 0);
  records->resize(before + static_cast<size_t>(std::max(got, 0)));
}

urma_status_t Node::post(urma_jfs_t* jfs, urma_target_jetty_t* to, urma_jfs_wr_t* wr,
                         uint64_t user_ctx, bool signalled) {
  wr->tjetty = to;
  wr->user_ctx = user_ctx;
  wr->flag.bs.complete_enable = signalled ? 1 : 0;
  urma_jfs_wr_t* bad = nullptr;
  const urma_status_t status = ops_.post_jfs_wr(jfs, wr, &bad);
  EXPECT_EQ(bad, status == URMA_SUCCESS ? nullptr : wr);
  return status;
}

Pair::Pair(uint32_t depth) : jfs(sender.make_jfs(send_jfc, depth)) {}

void Pair::connect() {
  remote = sender.import(registered->seg);
  EXPECT_EQ(write(0), URMA_SUCCESS);
  EXPECT_EQ(wait_for_sent().status, URMA_CR_SUCCESS);
  sent.clear();
}

urma_cr_t Pair::wait_for_sent(milliseconds limit) {
  const size_t before = sent.size();
  const auto one_more = [&] {
    poll();
    return sent.size() > before;
  };
  if (!eventually(one_more, limit)) throw std::runtime_error("a request does not complete");
  return sent[before];
}

bool Pair::wait_for(size_t sends, size_t receives) {
  return eventually([&] {
    poll();
    return sent.size() >= sends && received.size() >= receives;
  });
}

}  // namespace urma::shm
