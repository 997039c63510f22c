// SPDX-License-Identifier: MIT
#include "test/conformance/lines.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "test/process/configs.h"

namespace urma_test {

// -------------------------------------------------------------------------------------------------
// Fixtures
// -------------------------------------------------------------------------------------------------

void Lines::open(urma_device_t* device) {
  ASSERT_NE(device, nullptr);
  device_ = device;
  ASSERT_EQ(urma_query_device(device, &attr_), URMA_SUCCESS);
  ctx_ = urma_create_context(device, 0);
  ASSERT_NE(ctx_, nullptr);
}

void Lines::close() {
  EXPECT_EQ(refs(), 1u) << "objects of the context are left";
  EXPECT_EQ(urma_delete_context(ctx_), URMA_SUCCESS);
  ctx_ = nullptr;
}

void Lines::TearDown() {
  if (ctx_ != nullptr) close();
  EXPECT_EQ(urma_uninit(), URMA_SUCCESS);
}

urma_jfc_cfg_t Lines::jfc_cfg(urma_jfce_t* jfce) {
  urma_jfc_cfg_t cfg = jfc_config(64, jfce);
  cfg.user_ctx = 5;
  return cfg;
}

urma_jfs_cfg_t Lines::jfs_cfg(urma_jfc_t* jfc, urma_transport_mode_t mode) {
  urma_jfs_cfg_t cfg = {};
  cfg.depth = 16;
  cfg.trans_mode = mode;
  cfg.max_sge = 2;
  cfg.max_rsge = 1;
  cfg.max_inline_data = 8;
  cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfc = jfc;
  return cfg;
}

urma_jfr_cfg_t Lines::jfr_cfg(urma_jfc_t* jfc, urma_transport_mode_t mode) {
  urma_jfr_cfg_t cfg = {};
  cfg.depth = 16;
  cfg.trans_mode = mode;
  cfg.max_sge = 2;
  cfg.min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER;
  cfg.jfc = jfc;
  return cfg;
}

urma_jetty_cfg_t Lines::jetty_cfg(urma_jfc_t* jfc, urma_jfr_t* jfr, urma_transport_mode_t mode) {
  urma_jetty_cfg_t cfg = jetty_config(jfr, jfs_cfg(jfc, mode));
  cfg.shared.jfc = jfc;
  return cfg;
}

urma_jetty_grp_cfg_t Lines::group_cfg(const char* name) {
  urma_jetty_grp_cfg_t cfg = {};
  std::snprintf(cfg.name, sizeof cfg.name, "%s", name);
  cfg.policy = URMA_JETTY_GRP_POLICY_HASH_HINT;
  return cfg;
}

urma_jfc_t* Lines::make_jfc() const {
  urma_jfc_cfg_t cfg = jfc_cfg();
  urma_jfc_t* jfc = urma_create_jfc(ctx_, &cfg);
  EXPECT_NE(jfc, nullptr);
  return jfc;
}

urma_jfr_t* Lines::make_jfr(urma_jfc_t* jfc) const {
  urma_jfr_cfg_t cfg = jfr_cfg(jfc);
  urma_jfr_t* jfr = urma_create_jfr(ctx_, &cfg);
  EXPECT_NE(jfr, nullptr);
  return jfr;
}

urma_jfs_t* Lines::make_jfs(urma_jfc_t* jfc) const {
  urma_jfs_cfg_t cfg = jfs_cfg(jfc);
  urma_jfs_t* jfs = urma_create_jfs(ctx_, &cfg);
  EXPECT_NE(jfs, nullptr);
  return jfs;
}

void DeviceLines::SetUp() {
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  open(find_device());
  // The device of a new provider supports nothing yet. Each test checks for further operations.
  if (ctx_ != nullptr) NEEDS_OPERATION(create_jfc);
}

ProviderLines::ProviderLines() {
  const auto module = std::filesystem::absolute(std::getenv("CONFORMANCE_MODULE"));
  ::setenv("URMA_PROVIDER_PATH", module.parent_path().c_str(), 1);
}

ProviderLines::~ProviderLines() { ::unsetenv("URMA_PROVIDER_PATH"); }

void ProviderLines::SetUp() {
  ASSERT_EQ(urma_init(nullptr), URMA_SUCCESS);
  void* handle = ::dlopen(std::filesystem::canonical(std::getenv("CONFORMANCE_MODULE")).c_str(),
                          RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(handle, nullptr) << "the library did not load the module";
  auto* control = reinterpret_cast<urma_conformance_control_fn*>(::dlsym(handle, kModuleControl));
  ::dlclose(handle);
  ASSERT_NE(control, nullptr);
  module_ = control();
  reopen(kModuleUb);
}

void ProviderLines::reopen(const char* device) {
  if (ctx_ != nullptr) close();
  char name[URMA_MAX_DEV_NAME];
  std::snprintf(name, sizeof name, "%s", device);
  open(urma_get_device_by_name(name));
}

// -------------------------------------------------------------------------------------------------
// Loop
// -------------------------------------------------------------------------------------------------

namespace {

// Created with configurations that every device accepts.
template <typename T>
T* made(T* object) {
  EXPECT_NE(object, nullptr);
  if (object == nullptr) throw std::runtime_error("cannot create an object");
  return object;
}

}  // namespace

urma_rjetty_t rjetty_of(const urma_jetty_t& jetty) {
  urma_rjetty_t remote = remote_jetty(jetty.jetty_id, jetty.jetty_cfg.jfs_cfg.trans_mode);
  if (remote.trans_mode == URMA_TM_UM) remote.tp_type = URMA_UTP;
  return remote;
}

Loop::Loop(urma_context_t* context, urma_transport_mode_t trans_mode, bool with_jetty)
    : ctx(context), mode(trans_mode) {
  urma_jfc_cfg_t jfc_cfg = jfc_config(64);
  jfc = made(urma_create_jfc(ctx, &jfc_cfg));
  urma_jfr_cfg_t jfr_cfg = {};
  jfr_cfg.depth = 16;
  jfr_cfg.trans_mode = mode;
  jfr_cfg.max_sge = 2;
  jfr_cfg.min_rnr_timer = URMA_TYPICAL_MIN_RNR_TIMER;
  jfr_cfg.jfc = jfc;
  jfr = made(urma_create_jfr(ctx, &jfr_cfg));
  urma_jetty_cfg_t cfg = {};
  cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
  cfg.jfs_cfg.depth = 16;
  cfg.jfs_cfg.trans_mode = mode;
  cfg.jfs_cfg.max_sge = 2;
  cfg.jfs_cfg.max_rsge = 1;
  cfg.jfs_cfg.max_inline_data = 8;
  cfg.jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
  cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
  cfg.jfs_cfg.jfc = jfc;
  cfg.shared.jfr = jfr;
  if (with_jetty) {
    jetty = made(urma_create_jetty(ctx, &cfg));
  } else {
    jfs = made(urma_create_jfs(ctx, &cfg.jfs_cfg));
  }

  urma_seg_cfg_t seg_cfg = seg_config(in(), memory.size(), kAllAccess);
  segment = made(urma_register_seg(ctx, &seg_cfg));
  urma_seg_t remote_segment = segment->seg;
  imported = made(urma_import_seg(ctx, &remote_segment, nullptr, 0, {}));
  urma_token_t token = {};
  urma_rjetty_t rjetty = with_jetty ? remote_jetty() : urma_rjetty_t{};
  urma_rjfr_t rjfr = remote_jfr();
  target = made(with_jetty ? urma_import_jetty(ctx, &rjetty, &token)
                           : urma_import_jfr(ctx, &rjfr, &token));
  if (with_jetty && mode == URMA_TM_RC) {
    EXPECT_EQ(urma_bind_jetty(jetty, target), URMA_SUCCESS);
  }
}

void Loop::end() {
  if (segment == nullptr) return;
  if (jetty != nullptr && jetty->remote_jetty != nullptr) {
    EXPECT_EQ(urma_unbind_jetty(jetty), URMA_SUCCESS);
  }
  EXPECT_EQ(jetty != nullptr ? urma_unimport_jetty(target) : urma_unimport_jfr(target),
            URMA_SUCCESS);
  EXPECT_EQ(urma_unimport_seg(imported), URMA_SUCCESS);
  EXPECT_EQ(jetty != nullptr ? urma_delete_jetty(jetty) : urma_delete_jfs(jfs), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
  EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  EXPECT_EQ(urma_unregister_seg(std::exchange(segment, nullptr)), URMA_SUCCESS);
}

urma_rjetty_t Loop::remote_jetty() const { return rjetty_of(*jetty); }

urma_rjfr_t Loop::remote_jfr() const {
  urma_rjfr_t remote = urma_test::remote_jfr(jfr->jfr_id, mode);
  if (mode == URMA_TM_UM) remote.tp_type = URMA_UTP;
  return remote;
}

urma_jfs_wr_t Loop::message(uint64_t user_ctx) {
  sge_ = piece(segment, out(), kPart);
  return send_request(target, &sge_, user_ctx);
}

urma_jfr_wr_t Loop::receive(uint64_t user_ctx) {
  sge_ = piece(segment, in(), kPart);
  urma_jfr_wr_t wr = {};
  wr.src = {&sge_, 1};
  wr.user_ctx = user_ctx;
  return wr;
}

urma_status_t Loop::post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad) const {
  return jetty != nullptr ? urma_post_jetty_send_wr(jetty, wr, bad)
                          : urma_post_jfs_wr(jfs, wr, bad);
}

void Loop::check() {
  std::memset(memory.data(), 'i', kPart);
  std::memset(memory.data() + kPart, 'o', kPart);
  urma_jfr_wr_t receiving = receive(11);
  urma_jfr_wr_t* bad_receive = nullptr;
  EXPECT_EQ(jetty != nullptr ? urma_post_jetty_recv_wr(jetty, &receiving, &bad_receive)
                             : urma_post_jfr_wr(jfr, &receiving, &bad_receive),
            URMA_SUCCESS);
  urma_jfs_wr_t sending = message(12);
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(post(&sending, &bad), URMA_SUCCESS);
  EXPECT_EQ(bad, nullptr);
  EXPECT_EQ(bad_receive, nullptr);
  for (int i = 0; i < 2; ++i) {
    const urma_cr_t cr = wait_for(jfc);
    EXPECT_EQ(cr.status, URMA_CR_SUCCESS);
    EXPECT_EQ(cr.user_ctx, cr.flag.bs.s_r == 1 ? 11u : 12u);
    EXPECT_EQ(cr.completion_len, kPart);
  }
  EXPECT_TRUE(has_nothing(jfc));
  EXPECT_EQ(std::memcmp(memory.data(), memory.data() + kPart, kPart), 0);
}

// -------------------------------------------------------------------------------------------------

Untouched::Untouched(void* bytes, size_t size, const char* name)
    : bytes_(static_cast<uint8_t*>(bytes)), size_(size), name_(name) {
  std::memset(bytes_, 0xa5, size_);
}

Untouched::~Untouched() {
  for (size_t i = 0; i < size_; ++i) {
    if (bytes_[i] == 0xa5) continue;
    ADD_FAILURE() << "a failed call wrote byte " << i << " of " << name_;
    return;
  }
}

}  // namespace urma_test
