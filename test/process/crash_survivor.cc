// SPDX-License-Identifier: MIT
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "test/process/crash_cast.h"
#include "test/process/footprint.h"

namespace urma_test {
namespace {

constexpr uint64_t kReceives = 32;
constexpr uint64_t kBoundReceives = 16;
constexpr uint64_t kWindow = 8;  // requests to the victim in flight
constexpr size_t kPage = 4096;
constexpr size_t kWorkBytes = (kReceives + kBoundReceives + 2) * kSlotBytes;
constexpr uint32_t kWorkToken = 77;
// Rounds after which a survivor has made everything that it makes once and keeps.
constexpr uint64_t kWarmUp = 4 * kRoles.size();
// What malloc and the page accounting of the kernel may differ by, regardless of the number of dead
// peers.
constexpr uint64_t kSlackBytes = 1 << 20;
constexpr int64_t kSlackAreas = 8;

// The resources of a process.
struct Holdings {
  int64_t descriptors = 0;
  int64_t memfd_areas = 0;
  int64_t areas = 0;
};

Holdings count_holdings() {
  Holdings found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    // Opened when memory of the process first moves, in any round; not counted.
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    found.descriptors += target.rfind("/proc/", 0) == 0 ? 0 : 1;
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    ++found.areas;
    if (line.find("memfd:") != std::string::npos) ++found.memfd_areas;
  }
  return found;
}

// Their names, to report a leak.
std::string descriptors() {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    found += std::filesystem::read_symlink(entry.path(), gone).string();
    std::ifstream info("/proc/self/fdinfo/" + entry.path().filename().string());
    for (std::string line; std::getline(info, line);) {
      if (line.rfind("Pid:", 0) == 0) found += " of " + line.substr(5);
    }
    found += "\n";
  }
  return found;
}

// A fixed size, so that every survivor has the same mapping whatever malloc does.
char* map_pages(size_t bytes) {
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::runtime_error("no memory for the test");
  std::memset(data, 's', bytes);
  return static_cast<char*>(data);
}

Config survivor_config() {
  Config config;
  config.receive_depth = kReceives;
  config.send_depth = 2 * kWindow + 4 * kSurvivors;
  return config;
}

class Survivor {
 public:
  Survivor(Channel& channel, uint64_t index)
      : channel_(channel), index_(index), endpoint_(survivor_config()), bound_(endpoint_) {
    EXPECT_EQ(::fcntl(endpoint_.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
    // Under a token, so that it is never shared: sharing is permanent and would look like a leak.
    work_segment_ = endpoint_.add(work_, kWorkBytes, kAllAccess, kWorkToken);
    for (uint64_t i = 0; i < kReceives + kBoundReceives; ++i) post_receive(i);
    offer_again();
    meet_friends();
  }

  void run() {
    for (;;) {
      const auto round = channel_.receive<Round>();
      begin_round();
      if (round.at_end) break;
      Report report = {};
      if (round.role != Role::kStarter) report = outlive(round);
      talk_to_friends(round.number);
      expect_own_page_whole();
      offer_again();
      settle(round.number);
      report.offer = offer();
      channel_.send(report);
    }
    expect_no_growth();
    if (shared_segment_ != nullptr) endpoint_.remove(shared_segment_);
    shared_segment_ = nullptr;
    bound_.close();
    endpoint_.close();
  }

 private:
  // The purpose of a request, in its user_ctx.
  enum Purpose : uint64_t { kToVictim, kToFriend, kToGuest, kFirst };

  CrashOffer offer() {
    return {endpoint_.queue_id(), bound_.id(), endpoint_.segment_id(shared_segment_)};
  }

  // Makes memory shared, and private again, while victims die.
  void offer_again() {
    if (shared_segment_ != nullptr) endpoint_.remove(shared_segment_);
    shared_segment_ = endpoint_.add(shared_, kSharedBytes);
  }

  void meet_friends() {
    channel_.send(offer());
    for (uint64_t i = 0; i < kSurvivors; ++i) {
      const auto other = channel_.receive<CrashOffer>();
      friends_.push_back(i == index_ ? nullptr : endpoint_.import(other.queue));
    }
  }

  void post_receive(uint64_t slot) {
    char* const memory = work_ + slot * kSlotBytes;
    if (slot < kReceives) {
      endpoint_.post_receive(work_segment_, memory, kSlotBytes, slot);
    } else {
      bound_.post_receive(work_segment_, memory, kSlotBytes, slot);
    }
  }
  char* sent_memory() { return work_ + (kReceives + kBoundReceives) * kSlotBytes; }

  // Handles everything that has arrived.
  void pump() {
    urma_cr_t records[16];
    const int64_t now = now_ns();
    report_.longest_pause_ns =
        std::max(report_.longest_pause_ns, now - std::exchange(last_pump_ns_, now));
    int n = urma_poll_jfc(endpoint_.send_jfc, 16, records);
    EXPECT_GE(n, 0);
    const bool idle = n == 0;
    for (int i = 0; i < n; ++i) note_sent(records[i]);
    n = urma_poll_jfc(endpoint_.receive_jfc, 16, records);
    EXPECT_GE(n, 0);
    for (int i = 0; i < n; ++i) note_received(records[i]);
    if (idle && n == 0) ::sched_yield();
  }

  void note_sent(const urma_cr_t& record) {
    if (record.status == URMA_CR_WR_FLUSH_ERR_DONE) return;
    --in_flight_[record.user_ctx];
    if (record.user_ctx == kToFriend || record.user_ctx == kFirst) {
      EXPECT_EQ(record.status, URMA_CR_SUCCESS);
    } else if (record.user_ctx == kToVictim && record.status != URMA_CR_SUCCESS) {
      // A jetty in ERROR returns what its peer has not received.
      EXPECT_TRUE(
          record.status == URMA_CR_ACK_TIMEOUT_ERR ||
          (record.local_id == bound_.jetty->jetty_id.id && record.status == URMA_CR_WR_FLUSH_ERR))
          << record.status;
      if (report_.requests++ == 0) report_.first_error_ns = now_ns();
      report_.last_error_ns = now_ns();
    } else if (record.user_ctx == kToGuest) {
      guest_status_ = record.status;
    }
  }

  // The death of the sender may have cut off a message.
  void note_received(const urma_cr_t& record) {
    if (record.status == URMA_CR_SUCCESS) {
      Message message;
      std::memcpy(&message, work_ + record.user_ctx * kSlotBytes, sizeof(message));
      if (message.kind == Kind::kHello) heard_[message.from] = message.round;
      if (message.kind == Kind::kSegment) guest_ = message.memory;
    }
    post_receive(record.user_ctx);
  }

  void pump_until(const char* what, milliseconds limit, const std::function<bool()>& done) {
    const auto deadline = Clock::now() + limit;
    while (!done()) {
      pump();
      if (Clock::now() > deadline) throw std::runtime_error(std::string("not in time: ") + what);
    }
  }

  Report outlive(const Round& round) {
    victim_queue_ = endpoint_.import(round.victim.queue);
    victim_segment_ = endpoint_.import(round.victim.segment);
    const bool binds = round.role == Role::kBinder;
    urma_target_jetty_t* peer = nullptr;
    if (binds) {
      peer = bound_.import(round.victim.bound_queue);
      EXPECT_EQ(urma_bind_jetty(bound_.jetty, peer), URMA_SUCCESS);
    }
    report_ = {};
    last_pump_ns_ = now_ns();
    // The previous victim had the same id; this one is reachable at once.
    write_to_victim(kFirst, 64, false);
    pump_until("the first request", crash_limit(), [this] { return in_flight_[kFirst] == 0; });
    channel_.send('r');
    while (report_.requests == 0) {
      keep_busy(round.role);
      pump();
      if (guest_) visit_guest();
    }
    // Requests posted now also complete.
    write_to_victim(kToVictim, 64, false);
    pump_until("the last error", patience(seconds(10)),
               [this] { return in_flight_[kToVictim] == 0; });
    if (binds) expect_jetty_in_error(peer);
    if (guest_) visit_guest();
    endpoint_.unimport(victim_queue_);
    endpoint_.unimport(victim_segment_);
    return report_;
  }

  void keep_busy(Role role) {
    for (; in_flight_[kToVictim] < kWindow; ++turn_) {
      const size_t bytes = turn_ % 10 == 0 ? kSlotBytes : 64;
      if (role == Role::kReceiver && turn_ % 2 == 0) {
        send_to_victim(bytes);
      } else {
        write_to_victim(kToVictim, bytes, role == Role::kBinder && turn_ % 2 == 0);
      }
    }
  }

  void send_to_victim(size_t bytes) {
    *reinterpret_cast<Message*>(sent_memory()) = Message{};
    urma_sge_t here = piece(work_segment_, sent_memory(), bytes);
    endpoint_.post(send_request(victim_queue_, &here, kToVictim));
    ++in_flight_[kToVictim];
  }

  void write_to_victim(Purpose purpose, size_t bytes, bool bound) {
    urma_sge_t here = piece(work_segment_, sent_memory(), bytes);
    urma_sge_t there = piece(victim_segment_, victim_segment_->seg.ubva.va + kPage, bytes);
    const uint64_t choice = turn_ % 3;
    if (choice == 2) here.len = there.len = 8;
    urma_target_jetty_t* const queue = bound ? nullptr : victim_queue_;
    const urma_jfs_wr_t wr = choice == 0   ? write_request(queue, &here, &there, purpose)
                             : choice == 1 ? read_request(queue, &here, &there, purpose)
                                           : add_request(queue, &here, &there, 1, purpose);
    if (bound) {
      bound_.post(wr);
    } else {
      endpoint_.post(wr);
    }
    ++in_flight_[purpose];
  }

  // Memory of a registrar; both may be gone.
  void visit_guest() {
    urma_seg_t remote = {};
    remote.ubva.eid = guest_->eid;
    remote.ubva.va = guest_->va;
    remote.len = guest_->len;
    remote.token_id = guest_->token_id;
    remote.attr.bs.token_policy = URMA_TOKEN_NONE;
    guest_.reset();
    urma_token_t token = {};
    urma_import_seg_flag_t flag = {};
    flag.bs.mapping = URMA_SEG_MAPPED;
    urma_target_seg_t* const segment = urma_import_seg(endpoint_.ctx, &remote, &token, 0, flag);
    if (segment == nullptr) return;
    urma_sge_t here = piece(work_segment_, sent_memory() + kSlotBytes, kPage);
    urma_sge_t there = piece(segment, remote.ubva.va, kPage);
    endpoint_.post(read_request(victim_queue_, &here, &there, kToGuest));
    ++in_flight_[kToGuest];
    pump_until("a look at memory that goes", crash_limit(),
               [this] { return in_flight_[kToGuest] == 0; });
    EXPECT_TRUE(guest_status_ == URMA_CR_SUCCESS || guest_status_ == URMA_CR_ACK_TIMEOUT_ERR ||
                guest_status_ == URMA_CR_REM_ACCESS_ABORT_ERR)
        << guest_status_;
    EXPECT_EQ(urma_unimport_seg(segment), URMA_SUCCESS);
  }

  void expect_jetty_in_error(urma_target_jetty_t* peer) {
    pollfd waited = {endpoint_.ctx->async_fd, POLLIN, 0};
    EXPECT_EQ(::poll(&waited, 1, static_cast<int>(crash_limit().count())), 1);
    urma_async_event_t event = {};
    EXPECT_EQ(urma_get_async_event(endpoint_.ctx, &event), URMA_SUCCESS);
    EXPECT_EQ(event.event_type, URMA_EVENT_JETTY_ERR);
    EXPECT_EQ(event.element.jetty, bound_.jetty);
    urma_ack_async_event(&event);
    urma_jetty_cfg_t cfg = {};
    urma_jetty_attr_t attr = {};
    EXPECT_EQ(urma_query_jetty(bound_.jetty, &cfg, &attr), URMA_SUCCESS);
    EXPECT_EQ(attr.state, URMA_JETTY_STATE_ERROR);
    EXPECT_EQ(urma_unbind_jetty(bound_.jetty), URMA_SUCCESS);
    EXPECT_EQ(urma_unimport_jetty(peer), URMA_SUCCESS);
    attr.mask = JETTY_STATE;
    attr.state = URMA_JETTY_STATE_READY;
    EXPECT_EQ(urma_modify_jetty(bound_.jetty, &attr), URMA_SUCCESS);
  }

  void talk_to_friends(uint64_t round) {
    auto* const message = reinterpret_cast<Message*>(sent_memory());
    *message = {Kind::kHello, index_, round, {}};
    heard_[index_] = round;
    for (urma_target_jetty_t* queue : friends_) {
      if (queue == nullptr) continue;
      urma_sge_t here = piece(work_segment_, message, sizeof(*message));
      endpoint_.post(send_request(queue, &here, kToFriend));
      ++in_flight_[kToFriend];
    }
    pump_until("the other survivors", patience(seconds(10)), [this, round] {
      return in_flight_[kToFriend] == 0 &&
             std::all_of(heard_.begin(), heard_.end(),
                         [round](uint64_t heard) { return heard >= round; });
    });
  }

  void expect_own_page_whole() const {
    for (size_t i = 0; i < kPage; ++i) ASSERT_EQ(shared_[i], 's') << "byte " << i;
  }

  // After the limit, nothing of a victim is left. The first rounds, after a second too, set the
  // baseline.
  void settle(uint64_t round) {
    if (round + 1 < kWarmUp) return;
    Holdings now = count_holdings();
    if (!normal_) {
      const auto end = Clock::now() + patience(seconds(1));
      for (Holdings next = now; Clock::now() < end; next = count_holdings()) {
        if (next.descriptors <= now.descriptors) now = next;
        pump();
      }
      normal_ = now;
      footprint_ = take_footprint();
      return;
    }
    const auto deadline = Clock::now() + crash_limit();
    while (now.descriptors > normal_->descriptors || now.memfd_areas > normal_->memfd_areas) {
      ASSERT_TRUE(Clock::now() < deadline)
          << now.descriptors << " descriptors, " << now.memfd_areas << " areas of memfds; were "
          << normal_->descriptors << " and " << normal_->memfd_areas << "\n"
          << descriptors();
      pump();
      now = count_holdings();
    }
  }

  void expect_no_growth() const {
    if (!normal_) return;
    const Holdings now = count_holdings();
    EXPECT_LE(now.areas, normal_->areas + kSlackAreas);
    EXPECT_LE(growth(footprint_, take_footprint()), kSlackBytes);
  }

  Channel& channel_;
  const uint64_t index_;
  char* const work_ = map_pages(kWorkBytes);
  char* const shared_ = map_pages(kSharedBytes);
  Endpoint endpoint_;
  BoundQueue bound_;
  urma_target_seg_t* work_segment_ = nullptr;
  urma_target_seg_t* shared_segment_ = nullptr;
  std::vector<urma_target_jetty_t*> friends_;
  urma_target_jetty_t* victim_queue_ = nullptr;
  urma_target_seg_t* victim_segment_ = nullptr;
  std::array<uint64_t, 4> in_flight_ = {};
  std::array<uint64_t, kSurvivors> heard_ = {};
  std::optional<SegmentId> guest_;
  urma_cr_status_t guest_status_ = URMA_CR_SUCCESS;
  Report report_ = {};
  int64_t last_pump_ns_ = 0;
  uint64_t turn_ = 0;
  std::optional<Holdings> normal_;
  Footprint footprint_ = {};  // then
};

}  // namespace

void survive(Channel& channel, uint64_t index) { Survivor(channel, index).run(); }

}  // namespace urma_test
