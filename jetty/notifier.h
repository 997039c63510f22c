// SPDX-License-Identifier: MIT
//
// Importing and binding in the background: the service thread asks the owner of the target until it
// answers or the time is over, and a notifier hands the result to the program.
#ifndef JETTY_NOTIFIER_H_
#define JETTY_NOTIFIER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "jetty/remote.h"
#include "urma/base/fd.h"
#include "urma/base/mutex.h"
#include "urma_types.h"

namespace urma {

// The result of a background call for whose target the owner gave this answer.
urma_status_t result_of(Answer answer);

class Jetty;
class Probe;
class Transport;

// The operations in progress of one notifier, and the results that wait. Questions to owners hold
// it too, so it outlives the notifier while one of them is unanswered.
class Results : public std::enable_shared_from_this<Results> {
 public:
  // Throws Error.
  explicit Results(Transport* transport);

  int fd();
  // Enters an operation and returns its serial. `jetty`: for a bind to the target; NULL: an import.
  uint64_t add(RemoteQueue* target, urma_jetty_t* jetty, uint64_t user_ctx);
  // Asks the owner of its target.
  void ask(uint64_t serial, int timeout_ms);
  // Ends it with a result.
  void end(uint64_t serial, urma_status_t status);
  // The operation did not begin after all: no result of it will follow.
  void drop(uint64_t serial);
  // Takes up to `count` results out; see urma_wait_notify.
  int wait(uint32_t count, urma_notify_t* notify, int timeout_ms);
  // The program has ended the import itself: no result of it will follow.
  void forget(const RemoteQueue* target);
  // The program unbinds the jetty itself: results about that are failures that no longer name it.
  // When this returns, none is acted upon.
  void undo(const urma_jetty_t* jetty);
  // Ends everything. Nothing of it is touched afterwards.
  void close();

  // On the service thread.
  void finish(uint64_t serial, urma_status_t status);

 private:
  struct Operation {
    RemoteQueue* target;  // with a reference: the import's own, or one more for a bind
    urma_jetty_t* jetty;  // of a bind, until undo()
    bool is_bind;
    uint64_t user_ctx;
    urma_status_t status;

    bool failed() const { return status != URMA_SUCCESS; }
    void release() const;
  };

  std::vector<Operation> take(uint32_t count, int timeout_ms);
  void clear_if_empty() URMA_REQUIRES(mutex_);
  void end(std::map<uint64_t, Operation>::iterator entry, urma_status_t status)
      URMA_REQUIRES(mutex_);
  void cancel_probe(uint64_t serial);
  void settle(Operation* operation, urma_notify_t* notify);
  void disconnect(Jetty* jetty);

  Transport* transport_;
  Mutex mutex_;
  Condition arrived_;
  Condition settled_;
  std::vector<const urma_jetty_t*> settling_
      URMA_GUARDED_BY(mutex_);           // a failed bind of theirs is being undone
  Fd readable_ URMA_GUARDED_BY(mutex_);  // an eventfd
  std::map<uint64_t, Operation> under_way_ URMA_GUARDED_BY(mutex_);  // by serial
  std::deque<Operation> ended_ URMA_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<Probe>> probes_;  // on the service thread only
};

class Notifier : public urma_notifier_t {
 public:
  Notifier(urma_context_t* ctx, Transport* transport);
  ~Notifier() { results_->close(); }
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;
  Results& results() { return *results_; }

 private:
  std::shared_ptr<Results> results_;
};

}  // namespace urma

#endif  // JETTY_NOTIFIER_H_
