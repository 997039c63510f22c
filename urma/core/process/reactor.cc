// SPDX-License-Identifier: MIT
#include "urma/core/process/reactor.h"

#include <valgrind/valgrind.h>

#include "urma/base/error.h"
#include "urma/base/log.h"
#include "urma/core/process/epoll_reactor.h"
#include "urma/core/process/uring_reactor.h"

namespace urma::core {
namespace {

// The io_uring, or nothing where epoll is to be used.
std::unique_ptr<Reactor> try_uring(bool wished) {
  try {
    if (RUNNING_ON_VALGRIND != 0) {
      fail(URMA_FAIL, "valgrind lets no other thread run while one sleeps on it");
    }
    auto reactor = std::make_unique<UringReactor>();
    if (wished || reactor->sleeps_unnoticed()) return reactor;
    URMA_LOG(
        INFO,
        "no io_uring for the service thread: this kernel counts a thread that sleeps on one as "
        "waiting for a disk; URMA_SERVICE=io_uring takes it all the same");
  } catch (const Error& refusal) {
    if (wished) {
      URMA_LOG(WARNING, "URMA_SERVICE=io_uring has no effect: {}", refusal.what());
    } else {
      URMA_LOG(INFO, "no io_uring for the service thread: {}", refusal.what());
    }
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Reactor> make_reactor(const std::string& choice) {
  std::unique_ptr<Reactor> reactor;
  if (choice != "epoll") reactor = try_uring(choice == "io_uring");
  if (reactor == nullptr) reactor = std::make_unique<EpollReactor>();
  URMA_LOG(INFO, "the service thread uses {}", reactor->name());
  return reactor;
}

}  // namespace urma::core
