/* SPDX-License-Identifier: MIT */

// For examples in which a server has several clients, each a process of its own.

#ifndef EXAMPLES_SEVERAL_H
#define EXAMPLES_SEVERAL_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Connects a server to `count` clients. `client host [port]` starts that many processes, which
// return from here, and exits with success when all of them have; each has its connection in
// socks[0]. `server [port [address]]` gets them all. Must be called first: a process that uses URMA
// must not be forked. Returns whether this is the server.
bool meet_several(int argc, char** argv, int* socks, int count);

#ifdef __cplusplus
}
#endif

#endif  // EXAMPLES_SEVERAL_H
