// SPDX-License-Identifier: MIT
//
// A process that imports queues and segments, from an owner with arbitrary answers: on the control
// socket, in the rings that it is lent, and with the memory that it offers as segments.
#include <memory>

#include "segment/mapped_view.h"
#include "test/fuzz/shm_rig.h"

namespace urma::shm {
namespace {

using urma_fuzz::Bytes;
using urma_fuzz::Descriptors;
using urma_fuzz::Fenced;
using urma_fuzz::require;

constexpr uint32_t kBytes = 4096;

// What the owner has received on one connection.
class Connected {
 public:
  explicit Connected(OwnFd socket) : socket_(std::move(socket)) {}

  RawSocket& socket() { return socket_; }
  const Request& asked() const { return asked_; }
  // The next request, with its descriptors; false if there is none.
  bool take() {
    iovec part = {&asked_, sizeof(asked_)};
    alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))];
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    if (::recvmsg(socket_.fd(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) return false;
    for (cmsghdr* one = CMSG_FIRSTHDR(&header); one != nullptr; one = CMSG_NXTHDR(&header, one)) {
      for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= one->cmsg_len; at += sizeof(int)) {
        int fd;
        std::memcpy(&fd, CMSG_DATA(one) + at, sizeof(fd));
        keep(Fd(fd));
      }
    }
    return true;
  }
  // The ring that was lent on this connection: anywhere in it.
  void scribble(Bytes* in) {
    if (lent_ == nullptr) return;
    const auto at = in->below(static_cast<uint32_t>(lent_->bytes()));
    const auto bytes = in->some(lent_->bytes() - at);
    if (bytes.empty()) return;
    std::memcpy(static_cast<char*>(lent_->data()) + at, bytes.data(), bytes.size());
  }
  // Like a receiver that has taken some messages and rejected some of them.
  void answer_messages(Bytes* in) {
    if (lent_ == nullptr) return;
    const RingLayout layout(lent_->data(), kMinRingBytes);
    layout.answer(in->below(64)).store(in->take<uint8_t>());
    layout.answers().consumed.store(in->chance(224) ? in->below(80) : in->take<uint64_t>());
    if (in->chance(16)) layout.answers().closed.store(in->take<uint32_t>());
  }

 private:
  void keep(Fd fd) {
    const size_t bytes = RingLayout::total_bytes(kMinRingBytes);
    if (asked_.type != RequestType::kOpenRing || lent_ != nullptr) return;
    lent_ =
        std::make_unique<SharedMemory>(SharedMemory::adopt(std::move(fd), bytes, PeerMay::kWrite));
  }

  RawSocket socket_;
  Request asked_ = {};
  std::unique_ptr<SharedMemory> lent_;
};

// Everything that outlives an input.
struct Rig {
  static Rig& the() {
    static Rig& rig = *new Rig;
    return rig;
  }
  // What it grants stays granted.
  Rig() { *static_cast<uint32_t*>(words.data()) = 1; }
  urma_jfr_id_t queue() { return {owner.runtime().eids()[0], owner.runtime().uasid(), id}; }
  urma_seg_t segment() {
    urma_seg_t segment = {};
    segment.ubva = {owner.runtime().eids()[0], owner.runtime().uasid(), kBytes};
    segment.len = kBytes;
    segment.token_id = token_id;
    return segment;
  }

  Descriptors descriptors;
  Fenced memory;
  Host owner;
  const uint32_t id = owner.runtime().alloc_id(IdKind::kJfr);
  const uint32_t token_id = owner.runtime().alloc_id(IdKind::kToken);
  const OwnFd listener = listen_at(owner.runtime().dir_fd(), owner.socket_name().c_str());
  const SharedMemory words =
      SharedMemory::create("fuzz", SegmentTable::kSharedBytes, PeerMay::kRead, 0);
  const SharedMemory parts = SharedMemory::create("fuzz", 4096, PeerMay::kWrite);
  Node importer;
  urma_jfc_t* const jfc = importer.make_jfc();
  urma_target_seg_t* const local = importer.add(memory.data(), Fenced::kShared);
};

class Attack {
 public:
  explicit Attack(Rig* rig)
      : rig_(rig),
        jfs_(rig->importer.make_jfs(rig->jfc, 32)),
        queue_(rig->importer.import(rig->queue())),
        segment_(rig->importer.import(rig->segment())) {}

  void step(Bytes* in) {
    switch (in->below(8)) {
      case 0:
        return post(in);
      case 1:
        return accept(in);
      case 2:
        return answer(in);
      case 3:
        if (peer_ != nullptr) peer_->scribble(in);
        return;
      case 4:
        if (peer_ != nullptr) peer_->answer_messages(in);
        return;
      case 5:
        return poll();
      case 6:
        rig_->importer.settle();
        return;
      default:
        return say(in);
    }
  }
  // The owner goes away repeatedly; then everything requested of it ends.
  void finish() {
    peer_.reset();
    const bool ended = eventually([&] {
      OwnFd::accept(rig_->listener.get());
      poll();
      return pending_ == 0;
    });
    require(ended, "each request of a lost peer ends");
    rig_->importer.end(segment_);
    rig_->importer.end(queue_);
    rig_->importer.end(jfs_);
    while (OwnFd::accept(rig_->listener.get()).valid()) continue;
    rig_->importer.settle();
    rig_->memory.check();
  }

 private:
  void post(Bytes* in) {
    if (pending_ == 16) return;
    Node& node = rig_->importer;
    const uint32_t bytes = in->below(2) == 0 ? 8 : 1 + in->below(Fenced::kShared);
    const urma_sge_t here = piece(rig_->local, rig_->memory.data(), bytes);
    const urma_sge_t there = piece(
        segment_, reinterpret_cast<const void*>(uint64_t{kBytes} + 8 * in->below(256)), bytes);
    urma_status_t status = URMA_SUCCESS;
    switch (in->below(4)) {
      case 0:
        status = node.send(jfs_, queue_, here, 5);
        break;
      case 1:
        status = node.write(jfs_, queue_, here, there, 5);
        break;
      case 2:
        status = node.read(jfs_, queue_, there, here, 5);
        break;
      default: {
        urma_sge_t word = there, old = here;
        word.len = old.len = 8;
        status = node.atomic(URMA_OPC_FADD, jfs_, queue_, old, word, 5);
      }
    }
    require(status == URMA_SUCCESS, "a valid request is accepted");
    ++pending_;
  }
  void poll() {
    std::vector<urma_cr_t> records;
    rig_->importer.poll(rig_->jfc, &records);
    for (const urma_cr_t& record : records) {
      require(record.user_ctx == 5, "a record belongs to a request");
      require(record.status <= URMA_CR_REM_DATA_POISON, "a status is a known one");
      require(pending_-- > 0, "a request ends once");
    }
  }
  // A process that connects is greeted, mostly correctly.
  void accept(Bytes* in) {
    OwnFd socket = OwnFd::accept(rig_->listener.get());
    if (!socket.valid()) return;
    peer_ = std::make_unique<Connected>(std::move(socket));
    rig_->importer.settle();
    if (!peer_->take()) return;
    Reply welcome = {};
    welcome.number = peer_->asked().number;
    if (in->chance(32)) urma_fuzz::patch(in, &welcome, numbers());
    std::vector<int> descriptors = {rig_->words.fd()};
    if (in->chance(16)) descriptors = rig_->descriptors.some(in);
    peer_->socket().send(&welcome, sizeof(welcome), descriptors);
    rig_->importer.settle();
  }
  std::array<uint64_t, 6> numbers() const {
    return {kBytes,
            1,
            UINT64_MAX,
            kMaxSegments,
            reinterpret_cast<uint64_t>(rig_->memory.data()),
            uint64_t{1} << 32};
  }
  // Grants everything that is requested, except for what the input changes.
  void answer(Bytes* in) {
    if (peer_ == nullptr || !peer_->take()) return;
    Reply reply = {};
    reply.number = peer_->asked().number;
    std::vector<int> descriptors;
    switch (peer_->asked().type) {
      case RequestType::kImportSegment:
        reply.import_segment = {kBytes, kBytes, kAllAccess, 0, 1, Reach::kMapped};
        break;
      case RequestType::kMapSegment:
        reply.map_segment = {describe_parts(in), 0, 1, 0};
        descriptors = {rig_->parts.fd()};
        break;
      case RequestType::kOpenRing:
        reply.open_ring.receiver_jfc.bell = kNoBell;
        break;
      default:
        break;
    }
    if (in->chance(96)) urma_fuzz::patch(in, &reply, numbers());
    const std::vector<int> more = rig_->descriptors.some(in);
    descriptors.insert(descriptors.end(), more.begin(), more.end());
    peer_->socket().send(&reply, sizeof(reply), descriptors);
  }
  // In memory that the owner can still write.
  uint32_t describe_parts(Bytes* in) {
    const uint32_t count = in->below(4);
    auto* parts = static_cast<PartDescription*>(rig_->parts.data());
    uint64_t va = kBytes;
    for (uint32_t i = 0; i < count; ++i) {
      parts[i] = {va, kBytes / count, 0, in->below(4), 0};
      if (in->chance(64)) urma_fuzz::patch(in, &parts[i], numbers());
      va += parts[i].len;
    }
    return count;
  }
  void say(Bytes* in) {
    if (peer_ == nullptr) return;
    const std::vector<int> descriptors = rig_->descriptors.some(in);
    const auto bytes = in->some(2 * sizeof(Reply));
    peer_->socket().send(bytes.data(), bytes.size(), descriptors);
  }

  Rig* rig_;
  urma_jfs_t* const jfs_;
  urma_target_jetty_t* const queue_;
  urma_target_seg_t* const segment_;
  std::unique_ptr<Connected> peer_;
  int pending_ = 0;
};

}  // namespace
}  // namespace urma::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool entered = (urma_fuzz::start(), true);
  urma_fuzz::Bytes in(data, size);
  urma::shm::Attack attack(&urma::shm::Rig::the());
  while (!in.empty()) attack.step(&in);
  attack.finish();
  return 0;
}
