// SPDX-License-Identifier: MIT
//
// What importers are told of memory of a device.
#include <cstring>

#include "segment/shared_memory.h"
#include "urma/base/log.h"
#include "urma/providers/shm/device_memory.h"
#include "urma/providers/shm/server.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {

// The descriptors stay open while the segment stands, and it does while they are sent.
void Client::describe_device(const SegmentGrant& grant, uint32_t number) {
  Reply answer = {};
  answer.answer = Answer::kNoSuchObject;
  try {
    const bool sent = transport_->segments().with_segment(grant.ref, [&](const Segment& segment) {
      MemoryDescription description = {};
      int fd = -1;
      answer.answer = Answer::kNoAccess;
      if (!transport_->device()->describe(segment, &description, &fd)) {
        reply(answer, number);
        return;
      }
      description.nonce = transport_->runtime().nonce();
      description.has_fd = fd >= 0 ? 1 : 0;
      const SharedMemory memory =
          SharedMemory::create("urma-device", sizeof(description), PeerMay::kRead);
      std::memcpy(memory.data(), &description, sizeof(description));
      answer.answer = Answer::kAccepted;
      answer.map_segment = {0, grant.ref.index, grant.ref.generation, 1};
      const int fds[] = {memory.fd(), fd};
      reply(answer, number, {fds, fd >= 0 ? 2U : 1U});
    });
    if (sent) return;
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "process {} cannot attach a segment: {}", process_->pid,
                     error.what());
    answer.answer = Answer::kNoResources;
  }
  reply(answer, number);
}

}  // namespace urma::shm
