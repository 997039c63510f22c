// SPDX-License-Identifier: MIT
#ifndef URMA_CORE_API_EXPORT_H_
#define URMA_CORE_API_EXPORT_H_

// Stands before each function that liburma exports; everything else is compiled hidden.
#define URMA_EXPORT extern "C" __attribute__((visibility("default")))

#endif  // URMA_CORE_API_EXPORT_H_
