// SPDX-License-Identifier: MIT
//
// Puts the peers of each test on another host, behind a bad link. WEATHER says how bad it is:
// delay, loss, reorder or rate. CABLE says who makes the weather: the kernel (netem), or a process
// that passes on packets between two tunnels (tun).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "test/process/endpoint.h"
#include "test/process/harness.h"
#include "test/tcp/networks.h"

namespace urma_test {
namespace {

using std::chrono::microseconds;
using urma::tcp::ip;
using urma::tcp::Network;

// Of each direction.
struct Weather {
  const char* netem;
  microseconds delay{0};
  double lost = 0;     // parts of 1
  double hurried = 0;  // not delayed: they overtake others
  uint64_t bytes_per_second = 0;
};

const std::map<std::string, Weather> kWeathers = {
    {"delay", {"delay 20ms", microseconds(20'000)}},
    {"loss", {"delay 1ms loss 2%", microseconds(1000), 0.02}},
    {"reorder", {"delay 3ms reorder 25%", microseconds(3000), 0, 0.25}},
    {"rate", {"rate 1mbit limit 200", microseconds(0), 0, 0, 125'000}},
};

std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

const Weather& weather() { return kWeathers.at(setting("WEATHER")); }

// One direction of a cable.
class Lane {
 public:
  Lane(int from, int to, const Weather& weather, uint32_t seed)
      : from_(from), to_(to), weather_(weather), random_(seed) {}

  // Takes the packets that wait, except what does not fit into the queue of a router.
  void take() {
    constexpr size_t kQueue = 200;
    std::array<char, 65536> packet;
    for (ssize_t bytes; (bytes = ::read(from_, packet.data(), packet.size())) > 0;) {
      if (under_way_.size() >= kQueue || chance() < weather_.lost) continue;
      auto due = Clock::now();
      if (weather_.bytes_per_second != 0) {
        free_ = std::max(free_, due) +
                microseconds(static_cast<uint64_t>(bytes) * 1'000'000 / weather_.bytes_per_second);
        due = free_;
      }
      if (chance() >= weather_.hurried) due += weather_.delay;
      under_way_.emplace(due, std::vector<char>(packet.data(), packet.data() + bytes));
    }
  }
  void deliver() {
    while (!under_way_.empty() && under_way_.begin()->first <= Clock::now()) {
      const auto& packet = under_way_.begin()->second;
      (void)!::write(to_, packet.data(), packet.size());
      under_way_.erase(under_way_.begin());
    }
  }
  int from() const { return from_; }
  Clock::time_point next() const {
    return under_way_.empty() ? Clock::time_point::max() : under_way_.begin()->first;
  }

 private:
  double chance() { return std::uniform_real_distribution<>()(random_); }

  const int from_;
  const int to_;
  const Weather& weather_;
  std::mt19937 random_;
  std::multimap<Clock::time_point, std::vector<char>> under_way_;
  Clock::time_point free_;  // of what came before
};

// Passes on packets until it is killed.
[[noreturn]] void be_cable(int a, int b, const Weather& weather) {
  std::array<Lane, 2> lanes = {Lane(a, b, weather, 1), Lane(b, a, weather, 2)};
  for (;;) {
    const auto now = Clock::now();
    const auto next = std::min(lanes[0].next(), lanes[1].next());
    const auto wait = std::clamp<Clock::duration>(next - std::min(next, now), Clock::duration(0),
                                                  milliseconds(1000));
    std::array<pollfd, 2> waiting = {pollfd{lanes[0].from(), POLLIN, 0},
                                     pollfd{lanes[1].from(), POLLIN, 0}};
    const timespec limit = {wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
    ::ppoll(waiting.data(), waiting.size(), &limit, nullptr);
    for (Lane& lane : lanes) {
      lane.take();
      lane.deliver();
    }
  }
}

class BadLink final : public testing::Environment {
 public:
  void SetUp() override {
    here_.emplace();
    there_.emplace();
    if (!here_->allowed() || !there_->allowed()) {
      skip("cannot create a network namespace; run as root, with ip(8) installed");
    }
    here_->enter();
    const std::string missing =
        setting("CABLE") == "netem" ? lay_cable_of_kernel(weather()) : lay_own_cable(weather());
    if (!missing.empty()) skip(missing);
    ::setenv("URMA_PEER_NETWORK", there_->path().c_str(), 1);
  }
  void TearDown() override {
    if (cable_ > 0) {
      ::kill(cable_, SIGKILL);
      ::waitpid(cable_, nullptr, 0);
    }
    ::unsetenv("URMA_PEER_NETWORK");
  }

 private:
  // All tests, also those that know nothing of the weather.
  [[noreturn]] static void skip(const std::string& why) {
    std::printf("SKIPPED: %s\n", why.c_str());
    std::fflush(stdout);
    std::exit(0);
  }
  // Empty, or why it cannot be had.
  std::string lay_cable_of_kernel(const Weather& weather) {
    ip("link add wire type veth peer name eriw netns " + there_->path());
    connect(*there_, "eriw", "2");
    connect(*here_, "wire", "1");
    for (const auto& [network, end] : {std::pair(&*there_, "eriw"), std::pair(&*here_, "wire")}) {
      network->enter();
      const std::string command =
          std::string("tc qdisc add dev ") + end + " root netem " + weather.netem + " 2>&1";
      if (std::system(command.c_str()) != 0) {
        return "this kernel has no netem (CONFIG_NET_SCH_NETEM), or tc(8) is not installed";
      }
    }
    return "";
  }
  std::string lay_own_cable(const Weather& weather) {
    const int far = make_tunnel(*there_, "eriw", "2");
    const int near = make_tunnel(*here_, "wire", "1");
    if (near < 0 || far < 0) return "this kernel has no tunnels (/dev/net/tun)";
    cable_ = ::fork();
    if (cable_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      be_cable(near, far, weather);
    }
    ::close(near);
    ::close(far);
    return "";
  }
  static int make_tunnel(const Network& network, const std::string& name,
                         const std::string& number) {
    network.enter();
    const int fd = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    ifreq request = {};
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    name.copy(request.ifr_name, sizeof(request.ifr_name) - 1);
    if (fd < 0 || ::ioctl(fd, TUNSETIFF, &request) != 0) return -1;
    connect(network, name, number);
    return fd;
  }
  static void connect(const Network& network, const std::string& end, const std::string& number) {
    network.enter();
    ip("addr add 10.99.0." + number + "/24 dev " + end);
    ip("link set " + end + " up");
  }

  std::optional<Network> here_, there_;
  pid_t cable_ = -1;
};

[[maybe_unused]] const auto* const kLink = testing::AddGlobalTestEnvironment(new BadLink);

class WeatherTest : public ProcessTest {
 protected:
  ~WeatherTest() override { ::setenv("URMA_TCP_TIMEOUT_MS", before_.c_str(), 1); }

 private:
  const std::string before_ = setting("URMA_TCP_TIMEOUT_MS");
};

// Bytes that travel are a sign of life, even if they take longer than the timeout.
TEST_F(WeatherTest, ALongTransferIsNotSilence) {
  // 1.5 s at 1 Mbit/s.
  constexpr size_t kBytes = 192 << 10;
  // The kernel sends a lost packet of an opening again after a second.
  if (weather().lost == 0) ::setenv("URMA_TCP_TIMEOUT_MS", "1200", 1);
  const auto owner = [](Channel& channel) {
    std::vector<char> memory(kBytes);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    channel.send(offer_of(endpoint, segment));
    channel.sync();
    EXPECT_EQ(memory, std::vector<char>(kBytes, 'x'));
  };
  const auto sender = [](Channel& channel) {
    std::vector<char> memory(kBytes, 'x');
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment = endpoint.add(memory.data(), memory.size());
    const auto offer = channel.receive<Offer>();
    urma_target_jetty_t* queue = endpoint.import(offer.queue);
    urma_target_seg_t* theirs = endpoint.import(offer.segment);
    urma_sge_t local = piece(segment, memory.data(), kBytes);
    urma_sge_t remote = piece(theirs, offer.segment.va, kBytes);
    endpoint.post(write_request(queue, &local, &remote, 1));
    wait_for_success(endpoint.send_jfc, 1);
    std::fill(memory.begin(), memory.end(), 'y');
    endpoint.post(read_request(queue, &local, &remote, 2));
    wait_for_success(endpoint.send_jfc, 2);
    EXPECT_EQ(memory, std::vector<char>(kBytes, 'x'));
    channel.sync();
  };
  run_two("owner", owner, "sender", sender);
}

// Each connects to the other before it hears from it, if the link delays long enough. All messages
// arrive, in order.
TEST_F(WeatherTest, BothConnectAtOnce) {
  constexpr uint64_t kMessages = 50;
  const auto party = [](Channel& channel) {
    std::vector<uint64_t> memory(2 * kMessages);
    OwnedEndpoint endpoint;
    urma_target_seg_t* segment =
        endpoint.add(memory.data(), memory.size() * sizeof(memory.front()));
    for (uint64_t i = 0; i < kMessages; ++i) {
      endpoint.post_receive(segment, &memory[i], sizeof(memory[i]), i);
    }
    urma_target_jetty_t* queue = endpoint.import(channel.swap(endpoint.queue_id()));
    channel.sync();
    for (uint64_t i = 0; i < kMessages; ++i) {
      uint64_t& text = memory[kMessages + i];
      text = i;
      urma_sge_t local = piece(segment, &text, sizeof(text));
      endpoint.post(send_request(queue, &local, i));
    }
    for (uint64_t i = 0; i < kMessages; ++i) wait_for_success(endpoint.send_jfc, i);
    for (uint64_t i = 0; i < kMessages; ++i) {
      wait_for_success(endpoint.receive_jfc, i);
      EXPECT_EQ(memory[i], i);
    }
    channel.sync();
    EXPECT_TRUE(has_nothing(endpoint.receive_jfc));
  };
  run_two("a", party, "b", party);
}

}  // namespace
}  // namespace urma_test
