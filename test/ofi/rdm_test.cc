/* SPDX-License-Identifier: MIT */

// Datagrams: how messages find their receives, and what arrives.

#include "test/ofi/rdm.h"

#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "urma_ext.h"

namespace urma_test {
namespace {

constexpr uint64_t kTag = 0x123456789abcdef0;

class RdmTest : public ProcessTest {
 protected:
  void SetUp() override {
    a_.enable();
    b_.enable();
    to_b_ = a_.insert(b_.name());
    to_a_ = b_.insert(a_.name());
  }

  Outcome at_a() { return next({&a_, &b_}); }
  Outcome at_b() { return next({&b_, &a_}); }

  // Until b has taken in everything that a has sent.
  void let_arrive() {
    ASSERT_EQ(fi_inject(a_.ep, "", 0, to_b_), 0);
    ASSERT_EQ(fi_recv(b_.ep, nullptr, 0, nullptr, FI_ADDR_UNSPEC, &to_b_), 0);
    EXPECT_EQ(at_b().entry.op_context, &to_b_);
  }

  void tsend(const std::vector<char>& bytes, uint64_t tag, void* context = nullptr) {
    ASSERT_EQ(fi_tsend(a_.ep, bytes.data(), bytes.size(), nullptr, to_b_, tag, context), 0);
  }

  void trecv(std::vector<char>& room, uint64_t tag, uint64_t ignore, void* context,
             fi_addr_t from = FI_ADDR_UNSPEC) {
    ASSERT_EQ(fi_trecv(b_.ep, room.data(), room.size(), nullptr, from, tag, ignore, context), 0);
  }

  ssize_t look(uint64_t tag, uint64_t flags, fi_context* context, std::vector<char>* room) {
    iovec piece = {room == nullptr ? nullptr : room->data(), room == nullptr ? 0 : room->size()};
    fi_msg_tagged message{};
    message.msg_iov = &piece;
    message.iov_count = room == nullptr ? 0 : 1;
    message.addr = FI_ADDR_UNSPEC;
    message.tag = tag;
    message.context = context;
    return fi_trecvmsg(b_.ep, &message, flags);
  }

  Node a_, b_;
  fi_addr_t to_a_ = FI_ADDR_NOTAVAIL, to_b_ = FI_ADDR_NOTAVAIL;
};

const size_t kSizes[] = {0, 1, 8, 40, 480, 513, 5000, 16384, 16385, 100000, 1 << 20};

TEST_F(RdmTest, MovesMessagesOfAllSizes) {
  for (const size_t size : kSizes) {
    const std::vector<char> sent = pattern(size, 1);
    std::vector<char> received(size);
    trecv(received, kTag, 0, &received);
    tsend(sent, kTag, &a_);
    const Outcome arrived = at_b(), left = at_a();
    EXPECT_EQ(arrived.entry.err, 0);
    EXPECT_EQ(arrived.entry.op_context, &received);
    EXPECT_EQ(arrived.entry.flags, FI_RECV | FI_TAGGED);
    EXPECT_EQ(arrived.entry.len, size);
    EXPECT_EQ(arrived.entry.tag, kTag);
    EXPECT_EQ(arrived.source, to_a_);
    EXPECT_EQ(left.entry.op_context, &a_);
    EXPECT_EQ(left.entry.flags, FI_SEND | FI_TAGGED);
    EXPECT_EQ(received, sent) << size;
  }
}

TEST_F(RdmTest, KeepsMessagesThatNobodyWaitsFor) {
  std::vector<std::vector<char>> sent;
  for (const size_t size : kSizes) {
    sent.push_back(pattern(size, 2));
    tsend(sent.back(), kTag);
  }
  let_arrive();
  for (const std::vector<char>& expected : sent) {
    std::vector<char> received(1 << 20);
    trecv(received, kTag, 0, nullptr);
    const Outcome arrived = at_b();
    EXPECT_EQ(arrived.entry.len, expected.size());
    received.resize(expected.size());
    EXPECT_EQ(received, expected);
  }
  for (size_t i = 0; i < std::size(kSizes); i++) EXPECT_EQ(at_a().entry.err, 0);
}

TEST_F(RdmTest, TheFirstReceiveThatFitsTakesAMessage) {
  std::vector<char> room(8);
  trecv(room, 5, 0, &room[0]);
  trecv(room, 6, 0, &room[1]);
  trecv(room, 0, ~uint64_t{0}, &room[2]);
  trecv(room, 6, 0, &room[3]);
  trecv(room, 0x10, 0xf, &room[4]);
  for (const uint64_t tag : {6, 6, 6, 0x1f, 5}) {
    ASSERT_EQ(fi_tinject(a_.ep, &tag, sizeof(tag), to_b_, tag), 0);
  }
  const std::pair<uint64_t, int> expected[] = {{6, 1}, {6, 2}, {6, 3}, {0x1f, 4}, {5, 0}};
  for (const auto& [tag, receive] : expected) {
    const Outcome arrived = at_b();
    EXPECT_EQ(arrived.entry.tag, tag);
    EXPECT_EQ(arrived.entry.op_context, &room[receive]);
  }
}

TEST_F(RdmTest, TagsDoNotConcernUntaggedMessages) {
  std::vector<char> room(8);
  trecv(room, 0, ~uint64_t{0}, &room[0]);
  ASSERT_EQ(fi_recv(b_.ep, &room[1], 1, nullptr, FI_ADDR_UNSPEC, &room[1]), 0);
  ASSERT_EQ(fi_inject(a_.ep, "u", 1, to_b_), 0);
  EXPECT_EQ(at_b().entry.op_context, &room[1]);
  ASSERT_EQ(fi_tinject(a_.ep, "t", 1, to_b_, 0), 0);
  EXPECT_EQ(at_b().entry.op_context, &room[0]);
  EXPECT_EQ(room[0], 't');
  EXPECT_EQ(room[1], 'u');
}

TEST_F(RdmTest, AReceiveNamesItsSource) {
  Node c;
  c.enable();
  const fi_addr_t c_to_b = c.insert(b_.name()), from_c = b_.insert(c.name());
  std::vector<char> room(8);
  trecv(room, kTag, 0, &room[0], from_c);
  trecv(room, kTag, 0, &room[1], to_a_);
  ASSERT_EQ(fi_tinject(a_.ep, "a", 1, to_b_, kTag), 0);
  Outcome arrived = at_b();
  EXPECT_EQ(arrived.entry.op_context, &room[1]);
  EXPECT_EQ(arrived.source, to_a_);
  ASSERT_EQ(fi_tinject(a_.ep, "a", 1, to_b_, kTag), 0);
  ASSERT_EQ(fi_tinject(c.ep, "c", 1, c_to_b, kTag), 0);
  arrived = next({&b_, &a_, &c});
  EXPECT_EQ(arrived.entry.op_context, &room[0]);
  EXPECT_EQ(arrived.source, from_c);
  trecv(room, kTag, 0, &room[2]);
  EXPECT_EQ(at_b().source, to_a_);
}

TEST_F(RdmTest, SendersOutsideTheVectorHaveNoNumber) {
  Node c;
  c.enable();
  ASSERT_EQ(fi_tinject(c.ep, "c", 1, c.insert(b_.name()), kTag), 0);
  std::vector<char> room(8);
  trecv(room, kTag, 0, nullptr);
  EXPECT_EQ(next({&b_, &c}).source, FI_ADDR_NOTAVAIL);
  const fi_addr_t from_c = b_.insert(c.name());
  ASSERT_EQ(fi_tinject(c.ep, "c", 1, 0, kTag), 0);
  trecv(room, kTag, 0, nullptr, from_c);
  EXPECT_EQ(next({&b_, &c}).source, from_c);
}

TEST_F(RdmTest, CutsOffWhatDoesNotFit) {
  for (const size_t size : {size_t{9}, size_t{5000}, size_t{100000}}) {
    const std::vector<char> sent = pattern(size, 3);
    std::vector<char> room(8);
    trecv(room, kTag, 0, &room);
    tsend(sent, kTag);
    const Outcome arrived = at_b();
    EXPECT_EQ(arrived.entry.err, FI_ETRUNC);
    EXPECT_EQ(arrived.entry.op_context, &room);
    EXPECT_EQ(arrived.entry.len, 8u);
    EXPECT_EQ(arrived.entry.olen, size - 8);
    EXPECT_EQ(std::memcmp(room.data(), sent.data(), 8), 0);
    EXPECT_EQ(at_a().entry.err, 0);
  }
  std::vector<char> none;
  trecv(none, kTag, 0, nullptr);
  tsend(pattern(100000, 3), kTag);
  EXPECT_EQ(at_b().entry.err, FI_ETRUNC);
  EXPECT_EQ(at_a().entry.err, 0);
}

TEST_F(RdmTest, CancelsAReceive) {
  std::vector<char> room(8);
  trecv(room, kTag, 0, &room[0]);
  trecv(room, kTag, 0, &room[1], to_a_);
  trecv(room, kTag, 0, &room[2]);
  for (const int which : {1, 0}) {
    EXPECT_EQ(fi_cancel(&b_.ep->fid, &room[which]), 0);
    const Outcome cancelled = at_b();
    EXPECT_EQ(cancelled.entry.err, FI_ECANCELED);
    EXPECT_EQ(cancelled.entry.op_context, &room[which]);
  }
  EXPECT_EQ(fi_cancel(&b_.ep->fid, &room[0]), -FI_ENOENT);
  ASSERT_EQ(fi_tinject(a_.ep, "x", 1, to_b_, kTag), 0);
  EXPECT_EQ(at_b().entry.op_context, &room[2]);
}

TEST_F(RdmTest, PeeksClaimsAndDiscards) {
  fi_context context;
  ASSERT_EQ(look(kTag, FI_PEEK, &context, nullptr), 0);
  Outcome seen = at_b();
  EXPECT_EQ(seen.entry.err, FI_ENOMSG);
  EXPECT_EQ(seen.entry.op_context, &context);
  for (const size_t size : {size_t{100}, size_t{100000}}) {
    const std::vector<char> first = pattern(size, 4), second = pattern(size, 5);
    tsend(first, kTag);
    tsend(second, kTag);
    tsend(first, kTag + 1);
    let_arrive();
    ASSERT_EQ(look(kTag, FI_PEEK, &context, nullptr), 0);
    seen = at_b();
    EXPECT_EQ(seen.entry.err, 0);
    EXPECT_EQ(seen.entry.len, size);
    EXPECT_EQ(seen.entry.tag, kTag);
    EXPECT_EQ(seen.source, to_a_);
    // A claimed message is out of the way of others.
    ASSERT_EQ(look(kTag, FI_PEEK | FI_CLAIM, &context, nullptr), 0);
    EXPECT_EQ(at_b().entry.len, size);
    std::vector<char> room(size);
    // fi_tagged(3): a NULL buffer says that no data was copied.
    ASSERT_EQ(look(kTag, FI_PEEK, &context, &room), 0);
    seen = at_b();
    EXPECT_EQ(seen.entry.len, size);
    EXPECT_EQ(seen.entry.buf, nullptr);
    trecv(room, kTag, 0, &room);
    EXPECT_EQ(at_b().entry.op_context, &room);
    EXPECT_EQ(room, second);
    ASSERT_EQ(look(kTag, FI_CLAIM, &context, &room), 0);
    EXPECT_EQ(at_b().entry.op_context, &context);
    EXPECT_EQ(room, first);
    ASSERT_EQ(look(kTag + 1, FI_PEEK | FI_DISCARD, &context, nullptr), 0);
    EXPECT_EQ(at_b().entry.len, size);
    ASSERT_EQ(look(kTag + 1, FI_PEEK, &context, nullptr), 0);
    EXPECT_EQ(at_b().entry.err, FI_ENOMSG);
    tsend(first, kTag);
    let_arrive();
    ASSERT_EQ(look(kTag, FI_PEEK | FI_CLAIM, &context, nullptr), 0);
    EXPECT_EQ(at_b().entry.err, 0);
    ASSERT_EQ(look(kTag, FI_CLAIM | FI_DISCARD, &context, nullptr), 0);
    EXPECT_EQ(at_b().entry.op_context, &context);
    for (int i = 0; i < 4; i++) EXPECT_EQ(at_a().entry.err, 0);
  }
}

TEST_F(RdmTest, CarriesDataBesideAMessage) {
  for (const size_t size : {size_t{8}, size_t{5000}, size_t{100000}}) {
    const std::vector<char> sent = pattern(size, 6);
    std::vector<char> room(size);
    trecv(room, kTag, 0, nullptr);
    ASSERT_EQ(fi_tsenddata(a_.ep, sent.data(), size, nullptr, 0xfeedface12345678, to_b_, kTag, &a_),
              0);
    const Outcome arrived = at_b();
    EXPECT_EQ(arrived.entry.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
    EXPECT_EQ(arrived.entry.data, 0xfeedface12345678);
    EXPECT_EQ(room, sent);
    EXPECT_EQ(at_a().entry.op_context, &a_);
  }
}

TEST_F(RdmTest, InjectsWithoutACompletion) {
  std::string text = "copied at once";
  const size_t most = a_.info->tx_attr->inject_size;
  std::vector<char> large = pattern(most, 7), room(most);
  const std::vector<char> expected = large;
  EXPECT_EQ(fi_inject(a_.ep, std::vector<char>(most + 1).data(), most + 1, to_b_), -FI_EMSGSIZE);
  ASSERT_EQ(fi_inject(a_.ep, large.data(), most, to_b_), 0);
  large.assign(most, 0);
  ASSERT_EQ(fi_injectdata(a_.ep, text.data(), text.size(), 7, to_b_), 0);
  text.assign(text.size(), '-');
  ASSERT_EQ(fi_recv(b_.ep, room.data(), most, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  EXPECT_EQ(at_b().entry.len, most);
  EXPECT_EQ(room, expected);
  ASSERT_EQ(fi_recv(b_.ep, room.data(), most, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  EXPECT_EQ(at_b().entry.data, 7u);
  EXPECT_EQ(std::string(room.data(), 14), "copied at once");
  a_.poll();
  EXPECT_TRUE(a_.done.empty());
}

TEST_F(RdmTest, GathersAndScatters) {
  for (const size_t size : {size_t{300}, size_t{6000}, size_t{60000}}) {
    const std::vector<char> sent = pattern(size, 8);
    std::vector<char> room(size);
    const iovec out[] = {{const_cast<char*>(sent.data()), size / 3},
                         {const_cast<char*>(sent.data()) + size / 3, size - size / 3}};
    const iovec in[] = {
        {room.data(), 10}, {nullptr, 0}, {room.data() + 10, 90}, {room.data() + 100, size - 100}};
    ASSERT_EQ(fi_trecvv(b_.ep, in, nullptr, 4, FI_ADDR_UNSPEC, kTag, 0, nullptr), 0);
    ASSERT_EQ(fi_tsendv(a_.ep, out, nullptr, 2, to_b_, kTag, nullptr), 0);
    EXPECT_EQ(at_b().entry.len, size);
    EXPECT_EQ(room, sent);
    EXPECT_EQ(at_a().entry.err, 0);
  }
}

TEST_F(RdmTest, ACompletionCanTellOfDelivery) {
  iovec piece = {const_cast<char*>("word"), 4};
  fi_msg_tagged message{};
  message.msg_iov = &piece;
  message.iov_count = 1;
  message.addr = to_b_;
  message.tag = kTag;
  message.context = &piece;
  ASSERT_EQ(fi_tsendmsg(a_.ep, &message, FI_DELIVERY_COMPLETE), 0);
  let_arrive();
  a_.poll();
  EXPECT_TRUE(a_.done.empty());
  std::vector<char> room(4);
  trecv(room, kTag, 0, nullptr);
  EXPECT_EQ(at_a().entry.op_context, &piece);
  EXPECT_EQ(at_b().entry.len, 4u);
  message.context = &room;
  ASSERT_EQ(fi_tsendmsg(a_.ep, &message, FI_TRANSMIT_COMPLETE), 0);
  EXPECT_EQ(at_a().entry.op_context, &room);
}

TEST_F(RdmTest, AnInjectedMessageIsCopiedThoughDeliveryIsAwaited) {
  std::string text = "copied at once";
  iovec piece = {text.data(), text.size()};
  fi_msg_tagged message{};
  message.msg_iov = &piece;
  message.iov_count = 1;
  message.addr = to_b_;
  message.tag = kTag;
  message.context = &piece;
  ASSERT_EQ(fi_tsendmsg(a_.ep, &message, FI_INJECT | FI_DELIVERY_COMPLETE), 0);
  text.assign(text.size(), '-');
  std::vector<char> room(text.size());
  trecv(room, kTag, 0, nullptr);
  EXPECT_EQ(at_b().entry.len, room.size());
  EXPECT_EQ(std::string(room.begin(), room.end()), "copied at once");
  EXPECT_EQ(at_a().entry.op_context, &piece);
}

TEST_F(RdmTest, ReachesItself) {
  const fi_addr_t self = b_.insert(b_.name());
  for (const size_t size : kSizes) {
    const std::vector<char> sent = pattern(size, 9);
    std::vector<char> room(size);
    trecv(room, kTag, 0, &room, self);
    ASSERT_EQ(fi_tsend(b_.ep, sent.data(), size, nullptr, self, kTag, &b_), 0);
    for (int i = 0; i < 2; i++) EXPECT_EQ(at_b().entry.err, 0);
    EXPECT_EQ(room, sent);
  }
}

TEST_F(RdmTest, APeerThatDoesNotReadHoldsUpNobodyElse) {
  Node silent;
  silent.enable();
  const fi_addr_t to_silent = a_.insert(silent.name());
  const std::vector<char> bytes = pattern(20000, 1);
  for (const size_t size : {8, 5000, 20000}) {
    ssize_t result = 0;
    for (int i = 0; i < 2000 && result == 0; i++)
      result = fi_tsend(a_.ep, bytes.data(), size, nullptr, to_silent, kTag, &silent);
    EXPECT_TRUE(result == 0 || result == -FI_EAGAIN) << result;
  }
  for (int i = 0; i < 100; i++) {
    for (const size_t size : {8, 5000, 20000}) {
      std::vector<char> room(size);
      ASSERT_EQ(fi_tsend(a_.ep, bytes.data(), size, nullptr, to_b_, kTag, &a_), 0);
      trecv(room, kTag, 0, &room);
      EXPECT_EQ(at_b().entry.op_context, &room);
      while (at_a().entry.op_context != &a_) ASSERT_FALSE(HasFailure());
    }
  }
}

// More messages than either side has room for, some of them large.
TEST_F(RdmTest, ManyMessagesAreInFlight) {
  constexpr int kCount = 3000;
  constexpr size_t kRoom = 20000;
  std::vector<std::vector<char>> sent, received(kCount);
  for (int i = 0; i < kCount; i++) {
    sent.push_back(pattern(i % 11 == 0 ? kRoom : i % 600, i));
    received[i].resize(kRoom);
  }
  int next_receive = 0, next_send = 0, arrived = 0, left = 0;
  ASSERT_TRUE(until([&] {
    for (int i = 0; i < 7 && next_send < kCount; i++) {
      const std::vector<char>& bytes = sent[next_send];
      const ssize_t result = fi_tsend(a_.ep, bytes.data(), bytes.size(), nullptr, to_b_, next_send,
                                      &received[next_send]);
      if (result == -FI_EAGAIN) break;
      EXPECT_EQ(result, 0);
      next_send++;
    }
    if (next_send > 500 && next_receive < kCount) {
      // From the other end in pairs: tags decide.
      const int which = next_receive ^ 1;
      trecv(received[which], which, 0, &received[which]);
      next_receive++;
    }
    a_.poll();
    b_.poll();
    for (; !a_.done.empty(); a_.done.pop_front(), left++) EXPECT_EQ(a_.done.front().entry.err, 0);
    for (; !b_.done.empty(); b_.done.pop_front(), arrived++) {
      const fi_cq_err_entry& entry = b_.done.front().entry;
      EXPECT_EQ(entry.err, 0);
      static_cast<std::vector<char>*>(entry.op_context)->resize(entry.len);
    }
    return arrived == kCount && left == kCount;
  }));
  EXPECT_EQ(sent, received);
}

TEST_F(RdmTest, TwoThreadsUseOneEndpoint) {
  constexpr int kCount = 2000;
  std::atomic<bool> done{false};
  std::thread echo([&] {
    std::vector<char> room(20000);
    for (int i = 0; i < 2 * kCount; i++) {
      EXPECT_EQ(fi_trecv(b_.ep, room.data(), room.size(), nullptr, FI_ADDR_UNSPEC, 0, ~uint64_t{0},
                         &room),
                0);
      EXPECT_EQ(next({&b_}).entry.err, 0);
    }
    done = true;
  });
  const auto talk = [&](uint64_t tag) {
    const std::vector<char> bytes = pattern(20000, 1);
    for (int i = 0; i < kCount; i++) {
      const size_t size = i % 50 == 0 ? bytes.size() : 8;
      ssize_t result;
      while ((result = fi_tsend(a_.ep, bytes.data(), size, nullptr, to_b_, tag, nullptr)) ==
             -FI_EAGAIN)
        std::this_thread::yield();
      EXPECT_EQ(result, 0);
    }
  };
  std::thread first(talk, 1), second(talk, 2);
  int left = 0;
  fi_cq_tagged_entry entry;
  EXPECT_TRUE(until([&] {
    const ssize_t taken = fi_cq_read(a_.cq, &entry, 1);
    if (taken == 1) left++;
    return left == 2 * kCount && done;
  }));
  first.join();
  second.join();
  echo.join();
}

TEST_F(RdmTest, KnowsItsAddresses) {
  sockaddr_in6 name = b_.name(), found{};
  size_t size = sizeof(found);
  ASSERT_EQ(fi_av_lookup(a_.av, to_b_, &found, &size), 0);
  EXPECT_EQ(std::memcmp(&name, &found, sizeof(name)), 0);
  char text[100], again[100];
  size_t room = sizeof(text);
  EXPECT_EQ(std::string(fi_av_straddr(a_.av, &name, text, &room)).find("urma://"), 0u);
  EXPECT_EQ(room, std::strlen(text) + 1);
  fi_addr_t number = FI_ADDR_NOTAVAIL;
  EXPECT_EQ(fi_av_insertsvc(a_.av, text, nullptr, &number, 0, nullptr), 1);
  ASSERT_EQ(fi_av_lookup(a_.av, number, &found, &size), 0);
  room = sizeof(again);
  EXPECT_STREQ(fi_av_straddr(a_.av, &found, again, &room), text);
  ASSERT_EQ(fi_tinject(a_.ep, "x", 1, number, kTag), 0);
  EXPECT_EQ(fi_av_remove(a_.av, &number, 1, 0), 0);
  EXPECT_EQ(fi_av_remove(a_.av, &number, 1, 0), -FI_EINVAL);
  EXPECT_EQ(fi_av_lookup(a_.av, number, &found, &size), -FI_EINVAL);
  EXPECT_EQ(fi_tinject(a_.ep, "x", 1, number, kTag), -FI_EINVAL);
  name.sin6_family = AF_INET;
  EXPECT_EQ(fi_av_insert(a_.av, &name, 1, &number, 0, nullptr), 0);
  EXPECT_EQ(number, FI_ADDR_NOTAVAIL);
  EXPECT_EQ(fi_close(&a_.av->fid), -FI_EBUSY);
}

TEST_F(RdmTest, TellsWhichAddressesAreBad) {
  sockaddr_in6 names[3] = {b_.name(), b_.name(), b_.name()};
  names[1].sin6_family = AF_INET;
  fi_addr_t numbers[3] = {};
  int errors[3] = {-77, -77, -77};
  EXPECT_EQ(fi_av_insert(a_.av, names, 3, numbers, FI_SYNC_ERR, errors), 2);
  EXPECT_EQ(errors[0], 0);
  EXPECT_EQ(errors[1], FI_EINVAL);
  EXPECT_EQ(errors[2], 0);
  EXPECT_EQ(numbers[1], FI_ADDR_NOTAVAIL);
  ASSERT_EQ(fi_inject(a_.ep, "", 0, numbers[2]), 0);
  let_arrive();
  EXPECT_EQ(fi_av_insert(a_.av, names, 3, nullptr, FI_SYNC_ERR, nullptr), 2);
  EXPECT_EQ(fi_av_insertsvc(a_.av, "urma://::1/x", nullptr, nullptr, FI_SYNC_ERR, errors),
            -FI_EINVAL);
  EXPECT_EQ(errors[0], FI_EINVAL);
  EXPECT_EQ(fi_av_insertsvc(a_.av, "urma://::1/7", nullptr, nullptr, FI_SYNC_ERR, errors), 1);
  EXPECT_EQ(errors[0], 0);
}

TEST_F(RdmTest, TakesAddressesAsText) {
  Node c(0, FI_WAIT_NONE, FI_ADDR_STR);
  c.enable();
  char name[100];
  size_t size = sizeof(name), room = sizeof(name);
  ASSERT_EQ(fi_getname(&c.ep->fid, name, &size), 0);
  EXPECT_EQ(size, std::strlen(name) + 1);
  char other[100];
  const sockaddr_in6 b_name = b_.name();
  fi_av_straddr(b_.av, &b_name, other, &room);
  const std::string both = std::string(name) + '\0' + other;
  fi_addr_t numbers[2];
  EXPECT_EQ(fi_av_insert(c.av, both.c_str(), 2, numbers, 0, nullptr), 2);
  const char* pointers[] = {name, other};
  EXPECT_EQ(fi_av_insert(c.av, pointers, 2, nullptr, 0, nullptr), 2);
  ASSERT_EQ(fi_tinject(c.ep, "text", 4, numbers[1], kTag), 0);
  std::vector<char> bytes(4);
  trecv(bytes, kTag, 0, nullptr);
  EXPECT_EQ(next({&b_, &c}).entry.len, 4u);
}

TEST_F(RdmTest, TheDescriptorBecomesReadable) {
  Node c(0, FI_WAIT_FD);
  c.enable();
  const fi_addr_t to_c = a_.insert(c.name());
  int fd = -1;
  ASSERT_EQ(fi_control(&c.cq->fid, FI_GETWAIT, &fd), 0);
  std::vector<char> room(100000);
  for (const size_t size : {size_t{8}, room.size()}) {
    ASSERT_EQ(fi_trecv(c.ep, room.data(), size, nullptr, FI_ADDR_UNSPEC, kTag, 0, nullptr), 0);
    std::thread sender([&, size] {
      const std::vector<char> bytes = pattern(size, 1);
      EXPECT_EQ(fi_tsend(a_.ep, bytes.data(), size, nullptr, to_c, kTag, nullptr), 0);
      EXPECT_EQ(next({&a_}).entry.err, 0);
    });
    fi_cq_tagged_entry entry;
    while (fi_cq_read(c.cq, &entry, 1) == -FI_EAGAIN) {
      fid_t waiting = &c.cq->fid;
      pollfd readable = {fd, POLLIN, 0};
      if (fi_trywait(c.fabric, &waiting, 1) == 0) {
        EXPECT_EQ(poll(&readable, 1, 30000), 1);
      }
    }
    EXPECT_EQ(entry.len, size);
    sender.join();
  }
}

// A program that sleeps in one thread while others use the endpoint.
class SleeperTest : public RdmTest {
 protected:
  void SetUp() override {
    RdmTest::SetUp();
    c_.enable();
    to_c_ = a_.insert(c_.name());
    ASSERT_EQ(fi_control(&c_.cq->fid, FI_GETWAIT, &fd_), 0);
  }

  int try_wait() {
    fid_t waiting = &c_.cq->fid;
    return fi_trywait(c_.fabric, &waiting, 1);
  }

  bool readable(int milliseconds = 0) {
    pollfd readable = {fd_, POLLIN, 0};
    return poll(&readable, 1, milliseconds) == 1;
  }

  void fall_asleep() {
    ASSERT_TRUE(until([&] { return try_wait() == 0; }));
    ASSERT_FALSE(readable());
  }

  Node c_{0, FI_WAIT_FD};
  fi_addr_t to_c_ = FI_ADDR_NOTAVAIL;
  int fd_ = -1;
};

TEST_F(SleeperTest, ACompletionFromACallWakes) {
  std::vector<char> room(8);
  fall_asleep();
  ASSERT_EQ(fi_trecv(c_.ep, room.data(), 8, nullptr, FI_ADDR_UNSPEC, kTag, 0, &room), 0);
  ASSERT_EQ(fi_cancel(&c_.ep->fid, &room), 0);
  EXPECT_TRUE(readable());
  EXPECT_EQ(try_wait(), -FI_EAGAIN);
  EXPECT_TRUE(readable());
  EXPECT_EQ(next({&c_}).entry.err, FI_ECANCELED);
  fall_asleep();
}

TEST_F(SleeperTest, TheOneThatTakesTheEventWakesTheOthers) {
  std::vector<char> room(8);
  for (int i = 0; i < 2; i++)
    ASSERT_EQ(fi_trecv(c_.ep, room.data(), 8, nullptr, FI_ADDR_UNSPEC, kTag, 0, &room), 0);
  fall_asleep();
  for (int i = 0; i < 2; i++) ASSERT_EQ(fi_tinject(a_.ep, "x", 1, to_c_, kTag), 0);
  ASSERT_TRUE(until([&] { return try_wait() == -FI_EAGAIN; }));
  EXPECT_TRUE(readable());
  EXPECT_EQ(next({&c_, &a_}).entry.op_context, &room);
  EXPECT_TRUE(readable());
  EXPECT_EQ(next({&c_, &a_}).entry.op_context, &room);
  fall_asleep();
}

TEST_F(SleeperTest, LooksAfterPeersFromTimeToTime) {
  std::vector<char> room(8);
  const fi_addr_t from_a = c_.insert(a_.name());
  ASSERT_EQ(fi_trecv(c_.ep, room.data(), 8, nullptr, from_a, kTag, 0, &room), 0);
  // The first probe, while the peer is there. Its record may be there at once.
  const int result = try_wait();
  ASSERT_TRUE(result == 0 || result == -FI_EAGAIN) << result;
  fi_cq_tagged_entry entry;
  std::thread sleeper(
      [&] { EXPECT_EQ(fi_cq_sread(c_.cq, &entry, 1, nullptr, 30000), -FI_EAVAIL); });
  a_.close();
  sleeper.join();
  EXPECT_EQ(next({&c_}).entry.err, FI_ECONNRESET);
}

TEST_F(RdmTest, AnAddressThatWasInsertedTwiceKeepsANumber) {
  const fi_addr_t again = b_.insert(a_.name());
  std::vector<char> room(8);
  ASSERT_EQ(fi_av_remove(b_.av, &to_a_, 1, 0), 0);
  ASSERT_EQ(fi_tinject(a_.ep, "x", 1, to_b_, kTag), 0);
  trecv(room, kTag, 0, nullptr, again);
  EXPECT_EQ(at_b().source, again);
}

// Queues of this process: of sends, and of receives.
std::pair<int, int> count_queues() {
  std::vector<urma_ext_queue_t> queues(256);
  auto count = static_cast<uint32_t>(queues.size());
  EXPECT_EQ(urma_ext_query_queues(static_cast<uint32_t>(getpid()), queues.data(), &count),
            URMA_SUCCESS);
  queues.resize(count);
  const auto number_of = [&](urma_ext_queue_kind_t kind) {
    return static_cast<int>(std::count_if(queues.begin(), queues.end(),
                                          [=](const auto& queue) { return queue.kind == kind; }));
  };
  return {number_of(URMA_EXT_QUEUE_JFS), number_of(URMA_EXT_QUEUE_JFR)};
}

// The peers live on, and keep the queues that they have for this endpoint.
TEST_F(RdmTest, NothingIsKeptForARemovedAddress) {
  constexpr int kPeers = 5;
  std::deque<Node> peers(kPeers);
  std::vector<fi_addr_t> numbers;
  const std::vector<char> sent = pattern(100000, 1);
  const auto exchange = [&](Node& from, Node& to, fi_addr_t number) {
    std::vector<char> room(sent.size());
    ASSERT_EQ(fi_recv(to.ep, room.data(), room.size(), nullptr, FI_ADDR_UNSPEC, nullptr), 0);
    ASSERT_EQ(fi_send(from.ep, sent.data(), sent.size(), nullptr, number, nullptr), 0);
    EXPECT_EQ(next({&to, &from}).entry.err, 0);
    EXPECT_EQ(next({&from, &to}).entry.err, 0);
    EXPECT_EQ(room, sent);
  };
  for (Node& peer : peers) {
    peer.enable();
    numbers.push_back(a_.insert(peer.name()));
    exchange(a_, peer, numbers.back());
    exchange(peer, a_, peer.insert(a_.name()));
  }
  const auto [sends, receives] = count_queues();
  ASSERT_EQ(fi_av_remove(a_.av, numbers.data(), kPeers, 0), 0);
  const std::pair left(sends - kPeers, receives - kPeers);
  EXPECT_TRUE(until([&] {
    for (int i = 0; i < 1024; i++) a_.poll();
    for (Node& peer : peers) peer.poll();
    return count_queues() == left;
  }));
  exchange(a_, peers[0], a_.insert(peers[0].name()));
  exchange(peers[1], a_, 0);
}

TEST_F(RdmTest, AnEndpointCanBeEnabledAfterAFailure) {
  sockaddr_in6 name = a_.name();
  name.sin6_port = htons(777);
  Node holder(0, FI_WAIT_NONE, FI_SOCKADDR_IN6, &name),
      later(0, FI_WAIT_NONE, FI_SOCKADDR_IN6, &name);
  holder.enable();
  for (int i = 0; i < 2; i++) EXPECT_EQ(fi_enable(later.ep), -FI_EADDRINUSE);
  holder.close();
  later.enable();
  const fi_addr_t to_later = a_.insert(later.name());
  const std::vector<char> bytes = pattern(5000, 1);
  // More than the endpoint has receives, twice.
  for (int i = 0; i < 600; i++) {
    std::vector<char> room(5000);
    ASSERT_EQ(fi_tinject(a_.ep, bytes.data(), 5000, to_later, kTag), 0);
    ASSERT_EQ(fi_trecv(later.ep, room.data(), 5000, nullptr, FI_ADDR_UNSPEC, kTag, 0, nullptr), 0);
    ASSERT_EQ(next({&later, &a_}).entry.len, 5000u);
    ASSERT_EQ(room, bytes);
  }
}

TEST_F(RdmTest, OnlyReceivesAreCounted) {
  fid_cntr* cntr;
  Node c;
  ASSERT_EQ(fi_cntr_open(c.domain, nullptr, &cntr, nullptr), 0);
  ASSERT_EQ(fi_ep_bind(c.ep, &cntr->fid, FI_RECV), 0);
  c.enable();
  const fi_addr_t self = c.insert(c.name());
  fi_context context;
  fi_msg_tagged message{};
  message.addr = FI_ADDR_UNSPEC;
  message.tag = kTag;
  message.context = &context;
  ASSERT_EQ(fi_trecvmsg(c.ep, &message, FI_PEEK), 0);
  EXPECT_EQ(next({&c}).entry.err, FI_ENOMSG);
  ASSERT_EQ(fi_tinject(c.ep, "", 0, self, kTag), 0);
  EXPECT_TRUE(until([&] {
    EXPECT_EQ(fi_trecvmsg(c.ep, &message, FI_PEEK), 0);
    return next({&c}).entry.err == 0;
  }));
  EXPECT_EQ(fi_cntr_read(cntr), 0u);
  EXPECT_EQ(fi_cntr_readerr(cntr), 0u);
  ASSERT_EQ(fi_trecv(c.ep, nullptr, 0, nullptr, FI_ADDR_UNSPEC, kTag, 0, nullptr), 0);
  EXPECT_EQ(fi_cntr_wait(cntr, 1, 30000), 0);
  c.close();
  EXPECT_EQ(fi_close(&cntr->fid), 0);
}

TEST_F(RdmTest, CountsMessages) {
  Node c(FI_SELECTIVE_COMPLETION);
  fid_cntr* counters[2];
  for (fid_cntr*& cntr : counters) ASSERT_EQ(fi_cntr_open(c.domain, nullptr, &cntr, nullptr), 0);
  EXPECT_EQ(fi_ep_bind(c.ep, &counters[0]->fid, FI_READ), -FI_ENOSYS);
  ASSERT_EQ(fi_ep_bind(c.ep, &counters[0]->fid, FI_SEND), 0);
  ASSERT_EQ(fi_ep_bind(c.ep, &counters[1]->fid, FI_RECV), 0);
  c.enable();
  const fi_addr_t self = c.insert(c.name());
  std::vector<char> room(20000);
  const std::vector<char> bytes = pattern(room.size(), 1);
  for (const size_t size : {size_t{8}, size_t{6000}, room.size()}) {
    ASSERT_EQ(fi_tsend(c.ep, bytes.data(), size, nullptr, self, kTag, nullptr), 0);
    ASSERT_EQ(fi_trecv(c.ep, room.data(), size, nullptr, self, kTag, 0, nullptr), 0);
  }
  EXPECT_EQ(fi_cntr_wait(counters[1], 3, 30000), 0);
  EXPECT_EQ(fi_cntr_wait(counters[0], 3, 30000), 0);
  c.poll();
  EXPECT_TRUE(c.done.empty());
  c.close();
  for (fid_cntr* cntr : counters) EXPECT_EQ(fi_close(&cntr->fid), 0);
}

TEST_F(RdmTest, AnEndpointThatWasNeverEnabledTakesNoQueueAway) {
  Node c;
  fid_cntr* cntr;
  ASSERT_EQ(fi_cntr_open(c.domain, nullptr, &cntr, nullptr), 0);
  fid_ep* unused;
  ASSERT_EQ(fi_endpoint(c.domain, c.info, &unused, nullptr), 0);
  for (fid_ep* ep : {c.ep, unused}) {
    ASSERT_EQ(fi_ep_bind(ep, &cntr->fid, FI_RECV), 0);
  }
  ASSERT_EQ(fi_ep_bind(unused, &c.cq->fid, FI_TRANSMIT | FI_RECV), 0);
  c.enable();
  EXPECT_EQ(fi_close(&unused->fid), 0);
  const fi_addr_t self = c.insert(c.name());
  ASSERT_EQ(fi_trecv(c.ep, nullptr, 0, nullptr, FI_ADDR_UNSPEC, kTag, 0, nullptr), 0);
  ASSERT_EQ(fi_tinject(c.ep, "", 0, self, kTag), 0);
  EXPECT_EQ(fi_cntr_wait(cntr, 1, 30000), 0);
  c.close();
  EXPECT_EQ(fi_close(&cntr->fid), 0);
}

// fi_cq(3): a count of 0 drives progress.
TEST_F(RdmTest, ReadingNothingMakesProgress) {
  const std::vector<char> sent = pattern(100000, 9);
  std::vector<char> received(sent.size());
  tsend({'1'}, 1);
  EXPECT_EQ(at_a().entry.err, 0);
  // Complete at once, and left unread.
  tsend({'2'}, 2);
  tsend(sent, kTag);
  trecv(received, kTag, 0, &received);
  EXPECT_TRUE(until([&] {
    EXPECT_EQ(fi_cq_read(a_.cq, nullptr, 0), -FI_EAGAIN);
    b_.poll();
    return !b_.done.empty();
  }));
  EXPECT_EQ(received, sent);
  for (int i = 0; i < 2; i++) EXPECT_EQ(at_a().entry.err, 0);
}

TEST_F(RdmTest, NothingSentIsLostByClosing) {
  const std::vector<char> bytes = pattern(5000, 1);
  for (int i = 0; i < 40; i++) ASSERT_EQ(fi_tinject(a_.ep, bytes.data(), i * 100, to_b_, i), 0);
  std::thread closing([&] { a_.close(); });
  for (int i = 0; i < 40; i++) {
    std::vector<char> room(5000);
    trecv(room, i, 0, nullptr);
    EXPECT_EQ(next({&b_}).entry.len, static_cast<size_t>(i) * 100);
  }
  closing.join();
}

}  // namespace
}  // namespace urma_test
