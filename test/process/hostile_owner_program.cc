// SPDX-License-Identifier: MIT
//
// hostile_owner_program DESCRIPTOR: an owner of queues and segments that do not exist. It has a
// slot of the runtime directory and accepts connections. Its answers are valid, almost valid, or
// missing, at random. The seed comes over the channel behind the descriptor.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <list>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "segment/mapped_view.h"
#include "test/process/harness.h"
#include "test/process/hostile_orders.h"
#include "urma/base/message_socket.h"
#include "urma/core/process/id_file.h"
#include "urma/providers/shm/protocol.h"
#include "urma/providers/shm/ring.h"

namespace {

using urma::Attached;
using urma::Fd;
using urma::MessageSocket;
using urma::OwnFd;
using urma::PartDescription;
using urma::PeerMay;
using urma::SharedMemory;
using urma_test::Channel;
using urma_test::HostileReport;
using namespace urma::shm;  // NOLINT(build/namespaces)

constexpr uint64_t kPage = 4096;
constexpr uint64_t kFirstSilence = 10;  // the number of the answer

// One importer.
struct Guest {
  explicit Guest(OwnFd socket) : connection(std::move(socket)) {}
  MessageSocket connection;
  std::list<SharedMemory> lent;  // rings
  bool ignored = false;          // it gets no more answers
};

class Owner {
 public:
  explicit Owner(uint64_t seed)
      : random_(seed),
        dir_(::open(std::getenv("URMA_RUNTIME_DIR"), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
        slot_(
            ::openat(dir_.get(), urma_test::kHostileSlotFile, O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
        ids_({Fd(::dup(dir_.get())), std::getenv("URMA_RUNTIME_DIR")}, "tmp-777-1",
             urma_test::kHostileSlot),
        words_(SharedMemory::create("words", urma::SegmentTable::kSharedBytes, PeerMay::kRead, 0)),
        parts_(SharedMemory::create("parts", kPage, PeerMay::kWrite)),
        pages_(SharedMemory::create("pages", 2 * kPage, PeerMay::kWrite)) {
    // What it grants stays granted.
    auto* generations = static_cast<uint32_t*>(words_.data());
    generations[0] = generations[1] = 1;
    if (::flock(slot_.get(), LOCK_EX | LOCK_NB) != 0) throw std::runtime_error("the slot is taken");
    ids_.reserve(urma::IdKind::kJfr, 0, urma_test::kHostileQueue);
    listener_ = urma::listen_at(dir_.get(), urma_test::kHostileSocket);
  }

  const HostileReport& report() const { return report_; }
  int listener() const { return listener_.get(); }

  void turn() {
    OwnFd socket = OwnFd::accept(listener_.get());
    if (socket.valid()) guests_.emplace_back(std::move(socket));
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      const bool stays = serve(&*guest);
      guest = stays ? std::next(guest) : guests_.erase(guest);
    }
  }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }

  // False when the connection ends.
  bool serve(Guest* guest) {
    for (SharedMemory& ring : guest->lent) scribble(&ring);
    Request request;
    Attached fds;
    switch (guest->connection.receive(&request, sizeof(request), &fds)) {
      case MessageSocket::Received::kNothing:
        return true;
      case MessageSocket::Received::kMessage:
        return answer(guest, request, fds);
      default:
        return false;
    }
  }
  void scribble(SharedMemory* ring) {
    const RingLayout layout(ring->data(), kMinRingBytes);
    layout.answer(below(64)).store(static_cast<uint8_t>(random_()));
    layout.answers().consumed.store(below(4) == 0 ? random_() : below(70));
    if (below(64) == 0) layout.answers().closed.store(static_cast<uint32_t>(random_()));
    const uint64_t word = random_();
    std::memcpy(static_cast<char*>(ring->data()) + 8 * below(ring->bytes() / 8), &word, 8);
  }

  bool answer(Guest* guest, const Request& request, Attached& fds) {
    ++report_.attacks;
    Reply reply = {};
    reply.number = request.number;
    std::vector<int> descriptors;
    std::vector<Fd> short_lived;
    switch (request.type) {
      case RequestType::kHello:
        descriptors = {words_.fd()};
        if (below(8) != 0) break;
        short_lived.push_back(unsealed(urma::SegmentTable::kSharedBytes));
        descriptors = {short_lived.back().get()};
        break;
      case RequestType::kImportSegment:
        // What the request itself claims, mostly for addresses with nothing there.
        reply.import_segment = {request.import_segment.va,
                                request.import_segment.len,
                                0xf,
                                static_cast<uint32_t>(below(2)),
                                1,
                                Reach::kMapped};
        break;
      case RequestType::kMapSegment:
        reply.map_segment = {describe_parts(request, &descriptors, &short_lived), 0, 1, 0};
        break;
      case RequestType::kOpenRing:
        reply.open_ring.receiver_jfc.bell = urma::kNoBell;
        if (fds.size() != 1) break;
        guest->lent.push_back(SharedMemory::adopt(
            std::move(fds[0]), RingLayout::total_bytes(kMinRingBytes), PeerMay::kWrite));
        break;
      case RequestType::kCloseRing:
      case RequestType::kProgress:
        return true;
      default:
        break;
    }
    change(&reply);
    // Silence costs the peer its full timeout: it comes early, and rarely.
    const bool early = !silent_once_ && report_.attacks >= kFirstSilence;
    if (early || below(1000) == 0) silent_once_ = guest->ignored = true;
    if (guest->ignored) return true;
    if (below(24) == 0) return false;
    guest->connection.send(&reply, sizeof(reply), descriptors);
    // The same again, which answers no request; or a part of it, which ends the connection.
    if (below(8) == 0) guest->connection.send(&reply, sizeof(reply));
    if (below(32) == 0) guest->connection.send(&reply, 1 + below(sizeof(reply) - 1));
    // Behind the back of a process that has mapped it.
    for (const Fd& fd : short_lived) static_cast<void>(::ftruncate(fd.get(), 0) == 0);
    return true;
  }
  void change(Reply* reply) {
    for (uint64_t changes = below(8) == 0 ? 1 + below(3) : 0; changes > 0; --changes) {
      const uint64_t word = below(2) == 0 ? random_() : below(5);
      // Never the number: a reply with a wrong one answers nothing, which is the same as silence.
      std::memcpy(reinterpret_cast<char*>(reply) + 4 + 4 * below(sizeof(*reply) / 4 - 1), &word, 4);
    }
  }
  Fd unsealed(size_t bytes) {
    Fd fd(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
      throw std::runtime_error("no memory");
    return fd;
  }
  uint32_t describe_parts(const Request& request, std::vector<int>* descriptors,
                          std::vector<Fd>* short_lived) {
    descriptors->push_back(parts_.fd());
    if (below(2) == 0) {
      descriptors->push_back(pages_.fd());
    } else {
      short_lived->push_back(unsealed(2 * kPage));
      descriptors->push_back(short_lived->back().get());
    }
    auto* parts = static_cast<PartDescription*>(parts_.data());
    const auto count = static_cast<uint32_t>(1 + below(3));
    uint64_t va = request.import_segment.va;
    const uint64_t step = request.import_segment.len / count / kPage * kPage;
    for (uint32_t i = 0; i < count; ++i, va += step) {
      const uint64_t end = request.import_segment.va + request.import_segment.len;
      parts[i] = {va, i + 1 == count ? end - va : step, va - request.import_segment.va, 0, 0};
      if (below(8) == 0) parts[i].offset = random_();
      if (below(8) == 0) parts[i].len = random_();
      if (below(8) == 0) parts[i].file = static_cast<uint32_t>(below(4));
    }
    return count;
  }

  std::mt19937_64 random_;
  HostileReport report_ = {};
  bool silent_once_ = false;
  const Fd dir_;
  const Fd slot_;
  urma::core::IdFile ids_;
  const SharedMemory words_;
  const SharedMemory parts_;
  const SharedMemory pages_;
  OwnFd listener_;
  std::list<Guest> guests_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    Channel channel(std::atoi(argv[1]));
    Owner owner(channel.receive<uint64_t>());
    channel.sync();
    while (!channel.has_message()) owner.turn();
    channel.receive<char>();
    channel.send(owner.report());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ended by: %s\n", error.what());
    return 1;
  }
}
