/* SPDX-License-Identifier: MIT */

// Opt-in: the access rights under the names that the specification was written with, for programs
// whose source uses these. Include it beside urma_api.h; nothing else includes it.
//
// The numbers differ from the old ones: what was LOCAL_WRITE is LOCAL_ONLY today. Local access is
// always full now, so LOCAL_WRITE is 0, and remote writes and atomics need no other local right.
// Each remote right here includes the rights that it needs today.
//
// Programs that were compiled against the old numbers and set LOCAL_WRITE with remote rights are
// refused: urma_register_seg returns NULL with errno EINVAL.

#ifndef URMA_LEGACY_H
#define URMA_LEGACY_H

#include "urma_opcode.h"

#define URMA_ACCESS_LOCAL_WRITE 0
#define URMA_ACCESS_REMOTE_READ URMA_ACCESS_READ
#define URMA_ACCESS_REMOTE_WRITE (URMA_ACCESS_READ | URMA_ACCESS_WRITE)
#define URMA_ACCESS_REMOTE_ATOMIC (URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC)

#endif  // URMA_LEGACY_H
