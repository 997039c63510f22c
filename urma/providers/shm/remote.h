// SPDX-License-Identifier: MIT
//
// What this process has imported: queues and segments of other processes. Importing is bookkeeping;
// the owner is asked when the first request needs it, and again when it has been replaced.
#ifndef URMA_PROVIDERS_SHM_REMOTE_H_
#define URMA_PROVIDERS_SHM_REMOTE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "jetty/granted_segment.h"
#include "segment/mapped_view.h"
#include "segment/segment.h"
#include "urma/base/mutex.h"
#include "urma/providers/shm/link.h"
#include "urma/providers/shm/opaque_memory.h"

namespace urma::shm {

class Transport;

// How long this process waits for bytes that an owner may have to move, in addition to its answer:
// at most as many as the machine has memory, whatever the owner says of its segment.
uint64_t moving_ns(uint64_t bytes);

// What the owner of a segment granted, over which link, and what this process has mapped of it.
struct Grant {
  std::shared_ptr<Link> link;
  SegmentGrant segment;
  std::unique_ptr<MappedView> view;  // NULL before the owner has answered what can be mapped
  // Memory that no processor reaches: attached once the owner has answered; else why not.
  bool is_opaque = false;
  std::optional<OpaqueView> attached;
  urma_cr_status_t attach_status = URMA_CR_ACK_TIMEOUT_ERR;

  // What a direct access needs of `view`, side by side; nothing if mapped_bytes is 0.
  uint64_t begin = 0;
  uint64_t mapped_bytes = 0;
  char* mapped = nullptr;      // where `begin` lies here
  uint32_t direct_access = 0;  // URMA_ACCESS_* that are granted and that the mapping allows

  Wanted wanted = {};   // what it was granted for
  uint64_t number = 0;  // tells it from all others of its segment
  // The program has its address, or wants that address alone: it stays mapped. With the lock.
  mutable bool shown = false;

  [[gnu::always_inline]] bool stands() const { return link->segment_alive(segment.ref); }
  bool owner_gone() const { return link->gone(); }
  // Where these bytes are attached here, or 0.
  uint64_t attached_at(uint64_t addr, uint64_t bytes) const {
    if (!attached || !segment.covers(addr, bytes)) return 0;
    return reinterpret_cast<uint64_t>(attached->start) + (addr - segment.base);
  }
  // Where the program reaches them, or 0.
  uint64_t address_of(uint64_t addr, uint64_t bytes) const;
};

// When an imported segment is mapped: once its requests show that it pays, or by map() alone.
enum class Mapped { kWhenItPays, kWhenAsked };

// An imported segment: a name for all memory of an owner with one token id and value. It keeps the
// grant of one registration; other registrations are looked up as implicit imports are. Any thread
// may use it.
class RemoteSegment final : public GrantedSegment<Grant> {
 public:
  // `access` restricts the mapping; 0: all that the owner grants. Throws Error(URMA_EEXIST) if
  // attr.bs.dsva is set and the address is taken.
  RemoteSegment(Transport* transport, urma_context_t* ctx, const urma_seg_t& imported,
                urma_token_t token, uint32_t access, Mapped mapped = Mapped::kWhenItPays);
  ~RemoteSegment() override;

  void unreferenced() override;
  Invalidation invalidation() const override { return granted_invalidation(); }
  // For a segment that nobody holds, down to mapped_space(). rest() ends what only an import needs.
  void rest();
  // An import again, with its old grant. While nothing of it is mapped, its owner is asked anew now
  // and then: it may share the memory by now.
  void wake(urma_context_t* ctx, const urma_seg_t& imported);
  // Whether such an import need not ask. An import by a program names a registration, and not one
  // that overlaps it; an import by a request wants bytes, whichever registration holds them.
  bool serves(const urma_context_t* ctx, const urma_seg_t& imported, uint32_t access) const;
  // The cost of keeping it for an import: mappings, and address space for them.
  uint32_t mappings() const;
  uint64_t mapped_space() const;

  // Whether it is known what of it is mapped.
  static bool settled(const Grant& granted) { return granted.view != nullptr; }
  // True for a moment after a grant, until the owner has said what can be mapped: a copy by the
  // kernel would pin the very pages that the owner is about to move.
  bool about_to_be_mapped() const;
  // Has the owner share the granted memory, unless it was asked before.
  void map();
  // A request was executed. Enough copied requests make a mapping worthwhile.
  void count_use();
  // Has it mapped, and waits until the owner has said what can be, at most for the time needed to
  // move this much memory. The address of the first byte here, or 0 if not all of it is mapped.
  uint64_t wait_mapped() override;
  // Calls use(grant) after that wait, with the lock that keeps the grant; NULL if none came in
  // time. The grant then stays for as long as the import.
  void wait_settled(const std::function<void(const Grant*)>& use);

  // The ways in which its parts are reached now.
  std::vector<urma_ext_part_t> parts() const;

 private:
  // On the service thread.
  void ask_owner(const Wanted& wanted) override;
  void finish(std::shared_ptr<Link> link, const Wanted& wanted, const Reply& reply);
  bool accept(std::shared_ptr<Link> link, const Wanted& wanted, const SegmentGrant& segment,
              Reach reach) URMA_REQUIRES(mutex_);
  bool outlasts_requests(const Grant& granted) const override URMA_REQUIRES(mutex_);
  void publish_numbered(std::unique_ptr<Grant> fresh) URMA_REQUIRES(mutex_);
  void begin_mapping() URMA_REQUIRES(mutex_);
  void ask_mapping();
  // Whether the grant that was asked about is still the newest. Service thread.
  bool is_newest(uint64_t asked) const { return grant()->number == asked; }
  void finish_mapping(uint64_t asked, const Reply& reply, Attached& fds);
  void finish_opaque(const Reply& reply, Attached& fds);
  void attached(uint64_t asked, std::optional<OpaqueView> view, urma_cr_status_t status);
  void end_mapping(std::unique_ptr<Grant> fresh);
  std::unique_ptr<MappedView> view_of(const Grant& granted, const MapSegmentAnswer& answer,
                                      Attached& fds);

  Request request_of(RequestType type, const Wanted& wanted) const;
  void log_way(const Grant& granted) const;

  Transport* transport_;
  uint32_t imports_ = 1;  // how often it was imported
  const uint32_t access_;
  const Mapped mapped_;
  const bool same_address_;  // DSVA
  // For its first mapping; a later one, of another registration, would need it again.
  std::unique_ptr<AddressArea> area_;
  std::atomic<bool> mapping_{false};  // an answer about mapping is to come; written under mutex_
  std::atomic<uint64_t> mapping_since_ns_{0};
  std::atomic<bool> refused_{false};  // one side lacked memory or descriptors to map it
  std::atomic<uint32_t> copied_uses_{0};
  Condition settled_;
  bool wanted_ URMA_GUARDED_BY(mutex_) = false;  // to be mapped, whether that pays or not
  uint64_t last_number_ URMA_GUARDED_BY(mutex_) = 0;
  // Service thread: an answer about mapping is to come; the owner is then asked about a newer
  // grant.
  bool asked_mapping_ = false;
  bool ask_again_ = false;
};

using RemoteSegmentRef = ImportRef<RemoteSegment>;

}  // namespace urma::shm

#endif  // URMA_PROVIDERS_SHM_REMOTE_H_
