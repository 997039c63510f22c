// SPDX-License-Identifier: MIT
//
// The owner of queues and segments, with a peer that sends arbitrary requests on the control
// socket, writes anything into its rings, and passes any descriptor; and with an honest peer, which
// must be served whatever the other one did.
#include <map>
#include <memory>

#include "test/fuzz/shm_rig.h"

namespace urma::shm {
namespace {

using urma_fuzz::Bytes;
using urma_fuzz::Descriptors;
using urma_fuzz::Fenced;
using urma_fuzz::require;

constexpr uint32_t kRoom = 1024;

// A receive queue that never runs out of receives.
struct Inbox {
  Inbox(Node* node, urma_target_seg_t* into, char* memory, urma_transport_mode_t mode)
      : node(node),
        segment(into),
        room(memory),
        jfc(node->make_jfc()),
        jfr(node->make_jfr(jfc, mode)) {}

  void serve() {
    for (; posted < 32; ++posted) node->receive(jfr, {piece(segment, room, kRoom)}, 7);
    std::vector<urma_cr_t> records;
    node->poll(jfc, &records);
    for (const urma_cr_t& record : records) {
      require(record.user_ctx == 7 && record.local_id == jfr->jfr_id.id,
              "a record names its queue");
      require(record.status != URMA_CR_SUCCESS || record.opcode == URMA_CR_OPC_WRITE_WITH_IMM ||
                  record.completion_len <= kRoom,
              "a message fits into its receive");
    }
    posted -= records.size();
  }

  Node* node;
  urma_target_seg_t* segment;
  char* room;
  urma_jfc_t* jfc;
  urma_jfr_t* jfr;
  size_t posted = 0;
};

// Everything that outlives an input.
struct Rig {
  static Rig& the() {
    static Rig& rig = *new Rig;
    return rig;
  }

  // One message of an honest process.
  void serve_the_honest() {
    require(
        honest.send(honest_jfs, honest_target, piece(source, bytes.data(), 8), 3) == URMA_SUCCESS,
        "an honest peer can post");
    std::vector<urma_cr_t> records;
    const bool done = eventually([&] {
      for (Inbox& inbox : inboxes) inbox.serve();
      honest.poll(honest_jfc, &records);
      return !records.empty();
    });
    require(done && records[0].status == URMA_CR_SUCCESS, "an honest peer is served");
    memory.check();
  }

  Descriptors descriptors;
  Fenced memory;
  std::vector<char> bytes = std::vector<char>(4096, 'h');
  Node owner;
  Node honest;
  urma_target_seg_t* const room = owner.add(memory.data(), Fenced::kPage);
  Inbox inboxes[2] = {{&owner, room, memory.data(), URMA_TM_RM},
                      {&owner, room, memory.data() + 2048, URMA_TM_UM}};
  urma_jfc_t* const honest_jfc = honest.make_jfc();
  urma_jfs_t* const honest_jfs = honest.make_jfs(honest_jfc, 8);
  urma_target_seg_t* const source = honest.add(bytes.data(), bytes.size());
  urma_target_jetty_t* const honest_target = honest.import(inboxes[0].jfr->jfr_id);
};

class Attack {
 public:
  // A peer may end the access to segments, so each attack gets new ones.
  explicit Attack(Rig* rig)
      : rig_(rig),
        written_(rig->owner.add(rig->memory.data(), Fenced::kPage)),
        readable_(
            rig->owner.add(rig->memory.data() + Fenced::kPage, Fenced::kPage, URMA_ACCESS_READ)) {
    connect();
  }

  void step(Bytes* in) {
    switch (in->below(10)) {
      case 0:
        return ask(in);
      case 1:
        return send_bytes(in);
      case 2:
        return open_ring(in);
      case 3:
        return publish(in);
      case 4:
        return scribble(in);
      case 5:
        return forge(in);
      case 6:
        return rig_->inboxes[in->below(2)].serve();
      case 7:
        return rig_->owner.settle();
      case 8:
        if (in->chance(16)) connect();
        return;
      default:
        Reply reply;
        while (::recv(peer_->fd(), &reply, sizeof(reply), MSG_DONTWAIT) > 0)
          answers_.push_back(reply);
    }
  }
  void finish() {
    peer_.reset();
    rig_->owner.settle();
    rig_->owner.end(readable_);
    rig_->owner.end(written_);
  }

 private:
  void connect() {
    peer_.reset();
    rig_->owner.settle();
    peer_ = std::make_unique<RawPeer>(rig_->owner);
    require(peer_->greet() == Answer::kAccepted, "a peer is admitted");
  }
  std::array<uint64_t, 12> numbers() const {
    const urma_seg_t& segment = written_->seg;
    const ImportSegmentAnswer granted =
        answers_.empty() ? ImportSegmentAnswer{} : answers_.back().import_segment;
    return {segment.ubva.va,
            segment.ubva.va + 8,
            segment.len,
            segment.token_id,
            readable_->seg.ubva.va,
            readable_->seg.token_id,
            rig_->inboxes[1].jfr->jfr_id.id,
            granted.index,
            granted.generation,
            uint64_t{granted.generation} << 32 | granted.index,
            reinterpret_cast<uint64_t>(rig_->bytes.data()),
            UINT64_MAX};
  }
  // A valid request, except for what the input changes.
  void ask(Bytes* in) {
    Request request = RawPeer::request(static_cast<RequestType>(in->below(12)));
    const urma_jfr_t& jfr = *rig_->inboxes[0].jfr;
    switch (request.type) {
      case RequestType::kImportSegment:
      case RequestType::kMapSegment: {
        const urma_seg_t& segment = written_->seg;
        request.import_segment = {
            segment.ubva.eid, segment.ubva.va, segment.len, segment.token_id, 0, kAllAccess, 0};
        break;
      }
      case RequestType::kOpenRing:
        request.open_ring.target_eid = jfr.jfr_id.eid;
        request.open_ring.target_id = jfr.jfr_id.id;
        request.open_ring.trans_mode = URMA_TM_RM;
        request.open_ring.ring_bytes = kMinRingBytes;
        request.open_ring.sender_jfc.bell = kNoBell;
        break;
      case RequestType::kAtomic:
        request.atomic.va = written_->seg.ubva.va;
        request.atomic.opcode = URMA_OPC_CAS;
        request.atomic.bytes = 8;
        break;
      case RequestType::kProbe:
        request.probe = {jfr.jfr_id.eid, jfr.jfr_id.id, URMA_JFR, URMA_TM_RM, 0};
        break;
      case RequestType::kCopySegment:
        request.copy_segment.va = written_->seg.ubva.va;
        request.copy_segment.bytes = 64;
        break;
      default:
        break;
    }
    urma_fuzz::patch(in, &request, numbers());
    peer_->send(&request, sizeof(request), rig_->descriptors.some(in));
  }
  void send_bytes(Bytes* in) {
    const std::vector<int> descriptors = rig_->descriptors.some(in);
    const auto bytes = in->some(2 * sizeof(Request));
    peer_->send(bytes.data(), bytes.size(), descriptors);
  }
  void open_ring(Bytes* in) {
    const uint32_t number = in->below(4);
    auto ring = std::make_unique<RingProducer>(kMinRingBytes);
    const uint32_t which = in->below(2);
    Request open = RawPeer::request(RequestType::kOpenRing);
    open.open_ring.target_eid = rig_->inboxes[which].jfr->jfr_id.eid;
    open.open_ring.target_id = rig_->inboxes[which].jfr->jfr_id.id;
    open.open_ring.target_type = URMA_JFR;
    open.open_ring.trans_mode = which == 0 ? URMA_TM_RM : URMA_TM_UM;
    open.open_ring.sender = {open.open_ring.target_eid, 1, 7};
    open.open_ring.ring = number;
    open.open_ring.ring_bytes = ring->bytes();
    open.open_ring.rnr_retry = in->below(8);
    open.open_ring.sender_jfc.bell = kNoBell;
    peer_->send(&open, sizeof(open), {ring->memory().fd()});
    rings_[number] = std::move(ring);
  }
  RingProducer* ring(Bytes* in) {
    const auto found = rings_.find(in->below(4));
    return found == rings_.end() ? nullptr : found->second.get();
  }
  // A message that is valid in the ring. What it refers to need not be.
  void publish(Bytes* in) {
    RingProducer* producer = ring(in);
    if (producer == nullptr) return;
    const auto kind = static_cast<MessageKind>(in->below(4) + 1);
    const uint8_t flags = in->take<uint8_t>() & 7;
    std::vector<char> payload(prefix_of(kind));
    if (!payload.empty()) {
      const urma_seg_t& segment = readable_->seg;
      Invalidation invalidation = {segment.ubva.eid, segment.ubva.va, segment.len, {}};
      urma_fuzz::patch(in, &invalidation, numbers());
      std::memcpy(payload.data(), &invalidation, sizeof(invalidation));
    }
    uint32_t length = 0;
    if ((flags & kByReference) != 0) {
      for (uint32_t pieces = in->below(8); pieces > 0; --pieces) {
        PayloadPiece one = {reinterpret_cast<uint64_t>(rig_->bytes.data()), in->below(512), 0};
        length += one.len;
        urma_fuzz::patch(in, &one, numbers());
        const auto* bytes = reinterpret_cast<const char*>(&one);
        payload.insert(payload.end(), bytes, bytes + sizeof(one));
      }
    } else {
      const auto bytes = in->some(200);
      payload.insert(payload.end(), bytes.begin(), bytes.end());
      length = static_cast<uint32_t>(bytes.size());
    }
    if (kind == MessageKind::kWriteImm) payload.clear();
    if (in->chance(16)) length = in->take<uint32_t>();
    uint32_t cookie;
    uint8_t status;
    while (producer->reap(&cookie, &status)) continue;
    const auto total = static_cast<uint32_t>(payload.size());
    if (!producer->room_for(total)) return;
    producer->begin(total);
    producer->append(payload.data(), total);
    producer->publish(kind, flags, length, in->take<uint16_t>(), 0);
  }
  void scribble(Bytes* in) {
    const RingProducer* producer = ring(in);
    if (producer == nullptr) return;
    const uint32_t total = RingLayout::total_bytes(producer->bytes());
    const uint32_t at = in->below(total);
    const auto bytes = in->some(total - at);
    if (bytes.empty()) return;
    std::memcpy(static_cast<char*>(producer->memory().data()) + at, bytes.data(), bytes.size());
  }
  // The header of a slot near the beginning, where most rings are.
  void forge(Bytes* in) {
    const RingProducer* producer = ring(in);
    if (producer == nullptr) return;
    const uint64_t position = in->below(80);
    MessageHeader& header =
        RingLayout(producer->memory().data(), producer->bytes()).header(position);
    const auto payload = in->take<uint16_t>();
    header.length = in->take<uint32_t>();
    header.payload = payload;
    const uint32_t slots = in->chance(192) ? slots_for(payload) : in->take<uint16_t>();
    header.word.store(first_word(position, static_cast<MessageKind>(in->take<uint8_t>()),
                                 in->take<uint8_t>(), slots));
  }

  Rig* rig_;
  urma_target_seg_t* const written_;
  urma_target_seg_t* const readable_;
  std::unique_ptr<RawPeer> peer_;
  std::map<uint32_t, std::unique_ptr<RingProducer>> rings_;
  std::vector<Reply> answers_;
};

}  // namespace
}  // namespace urma::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool entered = (urma_fuzz::start(), true);
  urma::shm::Rig& rig = urma::shm::Rig::the();
  urma_fuzz::Bytes in(data, size);
  {
    urma::shm::Attack attack(&rig);
    while (!in.empty()) attack.step(&in);
    attack.finish();
  }
  rig.serve_the_honest();
  return 0;
}
