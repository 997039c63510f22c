// SPDX-License-Identifier: MIT
//
// How a thread that goes to sleep has its requests looked after, on the memory of weak.pml:
// CompletionQueue::arm, which calls Transport::watch_pending, and Transport::tick. Either the
// thread finds no tick due and starts one, or the tick sees that the thread sleeps. The kernel's
// barrier is not relied upon.
//
// NO_EXCHANGE removes an order, and must be detected: the tick stores that none is due, in place of
// an exchange, which sees what was stored before the one that it replaces. That store may be
// sequentially consistent: it does not order later loads that are not.

#define THREADS 2
#define LOCATIONS 2
#define WRITES 5
#include "weak.pml"

#define BELL 0
#define TICKING 1

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

active proctype Waiter() {
  byte ticking;
  // For something else.
  watch_pending();
  STORE(BELL, 1, RELAXED);
  watch_pending()
}

active proctype Service() {
  byte ticking, armed;
  do
  :: due > 0 ->
    due--;
    // SYNC(ticking)
#ifdef NO_EXCHANGE
    STORE(TICKING, 0, RELEASE);
#else
    SWAP(TICKING, 0, ACQ_REL, ticking);
#endif
    LOAD(BELL, RELAXED, armed);
    served = served || armed != 0
  :: due == 0 && timeout -> assert(served); break
  od
}
