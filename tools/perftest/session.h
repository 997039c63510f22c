// SPDX-License-Identifier: MIT
//
// Everything that a test needs once both sides are connected, in the order of construction;
// destroyed in reverse.
#ifndef TOOLS_PERFTEST_SESSION_H_
#define TOOLS_PERFTEST_SESSION_H_

#include <optional>
#include <string>

#include "tools/perftest/config.h"
#include "tools/perftest/connect.h"
#include "tools/perftest/device.h"
#include "tools/perftest/events.h"
#include "tools/perftest/exchange.h"
#include "tools/perftest/memory.h"
#include "tools/perftest/queues.h"
#include "tools/perftest/results.h"
#include "tools/perftest/watch.h"

namespace perftest {

struct Session {
  Session(const Config& config, Exchange& exchange, Reporter& reporter);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Config& config;
  Exchange& exchange;
  Reporter& reporter;

  Device device;
  Queues queues;
  Memory memory;
  std::optional<Words> credit;  // how much the peer has received
  std::optional<Words> notify;  // the value written by WRITE_NOTIFY
  Links links;
  Watch watch;
  Sleeper sleeper;
  bool partial = false;
  uint64_t failures = 0;  // with --enable_err_continue

  bool client() const { return config.is_client(); }
  // Whether requests of the peer consume receives here.
  bool two_sided() const {
    return config.api == Api::kSend || (config.api == Api::kWrite && config.immediate);
  }
  // Whether this side posts the measured requests.
  bool active() const { return client() || config.bidirectional; }
  // Whether this side polls for arrivals.
  bool receives() const { return two_sided() && (!client() || config.bidirectional); }
  bool measures() const { return active() || receives(); }
  // Whether both sides say after a size if a user has ended it. In mode UM a receiver cannot tell
  // messages that were lost from those that were not sent.
  bool says_end() const;

  size_t pair_of(uint32_t lane) const { return config.pairs ? lane : 0; }
  // The peer's lane that a lane is connected with, counted among the peer's lanes for us.
  uint32_t peer_lane(uint32_t lane) const { return config.pairs ? 0 : lane; }

  // Makes all queues anew, like the peer, and connects them.
  void renew_queues();

  // Sets in Watch what the peer may send during a test.
  void expect(bool peer_finishes);
  // The passive side of a one-sided test: waits until the active side has measured, and notifies it
  // if the user interrupts.
  void be_passive();
  // Swaps the tag after a size of a test that is one-sided or says_end(). If the user has ended it
  // on one side, that side tells the other, so that both leave out the sizes to come.
  void end_size(const std::string& tag);

  // Reports a failed request in one line. Throws, unless --enable_err_continue was given.
  void failed(const urma_cr_t& record);

  // Takes up to `count` completions. Throws RunError if the library fails.
  static int poll(urma_jfc_t* jfc, int count, urma_cr_t* records) {
    const int n = urma_poll_jfc(jfc, count, records);
    if (n < 0) [[unlikely]]
      poll_failed(n);
    return n;
  }

  // A poll that may execute requests of the peer; nothing is received.
  void serve_peer() const {
    urma_cr_t record;
    (void)poll(queues.arrived(), 1, &record);
  }

 private:
  void poll_until_told();
  [[noreturn]] static void poll_failed(int result);
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_SESSION_H_
