// SPDX-License-Identifier: MIT
#include "tools/ping/pinger.h"

#include <algorithm>
#include <cstdio>

#include "urma_types_str.h"

namespace ping {
namespace {

constexpr uint32_t kSlots = 64;
constexpr auto kRetry = std::chrono::milliseconds(100);  // after a packet could not be posted

// A limit of a duration; zero means none.
Clock::time_point limit_of(Clock::duration duration) {
  return duration == Clock::duration::zero() ? Clock::time_point::max() : Clock::now() + duration;
}

}  // namespace

Pinger::Pinger(const Settings& settings, const Place& place, Signals* signals)
    : settings_(settings),
      signals_(signals),
      port_(place, 0, kSlots),
      destination_(to_text(settings.destination)),
      end_(limit_of(settings.deadline)) {
  uint8_t* data = port_.slot_memory(port_.spare_slot());
  for (uint32_t i = 0; i < settings_.size; ++i) data[i] = static_cast<uint8_t>(i);
}

int Pinger::run() {
  if (!settings_.json) {
    std::printf("URMA_PING %s %u bytes of data.\n", destination_.c_str(), settings_.size);
  }
  const std::string local = to_text(port_.place().eid);
  if (settings_.verbose) {
    std::printf("from %s, device %s, priority %u, %s\n", local.c_str(), port_.place().device->name,
                port_.priority(), port_.tp_type() == URMA_CTP ? "CTP" : "RTP");
  }
  while (seq_ < settings_.count && !ended()) {
    if (seq_ > 0) sleep(Clock::now() + settings_.interval);
    if (!ended()) ping_once();
  }
  const std::string summary = settings_.json ? summary_.json(settings_, local) : summary_.text();
  std::fputs(summary.c_str(), stdout);
  return summary_.received() > 0 || signals_->raised() ? 0 : 1;
}

void Pinger::ping_once() {
  ++seq_;
  is_sent_ = is_over_ = false;
  summary_.add_sent();
  const auto limit = limit_of(settings_.reply_timeout);
  while (!is_over_ && !ended()) {
    if (!is_sent_) is_sent_ = try_send();
    port_.arm();
    take_records();
    if (is_over_) break;
    if (Clock::now() >= limit) {
      summary_.add_timeout();
      if (!settings_.quiet) std::printf("Request timeout for seq=%u\n", seq_);
      break;
    }
    const auto until = std::min(limit, end_);
    signals_->wait({port_.fd()}, is_sent_ ? until : std::min(until, Clock::now() + kRetry));
    port_.disarm();
  }
}

bool Pinger::try_send() {
  if (target_failed_ && under_way_ == 0) {
    target_.reset();
    target_failed_ = false;
  }
  if (target_ == nullptr) {
    target_ = port_.import(settings_.destination, kWellKnownId, URMA_JETTY);
  }
  if (target_ == nullptr || target_failed_) return false;
  urma_sge_t sge;
  urma_jfs_wr_t wr = port_.request(port_.spare_slot(), settings_.size, seq_, target_.get(), &sge);
  wr.user_ctx = seq_;
  urma_jfs_wr_t* bad = nullptr;
  sent_ = Clock::now();
  if (urma_post_jetty_send_wr(port_.jetty(), &wr, &bad) != URMA_SUCCESS) return false;
  ++under_way_;
  return true;
}

void Pinger::take_records() {
  urma_cr_t record;
  while (port_.poll(&record)) {
    if (record.flag.bs.s_r != 0) {
      take_reply(record);
    } else {
      take_sent(record);
    }
  }
}

// Packets given up count as lost even if a reply comes.
void Pinger::take_reply(const urma_cr_t& record) {
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - sent_).count();
  port_.receive(static_cast<uint32_t>(record.user_ctx));
  if (record.status != URMA_CR_SUCCESS) return fail(record.status);
  const bool expected = record.opcode == URMA_CR_OPC_SEND_WITH_IMM && record.imm_data == seq_ &&
                        same(record.remote_id.eid, settings_.destination);
  if (!expected || is_over_) {
    if (settings_.verbose) {
      std::printf("%u bytes from %s: imm=%llu, too late\n", record.completion_len,
                  to_text(record.remote_id.eid).c_str(),
                  static_cast<unsigned long long>(record.imm_data));
    }
    return;
  }
  is_over_ = true;
  summary_.add_reply(ms);
  if (!settings_.quiet) {
    std::printf("%u bytes from %s: seq=%u time=%.3f ms\n", record.completion_len,
                destination_.c_str(), seq_, ms);
  }
}

void Pinger::take_sent(const urma_cr_t& record) {
  --under_way_;
  if (record.status == URMA_CR_SUCCESS) return;
  target_failed_ = true;
  if (record.user_ctx == seq_) fail(record.status);
}

void Pinger::fail(int cr_status) {
  if (is_over_) return;
  is_over_ = true;
  summary_.add_error(cr_status);
  if (!settings_.quiet) {
    std::printf("From %s seq=%u cr_status=%d (%s)\n", destination_.c_str(), seq_, cr_status,
                urma_cr_status_to_string(static_cast<urma_cr_status_t>(cr_status)));
  }
}

void Pinger::sleep(Clock::time_point until) {
  until = std::min(until, end_);
  while (!signals_->raised() && Clock::now() < until) signals_->wait({}, until);
}

}  // namespace ping
