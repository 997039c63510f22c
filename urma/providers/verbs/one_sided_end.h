// SPDX-License-Identifier: MIT
//
// The receiving end of a connection that brings no messages. It takes no receives from anybody, so
// it can be made whatever the target is ready for.
#ifndef URMA_PROVIDERS_VERBS_ONE_SIDED_END_H_
#define URMA_PROVIDERS_VERBS_ONE_SIDED_END_H_

#include <memory>

#include "urma/providers/verbs/connection.h"

namespace urma::verbs {

// *no_completions is made by the first, and shared by all. Not on iWARP. Throws Error.
std::shared_ptr<QueuePair> make_one_sided_end(const ContextResources& resources,
                                              std::shared_ptr<CqPump>* no_completions,
                                              const LinkEnd& sender);

}  // namespace urma::verbs

#endif  // URMA_PROVIDERS_VERBS_ONE_SIDED_END_H_
