// SPDX-License-Identifier: MIT
//
// Network namespaces for tests: `ip` makes what is in them.
#ifndef TEST_TCP_NETWORKS_H_
#define TEST_TCP_NETWORKS_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "urma/base/fd.h"

namespace urma::tcp {

inline void ip(const std::string& arguments) {
  ASSERT_EQ(std::system(("ip " + arguments).c_str()), 0) << "ip " << arguments;
}

// A private one, which the creating thread enters.
class Network {
 public:
  Network() {
    const int more = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
    if (::unshare(CLONE_NEWNET | more) != 0) return;
    fd_.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (std::system("ip link set lo up") != 0) fd_.reset();
  }
  // False if this user may not have one, or there is no `ip`.
  bool allowed() const { return fd_.valid(); }
  void enter() const { ASSERT_EQ(::setns(fd_.get(), CLONE_NEWNET), 0); }
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
  }

 private:
  Fd fd_;
};

// In SetUp(), of a test that needs some.
#define SKIP_UNLESS_ALLOWED(networks) \
  if (!(networks))                    \
  GTEST_SKIP() << "cannot create a network namespace; run as root, with ip(8) installed"

// Two of them with a cable between them: 10.99.0.1 and fd99::1, 10.99.0.2 and fd99::2.
class TwoNetworks : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_UNLESS_ALLOWED(here_.allowed() && there_.allowed());
    here_.enter();
    ip("link add wire type veth peer name eriw netns " + there_.path());
    connect("wire", "1");
    there_.enter();
    connect("eriw", "2");
    here_.enter();
  }

  const Network here_, there_;

 private:
  static void connect(const std::string& end, const std::string& number) {
    ip("addr add 10.99.0." + number + "/24 dev " + end);
    ip("addr add fd99::" + number + "/64 dev " + end + " nodad");
    ip("link set " + end + " up");
  }
};

}  // namespace urma::tcp

#endif  // TEST_TCP_NETWORKS_H_
