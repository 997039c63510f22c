// SPDX-License-Identifier: MIT
//
// A runtime that has next to nothing.
extern "C" __attribute__((visibility("default"))) int hsa_init() { return 0; }
