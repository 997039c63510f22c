// SPDX-License-Identifier: MIT
//
// Imported segments that lie in memory of a device.
#include <cstring>

#include "segment/shared_memory.h"
#include "urma/base/log.h"
#include "urma/providers/shm/remote.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

// What the owner says, as far as it can be true. A copy, since it can still change the original.
bool read_description(const Grant& granted, const Reply& reply, Attached& fds,
                      MemoryDescription* description) {
  const MapSegmentAnswer& answer = reply.map_segment;
  const SegmentGrant& segment = granted.segment;
  if (answer.device == 0 || answer.index != segment.ref.index ||
      answer.generation != segment.ref.generation || fds.empty()) {
    return false;
  }
  const SharedMemory memory =
      SharedMemory::adopt(std::move(fds[0]), sizeof(*description), PeerMay::kRead);
  std::memcpy(description, memory.data(), sizeof(*description));
  return description->offset <= description->bytes &&
         segment.len <= description->bytes - description->offset &&
         fds.size() == (description->has_fd != 0 ? 2U : 1U);
}

}  // namespace

// Of an owner that is gone, or has been started anew since it told of the memory, nothing is
// attached.
void RemoteSegment::finish_device(const Grant* granted, const Reply& reply, Attached& fds) {
  urma_cr_status_t status = status_of(reply.answer);
  try {
    MemoryDescription description = {};
    if (reply.answer == Answer::kAccepted) {
      status = URMA_CR_REM_OPERATION_ERR;
      if (read_description(*granted, reply, fds, &description) &&
          description.nonce == granted->link->nonce()) {
        Fd fd = fds.size() == 2 ? std::move(fds[1]) : Fd();
        transport_->device()->attach(
            granted->link, description, granted->segment.len, std::move(fd),
            [this, granted](std::shared_ptr<const DeviceView> view, urma_cr_status_t attached_as) {
              attached(granted, std::move(view), attached_as);
            });
        return;
      }
    }
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "segment at va {:#x} of token id {:#x} is not attached: {}",
                     uint64_t{seg.ubva.va}, seg.token_id, error.what());
  }
  attached(granted, nullptr, status);
}

uint64_t RemoteSegment::wait_attached() {
  const Grant* granted = wait_settled();
  return granted == nullptr || granted->device == nullptr ? 0 : device_address(*granted);
}

// Where the segment begins here, or 0 where it is not all granted.
uint64_t RemoteSegment::device_address(const Grant& granted) const {
  if (!granted.covers(seg.ubva.va, seg.len)) return 0;
  return reinterpret_cast<uint64_t>(granted.device->start()) + (seg.ubva.va - granted.segment.base);
}

void RemoteSegment::attached(const Grant* granted, std::shared_ptr<const DeviceView> view,
                             urma_cr_status_t status) {
  {
    const MutexLock lock(mutex_);
    // Nothing new where it cannot be attached for the reason that is known.
    if (grant() == granted && (view != nullptr || granted->device_status != status)) {
      auto grant = std::make_unique<Grant>();
      grant->link = granted->link;
      grant->wanted = granted->wanted;
      grant->segment = granted->segment;
      grant->is_device = true;
      grant->device = std::move(view);
      grant->device_status = status;
      publish(std::move(grant));
    }
    // Release pairs with the acquire in about_to_be_mapped(): who does not wait sees the view.
    mapping_.store(false, std::memory_order_release);
  }
  end_mapping();
}

}  // namespace urma::shm
