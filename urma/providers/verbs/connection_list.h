// SPDX-License-Identifier: MIT
//
// The connections of a context, as urma_ext_query_connections lists them.
#ifndef URMA_PROVIDERS_VERBS_CONNECTION_LIST_H_
#define URMA_PROVIDERS_VERBS_CONNECTION_LIST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "urma/base/mutex.h"
#include "urma/providers/verbs/connection.h"
#include "urma/providers/verbs/control.h"
#include "urma_ext.h"

namespace urma::verbs {

// The sending end, without the device. The caller keeps `connection` from being removed.
urma_ext_connection_t describe_sending(const Connection& connection);

// The receiving ends. Written on the service thread, read from any.
class IncomingList {
 public:
  // A connection from `peer` now ends here, at the queue `id`.
  void add(const PeerRef& peer, const ConnectRequest& request, const ConnectReply& reply,
           IdKind kind, uint32_t id);
  void remove(uint64_t nonce, uint64_t connection);
  // Without the device. Throws Error(URMA_ENOMEM) for more than `most`.
  void append_to(std::vector<urma_ext_connection_t>* connections, size_t most) const;

 private:
  mutable Mutex mutex_;
  // With the time of creation as the age.
  std::map<std::pair<uint64_t, uint64_t>, urma_ext_connection_t> known_ URMA_GUARDED_BY(mutex_);
};

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_CONNECTION_LIST_H_
