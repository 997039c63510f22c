// SPDX-License-Identifier: MIT
//
// {read,write,send,atomic}_lat.
#ifndef TOOLS_PERFTEST_LATENCY_H_
#define TOOLS_PERFTEST_LATENCY_H_

#include <memory>

#include "tools/perftest/receiver.h"
#include "tools/perftest/session.h"

namespace perftest {

class LatencyTest {
 public:
  explicit LatencyTest(Session& session);

  // Measures one size and reports it.
  void run(uint32_t size);

 private:
  // Whether both sides send in turn; otherwise only the client is active.
  bool ping_pong() const {
    return session_.config.api == Api::kWrite || session_.config.api == Api::kSend;
  }
  void start(uint32_t size);

  Session& session_;
  std::unique_ptr<Receiver> receiver_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_LATENCY_H_
