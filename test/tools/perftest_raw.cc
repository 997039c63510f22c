// SPDX-License-Identifier: MIT
#include "test/tools/perftest_raw.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "test/process/configs.h"
#include "test/tools/perftest_party.h"

namespace urma_test {
namespace {

constexpr uint32_t kAllSizes = 8 << 20;  // what -a has in the block, and the buffer of a jetty

template <typename T>
T read_as(const std::vector<uint8_t>& blob) {
  if (blob.size() < sizeof(T)) throw std::runtime_error("the other side sent too little");
  T value;
  std::memcpy(&value, blob.data(), sizeof(value));
  return value;
}

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

bool RawChannel::has_data() const {
  pollfd state = {fd_, POLLIN, 0};
  return ::poll(&state, 1, 0) > 0;
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
    : run_(run), channel_(std::move(channel)), endpoint_(config(run)) {
  memory_.resize(run.all ? 2 * kAllSizes : 1 << 20);
  swap_config();
  local_seg_ = endpoint_.add(memory_.data(), memory_.size());
  create_jettys();
}

// Step (1).
void RawSide::swap_config() {
  RawBlock theirs;
  channel_.receive(theirs.data(), RawBlock::kBytes);
  expect_block(theirs);
  const RawBlock mine = block(theirs);
  channel_.send(mine.data(), RawBlock::kBytes);
}

void RawSide::expect_block(const RawBlock& theirs) const {
  EXPECT_EQ(theirs.get<uint8_t>(RawBlock::kAll), run_.all);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kAtomicType), 0u);
  EXPECT_EQ(theirs.get<uint8_t>(RawBlock::kUseJfce), 0);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kDuration), run_.duration);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kJettys), run_.jettys);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kTokenPolicy), 0u);
  EXPECT_EQ(theirs.get<uint64_t>(RawBlock::kIters), run_.iters);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kSize), run_.all ? kAllSizes : run_.size);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kJettyMode), run_.simplex ? 0u : 1u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kTransMode), 1u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kInfPeriodMs), 2000u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kOrder), run_.order);
  EXPECT_EQ(theirs.get<uint8_t>(RawBlock::kEnableCredit), run_.credit);
  EXPECT_EQ(theirs.get<uint8_t>(RawBlock::kEnableImm), run_.immediate);
  EXPECT_EQ(theirs.get<uint8_t>(RawBlock::kEnableNotify), run_.notify);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kSgeNum), 1u);
  EXPECT_EQ(theirs.get<uint32_t>(RawBlock::kPairNum), 1u);
  const auto* name = reinterpret_cast<const char*>(theirs.data()) + RawBlock::kDeviceName;
  EXPECT_STREQ(name, endpoint_.ctx->dev->name);
}

// The test and its end condition are those of the other side.
RawBlock RawSide::block(const RawBlock& theirs) const {
  RawBlock mine;
  for (const auto offset : {RawBlock::kCmd, RawBlock::kTimeType, RawBlock::kWriteDirtyPeriod}) {
    mine.put(offset, theirs.get<uint32_t>(offset));
  }
  mine.put<uint8_t>(RawBlock::kAll, run_.all);
  mine.put<uint32_t>(RawBlock::kDuration, run_.duration);
  mine.put<uint32_t>(RawBlock::kJettys, run_.jettys);
  mine.put<uint64_t>(RawBlock::kIters, run_.iters);
  mine.put<uint32_t>(RawBlock::kJettyMode, run_.simplex ? 0 : 1);
  mine.put<uint32_t>(RawBlock::kSize, run_.all ? kAllSizes : run_.size);
  mine.put<uint32_t>(RawBlock::kJfsDepth, 1);
  mine.put<uint32_t>(RawBlock::kTransMode, 1);
  mine.put<uint32_t>(RawBlock::kInfPeriodMs, 2000);
  mine.put<uint32_t>(RawBlock::kOrder, run_.order);
  mine.put<uint8_t>(RawBlock::kEnableCredit, run_.credit);
  mine.put<uint8_t>(RawBlock::kEnableImm, run_.immediate);
  mine.put(RawBlock::kSegPreJetty, theirs.get<uint8_t>(RawBlock::kSegPreJetty));
  mine.put<uint8_t>(RawBlock::kEnableNotify, run_.notify);
  mine.put<uint32_t>(RawBlock::kSgeNum, 1);
  mine.put<uint32_t>(RawBlock::kPairNum, 1);
  return mine;
}

void RawSide::introduce() {
  const std::vector<urma_seg_t> segments = swap_segments();
  const std::vector<urma_rjetty_t> queues = swap_queues();
  if (run_.credit || run_.notify) swap_words();
  if (run_.channels) swap_channels();
  for (const urma_seg_t& segment : segments) {
    EXPECT_GE(segment.len, run_.size);
    remote_segs_.push_back(import(segment));
  }
  import(queues);
  if (run_.channels) channel_.sync_time("tp aware connect finished");
  channel_.sync_time("Start test");
}

std::vector<urma_seg_t> RawSide::swap_segments() {
  static_assert(sizeof(urma_seg_t) == 48);
  std::vector<urma_seg_t> theirs(run_.jettys);
  if (run_.simplex) {
    const std::vector<urma_seg_t> mine(run_.jettys, local_seg_->seg);
    const size_t bytes = mine.size() * sizeof(urma_seg_t);
    std::memcpy(theirs.data(), channel_.sync_data(mine.data(), bytes).data(), bytes);
    return theirs;
  }
  for (urma_seg_t& one : theirs) {
    urma_seg_t* segment = nullptr;
    uint32_t length = 0;
    EXPECT_EQ(urma_get_seg_ctx(local_seg_, &segment, &length), URMA_SUCCESS);
    const std::vector<uint8_t> blob = channel_.sync_blob(segment, length);
    urma_put_seg_ctx(segment);
    one = read_as<urma_seg_t>(blob);
  }
  return theirs;
}

std::vector<urma_rjetty_t> RawSide::swap_queues() {
  static_assert(sizeof(urma_jfr_id_t) == 24);
  std::vector<urma_rjetty_t> theirs(run_.jettys);
  if (run_.simplex) {
    const std::vector<urma_jfr_id_t> mine(run_.jettys, endpoint_.jfr->jfr_id);
    const std::vector<uint8_t> ids =
        channel_.sync_data(mine.data(), mine.size() * sizeof(urma_jfr_id_t));
    for (uint32_t lane = 0; lane < run_.jettys; ++lane) {
      std::memcpy(&theirs[lane].jetty_id, ids.data() + lane * sizeof(urma_jfr_id_t),
                  sizeof(urma_jfr_id_t));
      theirs[lane].trans_mode = URMA_TM_RM;
      theirs[lane].type = URMA_JFR;
    }
    return theirs;
  }
  for (uint32_t lane = 0; lane < run_.jettys; ++lane) {
    urma_rjetty_t* jetty = nullptr;
    uint32_t length = 0;
    EXPECT_EQ(urma_get_rjetty(jettys_[lane], &jetty, &length), URMA_SUCCESS);
    jetty->flag.bs.has_drv_ext = run_.provider_data;
    const std::vector<uint8_t> blob = channel_.sync_blob(jetty, length);
    urma_put_rjetty(jetty);
    theirs[lane] = read_as<urma_rjetty_t>(blob);
    EXPECT_EQ(theirs[lane].type, URMA_JETTY);
  }
  return theirs;
}

// One segment per jetty, all in one exchange.
void RawSide::swap_words() {
  words_.resize(run_.jettys * kSlot);
  std::vector<urma_seg_t> mine;
  for (uint32_t lane = 0; lane < run_.jettys; ++lane) {
    local_words_.push_back(endpoint_.add(words_.data() + lane * kSlot, kSlot));
    mine.push_back(local_words_.back()->seg);
  }
  const size_t bytes = mine.size() * sizeof(urma_seg_t);
  const std::vector<uint8_t> theirs = channel_.sync_data(mine.data(), bytes);
  for (uint32_t lane = 0; lane < run_.jettys; ++lane) {
    urma_seg_t segment;
    std::memcpy(&segment, theirs.data() + lane * sizeof(segment), sizeof(segment));
    remote_words_.push_back(import(segment));
  }
}

uint64_t RawSide::word(uint32_t lane, uint32_t index) const {
  const auto* words = reinterpret_cast<const volatile uint64_t*>(words_.data() + lane * kSlot);
  return words[index];
}

void RawSide::swap_channels() {
  for (uint32_t lane = 0; lane < run_.jettys; ++lane) {
    const struct {
      uint64_t handle;
      uint32_t first_packet;
    } mine = {1, 2};
    static_assert(sizeof(mine) == 16);
    (void)channel_.sync_data(&mine, sizeof(mine));
  }
}

void RawSide::create_jettys() {
  if (run_.simplex) return;
  jettys_ = {endpoint_.jetty};
  urma_jetty_cfg_t cfg = endpoint_.jetty->jetty_cfg;
  cfg.id = 0;
  while (jettys_.size() < run_.jettys) {
    jettys_.push_back(urma_create_jetty(endpoint_.ctx, &cfg));
    ASSERT_NE(jettys_.back(), nullptr);
  }
}

urma_target_seg_t* RawSide::import(urma_seg_t segment) {
  urma_import_seg_flag_t flag = {};
  flag.bs.access = kAllAccess;
  flag.bs.mapping = URMA_SEG_NOMAP;
  urma_token_t token = {kRawToken};
  urma_target_seg_t* imported = urma_import_seg(endpoint_.ctx, &segment, &token, 0, flag);
  EXPECT_NE(imported, nullptr);
  return imported;
}

void RawSide::import(const std::vector<urma_rjetty_t>& queues) {
  urma_token_t token = {kRawToken};
  for (urma_rjetty_t queue : queues) {
    if (queue.type == URMA_JETTY) {
      targets_.push_back(urma_import_jetty(endpoint_.ctx, &queue, &token));
    } else {
      urma_rjfr_t jfr = remote_jfr(queue.jetty_id, queue.trans_mode);
      targets_.push_back(urma_import_jfr(endpoint_.ctx, &jfr, &token));
    }
    ASSERT_NE(targets_.back(), nullptr);
  }
}

void RawSide::unimport_queues() {
  for (urma_target_jetty_t* target : targets_) {
    EXPECT_EQ(run_.simplex ? urma_unimport_jfr(target) : urma_unimport_jetty(target), URMA_SUCCESS);
  }
  targets_.clear();
}

void RawSide::renew_queues() {
  unimport_queues();
  channel_.sync_time("recreate_jetty_disconnect");
  urma_jfr_cfg_t jfr_cfg = endpoint_.jfr->jfr_cfg;
  jfr_cfg.id = 0;
  urma_jfs_cfg_t jfs_cfg = {};
  urma_jetty_cfg_t jetty_cfg = {};
  if (run_.simplex) {
    jfs_cfg = endpoint_.jfs->jfs_cfg;
    EXPECT_EQ(urma_delete_jfs(endpoint_.jfs), URMA_SUCCESS);
  } else {
    jetty_cfg = endpoint_.jetty->jetty_cfg;
    jetty_cfg.id = 0;
    EXPECT_EQ(urma_delete_jetty(endpoint_.jetty), URMA_SUCCESS);
  }
  EXPECT_EQ(urma_delete_jfr(endpoint_.jfr), URMA_SUCCESS);
  endpoint_.jfr = urma_create_jfr(endpoint_.ctx, &jfr_cfg);
  if (run_.simplex) {
    endpoint_.jfs = urma_create_jfs(endpoint_.ctx, &jfs_cfg);
  } else {
    jetty_cfg.shared.jfr = endpoint_.jfr;
    endpoint_.jetty = urma_create_jetty(endpoint_.ctx, &jetty_cfg);
    jettys_ = {endpoint_.jetty};
  }
  import(swap_queues());
  channel_.sync_time("recreate_jetty_connect");
}

void RawSide::post(urma_jfs_wr_t wr, uint32_t lane) {
  urma_jfs_wr_t* bad = nullptr;
  EXPECT_EQ(run_.simplex ? urma_post_jfs_wr(endpoint_.jfs, &wr, &bad)
                         : urma_post_jetty_send_wr(jettys_[lane], &wr, &bad),
            URMA_SUCCESS);
  wait_for_success(endpoint_.send_jfc, wr.user_ctx);
}

RawReport RawSide::report(const RawReport& own) {
  return read_as<RawReport>(channel_.sync_data(&own, sizeof(own)));
}

void RawSide::end() {
  channel_.sync_time("End test");
  remote_segs_.insert(remote_segs_.end(), remote_words_.begin(), remote_words_.end());
  for (urma_target_seg_t* segment : remote_segs_) {
    EXPECT_EQ(urma_unimport_seg(segment), URMA_SUCCESS);
  }
  unimport_queues();
  channel_.sync_time(run_.simplex ? "unimport_jfr" : "unimport_jetty");
  for (size_t lane = 1; lane < jettys_.size(); ++lane) {
    EXPECT_EQ(urma_delete_jetty(jettys_[lane]), URMA_SUCCESS);
  }
  endpoint_.close();
}

namespace {

void run_side(RawChannel channel, const RawRun& run, const RawWork& work) {
  RawSide side(std::move(channel), run);
  side.introduce();
  work(side);
  side.end();
}

}  // namespace

ToolResult serve_raw(const std::string& test, const RawRun& run, const RawWork& work) {
  const uint16_t port = free_port();
  Tool server(perftest_program(), perftest_arguments(test, port, run.options));
  server.wait_for_line(kWaiting);
  run_one([&](Channel&) { run_side(RawChannel::connect(port), run, work); });
  const int status = server.wait();
  EXPECT_EQ(status, 0) << server.out() << server.err();
  return {status, server.out(), server.err()};
}

ToolResult call_raw(const std::string& test, RawRun run, const RawWork& work) {
  run.server = true;
  Child raw("server", [&](Channel& channel) {
    RawListener listener;
    channel.send(listener.port());
    run_side(listener.accept(), run, work);
  });
  const auto port = raw.channel().receive<uint16_t>();
  std::vector<std::string> arguments = perftest_arguments(test, port, run.options);
  arguments.insert(arguments.end(), {"-S", "127.0.0.1"});
  ToolResult result = run_tool(perftest_program(), arguments);
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  raw.expect_success();
  return result;
}

}  // namespace urma_test
