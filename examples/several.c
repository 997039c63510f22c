/* SPDX-License-Identifier: MIT */

#include "several.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exchange.h"

// Returns in the new processes only.
static void start(int count) {
  for (int i = 0; i < count; i++) {
    pid_t pid = fork();
    require(pid >= 0, "fork");
    if (pid == 0) return;
  }
  bool all_well = true;
  for (int status; wait(&status) > 0;) all_well = all_well && status == 0;
  exit(all_well ? EXIT_SUCCESS : EXIT_FAILURE);
}

bool meet_several(int argc, char** argv, int* socks, int count) {
  bool is_server;
  if (!asks_for_server(argc, argv)) start(count);
  meet_clients(argc, argv, &is_server, socks, count);
  return is_server;
}
