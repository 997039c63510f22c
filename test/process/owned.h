// SPDX-License-Identifier: MIT
//
// Objects destroyed at the end of their scope, the newest first.
#ifndef TEST_PROCESS_OWNED_H_
#define TEST_PROCESS_OWNED_H_

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "urma_api.h"

namespace urma_test {

// Owns the result of a call, which must not be NULL. Converts to its pointer; destruction must
// succeed.
template <typename Object, urma_status_t (*End)(Object*)>
class Owned {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): for `const OwnedJfc jfc = urma_create_jfc(...)`.
  Owned(Object* made) : object_(made) {
    if (made != nullptr) return;
    throw std::runtime_error(std::string("an object could not be made: ") + std::strerror(errno));
  }
  Owned(const Owned&) = delete;
  ~Owned() { EXPECT_EQ(End(object_), URMA_SUCCESS); }

  Object* get() const { return object_; }
  Object* operator->() const { return object_; }
  // NOLINTNEXTLINE(google-explicit-constructor): calls take pointers.
  operator Object*() const { return object_; }

 private:
  Object* const object_;
};

using OwnedContext = Owned<urma_context_t, urma_delete_context>;
using OwnedJfce = Owned<urma_jfce_t, urma_delete_jfce>;
using OwnedJfc = Owned<urma_jfc_t, urma_delete_jfc>;
using OwnedJfs = Owned<urma_jfs_t, urma_delete_jfs>;
using OwnedJfr = Owned<urma_jfr_t, urma_delete_jfr>;
using OwnedJetty = Owned<urma_jetty_t, urma_delete_jetty>;
using OwnedGroup = Owned<urma_jetty_grp_t, urma_delete_jetty_grp>;
using OwnedNotifier = Owned<urma_notifier_t, urma_delete_notifier>;
using OwnedTokenId = Owned<urma_token_id_t, urma_free_token_id>;
using OwnedSegment = Owned<urma_target_seg_t, urma_unregister_seg>;
using ImportedSegment = Owned<urma_target_seg_t, urma_unimport_seg>;
using ImportedJetty = Owned<urma_target_jetty_t, urma_unimport_jetty>;
using ImportedJfr = Owned<urma_target_jetty_t, urma_unimport_jfr>;

}  // namespace urma_test

#endif  // TEST_PROCESS_OWNED_H_
