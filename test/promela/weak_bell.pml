// SPDX-License-Identifier: MIT
//
// The bells of JFCs on the memory of weak.pml: CompletionQueue::arm and those who publish and then
// look at the bell. No wakeup is lost. wake.pml has the rest: peers that die, and who helps then.
//
// FENCED: publishers fence; else the arming thread has the kernel fence for them.
// MIXED: the second publisher is WireEngine::arrived, which fences by itself, and on whose
// processor no barrier is relied upon.
// Each of these removes an order, and must be detected:
//   NO_MEMBARRIER: heavy_barrier() does not call the kernel; not FENCED
//   NO_FENCE: heavy_barrier() does not fence; FENCED. Else the kernel's own barriers do
//   NO_LIGHT_FENCE: light_barrier() does not fence; FENCED
//   NO_SIGNAL_FENCE: the compiler moves the look at the bell before the store (light_barrier)
//   NO_ARRIVED_FENCE: WireEngine::arrived does not fence; MIXED
//   LOOK_FIRST: the arming thread looks for messages before it stores the bell

#define PEERS 2
#define THREADS 3
#define LOCATIONS 3
#define WRITES 16
#include "weak.pml"

// Of the peer: as many as a short search allows.
#ifdef FENCED
#define MESSAGES 1
#else
#define MESSAGES (ME == 0 -> 2 : 1)
#endif
// Locations 0 and 1: the messages of each peer.
#define BELL 2

byte events;  // of the JFCE's descriptor
byte taken[PEERS];

// SYNC(bell)
active [PEERS] proctype Peer() {
  byte sent, armed;
  do
  :: sent < MESSAGES ->
    sent++;
#ifdef NO_SIGNAL_FENCE
    LOAD(BELL, RELAXED, armed);
    STORE(ME, sent, RELEASE);
#else
    STORE(ME, sent, RELEASE);
#if defined(FENCED) && !defined(NO_LIGHT_FENCE)
    FENCE(SEQ_CST);
#endif
#if defined(MIXED) && !defined(NO_ARRIVED_FENCE)
    if
    :: ME == 1 -> FENCE(SEQ_CST)
    :: else
    fi;
#endif
    LOAD(BELL, RELAXED, armed);
#endif
    if
    :: armed != 0 -> events++
    :: else
    fi
  :: else -> break
  od
}

// SYNC(bell)
#if defined(FENCED) && defined(NO_FENCE)
#define heavy_barrier() skip
#else
inline heavy_barrier() {
#ifndef NO_FENCE
  FENCE(SEQ_CST);
#endif
#if !defined(FENCED) && !defined(NO_MEMBARRIER)
  FENCE(SEQ_CST);
  FENCE_OF(0);
#ifndef MIXED
  FENCE_OF(1);
#endif
  FENCE(SEQ_CST)
#endif
}
#endif

inline look_at(peer) {
  LOAD(peer, ACQUIRE, value);
  if
  :: value > taken[peer] -> taken[peer] = value; found = true
  :: else
  fi
}

// Takes everything, and may sleep indefinitely only once nothing more can come.
active proctype Waiter() {
  byte value;
  bool found;
  do
  :: found = false;
#ifdef LOOK_FIRST
    look_at(0);
    look_at(1);
#endif
    STORE(BELL, 1, RELAXED);
    heavy_barrier();
#ifndef LOOK_FIRST
    look_at(0);
    look_at(1);
#endif
    if
    :: found -> STORE(BELL, 0, RELAXED)
    // A descriptor that is read reports all rings at once.
    :: !found && events > 0 -> events = 0; STORE(BELL, 0, RELAXED)
end_asleep:
    :: !found && events == 0 && timeout ->
      assert(taken[0] == newest[0] && taken[1] == newest[1]);
      break
    fi
  od
}
