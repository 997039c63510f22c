// SPDX-License-Identifier: MIT
#include "test/tools/perftest_raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace urma_test {
namespace {

constexpr uint32_t kSizeOfReport = 40;

[[noreturn]] void fail_with_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

RawChannel::RawChannel(int fd) : fd_(fd) {
  const auto limit = std::chrono::duration_cast<seconds>(patience(seconds(20)));
  const timeval timeout = {limit.count(), 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
  const int one = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

RawChannel::~RawChannel() {
  if (fd_ >= 0) ::close(fd_);
}

RawChannel RawChannel::connect(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail_with_errno("socket");
  RawChannel channel(fd);
  const sockaddr_in address = loopback(port);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fail_with_errno("connect");
  }
  return channel;
}

void RawChannel::send(const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  while (size > 0) {
    const ssize_t n = ::send(fd_, bytes, size, MSG_NOSIGNAL);
    if (n <= 0) fail_with_errno("send");
    bytes += n;
    size -= static_cast<size_t>(n);
  }
}

void RawChannel::receive(void* data, size_t size) {
  const ssize_t n = ::recv(fd_, data, size, MSG_WAITALL);
  if (n != static_cast<ssize_t>(size)) {
    throw std::runtime_error("the other side sent " + std::to_string(n) + " of " +
                             std::to_string(size) + " bytes");
  }
}

std::vector<uint8_t> RawChannel::sync_data(const void* data, size_t size) {
  send(data, size);
  std::vector<uint8_t> answer(size);
  receive(answer.data(), size);
  return answer;
}

std::vector<uint8_t> RawChannel::sync_blob(const void* data, uint32_t size) {
  uint32_t other = 0;
  send(&size, sizeof(size));
  receive(&other, sizeof(other));
  EXPECT_LT(other, 1u << 16);
  std::vector<uint8_t> padded(std::max(size, other));
  std::memcpy(padded.data(), data, size);
  std::vector<uint8_t> answer = sync_data(padded.data(), padded.size());
  answer.resize(other);
  return answer;
}

void RawChannel::sync_time(const std::string& tag) {
  const std::vector<uint8_t> answer = sync_data(tag.data(), tag.size());
  EXPECT_EQ(std::string(answer.begin(), answer.end()), tag);
}

RawListener::RawListener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof(address);
  if (fd_ < 0 || ::bind(fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(fd_, 4) != 0 ||
      ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    fail_with_errno("listen");
  }
  port_ = ntohs(address.sin_port);
}

RawListener::~RawListener() { ::close(fd_); }

RawChannel RawListener::accept() {
  const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) fail_with_errno("accept");
  return RawChannel(fd);
}

Config RawSide::config(const RawRun& run) {
  Config config;
  config.jetty = !run.simplex;
  config.receive_depth = 512;
  config.send_depth = 128;
  return config;
}

RawSide::RawSide(RawChannel channel, const RawRun& run)
    : run_(run), channel_(std::move(channel)), endpoint_(config(run)), memory_(1 << 20) {
  swap_config();
  local_seg_ = endpoint_.add(memory_.data(), memory_.size());
}

// Step (1). The numbers of three enumerations are in no description, so they are taken over.
void RawSide::swap_config() {
  RawBlock theirs;
  channel_.receive(theirs.data(), RawBlock::kBytes);
  EXPECT_EQ(theirs.get<uint8_t>(RawBlock::kAll), 0);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kAtomicType), 0u);
  EXPECT_EQ(theirs.get<uint8_t>(RawBlock::kUseJfce), 0);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kDuration), 5u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kJettys), 1u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kTokenPolicy), 0u);
  EXPECT_EQ(theirs.get<uint64_t>(RawBlock::kIters), run_.iters);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kSize), run_.size);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kTransMode), 1u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kInfPeriodMs), 2000u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kOrder), run_.order);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kSgeNum), 1u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kPairNum), 1u);
  const auto* name = reinterpret_cast<const char*>(theirs.data()) + RawBlock::kDeviceName;
  EXPECT_STREQ(name, endpoint_.ctx->dev->name);

  RawBlock mine;
  for (const auto offset : {RawBlock::kCmd, RawBlock::kTimeType, RawBlock::kJettyMode}) {
    mine.put(offset, theirs.get<uint32_t>(offset));
  }
  mine.put<uint32_t>(RawBlock::kDuration, 5);
  mine.put<uint32_t>(RawBlock::kJettys, 1);
  mine.put<uint64_t>(RawBlock::kIters, run_.iters);
  mine.put<uint32_t>(RawBlock::kSize, run_.size);
  mine.put<uint32_t>(RawBlock::kJfsDepth, 1);
  mine.put<uint32_t>(RawBlock::kTransMode, 1);
  mine.put<uint32_t>(RawBlock::kInfPeriodMs, 2000);
  mine.put<uint32_t>(RawBlock::kOrder, run_.order);
  mine.put<uint32_t>(RawBlock::kSgeNum, 1);
  mine.put(RawBlock::kWriteDirtyPeriod, theirs.get<uint32_t>(RawBlock::kWriteDirtyPeriod));
  mine.put<uint32_t>(RawBlock::kPairNum, 1);
  channel_.send(mine.data(), RawBlock::kBytes);
}

void RawSide::introduce() {
  if (run_.simplex) {
    swap_simplex();
  } else {
    swap_duplex();
  }
  channel_.sync_time("Start test");
}

void RawSide::swap_duplex() {
  urma_seg_t* segment = nullptr;
  uint32_t length = 0;
  ASSERT_EQ(urma_get_seg_ctx(local_seg_, &segment, &length), URMA_SUCCESS);
  const std::vector<uint8_t> their_segment = channel_.sync_blob(segment, length);
  urma_put_seg_ctx(segment);

  urma_rjetty_t* jetty = nullptr;
  ASSERT_EQ(urma_get_rjetty(endpoint_.jetty, &jetty, &length), URMA_SUCCESS);
  const std::vector<uint8_t> their_jetty = channel_.sync_blob(jetty, length);
  urma_put_rjetty(jetty);

  urma_seg_t seg = {};
  urma_rjetty_t rjetty = {};
  ASSERT_GE(their_segment.size(), sizeof(seg));
  ASSERT_GE(their_jetty.size(), sizeof(rjetty));
  std::memcpy(&seg, their_segment.data(), sizeof(seg));
  std::memcpy(&rjetty, their_jetty.data(), sizeof(rjetty));
  import(seg);
  import(rjetty);
}

void RawSide::swap_simplex() {
  static_assert(sizeof(urma_seg_t) == 48);
  static_assert(sizeof(urma_jfr_id_t) == 24);
  urma_seg_t seg = {};
  const std::vector<uint8_t> segment = channel_.sync_data(&local_seg_->seg, sizeof(seg));
  std::memcpy(&seg, segment.data(), sizeof(seg));
  const std::vector<uint8_t> id = channel_.sync_data(&endpoint_.jfr->jfr_id, sizeof(urma_jfr_id_t));
  urma_rjetty_t rjetty = {};
  std::memcpy(&rjetty.jetty_id, id.data(), id.size());
  rjetty.trans_mode = URMA_TM_RM;
  rjetty.type = URMA_JFR;
  import(seg);
  import(rjetty);
}

void RawSide::import(urma_seg_t segment) {
  EXPECT_GE(segment.len, run_.size);
  urma_import_seg_flag_t flag = {};
  flag.bs.access = kAllAccess;
  flag.bs.mapping = URMA_SEG_NOMAP;
  urma_token_t token = {kRawToken};
  remote_seg_ = urma_import_seg(endpoint_.ctx, &segment, &token, 0, flag);
  ASSERT_NE(remote_seg_, nullptr);
}

void RawSide::import(urma_rjetty_t jetty) {
  urma_token_t token = {kRawToken};
  if (jetty.type == URMA_JETTY) {
    target_ = urma_import_jetty(endpoint_.ctx, &jetty, &token);
  } else {
    urma_rjfr_t jfr = {};
    jfr.jfr_id = jetty.jetty_id;
    jfr.trans_mode = jetty.trans_mode;
    target_ = urma_import_jfr(endpoint_.ctx, &jfr, &token);
  }
  ASSERT_NE(target_, nullptr);
}

void RawSide::report() {
  const std::array<uint8_t, kSizeOfReport> nothing = {};
  (void)channel_.sync_data(nothing.data(), nothing.size());
}

void RawSide::end() {
  channel_.sync_time("End test");
  EXPECT_EQ(urma_unimport_seg(remote_seg_), URMA_SUCCESS);
  EXPECT_EQ(run_.simplex ? urma_unimport_jfr(target_) : urma_unimport_jetty(target_), URMA_SUCCESS);
  channel_.sync_time(run_.simplex ? "unimport_jfr" : "unimport_jetty");
  endpoint_.close();
}

}  // namespace urma_test
