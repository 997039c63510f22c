// SPDX-License-Identifier: MIT
//
// What this process has imported: queues and segments of other processes. Importing is bookkeeping;
// the owner is asked when the first request needs it, and again when it has been replaced.
#ifndef URMA_PROVIDERS_LOCAL_REMOTE_H_
#define URMA_PROVIDERS_LOCAL_REMOTE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "segment/mapped_view.h"
#include "segment/segment.h"
#include "urma/providers/local/channels.h"
#include "urma/providers/local/link.h"

namespace urma::local {

class Results;
class Transport;

// The ids of what a target stands for.
inline IdKind id_kind(uint32_t target_type) {
  if (target_type == URMA_JETTY_GROUP) return IdKind::kGroup;
  return target_type == URMA_JFR ? IdKind::kJfr : IdKind::kJetty;
}

// Numbers for imported queues. Imports of one queue that stand at the same time share theirs, so
// that what a queue sends to any of them goes one way and stays in order.
class QueueSerials {
 public:
  struct Key {
    urma_eid_t eid;
    uint32_t id;
    uint32_t type;
    uint32_t token;
  };
  // `fresh` becomes the number where no other import of this queue stands.
  uint64_t take(const Key& key, uint64_t fresh);
  void give_back(const Key& key);

 private:
  struct Less {
    bool operator()(const Key& a, const Key& b) const;
  };
  struct Use {
    uint64_t serial;
    uint32_t imports;
  };
  std::mutex mutex_;
  std::map<Key, Use, Less> uses_;
};

// Kept by the import and by every request that still needs it.
template <typename Derived>
class Shared {
 public:
  void add_ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void drop_ref() {
    // Acquire-release: what other holders did happens before the deletion.
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<Derived*>(this);
  }

 private:
  std::atomic<uint32_t> refs_{1};
};

// An imported JFR or jetty.
struct RemoteQueue : urma_target_jetty_t, Shared<RemoteQueue> {
  Transport* transport;
  urma_token_t token;
  uint64_t serial;                                  // of QueueSerials
  std::atomic<bool> imported{true};                 // cleared by unimport
  std::atomic<const urma_jetty_t*> bound{nullptr};  // RC: the jetty that is bound to it
  ChannelUse channel;
  std::shared_ptr<Results> results;    // where an import in the background tells how it went
  std::atomic<uint32_t> members{0};    // of a group, as its owner last said; 0: it has not
  std::atomic<uint32_t> next_turn{0};  // of a group with URMA_JETTY_GRP_POLICY_RR

  QueueSerials::Key key() const {
    return {id.eid, id.id, static_cast<uint32_t>(type), token.token};
  }
  // Once: the import is no more, though requests may still need it.
  void end_import();
};

// What the owner of a segment granted, over which link, and what of it this process has mapped.
struct Grant {
  std::shared_ptr<Link> link;
  SegmentGrant segment;
  std::unique_ptr<MappedView> view;  // NULL before the owner has answered what can be mapped

  // What of `view` a direct access needs, side by side; nothing where begin == end.
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t distance = 0;
  uint32_t direct_access = 0;  // URMA_ACCESS_* that are granted, and that the mapping allows

  bool stands() const { return !link->gone() && link->segment_alive(segment.ref); }
  bool covers(uint64_t addr, uint64_t bytes) const {
    return addr >= segment.base && bytes <= segment.len &&
           addr - segment.base <= segment.len - bytes;
  }
  bool allows(uint32_t access) const { return (segment.access & access) == access; }
};

// When an imported segment is mapped.
enum class Mapped { kWhenGranted, kWhenAsked };

// An imported segment. Any thread may use it.
class RemoteSegment : public SegmentHandle, public Shared<RemoteSegment> {
 public:
  // `access` restricts what it is mapped for; 0: all that the owner grants.
  RemoteSegment(Transport* transport, urma_context_t* ctx, const urma_seg_t& imported,
                urma_token_t token, uint32_t access, Mapped mapped = Mapped::kWhenGranted);
  ~RemoteSegment();
  RemoteSegment(const RemoteSegment&) = delete;
  RemoteSegment& operator=(const RemoteSegment&) = delete;

  // The newest grant, which may no longer stand; NULL where none was given yet. It stays as long as
  // the segment is imported.
  const Grant* grant() const {
    // SYNC(grant): acquire pairs with the release in publish().
    return current_.load(std::memory_order_acquire);
  }

  urma_token_t token() const { return token_; }
  // "" where a request imported it by itself.
  const char* device() const { return device_; }

  // True for a moment after a grant, until the owner has said what can be mapped: a copy by the
  // kernel would pin the very pages that the owner is about to move.
  bool about_to_be_mapped() const;
  // Asks the owner, unless that is under way, and returns the number of the attempt.
  uint64_t ask();
  // Once, and with a grant: has the owner share the memory.
  void map();
  // True once the attempt has ended; *status then says how, URMA_CR_SUCCESS with a new grant.
  bool ended(uint64_t attempt, urma_cr_status_t* status) const;
  // Waits until the owner has said what can be mapped, or no more than a time that it needs to move
  // so much memory. The address of the first byte here, or 0 where not all of it is mapped.
  uint64_t wait_mapped();

  // The ways in which its parts are reached now.
  std::vector<urma_ext_part_t> parts() const;

 private:
  // On the service thread.
  void ask_owner();
  void finish(std::shared_ptr<Link> link, const Reply& reply);
  void begin_mapping();
  void ask_mapping();
  void finish_mapping(const Grant* granted, const Reply& reply, Attached& fds);
  std::unique_ptr<MappedView> view_of(const Grant& granted, const MapSegmentAnswer& answer,
                                      Attached& fds) const;

  Request request_of(RequestType type) const;
  const Grant* publish(std::unique_ptr<Grant> grant);
  void log_refusal(Answer answer) const;

  Transport* transport_;
  const uint64_t serial_;
  const char* const device_;
  const urma_token_t token_;
  const uint32_t access_;
  const Mapped mapped_;
  std::atomic<const Grant*> current_{nullptr};
  std::atomic<bool> mapping_{false};  // an answer about mapping is to come; written under mutex_
  std::atomic<uint64_t> mapping_since_ns_{0};
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable settled_;
  // Older ones may be in use by requests that are under way; the last is in force.
  std::vector<std::unique_ptr<const Grant>> grants_;
  uint64_t asked_ = 0;
  uint64_t ended_ = 0;
  urma_cr_status_t last_status_ = URMA_CR_SUCCESS;
};

// The status with which a request ends whose owner answered so.
urma_cr_status_t status_of(Answer answer);

}  // namespace urma::local

#endif  // URMA_PROVIDERS_LOCAL_REMOTE_H_
