/* SPDX-License-Identifier: MIT */

// What the examples need besides URMA: a TCP connection over which two programs exchange the
// addresses of their queues and segments, and helpers that would hide the flow of each example.
// URMA does not care how ids travel; most programs use TCP.

#ifndef EXAMPLES_EXCHANGE_H
#define EXAMPLES_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Exits with a message that names `what`, and the text of errno.
__attribute__((noreturn)) void give_up(const char* what);

// Exits unless `ok`.
static inline void require(bool ok, const char* what) {
  if (!ok) give_up(what);
}

// Exits with a message that names `what`, which is not as it should be.
__attribute__((noreturn)) void is_wrong(const char* what);

// Exits unless `right`: for what the other program did, which sets no errno.
static inline void expect(bool right, const char* what) {
  if (!right) is_wrong(what);
}

// Whether the command line says `server [port [address]]`, not `client host [port]`. Exits with the
// usage if it says neither, or `--help`.
bool asks_for_server(int argc, char** argv);

// Connects the two programs as the command line says: `server [port [address]]` listens at its
// address, 127.0.0.1 by default, prints its port (0: any free one) and accepts one client; `client
// host [port]` connects to it. Sets *is_server and returns the socket. Exits on wrong arguments.
int meet(int argc, char** argv, bool* is_server);

// The same for a server with `count` clients: it gets a socket for each, a client gets socks[0].
void meet_clients(int argc, char** argv, bool* is_server, int* socks, int count);

// Sends `size` bytes at `mine` and receives as many into `theirs`. Returns only after the other
// program has called it, so it also synchronizes the two.
void swap_over(int sock, const void* mine, void* theirs, size_t size);

// Waits until the other program has reached this point too.
void in_step(int sock);

// Called after a poll without result, with the number of such polls in a row. The first polls
// repeat at once; later ones yield the core, which the two programs may share. Exits if nothing has
// happened for seconds: the other program is probably gone.
void idle(uint64_t polls);

// A clock, in nanoseconds.
uint64_t now_ns(void);

// Writes a text of `size` bytes, at least 8, that differs for each size and side and ends with a
// checksum.
void write_text(char* message, uint32_t size, const char* side);

// Exits unless `message` is as write_text wrote it; prints its size and how it begins.
void check_text(const char* message, uint32_t size);

// Prints the median of `count` times, which it sorts. Both sides poll: if they share a core, each
// waits until the other yields it.
void print_latency(const char* what, uint64_t* times, size_t count);

#ifdef __cplusplus
}
#endif

#endif  // EXAMPLES_EXCHANGE_H
