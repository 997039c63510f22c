// SPDX-License-Identifier: MIT
//
// The side channel of urma_perftest with a peer that sends anything, and its command line.
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "test/fuzz/bytes.h"
#include "tools/perftest/exchange.h"
#include "tools/perftest/options.h"
#include "tools/perftest/wire.h"

namespace {

using perftest::Exchange;
using urma_fuzz::Bytes;
using urma_fuzz::require;

// The peer sends everything at once, and closes.
Exchange peer_that_says(std::span<const uint8_t> words) {
  int ends[2] = {};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "a pair of sockets");
  static_cast<void>(::send(ends[1], words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  ::shutdown(ends[1], SHUT_WR);
  // Received bytes are kept while this end is open.
  Exchange exchange({ends[0]});
  ::close(ends[1]);
  exchange.set_timeout(std::chrono::milliseconds(200));
  return exchange;
}

void talk(Bytes* script, Exchange* exchange) {
  for (uint32_t steps = script->below(8); steps > 0; --steps) {
    std::vector<uint8_t> mine(script->below(64));
    switch (script->below(6)) {
      case 0: {
        std::vector<uint8_t> theirs(mine.size());
        exchange->sync_data(mine.data(), theirs.data(), mine.size());
        break;
      }
      case 1: {
        const std::vector<uint8_t> blob = exchange->sync_blob(mine);
        require(!blob.empty() && blob.size() <= Exchange::kMaxBlob, "a blob is bounded");
        break;
      }
      case 2:
        exchange->sync_time("tag");
        break;
      case 3:
        static_cast<void>(exchange->quit_seen());
        break;
      case 4:
        static_cast<void>(exchange->data_waiting());
        break;
      default:
        perftest::negotiate(perftest::Config(), *exchange);
    }
  }
}

void negotiate(std::span<const uint8_t> words) {
  // The block of a tool like this one, except for what the input changes.
  perftest::Block block = perftest::encode(perftest::Config());
  for (size_t i = 0; i + 2 < words.size(); i += 3) {
    block[(words[i] << 8 | words[i + 1]) % block.size()] = words[i + 2];
  }
  std::vector<uint8_t> all(block.begin(), block.end());
  const perftest::Extension extension;
  const auto* more = reinterpret_cast<const uint8_t*>(&extension);
  all.insert(all.end(), more, more + sizeof(extension));
  Exchange exchange = peer_that_says(all);
  perftest::negotiate(perftest::Config(), exchange);
}

void parse(Bytes* in) {
  std::vector<std::string> arguments;
  while (!in->empty()) arguments.push_back(in->text('\n'));
  // A file of the machine must not be an input.
  for (const std::string& argument : arguments) {
    if (argument.find('/') != std::string::npos) return;
  }
  const perftest::Parsed parsed = perftest::parse_options(arguments);
  if (!parsed.config.has_value()) return;
  const perftest::Block block = perftest::encode(*parsed.config);
  require(perftest::is_extended(block), "a block of this tool has its mark");
  require(perftest::compare(*parsed.config, block, block).empty(),
          "a block does not differ from itself");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes in(data, size);
  try {
    switch (in.below(3)) {
      case 0: {
        Bytes script(data, std::min<size_t>(size, 24));
        Exchange exchange = peer_that_says(in.rest());
        talk(&script, &exchange);
        break;
      }
      case 1:
        negotiate(in.rest());
        break;
      default:
        parse(&in);
    }
  } catch (const perftest::RunError&) {
    // The peer sent something invalid.
  } catch (const perftest::UsageError&) {
    // The command line is invalid.
  }
  return 0;
}
