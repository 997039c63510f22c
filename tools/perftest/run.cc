// SPDX-License-Identifier: MIT
#include "tools/perftest/run.h"

#include <optional>

#include "tools/perftest/bandwidth.h"
#include "tools/perftest/clock.h"
#include "tools/perftest/latency.h"
#include "tools/perftest/session.h"

namespace perftest {
namespace {

template <typename Test>
void run_sizes(Session& session) {
  std::optional<Test> test;
  for (const uint32_t size : session.config.sizes()) {
    // A Ctrl-C between two sizes is noticed in the next one, where the peer learns of it.
    if (session.partial) return;
    // Like UMDK's tool: leftovers of a size are dropped.
    if (test && session.two_sided()) {
      test.reset();
      session.renew_queues();
    }
    if (!test) test.emplace(session);
    test->run(size);
  }
}

}  // namespace

Outcome run_test(const Config& config, Exchange& exchange, Reporter& reporter) {
  (void)ticks_per_us();  // measured now, while nobody waits
  Session session(config, exchange, reporter);
  reporter.begin(config, session.device.transport());
  exchange.sync_time("Start test");
  // From here on, a side may have to wait for the other one to measure.
  exchange.set_timeout(Exchange::kWhilePeerLives);
  if (config.latency()) {
    run_sizes<LatencyTest>(session);
  } else {
    run_sizes<BandwidthTest>(session);
  }
  exchange.sync_time("End test");
  exchange.sync_time(config.duplex() ? "unimport_jetty" : "unimport_jfr");
  return {session.partial, config.verify && !session.partial};
}

}  // namespace perftest
