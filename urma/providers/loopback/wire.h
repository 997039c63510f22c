// SPDX-License-Identifier: MIT
//
// The shortest wire: from one queue to another of the same process.
#ifndef URMA_PROVIDERS_LOOPBACK_WIRE_H_
#define URMA_PROVIDERS_LOOPBACK_WIRE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jetty/wire.h"
#include "jetty/wire_engine.h"
#include "urma/base/mutex.h"

namespace urma::loopback {

// What lies between both ends of a way, which both hold it.
class Pipe final : public WireIncoming {
 public:
  Pipe(WireEngine* engine, const CompletionQueue* sender_jfc)
      : engine_(engine), sender_jfc_(sender_jfc) {}

  // The sending end. put() is false if there is no room.
  void answered(Answer answer, uint32_t members);
  std::optional<Answer> answer(uint32_t* members) const;
  bool put(const Outgoing& message, uint32_t cookie);
  void report(WireReport report);
  bool reap(WireReport* report);
  bool ended() const;
  // Nothing further comes from it. `gone`: it is told nothing, either; `asked`: the owner has
  // answered, or will.
  void end_sending(bool gone, bool asked);

  // The receiving end.
  void copy_held(uint32_t offset, void* to, uint32_t bytes) const override;
  void close(uint8_t status) override;
  void wake() override;
  std::string who() const override { return "this process"; }

  bool silent() const override;

 private:
  struct Held {
    Message head;
    std::vector<char> payload;
    uint32_t cookie;
  };

  Peek next(Message* message) override;
  void answer(uint8_t status) override;
  void close_locked(uint8_t status) URMA_REQUIRES(mutex_);
  bool full() const URMA_REQUIRES(mutex_);

  WireEngine* const engine_;
  mutable Mutex mutex_;
  const CompletionQueue* sender_jfc_ URMA_GUARDED_BY(mutex_);  // NULL: nobody waits
  std::optional<Answer> answer_ URMA_GUARDED_BY(mutex_);       // of the owner of the target
  uint32_t members_ URMA_GUARDED_BY(mutex_) = 0;
  std::deque<Held> messages_ URMA_GUARDED_BY(mutex_);
  uint64_t held_bytes_ URMA_GUARDED_BY(mutex_) = 0;
  std::deque<WireReport> reports_ URMA_GUARDED_BY(mutex_);
  bool closed_ URMA_GUARDED_BY(mutex_) = false;
  uint8_t closed_with_ URMA_GUARDED_BY(mutex_) = URMA_CR_SUCCESS;
};

class Way final : public urma::Way {
 public:
  Way(WireEngine* engine, const PeerGrants* grants, const WayRequest& request,
      const CompletionQueue& jfc)
      : engine_(engine),
        grants_(grants),
        request_(request),
        pipe_(std::make_shared<Pipe>(engine, &jfc)) {}
  ~Way() override { end(/*gone=*/true); }

  std::optional<Answer> opened(uint32_t* members) override;
  bool send(const Outgoing& message, uint32_t cookie) override {
    return pipe_->put(message, cookie);
  }
  bool access(const WireGrant& grant, const WireAccess& access, uint32_t cookie) override;
  bool reap(WireReport* report) override { return pipe_->reap(report); }
  void close() override { end(/*gone=*/false); }
  bool ended() const override { return pipe_->ended(); }

 private:
  void end(bool gone);

  WireEngine* const engine_;
  const PeerGrants* const grants_;
  const WayRequest request_;
  const std::shared_ptr<Pipe> pipe_;
  bool asked_ = false;
};

class Wire final : public urma::Wire {
 public:
  void start(WireEngine* engine) override;
  void stop() override {}
  std::unique_ptr<urma::Way> make_way(const WayRequest& request,
                                      const CompletionQueue& jfc) override {
    return std::make_unique<Way>(engine_, &grants_, request, jfc);
  }
  void probe(const ProbeTarget& target, std::function<void(Answer)> answered) override {
    answered(engine_->judge(target));
  }
  void ask_grant(const GrantRequest& request,
                 std::function<void(Answer, const WireGrant&)> answered) override;

 private:
  WireEngine* engine_ = nullptr;
  PeerGrants grants_;  // of this process, to itself
  std::shared_ptr<const WireOwner> self_;
};

}  // namespace urma::loopback

#endif  // URMA_PROVIDERS_LOOPBACK_WIRE_H_
