// SPDX-License-Identifier: MIT
//
// Attributes that are the same for all devices of this library.
#ifndef JETTY_DEVICE_LIMITS_H_
#define JETTY_DEVICE_LIMITS_H_

#include <cstdint>

#include "urma_types.h"

namespace urma {

// An id holds 16 bits for its owner and an index of 16 bits, which limits the objects of each kind.
inline constexpr uint32_t kMaxObjects = 65535;
inline constexpr uint32_t kMaxQueueDepth = 65536;

// Every priority carries exactly one transport type, and all three occur: programs look for the
// first that equals theirs.
void fill_priorities(urma_device_cap_t* cap);
// Modes, orders and channel types; mode UM if there are datagrams.
void fill_transport(urma_device_cap_t* cap, bool datagrams);
// All atomic operations of 8 bytes; compare and swap of up to `cas_bytes`.
void fill_atomics(urma_device_cap_t* cap, uint32_t cas_bytes);
// The number of objects, as their ids limit it.
void fill_object_limits(urma_device_cap_t* cap);
// The fastest speed of the enum that a link of `megabits` a second reaches.
urma_speed_t speed_of(uint64_t megabits);

// What urma_query_device says of a device in software. Programs size their queues, and choose their
// priorities, by these values.
inline constexpr uint32_t kMaxSoftwareMessage = 1U << 31;
urma_device_attr_t software_device(const char* name, uint32_t eid_count);

}  // namespace urma

#endif  // JETTY_DEVICE_LIMITS_H_
