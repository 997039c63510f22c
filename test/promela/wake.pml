// SPDX-License-Identifier: MIT
//
// How a thread goes to sleep on a JFCE while peers publish: CompletionQueue::arm and RemoteBell.
// Processors may keep a store to themselves while later loads are executed: each process has one
// such store here, which its processor publishes at any time. No wakeup is lost, even if the
// publisher dies on the way.
//
// FENCED: publishers fence, as they do if no one can enter the process barrier, or on RDMA devices.
// Else the arming thread has the kernel fence for them.
// MIXED: the second peer is behind a network: what comes from it is published by a thread that
// fences by itself (WireEngine::arrived), and on whose processor no barrier is relied upon.
// Each of these removes a part of the rules, and must be detected:
//   NO_BARRIER: the arming thread only fences itself, and the others do not
//   NO_FENCE: MIXED, and that thread does not fence
//   LOOK_FIRST: the arming thread checks the queue before it stores the bell
//   NO_LOOK: the arming thread does not check the queue
//   NO_JANITOR: no one handles what dead processes have left

#define PEERS 2
#define ROUNDS 2

// The contents of memory.
byte messages;   // published by all peers
bool armed;
byte events;     // of the JFCE's descriptor

// Held back by a processor.
byte kept_messages[PEERS];
bool kept_armed;

byte taken;
bool dead[PEERS], finished[PEERS];

active [PEERS] proctype Processor() {
  // Of the peer with this number.
  do
  :: d_step { kept_messages[_pid] > 0 -> messages = messages + kept_messages[_pid]; kept_messages[_pid] = 0 }
  :: finished[_pid] && kept_messages[_pid] == 0 -> break
  od
}

active [PEERS] proctype Peer() {
  byte me = _pid - PEERS;
  byte sent;
  {
    do
    :: sent < ROUNDS ->
      kept_messages[me]++;
      sent++;
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
      if
      :: armed -> events++
      :: !armed
      fi
    :: else -> break
    od
  } unless { dead[me] };
  finished[me] = true
}

active proctype Fate() {
  if
  :: true
  :: dead[0] = true
  fi
}

// The kernel closes the connection of a dead process, and the service thread of the waiting process
// handles what it left.
#ifndef NO_JANITOR
active proctype Janitor() {
  do
  :: dead[0] && finished[0] && kept_messages[0] == 0 ->
    if
    :: messages > taken && armed -> events++
    :: else
    fi;
    break
  :: finished[0] && !dead[0] -> break
  od
}
#endif

inline look() {
  if
  :: messages > taken -> d_step { armed = false; kept_armed = false; taken = messages; found = true }
  :: else
  fi
}

// Takes everything, and may sleep indefinitely only once nothing more can come.
active proctype Waiter() {
  bool found;
  do
  :: found = false;
#ifdef LOOK_FIRST
    look();
#endif
    kept_armed = true;
#ifndef NO_BARRIER
    // The fence publishes its own store, and the barrier those of all others.
    d_step { armed = true; kept_armed = false }
#ifndef FENCED
    d_step {
      messages = messages + kept_messages[0];
      kept_messages[0] = 0;
#ifndef MIXED
      messages = messages + kept_messages[1];
      kept_messages[1] = 0
#endif
    }
#endif
#else
    d_step { armed = true; kept_armed = false }
#endif
#if !defined(LOOK_FIRST) && !defined(NO_LOOK)
    look();
#endif
    if
    :: found
    // A descriptor that is read reports all rings at once.
    :: !found && events > 0 -> d_step { events = 0; armed = false; taken = messages }
end_asleep:
    :: !found && events == 0 && timeout ->
      assert(messages == taken);
      break
    fi
  od
}
