/* SPDX-License-Identifier: MIT */

#include "exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_PORT "7471"

enum { SPINS = 100, PATIENCE_S = 10 };

void give_up(const char* what) {
  fprintf(stderr, "%s failed (errno: %s)\n", what, strerror(errno));
  exit(EXIT_FAILURE);
}

void is_wrong(const char* what) {
  fprintf(stderr, "%s is not as it should be\n", what);
  exit(EXIT_FAILURE);
}

static void give_up_at(const char* what, const char* host, const char* port) {
  fprintf(stderr, "%s %s, port %s, failed (errno: %s)\n", what, host, port, strerror(errno));
  exit(EXIT_FAILURE);
}

static in_port_t number_of(const char* port) {
  char* end;
  long number = strtol(port, &end, 10);
  if (end == port || *end != '\0' || number < 0 || number > UINT16_MAX) {
    fprintf(stderr, "%s: not a port, which is a number up to %d\n", port, UINT16_MAX);
    exit(EXIT_FAILURE);
  }
  return (in_port_t)number;
}

static void wait_for_clients(const char* port, const char* address, int* socks, int count) {
  struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(number_of(port))};
  socklen_t size = sizeof(addr);
  if (inet_pton(AF_INET, address, &addr.sin_addr) != 1) {
    fprintf(stderr, "%s: not an IPv4 address\n", address);
    exit(EXIT_FAILURE);
  }

  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(listener >= 0, "socket");
  require(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0,
          "setsockopt");
  if (bind(listener, (struct sockaddr*)&addr, sizeof(addr)) != 0)
    give_up_at("binding to", address, port);
  require(listen(listener, count) == 0, "listen");
  require(getsockname(listener, (struct sockaddr*)&addr, &size) == 0, "getsockname");
  printf("listening on port %u\n", ntohs(addr.sin_port));
  fflush(stdout);  // the process that starts the client may wait for this line

  for (int i = 0; i < count; i++) {
    socks[i] = accept(listener, NULL, NULL);
    require(socks[i] >= 0, "accept");
  }
  close(listener);
}

static int connect_to_server(const char* host, const char* port) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
  int error = getaddrinfo(host, port, &hints, &found);
  if (error != 0) {
    fprintf(stderr, "%s: %s\n", host, gai_strerror(error));
    exit(EXIT_FAILURE);
  }
  int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(sock >= 0, "socket");
  if (connect(sock, found->ai_addr, found->ai_addrlen) != 0)
    give_up_at("connecting to", host, port);
  freeaddrinfo(found);
  return sock;
}

bool asks_for_server(int argc, char** argv) {
  bool is_server = argc >= 2 && argc <= 4 && strcmp(argv[1], "server") == 0;
  bool is_client = argc >= 3 && argc <= 4 && strcmp(argv[1], "client") == 0;
  if (is_server || is_client) return is_server;
  bool asked = argc == 2 && strcmp(argv[1], "--help") == 0;
  fprintf(asked ? stdout : stderr,
          "usage: %s server [port [address]] | client host [port]\n"
          "The port is " DEFAULT_PORT
          " by default, the address 127.0.0.1; port 0 is any free one.\n"
          "URMA_DEVICE, in the environment, names the device; the first one by default.\n",
          argv[0]);
  exit(asked ? EXIT_SUCCESS : EXIT_FAILURE);
}

void meet_clients(int argc, char** argv, bool* is_server, int* socks, int count) {
  *is_server = asks_for_server(argc, argv);
  int port = *is_server ? 2 : 3;  // the index of the port in argv
  const char* number = argc > port ? argv[port] : DEFAULT_PORT;
  // Anyone with the ids can reach the queues and segments, so by default only this machine may
  // connect.
  if (*is_server) wait_for_clients(number, argc > 3 ? argv[3] : "127.0.0.1", socks, count);
  if (!*is_server) socks[0] = connect_to_server(argv[2], number);
  for (int i = 0; i < (*is_server ? count : 1); i++)
    require(setsockopt(socks[i], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)) == 0,
            "setsockopt");
}

int meet(int argc, char** argv, bool* is_server) {
  int sock;
  meet_clients(argc, argv, is_server, &sock, 1);
  return sock;
}

void swap_over(int sock, const void* mine, void* theirs, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = send(sock, (const char*)mine + done, size - done, MSG_NOSIGNAL);
    require(n > 0, "send over TCP");
    done += (size_t)n;
  }
  for (size_t done = 0; done < size;) {
    ssize_t n = recv(sock, (char*)theirs + done, size - done, 0);
    if (n == 0) errno = ECONNRESET;
    require(n > 0, "receive over TCP");
    done += (size_t)n;
  }
}

void in_step(int sock) {
  char mine = 0, theirs;
  swap_over(sock, &mine, &theirs, sizeof(mine));
}

void idle(uint64_t polls) {
  static uint64_t since;
  if (polls < SPINS) return;
  if (polls == SPINS) since = now_ns();
  errno = ETIMEDOUT;
  require(now_ns() - since < PATIENCE_S * 1000000000ull, "waiting for a completion");
  sched_yield();
}

uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t checksum(const char* text, size_t size) {
  uint64_t sum = 14695981039346656037u;  // FNV-1a
  for (size_t i = 0; i < size; i++) sum = (sum ^ (unsigned char)text[i]) * 1099511628211u;
  return sum;
}

void write_text(char* message, uint32_t size, const char* side) {
  char line[80];
  int length = snprintf(line, sizeof(line), "The %s sends %u bytes. ", side, size);
  uint32_t end = size - sizeof(uint64_t);
  for (uint32_t i = 0; i < end; i++) message[i] = line[i % (uint32_t)length];
  uint64_t sum = checksum(message, end);
  memcpy(message + end, &sum, sizeof(sum));
}

void check_text(const char* message, uint32_t size) {
  uint32_t end = size - sizeof(uint64_t);
  uint64_t sum = checksum(message, end);
  expect(memcmp(message + end, &sum, sizeof(sum)) == 0, "the checksum of a message");
  printf("%7u bytes, checksum ok: \"%.26s...\"\n", size, message);
}

static int compare(const void* a, const void* b) {
  uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return (x > y) - (x < y);
}

void print_latency(const char* what, uint64_t* times, size_t count) {
  qsort(times, count, sizeof(*times), compare);
  printf("latency %u ns (needs two free cores): %s, median of %zu\n", (unsigned)times[count / 2],
         what, count);
}
