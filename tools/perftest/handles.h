// SPDX-License-Identifier: MIT
//
// Owners of the library's objects, and the error for a failed call.
#ifndef TOOLS_PERFTEST_HANDLES_H_
#define TOOLS_PERFTEST_HANDLES_H_

#include <memory>
#include <string>

#include "tools/perftest/config.h"
#include "urma_api.h"

namespace perftest {

// An object of the library, ended by `End` when it goes out of scope.
template <auto End>
struct Ender {
  template <typename T>
  void operator()(T* object) const {
    (void)End(object);
  }
};
template <typename T, auto End>
using Handle = std::unique_ptr<T, Ender<End>>;

using Context = Handle<urma_context_t, urma_delete_context>;
using EventChannel = Handle<urma_jfce_t, urma_delete_jfce>;
using CompletionQueue = Handle<urma_jfc_t, urma_delete_jfc>;
using ReceiveQueue = Handle<urma_jfr_t, urma_delete_jfr>;
using SendQueue = Handle<urma_jfs_t, urma_delete_jfs>;
using Jetty = Handle<urma_jetty_t, urma_delete_jetty>;
using TokenId = Handle<urma_token_id_t, urma_free_token_id>;
using Segment = Handle<urma_target_seg_t, urma_unregister_seg>;
using ImportedSegment = Handle<urma_target_seg_t, urma_unimport_seg>;
using Notifier = Handle<urma_notifier_t, urma_delete_notifier>;

// Throws a RunError with errno for the call `what`.
[[noreturn]] void fail_errno(const std::string& what);

template <typename T>
T* made(T* object, const char* what) {
  if (object == nullptr) fail_errno(what);
  return object;
}

// Throws a RunError if the call `what` failed.
void ok(urma_status_t status, const char* what);

// "remote access refused (cr_status 8)".
std::string completion_text(urma_cr_status_t status);

}  // namespace perftest

#endif  // TOOLS_PERFTEST_HANDLES_H_
