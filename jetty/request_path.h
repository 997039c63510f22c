// SPDX-License-Identifier: MIT
//
// The way of requests from one send queue to one target: in post order, with fences, to memory that
// its owner has granted. It is the same for every way of executing them.
#ifndef JETTY_REQUEST_PATH_H_
#define JETTY_REQUEST_PATH_H_

#include <cstdint>

#include "jetty/implicit_imports.h"
#include "jetty/iovecs.h"
#include "jetty/sender.h"

namespace urma {

class RequestPath : public TargetPath {
 public:
  // `hint` distinguishes the paths to one group.
  RequestPath(Sender* sender, RemoteQueue* target, uint32_t hint)
      : TargetPath(&sender->queue(), target, hint), sender_(sender) {}

  void give_up_first() override { take_next(); }

 protected:
  // What became of the first request: it has ended, with a status; it is in flight; or it waits.
  enum class Step { kDone, kInFlight, kWait };

  // Executes a request by its kind, once its fence and its order permit.
  virtual Step execute(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status);
  // The same; an exception fails this request only.
  Step execute_guarded(SendEntry* entry, uint64_t* budget, urma_cr_status_t* status);
  // Whether the reads and atomics that a fence waits for are done, or the executor of the request
  // awaits them.
  virtual bool fence_lets(const SendEntry& entry) {
    return sender_->queue().earlier_reads_done(&entry);
  }
  // SEND*; READ and WRITE; CAS and others that return the old value, and WRITE_ATOMIC. `budget` is
  // the bytes that this turn may still copy. A path for messages only has send() only.
  virtual Step send(SendEntry* entry, urma_cr_status_t* status) = 0;
  virtual Step transfer(SendEntry* /*entry*/, uint64_t* /*budget*/, urma_cr_status_t* status) {
    return unsupported(status);
  }
  virtual Step atomic(SendEntry* /*entry*/, urma_cr_status_t* status) {
    return unsupported(status);
  }
  virtual Step write_imm(SendEntry* /*entry*/, uint64_t* /*budget*/, urma_cr_status_t* status) {
    return unsupported(status);
  }
  virtual Step write_notify(SendEntry* /*entry*/, uint64_t* /*budget*/, urma_cr_status_t* status) {
    return unsupported(status);
  }
  // Whether all that was posted before has been placed at the target; for a request with
  // URMA_STRONG_ORDER.
  virtual bool placed_before(const SendEntry& entry) = 0;
  // Finds the segments that it names by user_tsegs.
  virtual void look_up(SendEntry* entry) = 0;
  // The request was executed, or is in flight.
  virtual void executed(const SendEntry& /*entry*/) {}
  // Another waiting request is the first now.
  virtual void next_begins() {}
  void begin_next() {
    asked_ = asked_notified_ = 0;
    next_begins();
  }

  static Step unsupported(urma_cr_status_t* status);
  // Executes all that can be executed now, in order. True if some wait.
  bool execute_pending();
  SendEntry* take_next();
  // The result that the program sees. In mode UM nobody is told what became of a message in flight.
  urma_cr_status_t outcome(urma_cr_status_t status) const;
  // How a request ends whose owner answered so.
  urma_cr_status_t outcome_of(Answer answer);
  // False: *status says how the request ends.
  bool local_memory_stands(SendEntry* entry, urma_cr_status_t* status);
  // Copies the local pieces into one buffer, one after the other.
  static void collect(SendEntry* entry, void* into);
  // `bytes` of its local bytes, after the first `skip`.
  static IovecList local_pieces(SendEntry* entry, uint64_t skip, uint64_t bytes);
  // Whether an atomic's address is a multiple of its width; false: *status says how it ends.
  bool aligned(const SendEntry& entry, urma_cr_status_t* status);

  // Finds the grant for an access, asking the owner if needed: kInFlight if there is one. *asked
  // is the attempt that it waits for; 0: none.
  template <typename Import, typename Grant>
  Step authorize(ImplicitImports<Import>* imports, const RemoteAccess& access, uint64_t* asked,
                 const Grant** grant, urma_cr_status_t* status);

  // The same for the bytes that a request reads, writes or changes.
  template <typename Import, typename Grant>
  Step authorize(ImplicitImports<Import>* imports, SendEntry* entry, const Grant** grant,
                 urma_cr_status_t* status) {
    return authorize(imports,
                     {&entry->remote, entry->remote_addr, entry->bytes, right_of(entry->kind)},
                     &asked_, grant, status);
  }
  // The same for the word that a WRITE_NOTIFY writes at last.
  template <typename Import, typename Grant>
  Step authorize_notified(ImplicitImports<Import>* imports, SendEntry* entry, const Grant** grant,
                          urma_cr_status_t* status) {
    return authorize(imports,
                     {&entry->notified, entry->notified_addr, sizeof(uint64_t), URMA_ACCESS_WRITE},
                     &asked_notified_, grant, status);
  }
  // Called by these: the owner of the memory is gone.
  virtual void memory_lost(const ImportedSegment& /*segment*/) {}

  // What the first pending request waits for: the attempts for its segment, and for `notified`.
  uint64_t asked_ = 0;
  uint64_t asked_notified_ = 0;
  Sender* sender() const { return sender_; }

 private:
  urma_cr_status_t why_refused(const ImportedSegment& segment, const RemoteAccess& access,
                               urma_cr_status_t status);
  urma_cr_status_t why_ended(const ImportedSegment& segment, bool owner_gone);

  Sender* const sender_;
};

// Whether an owner's grant covers all of an access.
bool suffices(const SegmentGrant& grant, const RemoteAccess& access);

template <typename Import, typename Grant>
RequestPath::Step RequestPath::authorize(ImplicitImports<Import>* imports,
                                         const RemoteAccess& access, uint64_t* asked,
                                         const Grant** grant, urma_cr_status_t* status) {
  auto* segment = static_cast<Import*>(*access.segment);
  const Wanted wanted = {access.addr, access.bytes, access.rights};
  *grant = segment->grant();
  const bool stands = *grant != nullptr && (*grant)->stands();
  if (stands && suffices((*grant)->segment, access)) {
    if (segment->settled(**grant)) return Step::kInFlight;
    if (segment->about_to_be_mapped()) return Step::kWait;
    // The grant that was read may be older than the answer that was waited for.
    if (segment->grant() != *grant) return authorize(imports, access, asked, grant, status);
    return Step::kInFlight;
  }
  if (*asked == 0) {
    // No segment wraps around the end of the address space, and no message can ask for one.
    if (access.bytes > ~access.addr) {
      *status = why_refused(*segment, access, URMA_CR_SUCCESS);
      return Step::kDone;
    }
    if (stands && !segment->implicit()) {
      imports->look_elsewhere(access);
      return authorize(imports, access, asked, grant, status);
    }
    *asked = segment->ask(wanted);
  }
  if (!segment->ended(*asked, status)) return Step::kWait;
  const bool answered = *status == URMA_CR_SUCCESS || *status == URMA_CR_REM_ACCESS_ABORT_ERR;
  // The attempt that ended was for an earlier request, for something else; or the grant came during
  // this look; or another request has found meanwhile that the grant no longer stands.
  const bool lost = *status == URMA_CR_SUCCESS && *grant == nullptr;
  if (answered && (lost || !segment->asked_for(wanted) || segment->grant() != *grant)) {
    *asked = 0;
    *status = URMA_CR_SUCCESS;
    return authorize(imports, access, asked, grant, status);
  }
  *status = *status == URMA_CR_SUCCESS && !stands ? why_ended(*segment, (*grant)->owner_gone())
                                                  : why_refused(*segment, access, *status);
  if (*status == URMA_CR_ACK_TIMEOUT_ERR) memory_lost(*segment);
  return Step::kDone;
}

}  // namespace urma

#endif  // JETTY_REQUEST_PATH_H_
