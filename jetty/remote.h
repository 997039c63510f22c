// SPDX-License-Identifier: MIT
//
// What this process has imported, as every provider keeps it. Importing is bookkeeping; the owner
// is asked when the first request needs it.
#ifndef JETTY_REMOTE_H_
#define JETTY_REMOTE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "jetty/channels.h"
#include "jetty/message.h"
#include "jetty/network.h"
#include "segment/segment.h"
#include "urma/base/mutex.h"
#include "urma/base/runtime.h"
#include "urma_types.h"

namespace urma {

class Results;
class Transport;

// The answer of an owner to a process that wants to use one of its objects.
enum class Answer : uint32_t {
  kAccepted,
  kRefusedVersion,
  kRefusedUser,
  kNoResources,
  kMalformed,
  kNoSuchObject,
  kWrongToken,
  kWrongMode,
  kNoAccess,
  kMisaligned,
  kOtherDevice,  // of another kind of device, which cannot connect to the asker's
  // Those that are never sent.
  kUnreachable,      // the peer is gone or did not answer in time
  kNoResourcesHere,  // this process could not ask
};
const char* answer_text(Answer answer);
// The status of a request whose owner answered so.
urma_cr_status_t status_of(Answer answer);
// Whether an owner can have granted this.
bool possible(const SegmentGrant& given);

// "JFR", "jetty" or "group".
const char* target_name(uint32_t target_type);
// The kind of id that a target type has.
inline IdKind id_kind(uint32_t target_type) {
  if (target_type == URMA_JETTY_GROUP) return IdKind::kGroup;
  return target_type == URMA_JFR ? IdKind::kJfr : IdKind::kJetty;
}

// Numbers for imported queues. Simultaneous imports of one queue share a number, so that what a
// queue sends to any of them goes one way and stays in order.
class QueueSerials {
 public:
  using Key = std::tuple<EidKey, uint32_t, urma_target_type_t, uint32_t>;  // the last is the token
  // Returns the number of this queue; `fresh` becomes it if no other import stands.
  uint64_t take(const Key& key, uint64_t fresh);
  void give_back(const Key& key);

 private:
  struct Use {
    uint64_t serial;
    uint32_t imports;
  };
  Mutex mutex_;
  std::map<Key, Use> uses_ URMA_GUARDED_BY(mutex_);
};

// Kept by the import and by every request that still needs it.
template <typename Derived>
class Shared {
 public:
  void add_ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void drop_ref() {
    // Acquire-release: what other holders did happens before the deletion.
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) [[unlikely]]
      end();
  }
  // The last reference is gone.
  void unreferenced() { delete static_cast<Derived*>(this); }

 private:
  // Apart, so that polls drop references without a call.
  [[gnu::cold, gnu::noinline]] void end() { static_cast<Derived*>(this)->unreferenced(); }

  std::atomic<uint32_t> refs_{1};
};

// An imported JFR, jetty or jetty group.
struct RemoteQueue : urma_target_jetty_t, Shared<RemoteQueue> {
  Transport* transport;
  urma_token_t token;
  uint64_t serial;                                  // of QueueSerials
  std::atomic<bool> imported{true};                 // cleared by unimport
  std::atomic<const urma_jetty_t*> bound{nullptr};  // RC: the jetty that is bound to it
  ChannelUse channel;
  std::shared_ptr<Results> results;    // where an import in the background tells how it went
  std::atomic<uint32_t> members{0};    // of a group, as its owner last said; 0: not said yet
  std::atomic<uint32_t> next_turn{0};  // of a group with URMA_JETTY_GRP_POLICY_RR

  QueueSerials::Key key() const { return {key_of(id.eid), id.id, type, token.token}; }
  // Call once: the import is gone, though requests may still need the object.
  void end_import();
};

// The bytes that an owner is asked for.
struct Wanted {
  uint64_t va;
  uint64_t len;
  uint32_t access;  // URMA_ACCESS_*; 0: not known yet

  bool operator==(const Wanted&) const = default;
};

// An imported segment, and how often its owner was asked for a grant. Any thread may use it.
class ImportedSegment : public SegmentHandle, public Shared<ImportedSegment> {
 public:
  ImportedSegment(Transport* transport, const urma_seg_t& imported, urma_token_t token)
      : SegmentHandle{}, transport_(transport), token_(token) {
    seg = imported;
  }
  virtual ~ImportedSegment() = default;
  ImportedSegment(const ImportedSegment&) = delete;
  ImportedSegment& operator=(const ImportedSegment&) = delete;

  urma_token_t token() const { return token_; }
  // Whether a request, not a program, imported it.
  bool implicit() const { return urma_ctx == nullptr; }
  // The name of the device where it was imported; "" if a request imported it.
  const char* device() const { return device_; }

  // Asks the owner, unless a question is in progress, and returns the number of the attempt.
  uint64_t ask(const Wanted& wanted);
  // Asks for all that the import describes.
  uint64_t ask() { return ask({seg.ubva.va, seg.len, 0}); }
  // Whether the newest attempt was for this.
  bool asked_for(const Wanted& wanted) const;
  // True once the attempt has ended; *status then says how, URMA_CR_SUCCESS with a new grant.
  bool ended(uint64_t attempt, urma_cr_status_t* status) const;
  // The answer to the last attempt that has ended.
  Answer last_answer() const;

  virtual void unreferenced() { delete this; }
  // Whether the requests for it travel over a wire.
  virtual bool over_wire() const { return false; }
  // Of a message that ends the remote access to it; by the description alone, if the message
  // travels otherwise than its own requests.
  virtual Invalidation invalidation() const {
    return {seg.ubva.eid, seg.ubva.va, seg.len, SegmentRef{}};
  }
  // URMA_ACCESS_* that its owner has granted, as far as known.
  virtual uint32_t granted_access() const = 0;
  // Waits until it is known whether the whole segment is mapped here: its address, or 0.
  virtual uint64_t wait_mapped() { return 0; }

 protected:
  // Service thread. The answer calls attempt_ended(), and drop_ref() last.
  virtual void ask_owner(const Wanted& wanted) = 0;
  void attempt_ended(Answer answer, urma_cr_status_t status) URMA_REQUIRES(mutex_);
  void log_refusal(const Wanted& wanted, Answer answer) const;
  bool is_asking() const URMA_REQUIRES(mutex_) { return asked_ != ended_; }

  // Shows it to tools. The derived class calls these, once it is complete and before any part of it
  // goes.
  void enter_list(urma_context_t* ctx);
  void leave_list();

  // Drops, soon, grants before the newest one, once no request uses them. Does not throw.
  void drop_older_soon();
  // Service thread.
  virtual void drop_older() {}
  void await_queues();

  mutable Mutex mutex_;

 private:
  Transport* const transport_;
  const urma_token_t token_;
  uint64_t serial_ = 0;
  const char* device_ = "";
  uint64_t asked_ URMA_GUARDED_BY(mutex_) = 0;
  uint64_t ended_ URMA_GUARDED_BY(mutex_) = 0;
  Wanted asked_range_ URMA_GUARDED_BY(mutex_) = {};  // of the newest attempt
  urma_cr_status_t last_status_ URMA_GUARDED_BY(mutex_) = URMA_CR_SUCCESS;
  Answer last_answer_ URMA_GUARDED_BY(mutex_) = Answer::kUnreachable;
};

struct DropRef {
  void operator()(ImportedSegment* segment) const { segment->drop_ref(); }
};
template <typename Import>
using ImportRef = std::unique_ptr<Import, DropRef>;

// An import for a request, not for a program: `bytes` bytes at `addr`.
urma_seg_t describe_memory(const urma_eid_t& owner, uint64_t addr, uint64_t bytes,
                           uint32_t token_id);

}  // namespace urma

#endif  // JETTY_REMOTE_H_
