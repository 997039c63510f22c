// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/one_sided_end.h"

namespace urma::verbs {

std::shared_ptr<QueuePair> make_one_sided_end(const ContextResources& resources,
                                              std::shared_ptr<CqPump>* no_completions,
                                              const LinkEnd& sender) {
  const Device& device = *resources.device;
  if (*no_completions == nullptr) {
    *no_completions = std::make_shared<CqPump>(device, /*entries=*/1,
                                               resources.notify->of(device, nullptr), [] {});
  }
  auto pair = std::make_shared<QueuePair>(device, IBV_QPT_RC, *no_completions, nullptr,
                                          QueuePairLimits{}, resources.origin, /*qkey=*/0, [] {});
  pair->receive_from(sender, Patience{});
  return pair;
}

}  // namespace urma::verbs
