// SPDX-License-Identifier: MIT
#include "jetty/notifier.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "jetty/queues.h"
#include "jetty/transport.h"
#include "urma/base/error.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"

namespace urma {
namespace {

// Results of one call, as the kernel of a UB device limits them.
constexpr uint32_t kMaxResults = 16;
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kFirstPauseNs = 1'000'000;
constexpr uint64_t kLongestPauseNs = 20'000'000;

// A target that does not exist yet may come; a refused sender stays refused.
bool may_change(Answer answer) {
  return answer == Answer::kNoSuchObject || answer == Answer::kUnreachable ||
         answer == Answer::kNoResources || answer == Answer::kNoResourcesHere;
}

}  // namespace

urma_status_t result_of(Answer answer) {
  switch (answer) {
    case Answer::kAccepted:
      return URMA_SUCCESS;
    case Answer::kWrongToken:
    case Answer::kWrongMode:
      return URMA_EINVAL;
    default:
      return URMA_FAIL;
  }
}

// One question to the owner of a target, repeated while the answer may still change. On the service
// thread.
class Probe : public std::enable_shared_from_this<Probe> {
 public:
  Probe(Transport* transport, std::shared_ptr<Results> results, const RemoteQueue& target,
        uint64_t serial)
      : service_(&transport->service()),
        transport_(transport),
        transport_ended_(transport->ended()),
        results_(std::move(results)),
        serial_(serial),
        target_{target.id.eid, target.id.id, static_cast<uint32_t>(target.type),
                static_cast<uint32_t>(target.trans_mode), target.token.token} {}

  void start(int timeout_ms) {
    once_ = timeout_ms == 0;
    if (timeout_ms > 0) {
      deadline_ = service_->after(static_cast<uint64_t>(timeout_ms) * kNsPerMs, [self = self()] {
        self->deadline_ = 0;
        self->give_up();
      });
    }
    ask();
  }
  // No result follows.
  void cancel() {
    if (deadline_ != 0) service_->cancel(std::exchange(deadline_, 0));
    if (pause_ != 0) service_->cancel(std::exchange(pause_, 0));
    over_ = true;
  }

 private:
  std::shared_ptr<Probe> self() { return shared_from_this(); }

  void ask() {
    pause_ = 0;
    if (over_ || *transport_ended_) return;
    try {
      transport_->probe(target_, [self = self()](Answer answer) { self->answered(answer); });
    } catch (const std::exception& error) {
      fail(error);
    }
  }

  void fail(const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "asking for id {:#x}: {}", target_.id, error.what());
    end(URMA_FAIL);
  }

  void answered(Answer answer) {
    if (over_ || *transport_ended_) return;
    last_ = answer;
    if (!may_change(answer)) {
      if (answer != Answer::kAccepted) log_refusal();
      return end(result_of(answer));
    }
    if (once_) return give_up();
    try {
      pause_ = service_->after(pause_ns_, [self = self()] { self->ask(); });
      pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
    } catch (const std::exception& error) {
      fail(error);
    }
  }

  void log_refusal() const {
    URMA_LOG_LIMITED(WARNING, "id {:#x} cannot be used as a target: {}", target_.id,
                     answer_text(last_));
  }

  void give_up() {
    if (over_ || *transport_ended_) return;
    if (last_ == Answer::kUnreachable) {
      transport_->log_absence(target_name(target_.type), target_.id);
    } else {
      log_refusal();
    }
    end(URMA_ETIMEOUT);
  }

  void end(urma_status_t status) {
    const auto keep = self();
    if (*transport_ended_) return;
    cancel();
    results_->finish(serial_, status);
  }

  Service* service_;
  Transport* transport_;
  const std::shared_ptr<const bool> transport_ended_;
  const std::shared_ptr<Results> results_;
  const uint64_t serial_;
  const ProbeTarget target_;
  bool once_ = false;
  bool over_ = false;
  Answer last_ = Answer::kUnreachable;
  uint64_t pause_ns_ = kFirstPauseNs;
  Service::TimerId deadline_ = 0;
  Service::TimerId pause_ = 0;
};

Results::Results(Transport* transport)
    : transport_(transport), readable_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!readable_.valid()) fail_errno(URMA_ENOMEM, "create_notifier: making its descriptor");
}

int Results::fd() {
  const MutexLock lock(mutex_);
  return readable_.get();
}

uint64_t Results::add(RemoteQueue* target, urma_jetty_t* jetty, uint64_t user_ctx) {
  const uint64_t serial = transport_->next_serial();
  const MutexLock lock(mutex_);
  under_way_.emplace(serial, Operation{target, jetty, jetty != nullptr, user_ctx, URMA_SUCCESS});
  if (jetty != nullptr) target->add_ref();
  return serial;
}

void Results::ask(uint64_t serial, int timeout_ms) {
  const MutexLock lock(mutex_);
  const auto entry = under_way_.find(serial);
  if (entry == under_way_.end()) return;  // unbound already
  auto probe =
      std::make_shared<Probe>(transport_, shared_from_this(), *entry->second.target, serial);
  transport_->service().post([self = shared_from_this(), probe, serial, timeout_ms] {
    self->probes_.emplace(serial, probe);
    probe->start(timeout_ms);
  });
}

void Results::drop(uint64_t serial) {
  const MutexLock lock(mutex_);
  const auto entry = under_way_.find(serial);
  if (entry == under_way_.end()) return;
  if (entry->second.is_bind) entry->second.target->drop_ref();
  under_way_.erase(entry);
}

void Results::finish(uint64_t serial, urma_status_t status) {
  probes_.erase(serial);
  end(serial, status);
}

void Results::end(uint64_t serial, urma_status_t status) {
  const MutexLock lock(mutex_);
  const auto entry = under_way_.find(serial);
  if (entry != under_way_.end()) end(entry, status);
}

void Results::end(std::map<uint64_t, Operation>::iterator entry, urma_status_t status) {
  entry->second.status = status;
  ended_.push_back(entry->second);
  under_way_.erase(entry);
  ::eventfd_write(readable_.get(), 1);
  arrived_.notify_one();
}

std::vector<Results::Operation> Results::take(uint32_t count, int timeout_ms) {
  const MutexLock lock(mutex_);
  if (timeout_ms < 0) {
    while (ended_.empty()) arrived_.wait(mutex_);
  } else if (timeout_ms > 0) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    while (ended_.empty() && arrived_.wait_until(mutex_, deadline)) continue;
  }
  std::vector<Operation> taken;
  taken.reserve(count);
  settling_.reserve(settling_.size() + count);
  while (!ended_.empty() && taken.size() < count) {
    taken.push_back(ended_.front());
    ended_.pop_front();
    // Under the lock: a thread that ends the import finds either its result here or the import
    // ended.
    const Operation& last = taken.back();
    if (last.failed() && !last.is_bind) last.release();
    if (last.failed() && last.jetty != nullptr) settling_.push_back(last.jetty);
  }
  clear_if_empty();
  return taken;
}

int Results::wait(uint32_t count, urma_notify_t* notify, int timeout_ms) {
  std::vector<Operation> taken = take(std::min(count, kMaxResults), timeout_ms);
  for (Operation& operation : taken) settle(&operation, notify++);
  return static_cast<int>(taken.size());
}

void Results::settle(Operation* operation, urma_notify_t* notify) {
  *notify = {};
  notify->status = operation->status;
  notify->user_ctx = operation->user_ctx;
  if (!operation->is_bind) {
    notify->type = URMA_IMPORT_JETTY_NOTIFY;
    notify->tjetty = operation->target;  // named only if it has failed
    return;
  }
  notify->type = URMA_BIND_JETTY_NOTIFY;
  notify->jetty = operation->jetty;
  if (operation->failed() && operation->jetty != nullptr) {
    disconnect(static_cast<Jetty*>(operation->jetty));
  }
  operation->release();
}

// Unlocked, because it waits for the service thread. The jetty stays until it is done: undo()
// waits.
void Results::disconnect(Jetty* jetty) {
  guarded(URMA_LOG_SITE, [&] { return jetty->disconnect(); });
  const MutexLock lock(mutex_);
  std::erase(settling_, jetty);
  settled_.notify_all();
}

void Results::Operation::release() const {
  if (!is_bind) target->end_import();
  target->drop_ref();
}

void Results::forget(const RemoteQueue* target) {
  const auto is_import = [=](const Operation& operation) {
    return operation.target == target && !operation.is_bind;
  };
  const MutexLock lock(mutex_);
  std::erase_if(ended_, is_import);
  clear_if_empty();
  const auto entry = std::find_if(under_way_.begin(), under_way_.end(),
                                  [&](const auto& one) { return is_import(one.second); });
  if (entry == under_way_.end()) return;
  cancel_probe(entry->first);
  under_way_.erase(entry);
}

void Results::undo(const urma_jetty_t* jetty) {
  const MutexLock lock(mutex_);
  while (std::find(settling_.begin(), settling_.end(), jetty) != settling_.end()) {
    settled_.wait(mutex_);
  }
  for (auto next = under_way_.begin(); next != under_way_.end();) {
    const auto entry = next++;
    if (entry->second.jetty != jetty) continue;
    cancel_probe(entry->first);
    end(entry, URMA_FAIL);
  }
  for (Operation& operation : ended_) {
    if (operation.jetty != jetty) continue;
    operation.jetty = nullptr;
    operation.status = URMA_FAIL;
  }
}

void Results::cancel_probe(uint64_t serial) {
  transport_->service().post([self = shared_from_this(), serial] {
    const auto probe = self->probes_.extract(serial);
    if (!probe.empty()) probe.mapped()->cancel();
  });
}

void Results::clear_if_empty() {
  eventfd_t ignored;
  if (ended_.empty()) ::eventfd_read(readable_.get(), &ignored);
}

void Results::close() {
  std::vector<Operation> left;
  {
    const MutexLock lock(mutex_);
    for (const auto& [serial, operation] : under_way_) left.push_back(operation);
    left.insert(left.end(), ended_.begin(), ended_.end());
    under_way_.clear();
    ended_.clear();
    readable_.reset();
  }
  transport_->service().run([this] {
    for (const auto& [serial, probe] : std::exchange(probes_, {})) probe->cancel();
  });
  for (const Operation& operation : left) operation.release();
}

Notifier::Notifier(urma_context_t* ctx, Transport* transport)
    : urma_notifier_t{}, results_(std::make_shared<Results>(transport)) {
  urma_ctx = ctx;
  fd = results_->fd();
}

}  // namespace urma
