// SPDX-License-Identifier: MIT
//
// instructions_program lock_free|ordinary|shared|one_jfc: runs posts and polls under callgrind,
// started without collection, and dumps the cost of each under its name. Prints the number of
// requests of each. Shared queues were used by another thread before; those of one_jfc are
// ordinary, and complete into the same JFC. Exits with 3 if the library does not start.

#include <array>
#include <string>
#include <thread>
#include <utility>

#include "test/process/counting.h"
#include "test/process/endpoint.h"
#include "urma_ext.h"

namespace {

using urma_test::call;
using urma_test::Counting;
using urma_test::dump;
using urma_test::Endpoint;
using urma_test::piece;
using urma_test::require;

constexpr int kWarmUp = 300;
// A multiple of the 32 empty polls from one look beyond the own queues to the next: wherever the
// first poll falls, as many looks are counted.
constexpr int kCalls = 6 * 32;
constexpr int kChain = 16;
constexpr uint64_t kBytes = 64 << 10;

// Everything that the requests use, in memory that can be shared without being moved.
struct Party {
  Endpoint endpoint;
  char* memory;
  urma_target_seg_t* segment;
  urma_target_seg_t* remote;
  urma_target_jetty_t* self;
  urma_sge_t here, there, into;

  explicit Party(const urma_test::Config& config) : endpoint(config) {
    memory = static_cast<char*>(urma_ext_alloc(kBytes, 0));
    require(memory != nullptr, "urma_ext_alloc: no memory");
    segment = endpoint.add(memory, kBytes);
    remote = endpoint.import(endpoint.segment_id(segment), true);
    self = endpoint.import(endpoint.queue_id());
    here = piece(segment, memory, 8);
    there = piece(remote, memory + 4096, 8);
    into = piece(segment, memory + 8192, 64);
  }
};

void require_mapped(const urma_target_seg_t* segment) {
  std::array<urma_ext_part_t, 8> parts;
  uint32_t count = parts.size();
  require(urma_ext_query_segment(segment, parts.data(), &count) == URMA_SUCCESS && count == 1,
          "the segment is not in one part");
  require(parts[0].path == URMA_EXT_PATH_MAPPED,
          std::string("the segment is not mapped: ") + urma_ext_reason_text(parts[0].reason));
}

// One request and its completions, each found by the first poll. False otherwise.
bool one_round(Party& party, urma_jfs_wr_t* wr, bool message, Counting counted) {
  Endpoint& endpoint = party.endpoint;
  urma_jfr_wr_t receive = {{&party.into, 1}, 7, nullptr};
  urma_jfr_wr_t* bad_receive;
  urma_jfs_wr_t* bad;
  urma_cr_t record = {};
  if (message && call(counted, Counting::kReceivePost, [&] {
                   return urma_post_jetty_recv_wr(endpoint.jetty, &receive, &bad_receive);
                 }) != URMA_SUCCESS) {
    return false;
  }
  if (call(counted, Counting::kPost,
           [&] { return urma_post_jetty_send_wr(endpoint.jetty, wr, &bad); }) != URMA_SUCCESS) {
    return false;
  }
  if (message &&
      (call(counted, Counting::kReceivePoll,
            [&] { return urma_poll_jfc(endpoint.receive_jfc, 1, &record); }) != 1 ||
       record.status != URMA_CR_SUCCESS || record.completion_len != wr->send.src.sge->len)) {
    return false;
  }
  return call(counted, Counting::kPoll,
              [&] { return urma_poll_jfc(endpoint.send_jfc, 1, &record); }) == 1 &&
         record.status == URMA_CR_SUCCESS;
}

void count(Party& party, urma_jfs_wr_t* wr, bool message, Counting counted,
           const std::string& name) {
  for (int i = 0; i < kCalls; ++i) {
    require(one_round(party, wr, message, counted), name + ": a request does not complete at once");
  }
  dump(name, kCalls);
}

// The first rounds take the long path: they open the ring and find the short path.
void warm_up(Party& party, urma_jfs_wr_t* wr, bool message) {
  if (message) party.endpoint.post_receive(party.segment, party.memory + 8192, 64, 7);
  party.endpoint.post(*wr);
  if (message) urma_test::wait_for_success(party.endpoint.receive_jfc, 7);
  urma_test::wait_for_success(party.endpoint.send_jfc, 0);
  for (int i = 0; i < kWarmUp; ++i) {
    require(one_round(party, wr, message, Counting::kNothing),
            "a request does not complete at once");
  }
}

void count_sends(Party& party) {
  urma_jfs_wr_t wr = urma_test::send_request(party.self, &party.here);
  warm_up(party, &wr, true);
  count(party, &wr, true, Counting::kPost, "send-post");
  count(party, &wr, true, Counting::kReceivePost, "receive-post");
  count(party, &wr, true, Counting::kReceivePoll, "receive-poll");
  count(party, &wr, true, Counting::kPoll, "send-poll");
  wr.flag.bs.inline_flag = 1;
  count(party, &wr, true, Counting::kPost, "send-inline-post");
}

// Polls without result. Every 32nd looks further, and is counted too.
void count_empty_poll(urma_jfc_t* jfc, const std::string& name) {
  urma_cr_t record;
  for (int i = 0; i < kCalls; ++i) {
    require(
        call(Counting::kPoll, Counting::kPoll, [&] { return urma_poll_jfc(jfc, 1, &record); }) == 0,
        name + ": there is something");
  }
  dump(name, kCalls);
}

// The same request 16 times, in one call, and one poll for all records.
void count_chain(Party& party, const urma_jfs_wr_t& wr, bool each, Counting counted,
                 const std::string& name) {
  std::array<urma_jfs_wr_t, kChain> chain;
  chain.fill(wr);
  for (int i = 0; i < kChain; ++i) {
    chain[i].flag.bs.complete_enable = each || i == kChain - 1;
    chain[i].next = i + 1 < kChain ? &chain[i + 1] : nullptr;
  }
  std::array<urma_cr_t, kChain> records;
  Endpoint& endpoint = party.endpoint;
  for (int i = 0; i < kCalls; ++i) {
    urma_jfs_wr_t* bad;
    const urma_status_t posted = call(counted, Counting::kPost, [&] {
      return urma_post_jetty_send_wr(endpoint.jetty, &chain.front(), &bad);
    });
    const int polled = call(counted, Counting::kPoll, [&] {
      return urma_poll_jfc(endpoint.send_jfc, kChain, records.data());
    });
    require(posted == URMA_SUCCESS && polled == (each ? kChain : 1),
            name + ": a chain does not end at once");
  }
  dump(name, kCalls * kChain);
}

// 16 messages, posted in one call and taken in one poll, with as many receives in one call. The
// last one leaves a record.
void one_chain_of_messages(Party& party, Counting counted) {
  std::array<urma_jfs_wr_t, kChain> sends;
  std::array<urma_jfr_wr_t, kChain> receives;
  sends.fill(urma_test::send_request(party.self, &party.here));
  receives.fill({{&party.into, 1}, 7, nullptr});
  for (int i = 0; i < kChain; ++i) {
    const bool last = i == kChain - 1;
    sends[i].flag.bs.complete_enable = last;
    sends[i].next = last ? nullptr : &sends[i + 1];
    receives[i].next = last ? nullptr : &receives[i + 1];
  }
  std::array<urma_cr_t, kChain> records;
  Endpoint& endpoint = party.endpoint;
  urma_jfr_wr_t* bad_receive;
  urma_jfs_wr_t* bad;
  const urma_status_t posted = call(counted, Counting::kReceivePost, [&] {
    return urma_post_jetty_recv_wr(endpoint.jetty, receives.data(), &bad_receive);
  });
  const urma_status_t sent = call(counted, Counting::kPost, [&] {
    return urma_post_jetty_send_wr(endpoint.jetty, sends.data(), &bad);
  });
  const int taken = call(counted, Counting::kReceivePoll, [&] {
    return urma_poll_jfc(endpoint.receive_jfc, kChain, records.data());
  });
  const int ended = call(counted, Counting::kPoll,
                         [&] { return urma_poll_jfc(endpoint.send_jfc, kChain, records.data()); });
  require(posted == URMA_SUCCESS && sent == URMA_SUCCESS && taken == kChain && ended == 1,
          "a chain of messages does not end at once");
}

void count_chains_of_messages(Party& party) {
  const std::pair<Counting, const char*> all[] = {{Counting::kReceivePost, "receive-chain-post"},
                                                  {Counting::kPost, "send-chain-post"},
                                                  {Counting::kReceivePoll, "receive-chain-poll"},
                                                  {Counting::kPoll, "send-chain-poll"}};
  for (const auto& [counted, name] : all) {
    for (int i = 0; i < kCalls; ++i) one_chain_of_messages(party, counted);
    dump(name, kCalls * kChain);
  }
}

void count_writes_inline(Party& party) {
  urma_jfs_wr_t wr = urma_test::write_request(party.self, &party.here, &party.there);
  wr.flag.bs.inline_flag = 1;
  warm_up(party, &wr, false);
  count(party, &wr, false, Counting::kPost, "write-inline-post");
}

void count_one_sided(Party& party, urma_jfs_wr_t wr, const std::string& name) {
  warm_up(party, &wr, false);
  count(party, &wr, false, Counting::kPost, name + "-post");
  count(party, &wr, false, Counting::kPoll, name + "-poll");
  count_chain(party, wr, false, Counting::kPost, name + "-chain-post");
  count_chain(party, wr, true, Counting::kPoll, name + "-chain-poll");
}

// A message whose two records come from one JFC, in either order.
void one_message(Party& party, urma_jfs_wr_t* wr, Counting counted) {
  Endpoint& endpoint = party.endpoint;
  endpoint.post_receive(party.segment, party.memory + 8192, 64, 7);
  endpoint.post(*wr);
  for (const Counting poll : {Counting::kReceivePoll, Counting::kPoll}) {
    urma_cr_t record = {};
    int got = 0;
    do {
      got = call(counted, poll, [&] { return urma_poll_jfc(endpoint.send_jfc, 1, &record); });
    } while (counted == Counting::kNothing && got == 0);
    require(got == 1 && record.status == URMA_CR_SUCCESS, "a message does not complete at once");
  }
}

// Queues that complete into the same JFC.
void count_in_one_jfc(Party& party) {
  urma_jfs_wr_t message = urma_test::send_request(party.self, &party.here);
  for (int i = 0; i < kWarmUp; ++i) one_message(party, &message, Counting::kNothing);
  for (const Counting counted : {Counting::kReceivePoll, Counting::kPoll}) {
    for (int i = 0; i < kCalls; ++i) one_message(party, &message, counted);
    dump(counted == Counting::kPoll ? "one-jfc-second-poll" : "one-jfc-first-poll", kCalls);
  }
  urma_jfs_wr_t write = urma_test::write_request(party.self, &party.here, &party.there);
  count(party, &write, false, Counting::kPoll, "one-jfc-write-poll");
  count_empty_poll(party.endpoint.send_jfc, "one-jfc-empty-poll");
}

// An import of a segment that was imported before, and its end.
void count_imports(Party& party) {
  urma_seg_t part = party.segment->seg;
  part.len = 2048;
  urma_test::SegmentId mapped = party.endpoint.segment_id(party.segment);
  mapped.len = part.len;
  // The library's thread releases the first import after it has said that it is mapped, but before
  // it answers the second one: from then on one import is kept.
  for (int i = 0; i < 2; ++i) party.endpoint.unimport(party.endpoint.import(mapped, true));
  for (int i = 0; i < kWarmUp + kCalls; ++i) {
    const Counting counted = i < kWarmUp ? Counting::kNothing : Counting::kPost;
    require(
        call(counted, Counting::kPost,
             [&] {
               return urma_unimport_seg(urma_import_seg(party.endpoint.ctx, &part, nullptr, 0, {}));
             }) == URMA_SUCCESS,
        "an import does not end");
  }
  dump("import", kCalls);
}

// This thread then has the bias of all locks, until the next one comes.
void use_in_another_thread(Party& party) {
  std::thread([&] {
    urma_jfs_wr_t wr = urma_test::send_request(party.self, &party.here);
    warm_up(party, &wr, true);
  }).join();
}

void count_each(Party& party) {
  count_one_sided(party, urma_test::write_request(party.self, &party.here, &party.there), "write");
  count_one_sided(party, urma_test::read_request(party.self, &party.here, &party.there), "read");
  count_one_sided(party, urma_test::add_request(party.self, &party.here, &party.there, 1), "add");
  count_one_sided(party, urma_test::cas_request(party.self, &party.here, &party.there, 0, 0),
                  "cas");
  count_writes_inline(party);
  count_sends(party);
  count_chains_of_messages(party);
  count_imports(party);
  count_empty_poll(party.endpoint.send_jfc, "empty-send-poll");
  count_empty_poll(party.endpoint.receive_jfc, "empty-receive-poll");
}

void count_all(const std::string& queues) {
  urma_test::Config config;
  config.one_jfc = queues == "one_jfc";
  config.lock_free = queues == "lock_free";
  config.max_inline = 8;
  Party party(config);
  if (queues == "shared") use_in_another_thread(party);
  // Twice, since something may happen once: an answer of the network that comes late.
  for (int i = 0; i < 2; ++i) {
    require_mapped(party.remote);
    config.one_jfc ? count_in_one_jfc(party) : count_each(party);
  }
  require_mapped(party.remote);
}

}  // namespace

int main(int argc, char** argv) {
  return argc == 2 ? urma_test::count_in([&] { count_all(argv[1]); }) : 2;
}
