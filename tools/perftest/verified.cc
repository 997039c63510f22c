// SPDX-License-Identifier: MIT
#include "tools/perftest/verified.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include "tools/perftest/bandwidth_loop.h"
#include "tools/perftest/clock.h"
#include "tools/perftest/pattern.h"
#include "tools/perftest/run.h"

namespace perftest {
namespace {

// Replaces the number of messages of a round: that side's user ends the test.
constexpr uint64_t kStop = UINT64_MAX;

uint64_t word_at(const uint8_t* memory) {
  uint64_t value;
  std::memcpy(&value, memory, sizeof(value));
  return value;
}

}  // namespace

void check_counter(const uint8_t* memory, uint64_t expected, const std::string& what) {
  const uint64_t value = word_at(memory);
  if (value == expected) return;
  throw RunError("--verify: " + what + " is " + std::to_string(value) + " instead of " +
                 std::to_string(expected));
}

void swap_counter(Session& session, uint64_t steps) {
  session.exchange.set_timeout(Exchange::kWhilePeerLives);
  for (size_t pair = 0; pair < session.exchange.pairs(); pair++) {
    uint64_t count = steps;
    session.exchange.sync_data(&count, &count, sizeof(count), pair);
    check_counter(session.memory.in(static_cast<uint32_t>(pair)), count, "the counter");
  }
}

VerifiedTest::VerifiedTest(Session& session)
    : session_(session), slots_(session.memory.slots()), streams_(session.config.jettys) {
  for (uint32_t lane = 0; lane < streams_.size(); lane++) {
    streams_[lane].requests = std::make_unique<Requests>(session, lane, slots_);
  }
}

Row VerifiedTest::run(uint32_t size) {
  const Config& config = session_.config;
  size_ = size;
  for (Stream& stream : streams_) stream.sent = stream.arrived = 0;
  if (session_.two_sided() && !receives_posted_) post_receives();
  session_.exchange.set_timeout(Exchange::kWhilePeerLives);
  const uint64_t start = ticks();
  const uint64_t deadline = start + ticks_of_ms(config.duration_s * 1000.0);
  session_.exchange.sync_time("verify_ready");
  uint64_t bytes = 0;
  for (uint64_t mine = messages_of_round(deadline); swap_round(mine);
       mine = messages_of_round(deadline)) {
    with_post(config, [&](auto post) { post_round<decltype(post)>(mine); });
    await_round();
    swap_done();
    take_late();
    check_landed(mine);
    const uint64_t before = counted();
    for (Stream& stream : streams_) {
      stream.sent += mine;
      stream.arrived += stream.expected;
    }
    for (uint64_t i = before; i < counted(); i++) bytes += size_of(i);
    session_.reporter.progress(counted(), config.iterations);
  }
  const double seconds = static_cast<double>(ticks() - start) / ticks_per_us() / 1e6;
  if (lost_ > 0) {
    std::fprintf(stderr, "warning: %lu messages were lost (UM)\n",
                 static_cast<unsigned long>(lost_));
  }
  Row row;
  row.size = size;
  row.iterations = counted() * config.jettys;
  row.bandwidth = bandwidth_of(static_cast<double>(bytes) * config.jettys, row.iterations, seconds);
  row.partial = stopped_;
  session_.partial |= row.partial;
  return row;
}

uint64_t VerifiedTest::messages_of_round(uint64_t deadline) const {
  const Config& config = session_.config;
  if (!session_.active() || interrupted) return 0;
  if (config.ends_by == EndsBy::kDuration && ticks() >= deadline) return 0;
  uint64_t count = std::min(slots_, config.window);
  // In this mode, messages without a receive are lost.
  if (config.mode == URMA_TM_UM) count = std::max<uint64_t>(count / config.jettys, 1);
  if (config.ends_by != EndsBy::kIterations) return count;
  return std::min<uint64_t>(count, config.iterations - streams_[0].sent);
}

// Prepares what the peer reads in the next round.
void VerifiedTest::offer_reads() {
  for (uint32_t lane = 0; lane < streams_.size(); lane++) {
    for (uint32_t slot = 0; slot < slots_; slot++) {
      const uint64_t sequence = streams_[lane].arrived + slot;
      fill_pattern(session_.memory.in(lane, slot), size_of(sequence), sequence,
                   session_.peer_lane(lane));
    }
  }
}

// False: neither side sends more, or a user has ended the test.
bool VerifiedTest::swap_round(uint64_t mine) {
  if (session_.config.api == Api::kRead) offer_reads();
  bool more = mine > 0;
  stopped_ = interrupted;
  const uint64_t count = stopped_ ? kStop : mine;
  for (size_t pair = 0; pair < session_.exchange.pairs(); pair++) {
    uint64_t theirs = 0;
    session_.exchange.sync_data(&count, &theirs, sizeof(theirs), pair);
    if (theirs == kStop) {
      stopped_ = true;
      continue;
    }
    if (theirs > slots_) throw RunError("the peer sent a damaged count of messages");
    more |= theirs > 0;
    for (uint32_t lane = 0; lane < streams_.size(); lane++) {
      if (session_.pair_of(lane) != pair) continue;
      streams_[lane].expected = theirs;
      streams_[lane].next = 0;
    }
  }
  return more && !stopped_;
}

void VerifiedTest::swap_done() { session_.exchange.sync_time("verify_moved"); }

uint32_t VerifiedTest::size_of(uint64_t sequence) const {
  const Config& config = session_.config;
  if (!config.random_sizes) return size_;
  const uint64_t scattered = (sequence + 1) * 0x9e3779b97f4a7c15;
  return config.min_size +
         static_cast<uint32_t>((scattered >> 32) % (config.max_size - config.min_size + 1));
}

void VerifiedTest::fill(Stream& stream, uint32_t lane, uint32_t slot) {
  const Config& config = session_.config;
  const uint64_t sequence = stream.sent + slot;
  const uint32_t size = size_of(sequence);
  uint8_t* const out = session_.memory.out(lane, slot);
  Requests& requests = *stream.requests;
  uint64_t remote = session_.links[lane].in + slot * session_.memory.slot_bytes();
  if (config.api == Api::kAtomic) {
    remote = session_.links[lane].in;
    std::memset(out, 0xff, size);
    if (config.atomic_type == AtomicType::kCas) {
      requests[slot].cas.cmp_data = sequence;
      requests[slot].cas.swap_data = sequence + 1;
    }
  } else if (config.api == Api::kRead) {
    // Memory that a READ fails to write must not look right.
    fill_pattern(out, size, sequence, session_.peer_lane(lane));
    for (uint32_t i = 0; i < size; i++) out[i] = static_cast<uint8_t>(~out[i]);
  } else {
    fill_pattern(out, size, sequence, session_.peer_lane(lane));
  }
  requests.aim(slot, size, out, remote);
}

template <typename Post>
void VerifiedTest::post_round(uint64_t count) {
  for (uint32_t lane = 0; lane < streams_.size() && count > 0; lane++) {
    Stream& stream = streams_[lane];
    const auto messages = static_cast<uint32_t>(count);
    const uint32_t list = std::min(session_.config.jfs_post_list, messages);
    const uint32_t moderation = session_.config.cq_mod;
    for (uint32_t slot = 0; slot < messages; slot++) {
      fill(stream, lane, slot);
      const bool completes = (slot + 1) % moderation == 0 || slot + 1 == messages;
      stream.requests->signal(slot, completes);
      stream.under_way += completes ? 1 : 0;
    }
    for (uint32_t first = 0; first < messages; first += list) {
      stream.requests->chain(first, std::min(list, messages - first));
      ok(Post::post(session_.queues.send_jetty(lane), session_.queues.send_jfs(lane),
                    &(*stream.requests)[first]),
         "posting a request");
    }
  }
}

void VerifiedTest::await_round() {
  constexpr uint64_t kQuietNs = 100'000'000;
  uint64_t quiet_since = 0;
  for (;;) {
    const bool sent = take_sent();
    const bool came = session_.two_sided() && take_arrived();
    if (sent || came) {
      session_.watch.busy();
      quiet_since = 0;
      continue;
    }
    const bool all_sent = std::all_of(streams_.begin(), streams_.end(),
                                      [](const Stream& stream) { return stream.under_way == 0; });
    const uint64_t missing = still_to_come();
    if (all_sent && missing == 0) return;
    if (all_sent && session_.config.mode == URMA_TM_UM) {
      const uint64_t now = monotonic_ns();
      if (quiet_since == 0) quiet_since = now;
      if (now - quiet_since > kQuietNs) return;
    }
    // Ctrl-C ends the test between two rounds.
    (void)session_.watch.idle();
  }
}

// Even a slow sender has finished by now: missing messages are lost.
void VerifiedTest::take_late() {
  if (!session_.two_sided()) return;
  while (take_arrived()) {
  }
  lost_ += still_to_come();
}

uint64_t VerifiedTest::still_to_come() const {
  uint64_t count = 0;
  if (!session_.two_sided()) return 0;
  for (const Stream& stream : streams_) count += stream.expected - stream.next;
  return count;
}

bool VerifiedTest::take_sent() {
  std::array<urma_cr_t, 16> records;
  const int n = Session::poll(session_.queues.sent(), records.size(), records.data());
  for (int i = 0; i < n; i++) {
    if (records[i].status != URMA_CR_SUCCESS) session_.failed(records[i]);
    if ((records[i].user_ctx & kSignalled) != 0) {
      streams_.at(records[i].user_ctx & kLaneMask).under_way--;
    }
  }
  return n > 0;
}

// ------------------------------------------------------------------------------------------------
// Messages: each receive has a slot of its own, named by its user_ctx.
// ------------------------------------------------------------------------------------------------

void VerifiedTest::post_receives() {
  receives_posted_ = true;
  const uint32_t count = std::min(slots_, session_.config.jfr_depth);
  for (uint32_t queue = 0; queue < session_.queues.receive_queues(); queue++) {
    for (uint32_t slot = 0; slot < count; slot++) post_receive(queue, slot);
  }
}

uint32_t VerifiedTest::lane_of_queue(uint32_t queue) const {
  uint32_t lane = 0;
  while (session_.queues.receive_index(lane) != queue) lane++;
  return lane;
}

void VerifiedTest::post_receive(uint32_t queue, uint32_t slot) {
  const uint32_t lane = lane_of_queue(queue);
  urma_sge_t place = {reinterpret_cast<uintptr_t>(session_.memory.in(lane, slot)),
                      static_cast<uint32_t>(session_.memory.slot_bytes()),
                      session_.memory.segment(lane), nullptr};
  urma_jfr_wr_t wr = {};
  wr.src = {&place, 1};
  wr.user_ctx = uint64_t{queue} * slots_ + slot;
  urma_jfr_wr_t* bad;
  urma_jetty_t* const jetty = session_.queues.receiving_jetty(queue);
  urma_jfr_t* const jfr = session_.queues.receive_queue(queue);
  if (jetty != nullptr) {
    ok(urma_post_jetty_recv_wr(jetty, &wr, &bad), "urma_post_jetty_recv_wr");
  } else if (session_.config.flat_api) {
    ok(urma_recv(jfr, place.tseg, place.addr, place.len, wr.user_ctx), "urma_recv");
  } else {
    ok(urma_post_jfr_wr(jfr, &wr, &bad), "urma_post_jfr_wr");
  }
}

bool VerifiedTest::take_arrived() {
  std::array<urma_cr_t, 16> records;
  const int n = Session::poll(session_.queues.arrived(), records.size(), records.data());
  for (int i = 0; i < n; i++) {
    if (records[i].status != URMA_CR_SUCCESS) session_.failed(records[i]);
    check_message(records[i]);
    const uint64_t name = records[i].user_ctx;
    post_receive(static_cast<uint32_t>(name / slots_), static_cast<uint32_t>(name % slots_));
  }
  return n > 0;
}

// A message is the next one of one of the jettys that use this receive queue, or a later one if
// messages can be lost. Its bytes tell which.
void VerifiedTest::check_message(const urma_cr_t& record) {
  const auto queue = static_cast<uint32_t>(record.user_ctx / slots_);
  const auto slot = static_cast<uint32_t>(record.user_ctx % slots_);
  const bool send = session_.config.api == Api::kSend;
  check_record(record, session_.config, send ? record.completion_len : 0);
  const uint32_t first = lane_of_queue(queue);
  const uint8_t* const bytes = session_.memory.in(first, slot);
  Stream* candidate = nullptr;
  uint32_t candidate_lane = first;
  for (uint32_t lane = first; lane < streams_.size(); lane++) {
    Stream& stream = streams_[lane];
    if (session_.queues.receive_index(lane) != queue || stream.next == stream.expected) continue;
    const bool other = session_.config.duplex() && !session_.config.share_jfs &&
                       session_.config.mode != URMA_TM_UM &&
                       record.remote_id.id != session_.links[lane].remote_id;
    if (other) continue;
    const uint64_t last = session_.config.mode == URMA_TM_UM ? stream.expected : stream.next + 1;
    for (uint64_t next = stream.next; next < last; next++) {
      const uint64_t sequence = stream.arrived + next;
      const uint32_t size = size_of(sequence);
      const bool same =
          !send || (record.completion_len == size &&
                    !find_difference(bytes, size, sequence, session_.peer_lane(lane)));
      if (!same) continue;
      lost_ += next - stream.next;
      stream.next = next + 1;
      return;
    }
    candidate = &stream;
    candidate_lane = lane;
  }
  if (candidate == nullptr) throw RunError("--verify: received a message that was never sent");
  const uint64_t sequence = candidate->arrived + candidate->next;
  check_record(record, session_.config, size_of(sequence));
  check_pattern(bytes, size_of(sequence), sequence, session_.peer_lane(candidate_lane), "message");
}

// ------------------------------------------------------------------------------------------------
// One-sided requests: those of a round are checked once both sides have finished it.
// ------------------------------------------------------------------------------------------------

void VerifiedTest::check_landed(uint64_t mine) {
  const Config& config = session_.config;
  for (uint32_t lane = 0; lane < streams_.size(); lane++) {
    const Stream& stream = streams_[lane];
    if (config.api == Api::kRead || config.api == Api::kAtomic) check_brought(lane, mine);
    if (config.api == Api::kAtomic) {
      check_counter(session_.memory.in(lane), stream.arrived + stream.expected, "the counter");
    }
    if (config.api != Api::kWrite) continue;
    for (uint32_t slot = 0; slot < stream.expected; slot++) {
      const uint64_t sequence = stream.arrived + slot;
      check_pattern(session_.memory.in(lane, slot), size_of(sequence), sequence,
                    session_.peer_lane(lane), "write");
    }
    if (!config.notify || stream.expected == 0) continue;
    uint64_t* const word = session_.notify->at(lane);
    check_counter(reinterpret_cast<uint8_t*>(word), kImmediate,
                  "the word that WRITE_NOTIFY leaves");
    *word = 0;
  }
}

// What came back to this side.
void VerifiedTest::check_brought(uint32_t lane, uint64_t mine) {
  for (uint32_t slot = 0; slot < mine; slot++) {
    const uint8_t* const out = session_.memory.out(lane, slot);
    const uint64_t sequence = streams_[lane].sent + slot;
    if (session_.config.api == Api::kAtomic) {
      check_counter(out, sequence,
                    "the value that request " + std::to_string(sequence) + " brought back");
    } else {
      check_pattern(out, size_of(sequence), sequence, session_.peer_lane(lane), "read");
    }
  }
}

}  // namespace perftest
