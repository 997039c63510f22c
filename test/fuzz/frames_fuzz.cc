// SPDX-License-Identifier: MIT
//
// What a process sends to another one over a connection of the tcp provider: frames of all kinds,
// with the names of an existing queue and segment or other names, changed or cut. After each input,
// another connection and the process itself must still be served.
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "test/fuzz/api_rig.h"
#include "test/tcp/stranger.h"

namespace {

using namespace urma::tcp;  // NOLINT: what it speaks
using urma_fuzz::Bytes;
using urma_fuzz::require;

// The first half is registered. Nobody but this process may change the second.
constexpr size_t kShared = 8192, kBytes = 2 * kShared, kReceived = 1024;
constexpr size_t kReceives = 16;
constexpr int kAnswerMs = 20;

// The process, its queue and its memory, and a connection that keeps the rules.
class Rig {
 public:
  static Rig& the() {
    static Rig& rig = *new Rig;
    return rig;
  }

  Stranger& stranger() { return stranger_; }
  const urma::SegmentRef& granted() const { return granted_; }
  uint32_t token_id() const { return segment_->seg.token_id; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }

  // Another connection is served, the process can send, and no memory changed without a right.
  void check() {
    send_all(*honest_, frame(PingBody{}));
    require(receive(*honest_, sizeof(Head)).size() == sizeof(Head), "others are served");
    urma_sge_t local = urma_test::piece(segment_, memory_ + kShared - 64, 64);
    process_.post(urma_test::send_request(self_, &local, 1));
    urma_cr_t ended;
    int got;
    while ((got = urma_poll_jfc(process_.send_jfc, 1, &ended)) == 0) receive_again();
    require(got == 1 && ended.status == URMA_CR_SUCCESS, "the process talks");
    receive_again();
    require(std::all_of(memory_ + kShared, memory_ + kBytes, [](char byte) { return byte == 'o'; }),
            "what was not granted has not changed");
  }

 private:
  static urma_test::Config config() {
    urma_fuzz::enter_runtime_dir();
    ::setenv("URMA_DEVICE", "urma_net0", 1);
    ::setenv("URMA_TCP_DEVICES", "", 1);
    ::setenv("URMA_TCP_TIMEOUT_MS", "20000", 1);
    GTEST_FLAG_SET(break_on_failure, true);
    return {};
  }

  Rig() : process_(config()), stranger_(process_.queue_id()), honest_(stranger_.connect()) {
    std::memset(memory_, 'o', kBytes);
    segment_ = process_.add(memory_, kShared);
    self_ = process_.import(process_.queue_id());
    for (size_t i = 0; i < kReceives; ++i) post_receive();
    require(honest_ != nullptr, "a connection");
    AskGrantBody ask = {};
    ask.ticket = 1;
    ask.token_id = token_id();
    ask.access = URMA_ACCESS_READ | URMA_ACCESS_WRITE | URMA_ACCESS_ATOMIC;
    ask.eid = process_.queue_id().eid;
    ask.va = address();
    ask.len = 8;
    send_all(*honest_, frame(ask));
    granted_ = receive_body<AnswerBody>(*honest_).ref;
  }

  void post_receive() { process_.post_receive(segment_, memory_, kReceived); }

  void receive_again() {
    urma_cr_t crs[kReceives];
    const int got = urma_poll_jfc(process_.receive_jfc, kReceives, crs);
    require(got >= 0, "the queue can be polled");
    for (int i = 0; i < got; ++i) post_receive();
  }

  char* const memory_ = urma_fuzz::fenced_pages(kBytes);
  urma_test::Endpoint process_;
  Stranger stranger_;
  std::unique_ptr<Stream> honest_;
  urma_target_seg_t* segment_ = nullptr;
  urma_target_jetty_t* self_ = nullptr;
  urma::SegmentRef granted_ = {};
};

// Frames that may be valid: numbers are small, or those that exist.
class Frames {
 public:
  Frames(Bytes* in, Rig* rig) : in_(in), rig_(rig) {}

  // Mostly questions: an answer that nobody asked for ends the connection.
  std::string next() { return in_->chance(240) ? question() : answer(); }

 private:
  std::string question() {
    switch (in_->below(8)) {
      case 0:
        return frame(FindBody{small(), small(), id(), small(), eid()});
      case 1:
        return frame(ProbeBody{small(), small(), target()});
      case 2:
        return frame(AskGrantBody{small(), token_id(), small(), small(), eid(), address(), size()});
      case 3:
        return frame(OpenWayBody{way(), small(), target(), small(), small(), eid(), 0, small()});
      case 4: {
        const std::string data = payload();
        const auto length = in_->chance(16) ? size() : data.size();
        return frame(MessageBody{way(), static_cast<uint32_t>(length), small(), byte(), byte(), {}},
                     data);
      }
      case 5:
        return frame(CloseWayBody{way()});
      case 6: {
        const std::string data = payload();
        const auto bytes = in_->chance(64) ? size() : data.size();
        return frame(AccessBody{ref(), address(), static_cast<uint32_t>(bytes), small(), byte(), 0},
                     data);
      }
      default:
        return frame(PingBody{});
    }
  }
  std::string answer() {
    switch (in_->below(8)) {
      case 0:
        return frame(AnswerBody{small(), small(), ref(), address(), size(), small(), 0});
      case 1:
        return frame(EndedBody{ref()});
      case 2:
        return frame(WayOpenedBody{way(), small(), small()});
      case 3:
        return frame(PullBody{way()});
      case 4:
        return frame(PartBody{way()}, payload());
      case 5:
        return frame(ReceivedBody{way(), small(), small()});
      case 6:
        return in_->chance(128) ? frame(WayClosedBody{way(), small()}) : frame(PongBody{});
      default:
        return frame(DoneBody{small(), small()}, payload());
    }
  }

  uint8_t byte() { return static_cast<uint8_t>(in_->below(16)); }
  uint16_t small() { return static_cast<uint16_t>(in_->chance(240) ? in_->below(16) : 0xffff); }
  uint32_t way() { return in_->chance(240) ? in_->below(4) : in_->take<uint32_t>(); }
  uint64_t size() { return in_->chance(200) ? in_->below(1024) : in_->take<uint64_t>(); }
  uint32_t id() { return in_->chance(200) ? rig_->stranger().victim().id : small(); }
  uint32_t token_id() { return in_->chance(200) ? rig_->token_id() : small(); }
  urma_eid_t eid() {
    urma_eid_t eid = rig_->stranger().victim().eid;
    if (in_->chance(16)) eid.raw[in_->below(16)] = in_->take<uint8_t>();
    return eid;
  }
  uint64_t address() {
    return in_->chance(240) ? rig_->address() + in_->below(3 * kShared) : in_->take<uint64_t>();
  }
  urma::SegmentRef ref() {
    urma::SegmentRef ref = rig_->granted();
    if (in_->chance(32)) ref.index = small();
    if (in_->chance(32)) ref.generation = small();
    return ref;
  }
  urma::ProbeTarget target() {
    return {eid(), id(), in_->chance(200) ? uint32_t{URMA_JETTY} : small(),
            in_->chance(200) ? uint32_t{URMA_TM_RM} : small(), in_->chance(240) ? 0U : small()};
  }
  std::string payload() {
    const auto some = in_->some(200);
    return {some.begin(), some.end()};
  }

  Bytes* const in_;
  Rig* const rig_;
};

// Takes what has come. Returns whether there was anything.
bool drain(Stream* stream) {
  char room[4096];
  const iovec piece = {room, sizeof(room)};
  bool some = false;
  while (stream->receive({&piece, 1}) != 0) some = true;
  return some;
}

bool is_opening(std::string_view bytes) {
  return bytes.size() == sizeof(Head) + sizeof(OpenWayBody) &&
         bytes[offsetof(Head, kind)] == static_cast<char>(FrameKind::kOpenWay);
}

// False once the connection has ended.
bool give(Stream* stream, std::string_view bytes, bool waits) {
  std::string why;
  while (!bytes.empty()) {
    if (stream->progress(&why) != StreamState::kOpen) return false;
    const iovec piece = {const_cast<char*>(bytes.data()), bytes.size()};
    bytes.remove_prefix(stream->send({&piece, 1}));
    drain(stream);
  }
  // Not every opening gets an answer: frames before it may hold it up.
  pollfd answer = {stream->fd(), POLLIN, 0};
  if (waits && ::poll(&answer, 1, kAnswerMs) == 1) drain(stream);
  return stream->progress(&why) == StreamState::kOpen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes in(data, size);
  Rig& rig = Rig::the();
  const auto stream = rig.stranger().connect();
  require(stream != nullptr, "connections are accepted");
  Frames frames(&in, &rig);
  while (!in.empty()) {
    std::string bytes = frames.next();
    // A message is allowed only after the answer to the opening of its way.
    const bool waits = is_opening(bytes);
    if (in.chance(16)) {
      bytes[in.below(static_cast<uint32_t>(bytes.size()))] = in.take<char>();
    }
    if (in.chance(8)) bytes.resize(in.below(static_cast<uint32_t>(bytes.size())));
    if (!give(stream.get(), bytes, waits)) break;
  }
  rig.check();
  return 0;
}
