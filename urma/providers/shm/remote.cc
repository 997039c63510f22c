// SPDX-License-Identifier: MIT
#include "urma/providers/shm/remote.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <span>
#include <tuple>

#include "urma/base/clock.h"
#include "urma/base/guard.h"
#include "urma/base/log.h"
#include "urma/providers/shm/transport.h"

namespace urma::shm {
namespace {

// How long requests wait for a mapping before they are executed without: enough for segments of
// some hundred MiB. If copies are staged a mapping is worth more, and its wait is that of an
// import.
constexpr uint64_t kHoldNs = 100'000'000;
// The most that an owner can make this process map, and read a list of.
constexpr uint64_t kMaxSegmentBytes = 1ULL << 42;
constexpr uint32_t kMaxParts = 65536;
// Sharing memory and taking it back costs its owner as much as copying eight times as many bytes.
// With fewer requests than that, copies have cost less.
constexpr uint32_t kUsesWorthMapping = 8;
// An owner shares a registration once this many imports have asked for it.
constexpr uint32_t kImportsAsked = 4;

bool same_registration(const Grant* before, SegmentRef ref) {
  return before != nullptr && before->segment.ref == ref;
}

urma_ext_path_t path_of_copies(const Grant* granted) {
  return granted != nullptr && !granted->link->peer().reachable() ? URMA_EXT_PATH_STAGED
                                                                  : URMA_EXT_PATH_COPIED;
}

// The same grant, with nothing mapped or attached.
std::unique_ptr<Grant> again(const Grant& granted) {
  auto grant = std::make_unique<Grant>();
  grant->link = granted.link;
  grant->wanted = granted.wanted;
  grant->segment = granted.segment;
  grant->is_opaque = granted.is_opaque;
  return grant;
}

bool answers_for(const MapSegmentAnswer& answer, const Grant& granted) {
  return SegmentRef{answer.index, answer.generation} == granted.segment.ref;
}

uint64_t hold_ns(const Grant& granted, const Transport& transport) {
  if (granted.is_opaque) return transport.patience_ns() + transport.attach_ns();
  return granted.link->peer().reachable() ? kHoldNs : transport.patience_ns();
}

}  // namespace

uint64_t moving_ns(uint64_t bytes) {
  constexpr uint64_t kNsPerByte = 10;
  static const uint64_t memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
                                 static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(bytes, memory) * kNsPerByte;
}

uint64_t Grant::address_of(uint64_t addr, uint64_t bytes) const {
  if (attached.has_value()) return attached->is_host_memory ? attached_at(addr, bytes) : 0;
  if (view == nullptr) return 0;
  const bool all = addr >= view->begin() && addr < view->end() && bytes <= view->end() - addr;
  return all ? addr + view->distance() : 0;
}

RemoteSegment::RemoteSegment(Transport* transport, urma_context_t* ctx, const urma_seg_t& imported,
                             urma_token_t token, uint32_t access, Mapped mapped)
    : GrantedSegment(transport, imported, token),
      transport_(transport),
      access_(access),
      mapped_(mapped),
      same_address_(imported.attr.bs.dsva == URMA_DSVA_ENABLE),
      area_(same_address_ ? AddressArea::same(imported.ubva.va, imported.len) : nullptr) {
  enter_list(ctx);
}

RemoteSegment::~RemoteSegment() { leave_list(); }

// Opaque memory stays with its runtime, and an address that a program asked for with the program.
void RemoteSegment::unreferenced() {
  const Grant* granted = grant();
  const bool lasts = granted != nullptr && granted->stands() && !granted->is_opaque;
  if (lasts && mapped_ == Mapped::kWhenItPays && !same_address_) {
    transport_->kept_segments().keep(this);
  } else {
    delete this;
  }
}

void RemoteSegment::rest() {
  leave_list();
  const MutexLock lock(mutex_);
  drop_older_grants();
}

void RemoteSegment::wake(urma_context_t* ctx, const urma_seg_t& imported) {
  add_ref();
  static_cast<urma_target_seg_t&>(*this) = {};
  seg = imported;
  enter_list(ctx);
  const Grant& granted = *grant();
  const bool due = ++imports_ <= kImportsAsked || std::has_single_bit(imports_);
  if (due && granted.mapped_bytes == 0) ask(granted.wanted);
}

bool RemoteSegment::serves(const urma_context_t* ctx, const urma_seg_t& imported,
                           uint32_t access) const {
  const Grant& granted = *grant();
  const uint64_t va = imported.ubva.va, len = imported.len;
  return access_ == access && granted.stands() &&
         (ctx == nullptr ? granted.segment.covers(va, len) : is_of(granted, va, len));
}

uint32_t RemoteSegment::mappings() const {
  const Grant& granted = *grant();
  return granted.view == nullptr ? 0 : granted.view->mappings();
}

uint64_t RemoteSegment::mapped_space() const {
  const Grant& granted = *grant();
  return granted.view == nullptr ? 0 : granted.segment.len;
}

Request RemoteSegment::request_of(RequestType type, const Wanted& wanted) const {
  Request request = {};
  request.type = type;
  request.import_segment = {seg.ubva.eid,  wanted.va,     wanted.len, seg.token_id,
                            token().token, wanted.access, 0};
  return request;
}

void RemoteSegment::ask_owner(const Wanted& wanted) {
  Answer unasked = Answer::kUnreachable;
  std::shared_ptr<Link> link;
  try {
    link = transport_->link_to(IdKind::kToken, seg.ubva.eid, seg.token_id);
    if (link != nullptr) {
      link->request(
          request_of(RequestType::kImportSegment, wanted), {},
          [this, link, wanted](const Reply& reply, Attached&) { finish(link, wanted, reply); });
      return;
    }
    if (mapped_ == Mapped::kWhenItPays) transport_->log_absence("token id", seg.token_id);
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "asking for the segment of token id {:#x}: {}", seg.token_id,
                     error.what());
    unasked = Answer::kNoResourcesHere;
  }
  finish(nullptr, wanted, Reply{0, unasked, {}});
}

void RemoteSegment::finish(std::shared_ptr<Link> link, const Wanted& wanted, const Reply& reply) {
  const ImportSegmentAnswer& given = reply.import_segment;
  const SegmentGrant segment = {
      {given.index, given.generation}, given.base, given.len, given.access, 0};
  const bool granted =
      reply.answer == Answer::kAccepted && possible(segment) && segment.len <= kMaxSegmentBytes;
  Answer answer = reply.answer;
  bool map_now = false, renewed = false;
  // Logs nothing for an import that is only to be mapped: no program asked for it.
  if (!granted && mapped_ == Mapped::kWhenItPays) log_refusal(wanted, reply.answer);
  {
    const MutexLock lock(mutex_);
    try {
      if (granted) map_now = accept(std::move(link), wanted, segment, given.reach);
    } catch (const std::exception&) {
      answer = Answer::kNoResourcesHere;
    }
    const bool nonsense = answer == Answer::kAccepted && !granted;
    attempt_ended(answer, nonsense ? URMA_CR_REM_OPERATION_ERR : status_of(answer));
    renewed = grants().size() > 1;
  }
  settled_.notify_all();
  if (map_now) ask_mapping();
  if (renewed) drop_older_soon();
  transport_->serve_senders();
  drop_ref();
}

// True if it is to be mapped now. Refused requests ask as often as they like: an answer that
// says nothing new leaves the grant, and its mapping, as they are.
bool RemoteSegment::accept(std::shared_ptr<Link> link, const Wanted& wanted,
                           const SegmentGrant& segment, Reach reach) {
  const Grant* before = grant();
  const bool kept =
      before != nullptr && before->link == link && before->segment.says_the_same(segment);
  const bool mapped = kept && (before->mapped_bytes != 0 || before->attached.has_value() ||
                               mapping_.load(std::memory_order_relaxed));
  const bool map_now =
      mapped_ == Mapped::kWhenItPays && !mapped && (wanted_ || reach != Reach::kCopied);
  auto fresh = kept ? nullptr : std::make_unique<Grant>();
  if (map_now) begin_mapping();
  if (kept) return map_now;
  // A new grant of the same registration goes on counting. Relaxed: a number.
  if (!same_registration(before, segment.ref)) copied_uses_.store(0, std::memory_order_relaxed);
  fresh->link = std::move(link);
  fresh->wanted = wanted;
  fresh->segment = segment;
  fresh->is_opaque = reach == Reach::kOpaque && transport_->has_opaque();
  try {
    publish_numbered(std::move(fresh));
  } catch (...) {
    if (map_now) mapping_.store(false, std::memory_order_relaxed);
    throw;
  }
  return map_now;
}

void RemoteSegment::publish_numbered(std::unique_ptr<Grant> fresh) {
  fresh->number = ++last_number_;
  publish(std::move(fresh));
}

// A device may be copying to or from attached memory.
bool RemoteSegment::outlasts_requests(const Grant& granted) const {
  return granted.shown || granted.attached.has_value();
}

void RemoteSegment::begin_mapping() {
  mapping_since_ns_.store(monotonic_ns(), std::memory_order_relaxed);
  // Release pairs with the acquire in about_to_be_mapped(): it sees since when.
  mapping_.store(true, std::memory_order_release);
}

void RemoteSegment::map() {
  {
    const MutexLock lock(mutex_);
    const Grant* granted = grant();
    if (granted == nullptr || granted->view != nullptr || granted->is_opaque ||
        mapping_.load(std::memory_order_relaxed)) {
      return;
    }
    begin_mapping();
  }
  add_ref();  // dropped when it has been asked for
  try {
    transport_->service().post([this] {
      ask_mapping();
      // A stopped owner says nothing: then messages are moved without a mapping, also those that no
      // program polls for.
      transport_->service().after(hold_ns(*grant(), *transport_),
                                  [transport = transport_, ended = transport_->ended()] {
                                    if (!*ended) transport->serve_receives();
                                  });
      drop_ref();
    });
  } catch (...) {
    mapping_.store(false, std::memory_order_relaxed);
    drop_ref();
    throw;
  }
}

void RemoteSegment::count_use() {
  const Grant* granted = grant();
  if (granted == nullptr || granted->view != nullptr) return;
  // Relaxed: a number.
  const uint32_t before = copied_uses_.fetch_add(1, std::memory_order_relaxed);
  if (before + 1 == kUsesWorthMapping) guarded(URMA_LOG_SITE, [this] { map(); });
}

// Until the answer comes, requests are also executed without a mapping. An owner that never answers
// is asked once.
void RemoteSegment::ask_mapping() {
  ask_again_ = asked_mapping_;
  if (std::exchange(asked_mapping_, true)) return;
  const Grant& granted = *grant();
  const uint64_t asked = granted.number;
  add_ref();  // dropped by end_mapping()
  try {
    granted.link->request(
        request_of(RequestType::kMapSegment, granted.wanted), {},
        [this, asked](const Reply& reply, Attached& fds) { finish_mapping(asked, reply, fds); });
  } catch (const std::exception&) {
    Attached none;
    finish_mapping(asked, Reply{0, Answer::kNoResources, {}}, none);
  }
}

std::unique_ptr<MappedView> RemoteSegment::view_of(const Grant& granted,
                                                   const MapSegmentAnswer& answer, Attached& fds) {
  const SegmentGrant& segment = granted.segment;
  if (same_address_ && (area_ == nullptr || !area_->is_same(segment.base, segment.len))) {
    return nullptr;
  }
  if (!answers_for(answer, granted) || fds.empty() || answer.parts > kMaxParts) return nullptr;
  const SharedMemory list = SharedMemory::adopt(
      std::move(fds[0]), answer.parts * sizeof(PartDescription), PeerMay::kRead);
  // A copy, since the owner can still change the original.
  std::vector<PartDescription> parts(answer.parts);
  std::memcpy(parts.data(), list.data(), answer.parts * sizeof(PartDescription));
  const uint32_t access = access_ == 0 ? segment.access : segment.access & access_;
  const bool writable = (access & (URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC)) != 0;
  return std::make_unique<MappedView>(segment.base, segment.len, parts, std::span(fds).subspan(1),
                                      writable, std::move(area_));
}

void RemoteSegment::log_way(const Grant& granted) const {
  const uint64_t mapped = granted.view == nullptr ? 0 : granted.mapped_bytes;
  URMA_LOG(DEBUG,
           "segment at va {:#x} of token id {:#x}: {} of {} bytes at {:#x} are mapped, others {}; "
           "urma_ext_query_segment tells why",
           uint64_t{seg.ubva.va}, seg.token_id, mapped, granted.segment.len, granted.segment.base,
           granted.link->peer().reachable() ? "copied" : "staged");
}

void RemoteSegment::finish_mapping(uint64_t asked, const Reply& reply, Attached& fds) {
  if (!is_newest(asked)) return end_mapping(nullptr);
  const Grant* granted = grant();
  if (granted->is_opaque) return finish_opaque(reply, fds);
  std::unique_ptr<MappedView> view;
  bool refused = reply.answer == Answer::kNoResources;
  try {
    if (reply.answer == Answer::kAccepted) view = view_of(*granted, reply.map_segment, fds);
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "segment at va {:#x} of token id {:#x} is not mapped: {}",
                     uint64_t{seg.ubva.va}, seg.token_id, error.what());
    refused = true;
  }
  // Relaxed: only shown to tools.
  refused_.store(refused, std::memory_order_relaxed);
  std::unique_ptr<Grant> fresh;
  // A view without anything mapped does not replace another one.
  if (view != nullptr && (granted->view == nullptr || view->begin() != view->end())) {
    guarded(URMA_LOG_SITE, [&] {
      fresh = again(*granted);
      fresh->begin = view->begin();
      fresh->mapped_bytes = view->end() - view->begin();
      fresh->mapped = reinterpret_cast<char*>(view->begin() + view->distance());
      fresh->direct_access =
          view->writable() ? granted->segment.access : granted->segment.access & URMA_ACCESS_READ;
      fresh->view = std::move(view);
      fresh->shown = same_address_;
    });
  }
  end_mapping(std::move(fresh));
}

void RemoteSegment::finish_opaque(const Reply& reply, Attached& fds) {
  const Grant* granted = grant();
  const uint64_t asked = granted->number;
  urma_cr_status_t status = status_of(reply.answer);
  try {
    if (reply.answer == Answer::kAccepted) {
      status = URMA_CR_REM_OPERATION_ERR;
      if (reply.map_segment.opaque != 0 && answers_for(reply.map_segment, *granted)) {
        return transport_->attach(
            granted->link, granted->segment, fds,
            [this, asked](std::optional<OpaqueView> view, urma_cr_status_t attached_as) {
              attached(asked, std::move(view), attached_as);
            });
      }
    }
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(WARNING, "segment at va {:#x} of token id {:#x} is not attached: {}",
                     uint64_t{seg.ubva.va}, seg.token_id, error.what());
  }
  attached(asked, std::nullopt, status);
}

void RemoteSegment::attached(uint64_t asked, std::optional<OpaqueView> view,
                             urma_cr_status_t status) {
  const Grant& granted = *grant();
  std::unique_ptr<Grant> fresh;
  // Nothing if it cannot be attached for the reason already known.
  if (is_newest(asked) && (view.has_value() || granted.attach_status != status)) {
    guarded(URMA_LOG_SITE, [&] {
      fresh = again(granted);
      fresh->attached = std::move(view);
      fresh->attach_status = status;
    });
  }
  end_mapping(std::move(fresh));
}

// Publishes `fresh`, if there is one. If the owner has granted something else meanwhile, which is
// to be mapped, asks about that. Drops the reference of ask_mapping().
void RemoteSegment::end_mapping(std::unique_ptr<Grant> fresh) {
  asked_mapping_ = false;
  if (fresh == nullptr && ask_again_) {
    ask_mapping();
    return drop_ref();
  }
  bool renewed;
  {
    const MutexLock lock(mutex_);
    guarded(URMA_LOG_SITE, [&] {
      mutex_.assume_held();
      if (fresh != nullptr) publish_numbered(std::move(fresh));
    });
    renewed = grants().size() > 1;
    // Release pairs with the acquire in about_to_be_mapped(): a request that does not wait sees the
    // view.
    mapping_.store(false, std::memory_order_release);
  }
  if (renewed) drop_older_soon();
  if (!grant()->is_opaque) log_way(*grant());
  settled_.notify_all();
  transport_->serve_senders();
  if (mapped_ == Mapped::kWhenAsked) transport_->serve_receives();
  drop_ref();
}

// Acquire pairs with the releases in begin_mapping() and end_mapping().
bool RemoteSegment::about_to_be_mapped() const {
  if (!mapping_.load(std::memory_order_acquire)) return false;
  const Grant* granted = grant();
  return granted != nullptr && monotonic_ns() - mapping_since_ns_.load(std::memory_order_relaxed) <
                                   hold_ns(*granted, *transport_);
}

void RemoteSegment::wait_settled(const std::function<void(const Grant*)>& use) {
  const auto patience = std::chrono::nanoseconds(transport_->patience_ns() +
                                                 transport_->attach_ns() + moving_ns(seg.len));
  const MutexLock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (is_asking() || mapping_.load(std::memory_order_relaxed)) {
    if (!settled_.wait_until(mutex_, deadline)) break;
  }
  const Grant* granted = grant();
  if (granted != nullptr) granted->shown = true;
  use(granted);
}

uint64_t RemoteSegment::wait_mapped() {
  {
    const MutexLock lock(mutex_);
    wanted_ = true;
  }
  // The answer may have come before, without a mapping.
  map();
  uint64_t mapped = 0;
  wait_settled([&](const Grant* granted) {
    if (granted != nullptr) mapped = granted->address_of(seg.ubva.va, seg.len);
  });
  return mapped;
}

std::vector<urma_ext_part_t> RemoteSegment::parts() const {
  const MutexLock lock(mutex_);
  const Grant* granted = grant();
  if (granted != nullptr && granted->view != nullptr) {
    std::vector<urma_ext_part_t> parts = granted->view->parts();
    for (urma_ext_part_t& part : parts) {
      if (part.path == URMA_EXT_PATH_COPIED) part.path = path_of_copies(granted);
    }
    return parts;
  }
  if (granted != nullptr && granted->is_opaque) {
    return {{seg.ubva.va, seg.len, URMA_EXT_PATH_DEVICE, URMA_EXT_REASON_NONE}};
  }
  const auto reason = refused_.load(std::memory_order_relaxed) ? URMA_EXT_REASON_KERNEL
                                                               : URMA_EXT_REASON_NOT_IMPORTED;
  return {{seg.ubva.va, seg.len, path_of_copies(granted), reason}};
}

}  // namespace urma::shm
