// SPDX-License-Identifier: MIT
#include "urma/providers/loopback/wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace urma::loopback {
namespace {

// A receiver that does not progress holds up its sender, not memory: one more message at most.
constexpr size_t kMaxMessages = 1024;
constexpr uint64_t kMaxBytes = 16 << 20;

// This process, as one that has granted something.
class Self final : public WireOwner {
 public:
  explicit Self(const WireEngine* engine) : engine_(engine) {}
  bool stands(SegmentRef segment) const override { return engine_->segments().granted(segment); }
  bool gone() const override { return false; }

 private:
  const WireEngine* const engine_;
};

}  // namespace

void Pipe::answered(Answer answer, uint32_t members) {
  const MutexLock lock(mutex_);
  answer_ = answer;
  members_ = members;
  // No receiver exists that could.
  if (answer != Answer::kAccepted && abandoned.load()) close_locked(URMA_CR_WR_FLUSH_ERR);
}

std::optional<Answer> Pipe::answer(uint32_t* members) const {
  const MutexLock lock(mutex_);
  *members = members_;
  return answer_;
}

bool Pipe::put(const Outgoing& message, uint32_t cookie) {
  const MutexLock lock(mutex_);
  if (closed_) {
    reports_.push_back({cookie, static_cast<urma_cr_status_t>(closed_with_), {}});
    return true;
  }
  if (full()) return false;
  Held held;
  for (const iovec& piece : message.payload) {
    const auto* from = static_cast<const char*>(piece.iov_base);
    held.payload.insert(held.payload.end(), from, from + piece.iov_len);
  }
  held.head = {message.kind,
               message.flags,
               1,
               message.length,
               static_cast<uint32_t>(held.payload.size()),
               message.immediate};
  held.cookie = cookie;
  held_bytes_ += held.payload.size();
  messages_.push_back(std::move(held));
  // The JFC stays while the pipe is not closed.
  engine_->arrived(*jfc);
  return true;
}

void Pipe::report(WireReport report) {
  const MutexLock lock(mutex_);
  reports_.push_back(std::move(report));
}

bool Pipe::reap(WireReport* report) {
  const MutexLock lock(mutex_);
  if (reports_.empty()) return false;
  *report = std::move(reports_.front());
  reports_.pop_front();
  return true;
}

bool Pipe::ended() const {
  const MutexLock lock(mutex_);
  return closed_ && reports_.empty();
}

// The receiver ends what it has not received; without a receiver, nothing was sent.
void Pipe::end_sending(bool gone, bool asked) {
  abandon();
  const MutexLock lock(mutex_);
  if (gone) sender_jfc_ = nullptr;
  const bool refused = answer_.has_value() && *answer_ != Answer::kAccepted;
  if (!asked || refused) close_locked(URMA_CR_WR_FLUSH_ERR);
}

bool Pipe::full() const { return messages_.size() == kMaxMessages || held_bytes_ >= kMaxBytes; }

bool Pipe::silent() const {
  const MutexLock lock(mutex_);
  return messages_.empty();
}

Peek Pipe::next(Message* message) {
  const MutexLock lock(mutex_);
  if (messages_.empty()) return Peek::kEmpty;
  *message = messages_.front().head;
  return Peek::kMessage;
}

void Pipe::copy_held(uint32_t offset, void* to, uint32_t bytes) const {
  const MutexLock lock(mutex_);
  std::memcpy(to, messages_.front().payload.data() + offset, bytes);
}

void Pipe::answer(uint8_t status) {
  const MutexLock lock(mutex_);
  const bool was_full = full();
  const Held& held = messages_.front();
  reports_.push_back({held.cookie, static_cast<urma_cr_status_t>(status), {}});
  held_bytes_ -= held.payload.size();
  messages_.pop_front();
  if (was_full && sender_jfc_ != nullptr) engine_->arrived(*sender_jfc_);
}

void Pipe::close(uint8_t status) {
  const MutexLock lock(mutex_);
  close_locked(status);
}

void Pipe::close_locked(uint8_t status) {
  if (std::exchange(closed_, true)) return;
  closed_with_ = status;
  for (const Held& held : messages_) {
    reports_.push_back({held.cookie, static_cast<urma_cr_status_t>(status), {}});
  }
  messages_.clear();
  if (sender_jfc_ != nullptr) engine_->arrived(*sender_jfc_);
}

void Pipe::wake() {
  const MutexLock lock(mutex_);
  if (sender_jfc_ != nullptr) engine_->arrived(*sender_jfc_);
}

std::optional<Answer> Way::opened(uint32_t* members) {
  if (!asked_) {
    engine_->service().post([engine = engine_, pipe = pipe_, request = request_] {
      uint32_t count = 0;
      const Answer answer = engine->accept(request, pipe, &count);
      pipe->answered(answer, count);
      engine->serve_senders();
    });
    asked_ = true;
  }
  return pipe_->answer(members);
}

bool Way::access(const WireGrant& grant, const WireAccess& access, uint32_t cookie) {
  WireReport report = {cookie, URMA_CR_SUCCESS, {}};
  report.status = engine_->execute(*grants_, grant.segment.ref, access, &report.bytes);
  pipe_->report(std::move(report));
  return true;
}

void Way::end(bool gone) {
  pipe_->end_sending(gone, asked_);
  engine_->take_over();
}

void Wire::start(WireEngine* engine) {
  engine_ = engine;
  self_ = std::make_shared<Self>(engine);
}

void Wire::ask_grant(const GrantRequest& request,
                     std::function<void(Answer, const WireGrant&)> answered) {
  WireGrant given = {{}, self_};
  const Answer answer = engine_->grant(request, "this process", &grants_, &given.segment);
  answered(answer, given);
}

}  // namespace urma::loopback
