/* SPDX-License-Identifier: MIT */

// An event loop: one thread serves 64 jetties of four clients. It sleeps in io_uring until a
// message arrives at any of them, or a client says that it is done.
//
//   event_loop server [port [address]] | client host [port]
//
// `client` starts the four. All completion queues (JFC) of the server have one event channel
// (JFCE), whose fd is in the loop with the sockets. Without io_uring, poll() does the same.

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "exchange.h"
#include "line.h"
#include "several.h"
#include "urma_api.h"

enum { CLIENTS = 4, EACH = 16, LINES = CLIENTS * EACH, ROUNDS = 200 };
enum { AT_ONCE = 16, PATIENCE_S = 10, EVENTS = CLIENTS, SOURCES };  // a socket each, and the events

static struct line lines[LINES];
static urma_jfce_t* events;

// What the loop sleeps on. Each entry of `watched` has the fd, or -1 if it is not watched.
static struct pollfd watched[SOURCES];
static struct io_uring ring;
static bool with_uring;

static void open_loop(void) {
  int refused = io_uring_queue_init(SOURCES, &ring, 0);
  with_uring = refused == 0;
  if (!with_uring) printf("io_uring is refused (%s): poll() instead\n", strerror(-refused));
}

// Asks for one notification when `fd` is readable.
static void watch(int source, int fd) {
  watched[source] = (struct pollfd){.fd = fd, .events = POLLIN};
  if (!with_uring) return;
  struct io_uring_sqe* sqe = io_uring_get_sqe(&ring);
  require(sqe != NULL, "io_uring_get_sqe");
  io_uring_prep_poll_add(sqe, fd, POLLIN);
  io_uring_sqe_set_data64(sqe, (uint64_t)source);
}

static int next_of_uring(void) {
  struct io_uring_cqe* cqe;
  struct __kernel_timespec limit = {.tv_sec = PATIENCE_S};
  int error = io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &limit, NULL);
  if (error >= 0 && cqe->res < 0) error = cqe->res;
  if (error < 0) errno = -error;
  require(error >= 0, "io_uring");
  int source = (int)io_uring_cqe_get_data64(cqe);
  io_uring_cqe_seen(&ring, cqe);
  return source;
}

static int next_of_poll(void) {
  int n = poll(watched, SOURCES, PATIENCE_S * 1000);
  if (n == 0) errno = ETIMEDOUT;
  require(n > 0, "poll");
  int source = 0;
  while (watched[source].revents == 0) source++;
  return source;
}

// Sleeps until a watched fd is readable, which ends its watch.
static int next_source(void) {
  int source = with_uring ? next_of_uring() : next_of_poll();
  watched[source].fd = -1;
  return source;
}

// Answers every number with the next one. Records of answers may come late: if the send queue is
// full of them, the number waits.
static void serve_line(struct line* line) {
  urma_cr_t cr;
  int n;
  while ((n = urma_poll_jfc(line->jfc, 1, &cr)) > 0) {
    succeeded(&cr, "a request");
    if (cr.flag.bs.s_r == 1) line->waiting++;
    if (cr.flag.bs.s_r == 0) line->sending--;
    if (line->waiting == 0 || line->sending == LINE_DEPTH) continue;
    expect(line->in == line->answered, "a number");
    line->answered++, line->waiting--, line->sending++;
    post_receive(line);
    send_number(line, line->answered);
  }
  require(n == 0, "urma_poll_jfc");
}

// Takes all pending events. A queue is armed again before it is polled: what arrives after the poll
// raises the next event.
static void take_events(void) {
  urma_jfc_t* fired[AT_ONCE];
  int n;
  while ((n = urma_wait_jfc(events, AT_ONCE, 0, fired)) > 0) {
    for (int i = 0; i < n; i++) {
      urma_ack_jfc(&fired[i], &(uint32_t){1}, 1);
      ok(urma_rearm_jfc(fired[i], false), "urma_rearm_jfc");
      serve_line((struct line*)(uintptr_t)fired[i]->jfc_cfg.user_ctx);
    }
  }
  require(n == 0, "urma_wait_jfc");
  watch(EVENTS, events->fd);
}

static void serve(const int* socks) {
  urma_context_t* ctx = open_device();
  events = urma_create_jfce(ctx);
  require(events != NULL, "urma_create_jfce");
  open_loop();
  for (int i = 0; i < LINES; i++) open_line(&lines[i], ctx, events, socks[i / EACH]);
  watch(EVENTS, events->fd);
  for (int i = 0; i < CLIENTS; i++) watch(i, socks[i]);
  unsigned turns = 0;
  for (int left = CLIENTS; left > 0; turns++) {
    int source = next_source();
    if (source == EVENTS) {
      take_events();
    } else {
      in_step(socks[source]);
      left--;
    }
  }
  for (int i = 0; i < LINES; i++) expect(lines[i].answered == ROUNDS, "the last number of a line");
  printf("%d jetties of %d clients, %d numbers answered in %u turns of the loop, by %s: ok\n",
         LINES, CLIENTS, LINES * ROUNDS, turns, with_uring ? "io_uring" : "poll()");
  if (with_uring) io_uring_queue_exit(&ring);
  for (int i = 0; i < LINES; i++) close_line(&lines[i]);
  ok(urma_delete_jfce(events), "urma_delete_jfce");
  close_device(ctx);
}

static void work(int sock) {
  urma_context_t* ctx = open_device();
  for (int i = 0; i < EACH; i++) open_line(&lines[i], ctx, NULL, sock);
  for (uint32_t number = 0; number < ROUNDS; number++) {
    for (int i = 0; i < EACH; i++) send_number(&lines[i], number);
    for (int i = 0; i < EACH; i++) take_answer(&lines[i], number + 1);
  }
  in_step(sock);
  for (int i = 0; i < EACH; i++) close_line(&lines[i]);
  close_device(ctx);
}

int main(int argc, char** argv) {
  int socks[CLIENTS];
  bool is_server = meet_several(argc, argv, socks, CLIENTS);
  is_server ? serve(socks) : work(socks[0]);
}
