// SPDX-License-Identifier: MIT
//
// URMA regions.
#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "urma/base/error.h"
#include "urma/base/fd.h"
#include "urma/core/api/checks.h"
#include "urma/core/api/export.h"
#include "urma/core/process/core.h"
#include "urma/core/process/regions.h"
#include "urma_api.h"
#include "urma_ext.h"

namespace {

using namespace urma::core;  // NOLINT(build/namespaces)
using urma::Fd;

constexpr uint32_t kAllRights = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;

struct Imported {
  std::string file;  // which segment of the region that is
  urma_target_seg_t* segment;
};

// What urma_import_ur returns begins with the public struct.
struct TargetRegion : urma_target_ur_t {
  urma_context_t* ctx = nullptr;
  uint64_t generation = 0;
  urma_token_t token_value = {};
  uint32_t access = 0;
  Fd changes;  // readable when files of the runtime directory have come or gone
  std::vector<Imported> imported;
  std::vector<urma_target_seg_t*> list;
};

// The index of the context's EID among those of the runtime directory; past the last one if its
// device has other EIDs.
uint32_t eid_place(const urma_context_t* ctx) {
  const auto eids = runtime()->all_eids();
  const auto found = std::find_if(eids.begin(), eids.end(), [&](const urma_eid_t& eid) {
    return std::memcmp(&eid, &ctx->eid, sizeof eid) == 0;
  });
  return static_cast<uint32_t>(found - eids.begin());
}

// The EIDs of the context's device must be those of the runtime directory.
urma::Runtime& runtime_for(const char* call, const urma_context_t* ctx) {
  urma::Runtime& made = *runtime();
  if (eid_place(ctx) == made.all_eids().size()) {
    urma::fail(URMA_EINVAL, "{}: device {} has no regions; use a device of shared memory", call,
               ctx->dev->name);
  }
  return made;
}

bool check_name(const char* call, const char* name) {
  if (!given(call, "name", name)) return false;
  if (valid_region_name(name)) return true;
  URMA_LOG_LIMITED(ERR, "{}: the length of the name is not 1 to {} bytes", call,
                   UR_NAME_MAX_LEN - 1);
  return false;
}

RegionRecord find_or_fail(const char* call, const urma::Runtime& runtime, const urma_context_t* ctx,
                          const char* name) {
  const auto region = find_region(runtime, eid_place(ctx), name);
  if (!region) {
    urma::fail(URMA_EINVAL, "{}: no region \"{}\" of this EID; urma_get_ur_list lists all", call,
               name);
  }
  return *region;
}

RegionRecord find_with_token(const char* call, const urma::Runtime& runtime,
                             const urma_context_t* ctx, const char* name, uint64_t token) {
  const RegionRecord region = find_or_fail(call, runtime, ctx, name);
  if (region.token != token) {
    urma::fail(URMA_ENOPERM, "{}: the token is not that of region \"{}\"", call, name);
  }
  return region;
}

// The segments of a call of attach or detach.
std::vector<const urma_target_seg_t*> check_segments(const char* call, const urma_context_t* ctx,
                                                     urma_target_seg_t** segments, uint32_t count) {
  if (count == 0 || count > URMA_MAX_SEGS_PER_UR_OPT) {
    urma::fail(URMA_EINVAL, "{}: {} segments in one call; pass 1 to {}", call, count,
               URMA_MAX_SEGS_PER_UR_OPT);
  }
  std::vector<const urma_target_seg_t*> list(segments, segments + count);
  for (uint32_t i = 0; i < count; ++i) {
    if (list[i] == nullptr || list[i]->urma_ctx != ctx || list[i]->token_id == nullptr) {
      urma::fail(URMA_EINVAL, "{}: segment {} of the list was not registered with this context",
                 call, i);
    }
  }
  return list;
}

void check_rights(const RegionRecord& region,
                  const std::vector<const urma_target_seg_t*>& segments) {
  for (const auto* segment : segments) {
    const uint32_t access = segment->seg.attr.bs.access;
    if ((access & kAllRights) == 0) {
      urma::fail(URMA_ENOPERM, "attach_ur: the segment at {:#x} grants no rights",
                 uint64_t{segment->seg.ubva.va});
    }
    if (region.access != 0 && (access & ~region.access) != 0) {
      urma::fail(URMA_ENOPERM,
                 "attach_ur: the segment at {:#x} grants {:#x}, region \"{}\" allows {:#x}",
                 uint64_t{segment->seg.ubva.va}, access, region.name, region.access);
    }
  }
}

// Wakes a program that waits for changes: these events show segments' files that come and go.
Fd watch_changes(const urma::Runtime& runtime) {
  Fd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd.valid()) urma::fail_errno(URMA_ENOMEM, "import_ur: watching for changes");
  const auto path = urma::format("/proc/self/fd/{}", runtime.dir_fd());
  if (::inotify_add_watch(fd.get(), path.c_str(), IN_DELETE | IN_MOVED_TO) < 0) {
    urma::fail_errno(URMA_FAIL, "import_ur: watching for changes");
  }
  return fd;
}

void drain(const Fd& fd) {
  char buffer[4096];
  while (::read(fd.get(), buffer, sizeof buffer) > 0) {
  }
}

void publish(TargetRegion* region) {
  region->list.clear();
  for (const Imported& one : region->imported) region->list.push_back(one.segment);
  region->tseg_list = region->list.data();
  region->cnt = static_cast<uint32_t>(region->list.size());
}

void unimport_all(TargetRegion* region) {
  for (const Imported& one : region->imported) urma_unimport_seg(one.segment);
  region->imported.clear();
  publish(region);
}

urma_target_seg_t* import_member(const TargetRegion& region, const Member& member) {
  urma_seg_t seg = member.seg;
  // The descriptor must not choose the address here.
  seg.attr.bs.dsva = URMA_DSVA_DISABLE;
  urma_token_t token = region.token_value;
  urma_import_seg_flag_t flag = {};
  flag.bs.access = region.access;
  flag.bs.mapping = region.flag.bs.mapping == URMA_SEG_MAPPED ? URMA_SEG_MAPPED : URMA_SEG_NOMAP;
  return urma_import_seg(region.ctx, &seg, &token, 0, flag);
}

// Updates the imported segments to those of the region now, in its order.
void bring_up_to_date(TargetRegion* region, const std::vector<Member>& members) {
  std::vector<Imported> now;
  for (const Member& member : members) {
    const auto known = std::find_if(region->imported.begin(), region->imported.end(),
                                    [&](const Imported& one) { return one.file == member.file; });
    if (known != region->imported.end()) {
      now.push_back(*known);
      region->imported.erase(known);
    } else if (urma_target_seg_t* segment = import_member(*region, member); segment != nullptr) {
      now.push_back({member.file, segment});
    }
  }
  for (const Imported& gone : region->imported) {
    URMA_LOG(INFO, "region \"{}\": the segment at {:#x} is not in it any more", region->name,
             uint64_t{gone.segment->seg.ubva.va});
    urma_unimport_seg(gone.segment);
  }
  region->imported = std::move(now);
  publish(region);
}

void fill_info(const RegionRecord& region, const std::vector<Member>& members, uint32_t room,
               urma_ur_info_t* info) {
  std::memcpy(info->name, region.name, sizeof info->name);
  info->size = region.size;
  info->attr.value = region.access;
  info->cnt = static_cast<uint32_t>(std::min<size_t>(room, members.size()));
  for (uint32_t i = 0; i < info->cnt; ++i) info->seg_list[i] = {members[i].seg, i};
}

}  // namespace

URMA_EXPORT urma_status_t urma_create_ur(urma_context_t* ctx, const urma_ur_t* ur) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, ctx) || !given(call, "ur", ur) || !check_name(call, ur->name)) {
      return URMA_EINVAL;
    }
    if ((ur->attr.value & ~kAllRights) != 0) {
      URMA_LOG_LIMITED(ERR, "{}: attr {:#x} has bits that are not rights; use those of {:#x}", call,
                       ur->attr.value, kAllRights);
      return URMA_EINVAL;
    }
    regions().create(runtime_for(call, ctx), eid_place(ctx), *ur);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_destroy_ur(urma_context_t* ctx, const char* name) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, ctx) || !check_name(call, name)) return URMA_EINVAL;
    regions().destroy(runtime_for(call, ctx), eid_place(ctx), name);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_attach_ur(urma_context_t* ctx, const char* name, uint64_t token,
                                         urma_target_seg_t** segments, uint32_t count) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, ctx) || !check_name(call, name) || !given(call, "segments", segments)) {
      return URMA_EINVAL;
    }
    urma::Runtime& here = runtime_for(call, ctx);
    const auto list = check_segments(call, ctx, segments, count);
    const RegionRecord region = find_with_token(call, here, ctx, name, token);
    check_rights(region, list);
    regions().attach(here, eid_place(ctx), region, list);
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_detach_ur(urma_context_t* ctx, const char* name,
                                         urma_target_seg_t** segments, uint32_t count) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, ctx) || !check_name(call, name) || !given(call, "segments", segments)) {
      return URMA_EINVAL;
    }
    regions().detach(runtime_for(call, ctx), eid_place(ctx), name,
                     check_segments(call, ctx, segments, count));
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_target_ur_t* urma_import_ur(urma_context_t* ctx, const char* name, uint64_t token,
                                             urma_import_ur_flag_t flag) {
  return pointer_entry(__func__, [&](const char* call) -> urma_target_ur_t* {
    if (!open_gate(call, ctx) || !check_name(call, name)) return refused();
    urma::Runtime& here = runtime_for(call, ctx);
    const RegionRecord record = find_with_token(call, here, ctx, name, token);
    auto region = std::make_unique<TargetRegion>();
    std::memcpy(region->name, record.name, sizeof region->name);
    region->size = record.size;
    region->flag = flag;
    region->ctx = ctx;
    region->generation = record.generation;
    region->token_value = {static_cast<uint32_t>(token)};
    region->access = record.access;
    // Before the first listing, so that no change is missed.
    region->changes = watch_changes(here);
    const std::vector<Member> members = members_of(here, record);
    bring_up_to_date(region.get(), members);
    if (region->imported.size() != members.size()) {
      unimport_all(region.get());
      urma::fail(URMA_ENOMEM, "{}: {} segments of region \"{}\" could not all be imported", call,
                 members.size(), name);
    }
    return region.release();
  });
}

URMA_EXPORT urma_status_t urma_unimport_ur(urma_target_ur_t* ur) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call) || !given(call, "ur", ur)) return URMA_EINVAL;
    const std::unique_ptr<TargetRegion> region(static_cast<TargetRegion*>(ur));
    unimport_all(region.get());
    return URMA_SUCCESS;
  });
}

URMA_EXPORT int urma_ext_ur_fd(const urma_target_ur_t* ur) {
  return given(__func__, "ur", ur) ? static_cast<const TargetRegion*>(ur)->changes.get() : -1;
}

URMA_EXPORT urma_status_t urma_ext_refresh_ur(urma_target_ur_t* ur) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!given(call, "ur", ur)) return URMA_EINVAL;
    auto* region = static_cast<TargetRegion*>(ur);
    if (!open_gate(call, region->ctx)) return URMA_EINVAL;
    urma::Runtime& here = runtime_for(call, region->ctx);
    drain(region->changes);
    const auto record = find_region(here, eid_place(region->ctx), region->name);
    if (!record || record->generation != region->generation) {
      unimport_all(region);
      return URMA_FAIL;
    }
    bring_up_to_date(region, members_of(here, *record));
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_lookup_ur(urma_context_t* ctx, const char* name,
                                         urma_ur_info_t* info, uint32_t* count) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, ctx) || !check_name(call, name) || !given(call, "count", count) ||
        (*count != 0 && !given(call, "info", info))) {
      return URMA_EINVAL;
    }
    urma::Runtime& here = runtime_for(call, ctx);
    const RegionRecord region = find_or_fail(call, here, ctx, name);
    const std::vector<Member> members = members_of(here, region);
    if (info != nullptr) fill_info(region, members, *count, info);
    *count = static_cast<uint32_t>(members.size());
    return URMA_SUCCESS;
  });
}

URMA_EXPORT urma_status_t urma_get_ur_list(urma_context_t* ctx, urma_ur_t* list, uint32_t* count) {
  return entry(__func__, [&](const char* call) -> urma_status_t {
    if (!open_gate(call, ctx) || !given(call, "count", count) ||
        (*count != 0 && !given(call, "list", list))) {
      return URMA_EINVAL;
    }
    const auto found = list_regions(runtime_for(call, ctx), eid_place(ctx));
    for (size_t i = 0; i < std::min<size_t>(*count, found.size()); ++i) {
      list[i] = {};
      std::memcpy(list[i].name, found[i].name, sizeof list[i].name);
      list[i].size = found[i].size;
      list[i].attr.value = found[i].access;
    }
    *count = static_cast<uint32_t>(found.size());
    return URMA_SUCCESS;
  });
}
