/* SPDX-License-Identifier: MIT */

// What the examples need besides URMA: a TCP connection over which two programs tell each other
// where their queues and segments are, and small things that would hide the flow if each example
// had its own. URMA does not mind how ids travel; TCP is what most programs use.

#ifndef EXAMPLES_EXCHANGE_H
#define EXAMPLES_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Ends the program with a message that names `what`, and what errno says.
__attribute__((noreturn)) void give_up(const char* what);

// Gives up unless `ok`.
static inline void require(bool ok, const char* what) {
  if (!ok) give_up(what);
}

// Connects the two programs as the command line says: `server [port [address]]` waits at its
// address, 127.0.0.1 unless there is another, prints the port it took (0: any free one) and accepts
// one client; `client host [port]` connects to it.
// Sets *is_server and returns the socket. Wrong arguments end the program.
int meet(int argc, char** argv, bool* is_server);

// The same for a server of `count` clients: it gets a socket for each, a client gets socks[0].
void meet_clients(int argc, char** argv, bool* is_server, int* socks, int count);

// Sends `size` bytes at `mine` and receives as many into `theirs`. Neither program gets out before
// the other has come in, so this also keeps them in step.
void swap_over(int sock, const void* mine, void* theirs, size_t size);

// Waits until the other program has come this far too.
void in_step(int sock);

// To be called when a poll found nothing, with the number of such polls in a row. Polls go on at
// once at first; later others get the core, for the two programs may have to share one. Ends the
// program if nothing has happened for seconds: the other one is probably gone.
void idle(uint64_t polls);

// A clock, in nanoseconds.
uint64_t now_ns(void);

// Fills `size` bytes, at least 8, with a text that differs for each size and side, and ends it with
// a checksum.
void write_text(char* message, uint32_t size, const char* side);

// Ends the program unless `message` is as write_text made it; prints its size and how it begins.
void check_text(const char* message, uint32_t size);

// Prints the median of `count` times, which it sorts. Both sides poll: where they share a core,
// each waits for the other to give it up.
void print_latency(const char* what, uint64_t* times, size_t count);

#ifdef __cplusplus
}
#endif

#endif  // EXAMPLES_EXCHANGE_H
