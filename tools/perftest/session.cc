// SPDX-License-Identifier: MIT
#include "tools/perftest/session.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "tools/perftest/run.h"

namespace perftest {
namespace {

// With --enable_err_continue, at most this many failures are reported singly.
constexpr uint64_t kMostToldFailures = 10;

// Offsets of the words in their segments.
constexpr uint32_t kCreditOffset = 8;
constexpr uint32_t kNotifyOffset = 0;

const Words* pointer(const std::optional<Words>& words) { return words ? &*words : nullptr; }

}  // namespace

Session::Session(const Config& config, Exchange& exchange, Reporter& reporter)
    : config(config),
      exchange(exchange),
      reporter(reporter),
      device(config),
      queues(device, config),
      memory(device.context(), config),
      links([this]() -> Links {
        if (this->config.credit) credit.emplace(device.context(), this->config, kCreditOffset);
        if (this->config.notify) notify.emplace(device.context(), this->config, kNotifyOffset);
        return {device,          this->config,    queues,        memory,
                pointer(credit), pointer(notify), this->exchange};
      }()),
      watch(config, exchange),
      sleeper(config, queues, watch) {}

// The tags are those of UMDK's tool. The peer's queues are unimported before it deletes them.
void Session::renew_queues() {
  links.disconnect();
  exchange.sync_time("recreate_jetty_disconnect");
  queues.renew(config);
  sleeper.forget();
  links.reconnect();
  exchange.sync_time("recreate_jetty_connect");
}

bool Session::says_end() const {
  return config.mode == URMA_TM_UM && config.bandwidth() && !config.verify &&
         config.ends_by == EndsBy::kIterations && exchange.says_end();
}

// Where the peer sends nothing but tags, none begins like a quit notice; UMDK's tool sends a notice
// only in tests without an end.
void Session::expect(bool peer_finishes) {
  watch.expect_peer_to_finish(peer_finishes);
  const bool only_receives = config.bandwidth() && active() && !receives();
  const bool tags_only = !config.verify && (!peer_finishes || only_receives || says_end());
  watch.expect_quit(config.ends_by == EndsBy::kUser || (exchange.extended() && tags_only));
}

void Session::be_passive() {
  if (config.ends_by != EndsBy::kUser && !exchange.extended()) return;
  if (config.poll_always) poll_until_told();
  if (exchange.wait_for_data()) return;
  exchange.notify_quit();
  partial = true;
}

// A side that only waits has sent its notice in be_passive.
void Session::end_size(const std::string& tag) {
  const bool heard = config.ends_by == EndsBy::kUser || exchange.extended();
  if (partial && interrupted && heard && measures()) exchange.notify_quit();
  exchange.sync_time(tag);
  partial |= exchange.quit_came();
}

void Session::poll_until_told() {
  while (!interrupted.load(std::memory_order_relaxed) && !exchange.has_data()) serve_peer();
}

void Session::failed(const urma_cr_t& record) {
  // After the peer goes, requests fail before its connection is seen to close.
  if (!config.error_continue) {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    exchange.check_peer();
  }
  std::string line = record.flag.bs.s_r ? "a receive of " : "a request of ";
  line += record.flag.bs.jetty ? "jetty " : "queue ";
  line += std::to_string(record.local_id) + " ended with " + completion_text(record.status);
  if (!config.error_continue) throw RunError(line);
  if (++failures <= kMostToldFailures) std::fprintf(stderr, "warning: %s\n", line.c_str());
}

void Session::poll_failed(int result) {
  throw RunError("urma_poll_jfc returned " + std::to_string(result));
}

}  // namespace perftest
