// SPDX-License-Identifier: MIT
//
// A request that could only fail later is refused by its call, with the true limit.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "test/process/configs.h"
#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/process/log_lines.h"
#include "test/process/owned.h"
#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr size_t kPage = 4096;

class RefusedAtTheCallTest : public ProcessTest {
 protected:
  void SetUp() override { SKIP_UNLESS_SHARED_MEMORY("the library knows the kind of each id"); }
};

class RightToWriteTest : public ProcessTest {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(device_traits().ordered, "memory that the library itself writes to");
  }
};

// The kernel can be asked about one mapping since 6.11.
bool areas_are_known() {
  utsname name;
  int major = 0, minor = 0;
  if (::uname(&name) != 0) return false;
  std::sscanf(name.release, "%d.%d", &major, &minor);
  return major > 6 || (major == 6 && minor >= 11);
}

// To be registered for peers to write to: two pages, of which the second is protected so.
urma_seg_cfg_t pages_with(int protection) {
  auto* const memory = static_cast<char*>(
      ::mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  EXPECT_EQ(::mprotect(memory + kPage, kPage, protection), 0);
  urma_seg_cfg_t cfg = {};
  cfg.va = reinterpret_cast<uint64_t>(memory);
  cfg.len = 2 * kPage;
  cfg.flag.bs.access = (URMA_ACCESS_READ | URMA_ACCESS_WRITE) & 0x3f;
  return cfg;
}

TEST_F(RightToWriteTest, ReadOnlyMemoryIsRefused) {
  if (!areas_are_known()) GTEST_SKIP() << "the kernel is older than 6.11";
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    const LogLines lines;
    urma_seg_cfg_t cfg = pages_with(PROT_READ);
    for (const uint32_t access : {URMA_ACCESS_READ | URMA_ACCESS_WRITE,
                                  URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC}) {
      cfg.flag.bs.access = access & 0x3f;
      EXPECT_EQ(urma_register_seg(endpoint.ctx, &cfg), nullptr);
      EXPECT_EQ(errno, EINVAL);
    }
    EXPECT_EQ(LogLines::count({"register_seg: memory at", "is read-only"}), 2u) << LogLines::all();
    // The rest of it, and all of it for reading.
    cfg.len = kPage;
    urma_target_seg_t* segment = urma_register_seg(endpoint.ctx, &cfg);
    ASSERT_NE(segment, nullptr);
    EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
    cfg.len = 2 * kPage;
    cfg.flag.bs.access = URMA_ACCESS_READ;
    segment = urma_register_seg(endpoint.ctx, &cfg);
    ASSERT_NE(segment, nullptr);
    EXPECT_EQ(urma_unregister_seg(segment), URMA_SUCCESS);
  });
}

// A guard page is not read-only.
TEST_F(RightToWriteTest, AGuardPageIsRefused) {
  if (!areas_are_known()) GTEST_SKIP() << "the kernel is older than 6.11";
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    const LogLines lines;
    urma_seg_cfg_t cfg = pages_with(PROT_NONE);
    EXPECT_EQ(urma_register_seg(endpoint.ctx, &cfg), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_LINE("register_seg: memory at", "cannot be accessed", "guard pages");
    EXPECT_EQ(LogLines::count({"read-only"}), 0u) << LogLines::all();
  });
}

// By its own name, though it is the call for segments in disguise.
TEST_F(RefusedAtTheCallTest, NullIsNamedByTheCallThatGotIt) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    const LogLines lines;
    EXPECT_EQ(urma_ext_close_memory_handle(nullptr), URMA_EINVAL);
    EXPECT_LINE("urma_ext_close_memory_handle: the handle is NULL");
    EXPECT_EQ(urma_ext_close_signal_handle(nullptr), URMA_EINVAL);
    EXPECT_LINE("urma_ext_close_signal_handle: the handle is NULL");
    EXPECT_EQ(urma_ext_query_rdma_interface(nullptr), -EINVAL);
    EXPECT_LINE("urma_ext_query_rdma_interface: rdma is NULL; it is required");
    EXPECT_EQ(LogLines::count({"NULL"}), 3u) << LogLines::all();
  });
}

TEST_F(RefusedAtTheCallTest, AListNamesItsActualLimit) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint(Config{.max_sge = 2});
    const LogLines lines;
    urma_target_jetty_t* const queue = endpoint.import(endpoint.queue_id());
    urma_sge_t pieces[3] = {};
    urma_jfs_wr_t request = write_request(queue, pieces, pieces);
    request.rw.dst.num_sge = 0;
    urma_jfs_wr_t* bad = nullptr;
    EXPECT_EQ(endpoint.post(&request, &bad), URMA_EINVAL);
    EXPECT_LINE("the remote side has num_sge 0", "1 or more elements");
    request = send_request(queue, pieces);
    request.send.src.num_sge = 3;
    EXPECT_EQ(endpoint.post(&request, &bad), URMA_EINVAL);
    EXPECT_LINE("the local side has num_sge 3", "0 to 2 elements");
  });
}

// 0 asks for what the device has, and for one remote piece.
TEST_F(RefusedAtTheCallTest, LimitsOfZeroAreThoseOfTheDevice) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint(Config{.max_sge = 0});
    urma_device_attr_t attr;
    ASSERT_EQ(urma_query_device(endpoint.ctx->dev, &attr), URMA_SUCCESS);
    EXPECT_EQ(endpoint.jfr->jfr_cfg.max_sge, attr.dev_cap.max_jfr_sge);
    EXPECT_EQ(endpoint.jetty->jetty_cfg.jfs_cfg.max_sge, attr.dev_cap.max_jfs_sge);
    urma_jfs_cfg_t cfg = jfs_config(endpoint.send_jfc, 1);
    cfg.max_sge = cfg.max_rsge = 0;
    cfg.max_inline_data = 0;
    const OwnedJfs jfs = urma_create_jfs(endpoint.ctx, &cfg);
    EXPECT_EQ(jfs->jfs_cfg.max_sge, attr.dev_cap.max_jfs_sge);
    EXPECT_EQ(jfs->jfs_cfg.max_rsge, 1);
    EXPECT_EQ(jfs->jfs_cfg.max_inline_data, attr.dev_cap.max_jfs_inline_len);
  });
}

template <typename Object>
void expect_invalid(Object* made) {
  const int error = errno;
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(error, EINVAL);
}

// NONE and PLAIN_TEXT are all that there is; the others promise more than the library keeps.
TEST_F(RefusedAtTheCallTest, ATokenPolicyThatNobodyKeeps) {
  run_one([](Channel&) {
    OwnedEndpoint endpoint;
    urma_context_t* const ctx = endpoint.ctx;
    char bytes[8] = {};
    for (const uint32_t policy : {URMA_TOKEN_SIGNED, URMA_TOKEN_ALL_ENCRYPTED, 7}) {
      SCOPED_TRACE(policy);
      urma_token_t token = {1};
      urma_jfr_cfg_t jfr = endpoint.jfr->jfr_cfg;
      jfr.id = 0;
      jfr.flag.bs.token_policy = policy & 7;
      expect_invalid(urma_create_jfr(ctx, &jfr));
      urma_jetty_grp_cfg_t group = {};
      group.flag.bs.token_policy = policy & 7;
      expect_invalid(urma_create_jetty_grp(ctx, &group));
      urma_seg_cfg_t segment = seg_config(bytes, sizeof(bytes), URMA_ACCESS_READ);
      segment.flag.bs.token_policy = policy & 7;
      expect_invalid(urma_register_seg(ctx, &segment));
      urma_rjfr_t rjfr = remote_jfr(endpoint.jfr->jfr_id);
      rjfr.flag.bs.token_policy = policy & 7;
      expect_invalid(urma_import_jfr(ctx, &rjfr, &token));
      urma_rjetty_t rjetty = remote_jetty(endpoint.jetty->jetty_id);
      rjetty.flag.bs.token_policy = policy & 7;
      expect_invalid(urma_import_jetty(ctx, &rjetty, &token));
      urma_seg_t seg = endpoint.add(bytes, sizeof(bytes))->seg;
      seg.attr.bs.token_policy = policy & 7;
      expect_invalid(urma_import_seg(ctx, &seg, &token, 0, {}));
    }
  });
}

urma_target_jetty_t* import_as(Endpoint& endpoint, uint32_t id, bool jetty) {
  urma_rjfr_t jfr = {};
  jfr.jfr_id.eid = endpoint.ctx->eid;
  jfr.jfr_id.id = id;
  jfr.trans_mode = URMA_TM_RM;
  if (!jetty) return urma_import_jfr(endpoint.ctx, &jfr, nullptr);
  urma_rjetty_t remote = remote_jetty(jfr.jfr_id);
  return urma_import_jetty(endpoint.ctx, &remote, nullptr);
}

TEST_F(RefusedAtTheCallTest, AnIdOfAnotherKindIsRefused) {
  for (const bool jetty : {true, false}) {
    run_one([jetty](Channel&) {
      OwnedEndpoint endpoint(Config{.jetty = jetty, .id = 4711});
      const LogLines lines;
      EXPECT_EQ(import_as(endpoint, 4711, !jetty), nullptr);
      EXPECT_EQ(errno, EINVAL);
      EXPECT_LINE("id 0x1267 is a ", jetty ? "not a JFR" : "not a jetty");
      // An id that no one has yet may still appear.
      for (const uint32_t id : {4711U, 4712U}) {
        const ImportedJetty target = import_as(endpoint, id, jetty);
      }
    });
  }
}

// The library chooses the ids of both kinds from separate counters, so only the owner can tell them
// apart.
TEST_F(RefusedAtTheCallTest, AJettyMistakenForAJfrIsNamedByBothSides) {
  run_one([](Channel&) {
    Endpoint endpoint;
    urma_jetty_t* jetty = endpoint.jetty;
    // Its JFR may have the same number.
    std::vector<urma_jetty_t*> more;
    while (jetty->jetty_id.id == endpoint.jfr->jfr_id.id) {
      urma_jetty_cfg_t cfg = jetty->jetty_cfg;
      jetty = urma_create_jetty(endpoint.ctx, &cfg);
      ASSERT_NE(jetty, nullptr);
      more.push_back(jetty);
    }
    const LogLines lines;
    urma_target_jetty_t* const target = import_as(endpoint, jetty->jetty_id.id, false);
    ASSERT_NE(target, nullptr);
    char byte = 0;
    urma_target_seg_t* const segment = endpoint.add(&byte, 1);
    urma_sge_t here = piece(segment, &byte, 1);
    endpoint.post(send_request(target, &here));
    wait_for_status(endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_LINE("cannot send to JFR ", "the owner has no such object");
    EXPECT_LINE("imports jetty ", "as a JFR");
    EXPECT_EQ(urma_unimport_jfr(target), URMA_SUCCESS);
    for (urma_jetty_t* made : more) EXPECT_EQ(urma_delete_jetty(made), URMA_SUCCESS);
    endpoint.close();
  });
}

// Nor is a jetty taken for the JFR of the same number while it is out of use.
TEST_F(RefusedAtTheCallTest, AQueueThatIsNotReadyIsNotMistaken) {
  run_one([](Channel&) {
    Endpoint endpoint;
    ASSERT_EQ(endpoint.jetty->jetty_id.id, endpoint.jfr->jfr_id.id) << "both are the first";
    urma_target_jetty_t* const target = import_as(endpoint, endpoint.jetty->jetty_id.id, true);
    ASSERT_NE(target, nullptr);
    urma_jfr_attr_t error = {};
    error.mask = JFR_STATE;
    error.state = URMA_JFR_STATE_ERROR;
    ASSERT_EQ(urma_modify_jfr(endpoint.jfr, &error), URMA_SUCCESS);
    const LogLines lines;
    char byte = 0;
    urma_target_seg_t* const segment = endpoint.add(&byte, 1);
    urma_sge_t here = piece(segment, &byte, 1);
    endpoint.post(send_request(target, &here));
    wait_for_status(endpoint.send_jfc, URMA_CR_REM_ACCESS_ABORT_ERR);
    EXPECT_LINE("cannot send to jetty ", "or it is not READY");
    EXPECT_EQ(lines.count({"import it as its own kind"}), 0U) << lines.all();
    EXPECT_EQ(urma_unimport_jetty(target), URMA_SUCCESS);
    endpoint.close();
  });
}

}  // namespace
}  // namespace urma_test
