// SPDX-License-Identifier: MIT
//
// How waiters for a ShortMutex sleep, are woken, and get it. At most one thread has it, none sleeps
// indefinitely, and it is handed over only while a thread waits, which then takes it.
//
// Each of these removes a part of the rules, and must be detected:
//   FORGETS: a thread that has slept takes it like one that has not
//   HANDS_ANYWAY: it may be handed over although no thread waits
//   SLEEPS_ON: a thread that goes to sleep does not check again whether the word is AWAITED

#define THREADS 3
#define ROUNDS 2

mtype = { FREE, HELD, AWAITED, HANDED };

mtype word = FREE;
byte asleep, woken, holders, waiting;

inline take(from, to, done) {
  d_step { if :: word == from -> word = to; done = true :: else fi }
}

active [THREADS] proctype Thread() {
  byte round;
  bool has, hands;
  do
  :: round < ROUNDS ->
    round++;
    has = false;
    assert(word != HANDED || waiting > 0);
    take(FREE, HELD, has);
    if
    :: has
    :: else ->
      // lock_behind()
      take(FREE, HELD, has);
      if
      :: has
      :: else ->
        waiting++;
        do
        :: take(FREE, AWAITED, has);
          if :: has -> break :: else fi;
          take(HANDED, AWAITED, has);
          if :: has -> break :: else fi;
          d_step { if :: word == HELD -> word = AWAITED :: else fi };
#ifdef SLEEPS_ON
          asleep++;
          d_step { woken > 0 -> woken-- }
#else
          // The kernel checks again.
          if
          :: atomic { word == AWAITED -> asleep++ };
            d_step { woken > 0 -> woken-- }
          :: word != AWAITED
          fi;
#endif
          // spin()
#ifdef FORGETS
          take(FREE, HELD, has);
#else
          take(FREE, AWAITED, has);
#endif
          if :: has -> break :: else fi
        od;
        waiting--
      fi
    fi;
    holders++;
    assert(holders == 1);
    holders--;
    // unlock()
    has = false;
    take(HELD, FREE, has);
    if
    :: has
    :: else ->
      if
      :: hands = false
#ifdef HANDS_ANYWAY
      :: hands = true
#else
      :: waiting > 0 -> hands = true
#endif
      fi;
      word = (hands -> HANDED : FREE);
      d_step { if :: asleep > 0 -> asleep--; woken++ :: else fi }
    fi
  :: else -> break
  od
}
