/* SPDX-License-Identifier: MIT */

// The unit of event_loop.c: a jetty with queues of its own, over which numbers go back and forth.

#ifndef EXAMPLES_LINE_H
#define EXAMPLES_LINE_H

#include <stdint.h>

#include "urma_api.h"

enum { LINE_DEPTH = 4 };  // of each queue

struct line {
  urma_jfc_t* jfc;  // of both directions; its user_ctx is the address of the line
  urma_jfr_t* jfr;
  urma_jetty_t* jetty;
  urma_target_jetty_t* peer;
  urma_target_seg_t* seg;
  uint32_t in;        // the last number received
  uint32_t answered;  // for the server
  uint32_t waiting;   // for the server: numbers without an answer, at most 1
  uint32_t sending;   // for the server: answers without a record, at most LINE_DEPTH
};

// Creates the queues, posts one receive, and finds the jetty of the process at the other end of
// `sock`, which makes the same call. Events go to `events`, armed for the first; NULL: no events.
void open_line(struct line* line, urma_context_t* ctx, urma_jfce_t* events, int sock);

// Posts a receive for the next number.
void post_receive(struct line* line);

// Sends a number.
void send_number(struct line* line, uint32_t number);

// Waits until a number is sent and its answer, which must be `expected`, has come.
void take_answer(struct line* line, uint32_t expected);

void close_line(struct line* line);

#endif  // EXAMPLES_LINE_H
