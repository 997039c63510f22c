/* SPDX-License-Identifier: MIT */

#include "ofi/rdm_frame.h"

#include <cstring>

namespace urma_fi {
namespace {

template <typename Body>
bool read_body(const char* bytes, size_t size, Body* body) {
  if (size != sizeof(Body)) return false;
  std::memcpy(body, bytes, sizeof(Body));
  return true;
}

}  // namespace

size_t write_head(char* to, FrameKind kind, uint8_t flags, const Origin& origin, uint64_t data) {
  const FrameHead head = {kind, flags, origin.incarnation, origin.id};
  std::memcpy(to, &head, sizeof(head));
  if ((flags & kHasData) == 0) return sizeof(head);
  std::memcpy(to + sizeof(head), &data, sizeof(data));
  return sizeof(head) + sizeof(data);
}

bool read_frame(const char* bytes, size_t size, Frame* frame) {
  FrameHead head;
  if (size < sizeof(head)) return false;
  std::memcpy(&head, bytes, sizeof(head));
  bytes += sizeof(head);
  size -= sizeof(head);
  frame->kind = head.kind;
  frame->flags = head.flags;
  frame->origin = {head.id, head.incarnation};
  frame->data = 0;
  if ((head.flags & kHasData) != 0) {
    if (size < sizeof(frame->data)) return false;
    std::memcpy(&frame->data, bytes, sizeof(frame->data));
    bytes += sizeof(frame->data);
    size -= sizeof(frame->data);
  }
  frame->payload = bytes;
  frame->length = static_cast<uint32_t>(size);
  switch (head.kind) {
    case FrameKind::kEager:
      return true;
    case FrameKind::kRequest:
      return read_body(bytes, size, &frame->request);
    case FrameKind::kGrant:
      return read_body(bytes, size, &frame->grant);
    case FrameKind::kProbe:
      return read_body(bytes, size, &frame->probe);
  }
  return false;
}

}  // namespace urma_fi
