// SPDX-License-Identifier: MIT
//
// How a thread has its requests looked after, on the memory of weak.pml. One that goes to sleep:
// CompletionQueue::arm, which calls Transport::watch_pending, and Transport::tick. Either the
// thread finds no tick due and starts one, or the tick sees that the thread sleeps. The kernel's
// barrier is not relied upon.
//
// POSTS: one that posts a request which waits, and polls no more: Sender::look_after and
// Sender::serve, which leaves what is in flight to a program that polls. Either the thread finds
// the sender not pending and calls watch_pending, or serve() sees that a request waits.
//
// These remove an order, or a step, and must be detected:
//   NO_EXCHANGE      the tick stores that none is due, in place of an exchange, which sees what was
//                    stored before the one that it replaces; that store may be sequentially
//                    consistent: it does not order later loads that are not
//   POSTS NO_PENDING_EXCHANGE  the same for the store that nothing is pending
//   POSTS NO_SECOND_LOOK       serve() leaves without a look at the requests after that

#define THREADS 2
#define LOCATIONS 4
#define WRITES 7
#include "weak.pml"

#define BELL 0
#define TICKING 1
#define PENDING 2
#define WAITING 3

byte due;  // posted to the service thread
bool served;

inline watch_pending() {
  // SYNC(ticking)
  SWAP(TICKING, 1, ACQ_REL, ticking);
  if
  :: ticking == 0 -> due++
  :: else
  fi
}

#ifdef POSTS

inline look_after() {
  // SYNC(pending)
  SWAP(PENDING, 1, ACQ_REL, pending);
  if
  :: pending == 0 -> watch_pending()
  :: else
  fi
}

active proctype Poster() {
  byte ticking, pending;
  // For a request that is in flight now, while the thread polls.
  look_after();
  STORE(WAITING, 1, RELAXED);
  look_after()
}

// The looks at WAITING have no lock.
inline serve() {
  LOAD(PENDING, ACQUIRE, pending);
  if
  :: pending != 0 ->
    LOAD(WAITING, RELAXED, waiting);
    if
    :: waiting == 0 ->
      // SYNC(pending)
#ifdef NO_PENDING_EXCHANGE
      STORE(PENDING, 0, RELEASE);
#else
      SWAP(PENDING, 0, ACQ_REL, pending);
#endif
#ifndef NO_SECOND_LOOK
      LOAD(WAITING, RELAXED, waiting)
#endif
    :: else
    fi;
    // Then a tick looks again until the request is through.
    served = served || waiting != 0
  :: else
  fi
}

#else

active proctype Waiter() {
  byte ticking;
  // For something else.
  watch_pending();
  STORE(BELL, 1, RELAXED);
  watch_pending()
}

inline serve() {
  LOAD(BELL, RELAXED, armed);
  served = served || armed != 0
}

#endif

active proctype Service() {
  byte ticking, armed, pending, waiting;
  do
  :: due > 0 ->
    due--;
    // SYNC(ticking)
#ifdef NO_EXCHANGE
    STORE(TICKING, 0, RELEASE);
#else
    SWAP(TICKING, 0, ACQ_REL, ticking);
#endif
    serve()
  :: due == 0 && timeout -> assert(served); break
  od
}
