// SPDX-License-Identifier: MIT
//
// A device whose post_send(), post_srq_recv() and poll_cq() do almost nothing. Queues connect over
// a software device; from begin() on, requests end at once and move no data. It is a separate
// shared library, so that its instructions can be told from those of its callers.
#ifndef TEST_VERBS_BARE_DEVICE_H_
#define TEST_VERBS_BARE_DEVICE_H_

#include <cstdint>

#include "urma/providers/verbs/api.h"

namespace urma_test {

struct BareDevice {
  const urma::verbs::Api* api;
  void (*begin)();
  // Calls since then.
  uint64_t posts;
  uint64_t receive_posts;
  uint64_t polls;
};

}  // namespace urma_test

extern "C" __attribute__((visibility("default"))) urma_test::BareDevice* urma_test_bare_device();

#endif  // TEST_VERBS_BARE_DEVICE_H_
