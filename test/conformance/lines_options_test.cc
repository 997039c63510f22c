// SPDX-License-Identifier: MIT
//
// Lines 18 to 20: the life cycle in two steps, the same for JFC, JFS, JFR and jetty.
#include <cstddef>
#include <cstring>

#include "test/conformance/lines.h"
#include "test/process/owned.h"

namespace urma_test {
namespace {

// The calls for one kind of object, without its type.
struct Kind {
  const char* name;
  uint64_t depth_option;
  size_t alloc_slot, set_slot, active_slot, get_slot, deactive_slot, free_slot;  // in urma_ops_t
  urma_status_t (*alloc)(urma_context_t*, void*, void**);
  urma_status_t (*set)(void*, uint64_t, void*, uint32_t);
  urma_status_t (*active)(void*);
  urma_status_t (*get)(void*, uint64_t, void*, uint32_t);
  urma_status_t (*deactive)(void*);
  urma_status_t (*free)(void*);
  uint32_t (*depth)(void*);
};

#define KIND(kind, option, member)                                                            \
  {                                                                                           \
#kind, option, offsetof(urma_ops_t, alloc_##kind), offsetof(urma_ops_t, set_##kind##_opt),  \
        offsetof(urma_ops_t, active_##kind), offsetof(urma_ops_t, get_##kind##_opt),            \
        offsetof(urma_ops_t, deactive_##kind), offsetof(urma_ops_t, free_##kind),               \
        [](urma_context_t* ctx, void* cfg, void** result) {                                     \
          return urma_alloc_##kind(ctx, static_cast<urma_##kind##_cfg_t*>(cfg),                 \
                                   reinterpret_cast<urma_##kind##_t**>(result));                \
        },                                                                                      \
        [](void* object, uint64_t opt, void* buf, uint32_t len) {                               \
          return urma_set_##kind##_opt(static_cast<urma_##kind##_t*>(object), opt, buf, len);   \
        },                                                                                      \
        [](void* object) { return urma_active_##kind(static_cast<urma_##kind##_t*>(object)); }, \
        [](void* object, uint64_t opt, void* buf, uint32_t len) {                               \
          return urma_get_##kind##_opt(static_cast<urma_##kind##_t*>(object), opt, buf, len);   \
        },                                                                                      \
        [](void* object) {                                                                      \
          return urma_deactive_##kind(static_cast<urma_##kind##_t*>(object));                   \
        },                                                                                      \
        [](void* object) { return urma_free_##kind(static_cast<urma_##kind##_t*>(object)); },   \
        [](void* object) { return static_cast<urma_##kind##_t*>(object)->member.depth; }, \
  }

enum { kJfc, kJfs, kJfr, kJetty, kKindCount };
const Kind kAll[kKindCount] = {
    KIND(jfc, URMA_JFC_DEPTH, jfc_cfg),
    KIND(jfs, URMA_JFS_DEPTH, jfs_cfg),
    KIND(jfr, URMA_JFR_DEPTH, jfr_cfg),
    KIND(jetty, URMA_JFS_DEPTH, jetty_cfg.jfs_cfg),
};

// A configuration of each kind, and the queues that they name.
class Configs {
 public:
  explicit Configs(urma_context_t* ctx) {
    jfc_.depth = 32;
    urma_jfc_cfg_t jfc_cfg = jfc_;
    jfc = urma_create_jfc(ctx, &jfc_cfg);
    EXPECT_NE(jfc, nullptr);
    jfs_.depth = jfr_.depth = 32;
    jfs_.trans_mode = jfr_.trans_mode = URMA_TM_RM;
    jfs_.max_sge = jfs_.max_rsge = jfr_.max_sge = 1;
    jfs_.jfc = jfr_.jfc = jfc;
    urma_jfr_cfg_t jfr_cfg = jfr_;
    jfr = urma_create_jfr(ctx, &jfr_cfg);
    EXPECT_NE(jfr, nullptr);
    jetty_.jfs_cfg = jfs_;
    jetty_.flag.bs.share_jfr = URMA_SHARE_JFR;
    jetty_.shared.jfr = jfr;
    jetty_.shared.jfc = jfc;
  }
  Configs(const Configs&) = delete;
  ~Configs() {
    EXPECT_EQ(urma_delete_jfr(jfr), URMA_SUCCESS);
    EXPECT_EQ(urma_delete_jfc(jfc), URMA_SUCCESS);
  }
  void* of(int kind) {
    void* const all[kKindCount] = {&jfc_, &jfs_, &jfr_, &jetty_};
    return all[kind];
  }

  urma_jfc_t* jfc;
  urma_jfr_t* jfr;

 private:
  urma_jfc_cfg_t jfc_ = {};
  urma_jfs_cfg_t jfs_ = {};
  urma_jfr_cfg_t jfr_ = {};
  urma_jetty_cfg_t jetty_ = {};
};

// Removes an operation during its lifetime.
class Without {
 public:
  Without(urma_context_t* ctx, size_t slot) : place_(reinterpret_cast<char*>(ctx->ops) + slot) {
    std::memcpy(&kept_, place_, sizeof kept_);
    std::memset(place_, 0, sizeof kept_);
  }
  Without(const Without&) = delete;
  ~Without() { std::memcpy(place_, &kept_, sizeof kept_); }

 private:
  char* place_;
  void* kept_;
};

bool has_slot(const urma_context_t* ctx, size_t slot) {
  void* operation;
  std::memcpy(&operation, reinterpret_cast<const char*>(ctx->ops) + slot, sizeof operation);
  return operation != nullptr;
}

// -------------------------------------------------------------------------------------------------
// Line 18
// -------------------------------------------------------------------------------------------------

TEST_F(DeviceLines, S1_18a_AllocWithoutArguments) {
  Configs configs(ctx_);
  for (int i = 0; i < kKindCount; ++i) {
    const Kind& kind = kAll[i];
    SCOPED_TRACE(kind.name);
    EXPECT_UNTOUCHED(void*, result);
    EXPECT_EINVAL(kind.alloc(nullptr, configs.of(i), &result));
    EXPECT_EINVAL(kind.alloc(ctx_, nullptr, &result));
    EXPECT_EINVAL(kind.alloc(ctx_, configs.of(i), nullptr));
  }
  urma_jfs_cfg_t jfs_cfg_without = jfs_cfg(nullptr);
  urma_jfr_cfg_t jfr_cfg_without = jfr_cfg(nullptr);
  EXPECT_UNTOUCHED(urma_jfs_t*, jfs);
  EXPECT_UNTOUCHED(urma_jfr_t*, jfr);
  EXPECT_EINVAL(urma_alloc_jfs(ctx_, &jfs_cfg_without, &jfs));
  EXPECT_EINVAL(urma_alloc_jfr(ctx_, &jfr_cfg_without, &jfr));
}

TEST_F(ProviderLines, S1_18b_AllocThatTheProviderRefuses) {
  Configs configs(ctx_);
  for (int i = 0; i < kKindCount; ++i) {
    const Kind& kind = kAll[i];
    SCOPED_TRACE(kind.name);
    EXPECT_UNTOUCHED(void*, result);
    {
      const Without none(ctx_, kind.alloc_slot);
      EXPECT_EINVAL(kind.alloc(ctx_, configs.of(i), &result));
    }
    module_->status = URMA_FAIL;
    EXPECT_ANSWER(kind.alloc(ctx_, configs.of(i), &result), URMA_FAIL);
    module_->status = URMA_SUCCESS;
  }
}

TEST_F(ProviderLines, S1_18c_AllocJfcThatSucceedsWithoutAJfc) {
  urma_jfc_cfg_t cfg = jfc_cfg();
  EXPECT_UNTOUCHED(urma_jfc_t*, jfc);
  module_->fails = true;
  EXPECT_ANSWER(urma_alloc_jfc(ctx_, &cfg, &jfc), URMA_ENOMEM);
  module_->fails = false;
}

// -------------------------------------------------------------------------------------------------
// Line 19
// -------------------------------------------------------------------------------------------------

// What is the same with every provider, on a newly allocated object.
void check_arguments(const Kind& kind, urma_context_t* ctx, void* object) {
  const auto refs = [ctx] { return ctx->ref.atomic_cnt.load(); };
  uint32_t depth = 8;
  uint64_t wide = 8;
  uint8_t narrow = 8;
  EXPECT_EINVAL(kind.set(nullptr, kind.depth_option, &depth, sizeof depth));
  EXPECT_EINVAL(kind.set(object, kind.depth_option, nullptr, sizeof depth));
  EXPECT_EINVAL(kind.set(object, kind.depth_option, &depth, 0));
  EXPECT_EINVAL(kind.set(object, kind.depth_option, &narrow, sizeof narrow));
  EXPECT_EINVAL(kind.set(object, kind.depth_option, &wide, sizeof wide));
  EXPECT_UNTOUCHED(uint32_t, value);
  EXPECT_EINVAL(kind.get(nullptr, kind.depth_option, &value, sizeof value));
  EXPECT_EINVAL(kind.get(object, kind.depth_option, nullptr, sizeof value));
  EXPECT_EINVAL(kind.get(object, kind.depth_option, &value, 0));
  EXPECT_EINVAL(kind.get(object, 0, &value, sizeof value));
  EXPECT_EINVAL(kind.active(nullptr));
  EXPECT_EINVAL(kind.deactive(nullptr));
  EXPECT_EINVAL(kind.deactive(object));
  EXPECT_EINVAL(kind.free(nullptr));
  EXPECT_EQ(kind.depth(object), 32u);
}

TEST_F(DeviceLines, S1_19a_LifeCycleInTwoSteps) {
  Configs configs(ctx_);
  for (int i = 0; i < kKindCount; ++i) {
    const Kind& kind = kAll[i];
    SCOPED_TRACE(kind.name);
    NEEDS(has_slot(ctx_, kind.alloc_slot),
          std::string("creation of a ") + kind.name + " in two steps");
    void* object = nullptr;
    EXPECT_CHANGE(kind.alloc(ctx_, configs.of(i), &object), 1);
    ASSERT_NE(object, nullptr);
    check_arguments(kind, ctx_, object);
    EXPECT_CHANGE(kind.active(object), 0);
    uint32_t depth = 8;
    EXPECT_EINVAL(kind.set(object, kind.depth_option, &depth, sizeof depth));
    EXPECT_EINVAL(kind.active(object));
    EXPECT_EINVAL(kind.free(object));
    EXPECT_EQ(kind.get(object, kind.depth_option, &depth, sizeof depth), URMA_SUCCESS);
    EXPECT_GE(depth, 32u);
    EXPECT_CHANGE(kind.deactive(object), 0);
    EXPECT_EINVAL(kind.deactive(object));
    depth = 8;
    EXPECT_CHANGE(kind.set(object, kind.depth_option, &depth, sizeof depth), 0);
    EXPECT_EQ(kind.depth(object), 8u);
    EXPECT_CHANGE(kind.active(object), 0);
    EXPECT_CHANGE(kind.deactive(object), 0);
    EXPECT_CHANGE(kind.free(object), -1);
  }
}

// Calls test(kind, object) with a newly allocated object of each kind, and frees it.
template <typename Test>
void with_each_kind(urma_context_t* ctx, const Test& test) {
  const auto refs = [ctx] { return ctx->ref.atomic_cnt.load(); };
  Configs configs(ctx);
  for (int i = 0; i < kKindCount; ++i) {
    SCOPED_TRACE(kAll[i].name);
    void* object = nullptr;
    EXPECT_CHANGE(kAll[i].alloc(ctx, configs.of(i), &object), 1);
    ASSERT_NE(object, nullptr);
    test(kAll[i], object);
    EXPECT_CHANGE(kAll[i].free(object), -1);
  }
}

TEST_F(ProviderLines, S1_19b_LifeCycleAnswersWithTheProvider) {
  with_each_kind(ctx_, [&](const Kind& kind, void* object) {
    check_arguments(kind, ctx_, object);
    uint32_t depth = 8;
    for (const int status : {URMA_FAIL, URMA_EAGAIN}) {
      module_->status = status;
      EXPECT_ANSWER(kind.set(object, kind.depth_option, &depth, sizeof depth), status);
      EXPECT_ANSWER(kind.get(object, kind.depth_option, &depth, sizeof depth), status);
      EXPECT_ANSWER(kind.active(object), status);
      EXPECT_ANSWER(kind.free(object), status);
    }
    EXPECT_EQ(kind.depth(object), 32u);
    module_->status = URMA_SUCCESS;
    EXPECT_CHANGE(kind.active(object), 0);
    EXPECT_EINVAL(kind.set(object, kind.depth_option, &depth, sizeof depth));
    module_->status = URMA_EAGAIN;
    EXPECT_ANSWER(kind.deactive(object), URMA_EAGAIN);
    module_->status = URMA_SUCCESS;
    EXPECT_EINVAL(kind.free(object));
    EXPECT_CHANGE(kind.deactive(object), 0);
  });
}

TEST_F(ProviderLines, S1_19c_LifeCycleWithoutOperations) {
  with_each_kind(ctx_, [&](const Kind& kind, void* object) {
    uint32_t depth = 8;
    {
      const Without set(ctx_, kind.set_slot), get(ctx_, kind.get_slot);
      const Without active(ctx_, kind.active_slot), free(ctx_, kind.free_slot);
      EXPECT_EINVAL(kind.set(object, kind.depth_option, &depth, sizeof depth));
      EXPECT_EINVAL(kind.get(object, kind.depth_option, &depth, sizeof depth));
      EXPECT_EINVAL(kind.active(object));
      EXPECT_EINVAL(kind.free(object));
    }
    EXPECT_EQ(kind.depth(object), 32u);
    EXPECT_CHANGE(kind.active(object), 0);
    {
      const Without deactive(ctx_, kind.deactive_slot);
      EXPECT_EINVAL(kind.deactive(object));
    }
    EXPECT_CHANGE(kind.deactive(object), 0);
  });
}

// -------------------------------------------------------------------------------------------------
// Line 20, as far as it shows through the calls of the application header
// -------------------------------------------------------------------------------------------------

constexpr uint64_t kUnknownOption = 0x7777;

TEST_F(ProviderLines, S1_20a_OptionsOfTheRecordSetTheirBit) {
  const OwnedJfc jfc = make_jfc();
  urma_jfs_cfg_t cfg = jfs_cfg(jfc);
  urma_jfs_t* jfs = nullptr;
  ASSERT_EQ(urma_alloc_jfs(ctx_, &cfg, &jfs), URMA_SUCCESS);
  const uint64_t& mask = jfs->urma_jfs_opt.jfs_opt_mask.value;
  uint32_t id = 77;
  uint64_t wide = 77;
  EXPECT_EINVAL(urma_set_jfs_opt(jfs, URMA_JFS_ID, &wide, sizeof wide));
  EXPECT_EQ(mask, 0u);
  EXPECT_EQ(urma_set_jfs_opt(jfs, URMA_JFS_DEPTH, &id, sizeof id), URMA_SUCCESS);
  EXPECT_EQ(mask, 0u);
  EXPECT_EQ(urma_set_jfs_opt(jfs, URMA_JFS_ID, &id, sizeof id), URMA_SUCCESS);
  EXPECT_EQ(mask, URMA_JFS_ID_MASK);
  EXPECT_EQ(jfs->urma_jfs_opt.urma_jfs_id, 77u);
  EXPECT_EQ(urma_free_jfs(jfs), URMA_SUCCESS);
}

TEST_F(ProviderLines, S1_20b_UnknownOptionsAreRefused) {
  with_each_kind(ctx_, [&](const Kind& kind, void* object) {
    uint32_t value = 1;
    EXPECT_EINVAL(kind.set(object, kUnknownOption, &value, sizeof value));
    // Only for a JFC the provider is asked first.
    module_->status = URMA_FAIL;
    EXPECT_ANSWER(kind.set(object, kUnknownOption, &value, sizeof value),
                  kind.alloc == kAll[kJfc].alloc ? URMA_FAIL : URMA_EINVAL);
    module_->status = URMA_SUCCESS;
  });
}

}  // namespace
}  // namespace urma_test
