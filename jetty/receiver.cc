// SPDX-License-Identifier: MIT
#include "jetty/receiver.h"

#include "urma/base/log.h"

namespace urma {

// There was room before the copy, and where another thread has taken it since, the program let its
// JFC overflow.
void Receiver::lost(CompletionQueue* jfc, const QueueIdentity& queue) {
  URMA_LOG_LIMITED(ERR,
                   "jfc {}: overflow, the completion of a receive on queue {} is lost; make the "
                   "JFC as deep as its queues together",
                   jfc->jfc_id.id, queue.id);
  jfc->overflowed();
}

}  // namespace urma
