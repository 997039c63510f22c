// SPDX-License-Identifier: MIT
//
// The faults of URMA_FAULT, for any provider that executes requests by a RequestPath. Used only
// where the variable is set, in place of the ordinary senders and posts.
#ifndef JETTY_FAULTY_H_
#define JETTY_FAULTY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "jetty/context.h"
#include "jetty/faults.h"
#include "jetty/ops.h"
#include "jetty/queues.h"
#include "jetty/request_path.h"
#include "urma/base/guard.h"
#include "urma_provider.h"

namespace urma {

// The connections of a queue that were dropped and have not ended. Its requests wait meanwhile,
// whatever way they take: one that ends would still carry them.
using Losing = std::shared_ptr<std::atomic<uint32_t>>;

// The fault of the first request of a path, which is looked at again and again.
class Misfortune {
 public:
  enum class Verdict { kExecute, kWait, kEnd, kEndWithConnection };

  explicit Misfortune(Faults* faults) : faults_(faults) {}
  // *status is how the request ends. A connection is to be ended only once.
  Verdict of(const SendEntry& entry, CompletionQueue* jfc, urma_cr_status_t* status);
  // Another request is the first now.
  void forget() { judged_ = struck_ = false; }

 private:
  Faults* const faults_;
  bool judged_ = false;
  bool struck_ = false;  // the connection has been ended
  std::optional<Fault> fault_;
  uint64_t not_before_ns_ = 0;
};

template <typename Path>
class FaultyPath final : public Path {
 public:
  template <typename Sender>
  FaultyPath(Sender* sender, RemoteQueue* target, uint32_t hint, Faults* faults, Losing losing)
      : Path(sender, target, hint), misfortune_(faults), losing_(std::move(losing)) {}

  // A delay ends by the clock.
  bool wakes() const override { return false; }

 private:
  using Step = typename Path::Step;

  void next_begins() override {
    misfortune_.forget();
    Path::next_begins();
  }
  Step execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status) override {
    if (*losing_ != 0) return Step::kWait;
    auto* jfc = static_cast<CompletionQueue*>(this->sender()->config().jfc);
    switch (misfortune_.of(*entry, jfc, status)) {
      case Misfortune::Verdict::kExecute:
        return Path::execute(entry, budget, status);
      case Misfortune::Verdict::kWait:
        return Step::kWait;
      case Misfortune::Verdict::kEndWithConnection:
        drop_connection();
        return Step::kDone;
      case Misfortune::Verdict::kEnd:
        break;
    }
    return Step::kDone;
  }

  // Once it has ended, or this fails, nobody holds the token any more.
  void drop_connection() {
    ++*losing_;
    const std::shared_ptr<void> token(nullptr, [losing = losing_](void*) { --*losing; });
    this->sender()->transport().lose_connection(*this->target(), [token] {});
  }

  Misfortune misfortune_;
  const Losing losing_;
};

// `Own` is the provider's sender, whose paths are of type `Path`, in mode UM of type `UmPath`.
template <typename Own, typename Path, typename UmPath = Path>
class FaultySender final : public Own {
 public:
  template <typename... Args>
  explicit FaultySender(Faults* faults, const Args&... args) : Own(args...), faults_(faults) {}

  // Every request takes the long way, where it can be delayed. *fails: the queue has to fail now.
  urma_status_t post(urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr, bool* fails) noexcept {
    OwnerScope scope(this->lock());
    for (; wr != nullptr; wr = wr->next) {
      TargetPath* path = nullptr;
      const urma_status_t status = this->take_in(*wr, &path);
      if (path != nullptr) this->go_on(path);
      if (status != URMA_SUCCESS) {
        this->queue().count_refused();
        *bad_wr = wr;
        return status;
      }
      this->queue().count_post();
      *fails |= faults_->fails_queue(kind_of(wr->opcode));
    }
    return URMA_SUCCESS;
  }

 private:
  std::unique_ptr<TargetPath> make_path(RemoteQueue* target, uint32_t hint) override {
    // Of a provider with ways of two kinds.
    if constexpr (requires { typename Own::OtherPath; }) {
      using Other = typename Own::OtherPath;
      if (this->takes_other_path(*target)) {
        return std::make_unique<FaultyPath<Other>>(this, target, hint, faults_, losing_);
      }
    }
    if (this->config().trans_mode == URMA_TM_UM) {
      return std::make_unique<FaultyPath<UmPath>>(this, target, hint, faults_, losing_);
    }
    return std::make_unique<FaultyPath<Path>>(this, target, hint, faults_, losing_);
  }

  Faults* const faults_;
  const Losing losing_ = std::make_shared<std::atomic<uint32_t>>(0);
};

// A sender of the type `Own`, with the faults that were asked for; NULL: none.
template <typename Own, typename Path, typename UmPath = Path, typename... Args>
std::unique_ptr<Sender> make_own_sender(Faults* faults, const Args&... args) {
  if (faults == nullptr) return std::make_unique<Own>(args...);
  return std::make_unique<FaultySender<Own, Path, UmPath>>(faults, args...);
}

namespace internal {

template <typename Object>
void fail_now(Object* object) noexcept {
  guarded(URMA_LOG_SITE, [object] { object->break_down(); });
}
// One of the receives just posted makes the JFR fail. The caller uses the JFR, so it stays.
void judge_receives(Jfr* jfr, const urma_jfr_wr_t* first, const urma_jfr_wr_t* end) noexcept;
inline Jfr* receives_of(Jfr* jfr) { return jfr; }
inline Jfr* receives_of(Jetty* jetty) { return static_cast<Jfr*>(jetty->jetty_cfg.shared.jfr); }

template <typename Faulty, typename Object, typename Handle>
urma_status_t post_send(Handle* handle, urma_jfs_wr_t* wr, urma_jfs_wr_t** bad_wr) noexcept {
  auto* object = static_cast<Object*>(handle);
  auto* sender = static_cast<Faulty*>(object->sender());
  if (sender == nullptr) return reject_inactive(handle, wr, bad_wr);
  bool fails = false;
  const urma_status_t status = sender->post(wr, bad_wr, &fails);
  if (fails) fail_now(object);
  return status;
}

template <typename Receiver, typename Object, typename Handle>
urma_status_t post_receive(Handle* handle, urma_jfr_wr_t* wr, urma_jfr_wr_t** bad_wr) noexcept {
  auto* object = static_cast<Object*>(handle);
  auto* receiver = static_cast<Receiver*>(object->receiver());
  if (receiver == nullptr) return reject_inactive(handle, wr, bad_wr);
  const urma_status_t status = receiver->post(wr, bad_wr);
  judge_receives(receives_of(object), wr, status == URMA_SUCCESS ? nullptr : *bad_wr);
  return status;
}

}  // namespace internal

// For a transport whose senders are of make_own_sender(), with faults or without.
template <typename Own, typename Path, typename Receiver, typename UmPath = Path>
void add_post_ops(bool faulty, urma_ops_t* ops) {
  if (!faulty) return add_post_ops<Own, Receiver>(ops);
  using Faulty = FaultySender<Own, Path, UmPath>;
  ops->post_jfs_wr = internal::post_send<Faulty, Jfs, urma_jfs_t>;
  ops->post_jetty_send_wr = internal::post_send<Faulty, Jetty, urma_jetty_t>;
  ops->post_jfr_wr = internal::post_receive<Receiver, Jfr, urma_jfr_t>;
  ops->post_jetty_recv_wr = internal::post_receive<Receiver, Jetty, urma_jetty_t>;
}

}  // namespace urma

#endif  // JETTY_FAULTY_H_
