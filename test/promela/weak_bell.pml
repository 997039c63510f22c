// SPDX-License-Identifier: MIT
//
// The bells of JFCs on the memory of weak.pml: CompletionQueue::arm, the look of a thread that
// waits, and those who publish and then look at the bell. No wakeup is lost. wake.pml has the rest:
// peers that die, who helps then, and more threads and rounds.
//
// FENCED: publishers fence; else the arming thread has the kernel fence for them.
// MIXED: the second publisher is WireEngine::arrived, which fences by itself, and on whose
// processor no barrier is relied upon.
// FENCES: the arming thread may put kFences into the bell, and does not call the kernel if kFences
// was there before.
// LOOKS: the thread that waits may put kLooks into the bell once, and look by itself.
// TWO: a second thread arms the JFC once, or takes kFences out of the bell.
// Each of these removes an order, and must be detected:
//   NO_MEMBARRIER: heavy_barrier() does not call the kernel; not FENCED
//   NO_FENCE: heavy_barrier() does not fence; FENCED or FENCES. Else the kernel's own barriers do
//   NO_LIGHT_FENCE: light_barrier() does not fence; FENCED
//   NO_SIGNAL_FENCE: the compiler moves the look at the bell before the store (light_barrier)
//   NO_ARRIVED_FENCE: WireEngine::arrived does not fence; MIXED
//   LOOK_FIRST: the arming thread looks for messages before it stores the bell
//   NO_TOLD_FENCE: publishers do not fence though the bell has kFences; FENCES
//   NO_SECOND_LOOK: they do not load the bell again after that fence; FENCES
//   NO_END_FENCE: a thread that gives up its look does not fence after it took out kLooks; LOOKS
//   NO_END_BARRIER: it does not call the kernel, though kFences was not there before; LOOKS
//   NO_LAST_LOOK: it does not look for messages then; LOOKS
//   LAST_LOOK_FIRST: it does so before it takes out kLooks; LOOKS
//
// Bounded: the messages, fewer with more of the above.

#define PEERS 2
#ifdef TWO
#define THREADS 4
#define WRITES 9
#else
#define THREADS 3
#define WRITES 11
#endif
#define LOCATIONS 3
#include "weak.pml"

// Of the peer: as many as a short search allows.
#if defined(FENCED) || (defined(MIXED) && defined(FENCES))
#define MESSAGES 1
#elif defined(TWO)
#define MESSAGES (ME == 0 -> 1 : 0)
#define ONE
#elif defined(FENCES)
#define MESSAGES (ME == 0 -> 2 : 0)
#define ONE
#else
#define MESSAGES (ME == 0 -> 2 : 1)
#endif
// Locations 0 and 1: the messages of each peer.
#define BELL 2
#ifdef MIXED
#define IS_ARRIVED (ME == 1)
#else
#define IS_ARRIVED false
#endif

#define kArmed 1
#define kLooks 2
#define kFences 4

bool edge;     // of the JFCE's descriptor
bool pending;  // the JFC is in the list of its channel
byte moved[PEERS], taken[PEERS];

// fetch_or and fetch_and
inline CHANGE(location, keep, add_bits, order, before) {
  d_step {
    chosen = newest[location];
    before = written[WRITE(location, chosen)];
    replace(location, (before & (keep)) | (add_bits), order);
    chosen = 0
  }
}
#define ALL 255

// The system calls order: who is woken sees what those who woke it saw.
byte rung[LOCATIONS];
inline ring_peer() {
  d_step {
    found = 0;
    edge = true;
    for (other : 0 .. LOCATIONS - 1) {
      RAISE(rung[other], seen[OF(ME, other)])
    }
    other = 0
  }
}
inline wake_up() {
  edge = false;
  for (other : 0 .. LOCATIONS - 1) {
    RAISE(seen[OF(ME, other)], rung[other]);
    RAISE(heard[OF(ME, other)], rung[other])
  }
  other = 0
}

inline publish() {
  atomic { sent++; STORE(ME, sent, RELEASE) }
}

// SYNC(bell)
active [PEERS] proctype Peer() {
  byte sent, found;
  do
  :: sent < MESSAGES ->
#ifdef NO_SIGNAL_FENCE
    LOAD(BELL, RELAXED, found);
    publish();
#else
    publish();
#if defined(FENCED) && !defined(NO_LIGHT_FENCE)
    FENCE(SEQ_CST);
#endif
#if defined(MIXED) && !defined(NO_ARRIVED_FENCE)
    if
    :: ME == 1 -> FENCE(SEQ_CST)
    :: else
    fi;
#endif
    LOAD(BELL, RELAXED, found);
#endif
#if !defined(NO_TOLD_FENCE) && !defined(FENCED)
    if
    :: (found & kFences) && !IS_ARRIVED ->
      FENCE(SEQ_CST);
#ifndef NO_SECOND_LOOK
      LOAD(BELL, RELAXED, found)
#endif
    :: else
    fi;
#endif
    if
    :: (found & kArmed) && (IS_ARRIVED || !(found & kLooks)) -> ring_peer()
    :: else -> found = 0
    fi
  :: else -> break
  od
}

// SYNC(bell)
inline have_kernel_fence() {
#if !defined(FENCED) && !defined(NO_MEMBARRIER)
  if
  :: before & kFences
  :: else ->
    FENCE(SEQ_CST);
    FENCE_OF(0);
#if !defined(MIXED) && !defined(ONE)
    FENCE_OF(1);
#endif
    FENCE(SEQ_CST)
  fi;
#endif
  before = 0
}

inline look_at(peer) {
  LOAD(peer, ACQUIRE, value);
  if
  :: value > moved[peer] -> moved[peer] = value; found = true
  :: else
  fi;
  value = 0
}

// Moves what has come; just_armed: also tells of what is in the JFC's ring already. One thread at a
// time. Then CompletionQueue::raise.
inline look(just_armed) {
#ifdef TWO
  LOCK();
#endif
  atomic {
    look_at(0);
#ifndef ONE
    look_at(1);
#endif
    if
    :: just_armed && (moved[0] > taken[0] || moved[1] > taken[1]) -> found = true
    :: else
    fi
  };
  if
  :: found ->
    atomic { found = false; LOAD(BELL, RELAXED, before) };
    if
    :: before & kArmed ->
      CHANGE(BELL, kFences, 0, RELAXED, before);
      d_step {
        if
        :: before & kArmed -> pending = true; edge = true
        :: else
        fi;
        before = 0
      }
    :: else -> before = 0
    fi
  :: else
  fi
#ifdef TWO
  ;
  UNLOCK()
#endif
}

inline arm() {
#ifdef LOOK_FIRST
  look(true);
#endif
  if
  :: CHANGE(BELL, ALL, kArmed, RELAXED, before)
#ifdef FENCES
  :: CHANGE(BELL, ALL, kArmed | kFences, RELAXED, before)
#endif
  fi;
#ifndef NO_FENCE
  FENCE(SEQ_CST);
#endif
  have_kernel_fence();
#ifndef LOOK_FIRST
  look(true)
#endif
}

#ifdef LOOKS
inline end_look() {
#ifdef LAST_LOOK_FIRST
  look(false);
#endif
  LOAD(BELL, RELAXED, before);
  if
  :: before & kLooks ->
    CHANGE(BELL, ALL - kLooks, 0, RELAXED, before);
#ifndef NO_END_FENCE
    FENCE(SEQ_CST);
#endif
#ifdef NO_END_BARRIER
    before = 0;
#else
    have_kernel_fence();
#endif
#if !defined(NO_LAST_LOOK) && !defined(LAST_LOOK_FIRST)
    look(false)
#endif
  // An event has taken it out.
  :: else -> before = 0
  fi
}
#endif

// Takes everything, and may sleep indefinitely only once nothing more can come.
active proctype Waiter() {
  byte value, before;
  bool found;
#ifdef LOOKS
  bool looked;
#endif
  do
  :: arm();
#ifdef LOOKS
    LOAD(BELL, RELAXED, before);
    if
    :: d_step { !looked && (before & kArmed) -> looked = true; before = 0 }
      CHANGE(BELL, ALL, kLooks, RELAXED, before);
      before = 0;
      if
      :: look(false)
      :: true
      fi;
      end_look()
    :: before = 0
    fi;
#endif
    do
    :: d_step { pending -> pending = false; taken[0] = moved[0]; taken[1] = moved[1] }
      break
    :: d_step { !pending && edge -> wake_up() }
      look(false)
end_asleep:
    :: !pending && !edge && timeout ->
      assert(taken[0] == newest[0] && taken[1] == newest[1]);
      goto asleep
    od
  od;
asleep:
  skip
}

#ifdef TWO
active proctype Second() {
  byte value, before;
  bool found, cleared;
  if
  :: arm()
  :: CAS(BELL, kFences, 0, RELAXED, cleared);
    cleared = false
  fi
}
#endif
