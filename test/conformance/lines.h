// SPDX-License-Identifier: MIT
//
// Shared parts of the tests of the list in docs/reference/conformance.md. A test has the name of
// its line: S1_07b is clause b of line 7 of section 1.
//
// DeviceLines run on the device that URMA_DEVICE names, else on the first one. If a device lacks
// the subject of a line, the test is skipped and says what is missing. ProviderLines run on devices
// of the module of this folder, whose answers the test chooses; see module.h.
#ifndef TEST_CONFORMANCE_LINES_H_
#define TEST_CONFORMANCE_LINES_H_

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "test/conformance/module.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "urma_api.h"
#include "urma_provider.h"

namespace urma_test {

// The library is loaded, but not started.
class LibraryLines : public ProcessTest {
 protected:
  ~LibraryLines() override { EXPECT_EQ(urma_uninit(), URMA_SUCCESS); }
};

// A context, and configurations that its device accepts.
class Lines : public ProcessTest {
 protected:
  void open(urma_device_t* device);
  // Every object must have been destroyed before.
  void close();
  void TearDown() override;

  unsigned long refs() const { return ctx_ == nullptr ? 0 : ctx_->ref.atomic_cnt.load(); }
  const urma_device_cap_t& caps() const { return attr_.dev_cap; }

  static urma_jfc_cfg_t jfc_cfg(urma_jfce_t* jfce = nullptr);
  static urma_jfs_cfg_t jfs_cfg(urma_jfc_t* jfc, urma_transport_mode_t mode = URMA_TM_RM);
  static urma_jfr_cfg_t jfr_cfg(urma_jfc_t* jfc, urma_transport_mode_t mode = URMA_TM_RM);
  static urma_jetty_cfg_t jetty_cfg(urma_jfc_t* jfc, urma_jfr_t* jfr,
                                    urma_transport_mode_t mode = URMA_TM_RM);
  static urma_jetty_grp_cfg_t group_cfg(const char* name);
  urma_jfc_t* make_jfc() const;
  urma_jfr_t* make_jfr(urma_jfc_t* jfc) const;
  urma_jfs_t* make_jfs(urma_jfc_t* jfc) const;

  urma_device_t* device_ = nullptr;
  urma_context_t* ctx_ = nullptr;
  urma_device_attr_t attr_ = {};
};

class DeviceLines : public Lines {
 protected:
  void SetUp() override;
};

class ProviderLines : public Lines {
 protected:
  ProviderLines();
  ~ProviderLines() override;
  void SetUp() override;
  // Continues with another device of the module.
  void reopen(const char* device);

  ModuleControl* module_ = nullptr;
};

// Queues of one mode that send to themselves, as a jetty or as JFS and JFR.
struct Loop {
  explicit Loop(urma_context_t* context, urma_transport_mode_t mode = URMA_TM_RM,
                bool with_jetty = true);
  Loop(const Loop&) = delete;
  ~Loop() { end(); }
  // Destroys everything in an order that always works, once.
  void end();
  // Sends a message to itself: refused calls have left everything usable.
  void check();

  urma_rjetty_t remote_jetty() const;
  urma_rjfr_t remote_jfr() const;
  urma_jfs_wr_t message(uint64_t user_ctx = 0);
  urma_jfr_wr_t receive(uint64_t user_ctx = 0);
  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad) const;
  uint64_t in() const { return reinterpret_cast<uint64_t>(memory.data()); }
  uint64_t out() const { return reinterpret_cast<uint64_t>(memory.data() + kPart); }

  static constexpr uint32_t kPart = 64;  // bytes of each half of the memory
  urma_context_t* ctx;
  urma_transport_mode_t mode;
  urma_jfc_t* jfc = nullptr;
  urma_jfr_t* jfr = nullptr;
  urma_jetty_t* jetty = nullptr;  // either this
  urma_jfs_t* jfs = nullptr;      // or this
  urma_target_seg_t* segment = nullptr;
  urma_target_seg_t* imported = nullptr;
  urma_target_jetty_t* target = nullptr;
  std::array<uint8_t, 2 * kPart> memory = {};

 private:
  urma_sge_t sge_ = {};
};

urma_rjetty_t rjetty_of(const urma_jetty_t& jetty);

// The value of errno before a call, to detect a call that sets it, or one that does not.
inline constexpr int kErrnoBefore = EPROTO;

// The call returns NULL with this errno, and counts no reference.
#define EXPECT_NULL_WITH(call, error)         \
  do {                                        \
    const unsigned long before = refs();      \
    errno = ::urma_test::kErrnoBefore;        \
    const void* const result = (call);        \
    const int error_of_call = errno;          \
    EXPECT_EQ(result, nullptr) << #call;      \
    EXPECT_EQ(error_of_call, error) << #call; \
    EXPECT_EQ(refs(), before) << #call;       \
  } while (0)
#define EXPECT_NULL(call) EXPECT_NULL_WITH(call, EINVAL)

// The call returns this number, counts no reference, and leaves errno alone.
#define EXPECT_ANSWER(call, number)                               \
  do {                                                            \
    const unsigned long before = refs();                          \
    errno = ::urma_test::kErrnoBefore;                            \
    const int answer_of_call = (call);                            \
    const int error_of_call = errno;                              \
    EXPECT_EQ(answer_of_call, (number)) << #call;                 \
    EXPECT_EQ(error_of_call, ::urma_test::kErrnoBefore) << #call; \
    EXPECT_EQ(refs(), before) << #call;                           \
  } while (0)
#define EXPECT_EINVAL(call) EXPECT_ANSWER(call, URMA_EINVAL)

// As above for calls that return -1 with the reason in errno.
#define EXPECT_MINUS_ONE(call)           \
  do {                                   \
    const unsigned long before = refs(); \
    errno = ::urma_test::kErrnoBefore;   \
    EXPECT_EQ((call), -1) << #call;      \
    EXPECT_EQ(errno, EINVAL) << #call;   \
    EXPECT_EQ(refs(), before) << #call;  \
  } while (0)

// The call succeeds and changes the reference count of the context by `change`.
#define EXPECT_CHANGE(call, change)                                                      \
  do {                                                                                   \
    const unsigned long before = refs();                                                 \
    EXPECT_EQ((call), URMA_SUCCESS) << #call;                                            \
    EXPECT_EQ(static_cast<long>(refs()) - static_cast<long>(before), (change)) << #call; \
  } while (0)

// Bytes that a call must not touch, compared at the end.
#define EXPECT_UNTOUCHED(type, name) \
  type name;                         \
  const ::urma_test::Untouched name##_untouched(&name, sizeof(name), #name)

class Untouched {
 public:
  Untouched(void* bytes, size_t size, const char* name);
  Untouched(const Untouched&) = delete;
  ~Untouched();

 private:
  uint8_t* bytes_;
  size_t size_;
  const char* name_;
};

// Runs `check` while the provider lacks an operation.
#define WITHOUT(slot, check)                \
  do {                                      \
    const auto slot_kept = ctx_->ops->slot; \
    ctx_->ops->slot = nullptr;              \
    check;                                  \
    ctx_->ops->slot = slot_kept;            \
  } while (0)

// Skips the rest of a test on a device that lacks something.
#define NEEDS(condition, what) \
  if (!(condition)) GTEST_SKIP() << device_->name << " does not support " << (what)
#define NEEDS_OPERATION(slot) NEEDS(ctx_->ops->slot != nullptr, #slot)

}  // namespace urma_test

#endif  // TEST_CONFORMANCE_LINES_H_
