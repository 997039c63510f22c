// SPDX-License-Identifier: MIT
//
// URMA regions: names under which processes of one user offer segments to each other. There is no
// broker: a region, and each segment in it, is a small file in the runtime directory. The process
// that made a region locks its file, which is valid while that process lives; a segment's file
// carries the slot of its process, and is removed with the slot. Any process of this user may have
// written a file, so its content is checked before use.
#ifndef URMA_CORE_PROCESS_REGIONS_H_
#define URMA_CORE_PROCESS_REGIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "urma/base/mutex.h"
#include "urma/base/own_fd.h"
#include "urma/base/runtime.h"
#include "urma_types.h"

namespace urma::core {

// The content of a region's file.
struct RegionRecord {
  uint64_t magic;
  uint64_t generation;  // unique, also among regions of the same name
  uint64_t size;        // most bytes; 0: no limit
  uint64_t token;
  uint32_t access;  // most rights; 0: no limit
  uint32_t reserved;
  char name[UR_NAME_MAX_LEN];
};

// The content of a segment's file.
struct MemberRecord {
  uint64_t magic;
  uint64_t generation;  // of the region
  uint64_t order;       // of attaching
  urma_seg_t seg;
};

// A segment of a region.
struct Member {
  std::string file;
  uint32_t slot;
  uint64_t order;
  urma_seg_t seg;
};

// Whether the name has 1 to 255 bytes.
bool valid_region_name(const char* name);

// The regions of one process. Thread-safe. All throw Error.
class Regions {
 public:
  // (URMA_EEXIST) if the name is taken.
  void create(Runtime& runtime, uint32_t eid_index, const urma_ur_t& region);
  // (URMA_EINVAL) if this process has no such region.
  void destroy(Runtime& runtime, uint32_t eid_index, const std::string& name);
  // All or none. (URMA_EEXIST) if one is in it already, (URMA_ENOMEM) if they are too large.
  void attach(Runtime& runtime, uint32_t eid_index, const RegionRecord& region,
              const std::vector<const urma_target_seg_t*>& segments);
  // All or none. (URMA_EINVAL) if one is not in it.
  void detach(Runtime& runtime, uint32_t eid_index, const std::string& name,
              const std::vector<const urma_target_seg_t*>& segments);
  // Forgets all; their files are removed with the slot.
  void clear(int dir);

 private:
  struct Held {
    std::string file;
    OwnFd fd;
  };
  // eid_index and name of a region, and the segment.
  using AttachedKey = std::tuple<uint32_t, std::string, const urma_target_seg_t*>;
  struct Attached {
    uint64_t generation;  // the region may have ended, and another one may have its name
    std::string file;
  };

  void write_pending(Runtime& runtime, const RegionRecord& region,
                     const std::vector<const urma_target_seg_t*>& segments,
                     std::vector<std::pair<std::string, std::string>>* files) URMA_REQUIRES(mutex_);
  void check_not_attached(uint32_t eid_index, const RegionRecord& region,
                          const std::vector<const urma_target_seg_t*>& segments)
      URMA_REQUIRES(mutex_);

  Mutex mutex_;
  std::map<std::pair<uint32_t, std::string>, Held> created_
      URMA_GUARDED_BY(mutex_);  // by eid_index and name
  std::map<AttachedKey, Attached> attached_ URMA_GUARDED_BY(mutex_);
  uint64_t next_number_ URMA_GUARDED_BY(mutex_) = 0;
};

// The region of this name, if the process that made it lives.
std::optional<RegionRecord> find_region(const Runtime& runtime, uint32_t eid_index,
                                        const std::string& name);
// All of an EID, in the order of their names.
std::vector<RegionRecord> list_regions(const Runtime& runtime, uint32_t eid_index);
// Its segments whose processes live, in the order in which they were attached.
std::vector<Member> members_of(const Runtime& runtime, const RegionRecord& region);

// The regions of this process.
Regions& regions();

}  // namespace urma::core

#endif  // URMA_CORE_PROCESS_REGIONS_H_
