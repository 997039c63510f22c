// SPDX-License-Identifier: MIT
#include "urma/core/process/regions.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>
#include <tuple>

#include "urma/base/clock.h"
#include "urma/base/error.h"
#include "urma/core/process/files.h"
#include "urma/core/process/runtime_dir.h"

namespace urma::core {
namespace {

constexpr uint64_t kRegionMagic = 0x31'6e6f'6967'6572;
constexpr uint64_t kMemberMagic = 0x31'7265'626d'656d;
// Most segments that are read: a process may have filled the directory.
constexpr size_t kMaxMembers = 65536;
constexpr std::string_view kMemberMark = ".urseg-";
constexpr std::string_view kPendingMark = ".urnew-";

// FNV-1a. Names with the same hash cannot be regions at the same time.
uint64_t hash_of(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

std::string prefix_of(uint32_t eid_index) { return urma::format("ur-{}-", eid_index); }

std::string file_of(uint32_t eid_index, const std::string& name) {
  return urma::format("{}{:016x}", prefix_of(eid_index), hash_of(name));
}

template <typename Record>
std::optional<Record> read_record(int dir, const std::string& file, uint64_t magic) {
  const auto text = read_small_file(dir, file);
  Record record;
  if (!text || text->size() != sizeof record) return std::nullopt;
  std::memcpy(&record, text->data(), sizeof record);
  if (record.magic != magic) return std::nullopt;
  return record;
}

// Reads a file that a living process holds.
std::optional<RegionRecord> read_region(int dir, const std::string& file) {
  if (!is_held(dir, file)) return std::nullopt;
  auto record = read_record<RegionRecord>(dir, file, kRegionMagic);
  if (!record || std::memchr(record->name, '\0', sizeof record->name) == nullptr) {
    return std::nullopt;
  }
  return record;
}

// "<slot><mark><generation>-<number>", of this region.
std::optional<uint32_t> slot_of(std::string_view file, std::string_view mark, uint64_t generation) {
  const size_t at = file.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const auto wanted = urma::format("{:016x}-", generation);
  if (file.substr(at + mark.size(), wanted.size()) != wanted) return std::nullopt;
  return parse_decimal(file.substr(0, at), kMaxSlot);
}

bool lives(const Runtime& runtime, uint32_t slot) {
  return slot == runtime.slot() || is_held(runtime.dir_fd(), slot_name(slot));
}

void add_members(const Runtime& runtime, const RegionRecord& region, std::string_view mark,
                 std::vector<Member>* members) {
  const int dir = runtime.dir_fd();
  std::map<uint32_t, bool> seen;
  for (const std::string& file : list_names(dir)) {
    const auto slot = slot_of(file, mark, region.generation);
    if (!slot || members->size() == kMaxMembers) continue;
    const auto known = seen.find(*slot);
    const bool alive = known != seen.end() ? known->second : (seen[*slot] = lives(runtime, *slot));
    if (!alive) continue;
    const auto record = read_record<MemberRecord>(dir, file, kMemberMagic);
    if (!record || record->generation != region.generation) continue;
    const urma_seg_t& seg = record->seg;
    if (seg.len == 0 || seg.ubva.va + seg.len < seg.ubva.va) continue;
    members->push_back({file, *slot, record->order, seg});
  }
}

// True if the sum of lengths, which others wrote, exceeds the limit. A segment that just stopped
// being pending may be listed twice.
bool is_over(const std::vector<Member>& members, uint64_t limit) {
  uint64_t sum = 0;
  std::set<std::pair<uint32_t, std::string>> seen;
  for (const Member& member : members) {
    if (!seen.emplace(member.slot, member.file.substr(member.file.rfind('-'))).second) continue;
    if (member.seg.len > UINT64_MAX - sum) return true;
    sum += member.seg.len;
  }
  return limit != 0 && sum > limit;
}

void write_record(int dir, const std::string& file, const MemberRecord& record) {
  const Fd fd =
      checked_fd(::openat(dir, file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                          file_mode(dir)),
                 urma::format("making {} in the runtime directory", file));
  if (::write(fd.get(), &record, sizeof record) != static_cast<ssize_t>(sizeof record)) {
    fail_errno(URMA_FAIL, urma::format("writing {} in the runtime directory", file));
  }
}

// Removes files again unless it is dismissed.
class Undo {
 public:
  explicit Undo(int dir) : dir_(dir) {}
  ~Undo() {
    for (const auto& [pending, final_name] : files) {
      ::unlinkat(dir_, pending.c_str(), 0);
      ::unlinkat(dir_, final_name.c_str(), 0);
    }
  }
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  std::vector<std::pair<std::string, std::string>> files;

 private:
  const int dir_;
};

}  // namespace

bool valid_region_name(const char* name) {
  const size_t length = ::strnlen(name, UR_NAME_MAX_LEN);
  return length != 0 && length < UR_NAME_MAX_LEN;
}

std::optional<RegionRecord> find_region(const Runtime& runtime, uint32_t eid_index,
                                        const std::string& name) {
  auto record = read_region(runtime.dir_fd(), file_of(eid_index, name));
  if (!record || name != record->name) return std::nullopt;
  return record;
}

std::vector<RegionRecord> list_regions(const Runtime& runtime, uint32_t eid_index) {
  const auto prefix = prefix_of(eid_index);
  std::vector<RegionRecord> found;
  for (const std::string& file : list_names(runtime.dir_fd())) {
    if (file.compare(0, prefix.size(), prefix) != 0) continue;
    const auto record = read_region(runtime.dir_fd(), file);
    if (record && file_of(eid_index, record->name) == file) found.push_back(*record);
  }
  std::sort(found.begin(), found.end(), [](const RegionRecord& a, const RegionRecord& b) {
    return std::strcmp(a.name, b.name) < 0;
  });
  return found;
}

std::vector<Member> members_of(const Runtime& runtime, const RegionRecord& region) {
  std::vector<Member> members;
  add_members(runtime, region, kMemberMark, &members);
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::tie(a.order, a.file) < std::tie(b.order, b.file);
  });
  return members;
}

void Regions::create(Runtime& runtime, uint32_t eid_index, const urma_ur_t& region) {
  RegionRecord record = {};
  record.magic = kRegionMagic;
  record.generation = random_number();
  record.size = region.size;
  record.token = region.token;
  record.access = region.attr.value;
  const std::string name = region.name;
  name.copy(record.name, sizeof record.name - 1);
  const MutexLock lock(mutex_);
  const auto file = file_of(eid_index, name);
  const std::string content(reinterpret_cast<const char*>(&record), sizeof record);
  OwnFd fd = reserve_name(runtime.dir_fd(), file,
                          urma::format("tmp-{}-ur{}", runtime.slot(), next_number_++), content,
                          urma::format("region \"{}\"", name));
  created_.insert_or_assign({eid_index, name}, Held{file, std::move(fd)});
}

void Regions::destroy(Runtime& runtime, uint32_t eid_index, const std::string& name) {
  const MutexLock lock(mutex_);
  const auto found = created_.find({eid_index, name});
  if (found == created_.end()) {
    fail(URMA_EINVAL, "destroy_ur: this process has created no region \"{}\" of this EID", name);
  }
  // Unlinked while still locked, so that it cannot be a new owner's.
  ::unlinkat(runtime.dir_fd(), found->second.file.c_str(), 0);
  created_.erase(found);
}

void Regions::check_not_attached(uint32_t eid_index, const RegionRecord& region,
                                 const std::vector<const urma_target_seg_t*>& segments) {
  for (size_t i = 0; i < segments.size(); ++i) {
    const bool twice = std::find(segments.begin(), segments.begin() + static_cast<ptrdiff_t>(i),
                                 segments[i]) != segments.begin() + static_cast<ptrdiff_t>(i);
    const auto known = attached_.find({eid_index, region.name, segments[i]});
    if (twice || (known != attached_.end() && known->second.generation == region.generation)) {
      fail(URMA_EEXIST, "attach_ur: segment {} of the list, at {:#x}, is in the region already", i,
           uint64_t{segments[i]->seg.ubva.va});
    }
  }
}

void Regions::write_pending(Runtime& runtime, const RegionRecord& region,
                            const std::vector<const urma_target_seg_t*>& segments,
                            std::vector<std::pair<std::string, std::string>>* files) {
  for (const urma_target_seg_t* segment : segments) {
    const auto tail = urma::format("{:016x}-{}", region.generation, next_number_++);
    files->emplace_back(urma::format("{}{}{}", runtime.slot(), kPendingMark, tail),
                        urma::format("{}{}{}", runtime.slot(), kMemberMark, tail));
    write_record(runtime.dir_fd(), files->back().first,
                 {kMemberMagic, region.generation, monotonic_ns(), segment->seg});
  }
}

// Announces the attach first, then checks: of two at the same time at least one sees the other, so
// the limit is never exceeded.
void Regions::attach(Runtime& runtime, uint32_t eid_index, const RegionRecord& region,
                     const std::vector<const urma_target_seg_t*>& segments) {
  const int dir = runtime.dir_fd();
  const MutexLock lock(mutex_);
  check_not_attached(eid_index, region, segments);
  Undo undo(dir);
  write_pending(runtime, region, segments, &undo.files);
  std::vector<Member> all;
  add_members(runtime, region, kPendingMark, &all);
  // After the pending ones, so that one that stops being pending meanwhile is counted.
  add_members(runtime, region, kMemberMark, &all);
  if (is_over(all, region.size)) {
    fail(URMA_ENOMEM, "attach_ur: region \"{}\" is limited to {} bytes; detach some segments first",
         region.name, region.size);
  }
  for (const auto& [pending, final_name] : undo.files) {
    if (::renameat(dir, pending.c_str(), dir, final_name.c_str()) != 0) {
      fail_errno(URMA_FAIL, urma::format("making {} in the runtime directory", final_name));
    }
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    Attached& place = attached_[{eid_index, region.name, segments[i]}];
    // From a region that has ended, whose name this one has now.
    if (!place.file.empty()) ::unlinkat(dir, place.file.c_str(), 0);
    place = {region.generation, undo.files[i].second};
  }
  undo.files.clear();
}

void Regions::detach(Runtime& runtime, uint32_t eid_index, const std::string& name,
                     const std::vector<const urma_target_seg_t*>& segments) {
  const MutexLock lock(mutex_);
  for (const urma_target_seg_t* segment : segments) {
    if (!attached_.contains({eid_index, name, segment})) {
      fail(URMA_EINVAL, "detach_ur: the segment at {:#x} is not in region \"{}\"",
           uint64_t{segment->seg.ubva.va}, name);
    }
  }
  for (const urma_target_seg_t* segment : segments) {
    const auto entry = attached_.extract({eid_index, name, segment});
    if (entry) ::unlinkat(runtime.dir_fd(), entry.mapped().file.c_str(), 0);
  }
}

void Regions::clear(int dir) {
  const MutexLock lock(mutex_);
  for (const auto& [key, held] : created_) ::unlinkat(dir, held.file.c_str(), 0);
  created_.clear();
  attached_.clear();
}

Regions& regions() {
  static auto& the_regions = *new Regions;
  return the_regions;
}

}  // namespace urma::core
