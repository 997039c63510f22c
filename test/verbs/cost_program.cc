// SPDX-License-Identifier: MIT
//
// cost_program lock_free|ordinary|shared: runs posts and polls over a device that does almost
// nothing, under callgrind, started without collection, and dumps the cost of each under its name.
// Prints the number of calls of each. Shared queues were used by another thread before. Exits with
// 3 if the library does not start.

#include <array>
#include <string>
#include <thread>

#include "test/process/counting.h"
#include "test/process/endpoint.h"
#include "test/verbs/bare_device.h"

namespace {

using urma_test::call;
using urma_test::Counting;
using urma_test::dump;
using urma_test::Endpoint;
using urma_test::piece;
using urma_test::require;

constexpr int kWarmUp = 300;
constexpr int kCalls = 200;
constexpr int kChain = 16;

// The same request, `chain` times per call, and one poll for as many records.
struct Work {
  std::string name;
  urma_jfs_wr_t request;
  bool message = false;
  int chain = 1;
  bool each = true;  // leaves a record, else the last one of the chain
};

class Party {
 public:
  explicit Party(const urma_test::Config& config) : endpoint_(config) {
    segment_ = endpoint_.add(memory_.data(), memory_.size());
    remote_ = endpoint_.import(endpoint_.segment_id(segment_));
    self_ = endpoint_.import(endpoint_.queue_id());
    here_ = piece(segment_, memory_.data(), 8);
    there_ = piece(remote_, memory_.data() + 4096, 8);
    into_ = piece(segment_, memory_.data() + 8192, 64);
  }

  void connect();
  void use_in_another_thread();
  void count_all();

 private:
  void count_work(const Work& work);
  void count_chains(Work work);
  void count(const Work& work, Counting counted, const char* what);
  void one_round(const Work& work, Counting counted);
  void count_empty_poll(urma_jfc_t* jfc, const std::string& name);
  void fill_chain(const Work& work);

  Endpoint endpoint_;
  urma_test::BareDevice* const bare_ = urma_test_bare_device();
  std::array<char, 16384> memory_ = {};
  urma_target_seg_t* segment_;
  urma_target_seg_t* remote_;
  urma_target_jetty_t* self_;
  urma_sge_t here_, there_, into_;
  std::array<urma_jfs_wr_t, kChain> chain_;
  std::array<urma_jfr_wr_t, kChain> receives_;
  std::array<urma_cr_t, kChain> records_;
};

// Over the software device, until every question to the peer is answered.
void Party::connect() {
  endpoint_.post_receive(segment_, memory_.data() + 8192, 64, 7);
  endpoint_.post(urma_test::send_request(self_, &here_));
  urma_test::wait_for_success(endpoint_.receive_jfc, 7);
  urma_test::wait_for_success(endpoint_.send_jfc, 0);
  endpoint_.post(urma_test::write_request(self_, &here_, &there_));
  urma_test::wait_for_success(endpoint_.send_jfc, 0);
  bare_->begin();
}

// This thread then has the bias of all locks, until the next one comes.
void Party::use_in_another_thread() {
  std::thread([this] {
    fill_chain({"", urma_test::send_request(self_, &here_), true});
    for (int i = 0; i < kWarmUp; ++i) one_round({"", {}, true}, Counting::kNothing);
  }).join();
}

void Party::fill_chain(const Work& work) {
  chain_.fill(work.request);
  for (int i = 0; i < work.chain; ++i) {
    const bool last = i + 1 == work.chain;
    chain_[i].flag.bs.complete_enable = work.each || last;
    chain_[i].next = last ? nullptr : &chain_[i + 1];
    receives_[i] = {{&into_, 1}, 7, last ? nullptr : &receives_[i + 1]};
  }
}

void Party::one_round(const Work& work, Counting counted) {
  urma_jfr_wr_t* bad_receive;
  urma_jfs_wr_t* bad;
  const int records = work.each ? work.chain : 1;
  const uint64_t posts = bare_->posts;
  if (work.message) {
    require(call(counted, Counting::kReceivePost,
                 [&] {
                   return urma_post_jetty_recv_wr(endpoint_.jetty, receives_.data(), &bad_receive);
                 }) == URMA_SUCCESS,
            "a receive is refused");
  }
  require(call(counted, Counting::kPost,
               [&] { return urma_post_jetty_send_wr(endpoint_.jetty, chain_.data(), &bad); }) ==
              URMA_SUCCESS,
          "a request is refused");
  require(bare_->posts == posts + 1, "a chain is not posted as one list of the device");
  if (work.message) {
    const uint64_t polls = bare_->polls;
    require(call(counted, Counting::kReceivePoll,
                 [&] {
                   return urma_poll_jfc(endpoint_.receive_jfc, work.chain, records_.data());
                 }) == work.chain,
            "messages are not there at once");
    require(bare_->polls == polls + 1, "a poll for messages asks the device again");
    require(records_[0].status == URMA_CR_SUCCESS && records_[0].completion_len == here_.len &&
                records_[0].user_ctx == 7,
            "a message is not what was sent");
  }
  const uint64_t polls = bare_->polls;
  require(
      call(counted, Counting::kPoll,
           [&] { return urma_poll_jfc(endpoint_.send_jfc, records, records_.data()); }) == records,
      "requests do not end at once");
  require(bare_->polls == polls + 1, "a poll asks the device again");
  require(records_[records - 1].status == URMA_CR_SUCCESS, "a request fails");
}

void Party::count(const Work& work, Counting counted, const char* what) {
  const std::string name = work.name + " " + what;
  fill_chain(work);
  for (int i = 0; i < kWarmUp; ++i) one_round(work, Counting::kNothing);
  for (int i = 0; i < kCalls; ++i) one_round(work, counted);
  dump(name, kCalls * work.chain);
}

void Party::count_work(const Work& work) {
  count(work, Counting::kPost, "post");
  if (work.message) {
    count(work, Counting::kReceivePost, "post of a receive");
    count(work, Counting::kReceivePoll, "poll of a message");
  }
  count(work, Counting::kPoll, "poll");
}

void Party::count_chains(Work work) {
  work.chain = kChain;
  const std::string name = work.name;
  work.name = name + " chain";
  count_work(work);
  if (work.message) return;
  work.name = name + " quiet chain";
  work.each = false;
  count_work(work);
}

// Polls without result. Every 32nd looks further, and is counted too.
void Party::count_empty_poll(urma_jfc_t* jfc, const std::string& name) {
  for (int i = 0; i < kCalls; ++i) {
    require(call(Counting::kPoll, Counting::kPoll,
                 [&] { return urma_poll_jfc(jfc, 1, records_.data()); }) == 0,
            name + ": there is something");
  }
  dump(name, kCalls);
}

void Party::count_all() {
  const Work all[] = {
      {"WRITE", urma_test::write_request(self_, &here_, &there_)},
      {"READ", urma_test::read_request(self_, &here_, &there_)},
      {"FADD", urma_test::add_request(self_, &here_, &there_, 1)},
      {"CAS", urma_test::cas_request(self_, &here_, &there_, 0, 0)},
      {"SEND", urma_test::send_request(self_, &here_), true},
  };
  for (const Work& work : all) {
    count_work(work);
    count_chains(work);
  }
  for (Work work : {all[0], all[4]}) {
    work.name += " inline";
    work.request.flag.bs.inline_flag = 1;
    count(work, Counting::kPost, "post");
  }
  count_empty_poll(endpoint_.send_jfc, "empty poll");
  count_empty_poll(endpoint_.receive_jfc, "empty poll for messages");
}

void run(const std::string& queues) {
  urma_test::Config config;
  config.lock_free = queues == "lock_free";
  config.max_inline = 8;
  Party party(config);
  party.connect();
  if (queues == "shared") party.use_in_another_thread();
  party.count_all();
}

}  // namespace

int main(int argc, char** argv) {
  return argc == 2 ? urma_test::count_in([&] { run(argv[1]); }) : 2;
}
