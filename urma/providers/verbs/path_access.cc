// SPDX-License-Identifier: MIT
//
// Which segments requests mean, and what their owners grant there.
#include "urma/providers/verbs/path.h"
#include "urma/providers/verbs/remote_region.h"
#include "urma/providers/verbs/sender.h"

namespace urma::verbs {

void VerbsPath::look_up_segments(SendEntry* entry) {
  ImplicitRegions& regions = sender_->implicit_regions();
  const urma_eid_t& owner = target()->id.eid;
  if (entry->remote == nullptr) {
    entry->remote = regions.find(owner, entry->key, entry->remote_addr, entry->bytes);
  }
  if (entry->kind == OpKind::kWriteNotify && entry->notified == nullptr) {
    entry->notified =
        regions.find(owner, entry->notified_key, entry->notified_addr, sizeof(uint64_t));
  }
}

VerbsPath::Step VerbsPath::authorize(const Access& access, uint64_t* asked, uint32_t* rkey,
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
      look_elsewhere(access);
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

// Another registration of the token id may grant what the one that was imported does not.
void VerbsPath::look_elsewhere(const Access& access) {
  ImportedSegment* const segment = *access.segment;
  *access.segment = sender_->implicit_regions().find(
      segment->seg.ubva.eid, {segment->seg.token_id, segment->token().token}, access.addr,
      access.bytes);
  segment->drop_ref();
}

}  // namespace urma::verbs
