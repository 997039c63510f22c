// SPDX-License-Identifier: MIT
//
// The way of requests to one target over a wire.
#ifndef JETTY_WIRE_PATH_H_
#define JETTY_WIRE_PATH_H_

#include <cstdint>
#include <memory>
#include <span>

#include "jetty/request_path.h"
#include "jetty/wire.h"
#include "jetty/wire_engine.h"

namespace urma {

// What derives from it overrides advance().
class WirePath : public RequestPath {
 public:
  // `half` is the sender's.
  WirePath(Sender* sender, WireHalf* half, RemoteQueue* target, uint32_t hint)
      : RequestPath(sender, target, hint), half_(half) {}
  // For a sender over a wire alone.
  template <typename OwnSender>
  WirePath(OwnSender* sender, RemoteQueue* target, uint32_t hint)
      : WirePath(sender, &sender->half(), target, hint) {}

  // Not inlined, nor is what they call: a poll is compiled with all its calls inlined, and behind
  // these is a whole network.
  [[gnu::noinline]] bool advance_way();
  bool has_short_way() const override { return false; }
  [[gnu::noinline]] void flush() override;
  [[gnu::noinline]] void give_up_first() override;
  // Sends what was given to the way.
  void push() {
    if (way_ != nullptr) way_->push();
  }

 protected:
  void next_begins() override;
  void look_up(SendEntry* entry) override;
  WireHalf& half() const { return *half_; }

 private:
  // An access of `bytes` bytes that the first request waits for.
  struct Part {
    uint32_t cookie = 0;
    uint64_t bytes = 0;
    bool under_way = false;
    urma_cr_status_t status = URMA_CR_SUCCESS;
  };

  Step transfer(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step atomic(SendEntry* entry, urma_cr_status_t* status) override;
  Step send(SendEntry* entry, urma_cr_status_t* status) override;
  Step write_imm(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  Step write_notify(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override;
  bool placed_before(const SendEntry& entry) override;
  void memory_lost(const ImportedSegment& segment) override {
    if (half_->has_alternative) give_up_memory(segment);
  }

  Step authorize(SendEntry* entry, const WireGrant** grant, urma_cr_status_t* status);
  // All of a transfer, part by part. The last part is in flight when the request leaves the line,
  // unless something has to follow it.
  Step move(SendEntry* entry, bool something_follows, uint64_t* budget, urma_cr_status_t* status);
  bool begin(const WireGrant& grant, const WireAccess& access, uint32_t cookie);
  Step launched();
  Step await_part(SendEntry* entry, urma_cr_status_t* status);
  Step open(urma_cr_status_t* status);
  Step send_message(SendEntry* entry, MessageKind kind, std::span<const iovec> payload);
  Way& way();
  void reap();
  void take_report(const WireReport& report);
  urma_cr_status_t place(SendEntry* entry, uint64_t expected, const WireReport& report);

  // The owner of the target refuses, or does not answer: it may be near by now.
  void note_refusal() {
    if (half_->has_alternative) give_up();
  }
  uint64_t waited() const;
  void note_waiting();
  void note_loss();
  Wire& wire() const { return half_->engine->wire(); }

  WireHalf* const half_;
  std::unique_ptr<Way> way_;
  Part part_;
  uint32_t next_part_ = 0;
  uint32_t in_flight_ = 0;     // requests in flight
  bool opened_ = false;        // its owner has accepted the way
  bool closing_ = false;       // the way ends once everything that it was given is reported
  bool flushing_ = false;      // because of flush()
  bool message_lost_ = false;  // one that this way was given has had no answer
  // The target did not answer when these first requests of the queue last waited for it.
  uint64_t lost_until_ = 0;
};

// Of a sender over a wire alone.
class OnlyWirePath : public WirePath {
 public:
  using WirePath::WirePath;
  bool advance() override { return advance_way(); }
  bool wakes() const override { return true; }
};

}  // namespace urma

#endif  // JETTY_WIRE_PATH_H_
