// SPDX-License-Identifier: MIT
//
// The ring of urma/providers/shm/ring.h on the memory of weak.pml: messages of one slot, with what
// the producer and the consumer write to shared memory. Each message arrives whole and in its turn,
// its answer at its sender; a sender that sees the ring closed has seen all answers given before.
//
// Each of these removes an order, and must be detected:
//   NO_PUBLISH_RELEASE, NO_PUBLISH_ACQUIRE: RingProducer::publish, RingConsumer::peek
//   NO_CONSUMED_RELEASE, NO_CONSUMED_ACQUIRE: RingConsumer::publish_position,
//     RingProducer::refresh_consumed
//   NO_CLOSED_RELEASE, NO_CLOSED_ACQUIRE: RingConsumer::close, RingProducer::closed
//   CLOSED_LAST: a sender reaps before it looks whether the ring is closed (QueuePath::reap)
// UNANSWERED: no message is refused, so that a release is missed by the copies alone.
// Not detected, since no other memory depends on it:
//   NO_WANTED_RELEASE, NO_WANTED_ACQUIRE: RingProducer::want_answers, RingConsumer::answer_wanted

#define LATE
#define THREADS 2
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#define LOCATIONS (3 * SLOTS + 3)
#define WRITES 5
#include "weak.pml"

#define WORD(position) ((position) % SLOTS)
#define PAYLOAD(position) (SLOTS + (position) % SLOTS)
#define ANSWER(position) (2 * SLOTS + (position) % SLOTS)
#define CONSUMED (3 * SLOTS)
#define CLOSED (3 * SLOTS + 1)
#define WANTED (3 * SLOTS + 2)

// SYNC(ring-publish)
#ifdef NO_PUBLISH_RELEASE
#define PUBLISH_RELEASE RELAXED
#else
#define PUBLISH_RELEASE RELEASE
#endif
#ifdef NO_PUBLISH_ACQUIRE
#define PUBLISH_ACQUIRE RELAXED
#else
#define PUBLISH_ACQUIRE ACQUIRE
#endif
// SYNC(ring-consumed)
#ifdef NO_CONSUMED_RELEASE
#define CONSUMED_RELEASE RELAXED
#else
#define CONSUMED_RELEASE RELEASE
#endif
#ifdef NO_CONSUMED_ACQUIRE
#define CONSUMED_ACQUIRE RELAXED
#else
#define CONSUMED_ACQUIRE ACQUIRE
#endif
// SYNC(ring-closed)
#ifdef NO_CLOSED_RELEASE
#define CLOSED_RELEASE RELAXED
#else
#define CLOSED_RELEASE RELEASE
#endif
#ifdef NO_CLOSED_ACQUIRE
#define CLOSED_ACQUIRE RELAXED
#else
#define CLOSED_ACQUIRE ACQUIRE
#endif
// SYNC(ring-wanted)
#ifdef NO_WANTED_RELEASE
#define WANTED_RELEASE RELAXED
#else
#define WANTED_RELEASE RELEASE
#endif
#ifdef NO_WANTED_ACQUIRE
#define WANTED_ACQUIRE RELAXED
#else
#define WANTED_ACQUIRE ACQUIRE
#endif

// State of the checks only.
bool refused[MESSAGES];
byte answered;  // by a consumer that closes the ring
byte ended;

inline look_at_closed() { LOAD(CLOSED, CLOSED_ACQUIRE, closed) }

inline reap() {
  LOAD(CONSUMED, CONSUMED_ACQUIRE, consumed);
  do
  :: reaped < consumed ->
    LOAD(ANSWER(reaped), RELAXED, status);
    assert(status == refused[reaped]);
    if
    :: status != 0 -> STORE(ANSWER(reaped), 0, RELAXED)
    :: else
    fi;
    reaped++
  :: else -> break
  od
}

active proctype Producer() {
  byte head, reaped, consumed, status, closed;
  bool asked;
  do
  :: head < MESSAGES && head - reaped + 2 <= SLOTS ->
    STORE(PAYLOAD(head), head + 1, RELAXED);
    STORE(WORD(head), head + 1, PUBLISH_RELEASE);
    head++
  :: head == MESSAGES && !asked -> STORE(WANTED, head, WANTED_RELEASE); asked = true
  :: reaped < head ->
#ifdef CLOSED_LAST
    reap();
    look_at_closed();
#else
    look_at_closed();
    reap();
#endif
    if
    :: closed != 0 -> assert(reaped >= answered); break
    :: else
    fi
  :: reaped == MESSAGES -> break
  od;
  ended++
}

inline publish_position() {
  published = position;
  STORE(CONSUMED, position, CONSUMED_RELEASE)
}

// Nothing depends on the copy until the program looks at it.
inline end_copy() {
  if
  :: copied != 0 -> AWAIT_LATE(value); assert(value == copied); copied = 0
  :: else
  fi
}

active proctype Consumer() {
  byte position, published, value;
  byte copied;  // the position + 1 of a message that is being copied
  do
  :: position < MESSAGES ->
    LOAD(WORD(position), PUBLISH_ACQUIRE, value);
    if
    :: value == position + 1 ->
      if
      :: end_copy(); LOAD_LATE(PAYLOAD(position)); copied = position + 1
      :: true  // an empty message
#ifndef UNANSWERED
      :: refused[position] = true; STORE(ANSWER(position), 1, RELAXED)
#endif
      fi;
      position++;
      if
      :: publish_position()
      :: true
      fi
    :: else
    fi
  :: published < position ->
    LOAD(WANTED, WANTED_ACQUIRE, value);
    if
    :: value > published -> publish_position()
    :: else
    fi
  :: true ->
    publish_position();
    answered = position;
    STORE(CLOSED, 1, CLOSED_RELEASE);
    break
  od;
  end_copy();
  ended++
}

active proctype Processor() {
  do
  :: perform(1)
  :: ended == THREADS -> break
  od
}
