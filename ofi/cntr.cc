/* SPDX-License-Identifier: MIT */

#include "ofi/cntr.h"

#include <rdma/fi_domain.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "ofi/cq.h"
#include "ofi/domain.h"
#include "ofi/log.h"

namespace urma_fi {

fi_ops Cntr::fid_ops_ = {sizeof(fi_ops), Cntr::close, refuse, refuse, refuse, refuse, refuse};
fi_ops_cntr Cntr::cntr_ops_ = {sizeof(fi_ops_cntr), Cntr::read,      Cntr::read_errors,
                               Cntr::add,           Cntr::set,       Cntr::wait,
                               Cntr::add_errors,    Cntr::set_errors};

int Cntr::open(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
  if (attr != nullptr && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
      attr->wait_obj != FI_WAIT_YIELD) {
    URMA_FI_WARN(FI_LOG_CNTR, "wait object %d of a counter is not supported; use FI_WAIT_UNSPEC\n",
                 attr->wait_obj);
    return -FI_ENOSYS;
  }
  auto* made = new Cntr(static_cast<Domain*>(domain));
  made->fid = {FI_CLASS_CNTR, context, &fid_ops_};
  made->ops = &cntr_ops_;
  made->domain_->users.take();
  *cntr = made;
  return 0;
}

int Cntr::close(fid_t head) {
  Cntr* cntr = object_of<Cntr, fid_cntr>(head);
  if (cntr->users.in_use()) return -FI_EBUSY;
  cntr->domain_->users.drop();
  delete cntr;
  return 0;
}

// A queue is added once for each endpoint.
void Cntr::follow(Cq* cq) {
  std::lock_guard lock(mutex_);
  queues_.push_back(cq);
}

void Cntr::leave(Cq* cq) {
  std::lock_guard lock(mutex_);
  const auto found = std::find(queues_.begin(), queues_.end(), cq);
  if (found != queues_.end()) queues_.erase(found);
}

void Cntr::progress() {
  std::lock_guard lock(mutex_);
  for (Cq* cq : queues_) cq->progress();
}

uint64_t Cntr::read(fid_cntr* cntr) {
  of(cntr)->progress();
  return of(cntr)->value();
}

uint64_t Cntr::read_errors(fid_cntr* cntr) {
  of(cntr)->progress();
  return of(cntr)->errors();
}

int Cntr::add(fid_cntr* cntr, uint64_t value) {
  of(cntr)->value_.fetch_add(value, std::memory_order_relaxed);
  return 0;
}

int Cntr::set(fid_cntr* cntr, uint64_t value) {
  of(cntr)->value_.store(value, std::memory_order_relaxed);
  return 0;
}

int Cntr::add_errors(fid_cntr* cntr, uint64_t value) {
  of(cntr)->errors_.fetch_add(value, std::memory_order_relaxed);
  return 0;
}

int Cntr::set_errors(fid_cntr* cntr, uint64_t value) {
  of(cntr)->errors_.store(value, std::memory_order_relaxed);
  return 0;
}

int Cntr::wait(fid_cntr* cntr, uint64_t threshold, int timeout) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout);
  const uint64_t errors = of(cntr)->errors();
  while (read(cntr) < threshold) {
    if (of(cntr)->errors() != errors) return -FI_EAVAIL;
    if (timeout >= 0 && std::chrono::steady_clock::now() >= end) return -FI_ETIMEDOUT;
    sched_yield();
  }
  return 0;
}

}  // namespace urma_fi
