// SPDX-License-Identifier: MIT
//
// What the owner does to its own memory for a peer: atomics, and staged copies if the kernel
// refuses the peer access.
#include "jetty/memory_access.h"
#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/providers/shm/sender.h"
#include "urma/providers/shm/server.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
void Client::atomic(const Request& request) {
  const AtomicRequest& asked = request.atomic;
  Reply answer = {};
  answer.answer = Answer::kAccepted;
  const uint32_t access =
      asked.opcode == URMA_OPC_WRITE_ATOMIC ? URMA_ACCESS_WRITE : URMA_ACCESS_ATOMIC;
  if (!valid_width(asked.opcode, asked.bytes)) {
    answer.answer = Answer::kMalformed;
  } else if (asked.va % asked.bytes != 0) {
    answer.answer = Answer::kMisaligned;
  } else if (!granted_.has({asked.index, asked.generation}) ||
             !transport_->segments().with_grant(
                 {asked.index, asked.generation}, asked.va, asked.bytes, access, [&] {
                   if (!populate(asked.va, asked.bytes, /*for_writing=*/true)) {
                     answer.answer = Answer::kNoAccess;
                     return;
                   }
                   execute_wide(asked.opcode, reinterpret_cast<void*>(asked.va), asked.bytes,
                                asked.operand, answer.atomic.old_value);
                 })) {
    answer.answer = Answer::kNoAccess;
  }
  reply(answer, request.number);
}

// Only once: otherwise a peer could have this process hold ever more.
Answer Client::take_staging(Attached& fds) {
  if (staging_.has_value()) return Answer::kMalformed;
  if (fds.size() != 1) return Answer::kNoResources;
  try {
    staging_.emplace(std::move(fds[0]));
    return Answer::kAccepted;
  } catch (const Error& error) {
    URMA_LOG_LIMITED(WARNING, "process {}: {}", process_->pid, error.what());
    return Answer::kMalformed;
  }
}

// The registration cannot end meanwhile. A peer could guess the name of one that it was not
// granted.
Answer Client::copy_segment(const CopySegmentRequest& asked) {
  const auto direction = static_cast<Direction>(asked.direction);
  const bool write = direction == Direction::kWrite;
  const SegmentRef ref = {asked.index, asked.generation};
  if (!staging_.has_value()) return Answer::kNoResources;
  if (!valid_place(asked.place, asked.bytes) || (!write && direction != Direction::kRead)) {
    return Answer::kMalformed;
  }
  Answer answer = Answer::kNoAccess;
  if (!granted_.has(ref)) return answer;
  transport_->segments().with_grant(
      ref, asked.va, asked.bytes, write ? URMA_ACCESS_WRITE : URMA_ACCESS_READ, [&] {
        const iovec own = {reinterpret_cast<void*>(asked.va), asked.bytes};
        answer = staging_->copy(direction, asked.place, {&own, 1});
      });
  return answer;
}

// A message gives its receiver alone the right to the memory that it names, while it is in flight;
// the key says that the peer is that receiver.
Answer Client::copy_message(const CopyMessageRequest& asked) {
  if (!staging_.has_value()) return Answer::kNoResources;
  if (!valid_place(asked.place, asked.bytes)) return Answer::kMalformed;
  Answer answer = Answer::kNoSuchObject;
  transport_->find_sender([&](urma::Sender& sender) {
    return sender.id().id == asked.sender &&
           static_cast<Sender&>(sender).lend(asked, [&](std::span<const iovec> own) {
             answer = own.empty() ? Answer::kNoAccess
                                  : staging_->copy(Direction::kRead, asked.place, own);
           });
  });
  return answer;
}

}  // namespace urma::shm
