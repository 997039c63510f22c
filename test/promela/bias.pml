// SPDX-License-Identifier: MIT
//
// How the bias of a queue's lock is given, suspended and ended: OwnerLock. The thread that has the
// bias enters with a store and a load, between which its processor may keep the store to itself;
// all other threads enter with the mutex, and have the kernel fence for the owner. At most one is
// inside, and no thread waits indefinitely.
//
// Each of these removes a part of the rules, and must be detected:
//   NO_BARRIER: no one fences for the owner
//   LOOK_FIRST: the owner checks whether it is shut out before it says that it is inside
//   NO_LOOK: the owner does not check whether it is shut out
//   NO_WAIT: the thread that has shut the owner out does not wait for it
//   LETS_IN: ending the bias lets the owner in again, like suspending it
//   NO_UNDO: an owner that is shut out still says that it is inside

#define THREADS 2
#define ROUNDS 2
#define NOBODY 255
#define UNCLAIMED 254

byte owner = UNCLAIMED;
bool busy, foreign, mutex;
byte inside;

// Held back by the processor of the storing thread.
bool kept, kept_busy;
byte finished;

inline lock_mutex() { atomic { !mutex -> mutex = true } }
inline unlock_mutex() { mutex = false }

// A later store waits for the earlier one. An atomic of the same thread publishes the held store.
inline store_busy(value) { d_step { !kept -> kept = true; kept_busy = value } }
inline hand_on() { d_step { if :: kept -> busy = kept_busy; kept = false :: else fi } }

inline use() {
  inside++;
  assert(inside == 1);
  inside--
}

active proctype Processor() {
  do
  :: d_step { kept -> busy = kept_busy; kept = false }
  :: finished == THREADS + 1 && !kept -> break
  od
}

inline shut_out_owner() {
  foreign = true;
#ifndef NO_BARRIER
  hand_on();
#endif
#ifndef NO_WAIT
  !busy
#endif
}

// Two threads of the program; the first to come gets the bias.
active [THREADS] proctype Thread() {
  byte round;
  byte seen;
  bool shut;
  do
  :: round < ROUNDS ->
    round++;
    seen = owner;
    if
    :: seen == _pid ->
#ifdef LOOK_FIRST
      shut = foreign;
      store_busy(true);
#else
      store_busy(true);
      shut = foreign;
#endif
#ifdef NO_LOOK
      shut = false;
#endif
      if
      :: !shut -> use(); store_busy(false); goto next
      :: else
#ifndef NO_UNDO
        store_busy(false)
#endif
      fi
    :: else
    fi;
    // enter_behind()
    lock_mutex();
    if
    :: owner == _pid || owner == UNCLAIMED ->
      owner = _pid;
      hand_on();
      busy = true;
      unlock_mutex();
      use();
      store_busy(false)
    :: else ->
      if
      :: owner != NOBODY ->
        shut_out_owner();
        owner = NOBODY;
#ifdef LETS_IN
        foreign = false
#endif
      :: else
      fi;
      use();
      unlock_mutex()
    fi;
next: skip
  :: else -> break
  od;
  finished++
}

// The thread of the library, which leaves the bias as it is.
active proctype Foreigner() {
  byte round;
  do
  :: round < ROUNDS ->
    round++;
    lock_mutex();
    if
    :: owner != NOBODY && owner != UNCLAIMED ->
      shut_out_owner();
      use();
      foreign = false
    :: else -> use()
    fi;
    unlock_mutex()
  :: else -> break
  od;
  finished++
}
