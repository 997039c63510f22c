// SPDX-License-Identifier: MIT
//
// cost_program: posts and polls copies of GPU memory over the fake runtime, under callgrind,
// started without collection, and dumps the cost of each under its name. Prints the number of calls
// of each. Exits with 3 if the library does not start.
#include <poll.h>

#include <cstdio>
#include <functional>
#include <stdexcept>

#include "test/process/counting.h"
#include "test/process/endpoint.h"
#include "test/rocm/fake_runtime.h"
#include "urma_ext.h"

namespace {

using urma_test::FakeRuntime;
using urma_test::OwnedEndpoint;
using urma_test::piece;
using urma_test::require;

constexpr int kWarmUp = 100;
constexpr int kCalls = 50;
constexpr size_t kBytes = 65536;

void count(const char* name, const std::function<void()>& prepare,
           const std::function<bool()>& call, const std::function<void()>& finish) {
  for (int i = -kWarmUp; i < kCalls; ++i) {
    prepare();
    if (i == 0) CALLGRIND_ZERO_STATS;
    if (i >= 0) CALLGRIND_TOGGLE_COLLECT;
    const bool done = call();
    if (i >= 0) CALLGRIND_TOGGLE_COLLECT;
    require(done, name);
    finish();
  }
  urma_test::dump(name, kCalls);
}

void run() {
  urma_test::Config config;
  config.lock_free = true;
  OwnedEndpoint endpoint(config);
  FakeRuntime fake;
  void* const memory = urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, kBytes);
  void* const target = urma_ext_alloc_device(endpoint.ctx, URMA_EXT_POOL_COARSE, kBytes);
  require(memory != nullptr && target != nullptr, "memory");
  urma_target_seg_t* const segment = endpoint.add(memory, kBytes);
  urma_target_seg_t* const remote =
      endpoint.import(endpoint.segment_id(endpoint.add(target, kBytes)));
  urma_target_jetty_t* const queue = endpoint.import(endpoint.queue_id());
  urma_sge_t local = piece(segment, memory, kBytes);
  urma_sge_t there = piece(remote, target, kBytes);
  const urma_jfs_wr_t write = urma_test::write_request(queue, &local, &there, 7);
  urma_jfs_wr_t request = write;
  urma_jfs_wr_t* bad = nullptr;
  urma_cr_t record;
  const auto post = [&] { return urma_post_jetty_send_wr(endpoint.jetty, &request, &bad) == 0; };
  const auto poll = [&] { return urma_poll_jfc(endpoint.send_jfc, 1, &record) == 1; };
  const auto settle = [&] {
    fake.set("HOLD", 0);
    while (fake.get("UNDER_WAY") != 0) ::poll(nullptr, 0, 1);
  };
  // Attaching is complete.
  require(post(), "post");
  urma_test::wait_for_success(endpoint.send_jfc, 7);
  const auto count_posts = [&](const char* name) {
    count(
        name, [&] { fake.set("HOLD", 1); }, post,
        [&] {
          settle();
          require(poll(), "poll");
        });
  };
  request = urma_test::read_request(queue, &local, &there, 7);
  count_posts("post of a read");
  request = write;
  count_posts("post");
  count(
      "poll",
      [&] {
        require(post(), "post");
        settle();
      },
      poll, [] {});
  fake.set("HOLD", 1);
  require(post(), "post");
  count(
      "empty poll", [] {}, [&] { return urma_poll_jfc(endpoint.send_jfc, 1, &record) == 0; },
      [] {});
  settle();
  require(poll(), "poll");
}

}  // namespace

int main() {
  if (urma_init(nullptr) != URMA_SUCCESS) return 3;
  urma_uninit();
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
