/* SPDX-License-Identifier: MIT */

// Datagrams: peers that break the rules, or leave.

#include <netinet/in.h>

#include <cstddef>
#include <cstring>

#include "ofi/rdm_frame.h"
#include "ofi/rdm_peer.h"
#include "test/ofi/rdm.h"
#include "urma_api.h"

namespace urma_test {
namespace {

using urma_fi::Frame;
using urma_fi::FrameHead;
using urma_fi::FrameKind;
using urma_fi::GrantBody;
using urma_fi::ProbeBody;
using urma_fi::RequestBody;

constexpr uint64_t kTag = 77;

// A jetty that says what it likes.
class Stranger {
 public:
  Stranger() {
    context_ = urma_create_context(urma_get_device_by_name(const_cast<char*>("urma_shm0")), 0);
    urma_jfc_cfg_t jfc{};
    jfc.depth = 64;
    jfc_ = urma_create_jfc(context_, &jfc);
    urma_jfr_cfg_t jfr{};
    jfr.depth = 16;
    jfr.trans_mode = URMA_TM_RM;
    jfr.max_sge = 1;
    jfr.jfc = jfc_;
    jfr_ = urma_create_jfr(context_, &jfr);
    urma_jetty_cfg_t cfg{};
    cfg.flag.bs.share_jfr = URMA_SHARE_JFR;
    cfg.shared.jfr = jfr_;
    cfg.jfs_cfg.depth = 64;
    cfg.jfs_cfg.trans_mode = URMA_TM_RM;
    cfg.jfs_cfg.max_sge = 1;
    cfg.jfs_cfg.rnr_retry = URMA_TYPICAL_RNR_RETRY;
    cfg.jfs_cfg.err_timeout = URMA_TYPICAL_ERR_TIMEOUT;
    cfg.jfs_cfg.jfc = jfc_;
    jetty_ = urma_create_jetty(context_, &cfg);
    EXPECT_NE(jetty_, nullptr);
    urma_seg_cfg_t seg{};
    seg.va = reinterpret_cast<uintptr_t>(room_);
    seg.len = sizeof(room_);
    seg.flag.bs.access = URMA_ACCESS_LOCAL_ONLY;
    segment_ = urma_register_seg(context_, &seg);
    for (uint64_t i = 0; i < 16; i++) post_receive(i);
  }

  ~Stranger() {
    leave();
    for (urma_target_jetty_t* target : targets_) urma_unimport_jetty(target);
    urma_delete_jfr(jfr_);
    urma_delete_jfc(jfc_);
    urma_unregister_seg(segment_);
    EXPECT_EQ(urma_delete_context(context_), URMA_SUCCESS);
  }

  void leave() {
    if (jetty_ != nullptr) urma_delete_jetty(jetty_);
    jetty_ = nullptr;
  }

  sockaddr_in6 name() const {
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(static_cast<uint16_t>(jetty_->jetty_id.id));
    std::memcpy(&name.sin6_addr, jetty_->jetty_id.eid.raw, URMA_EID_SIZE);
    return name;
  }

  urma_target_jetty_t* reach(const sockaddr_in6& name) {
    urma_rjetty_t remote{};
    std::memcpy(remote.jetty_id.eid.raw, &name.sin6_addr, URMA_EID_SIZE);
    remote.jetty_id.id = ntohs(name.sin6_port);
    remote.type = URMA_JETTY;
    return import(remote, nullptr);
  }

  urma_target_jetty_t* reach_lane(const urma_eid_t& eid, const GrantBody& grant) {
    urma_rjetty_t remote{};
    remote.jetty_id.eid = eid;
    remote.jetty_id.id = grant.lane;
    remote.type = URMA_JFR;
    remote.flag.bs.token_policy = URMA_TOKEN_PLAIN_TEXT;
    urma_token_t token = {grant.token};
    return import(remote, &token);
  }

  void send(urma_target_jetty_t* target, const std::string& bytes, uint64_t beside = kTag,
            urma_opcode_t opcode = URMA_OPC_SEND_IMM) {
    EXPECT_EQ(post(target, bytes, beside, opcode), URMA_SUCCESS);
  }

  // URMA_ENOMEM: the queue is full.
  urma_status_t post(urma_target_jetty_t* target, const std::string& bytes, uint64_t beside,
                     urma_opcode_t opcode) {
    urma_sge_t piece{};
    piece.addr = reinterpret_cast<uintptr_t>(bytes.data());
    piece.len = static_cast<uint32_t>(bytes.size());
    urma_jfs_wr_t request{};
    request.opcode = opcode;
    request.flag.bs.inline_flag = 1;
    request.tjetty = target;
    request.send.src = {&piece, 1};
    request.send.imm_data = beside;
    urma_jfs_wr_t* bad = nullptr;
    return urma_post_jetty_send_wr(jetty_, &request, &bad);
  }

  // Sends a frame, as from this jetty.
  void tell(urma_target_jetty_t* target, std::string frame) {
    EXPECT_EQ(tell_as(jetty_->jetty_id.id, target, std::move(frame)), URMA_SUCCESS);
  }

  // Sends a frame in the name of another. URMA_ENOMEM: the queue is full.
  urma_status_t tell_as(uint32_t id, urma_target_jetty_t* target, std::string frame) {
    std::memcpy(&frame[offsetof(FrameHead, incarnation)], &incarnation_, sizeof(incarnation_));
    std::memcpy(&frame[offsetof(FrameHead, id)], &id, sizeof(id));
    return post(target, frame, kTag, URMA_OPC_SEND_IMM);
  }

  void set_incarnation(uint16_t incarnation) { incarnation_ = incarnation; }

  bool has_frame() {
    urma_cr_t record{};
    while (urma_poll_jfc(jfc_, 1, &record) == 1)
      if (record.flag.bs.s_r == 1) return true;
    return false;
  }

  // The next frame that arrives here, while the node makes progress. It may ask for a sign of life
  // at any time.
  Frame next_frame(Node* node, FrameKind passed_over = FrameKind::kProbe) {
    Frame frame{};
    EXPECT_TRUE(until([&] {
      node->poll();
      urma_cr_t record{};
      if (urma_poll_jfc(jfc_, 1, &record) != 1 || record.flag.bs.s_r != 1) return false;
      EXPECT_TRUE(urma_fi::read_frame(room_[record.user_ctx], record.completion_len, &frame));
      post_receive(record.user_ctx);
      return frame.kind != passed_over;
    }));
    return frame;
  }

 private:
  void post_receive(uint64_t i) {
    EXPECT_EQ(urma_recv(jfr_, segment_, reinterpret_cast<uintptr_t>(room_[i]), sizeof(room_[i]), i),
              URMA_SUCCESS);
  }

  urma_target_jetty_t* import(urma_rjetty_t remote, urma_token_t* token) {
    remote.trans_mode = URMA_TM_RM;
    targets_.push_back(urma_import_jetty(context_, &remote, token));
    EXPECT_NE(targets_.back(), nullptr);
    return targets_.back();
  }

  uint16_t incarnation_ = 1;
  urma_context_t* context_;
  urma_jfc_t* jfc_;
  urma_jfr_t* jfr_;
  urma_jetty_t* jetty_;
  urma_target_seg_t* segment_;
  std::vector<urma_target_jetty_t*> targets_;
  alignas(8) char room_[16][256];
};

template <typename Body>
std::string frame_of(FrameKind kind, const Body& body, uint8_t flags = urma_fi::kTagged) {
  char head[urma_fi::kMaxHead];
  const size_t size = urma_fi::write_head(head, kind, flags, {}, 0);
  return std::string(head, size) + std::string(reinterpret_cast<const char*>(&body), sizeof(body));
}

std::string frame_with(FrameKind kind, const std::string& payload) {
  char head[urma_fi::kMaxHead];
  const size_t size = urma_fi::write_head(head, kind, urma_fi::kTagged, {}, 0);
  return std::string(head, size) + payload;
}

class StrangerTest : public ProcessTest {
 protected:
  void SetUp() override {
    node_.enable();
    to_node_ = stranger_.reach(node_.name());
    to_stranger_ = node_.insert(stranger_.name());
  }

  Outcome at_node() { return next({&node_}); }

  void trecv(std::vector<char>& room) {
    ASSERT_EQ(fi_trecv(node_.ep, room.data(), room.size(), nullptr, FI_ADDR_UNSPEC, kTag, 0, &room),
              0);
  }

  // Announces a message of that length for a posted receive. Returns the grant.
  GrantBody ask(std::vector<char>& room, uint64_t length) {
    trecv(room);
    stranger_.tell(to_node_, frame_of(FrameKind::kRequest, RequestBody{length, 4711}));
    const Frame frame = stranger_.next_frame(&node_);
    EXPECT_EQ(frame.kind, FrameKind::kGrant);
    EXPECT_EQ(frame.grant.id, 4711u);
    return frame.grant;
  }

  urma_eid_t eid() const {
    urma_eid_t eid;
    const sockaddr_in6 name = node_.name();
    std::memcpy(eid.raw, &name.sin6_addr, URMA_EID_SIZE);
    return eid;
  }

  Node node_;  // before the stranger: it starts the library
  Stranger stranger_;
  urma_target_jetty_t* to_node_ = nullptr;
  fi_addr_t to_stranger_ = FI_ADDR_NOTAVAIL;
};

TEST_F(StrangerTest, DropsWhatIsNoFrame) {
  stranger_.send(to_node_, frame_with(FrameKind::kEager, "x"), 0, URMA_OPC_SEND);
  stranger_.send(to_node_, "");
  stranger_.send(to_node_, "short");
  stranger_.send(to_node_, std::string(16, '\xff'));
  stranger_.tell(to_node_, frame_with(FrameKind::kProbe, "x"));
  stranger_.tell(to_node_, frame_with(FrameKind::kRequest, "too shrt"));
  stranger_.tell(to_node_, frame_with(static_cast<FrameKind>(0), "x"));
  stranger_.tell(to_node_, frame_with(static_cast<FrameKind>(9), "x"));
  std::string no_data = frame_with(FrameKind::kEager, "");
  no_data[1] |= urma_fi::kHasData;
  stranger_.tell(to_node_, no_data);
  for (const uint64_t id : {uint64_t{0}, uint64_t{1} << 32, ~uint64_t{0}})
    stranger_.tell(to_node_, frame_of(FrameKind::kGrant, GrantBody{id, 1, 1, 1, 1}));
  stranger_.tell(to_node_, frame_with(FrameKind::kEager, "good"));
  std::vector<char> room(8);
  // Of any tag: it would take any of the above.
  ASSERT_EQ(
      fi_trecv(node_.ep, room.data(), room.size(), nullptr, FI_ADDR_UNSPEC, 0, ~uint64_t{0}, &room),
      0);
  const Outcome arrived = at_node();
  EXPECT_EQ(arrived.entry.len, 4u);
  EXPECT_EQ(arrived.source, to_stranger_);
  EXPECT_EQ(std::string(room.data(), 4), "good");
}

TEST_F(StrangerTest, TakesGrantsOnlyForWhatItHasAnnounced) {
  const std::vector<char> bytes = pattern(100000, 1);
  ASSERT_EQ(fi_tsend(node_.ep, bytes.data(), bytes.size(), nullptr, to_stranger_, kTag, &node_), 0);
  const Frame request = stranger_.next_frame(&node_);
  ASSERT_EQ(request.kind, FrameKind::kRequest);
  EXPECT_EQ(request.request.length, bytes.size());
  const uint64_t id = request.request.id;
  Stranger other;
  urma_target_jetty_t* from_other = other.reach(node_.name());
  other.tell(from_other, frame_of(FrameKind::kGrant, GrantBody{id, 0, 0, 0, 0}));
  for (const GrantBody& wrong :
       {GrantBody{id, bytes.size() + 1, 1, 1, 1}, GrantBody{id ^ 1, 0, 0, 0, 0},
        GrantBody{id ^ (uint64_t{1} << 32), 0, 0, 0, 0}})
    stranger_.tell(to_node_, frame_of(FrameKind::kGrant, wrong));
  stranger_.tell(to_node_, frame_with(FrameKind::kEager, "x"));
  std::vector<char> room(1);
  trecv(room);
  EXPECT_EQ(at_node().entry.op_context, &room);
  stranger_.tell(to_node_,
                 frame_of(FrameKind::kGrant, GrantBody{id, 0, 0, 0, 0}, urma_fi::kRefused));
  const Outcome refused = at_node();
  EXPECT_EQ(refused.entry.err, FI_EIO);
  EXPECT_EQ(refused.entry.op_context, &node_);
}

TEST_F(StrangerTest, AGrantForAQueueThatDoesNotExistFailsTheSend) {
  const std::vector<char> bytes = pattern(100000, 1);
  ASSERT_EQ(fi_tsend(node_.ep, bytes.data(), bytes.size(), nullptr, to_stranger_, kTag, &node_), 0);
  const uint64_t id = stranger_.next_frame(&node_).request.id;
  stranger_.tell(to_node_, frame_of(FrameKind::kGrant, GrantBody{id, bytes.size(), 1, 1, 1}));
  const Outcome failed = at_node();
  EXPECT_NE(failed.entry.err, 0);
  EXPECT_EQ(failed.entry.op_context, &node_);
}

TEST_F(StrangerTest, ChecksTheDataOfALargeMessage) {
  std::vector<char> room(100);
  GrantBody grant = ask(room, 100);
  EXPECT_EQ(grant.accepted, 100u);
  urma_target_jetty_t* lane = stranger_.reach_lane(eid(), grant);
  const std::string data(100, 'd');
  stranger_.send(lane, data, grant.number);
  EXPECT_EQ(at_node().entry.len, 100u);
  EXPECT_EQ(std::string(room.begin(), room.end()), data);
  const std::pair<size_t, uint64_t> wrong[] = {{99, 0}, {101, 0}, {100, 1}, {0, 0}};
  for (const auto& [size, more] : wrong) {
    grant = ask(room, 100);
    lane = stranger_.reach_lane(eid(), grant);
    stranger_.send(lane, std::string(size, 'd'), grant.number + more);
    const Outcome failed = at_node();
    EXPECT_EQ(failed.entry.err, FI_EIO);
    EXPECT_EQ(failed.entry.op_context, &room);
  }
  grant = ask(room, 1000);
  EXPECT_EQ(grant.accepted, 100u);
  lane = stranger_.reach_lane(eid(), grant);
  stranger_.send(lane, data, grant.number);
  EXPECT_EQ(at_node().entry.err, FI_ETRUNC);
}

// Two messages are granted, and the first one's data never comes.
TEST_F(StrangerTest, ClosesALaneThatIsOutOfStep) {
  std::vector<char> rooms[2] = {std::vector<char>(100), std::vector<char>(100)};
  const std::string data(100, 'd');
  for (const bool returned : {false, true}) {
    const GrantBody first = ask(rooms[0], 100), second = ask(rooms[1], 100);
    EXPECT_EQ(first.lane, second.lane);
    if (returned) {
      stranger_.tell(to_node_, frame_of(FrameKind::kGrant, first, urma_fi::kReturned));
    } else {
      stranger_.send(stranger_.reach_lane(eid(), second), data, second.number);
    }
    for (int i = 0; i < 2; i++) EXPECT_EQ(at_node().entry.err, FI_EIO);
    const GrantBody third = ask(rooms[0], 100);
    EXPECT_NE(third.token, first.token);
    stranger_.send(stranger_.reach_lane(eid(), third), data, third.number);
    EXPECT_EQ(at_node().entry.err, 0);
    EXPECT_EQ(std::string(rooms[0].begin(), rooms[0].end()), data);
  }
}

TEST_F(StrangerTest, GivesBackAGrantForNothing) {
  stranger_.tell(to_node_, frame_of(FrameKind::kGrant, GrantBody{1, 100, 7, 1, 1}));
  const Frame frame = stranger_.next_frame(&node_);
  EXPECT_EQ(frame.kind, FrameKind::kGrant);
  EXPECT_EQ(frame.flags, urma_fi::kReturned);
  EXPECT_EQ(frame.grant.number, 7u);
}

TEST_F(StrangerTest, CancelsAReceiveThatWaitsForALane) {
  constexpr int kLaneDepth = 64;
  std::vector<char> room(100), last(100);
  for (int i = 0; i < kLaneDepth; i++) ask(room, 100);
  trecv(last);
  stranger_.tell(to_node_, frame_of(FrameKind::kRequest, RequestBody{100, 4712}));
  stranger_.tell(to_node_, frame_with(FrameKind::kEager, "x"));
  std::vector<char> after(1);
  trecv(after);
  EXPECT_EQ(at_node().entry.op_context, &after);
  ASSERT_EQ(fi_cancel(&node_.ep->fid, &last), 0);
  EXPECT_EQ(at_node().entry.err, FI_ECANCELED);
  const Frame refused = stranger_.next_frame(&node_);
  EXPECT_EQ(refused.grant.id, 4712u);
  EXPECT_EQ(refused.flags, urma_fi::kRefused);
}

TEST_F(StrangerTest, RefusesAMessageBeyondAllLimits) {
  std::vector<char> room(100);
  const GrantBody grant = ask(room, ~uint64_t{0});
  EXPECT_EQ(grant.accepted, 0u);
  EXPECT_EQ(at_node().entry.err, FI_EMSGSIZE);
}

TEST_F(StrangerTest, NoticesThatAPeerHasGone) {
  std::vector<char> room(100), other(100);
  ask(room, 100);
  ASSERT_EQ(fi_trecv(node_.ep, other.data(), 100, nullptr, to_stranger_, kTag + 1, 0, &other), 0);
  const std::vector<char> bytes = pattern(100000, 1);
  ASSERT_EQ(fi_tsend(node_.ep, bytes.data(), bytes.size(), nullptr, to_stranger_, kTag, &node_), 0);
  EXPECT_EQ(stranger_.next_frame(&node_).kind, FrameKind::kRequest);
  stranger_.leave();
  for (int i = 0; i < 3; i++) EXPECT_EQ(at_node().entry.err, FI_ECONNRESET);
  // Nothing is known of the next message either before it fails.
  ASSERT_EQ(fi_tsend(node_.ep, bytes.data(), 8, nullptr, to_stranger_, kTag, &node_), 0);
  EXPECT_EQ(at_node().entry.err, FI_ECONNRESET);
}

TEST_F(StrangerTest, AnotherEndpointAtTheSameAddressInheritsNothing) {
  stranger_.tell(to_node_, frame_of(FrameKind::kRequest, RequestBody{100, 4711}));
  std::vector<char> room(100), word(3);
  ASSERT_EQ(fi_trecv(node_.ep, room.data(), 100, nullptr, to_stranger_, kTag + 1, 0, &room), 0);
  const std::vector<char> bytes = pattern(100000, 1);
  ASSERT_EQ(fi_tsend(node_.ep, bytes.data(), bytes.size(), nullptr, to_stranger_, kTag, &node_), 0);
  const uint64_t id = stranger_.next_frame(&node_).request.id;
  stranger_.set_incarnation(2);
  stranger_.tell(to_node_, frame_with(FrameKind::kEager, "new"));
  for (int i = 0; i < 2; i++) EXPECT_EQ(at_node().entry.err, FI_ECONNRESET);
  // The message that was announced before is gone, and a late frame is dropped.
  trecv(word);
  EXPECT_EQ(at_node().entry.len, 3u);
  EXPECT_EQ(std::string(word.begin(), word.end()), "new");
  stranger_.set_incarnation(1);
  stranger_.tell(to_node_, frame_with(FrameKind::kEager, "old"));
  stranger_.tell(to_node_, frame_of(FrameKind::kGrant, GrantBody{id, 100000, 1, 1, 1}));
  stranger_.set_incarnation(2);
  stranger_.tell(to_node_, frame_with(FrameKind::kEager, "two"));
  trecv(word);
  EXPECT_EQ(at_node().entry.len, 3u);
  EXPECT_EQ(std::string(word.begin(), word.end()), "two");
}

TEST_F(StrangerTest, AnswersAProbeForTheEndpointBefore) {
  stranger_.tell(to_node_, frame_of(FrameKind::kProbe, ProbeBody{0}));
  stranger_.tell(to_node_, frame_of(FrameKind::kProbe, ProbeBody{4712}));
  const Frame answer = stranger_.next_frame(&node_, FrameKind::kEager);
  ASSERT_EQ(answer.kind, FrameKind::kProbe);
  EXPECT_EQ(answer.probe.known, 1u);
}

TEST_F(StrangerTest, AnswersOnlySoManyStrangers) {
  Stranger late, newcomer;
  urma_target_jetty_t* from_late = late.reach(node_.name());
  urma_target_jetty_t* from_newcomer = newcomer.reach(node_.name());
  const std::string question = frame_of(FrameKind::kProbe, ProbeBody{4712});
  std::vector<char> word(4);
  // Short messages take no answer.
  EXPECT_EQ(stranger_.tell_as(99999, to_node_, frame_with(FrameKind::kEager, "word")),
            URMA_SUCCESS);
  for (uint32_t i = 0; i < urma_fi::kMostAnswered; i++) {
    ASSERT_TRUE(until([&] {
      node_.poll();
      return stranger_.tell_as(100000 + i, to_node_, question) == URMA_SUCCESS;
    }));
  }
  trecv(word);
  EXPECT_EQ(at_node().entry.op_context, &word);
  stranger_.tell(to_node_, frame_with(FrameKind::kEager, "last"));
  trecv(word);
  EXPECT_EQ(at_node().entry.op_context, &word);
  late.tell(from_late, question);
  late.tell(from_late, frame_with(FrameKind::kEager, "late"));
  trecv(word);
  EXPECT_EQ(at_node().entry.op_context, &word);
  EXPECT_EQ(std::string(word.begin(), word.end()), "late");
  EXPECT_FALSE(late.has_frame());
  // Known peers are answered, also those that were strangers, which make room for others.
  stranger_.tell(to_node_, question);
  EXPECT_EQ(stranger_.next_frame(&node_, FrameKind::kEager).kind, FrameKind::kProbe);
  node_.insert(late.name());
  late.tell(from_late, question);
  EXPECT_EQ(late.next_frame(&node_, FrameKind::kEager).kind, FrameKind::kProbe);
  sockaddr_in6 first = stranger_.name();
  first.sin6_port = htons(100000 % 65536);
  first.sin6_flowinfo = htonl(100000 / 65536);
  node_.insert(first);
  newcomer.tell(from_newcomer, question);
  EXPECT_EQ(newcomer.next_frame(&node_, FrameKind::kEager).kind, FrameKind::kProbe);
}

TEST_F(StrangerTest, ReportsThatNobodyIsThere) {
  sockaddr_in6 nobody = stranger_.name();
  nobody.sin6_port = htons(999);
  const fi_addr_t number = node_.insert(nobody);
  ASSERT_EQ(fi_tsend(node_.ep, "x", 1, nullptr, number, kTag, &node_), 0);
  const Outcome failed = at_node();
  EXPECT_EQ(failed.entry.err, FI_ECONNRESET);
  EXPECT_EQ(failed.entry.op_context, &node_);
}

TEST_F(StrangerTest, ReportsFailuresOfInjectedMessagesWithAContext) {
  Node selective(FI_SELECTIVE_COMPLETION);
  selective.enable();
  sockaddr_in6 nobody = stranger_.name();
  nobody.sin6_port = htons(999);
  iovec piece = {const_cast<char*>("x"), 1};
  fi_msg_tagged message{};
  message.msg_iov = &piece;
  message.iov_count = 1;
  message.addr = selective.insert(nobody);
  message.context = &message;
  // Nobody would know this one by its context.
  ASSERT_EQ(fi_tinject(selective.ep, "x", 1, message.addr, kTag), 0);
  ASSERT_EQ(fi_tsendmsg(selective.ep, &message, FI_INJECT), 0);
  const Outcome failed = next({&selective});
  EXPECT_EQ(failed.entry.err, FI_ECONNRESET);
  EXPECT_EQ(failed.entry.op_context, &message);
}

}  // namespace
}  // namespace urma_test
