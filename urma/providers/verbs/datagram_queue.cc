// SPDX-License-Identifier: MIT
#include "urma/providers/verbs/datagram_queue.h"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "urma/base/clock.h"
#include "urma/base/log.h"
#include "urma/base/random.h"
#include "urma/providers/verbs/path.h"

namespace urma::verbs {
namespace {

constexpr uint32_t kMtuOf256 = 1;  // IBV_MTU_256
constexpr uint64_t kFlushNs = 100'000'000;

// A peer that does not know it cannot send here. The upper half of all keys is the kernel's.
uint32_t random_qkey() { return random_value<uint32_t>() & 0x7FFFFFFF; }

uint64_t address_of(const LazyMemory& memory) { return reinterpret_cast<uint64_t>(memory.data()); }

}  // namespace

uint32_t max_datagram(const DeviceInfo& info) {
  const uint32_t mtu = 256U << (static_cast<uint32_t>(info.port_attr.active_mtu) - kMtuOf256);
  return mtu - sizeof(DatagramHeader);
}

constexpr uint32_t kHeaderStride = kRoutingHeader + sizeof(DatagramHeader);

DatagramReceives::DatagramReceives(const ContextResources& resources,
                                   const std::shared_ptr<CqPump>& pump, uint32_t depth,
                                   uint32_t max_pieces)
    : api_(&resources.device->api()),
      qkey_(random_qkey()),
      most_(max_datagram(resources.device->info())),
      rest_at_(uint64_t{depth} * kHeaderStride),
      headers_(rest_at_ + most_),
      region_(*resources.device, address_of(headers_), headers_.bytes(), {}),
      pair_(*resources.device, IBV_QPT_UD, pump, nullptr,
            {.receives = depth, .receive_sges = max_pieces + kPieces}, resources.origin, qkey_,
            [] {}) {
  pair_.open();
}

int DatagramReceives::post(ibv_recv_wr* first, ibv_recv_wr** bad) {
  return api_->post_recv(pair_.handle(), first, bad);
}

ibv_sge DatagramReceives::header_piece(uint32_t place) const {
  return {address_of(headers_) + uint64_t{place} * kHeaderStride, kHeaderStride, region_.lkey()};
}

ibv_sge DatagramReceives::rest_piece() const {
  return {address_of(headers_) + rest_at_, most_, region_.lkey()};
}

DatagramHeader DatagramReceives::header(uint32_t place) const {
  DatagramHeader header;
  std::memcpy(
      &header,
      static_cast<const char*>(headers_.data()) + size_t{place} * kHeaderStride + kRoutingHeader,
      sizeof(header));
  return header;
}

ConnectReply DatagramReceives::reply() const {
  ConnectReply reply = {};
  reply.end = pair_.address();
  reply.qkey = qkey_;
  return reply;
}

DatagramSends::DatagramSends(const ContextResources& resources, const std::shared_ptr<CqPump>& pump,
                             const QueuePairLimits& limits, const urma_jfs_cfg_t& cfg)
    : stride_(sizeof(DatagramHeader) + cfg.max_inline_data),
      // One more than the depth: the marker of a send queue takes a place too.
      headers_((size_t{cfg.depth} + 1) * stride_),
      region_(*resources.device, address_of(headers_), headers_.bytes(), {}),
      pair_(*resources.device, IBV_QPT_UD, pump, nullptr, limits, resources.origin, random_qkey(),
            [this] { broken_.store(true); }),
      sends_(limits.sends) {
  pair_.open();
}

bool DatagramSends::completed(ibv_wc_status status) {
  --under_way_;
  if (status == IBV_WC_SUCCESS) return true;
  // If no other request has broken it, the first one that comes back counts as the culprit, so that
  // no request is resent indefinitely.
  return !broken_.exchange(true) || status != IBV_WC_WR_FLUSH_ERR;
}

bool DatagramSends::mend() {
  // Relaxed: completions report what breaks meanwhile.
  if (!broken_.load(std::memory_order_relaxed)) [[likely]]
    return true;
  if (under_way_ != 0) return false;
  pair_.reopen();
  broken_.store(false);
  return true;
}

void DatagramSends::lose(uint32_t count) {
  under_way_ -= count;
  broken_.store(true);
}

ibv_sge DatagramSends::write_head(uint32_t place, const DatagramHeader& header, const void* data,
                                  uint32_t bytes) const {
  char* head = static_cast<char*>(headers_.data()) + place * stride_;
  std::memcpy(head, &header, sizeof(header));
  if (bytes != 0) std::memcpy(head + sizeof(header), data, bytes);
  return {reinterpret_cast<uint64_t>(head), static_cast<uint32_t>(sizeof(header)) + bytes,
          region_.lkey()};
}

bool DatagramPath::advance() {
  more = false;
  sender_->poll_completions();
  const bool posts = goes_on(queue().state());
  const bool waiting =
      posts && next_waiting() != nullptr && (!mended() || !connected() || post_waiting());
  if (doomed_ != 0 && (!posts || had_time())) flush_doomed();
  sender_->keep_armed();
  return waiting && !idle();
}

// False while the queue pair is broken. If it stays broken, the waiting requests end.
bool DatagramPath::mended() {
  try {
    return sender_->datagrams().mend();
  } catch (const std::exception& error) {
    URMA_LOG_LIMITED(ERR, "queue {:#x} cannot send to id {:#x}: {}", sender_->id().id,
                     target()->id.id, error.what());
    while (!idle()) end_first(URMA_CR_LOC_OPERATION_ERR);
    return false;
  }
}

// With nothing in flight that the device may need the address for.
void DatagramPath::disconnect() {
  if (connection_ != nullptr) end_connection(sender_->resources(), connection_);
  connection_.reset();
  address_.reset();
}

// False while the target's owner is asked. Nobody is told what became of a message without a
// target.
bool DatagramPath::connected() {
  if (connection_ != nullptr && connection_->broken.load() != URMA_CR_SUCCESS) [[unlikely]] {
    // Its owner has gone; there may be another one by now.
    if (under_way_ != 0) return false;
    disconnect();
  }
  if (address_) return true;
  if (connection_ == nullptr) {
    connection_ = describe_connection();
    make_connection(sender_->resources(), connection_, /*pump=*/nullptr, {}, {});
    return false;
  }
  if (!connection_->settled.load(std::memory_order_acquire)) return false;
  if (connection_->status == URMA_CR_SUCCESS) {
    const ContextResources& resources = sender_->resources();
    ibv_ah_attr attr = address_vector(*resources.device, resources.origin,
                                      connection_->answer.reply.end, sender_->config().priority);
    const Api& api = resources.device->api();
    address_ = {&api, api.create_ah(resources.device->pd(), &attr)};
    opened_ns_ = monotonic_ns();
    if (address_) return true;
    URMA_LOG_LIMITED(ERR, "queue {:#x}: the device has no route to id {:#x}", sender_->id().id,
                     target()->id.id);
  }
  disconnect();
  while (next_waiting() != nullptr && under_way_ == 0) end_first(URMA_CR_SUCCESS);
  return false;
}

// True if requests still wait.
bool DatagramPath::post_waiting() {
  uint64_t budget = kCopyPerTurn;
  while (SendEntry* entry = next_waiting()) {
    urma_cr_status_t status = URMA_CR_SUCCESS;
    const Step step = execute_guarded(entry, &budget, &status);
    if (step == Step::kInFlight) {
      set_out(entry);
      begin_next();
      continue;
    }
    // All requests in flight complete soon.
    if (step == Step::kWait || under_way_ != 0) return true;
    end_first(status);
  }
  return false;
}

DatagramPath::Step DatagramPath::send(SendEntry* entry, urma_cr_status_t* status) {
  *status = check(entry);
  return *status == URMA_CR_SUCCESS ? post(entry, status) : Step::kDone;
}

urma_cr_status_t DatagramPath::check(SendEntry* entry) const {
  if (entry->bytes > max_datagram(sender_->device())) return URMA_CR_LOC_LEN_ERR;
  for (const LocalPiece& piece : SendQueue::pieces(entry)) {
    uint32_t lkey;
    if (piece.len == 0) continue;
    if (!piece.valid || !sender_->resources().keys->find(piece.ref, &lkey)) {
      return URMA_CR_LOC_ACCESS_ERR;
    }
  }
  return URMA_CR_SUCCESS;
}

DatagramPath::Step DatagramPath::post(SendEntry* entry, urma_cr_status_t* status) {
  DatagramSends& sends = sender_->datagrams();
  if (!sends.has_room() || sender_->credits() == 0) return Step::kWait;
  const uint32_t place = queue().index_of(entry);
  const urma_jetty_id_t& id = sender_->id();
  const ConnectReply& reply = connection_->answer.reply;
  const DatagramHeader header = {id.eid,
                                 id.id,
                                 id.uasid,
                                 reply.member_id,
                                 entry->opcode == URMA_OPC_SEND_IMM,
                                 target()->type != URMA_JFR,
                                 entry->operand[0]};
  ibv_sge* const pieces = sender_->list().pieces.data();
  ibv_sge* piece = pieces;
  *piece++ = sends.write_head(place, header, SendQueue::inline_data(entry), entry->inline_bytes);
  for (const LocalPiece& local : SendQueue::pieces(entry)) {
    if (local.len == 0) continue;
    uint32_t lkey;
    sender_->resources().keys->find(local.ref, &lkey);
    *piece++ = {local.addr, local.len, lkey};
  }
  ibv_send_wr request = {};
  request.wr_id = Sender::wr_id(tag_, place);
  request.opcode = IBV_WR_SEND;
  request.sg_list = pieces;
  request.num_sge = static_cast<int>(piece - pieces);
  request.send_flags = IBV_SEND_SIGNALED;
  if (entry->solicited) request.send_flags |= IBV_SEND_SOLICITED;
  request.wr.ud = {address_.get(), reply.end.qpn, reply.qkey};
  ibv_send_wr* bad = nullptr;
  const int error = sender_->post_send(sends.pair(), &request, &bad);
  if (error != 0) [[unlikely]] {
    if (error == ENOMEM || error == EAGAIN) return Step::kWait;
    URMA_LOG_LIMITED(ERR, "queue {:#x}: the device refuses a request to id {:#x} with errno {}",
                     sender_->id().id, target()->id.id, error);
    *status = URMA_CR_LOC_OPERATION_ERR;
    return Step::kDone;
  }
  sends.sent();
  sender_->take_credits(1);
  return Step::kInFlight;
}

void DatagramPath::completed(uint32_t /*mark*/, ibv_wc_status status) {
  sender_->give_credits(1);
  if (sender_->datagrams().completed(status)) [[likely]] {
    const bool flushed = status == IBV_WC_WR_FLUSH_ERR;
    return end_first(flushed ? URMA_CR_LOC_OPERATION_ERR : request_status(status, first()->kind));
  }
  if (++flushed_ != under_way_) return;
  flushed_ = 0;
  take_back();
}

// For requests of which the device reports no more.
void DatagramPath::end_under_way(urma_cr_status_t status) {
  const uint32_t lost = under_way_ - std::exchange(flushed_, 0);
  sender_->give_credits(lost);
  sender_->datagrams().lose(lost);
  // Later completions belong to nobody.
  sender_->leave(tag_);
  tag_ = sender_->enter(this);
  while (under_way_ != 0) end_first(status);
}

// The device sends its requests without delay.
void DatagramPath::await_device() {
  const uint64_t deadline = monotonic_ns() + kFlushNs;
  for (sender_->poll_completions(); under_way_ != 0 && monotonic_ns() < deadline;
       sender_->poll_completions()) {
    ::sched_yield();
  }
}

void DatagramPath::flush() {
  await_device();
  if (linger()) return;
  doomed_ = outstanding;
  flush_doomed();
}

void DatagramPath::drop() {
  await_device();
  doomed_ = outstanding;
  flush_doomed();
}

// Until the owner has answered, and the requests that waited for that have left.
bool DatagramPath::linger() {
  const bool opening = connection_ != nullptr && !address_;
  const bool leaving = doomed_ != 0 && !had_time();
  if (!(opening || leaving) || !may_linger(queue().state())) return false;
  doomed_ = outstanding;
  return true;
}

bool DatagramPath::had_time() const { return address_ && monotonic_ns() - opened_ns_ >= kFlushNs; }

void DatagramPath::flush_doomed() {
  // Requests posted after the doomed ones do not end with them.
  if (under_way_ > doomed_) return;
  if (under_way_ != 0) end_under_way(URMA_CR_WR_FLUSH_ERR);
  while (doomed_ != 0) end_first(URMA_CR_WR_FLUSH_ERR);
}

}  // namespace urma::verbs
