// SPDX-License-Identifier: MIT
#include "segment/inplace/restore_thread.h"

#include <sys/prctl.h>

#include <atomic>
#include <new>

#include "segment/inplace/raw_syscall.h"

namespace urma {
namespace {

enum State : uint32_t { kIdle, kAsked, kDone, kOver };

}  // namespace

struct RestoreThread::Mailbox {
  std::atomic<uint32_t> state;
  MoverTools tools;
  Chunk chunk;
  RestoredArea area;
  PageAttributes attributes;
  int new_fd;  // -1: private memory replaces it
  uint64_t data_end;
  long result;
};

RestoreThread::RestoreThread() {
  static_assert(sizeof(Mailbox) <= QuietThread::kMailboxBytes);
  box_ = new (thread_.mailbox()) Mailbox{};
  thread_.start(&RestoreThread::run);
}

RestoreThread::~RestoreThread() {
  // SYNC(restore): release pairs with the acquire in RestoreThread::run.
  box_->state.store(kOver, std::memory_order_release);
  box_->state.notify_all();
}

long RestoreThread::restore(const MoverTools& tools, const Chunk& chunk, const RestoredArea& area,
                            uint64_t* data_end) {
  box_->tools = tools;
  box_->chunk = chunk;
  box_->attributes = *area.attributes;
  box_->area = area;
  box_->area.attributes = &box_->attributes;
  box_->new_fd = -1;
  return ask(data_end);
}

long RestoreThread::replace(const MoverTools& tools, const Chunk& chunk, int protection, int new_fd,
                            uint64_t* data_end) {
  box_->tools = tools;
  box_->chunk = chunk;
  box_->area.protection = protection;
  box_->new_fd = new_fd;
  return ask(data_end);
}

long RestoreThread::ask(uint64_t* data_end) {
  box_->data_end = *data_end;
  // SYNC(restore): release pairs with the acquire in RestoreThread::run.
  box_->state.store(kAsked, std::memory_order_release);
  box_->state.notify_all();
  // SYNC(restore): acquire pairs with the release of kDone in RestoreThread::run.
  box_->state.wait(kAsked, std::memory_order_acquire);
  *data_end = box_->data_end;
  return box_->result;
}

void* RestoreThread::run(void* mailbox) {
  auto* const box = static_cast<Mailbox*>(mailbox);
  raw_syscall(SYS_prctl, PR_SET_NAME, "urma-unshare-b", 0, 0, 0);
  for (;;) {
    // SYNC(restore): acquire pairs with the release in RestoreThread::ask and ~RestoreThread.
    const uint32_t state = box->state.load(std::memory_order_acquire);
    if (state == kOver) return nullptr;
    if (state != kAsked) {
      box->state.wait(state, std::memory_order_acquire);
      continue;
    }
    box->result = box->new_fd < 0 ? restore_chunk(box->tools, box->chunk, box->area, &box->data_end)
                                  : replace_chunk(box->tools, box->chunk, box->area.protection,
                                                  box->new_fd, &box->data_end);
    // SYNC(restore): release pairs with the acquire in RestoreThread::ask.
    box->state.store(kDone, std::memory_order_release);
    box->state.notify_all();
  }
}

}  // namespace urma
