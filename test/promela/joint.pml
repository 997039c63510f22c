// SPDX-License-Identifier: MIT
//
// A copy by both ends, urma/providers/shm/joint_copy.h: when a turn ends, each part holds the bytes
// of its message, the sender writes nothing there any more, and the receiver does not wait
// indefinitely for a sender that is stopped or dead. Two turns, of two messages. Both ends follow
// the rules, and a sender that runs goes on before it is given up (JointTurn::End::kStuck). Each
// value is published by a release and read by an acquire, and the kernel orders a stop and what
// follows it in the same way, so sequential consistency is no simplification here.
//
// Each of these removes a part of the rules, and must be detected:
//   NO_WITHDRAW: the list stays as it is when the receiver has waited (JointTurn::wait)
//   LOOKS_FIRST: whether the sender is stopped is looked at before the withdrawal, not after it
//   OFFERS_ON: another turn is offered after a sender was stopped (Receiver::worth_help)
//   NO_WAIT: a turn ends at once, whatever the sender has taken
//   NO_CLOSE: parts stay on offer after the receiver's own copy has failed
//   ANY_TOLD: what the sender has told of an earlier turn counts (JointTurn::is_through)
//   CLAIMS_FIRST: parts are offered before the position of their message (JointTurn)
//   POSITION_FIRST: the sender reads the position before what is on offer (JointHelp)
//   NO_TURN: the sender takes parts of whatever turn is on offer (JointHelp::is_open)
//   FORGETS_FAILURE: the sender takes more parts of a turn in which it has failed

#define PARTS 3
#define TURNS 2
#define STOPS 2
#define AT(turn, part) (((turn) - 1) * PARTS + (part))

// Shared memory. Turns count from 1; the position of a message is the number of its turn.
byte turn, front, back, position;
byte list[PARTS];  // the turn into whose place a part goes; 0: no length
byte told_turn, told_parts;
bool told_failed;

// State of the checks only.
bool right[AT(TURNS + 1, 0)];  // whether a part holds the bytes of its message
bool ended[TURNS + 1];

// A stop and death wait for the end of a call of the kernel.
bool in_kernel, stopped, dead;

#ifdef ANY_TOLD
#define TOLD true
#else
#define TOLD (told_turn == mine)
#endif
// SYNC(joint-written)
#define THROUGH (left == PARTS || TOLD && (told_failed || told_parts == PARTS - left))

// By the receiver alone. Nothing can be copied from a dead process.
inline copy(from, to) {
  atomic {
    failed = failed || dead && from < to;
    for (i : from .. to - 1) { right[AT(mine, i)] = true }
  }
}

inline offer() {
  atomic {
    for (i : 0 .. PARTS - 1) { list[i] = mine }
  };
  // SYNC(joint-offer)
#ifndef CLAIMS_FIRST
  position = mine;
#endif
  atomic { turn = mine; front = 0; back = PARTS };
#ifdef CLAIMS_FIRST
  position = mine;
#endif
}

inline end_turn() {
  atomic {
    first = front;
    left = back;
#ifndef NO_CLOSE
    back = front
#endif
  };
#ifndef NO_WAIT
  if
  :: THROUGH
#ifdef LOOKS_FIRST
  :: stopped || dead ->
#else
  :: true ->
#endif
#ifndef NO_WITHDRAW
    for (i : 0 .. PARTS - 1) { list[i] = 0 }
#endif
    if
    :: THROUGH
#ifdef LOOKS_FIRST
    :: alone = true
#else
    :: THROUGH || stopped || dead -> alone = true  // late, or never
#endif
    fi
  fi;
#endif
  unwritten = (left != PARTS && TOLD -> PARTS - told_parts : PARTS)
}

active proctype Receiver() {
  byte mine, first, left, unwritten, i;
  bool failed, alone;
  for (mine : 1 .. TURNS) {
    atomic { failed = false; first = 0; unwritten = PARTS };
    if
#ifndef OFFERS_ON
    :: alone
#endif
    :: else ->
      offer();
      do
      :: atomic { front < back -> first = front; front++ };
        copy(first, first + 1)
      :: front == back -> break
      :: failed = true; break
      od;
      end_turn()
    fi;
    copy(first, unwritten);
    atomic {
      for (i : 0 .. PARTS - 1) { assert(failed || right[AT(mine, i)]) }
      ended[mine] = true
    }
  }
}

// The kernel reads the list, and then writes its stretch of bytes to what has a length there.
inline write() {
  in_kernel = true;
  for (i : first .. last - 1) { wanted[i] = list[i] }
  next = first;
  for (i : first .. last - 1) {
    if
    :: wanted[i] != 0 ->
      assert(!ended[wanted[i]]);
      right[AT(wanted[i], i)] = (wanted[i] == message && i == next);
      next++
    :: wanted[i] == 0
    :: break  // it fails
    fi
  }
  in_kernel = false
}

#define FAILED (told_turn == mine && told_failed)

active proctype Sender() provided (in_kernel || !stopped || dead) {
  byte mine, message, first, last, next, i, wanted[PARTS];
  {
end:
    do
    :: front < back ->
      // SYNC(joint-offer)
#ifdef POSITION_FIRST
      message = position;
#endif
      mine = turn;
#ifndef POSITION_FIRST
      message = position;
#endif
      do
      :: atomic {
#ifndef NO_TURN
          turn == mine &&
#endif
#ifndef FORGETS_FAILURE
          !FAILED &&
#endif
          front < back ->
          last = back;
          first = back - 1;
          do
          :: first > front -> first--
          :: break
          od;
          back = first
        };
        write();
        atomic {
          told_parts = (told_turn == mine -> told_parts : 0) + (next == last -> last - first : 0);
          told_failed = FAILED || next != last;
          told_turn = mine
        }
      :: else -> break
      od
    od
  } unless { dead }
}

active proctype Fate() {
  byte stops;
  do
  :: atomic { stops < STOPS && !in_kernel -> stopped = true; stops++ };
    if
    :: true
    :: true -> ended[TURNS]  // the receiver does not see it go on
    :: true -> dead = true
    fi;
    stopped = false
  :: atomic { !in_kernel -> dead = true }
  :: break
  od
}
