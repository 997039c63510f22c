// SPDX-License-Identifier: MIT
//
// A runtime that lacks almost everything.
extern "C" __attribute__((visibility("default"))) int hsa_init() { return 0; }
