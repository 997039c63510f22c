// SPDX-License-Identifier: MIT
//
// What a peer cannot do, whatever it sends: take descriptors, memory or time from this process, or
// delay honest peers.
#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "test/process/kernel.h"
#include "test/unit/raw_peer.h"
#include "test/unit/shm_harness.h"
#include "urma/providers/shm/remote.h"

namespace urma::shm {
namespace {

using HostilePeerTest = urma_test::ProcessTest;

// More than fit in the space that one descriptor needs, and many.
const std::vector<size_t> kDescriptorCounts = {1, 2, 3, 100};

std::vector<int> copies_of(const Fd& descriptor, size_t count) {
  return std::vector<int>(count, descriptor.get());
}

Fd dev_null() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// A request that every owner answers.
Answer ask_for_nothing(RawPeer* peer) { return peer->ask(RawPeer::request(RequestType::kAtomic)); }

TEST_F(HostilePeerTest, DescriptorsWithTheGreetingAreClosed) {
  SKIP_UNLESS_SURPLUS_DESCRIPTORS_ARE_CLOSED();
  Node owner;
  const Fd null = dev_null();
  const auto before = open_descriptors();
  for (const size_t count : kDescriptorCounts) {
    SCOPED_TRACE(count);
    for (const RequestType first : {RequestType::kHello, RequestType::kProgress}) {
      RawPeer peer(owner);
      if (first == RequestType::kHello) {
        peer.greet(copies_of(null, count));
      } else {
        peer.ask(RawPeer::request(first), copies_of(null, count));
      }
    }
    EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
  }
}

// Shared memory has another layout there; user emulation lets such processes meet.
TEST_F(HostilePeerTest, PeerOfAnotherVersionOrArchitectureIsRefused) {
  Node owner;
  constexpr uint32_t kNumber = number_of(kProtocolVersion);
  for (const uint32_t machine : {EM_NONE, EM_386, EM_X86_64, EM_ARM, EM_AARCH64}) {
    for (const uint32_t number : {kNumber - 1, kNumber, kNumber + 1}) {
      const uint32_t version = number | machine << 16;
      EXPECT_EQ(RawPeer(owner).greet_as(version),
                version == kProtocolVersion ? Answer::kAccepted : Answer::kRefusedVersion)
          << number << " for " << machine;
    }
  }
}

TEST_F(HostilePeerTest, DescriptorsWithARequestAreClosed) {
  SKIP_UNLESS_SURPLUS_DESCRIPTORS_ARE_CLOSED();
  Node owner;
  const Fd null = dev_null();
  const auto before = open_descriptors();
  for (const size_t count : kDescriptorCounts) {
    for (uint32_t type = 0; type <= static_cast<uint32_t>(RequestType::kProgress) + 1; ++type) {
      SCOPED_TRACE(testing::Message() << count << " with a request of type " << type);
      RawPeer peer(owner);
      ASSERT_EQ(peer.greet(), Answer::kAccepted);
      const Request request = RawPeer::request(static_cast<RequestType>(type));
      // Some requests have no answer; once the second one is answered, or the connection is closed,
      // the first one has been read.
      EXPECT_TRUE(peer.send(&request, sizeof(request), copies_of(null, count)));
      ask_for_nothing(&peer);
    }
    EXPECT_TRUE(eventually([&] { return open_descriptors() == before; })) << count;
  }
}

TEST_F(HostilePeerTest, DescriptorsWithAMessageOfAnotherSizeAreClosed) {
  SKIP_UNLESS_SURPLUS_DESCRIPTORS_ARE_CLOSED();
  Node owner;
  const Fd null = dev_null();
  const auto before = open_descriptors();
  const std::vector<char> bytes(2 * sizeof(Request));
  for (const size_t size : {size_t{0}, size_t{1}, bytes.size()}) {
    for (const size_t count : kDescriptorCounts) {
      SCOPED_TRACE(testing::Message() << count << " with " << size << " bytes");
      RawPeer peer(owner);
      ASSERT_EQ(peer.greet(), Answer::kAccepted);
      EXPECT_TRUE(peer.send(bytes.data(), size, copies_of(null, count)));
      EXPECT_EQ(ask_for_nothing(&peer), Answer::kUnreachable);
    }
    EXPECT_TRUE(eventually([&] { return open_descriptors() == before; }));
  }
}

// Answers the request of an import, with `count` descriptors, and closes everything.
void answer_an_import(size_t with_greeting, size_t with_answer) {
  RawOwner owner;
  Node importer;
  const Fd null = dev_null();
  importer.import(owner.segment());
  RawSocket peer = owner.accept(copies_of(null, with_greeting));
  Request request;
  if (!peer.receive(&request, sizeof(request))) {
    // The importer has closed the connection, as it may.
    EXPECT_NE(with_greeting, 0u);
    return;
  }
  Reply granted = {};
  granted.number = request.number;
  granted.import_segment = {4096, 4096, kAllAccess, 0, 1, Reach::kMapped};
  EXPECT_TRUE(peer.send(&granted, sizeof(granted), copies_of(null, with_answer)));
  importer.settle();
}

TEST_F(HostilePeerTest, DescriptorsFromAnOwnerAreClosed) {
  SKIP_UNLESS_SURPLUS_DESCRIPTORS_ARE_CLOSED();
  answer_an_import(0, 0);
  const auto before = open_descriptors();
  for (const size_t count : kDescriptorCounts) {
    answer_an_import(count, 0);
    EXPECT_EQ(open_descriptors(), before) << count << " with the greeting's answer";
    answer_an_import(0, count);
    EXPECT_EQ(open_descriptors(), before) << count << " with another answer";
  }
}

// Segments that no process can have are not granted.
TEST_F(HostilePeerTest, ImpossibleSegmentsOfAnOwnerAreRefused) {
  const ImportSegmentAnswer lies[] = {
      {UINT64_MAX - 4095, 8192, kAllAccess, 0, 1, {}},
      {4096, UINT64_MAX - 4096, kAllAccess, 0, 1, {}},
      {4096, 0, kAllAccess, 0, 1, {}},
      {4096, 4096, kAllAccess, kMaxSegments, 1, {}},
  };
  for (const ImportSegmentAnswer& lie : lies) {
    RawOwner owner;
    Node importer;
    std::vector<char> source(64);
    urma_jfc_t* jfc = importer.make_jfc();
    urma_jfs_t* jfs = importer.make_jfs(jfc, 4);
    urma_target_seg_t* from = importer.add(source.data(), source.size());
    urma_target_jetty_t* to = importer.import(owner.queue());
    urma_target_seg_t* remote = importer.import(owner.segment());
    RawSocket peer = owner.accept();
    Request request;
    ASSERT_TRUE(peer.receive(&request, sizeof(request)));
    Reply granted = {};
    granted.number = request.number;
    granted.import_segment = lie;
    ASSERT_TRUE(peer.send(&granted, sizeof(granted)));
    importer.settle();
    const auto* anywhere = reinterpret_cast<const void*>(lie.base);
    ASSERT_EQ(importer.write(jfs, to, piece(from, source.data(), 8), piece(remote, anywhere, 8), 1),
              URMA_SUCCESS);
    // It asks once more, and gets the same answer.
    ASSERT_TRUE(peer.receive(&request, sizeof(request)));
    granted.number = request.number;
    ASSERT_TRUE(peer.send(&granted, sizeof(granted)));
    std::vector<urma_cr_t> records;
    EXPECT_TRUE(eventually([&] {
      importer.poll(jfc, &records);
      return !records.empty();
    }));
    EXPECT_EQ(records.at(0).status, URMA_CR_REM_OPERATION_ERR);
  }
}

// Otherwise an owner that claims a segment of a petabyte, then goes silent, could delay its
// importer for months.
TEST(Patience, ImportTimeoutIsBoundedByTheMemoryOfTheMachine) {
  EXPECT_EQ(moving_ns(uint64_t{1} << 60), moving_ns(UINT64_MAX));
  EXPECT_LT(moving_ns(UINT64_MAX), uint64_t{10} << 44);  // of 16 TiB
  EXPECT_GT(moving_ns(UINT64_MAX), moving_ns(4096));
  EXPECT_GT(moving_ns(4096), 0U);
}

TEST_F(HostilePeerTest, PeerThatReadsNoAnswersIsForgottenAfterItsEnd) {
  Node owner;
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  const Request request = RawPeer::request(RequestType::kAtomic);
  bool more = true;
  while (more) {
    more = false;
    while (peer.send(&request, sizeof(request))) more = true;
    owner.settle();
  }
  const auto before = open_descriptors();
  ASSERT_EQ(::shutdown(peer.fd(), SHUT_RDWR), 0);
  // Otherwise its end would wake the owner repeatedly.
  EXPECT_TRUE(eventually([&] { return open_descriptors() < before; }));
}

// The bytes of a message made by `{}`, in memory that held something else.
template <typename Message>
std::vector<unsigned char> bytes_of_fresh() {
  alignas(Message) std::array<unsigned char, sizeof(Message)> memory;
  memory.fill(0xff);
  // The compiler does not see that nobody has looked at them.
  asm volatile("" : : "r"(memory.data()) : "memory");
  new (memory.data()) Message{};
  asm volatile("" : : "r"(memory.data()) : "memory");
  return {memory.begin(), memory.end()};
}

// Some compilers zero only the first member of a union.
TEST(ControlMessages, BringNothingOfTheStack) {
  EXPECT_EQ(bytes_of_fresh<Request>(), std::vector<unsigned char>(sizeof(Request)));
  EXPECT_EQ(bytes_of_fresh<Reply>(), std::vector<unsigned char>(sizeof(Reply)));
}

// A sender of large messages that keeps the rules until told not to.
class LargeMessage {
 public:
  static constexpr uint32_t kPieces = 60, kPieceBytes = 1 << 20;

  explicit LargeMessage(Pair* pair)
      : ring_(std::make_unique<RingProducer>(kMinRingBytes)),
        peer_(std::make_unique<RawPeer>(pair->owner)) {
    EXPECT_EQ(peer_->greet(), Answer::kAccepted);
    EXPECT_EQ(peer_->open_ring(*pair->jfr, kRing, *ring_), Answer::kAccepted);
    ring_->begin(kPieces * sizeof(PayloadPiece));
    for (uint32_t i = 0; i < kPieces; ++i) {
      const PayloadPiece described = {reinterpret_cast<uint64_t>(bytes_.data()), kPieceBytes, 0};
      ring_->append(&described, sizeof(described));
    }
    ring_->publish(MessageKind::kSend, kByReference, kPieces * kPieceBytes, 0, 0);
  }

  MessageHeader& header() const { return layout().header(0); }
  void set_piece(uint32_t index, const PayloadPiece& piece) const {
    layout().copy_in(0, index * sizeof(piece), &piece, sizeof(piece));
  }
  void close_ring() const { EXPECT_TRUE(peer_->close_ring(kRing)); }
  void disconnect() { peer_.reset(); }

 private:
  static constexpr uint32_t kRing = 1;

  RingLayout layout() const { return RingLayout(ring_->memory().data(), ring_->bytes()); }

  std::vector<char> bytes_ = std::vector<char>(kPieceBytes, 'x');
  std::unique_ptr<RingProducer> ring_;
  std::unique_ptr<RawPeer> peer_;
};

struct Trick {
  const char* name;
  std::function<void(LargeMessage*)> play;
};

// In the middle of a large message, `trick` is played; a small message of another sender arrives.
void expect_no_hold_up(const Trick& trick) {
  SCOPED_TRACE(trick.name);
  constexpr uint32_t kRooms = 15;
  std::vector<char> room(LargeMessage::kPieces * LargeMessage::kPieceBytes / kRooms);
  Pair pair;
  urma_target_seg_t* segment = pair.owner.add(room.data(), room.size());
  const urma_sge_t part = piece(segment, room.data(), static_cast<uint32_t>(room.size()));
  for (uint64_t i = 0; i < 2; ++i) {
    pair.owner.receive(pair.jfr, std::vector<urma_sge_t>(kRooms, part), i);
  }
  LargeMessage message(&pair);
  pair.owner.poll(pair.receive_jfc, &pair.received);
  ASSERT_EQ(room[0], 'x');
  ASSERT_TRUE(pair.received.empty());

  trick.play(&message);
  pair.send(5);
  EXPECT_EQ(pair.wait_for_sent(seconds(2)).status, URMA_CR_SUCCESS);
  const auto arrived = [&] {
    pair.poll();
    return !pair.received.empty() && pair.received.back().status == URMA_CR_SUCCESS &&
           pair.received.back().completion_len == 8;
  };
  EXPECT_TRUE(eventually(arrived, seconds(2)));
}

TEST_F(HostilePeerTest, SenderThatChangesAMessageInFlightDelaysNoOther) {
  SKIP_UNLESS_THE_KERNEL_COPIES();
  const std::vector<Trick> tricks = {
      {"withdrawn", [](LargeMessage* message) { message->header().word = 0; }},
      {"of another kind", [](LargeMessage* message) { message->header().word ^= 0xFFULL << 32; }},
      {"a write", [](LargeMessage* message) { message->header().word ^= 2ULL << 32; }},
      {"no longer by reference",
       [](LargeMessage* message) { message->header().word ^= uint64_t{kByReference} << 40; }},
      {"shorter", [](LargeMessage* message) { message->header().length = 8; }},
      {"longer", [](LargeMessage* message) { message->header().length = UINT32_MAX; }},
      {"in fewer pieces", [](LargeMessage* message) { message->header().payload = 16; }},
      {"in unmapped memory",
       [](LargeMessage* message) {
         for (uint32_t i = 1; i < LargeMessage::kPieces; ++i) {
           message->set_piece(i, {8, LargeMessage::kPieceBytes, 0});
         }
       }},
      {"in pieces that are too long",
       [](LargeMessage* message) {
         for (uint32_t i = 1; i < LargeMessage::kPieces; ++i) {
           message->set_piece(i, {4096, ~uint32_t{0}, ~uint32_t{0}});
         }
       }},
      {"with its ring closed", [](LargeMessage* message) { message->close_ring(); }},
      {"with its sender gone", [](LargeMessage* message) { message->disconnect(); }},
  };
  for (const Trick& trick : tricks) expect_no_hold_up(trick);
}

struct Lie {
  const char* name;
  uint8_t kind;
  uint8_t flags;
  uint32_t length;
  uint32_t payload;
};

TEST_F(HostilePeerTest, MalformedMessageClosesOnlyItsRing) {
  const Lie lies[] = {{"no kind", 0, 0, 0, 0},
                      {"another kind", 5, 0, 8, 8},
                      {"the last kind", 255, kByReference, 8, sizeof(PayloadPiece)},
                      {"a longer send", 2, 0, 4096, 8},
                      {"a write with data", 3, 0, 8, 8},
                      {"a write by reference", 3, kByReference, 8, sizeof(PayloadPiece)},
                      {"a write of too much", 3, 0, kMaxMessageBytes + 1, 0}};
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    Pair pair;
    pair.post_receive(1);
    RawPeer peer(pair.owner);
    ASSERT_EQ(peer.greet(), Answer::kAccepted);
    RingProducer ring(kMinRingBytes);
    ASSERT_EQ(peer.open_ring(*pair.jfr, 1, ring), Answer::kAccepted);
    const std::vector<char> bytes(lie.payload, 'x');
    ring.begin(lie.payload);
    ring.append(bytes.data(), lie.payload);
    ring.publish(static_cast<MessageKind>(lie.kind), lie.flags, lie.length, 7, 0);
    const auto closed = [&] {
      pair.poll();
      return ring.closed() == URMA_CR_REM_OPERATION_ERR;
    };
    EXPECT_TRUE(eventually(closed));
    EXPECT_TRUE(pair.received.empty());
    pair.send(5);
    EXPECT_TRUE(pair.wait_for(1, 1));
    EXPECT_EQ(pair.received[0].status, URMA_CR_SUCCESS);
    EXPECT_EQ(pair.received[0].completion_len, 8u);
  }
}

// It may claim any written length; nothing here is read or written by it.
TEST_F(HostilePeerTest, LengthOfAWriteIsOnlyReported) {
  Pair pair;
  pair.owner.receive(pair.jfr, {piece(pair.registered, pair.target.data(), 8)}, 1);
  RawPeer peer(pair.owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  RingProducer ring(kMinRingBytes);
  ASSERT_EQ(peer.open_ring(*pair.jfr, 1, ring), Answer::kAccepted);
  ring.begin(0);
  ring.publish(MessageKind::kWriteImm, kWantsAnswer, kMaxMessageBytes, 7, 0);
  ASSERT_TRUE(pair.wait_for(0, 1));
  EXPECT_EQ(pair.received[0].opcode, URMA_CR_OPC_WRITE_WITH_IMM);
  EXPECT_EQ(pair.received[0].completion_len, kMaxMessageBytes);
  EXPECT_EQ(pair.target, std::vector<char>(pair.target.size(), 't'));
}

// Only a jetty has a peer, so no one can send to a JFR of mode RC directly.
TEST_F(HostilePeerTest, JfrOfModeRcRefusesRings) {
  Node owner;
  urma_jfr_t* jfr = owner.make_jfr(owner.make_jfc(), URMA_TM_RC);
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  RingProducer first(kMinRingBytes), second(kMinRingBytes);
  EXPECT_EQ(peer.open_ring(*jfr, 1, first, {0, kNoBell, 0}, {}, URMA_TM_RC), Answer::kWrongMode);
  EXPECT_EQ(peer.open_ring(*jfr, 2, second, {0, kNoBell, 0}, {}, URMA_TM_RM), Answer::kWrongMode);
}

size_t ring_mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t found = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("urma-ring") != std::string::npos) ++found;
  }
  return found;
}

TEST_F(HostilePeerTest, ClosedRingsDoNotAccumulate) {
  Node owner;
  urma_jfr_t* jfr = owner.make_jfr(owner.make_jfc());
  RawPeer peer(owner);
  ASSERT_EQ(peer.greet(), Answer::kAccepted);
  for (uint32_t number = 1; number <= 500; ++number) {
    RingProducer ring(kMinRingBytes);
    const Answer answer = peer.open_ring(*jfr, number, ring);
    ASSERT_TRUE(answer == Answer::kAccepted || (answer == Answer::kNoResources && number > 1));
    ring.begin(0);
    ring.publish(MessageKind::kSend, 0, 0, 0, 0);
    ASSERT_TRUE(peer.close_ring(number));
    if (number % 100 != 0) continue;
    // Answered after everything that came before.
    EXPECT_NE(ask_for_nothing(&peer), Answer::kUnreachable);
    EXPECT_LT(ring_mappings(), 50u) << "after " << number << " rings";
  }
}

TEST_F(HostilePeerTest, SilentOwnerFailsTheFirstRequestInTime) {
  constexpr milliseconds kBetweenRequests{100};
  RawOwner owner;
  Node importer;
  std::vector<char> memory(64);
  urma_jfc_t* jfc = importer.make_jfc();
  urma_jfs_t* jfs = importer.make_jfs(jfc, 16);
  urma_target_seg_t* local = importer.add(memory.data(), memory.size());
  urma_target_jetty_t* queue = importer.import(owner.queue());
  EXPECT_EQ(importer.send(jfs, queue, piece(local, memory.data(), 8), 1), URMA_SUCCESS);
  const RawSocket silent = owner.accept();
  auto next_request = Clock::now();
  std::vector<urma_cr_t> records;
  const auto ended = [&] {
    // Later requests do not extend the wait.
    if (Clock::now() >= next_request) {
      importer.import(owner.segment());
      next_request += kBetweenRequests;
    }
    importer.poll(jfc, &records);
    return !records.empty();
  };
  ASSERT_TRUE(eventually(ended));
  EXPECT_EQ(records[0].status, URMA_CR_ACK_TIMEOUT_ERR);
  EXPECT_EQ(records[0].user_ctx, 1u);
}

// Of the only ring of this process that is not answered yet.
int descriptor_of_ring() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (target.starts_with("/memfd:urma-ring")) return std::stoi(entry.path().filename());
  }
  return -1;
}

TEST_F(HostilePeerTest, ARingThatItsOwnerCanPunchHolesIntoIsGivenBack) {
  RawOwner owner;
  Node sender;
  std::vector<char> memory(64);
  urma_jfc_t* jfc = sender.make_jfc();
  urma_jfs_t* jfs = sender.make_jfs(jfc, 16);
  urma_target_seg_t* local = sender.add(memory.data(), memory.size());
  urma_target_jetty_t* queue = sender.import(owner.queue());
  ASSERT_EQ(sender.send(jfs, queue, piece(local, memory.data(), 8), 1), URMA_SUCCESS);
  RawSocket link = owner.accept();
  Request request;
  ASSERT_TRUE(link.receive(&request, sizeof(request)));
  ASSERT_EQ(request.type, RequestType::kOpenRing);
  ASSERT_EQ(::fcntl(descriptor_of_ring(), F_ADD_SEALS, F_SEAL_SEAL), 0);
  Reply accepted = {};
  accepted.number = request.number;
  accepted.open_ring.receiver_jfc.bell = kNoBell;
  ASSERT_TRUE(link.send(&accepted, sizeof(accepted)));
  ASSERT_TRUE(link.receive(&request, sizeof(request)));
  EXPECT_EQ(request.type, RequestType::kCloseRing);
  std::vector<urma_cr_t> records;
  EXPECT_TRUE(eventually([&] {
    sender.poll(jfc, &records);
    return !records.empty();
  }));
  EXPECT_EQ(records.at(0).status, URMA_CR_REM_OPERATION_ERR);
}

// A status that only this side gives, such as a marker of its states, or that does not exist, would
// mislead the program.
TEST_F(HostilePeerTest, ANonsensicalStatusOfAReceiverIsNotShown) {
  RawOwner owner;
  Node sender;
  std::vector<char> memory(64);
  urma_jfc_t* jfc = sender.make_jfc();
  urma_jfs_t* jfs = sender.make_jfs(jfc, 16);
  urma_target_seg_t* local = sender.add(memory.data(), memory.size());
  urma_target_jetty_t* queue = sender.import(owner.queue());
  const uint8_t given[] = {URMA_CR_WR_FLUSH_ERR_DONE,
                           URMA_CR_WR_SUSPEND_DONE,
                           URMA_CR_WR_UNHANDLED,
                           URMA_CR_LOC_ACCESS_ERR,
                           URMA_CR_LOC_DATA_POISON,
                           77,
                           0xff};
  for (uint64_t i = 0; i < std::size(given); ++i) {
    ASSERT_EQ(sender.send(jfs, queue, piece(local, memory.data(), 8), i), URMA_SUCCESS);
  }
  RawSocket link = owner.accept();
  Request request;
  ASSERT_TRUE(link.receive(&request, sizeof(request)));
  ASSERT_EQ(request.type, RequestType::kOpenRing);
  const SharedMemory ring =
      SharedMemory::adopt(Fd(::fcntl(descriptor_of_ring(), F_DUPFD_CLOEXEC, 0)),
                          RingLayout::total_bytes(kMinRingBytes), PeerMay::kWrite);
  Reply accepted = {};
  accepted.number = request.number;
  accepted.open_ring.receiver_jfc.bell = kNoBell;
  ASSERT_TRUE(link.send(&accepted, sizeof(accepted)));
  const RingLayout layout(ring.data(), kMinRingBytes);
  for (uint64_t i = 0; i < std::size(given); ++i) layout.answer(i).store(given[i]);
  layout.answers().consumed.store(std::size(given));
  std::vector<urma_cr_t> records;
  EXPECT_TRUE(eventually([&] {
    sender.poll(jfc, &records);
    return records.size() == std::size(given);
  }));
  for (uint64_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].status, URMA_CR_REM_OPERATION_ERR) << static_cast<int>(given[i]);
    EXPECT_EQ(records[i].user_ctx, i);
  }
}

TEST_F(HostilePeerTest, AtomicOnReadOnlyMemoryFailsAlone) {
  SKIP_UNLESS_THE_KERNEL_TELLS_WHAT_IS_WRITABLE();
  Pair pair;
  pair.connect();
  Pages pages(4096);
  urma_target_seg_t* registered = pair.owner.add(pages.data(), pages.bytes());
  pages.protect(PROT_READ);
  const urma_sge_t word = piece(pair.sender.import(registered->seg), pages.data(), 8);
  for (const urma_opcode_t opcode : {URMA_OPC_FADD, URMA_OPC_CAS}) {
    EXPECT_EQ(pair.sender.atomic(opcode, pair.jfs, pair.queue, pair.here(), word, 1), URMA_SUCCESS);
    EXPECT_NE(pair.wait_for_sent().status, URMA_CR_SUCCESS);
    EXPECT_EQ(pages.data()[0], 0);
    // The owner survives, and executes other requests.
    EXPECT_EQ(pair.sender.atomic(opcode, pair.jfs, pair.queue, pair.here(), pair.there(), 2),
              URMA_SUCCESS);
    EXPECT_EQ(pair.wait_for_sent().status, URMA_CR_SUCCESS);
  }
  pair.owner.end(registered);
}

}  // namespace
}  // namespace urma::shm
