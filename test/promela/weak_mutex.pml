// SPDX-License-Identifier: MIT
//
// ShortMutex (urma/base/short_mutex.h) on the memory of weak.pml: each holder sees what those
// before it did, and no thread sleeps indefinitely. short_mutex.pml has more threads. The count of
// those that wait, and what the kernel does, are those of std::atomic::wait and notify_one.
//
// Each of these removes an order, and must be detected:
//   NO_MOVE_ACQUIRE: move()
//   NO_UNLOCK_RELEASE: the compare and exchange of unlock_at_once()
//   NO_STORE_RELEASE: its store does not release
//   NO_STORE_SEQ_CST: its store only releases, so that wake_one() may count the waiters before it

#define THREADS 2
#define LOCATIONS 3
#define WRITES 14
#define ROUNDS 2
#include "weak.pml"

#define WORD 0
#define WAITERS 1
#define GUARDED 2

#define FREE 0
#define HELD 1
#define AWAITED 2
#define HANDED 3

// SYNC(short-mutex)
#ifdef NO_MOVE_ACQUIRE
#define MOVE_ACQUIRE RELAXED
#else
#define MOVE_ACQUIRE ACQUIRE
#endif
#ifdef NO_UNLOCK_RELEASE
#define UNLOCK_RELEASE RELAXED
#else
#define UNLOCK_RELEASE RELEASE
#endif
#ifdef NO_STORE_RELEASE
#define STORE_RELEASE RELAXED
#else
#define STORE_RELEASE RELEASE
#endif

byte asleep, woken;  // in the kernel
byte uses;           // state of the checks only

// A sequentially consistent write is followed by a fence here, as on processors that have no better
// way.
inline add_waiter(number) {
  ADD(WAITERS, number, ACQ_REL);
  FENCE(SEQ_CST)
}

// The kernel fences, compares and goes to sleep in one step; also fences before it wakes others.
inline wait_in_kernel() {
  atomic {
    FENCE(SEQ_CST);
    choose(ME, WORD);
    d_step {
      value = written[WRITE(WORD, chosen)];
      take(ME, WORD, RELAXED);
      chosen = 0
    }
    if
    :: value == AWAITED -> asleep++; woken > 0 -> woken--
    :: else
    fi
  }
}

inline wait() {
  add_waiter(1);
  do
  :: LOAD(WORD, RELAXED, value);
    if
    :: value == AWAITED -> wait_in_kernel()
    :: else -> break
    fi
  od;
  add_waiter(-1)
}

inline wake_one() {
  LOAD(WAITERS, ACQUIRE, value);
  if
  :: value > 0 ->
    atomic {
      FENCE(SEQ_CST);
      if
      :: asleep > 0 -> asleep--; woken++
      :: else
      fi
    }
  :: else
  fi
}

inline move(from, to) { CAS(WORD, from, to, MOVE_ACQUIRE, has) }

// lock() and lock_behind(); a thread that has slept keeps the word AWAITED for the others.
inline lock() {
  keeps = HELD;
  do
  :: move(FREE, keeps);
    if
    :: has -> break
    :: else -> keeps = AWAITED
    fi;
    move(HANDED, AWAITED);
    if
    :: has -> break
    :: else
    fi;
    CAS(WORD, HELD, AWAITED, RELAXED, has);
    wait()
  od
}

inline unlock() {
  CAS(WORD, HELD, FREE, UNLOCK_RELEASE, has);
  if
  :: has
  :: else ->
    if
    :: STORE(WORD, FREE, STORE_RELEASE)
    :: STORE(WORD, HANDED, STORE_RELEASE)
    fi;
#ifndef NO_STORE_SEQ_CST
    FENCE(SEQ_CST);
#endif
    wake_one()
  fi
}

inline use() {
  LOAD(GUARDED, RELAXED, value);
  d_step {
    uses++;
    assert(value == uses - 1)
  }
  STORE(GUARDED, value + 1, RELAXED)
}

active [THREADS] proctype Thread() {
  byte round, value, keeps;
  bool has;
  do
  :: round < ROUNDS ->
    round++;
    lock();
    use();
    unlock()
  :: else -> break
  od
}
