// SPDX-License-Identifier: MIT
//
// hostile_program DESCRIPTOR: a peer that speaks the protocol between processes of a machine and
// breaks all its rules. Its orders come over the channel behind the descriptor; everything random
// follows from the seed.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "test/process/harness.h"
#include "test/process/hostile_orders.h"
#include "urma/base/message_socket.h"
#include "urma/providers/shm/protocol.h"
#include "urma/providers/shm/ring.h"
#include "urma/providers/shm/staging.h"

namespace {

using urma::Fd;
using urma::kByReference;
using urma::MessageKind;
using urma::OwnFd;
using urma_test::Channel;
using urma_test::HostileAim;
using urma_test::HostileOrder;
using urma_test::HostileReport;
using namespace urma::shm;  // NOLINT(build/namespaces)

class Attacker {
 public:
  explicit Attacker(const HostileAim& aim)
      : aim_(aim),
        random_(aim.seed),
        dir_(::open(std::getenv("URMA_RUNTIME_DIR"), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        socket_name_(std::to_string(aim.token_id >> 16) + ".shm"),
        words_(urma::SharedMemory::create("words", urma::SegmentTable::kSharedBytes,
                                          urma::PeerMay::kRead, 0)) {
    if (!dir_.valid()) throw std::runtime_error("no runtime directory");
  }

  const HostileReport& report() const { return report_; }
  void attack() {
    ++report_.attacks;
    if (socket_.get() < 0 || below(400) == 0) connect();
    switch (below(16)) {
      case 0:
        return send_garbage();
      case 1:
        return send_changed();
      case 2:
        return replay();
      case 3:
        return open_ring();
      case 4:
        return stage();
      case 5:
        return punch();
      case 6:
        return import();
      case 7:
        return read_answers();
      case 8:
      case 9:
        return publish();
      case 10:
      case 11:
        return forge();
      default:
        return scribble();
    }
  }
  void flood() {
    ++report_.attacks;
    if (socket_.get() < 0) connect();
    Request request = request_of(below(2) == 0 ? RequestType::kProgress : RequestType::kAtomic);
    for (int i = 0; i < 64; ++i) send(request);
    if (below(4) != 0) read_answers();
  }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }

  void connect() {
    socket_ = OwnFd();
    rings_.clear();
    urma::connect_to(dir_.get(), socket_name_.c_str(), &socket_);
    if (!socket_.valid() || below(8) == 0) return;
    Request hello = request_of(RequestType::kHello);
    hello.hello = {kProtocolMagic, kProtocolVersion, 1, 65535, 1, 0, 0};
    send(hello, {words_.fd()});
  }
  Request request_of(RequestType type) {
    Request request = {};
    request.type = type;
    request.number = static_cast<uint32_t>(random_());
    return request;
  }
  void send_bytes(const void* bytes, size_t size, const std::vector<int>& fds) {
    iovec part = {const_cast<void*>(bytes), size};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
      const size_t room = fds.size() * sizeof(int);
      header.msg_control = control;
      header.msg_controllen = CMSG_SPACE(room);
      cmsghdr* attached = CMSG_FIRSTHDR(&header);
      attached->cmsg_level = SOL_SOCKET;
      attached->cmsg_type = SCM_RIGHTS;
      attached->cmsg_len = CMSG_LEN(room);
      std::memcpy(CMSG_DATA(attached), fds.data(), room);
    }
    if (::sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
      socket_ = OwnFd();
    }
  }
  void send(const Request& request, const std::vector<int>& fds = {}) {
    sent_[below(sent_.size())] = request;
    send_bytes(&request, sizeof(request), fds);
  }
  // Descriptors that no one asked for, closed here at once. Memory of the right size that is not
  // sealed is truncated behind the victim's back.
  std::vector<Fd> some_descriptors() {
    std::vector<Fd> fds;
    for (uint64_t count = below(4); count > 0; --count) {
      int ends[2];
      switch (below(3)) {
        case 0:
          if (::pipe2(ends, O_CLOEXEC) != 0) break;
          fds.emplace_back(ends[0]);
          fds.emplace_back(ends[1]);
          break;
        case 1:
          fds.emplace_back(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
          if (::ftruncate(fds.back().get(), RingLayout::total_bytes(kMinRingBytes)) != 0) break;
          break;
        default:
          fds.emplace_back(::open("/dev/zero", O_RDWR | O_CLOEXEC));
      }
    }
    return fds;
  }
  void send_with_descriptors(const void* bytes, size_t size) {
    const std::vector<Fd> fds = some_descriptors();
    std::vector<int> numbers;
    for (const Fd& fd : fds) numbers.push_back(fd.get());
    send_bytes(bytes, size, numbers);
    // Fails for pipes, which does no harm.
    for (const Fd& fd : fds) static_cast<void>(::ftruncate(fd.get(), 0) == 0);
  }

  void send_garbage() {
    std::array<uint32_t, 64> bytes;
    for (uint32_t& word : bytes) word = static_cast<uint32_t>(random_());
    bytes[0] = static_cast<uint32_t>(below(14));
    const size_t sizes[] = {sizeof(Request), sizeof(Request), 0, 1, sizeof(Request) - 1, 200};
    send_with_descriptors(bytes.data(), sizes[below(std::size(sizes))]);
  }
  // A valid request except for one of its words.
  void send_changed() {
    Request request = sound_request();
    if (below(2) == 0) {
      const uint32_t word = static_cast<uint32_t>(below(2) == 0 ? random_() : below(70000));
      std::memcpy(reinterpret_cast<char*>(&request) + 4 * below(sizeof(request) / 4), &word, 4);
    }
    below(4) == 0 ? send_with_descriptors(&request, sizeof(request)) : send(request);
  }
  Request sound_request() {
    Request request = request_of(static_cast<RequestType>(1 + below(11)));
    switch (request.type) {
      case RequestType::kImportSegment:
      case RequestType::kMapSegment:
        request.import_segment = {aim_.eid, aim_.va, aim_.len, aim_.token_id, 0, 0, 0};
        break;
      case RequestType::kAtomic:
        // Of memory that was not granted: after and before the segment.
        request.atomic.va = aim_.va + (below(2) == 0 ? aim_.len : -uint64_t{8});
        request.atomic.bytes = 8;
        request.atomic.opcode = URMA_OPC_FADD;
        request.atomic.generation = static_cast<uint32_t>(below(4));
        request.atomic.index = static_cast<uint32_t>(below(4));
        request.atomic.operand[0] = ~0ULL;
        break;
      case RequestType::kCopySegment:
        request.copy_segment.va = aim_.va + aim_.len - below(2 * aim_.len);
        request.copy_segment.bytes = static_cast<uint32_t>(below(2 * aim_.len));
        request.copy_segment.generation = static_cast<uint32_t>(below(4));
        request.copy_segment.index = static_cast<uint32_t>(below(4));
        request.copy_segment.direction = static_cast<uint32_t>(below(3));
        break;
      case RequestType::kProbe:
        request.probe = {aim_.eid, aim_.queue, URMA_JFR, URMA_TM_RM, 0};
        break;
      default:
        break;
    }
    return request;
  }
  void replay() { send_bytes(&sent_[below(sent_.size())], sizeof(Request), {}); }
  void import() {
    Request request = request_of(RequestType::kImportSegment);
    request.import_segment = {aim_.eid, aim_.va, aim_.len, aim_.token_id, 0, 0, 0};
    send(request);
  }
  void read_answers() {
    Reply reply;
    while (socket_.valid() && ::recv(socket_.get(), &reply, sizeof(reply), MSG_DONTWAIT) > 0) {
      ++(reply.answer == urma::Answer::kAccepted ? report_.accepted : report_.refused);
    }
  }
  void stage() {
    const auto memory =
        urma::SharedMemory::create("staging", kStagingBytes, urma::PeerMay::kWrite, 0);
    send(request_of(RequestType::kStage), {memory.fd()});
  }
  void open_ring() {
    if (rings_.size() >= kMostRings) return;
    auto ring = std::make_unique<RingProducer>(kMinRingBytes);
    Request open = request_of(RequestType::kOpenRing);
    open.open_ring.target_eid = aim_.eid;
    open.open_ring.target_id = aim_.queue;
    open.open_ring.target_type = URMA_JFR;
    open.open_ring.trans_mode = URMA_TM_RM;
    open.open_ring.sender = {aim_.eid, 1, 7};
    open.open_ring.ring = static_cast<uint32_t>(random_());
    open.open_ring.ring_bytes = ring->bytes();
    open.open_ring.rnr_retry = static_cast<uint32_t>(below(8));
    open.open_ring.sender_jfc.bell = urma::kNoBell;
    send(open, {ring->memory().fd()});
    rings_.push_back(std::move(ring));
  }
  RingProducer* ring() { return rings_.empty() ? nullptr : rings_[below(rings_.size())].get(); }
  void scribble() {
    const RingProducer* ring = this->ring();
    if (ring == nullptr) return;
    auto* memory = static_cast<char*>(ring->memory().data());
    for (int i = 0; i < 16; ++i) {
      const uint64_t word = random_();
      std::memcpy(memory + 8 * below(ring->memory().bytes() / 8), &word, sizeof(word));
    }
  }
  // The memory keeps its length and loses its contents.
  void punch() {
    const RingProducer* ring = this->ring();
    if (ring == nullptr) return;
    static_cast<void>(::fallocate(ring->memory().fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                  0, static_cast<off_t>(ring->memory().bytes())) == 0);
  }
  void forge() {
    const RingProducer* ring = this->ring();
    if (ring == nullptr) return;
    const RingLayout layout(ring->memory().data(), ring->bytes());
    const uint64_t position = layout.answers().consumed.load() + below(16);
    MessageHeader& header = layout.header(position);
    const auto payload = static_cast<uint32_t>(below(2048));
    header.length = below(2) == 0 ? payload : static_cast<uint32_t>(random_());
    header.payload = payload;
    header.word.store(first_word(position, static_cast<MessageKind>(below(6)),
                                 static_cast<uint8_t>(below(8)), slots_for(payload)));
  }
  // Valid in the ring, with a list of arbitrary addresses.
  void publish() {
    RingProducer* ring = this->ring();
    if (ring == nullptr) return;
    uint32_t cookie;
    uint8_t status;
    while (ring->reap(&cookie, &status)) continue;
    std::array<PayloadPiece, 8> pieces;
    uint32_t length = 0;
    for (PayloadPiece& piece : pieces) {
      piece = {below(2) == 0 ? random_() : reinterpret_cast<uint64_t>(words_.data()),
               static_cast<uint32_t>(below(512)), 0};
      length += piece.len;
    }
    if (!ring->room_for(sizeof(pieces))) return;
    ring->begin(sizeof(pieces));
    ring->append(pieces.data(), sizeof(pieces));
    const bool by_reference = below(2) == 0;
    ring->publish(MessageKind::kSend, by_reference ? kByReference : 0,
                  by_reference ? length : sizeof(pieces), 0, 0);
  }

  static constexpr size_t kMostRings = 32;

  const HostileAim aim_;
  HostileReport report_ = {};
  std::mt19937_64 random_;
  const Fd dir_;
  const std::string socket_name_;
  const urma::SharedMemory words_;
  OwnFd socket_;
  std::array<Request, 16> sent_ = {};
  std::vector<std::unique_ptr<RingProducer>> rings_;
};

void obey(Channel* channel) {
  Attacker attacker(channel->receive<HostileAim>());
  for (auto order = channel->receive<HostileOrder>(); order != HostileOrder::kEnd;) {
    channel->send(order);
    while (order != HostileOrder::kRest && !channel->has_message()) {
      if (order == HostileOrder::kAttack) attacker.attack();
      if (order == HostileOrder::kFlood) attacker.flood();
    }
    order = channel->receive<HostileOrder>();
  }
  channel->send(attacker.report());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // It only takes the processor time that others leave: the test measures what it does to them, not
  // its presence.
  if (::setpriority(PRIO_PROCESS, 0, 10) != 0) return 2;
  try {
    Channel channel(std::atoi(argv[1]));
    obey(&channel);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ended by: %s\n", error.what());
    return 1;
  }
}
