// SPDX-License-Identifier: MIT
//
// The provider module of the conformance tests: handwritten devices, whose operations answer what a
// test chooses. The operations are in ctx->ops and dev->ops, where a test can remove them.
#ifndef TEST_CONFORMANCE_MODULE_H_
#define TEST_CONFORMANCE_MODULE_H_

#include <cstdint>

#include "urma_provider.h"
#include "urma_types.h"

namespace urma_test {

inline constexpr char kModuleProvider[] = "conformance";
inline constexpr char kModuleUb[] = "conformance_ub0";  // UB, with every operation
inline constexpr char kModuleIb[] = "conformance_ib0";  // the same of type IB, without addresses
inline constexpr char kModuleBare[] = "conformance_bare0";           // without EIDs and groups
inline constexpr char kModuleBonding[] = "bonding_dev_conformance";  // aggregated
inline constexpr uint32_t kModuleDepth = 64;                         // limit of every queue
inline constexpr uint32_t kModuleMembers = 2;                        // of a group

// What the provider does next, and what it has seen. The module has one instance.
struct ModuleControl {
  int status;         // of every operation that returns a number
  int error;          // what a failing create leaves in errno
  bool fails;         // create returns NULL
  int survivor;       // first element that a failing batch leaves
  int calls;          // of all operations
  uint32_t answered;  // bytes that user_ctl says it has written
  urma_user_ctl_in_t command;
  urma_notify_t notify;
  urma_active_tp_cfg_t channel;
  uint32_t bitmap;
  urma_opcode_t opcode;     // of the last request
  urma_target_seg_t* tseg;  // of its first local piece
};

}  // namespace urma_test

// Where the module keeps it, for dlsym.
extern "C" typedef urma_test::ModuleControl* urma_conformance_control_fn();
inline constexpr char kModuleControl[] = "urma_conformance_control";

#endif  // TEST_CONFORMANCE_MODULE_H_
