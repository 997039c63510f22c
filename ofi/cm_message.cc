/* SPDX-License-Identifier: MIT */

#include "ofi/cm_message.h"

#include <cstring>

namespace urma_fi {
namespace {

constexpr uint32_t kMagic = 0x55464931;  // UFI1
constexpr uint8_t kVersion = 1;

}  // namespace

CmMessage make_message(CmKind kind, uint64_t to, uint64_t from, uint32_t jetty, const void* data,
                       size_t size) {
  CmMessage message{};
  message.magic = kMagic;
  message.version = kVersion;
  message.kind = kind;
  message.data_size = static_cast<uint16_t>(size);
  message.to = to;
  message.from = from;
  message.jetty = jetty;
  if (size > 0) std::memcpy(message.data, data, size);
  return message;
}

CmMessage make_shutdown(uint64_t to, uint64_t from) {
  return make_message(CmKind::kShutdown, to, from, 0, nullptr, 0);
}

size_t size_of(const CmMessage& message) { return offsetof(CmMessage, data) + message.data_size; }

bool is_valid(const CmMessage& message, size_t size) {
  if (size < offsetof(CmMessage, data) || message.magic != kMagic || message.version != kVersion)
    return false;
  if (message.data_size > kCmDataSize || size != size_of(message)) return false;
  switch (message.kind) {
    case CmKind::kRequest:
      return message.to == 0 && message.from != 0 && message.jetty != 0;
    case CmKind::kAccept:
      return message.to != 0 && message.from != 0 && message.jetty != 0;
    case CmKind::kReject:
    case CmKind::kReady:
    case CmKind::kShutdown:
      return message.to != 0;
  }
  return false;
}

}  // namespace urma_fi
