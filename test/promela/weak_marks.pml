// SPDX-License-Identifier: MIT
//
// CopyMarks (segment/copy_marks.h) on the memory of weak.pml: an owner that has unregistered memory
// waits for the writes of another process that are under way. Two threads of that process share one
// place, one after the other; each writes if the registration stands once its mark is set. When the
// owner goes on, its program has seen all that was written, and nothing is written any more.
//
// Each of these removes a rule, and must be detected:
//   NO_MARK_FENCE: the fence of Mark
//   NO_AWAIT_FENCE: the fence of await()
//   NO_UNMARK_RELEASE, NO_AWAIT_ACQUIRE: the end of a write, and the look at it
//   LOOKS_FIRST: the registration is looked at before the mark is set
// Taking a place needs no acquire: it is only changed by read-modify-write operations, so the acquire
// of await() pairs with the end of each write before.

#define THREADS 3
#define LOCATIONS 3
#define WRITES 6
#include "weak.pml"

#define COUNT 0
#define ENDED 1
#define BYTES 2

#ifdef NO_UNMARK_RELEASE
#define UNMARK_RELEASE RELAXED
#else
#define UNMARK_RELEASE RELEASE
#endif
#ifdef NO_AWAIT_ACQUIRE
#define AWAIT_ACQUIRE RELAXED
#else
#define AWAIT_ACQUIRE ACQUIRE
#endif

bool reused;  // the owner's program uses the memory for something else

inline set_mark() {
  do
  :: LOAD(COUNT, RELAXED, count);
    if
    :: count % 2 == 0 -> CAS(COUNT, count, count + 1, RELAXED, marked)
    :: else
    fi;
    if
    :: marked -> break
    :: else
    fi
  od;
  // SYNC(copy-mark)
#ifdef NO_MARK_FENCE
  skip
#else
  FENCE(SEQ_CST)
#endif
}

active proctype Owner() {
  byte count, now;
  STORE(ENDED, 1, RELEASE);
  // SYNC(copy-mark)
#ifndef NO_AWAIT_FENCE
  FENCE(SEQ_CST);
#endif
  LOAD(COUNT, AWAIT_ACQUIRE, count);
  now = count;
  do
  :: count % 2 == 1 && now == count -> LOAD(COUNT, AWAIT_ACQUIRE, now)
  :: else -> break
  od;
  skip;  // Spin wants a step between a loop and a d_step.
  d_step {
    reused = true;
    assert(seen[OF(ME, BYTES)] == newest[BYTES])
  }
}

active [THREADS - 1] proctype Writer() {
  byte count;
  bool marked, ended;
#ifdef LOOKS_FIRST
  LOAD(ENDED, RELAXED, ended);
  set_mark();
#else
  set_mark();
  LOAD(ENDED, RELAXED, ended);
#endif
  if
  :: !ended ->
    atomic {
      assert(!reused);
      STORE(BYTES, ME, RELAXED)
    }
  :: else
  fi;
  ADD(COUNT, 1, UNMARK_RELEASE)
}
