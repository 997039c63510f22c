// SPDX-License-Identifier: MIT
//
// What the owners of segments grant.
#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/remote_region.h"
#include "urma/providers/verbs/sender.h"

namespace urma::verbs {

Path::Step Path::authorize(const RemoteAccess& access, uint64_t* asked, uint32_t* rkey,
                           urma_cr_status_t* status) {
  auto* region = static_cast<RemoteRegion*>(*access.segment);
  const KeyGrant* grant = region->granted();
  const Wanted wanted = {access.addr, access.bytes, access.rights};
  const auto suffices = [&] {
    return grant != nullptr && grant->allows(access.rights) &&
           grant->covers(access.addr, access.bytes);
  };
  if (*asked == 0 && !suffices()) {
    if (grant != nullptr && !region->implicit()) {
      sender_->implicit_imports().look_elsewhere(access);
      return authorize(access, asked, rkey, status);
    }
    // One that does not suffice may be of a registration that was replaced: the owner is asked
    // once.
    *asked = region->ask(wanted);
  }
  if (*asked != 0) {
    if (!region->ended(*asked, status)) return Step::kWait;
    grant = region->granted();
    const bool answered = *status == URMA_CR_SUCCESS || *status == URMA_CR_REM_ACCESS_ABORT_ERR;
    // What has ended was asked before this request came, for something else; or another request has
    // found that the grant stands no longer.
    if (answered && !suffices() &&
        (!region->asked_for(wanted) || (*status == URMA_CR_SUCCESS && grant == nullptr))) {
      *asked = 0;
      return authorize(access, asked, rkey, status);
    }
  }
  if (*asked == 0 || *status == URMA_CR_SUCCESS) {
    if (suffices()) {
      *rkey = grant->rkey;
      return Step::kAdded;
    }
    *status = URMA_CR_REM_ACCESS_ABORT_ERR;
  }
  because("{}", why_access_fails(region->seg.token_id, access.addr, access.bytes, access.rights));
  return Step::kEnd;
}

}  // namespace urma::verbs
