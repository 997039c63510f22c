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

namespace urma {

class WireSender;

class WirePath : public RequestPath {
 public:
  WirePath(WireSender* sender, RemoteQueue* target, uint32_t hint);

  bool advance() override;
  bool has_short_way() const override { return false; }
  void flush() override;
  // What was given to the way leaves.
  void push() {
    if (way_ != nullptr) way_->push();
  }

 protected:
  void next_begins() override;

 private:
  // An access that the first request waits for, of so many bytes.
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
  void look_up(SendEntry* entry) override;

  Step authorize(SendEntry* entry, const WireGrant** grant, urma_cr_status_t* status);
  // All of a transfer, part by part. The last one is on its way when the request leaves the line,
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
  urma_cr_status_t place(SendEntry* entry, uint64_t expected, std::span<const char> bytes);

  WireSender* const sender_;
  std::unique_ptr<Way> way_;
  Part part_;
  uint32_t next_part_ = 0;
  uint32_t in_flight_ = 0;  // requests that are on their way
  bool opened_ = false;     // its owner has accepted the way
  bool closing_ = false;    // the way ends once all it was given has been reported
  bool flushing_ = false;   // because flush() has said so
  bool lost_ = false;       // the target did not answer any more when it was last spoken to
};

}  // namespace urma

#endif  // JETTY_WIRE_PATH_H_
