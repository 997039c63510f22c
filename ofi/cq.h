/* SPDX-License-Identifier: MIT */

// Completion queues: one JFC each.

#ifndef OFI_CQ_H
#define OFI_CQ_H

#include <rdma/fi_eq.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <vector>

#include "ofi/fid.h"
#include "ofi/rdm_completions.h"
#include "ofi/wakeup.h"
#include "urma_types.h"

namespace urma_fi {

class Domain;

// Makes completions for queues when they are read. Called with the lock of the domain.
class Driven {
 public:
  virtual void progress() = 0;
  // Lets the events of the queue tell of the next completion, and looks for some. False: not all of
  // its work makes events.
  virtual bool prepare_to_sleep() = 0;
  // Whether it has to look after peers while everybody sleeps.
  virtual bool watches_peers() const = 0;

 protected:
  ~Driven() = default;
};

class Cq final : public fid_cq {
 public:
  static int open(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context);
  ~Cq();

  // For an endpoint whose records become completions of this queue.
  urma_jfc_t* jfc() {
    has_records_.store(true, std::memory_order_relaxed);
    return jfc_;
  }

  // NULL: waiting is not possible.
  urma_jfce_t* events() const { return events_; }

  // With the lock of the domain.
  void drive(Driven* endpoint);
  void release(Driven* endpoint);
  void complete(const fi_cq_tagged_entry& entry, fi_addr_t source) {
    completions_.push(entry, source);
    wakeup_.wake();
  }
  void fail(const fi_cq_err_entry& entry) {
    completions_.push_error(entry);
    wakeup_.wake();
  }
  // Work remains that makes no events: nobody may sleep.
  void wake() { wakeup_.wake(); }

  // Takes completions, for counters.
  void progress();

  // Takes all completions: those that a closing endpoint has left here.
  void drain();

  // -FI_EAGAIN if completions wait, else lets the descriptor become readable with the next one.
  int try_wait();

  Needed users;

 private:
  explicit Cq(Domain* domain) : domain_(domain) {}
  int make(const fi_cq_attr& attr);

  int take_records(size_t room, char* buffer, size_t* given);
  bool convert(const urma_cr_t& record, fi_cq_err_entry* entry);
  size_t give_queued(size_t count, char* buffer);
  int prepare_driven();
  ssize_t take(void* buffer, size_t count, fi_addr_t* sources);
  ssize_t take_driven(void* buffer, size_t count, fi_addr_t* sources);
  ssize_t take_recorded(void* buffer, size_t count, fi_addr_t* sources);
  bool is_driven() const { return is_driven_.load(std::memory_order_relaxed); }

  static Cq* of(fid_cq* cq) { return static_cast<Cq*>(cq); }
  static int close(fid_t head);
  static int control(fid_t head, int command, void* argument);
  static ssize_t read(fid_cq* cq, void* buffer, size_t count);
  static ssize_t read_from(fid_cq* cq, void* buffer, size_t count, fi_addr_t* sources);
  static ssize_t read_error(fid_cq* cq, fi_cq_err_entry* entry, uint64_t flags);
  static ssize_t wait(fid_cq* cq, void* buffer, size_t count, const void* condition, int timeout);
  static ssize_t wait_from(fid_cq* cq, void* buffer, size_t count, fi_addr_t* sources,
                           const void* condition, int timeout);
  static const char* text(fid_cq* cq, int status, const void* data, char* buffer, size_t size);

  static fi_ops fid_ops_;
  static fi_ops_cq cq_ops_;

  Domain* domain_;
  size_t entry_size_ = 0;
  bool yields_ = false;            // while waiting
  urma_jfce_t* events_ = nullptr;  // NULL: waiting is not possible
  urma_jfc_t* jfc_ = nullptr;
  // Flags for callers that need neither: relaxed, since what they stand for is guarded.
  std::atomic<bool> is_driven_{false};
  std::atomic<bool> has_records_{false};
  std::vector<Driven*> driven_;  // this and the next two are guarded by the lock of the domain
  Completions completions_;
  Wakeup wakeup_;
  std::mutex mutex_;
  std::deque<fi_cq_err_entry> queue_;  // read before any record; errors have err set
};

}  // namespace urma_fi

#endif  // OFI_CQ_H
