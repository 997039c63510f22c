/* SPDX-License-Identifier: MIT */

// For examples in which a server has several clients, each a process of its own.

#ifndef EXAMPLES_SEVERAL_H
#define EXAMPLES_SEVERAL_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Connects a server to `count` clients. `client host [port]` starts that many processes, which go
// on from here, and ends with success when all of them have; each gets the socks[0] of its own.
// `server [port]` gets them all. To be called first: a process that uses URMA must not be forked.
// Returns whether this is the server.
bool meet_several(int argc, char** argv, int* socks, int count);

#ifdef __cplusplus
}
#endif

#endif  // EXAMPLES_SEVERAL_H
