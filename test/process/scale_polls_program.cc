// SPDX-License-Identifier: MIT
//
// Polls under callgrind, started without collection: JFCs with one silent peer, then with a
// thousand. Dumps the costs under names, and prints each name with the number of its polls. Exits
// with 3 if the library does not start.
#include <array>
#include <stdexcept>
#include <string>

#include "test/process/counting.h"
#include "test/process/endpoint.h"

namespace {

using urma_test::Endpoint;
using urma_test::piece;

constexpr uint32_t kPeers = 1000;
constexpr int kPolls = 3200;
// Until sources that had something count as silent for good.
constexpr int kWarmUp = 2000;

urma_test::Config parts_config() {
  urma_test::Config config;
  config.jetty = false;
  config.lock_free = true;
  return config;
}

// One process that plays all peers.
class Peers {
 public:
  Peers() { segment_ = endpoint_.add(memory_.data(), memory_.size()); }

  // Adds a JFS and a JFR. The JFS sends to the JFR of the endpoint, which all peers share, and to
  // the new one.
  void add() {
    urma_jfs_cfg_t jfs_cfg = endpoint_.jfs->jfs_cfg;
    jfs_cfg.jfc = of_senders;
    urma_jfs_t* jfs = urma_create_jfs(endpoint_.ctx, &jfs_cfg);
    urma_jfr_cfg_t jfr_cfg = endpoint_.jfr->jfr_cfg;
    jfr_cfg.id = 0;
    jfr_cfg.jfc = of_receivers;
    urma_jfr_t* jfr = urma_create_jfr(endpoint_.ctx, &jfr_cfg);
    if (jfs == nullptr || jfr == nullptr) throw std::runtime_error("no JFS or JFR");
    talk(jfs, endpoint_.jfr);
    talk(jfs, jfr);
  }
  void count(urma_jfc_t* jfc, const std::string& name) {
    for (int i = 0; i < kWarmUp; ++i) poll(jfc, name);
    for (int i = 0; i < kPolls; ++i) {
      CALLGRIND_TOGGLE_COLLECT;
      poll(jfc, name);
      CALLGRIND_TOGGLE_COLLECT;
    }
    urma_test::dump(name, kPolls);
  }
  void count_all(const std::string& peers) {
    count(endpoint_.receive_jfc, "senders-of-a-jfr-" + peers);
    count(of_senders, "jfs-of-a-jfc-" + peers);
    count(of_receivers, "jfr-of-a-jfc-" + peers);
  }

 private:
  static constexpr size_t kBytes = 8;

  urma_jfc_t* make_jfc() {
    urma_jfc_cfg_t cfg = endpoint_.send_jfc->jfc_cfg;
    urma_jfc_t* jfc = urma_create_jfc(endpoint_.ctx, &cfg);
    if (jfc == nullptr) throw std::runtime_error("no JFC");
    return jfc;
  }
  void talk(urma_jfs_t* jfs, urma_jfr_t* jfr) {
    urma_target_jetty_t* queue =
        endpoint_.import(urma_test::QueueId{endpoint_.ctx->eid, jfr->jfr_id.id, 0, false});
    urma_sge_t room = piece(segment_, memory_.data(), kBytes);
    urma_jfr_wr_t receive = {{&room, 1}, 0, nullptr};
    urma_jfr_wr_t* bad_receive = nullptr;
    urma_sge_t from = piece(segment_, memory_.data() + kBytes, kBytes);
    urma_jfs_wr_t wr = urma_test::send_request(queue, &from);
    urma_jfs_wr_t* bad = nullptr;
    if (urma_post_jfr_wr(jfr, &receive, &bad_receive) != URMA_SUCCESS ||
        urma_post_jfs_wr(jfs, &wr, &bad) != URMA_SUCCESS) {
      throw std::runtime_error("a post is refused");
    }
    urma_test::wait_for_success(jfr->jfr_cfg.jfc, 0);
    urma_test::wait_for_success(jfs->jfs_cfg.jfc, 0);
  }
  static void poll(urma_jfc_t* jfc, const std::string& name) {
    urma_cr_t record;
    if (urma_poll_jfc(jfc, 1, &record) != 0)
      throw std::runtime_error(name + ": there is something");
  }

  Endpoint endpoint_{parts_config()};
  std::array<char, 2 * kBytes> memory_ = {};
  urma_target_seg_t* segment_;

 public:
  urma_jfc_t* const of_senders = make_jfc();
  urma_jfc_t* const of_receivers = make_jfc();
};

}  // namespace

int main() {
  return urma_test::count_in([] {
    Peers peers;
    peers.add();
    peers.count_all("1");
    for (uint32_t i = 1; i < kPeers; ++i) peers.add();
    peers.count_all("1000");
  });
}
