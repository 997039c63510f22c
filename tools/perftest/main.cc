// SPDX-License-Identifier: MIT
//
// urma_perftest TEST -d DEVICE [OPTION...] [-S HOST]: see docs/reference/tools.md.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/perftest/options.h"
#include "tools/perftest/process.h"
#include "tools/perftest/report_text.h"
#include "tools/perftest/run.h"
#include "tools/perftest/wire.h"
#include "urma_api.h"
#include "urma_types_str.h"

namespace perftest {
namespace {

constexpr int kSuccess = 0;
constexpr int kFailed = 1;
constexpr int kMisused = 2;
constexpr int kInterrupted = 130;

// Prefixes each line of the text with the tool's name, like every line on stderr.
void complain(const std::string& text) {
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    std::fprintf(stderr, "urma_perftest: %s\n", text.substr(start, end - start).c_str());
    start = end + 1;
  }
}

// Prints the text of `error`, and returns its exit code.
int explain(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Interrupted& interruption) {
    complain(interruption.what());
    return kInterrupted;
  } catch (const UsageError& misuse) {
    complain(misuse.what());
    return kMisused;
  } catch (const std::exception& failure) {
    complain(failure.what());
    return kFailed;
  }
}

// Ctrl-C is the normal end of a run without limit.
void finish(const Config& config, Reporter& reporter, Outcome outcome) {
  if (config.ends_by == EndsBy::kUser) outcome.partial = false;
  reporter.end(outcome);
}

// The library, from urma_init to urma_uninit.
class Library {
 public:
  explicit Library(const Config& config) {
    set_up_log(config);
    urma_init_attr_t attributes = {};
    const urma_status_t status = urma_init(&attributes);
    if (status != URMA_SUCCESS) {
      throw RunError(std::string("urma_init failed: ") + urma_status_to_string(status));
    }
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { urma_uninit(); }
};

// Two threads; the first to fail tells the reason, as the other only sees its peer vanish.
class Failure {
 public:
  void note(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = std::move(error);
  }
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

void run_loopback(const Config& config, Reporter& reporter) {
  auto ends = Exchange::make_pair();
  Failure failure;
  // Owns its end, which closes when the thread is done.
  std::thread server([&config, &failure, end = std::move(ends.first)]() mutable {
    Exchange exchange = std::move(end);
    try {
      Config server_config = config;
      server_config.loopback_server = true;
      pin(config.server_cpu);
      const auto silent = make_silent_reporter();
      negotiate(server_config, exchange);
      run_test(server_config, exchange, *silent);
    } catch (...) {
      failure.note(std::current_exception());
    }
  });
  std::optional<Outcome> outcome;
  std::optional<Exchange> exchange(std::move(ends.second));
  try {
    pin(config.cpu);
    negotiate(config, *exchange);
    outcome = run_test(config, *exchange, reporter);
  } catch (...) {
    failure.note(std::current_exception());
  }
  exchange.reset();  // else a server that still waits would wait indefinitely
  server.join();
  failure.rethrow();
  finish(config, reporter, *outcome);
}

void run_connected(const Config& config, Exchange exchange, ReportStream& stream) {
  const auto reporter = make_reporter(config, stream);
  negotiate(config, exchange);
  finish(config, *reporter, run_test(config, exchange, *reporter));
}

// To stderr if stdout is for figures only.
void say_waiting(const Config& config, ReportStream& stream) {
  const bool beside = config.format != Format::kText || config.final_only;
  const char* waiting = "Waiting for client to connect...";
  if (beside) {
    std::fprintf(stderr, "%s\n", waiting);
  } else {
    stream.put(rule());
    stream.put(waiting);
  }
}

// A failed client does not end the server.
int serve_forever(const Config& config, ReportStream& stream) {
  Listener listener(config);
  while (!interrupted) {
    try {
      say_waiting(config, stream);
      run_connected(config, listener.accept_clients(), stream);
    } catch (const Interrupted&) {
      break;
    } catch (const std::exception&) {
      if (std::ferror(stdout) != 0) throw;
      explain(std::current_exception());
    }
  }
  return kSuccess;
}

// Where clients connect. The runs of a batch share it, so that a client that finishes a run before
// its server finds it open for the next one.
class Door {
 public:
  Listener& open(const Config& config) {
    const Place place = {config.bind_ip, config.ipv6, config.port, config.pair_num};
    if (!listener_ || place != place_) {
      listener_.reset();
      listener_.emplace(config);
      place_ = place;
    }
    return *listener_;
  }
  void close() { listener_.reset(); }

 private:
  using Place = std::tuple<std::string, bool, uint16_t, uint32_t>;
  Place place_;
  std::optional<Listener> listener_;
};

void run_once(const Config& config, Door& door, ReportStream& stream) {
  const FrequencyWatch watch(config);
  const SavedCpus cpus;  // the next run of a batch begins with all of them
  if (config.loopback) {
    run_loopback(config, *make_reporter(config, stream));
    return;
  }
  pin(config.cpu);
  if (config.is_client()) {
    run_connected(config, Exchange::connect(config), stream);
    return;
  }
  Listener& listener = door.open(config);
  say_waiting(config, stream);
  Exchange exchange = listener.accept_clients();
  // Another server on this port must not share its clients with this one.
  if (config.batch_files.empty()) door.close();
  run_connected(config, std::move(exchange), stream);
}

int run_all(std::vector<Config> configs) {
  const Library library(configs.front());
  for (Config& config : configs) {
    default_device(config);
    check_device(config);
  }
  const bool list = !configs.front().batch_files.empty();
  ReportStream stream(stdout, isatty(STDOUT_FILENO) != 0, list);
  if (configs.front().accept_forever) {
    pin(configs.front().cpu);
    return serve_forever(configs.front(), stream);
  }
  int code = kSuccess;
  Door door;
  try {
    for (const Config& config : configs) {
      if (!interrupted) run_once(config, door, stream);
    }
  } catch (...) {
    code = explain(std::current_exception());
  }
  // Else that was the reason.
  if (std::ferror(stdout) == 0) stream.close();
  return code;
}

int run_command_line(const std::vector<std::string>& arguments) {
  const Parsed parsed = parse_options(arguments);
  if (!parsed.config) {
    std::fputs(parsed.text.c_str(), stdout);
    ReportStream(stdout, /*terminal=*/false, /*list=*/false).close();
    return kSuccess;
  }
  std::vector<Config> configs = expand_batches(*parsed.config, arguments);
  catch_signals();
  return run_all(std::move(configs));
}

}  // namespace
}  // namespace perftest

int main(int argc, char** argv) {
  perftest::open_standard_streams();
  try {
    return perftest::run_command_line({argv + 1, argv + argc});
  } catch (...) {
    return perftest::explain(std::current_exception());
  }
}
