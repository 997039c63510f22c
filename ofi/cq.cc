/* SPDX-License-Identifier: MIT */

#include "ofi/cq.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "ofi/cntr.h"
#include "ofi/deadline.h"
#include "ofi/domain.h"
#include "ofi/log.h"
#include "ofi/op.h"
#include "urma_api.h"

namespace urma_fi {
namespace {

constexpr size_t kBatch = 16;
constexpr size_t kLeastDepth = 4096;  // several endpoints share a queue

// 0: unknown format. Each entry begins with the members of the smaller ones, and so does an error
// entry.
size_t size_of(fi_cq_format format) {
  switch (format) {
    case FI_CQ_FORMAT_UNSPEC:
    case FI_CQ_FORMAT_CONTEXT:
      return sizeof(fi_cq_entry);
    case FI_CQ_FORMAT_MSG:
      return sizeof(fi_cq_msg_entry);
    case FI_CQ_FORMAT_DATA:
      return sizeof(fi_cq_data_entry);
    case FI_CQ_FORMAT_TAGGED:
      return sizeof(fi_cq_tagged_entry);
  }
  return 0;
}

bool can_wait(fi_wait_obj object) { return object == FI_WAIT_FD || object == FI_WAIT_UNSPEC; }

}  // namespace

fi_ops Cq::fid_ops_ = {sizeof(fi_ops), Cq::close, refuse, Cq::control, refuse, refuse, refuse};
fi_ops_cq Cq::cq_ops_ = {sizeof(fi_ops_cq), Cq::read,      Cq::read_from, Cq::read_error,
                         Cq::wait,          Cq::wait_from, refuse,        Cq::text};

int Cq::open(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context) {
  std::unique_ptr<Cq> made(new Cq(static_cast<Domain*>(domain)));
  made->fid = {FI_CLASS_CQ, context, &fid_ops_};
  made->ops = &cq_ops_;
  const int error = made->make(*attr);
  if (error != 0) return error;
  made->domain_->users.take();
  *cq = made.release();
  return 0;
}

int Cq::make(const fi_cq_attr& attr) {
  const Device& device = *domain_->device();
  entry_size_ = size_of(attr.format);
  yields_ = attr.wait_obj == FI_WAIT_YIELD;
  const bool waits = can_wait(attr.wait_obj);
  if (!waits && attr.wait_obj != FI_WAIT_NONE && !yields_) {
    URMA_FI_WARN(FI_LOG_CQ,
                 "wait object %d of a completion queue is not supported; use FI_WAIT_FD\n",
                 attr.wait_obj);
    return -FI_ENOSYS;
  }
  if (entry_size_ == 0) {
    URMA_FI_WARN(FI_LOG_CQ, "unknown format %d of a completion queue\n", attr.format);
    return -FI_EINVAL;
  }
  if (waits) {
    events_ = urma_create_jfce(device.context());
    if (events_ == nullptr) return error_of_errno();
    const int error = wakeup_.make(events_->fd);
    if (error != 0) return error;
  }
  urma_jfc_cfg_t cfg{};
  // Layers request room for everything that many endpoints may have in flight. Completions beyond
  // the JFC's depth wait at their sender.
  cfg.depth = std::min<size_t>(std::max(attr.size, kLeastDepth), device.cap().max_jfc_depth);
  cfg.jfce = events_;
  jfc_ = urma_create_jfc(device.context(), &cfg);
  return jfc_ == nullptr ? error_of_errno() : 0;
}

Cq::~Cq() {
  if (jfc_ != nullptr) urma_delete_jfc(jfc_);
  if (events_ != nullptr) urma_delete_jfce(events_);
}

int Cq::close(fid_t head) {
  Cq* cq = object_of<Cq, fid_cq>(head);
  if (cq->users.in_use()) return -FI_EBUSY;
  cq->domain_->users.drop();
  delete cq;
  return 0;
}

int Cq::control(fid_t head, int command, void* argument) {
  const Cq* cq = object_of<Cq, fid_cq>(head);
  if (command != FI_GETWAIT || cq->events_ == nullptr) return -FI_ENOSYS;
  *static_cast<int*>(argument) = cq->wakeup_.fd();
  return 0;
}

// False: the caller wants no report of it.
bool Cq::convert(const urma_cr_t& record, fi_cq_err_entry* entry) {
  Op* op = reinterpret_cast<Op*>(record.user_ctx);
  const bool receive = record.flag.bs.s_r;
  *entry = {};
  entry->op_context = op->context;
  entry->flags = op->flags;
  entry->len = record.completion_len;
  entry->buf = op->buffer;
  const bool told =
      receive && record.status == URMA_CR_SUCCESS &&
      (record.opcode == URMA_CR_OPC_SEND_WITH_IMM || record.opcode == URMA_CR_OPC_WRITE_WITH_IMM);
  if (told) {
    entry->data = record.imm_data;
    entry->flags |= FI_REMOTE_CQ_DATA;
    if (record.opcode == URMA_CR_OPC_WRITE_WITH_IMM)
      entry->flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
  }
  if (record.status != URMA_CR_SUCCESS) {
    entry->err =
        error_of_completion(record.status, receive, (op->flags & (FI_RMA | FI_ATOMIC)) != 0);
    entry->prov_errno = record.status;
  }
  if (op->counter != nullptr) op->counter->count(entry->err);
  // The peer's data goes to the queue, whatever the receive asked for.
  const bool report = op->report || told || (entry->err != 0 && !op->silent);
  op->pool->put(op);
  return report;
}

// Writes up to `room` completions to `buffer`, unless some are queued before them. Returns the
// number of records; some may have been queued, and some not be reported.
int Cq::take_records(size_t room, char* buffer, size_t* given) {
  urma_cr_t records[kBatch];
  const int count =
      urma_poll_jfc(jfc_, static_cast<int>(std::clamp<size_t>(room, 1, kBatch)), records);
  for (int i = 0; i < count; i++) {
    const urma_cr_status_t status = records[i].status;
    if (status == URMA_CR_WR_FLUSH_ERR_DONE || status == URMA_CR_WR_SUSPEND_DONE) continue;
    fi_cq_err_entry entry;
    if (!convert(records[i], &entry)) continue;
    if (entry.err != 0 || !queue_.empty() || *given == room) {
      queue_.push_back(entry);
      continue;
    }
    std::memcpy(buffer + *given * entry_size_, &entry, entry_size_);
    ++*given;
  }
  return count;
}

size_t Cq::give_queued(size_t count, char* buffer) {
  size_t given = 0;
  while (given < count && !queue_.empty() && queue_.front().err == 0) {
    std::memcpy(buffer + given * entry_size_, &queue_.front(), entry_size_);
    queue_.pop_front();
    given++;
  }
  return given;
}

void Cq::drive(Driven* endpoint) {
  driven_.push_back(endpoint);
  is_driven_.store(true, std::memory_order_relaxed);
}

void Cq::release(Driven* endpoint) { std::erase(driven_, endpoint); }

ssize_t Cq::take(void* buffer, size_t count, fi_addr_t* sources) {
  if (is_driven()) {
    const ssize_t taken = take_driven(buffer, count, sources);
    if (taken != -FI_EAGAIN || !has_records_.load(std::memory_order_relaxed)) return taken;
  }
  return take_recorded(buffer, count, sources);
}

ssize_t Cq::take_driven(void* buffer, size_t count, fi_addr_t* sources) {
  std::lock_guard lock(domain_->lock());
  if (completions_.empty() || count == 0)
    for (Driven* endpoint : driven_) endpoint->progress();
  return completions_.take(static_cast<char*>(buffer), count, entry_size_, sources);
}

ssize_t Cq::take_recorded(void* buffer, size_t count, fi_addr_t* sources) {
  std::lock_guard lock(mutex_);
  size_t given = give_queued(count, static_cast<char*>(buffer));
  if (given == 0 && queue_.empty()) take_records(count, static_cast<char*>(buffer), &given);
  for (size_t i = 0; i < given && sources != nullptr; i++) sources[i] = FI_ADDR_NOTAVAIL;
  if (given > 0) return static_cast<ssize_t>(given);
  return queue_.empty() || queue_.front().err == 0 ? -FI_EAGAIN : -FI_EAVAIL;
}

void Cq::progress() {
  if (is_driven()) {
    std::lock_guard lock(domain_->lock());
    for (Driven* endpoint : driven_) endpoint->progress();
  }
  std::lock_guard lock(mutex_);
  size_t none = 0;
  take_records(0, nullptr, &none);
}

void Cq::drain() {
  std::lock_guard lock(mutex_);
  size_t none = 0;
  while (take_records(0, nullptr, &none) > 0) continue;
}

int Cq::try_wait() {
  if (events_ == nullptr) return -FI_EINVAL;
  std::lock_guard lock(mutex_);
  if (!queue_.empty()) return -FI_EAGAIN;
  urma_jfc_t* raised = nullptr;
  uint32_t one = 1;
  while (urma_wait_jfc(events_, 1, 0, &raised) > 0) urma_ack_jfc(&raised, &one, 1);
  urma_rearm_jfc(jfc_, false);
  size_t none = 0;
  take_records(0, nullptr, &none);
  if (!queue_.empty()) return -FI_EAGAIN;
  return is_driven() ? prepare_driven() : 0;
}

// The events that were taken may have been another sleeper's: what is found here wakes him.
int Cq::prepare_driven() {
  std::lock_guard lock(domain_->lock());
  bool ready = true, timed = false;
  for (Driven* endpoint : driven_) {
    ready = endpoint->prepare_to_sleep() && ready;
    timed = endpoint->watches_peers() || timed;
  }
  if (!ready || !completions_.empty()) return -FI_EAGAIN;
  wakeup_.prepare(timed);
  return 0;
}

ssize_t Cq::read(fid_cq* cq, void* buffer, size_t count) {
  return of(cq)->take(buffer, count, nullptr);
}

ssize_t Cq::read_from(fid_cq* cq, void* buffer, size_t count, fi_addr_t* sources) {
  return of(cq)->take(buffer, count, sources);
}

ssize_t Cq::read_error(fid_cq* cq, fi_cq_err_entry* entry, uint64_t) {
  if (of(cq)->is_driven()) {
    std::lock_guard lock(of(cq)->domain_->lock());
    if (of(cq)->completions_.take_error(entry)) return 1;
  }
  std::lock_guard lock(of(cq)->mutex_);
  std::deque<fi_cq_err_entry>& queue = of(cq)->queue_;
  if (queue.empty() || queue.front().err == 0) return -FI_EAGAIN;
  *entry = queue.front();
  queue.pop_front();
  return 1;
}

ssize_t Cq::wait(fid_cq* cq, void* buffer, size_t count, const void* condition, int timeout) {
  return wait_from(cq, buffer, count, nullptr, condition, timeout);
}

ssize_t Cq::wait_from(fid_cq* cq, void* buffer, size_t count, fi_addr_t* sources, const void*,
                      int timeout) {
  const bool yields = of(cq)->yields_;
  if (of(cq)->events_ == nullptr && !yields) return -FI_ENOSYS;
  const Deadline deadline(timeout);
  while (true) {
    const ssize_t taken = read_from(cq, buffer, count, sources);
    if (taken != -FI_EAGAIN) return taken;
    if (yields) {
      if (deadline.is_over()) return -FI_EAGAIN;
      sched_yield();
      continue;
    }
    if (of(cq)->try_wait() != 0) continue;
    if (!deadline.wait_for(of(cq)->wakeup_.fd())) return -FI_EAGAIN;
  }
}

const char* Cq::text(fid_cq*, int status, const void*, char* buffer, size_t size) {
  if (buffer != nullptr && size > 0) std::snprintf(buffer, size, "%s", completion_text(status));
  return completion_text(status);
}

}  // namespace urma_fi
