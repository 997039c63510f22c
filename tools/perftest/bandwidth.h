// SPDX-License-Identifier: MIT
//
// {read,write,send,atomic}_bw.
#ifndef TOOLS_PERFTEST_BANDWIDTH_H_
#define TOOLS_PERFTEST_BANDWIDTH_H_

#include <memory>

#include "tools/perftest/credit.h"
#include "tools/perftest/receiver.h"
#include "tools/perftest/sender.h"
#include "tools/perftest/session.h"
#include "tools/perftest/verified.h"

namespace perftest {

class BandwidthTest {
 public:
  explicit BandwidthTest(Session& session);

  // Measures one size and reports it.
  void run(uint32_t size);

 private:
  void start();
  void end();
  bool may_lose() const;
  void tell_losses() const;
  Row measure(uint32_t size);
  template <typename Post>
  void measure_with(const SendPlan& plan, Row& row);
  // False: it was interrupted.
  template <typename Post>
  bool warm_up(const SendPlan& plan);

  Session& session_;
  std::unique_ptr<Receiver> receiver_;
  std::unique_ptr<CreditTaken> credit_;
  std::unique_ptr<VerifiedTest> verified_;  // set with --verify
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_BANDWIDTH_H_
