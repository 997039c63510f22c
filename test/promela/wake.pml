// SPDX-License-Identifier: MIT
//
// How threads go to sleep on a JFCE while peers publish: CompletionQueue::arm, the look of a thread
// that waits, and RemoteBell. Processors may keep a store to themselves while later loads are
// executed: each peer has one such store here, which its processor publishes at any time. No wakeup
// is lost, even if the publisher dies on the way.
//
// An arming thread may put kFences into the bell, and skips the process barrier if it was there
// before. A thread that waits may put kLooks there and look at the queue by itself. A thread that
// polls may take kFences out.
// FENCED: publishers fence, as they do if no one can enter the process barrier, or on RDMA devices.
// Else the arming thread has the kernel fence for them, or kFences tells them to.
// MIXED: the second peer is behind a network: what comes from it is published by a thread that
// fences by itself (WireEngine::arrived), and on whose processor no barrier is relied upon.
// TWO: two threads wait, and no publisher dies. Else one does.
// PLAIN: no one puts kFences into the bell, or looks by itself.
// Each of these removes a part of the rules, and must be detected:
//   NO_BARRIER: no thread has the kernel fence for the others
//   NO_FENCE: MIXED, and that thread does not fence
//   LOOK_FIRST: the arming thread checks the queue before it stores the bell
//   NO_LOOK: the arming thread does not check the queue
//   NO_JANITOR: no one handles what dead processes have left
//   NO_TOLD_FENCE: publishers do not fence though the bell has kFences
//   NO_SECOND_LOOK: publishers do not load the bell again after that fence
//   SKIPS_ITS_OWN: the arming thread skips the barrier also if it has put kFences there just now
//   SETS_ONLY: a thread puts kFences there and has the kernel fence, but does not check the queue
//   STORE_CLEARS: the polling thread loads the bell, and stores 0 if only kFences was there
//   NO_LAST_LOOK: a thread that gives up its look does not check the queue once more
//   LAST_LOOK_FIRST: it does so before it takes out kLooks
//   NO_END_BARRIER: then it does not have the kernel fence, though kFences was not there
//   KEEPS_LOOKS: it leaves kLooks if its look ends with an event that another thread raised
//   ENDS_BLIND: it takes out kLooks then, but does not check the queue; TWO
//   HEEDS_LOOKS: a thread of the process that moves what has come raises no event if kLooks is
//     there; not TWO
// These are not needed, and the model holds without them:
//   DROPS_FENCE: an event takes out kFences too
//   CLEARS_ANY: the polling thread takes out kFences, whatever else is there
//   RAISE_LEAVES_LOOKS: an event leaves kLooks to the thread that looks
//   LOOKS_BY_EXCHANGE: kLooks is only put beside kArmed and kFences, by a compare-exchange. Then
//     NO_END_BARRIER holds, but not with CLEARS_ANY
//
// Bounded: the messages, the deaths, the threads, and that each thread looks by itself once, and
// kFences is taken out once.

#define PEERS 2
#ifdef TWO
#define WAITERS 2
#ifdef MIXED
#define MESSAGES 1
#else
#define MESSAGES (me == 0 -> 2 : 0)
#endif
#else
#define WAITERS 1
#define MESSAGES 2
#endif
#define CLEARINGS 1
#define OWN_LOOKS 1

#define kArmed 1
#define kLooks 2
#define kFences 4

// The contents of memory.
byte messages;   // published by all peers
byte bell;
bool edge;       // of the JFCE's descriptor
bool pending;    // the JFC is in the list of its channel
byte moved;      // to the JFC's own ring
byte taken;      // by the program

// Held back by a processor.
byte kept_messages[PEERS];

bool dead[PEERS], finished[PEERS];

active proctype Processors() {
  do
  :: d_step { kept_messages[0] > 0 -> messages = messages + kept_messages[0]; kept_messages[0] = 0 }
  :: d_step { kept_messages[1] > 0 -> messages = messages + kept_messages[1]; kept_messages[1] = 0 }
  :: finished[0] && finished[1] && kept_messages[0] == 0 && kept_messages[1] == 0 -> break
  od
}

active [PEERS] proctype Peer() {
  byte me = _pid - 1;
  byte sent, found;
  {
    do
    :: d_step { sent < MESSAGES -> kept_messages[me]++; sent++ }
#ifdef FENCED
      kept_messages[me] == 0;
#endif
#if defined(MIXED) && !defined(NO_FENCE)
      if
      :: me == 1 -> kept_messages[me] == 0
      :: else
      fi;
#endif
      // SYNC(bell)
      atomic {
        found = bell;
        if
#ifndef NO_TOLD_FENCE
        :: found & kFences ->
          kept_messages[me] == 0;
#ifndef NO_SECOND_LOOK
          found = bell
#endif
#endif
        :: else
        fi;
#ifdef MIXED
        // Of the same process as the threads that wait: it does not look at kLooks.
        found = (me == 1 -> found & kArmed : found);
#endif
        if
        // The system call comes after the messages.
        :: (found & kArmed) && !(found & kLooks) -> found = 0; kept_messages[me] == 0
        :: else -> found = 0; goto next
        fi
      };
      edge = true;
next:
      skip
    :: sent == MESSAGES -> break
    od
  } unless { dead[me] };
  finished[me] = true
}

#ifndef TWO
active proctype Fate() {
  if
  :: true
  :: dead[0] = true
  fi
}
#endif

inline have_kernel_fence() {
#if !defined(FENCED) && !defined(NO_BARRIER)
  d_step {
    messages = messages + kept_messages[0];
    kept_messages[0] = 0;
#ifndef MIXED
    messages = messages + kept_messages[1];
    kept_messages[1] = 0
#endif
  }
#else
  skip
#endif
}

// Moves what has come; just_armed: also tells of what is in the ring already.
inline move(just_armed) {
  d_step {
    if
    :: messages > moved || (just_armed && messages > taken) -> moved = messages; found = true
    :: else
    fi
  }
}

// CompletionQueue::raise
inline raise() {
  if
  :: !found
  :: d_step { found && !(bell & kArmed) -> found = false }
  :: d_step { found && (bell & kArmed) ->
      found = false;
#if defined(DROPS_FENCE)
      bell = 0
#elif defined(RAISE_LEAVES_LOOKS)
      bell = bell & ~kArmed
#else
      bell = bell & kFences
#endif
    }
    d_step { pending = true; edge = true }
  fi
}

inline look(just_armed) {
  move(just_armed);
  raise()
}

// The kernel closes the connection of a dead process, and the service thread of the waiting process
// handles what it left.
#if !defined(NO_JANITOR) && !defined(TWO)
active proctype Janitor() {
  bool found;
  do
  :: dead[0] && finished[0] && kept_messages[0] == 0 ->
#ifdef HEEDS_LOOKS
    move(false);
    if
    :: !(bell & kLooks) -> raise()
    :: bell & kLooks
    fi;
#else
    look(false);
#endif
    break
  :: finished[0] && !dead[0] -> break
  od
}
#endif

#ifndef PLAIN
active proctype Poller() {
  byte cleared;
  do
#if defined(STORE_CLEARS)
  :: cleared < CLEARINGS && bell == kFences -> bell = 0; cleared++
#elif defined(CLEARS_ANY)
  :: d_step { cleared < CLEARINGS && (bell & kFences) -> bell = bell & ~kFences; cleared++ }
#else
  :: d_step { cleared < CLEARINGS && bell == kFences -> bell = 0; cleared++ }
#endif
  :: break
  od
}
#endif

#ifdef SETS_ONLY
active proctype Setter() {
  bell = bell | kFences;
  have_kernel_fence()
}
#endif

// SYNC(bell)
inline set_bell() {
  if
  :: d_step { before = bell & kFences; bell = bell | kArmed }
#if !defined(PLAIN) && !defined(SETS_ONLY)
  :: d_step { !(bell & kFences) -> before = bell & kFences; bell = bell | kArmed | kFences }
#endif
  fi;
#ifdef SKIPS_ITS_OWN
  before = bell & kFences;
#endif
  if
  :: d_step { before -> before = 0 }
  :: !before -> have_kernel_fence()
  fi
}

inline end_look() {
#ifdef LAST_LOOK_FIRST
  look(false);
#endif
  if
  :: d_step { bell & kLooks -> before = bell & kFences; bell = bell & ~kLooks }
    if
    :: d_step { before -> before = 0 }
    :: !before ->
#ifndef NO_END_BARRIER
      have_kernel_fence()
#endif
    fi;
#if !defined(NO_LAST_LOOK) && !defined(LAST_LOOK_FIRST)
    look(false)
#endif
  // An event or another thread has taken it out.
  :: !(bell & kLooks)
  fi
}

// Takes everything, and may sleep indefinitely only once nothing more can come.
active [WAITERS] proctype Waiter() {
  bool found;
  byte before, looks;
  do
  ::
#ifdef LOOK_FIRST
    look(true);
#endif
    set_bell();
#if !defined(LOOK_FIRST) && !defined(NO_LOOK)
    look(true);
#endif
#ifndef PLAIN
    if
#ifdef LOOKS_BY_EXCHANGE
    :: d_step { looks < OWN_LOOKS && !pending && (bell & kArmed) && (bell & kFences) ->
        looks++;
        bell = bell | kLooks
      }
#else
    :: d_step { looks < OWN_LOOKS && !pending && (bell & kArmed) -> looks++ }
      bell = bell | kLooks;
#endif
      do
      :: messages > moved -> look(false); end_look(); break
      :: pending ->
#if defined(KEEPS_LOOKS)
#elif defined(ENDS_BLIND)
        bell = bell & ~kLooks;
#else
        end_look();
#endif
        break
      :: end_look(); break
      od
    :: true
    fi;
#endif
    do
    :: d_step { pending -> pending = false }
      d_step { taken = messages; moved = messages }
      break
    :: atomic {
        !pending && edge -> edge = false;
        if
        :: bell & kArmed -> move(false)
        :: else
        fi
      }
      raise()
end_asleep:
    :: !pending && !edge && timeout ->
      assert(messages == taken);
      goto asleep
    od
  od;
asleep:
  skip
}
