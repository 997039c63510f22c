// SPDX-License-Identifier: MIT
//
// The side channel: one TCP connection for each pair, or a socket pair within one process
// (--loopback). main.cc connects it and swaps the configurations; the engine does the rest of the
// documented order. All of it throws RunError if the peer vanished, sent unexpected data, or did
// not answer in time.
#ifndef TOOLS_PERFTEST_EXCHANGE_H_
#define TOOLS_PERFTEST_EXCHANGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/perftest/config.h"

namespace perftest {

class Exchange {
 public:
  // Limits of the waits, unless set_timeout sets another. If the peer closes its end, every wait
  // ends at once; if its machine does not answer, within 2 s.
  static constexpr std::chrono::milliseconds kTimeout{30000};
  // Limited only by the life of the peer: for a server that waits for the client to measure.
  static constexpr std::chrono::milliseconds kWhilePeerLives{-1};
  // The longest blob that a peer may announce.
  static constexpr uint32_t kMaxBlob = 1 << 20;

  // Connects to config.server: 5 tries with growing pauses between, as UMDK's tool does.
  static Exchange connect(const Config& config);

  // Two ends within this process: the first is for the server.
  static std::pair<Exchange, Exchange> make_pair();

  Exchange(Exchange&& other) noexcept = default;
  Exchange& operator=(Exchange&& other) noexcept;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  // config.pair_num connections; 1 in most runs.
  size_t pairs() const { return sockets_.size(); }

  // Sends `size` bytes and receives as many from the same peer. `out` and `in` may be the same.
  void sync_data(const void* out, void* in, size_t size, size_t pair = 0);

  // Swaps blobs of unequal length, like UMDK's tool: the lengths (u32), then as many bytes as the
  // longer one has, zero padded. Returns the peer's blob, with its length checked.
  std::vector<uint8_t> sync_blob(std::span<const uint8_t> blob, size_t pair = 0);

  // Waits until all peers have reached the same point: swaps the bytes of `tag` with each and
  // compares them. Consumes a quit notice before the tag.
  void sync_time(std::string_view tag);

  // Whether all peers still have their connection open. Made for measuring loops: asks the kernel
  // at most every 100 ms, else costs a read of the coarse clock. Call it between batches and after
  // long runs of empty polls; stop if it returns false.
  bool peer_alive();

  // Throws RunError with the usual text if peer_alive() says no.
  void check_peer();

  // Ctrl-C in the middle of a test: sends a 'Q' to each peer, which sees it in quit_seen() (asks
  // the kernel at most every 100 ms) or in its next sync_time. After a 'Q' must come a sync_time,
  // before any other data.
  void notify_quit();
  bool quit_seen();
  // Whether a call has found a 'Q' so far. Does not look for one.
  bool quit_came() const { return quit_seen_; }

  // Whether all peers have sent data that was not received yet: they have finished their part of
  // the test and wait. Asks the kernel at most every 100 ms.
  bool data_waiting();

  // Waits until a peer has sent something, or is gone. False: interrupted by the user.
  bool wait_for_data();
  // Whether that is so now. Asks the kernel at most every 100 ms.
  bool has_data();

  // Of the following calls; kTimeout at first.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }

  // Whether the peer is this tool, not UMDK's: only then it knows 'Q' outside the infinite mode.
  // Set by negotiate (wire.h).
  bool extended() const { return extended_; }
  // Whether it swaps the tags that Session::says_end asks for.
  bool says_end() const { return says_end_; }
  void set_extended(bool extended, bool says_end) {
    extended_ = extended;
    says_end_ = says_end;
  }

  // Takes connected sockets; for Listener and for tests.
  explicit Exchange(std::vector<int> sockets);

 private:
  void transfer(int socket, std::span<const uint8_t> out, std::span<uint8_t> in);
  bool due();
  bool data_within(int ms);
  void look(bool quit_may_come);

  std::vector<int> sockets_;
  std::chrono::milliseconds timeout_ = kTimeout;
  int64_t next_look_ms_ = 0;
  bool alive_ = true;
  bool quit_seen_ = false;
  bool data_waiting_ = false;
  bool extended_ = false;
  bool says_end_ = false;
};

// The server's end of the TCP connections.
class Listener {
 public:
  // Listens on config.bind_ip, on config.port, and with --pair_num on the following ports, which
  // UMDK's clients use one after the other. Port 0 lets the kernel choose.
  explicit Listener(const Config& config);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  uint16_t port() const { return port_; }

  // Waits for the clients of all pairs, without limit. If the user interrupts, throws Interrupted
  // (run.h).
  Exchange accept_clients();

 private:
  void accept_one(size_t listener, std::vector<int>& sockets);

  uint32_t pairs_;
  uint16_t port_ = 0;
  std::vector<int> listeners_;
};

}  // namespace perftest

#endif  // TOOLS_PERFTEST_EXCHANGE_H_
