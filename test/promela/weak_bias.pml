// SPDX-License-Identifier: MIT
//
// The bias of OwnerLock (jetty/owner_lock.h) on the memory of weak.pml; its mutex is one of the
// system. At most one thread is inside, and sees what all before it did. With QUIESCE the foreign
// thread calls await_others() in place of enter_foreign(): afterwards no thread is inside that has
// not seen what was stored before the call.
//
// Each of these removes an order, and must be detected:
//   NO_MEMBARRIER: shut_out_owner() only fences itself
//   NO_SIGNAL_FENCE: the compiler moves the owner's look before its store (enter_biased)
//   NO_LEAVE_RELEASE, NO_AWAIT_ACQUIRE: leave_at_once(), await_owner()
//   NO_UNDO_RELEASE: an owner that is shut out takes back that it is inside
//   NO_FOREIGN_RELEASE, NO_FOREIGN_ACQUIRE: leave_foreign(), enter_biased()

#define THREADS 3
#define LOCATIONS 4
#define WRITES 9
#ifndef ROUNDS
#define ROUNDS 2
#endif
#include "weak.pml"

#define OWNER 0
#define BUSY 1
#define FOREIGN 2
#ifdef QUIESCE
#define DEAD 3
#else
#define QUEUE 3
#endif

#define UNCLAIMED 0
#define NOBODY 200
#define NAME (ME + 1)

// SYNC(bias-left)
#ifdef NO_LEAVE_RELEASE
#define LEAVE_RELEASE RELAXED
#else
#define LEAVE_RELEASE RELEASE
#endif
#ifdef NO_AWAIT_ACQUIRE
#define AWAIT_ACQUIRE RELAXED
#else
#define AWAIT_ACQUIRE ACQUIRE
#endif
#ifdef NO_UNDO_RELEASE
#define UNDO_RELEASE RELAXED
#else
#define UNDO_RELEASE RELEASE
#endif
// SYNC(bias-foreign)
#ifdef NO_FOREIGN_RELEASE
#define FOREIGN_RELEASE RELAXED
#else
#define FOREIGN_RELEASE RELEASE
#endif
#ifdef NO_FOREIGN_ACQUIRE
#define FOREIGN_ACQUIRE RELAXED
#else
#define FOREIGN_ACQUIRE ACQUIRE
#endif

// State of the checks only.
byte inside, uses;
bool freed;

inline use() {
#ifdef QUIESCE
  LOAD(DEAD, RELAXED, value);
  if
  :: value == 0 -> assert(!freed)
  :: else
  fi
#else
  LOAD(QUEUE, RELAXED, value);
  d_step {
    inside++;
    uses++;
    assert(inside == 1 && value == uses - 1)
  }
  STORE(QUEUE, value + 1, RELAXED);
  inside--
#endif
}

// SYNC(bias-inside)
inline barrier() {
  FENCE(SEQ_CST);
#ifndef NO_MEMBARRIER
  FENCE_OF(0);
  FENCE_OF(1);
  FENCE_OF(2);
  FENCE(SEQ_CST)
#endif
}

inline await_owner() {
  do
  :: LOAD(BUSY, AWAIT_ACQUIRE, value);
    if
    :: value == 0 -> break
    :: else
    fi
  od
}

inline shut_out_owner() {
  STORE(FOREIGN, 1, RELAXED);
  barrier();
  await_owner()
}

inline enter_biased(done) {
  done = false;
  LOAD(OWNER, RELAXED, value);
  if
  :: value == NAME ->
    // SYNC(bias-inside)
#ifdef NO_SIGNAL_FENCE
    LOAD(FOREIGN, FOREIGN_ACQUIRE, value);
    STORE(BUSY, 1, RELAXED);
#else
    STORE(BUSY, 1, RELAXED);
    LOAD(FOREIGN, FOREIGN_ACQUIRE, value);
#endif
    if
    :: value == 0 -> done = true
    :: else -> STORE(BUSY, 0, UNDO_RELEASE)
    fi
  :: else
  fi
}

inline enter_behind() {
  LOCK();
  LOAD(OWNER, RELAXED, value);
  if
  :: value == NOBODY
  :: value == UNCLAIMED || value == NAME ->
    STORE(OWNER, NAME, RELAXED);
    STORE(BUSY, 1, RELAXED);
    UNLOCK()
  :: else ->
    shut_out_owner();
    STORE(OWNER, NOBODY, RELAXED)
  fi
}

inline leave() {
  LOAD(OWNER, RELAXED, value);
  if
  :: value == NOBODY -> UNLOCK()
  :: else -> STORE(BUSY, 0, LEAVE_RELEASE)
  fi
}

// Two threads of the program; the first to come gets the bias.
active [2] proctype Thread() {
  byte round, value;
  bool has;
  do
  :: round < ROUNDS ->
    round++;
    enter_biased(has);
    if
    :: has
    :: else -> enter_behind()
    fi;
    use();
    leave()
  :: else -> break
  od
}

// The thread of the library, which leaves the bias as it is.
active proctype Foreigner() {
  byte value;
#ifdef QUIESCE
  STORE(DEAD, 1, RELAXED);
  LOCK();
  LOAD(OWNER, RELAXED, value);
  if
  :: value == NOBODY || value == UNCLAIMED
  :: else -> barrier(); await_owner()
  fi;
  UNLOCK();
  freed = true
#else
  LOCK();
  LOAD(OWNER, RELAXED, value);
  if
  :: value == NOBODY || value == UNCLAIMED
  :: else -> shut_out_owner()
  fi;
  use();
  LOAD(OWNER, RELAXED, value);
  if
  :: value == NOBODY
  :: else -> STORE(FOREIGN, 0, FOREIGN_RELEASE)
  fi;
  UNLOCK()
#endif
}
