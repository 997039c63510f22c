// SPDX-License-Identifier: MIT
//
// Work requests that are prepared once and posted many times, and the ways to post one.
#ifndef TOOLS_PERFTEST_REQUESTS_H_
#define TOOLS_PERFTEST_REQUESTS_H_

#include <cstdint>
#include <vector>

#include "tools/perftest/session.h"

namespace perftest {

// user_ctx of a request: its lane, and these.
constexpr uint64_t kSignalled = uint64_t{1} << 32;  // leaves a completion on success
constexpr uint64_t kCredit = uint64_t{1} << 33;     // tells the peer its credit
constexpr uint64_t kLaneMask = kSignalled - 1;

class Requests {
 public:
  // `count` requests for the test of `session`, unsignalled, not chained.
  Requests(const Session& session, uint32_t lane, uint32_t count);
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  urma_jfs_wr_t& operator[](uint32_t index) { return requests_[index]; }
  uint32_t count() const { return static_cast<uint32_t>(requests_.size()); }

  // Makes request `index` move `size` bytes from `local` (or to it) to `remote` (or from it).
  void aim(uint32_t index, uint32_t size, const uint8_t* local, uint64_t remote);
  void signal(uint32_t index, bool leaves_completion);
  // Chains requests [first, first + count).
  void chain(uint32_t first, uint32_t count);

  uint32_t size(uint32_t index) const { return sizes_[index]; }

 private:
  void prepare(uint32_t index);

  const Session& session_;
  const uint32_t lane_;
  const uint32_t pieces_;  // entries in `pieces` per request: local ones, then two remote ones
  std::vector<urma_jfs_wr_t> requests_;
  std::vector<urma_sge_t> places_;
  std::vector<uint32_t> sizes_;
};

// Largest inline size.
uint32_t inline_limit(const Config& config);

// The ways to post. Each is a type, so that the loops have no indirect call.
struct JettyPost {
  static urma_status_t post(urma_jetty_t* jetty, urma_jfs_t*, urma_jfs_wr_t* wr) {
    urma_jfs_wr_t* bad;
    return urma_post_jetty_send_wr(jetty, wr, &bad);
  }
};

struct JfsPost {
  static urma_status_t post(urma_jetty_t*, urma_jfs_t* jfs, urma_jfs_wr_t* wr) {
    urma_jfs_wr_t* bad;
    return urma_post_jfs_wr(jfs, wr, &bad);
  }
};

// The flat calls (-f), which take one request apart.
struct FlatPost {
  static urma_status_t post(urma_jetty_t*, urma_jfs_t* jfs, urma_jfs_wr_t* wr) {
    for (; wr != nullptr; wr = wr->next) {
      const urma_status_t status = post_one(jfs, *wr);
      if (status != URMA_SUCCESS) return status;
    }
    return URMA_SUCCESS;
  }

 private:
  static urma_status_t post_one(urma_jfs_t* jfs, const urma_jfs_wr_t& wr) {
    if (wr.opcode == URMA_OPC_SEND) {
      const urma_sge_t& from = wr.send.src.sge[0];
      return urma_send(jfs, wr.tjetty, from.tseg, from.addr, from.len, wr.flag, wr.user_ctx);
    }
    const urma_sge_t& from = wr.rw.src.sge[0];
    const urma_sge_t& to = wr.rw.dst.sge[0];
    auto* const call = wr.opcode == URMA_OPC_READ ? urma_read : urma_write;
    return call(jfs, wr.tjetty, to.tseg, from.tseg, to.addr, from.addr, from.len, wr.flag,
                wr.user_ctx);
  }
};

// Calls `run` with the way that the test uses.
template <typename Run>
auto with_post(const Config& config, Run run) {
  if (config.duplex()) return run(JettyPost());
  if (config.flat_api) return run(FlatPost());
  return run(JfsPost());
}

}  // namespace perftest

#endif  // TOOLS_PERFTEST_REQUESTS_H_
