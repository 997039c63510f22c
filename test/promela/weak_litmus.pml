// SPDX-License-Identifier: MIT
//
// Litmus tests of weak.pml: short programs of which is known what C++ forbids. The forbidden
// outcome is an error; each definition is a program, and with WEAK its orders are relaxed, so that
// the outcome is allowed, and must be found:
//   MP: a message passed by release and acquire
//   MP_FENCES: the same by fences
//   SB: two threads that store, then look whether the other one did
//   SB_MEMBARRIER: the same, where one has the kernel fence for the other
//   SB_RELEASED: release and acquire do not forbid it
//   LB: two threads that load, and then store what the other one loads
//   IRIW: two threads that see two stores, of one thread each, in different orders
//   IRIW_ACQUIRED: acquire does not forbid it
//   CORR: a thread does not see an older value after a newer one; relaxed already
//   CHAIN: a release is seen through an exchange by a third thread

#define LATE
#define THREADS 4
#define LOCATIONS 2
#define WRITES 4
#include "weak.pml"

#define X 0
#define Y 1

#ifdef WEAK
#define ORDER(order) RELAXED
#define FENCED(order) skip
#else
#define ORDER(order) (order)
#define FENCED(order) FENCE(order)
#endif

byte a, b, c, d;
bool moved;
byte ended;

#if defined(MP) || defined(CHAIN)
#define FIRST STORE(X, 1, RELAXED); STORE(Y, 1, ORDER(RELEASE))
#ifdef MP
#define SECOND LOAD(Y, ORDER(ACQUIRE), a); LOAD(X, RELAXED, b)
#define FORBIDDEN (a == 1 && b == 0)
#else
#define SECOND CAS(Y, 1, 2, RELAXED, moved)
#define THIRD LOAD(Y, ORDER(ACQUIRE), a); LOAD(X, RELAXED, b)
#define FORBIDDEN (a == 2 && b == 0)
#endif
#endif

#ifdef MP_FENCES
#define FIRST STORE(X, 1, RELAXED); FENCED(RELEASE); STORE(Y, 1, RELAXED)
#define SECOND LOAD(Y, RELAXED, a); FENCED(ACQUIRE); LOAD(X, RELAXED, b)
#define FORBIDDEN (a == 1 && b == 0)
#endif

#ifdef SB
#define FIRST STORE(X, 1, RELAXED); FENCED(SEQ_CST); LOAD(Y, RELAXED, a)
#define SECOND STORE(Y, 1, RELAXED); FENCED(SEQ_CST); LOAD(X, RELAXED, b)
#define FORBIDDEN (a == 0 && b == 0)
#endif

#ifdef SB_MEMBARRIER
#define BARRIER FENCED(SEQ_CST); FENCE_OF(1); FENCED(SEQ_CST)
#define FIRST STORE(X, 1, RELAXED); BARRIER; LOAD(Y, RELAXED, a)
#define SECOND STORE(Y, 1, RELAXED); LOAD(X, RELAXED, b)
#define FORBIDDEN (a == 0 && b == 0)
#endif

#ifdef SB_RELEASED
#define FIRST STORE(X, 1, RELEASE); LOAD(Y, ACQUIRE, a)
#define SECOND STORE(Y, 1, RELEASE); LOAD(X, ACQUIRE, b)
#define FORBIDDEN (a == 0 && b == 0)
#endif

#ifdef LB
#define FIRST LOAD_LATE(X); STORE(Y, 1, ORDER(RELEASE)); AWAIT_LATE(a)
#define SECOND LOAD_LATE(Y); STORE(X, 1, ORDER(RELEASE)); AWAIT_LATE(b)
#define FORBIDDEN (a == 1 && b == 1)
#endif

#if defined(IRIW) || defined(IRIW_ACQUIRED)
#define FIRST STORE(X, 1, RELEASE)
#define SECOND STORE(Y, 1, RELEASE)
#ifdef IRIW
#define THIRD LOAD(X, RELAXED, a); FENCED(SEQ_CST); LOAD(Y, RELAXED, b)
#define FOURTH LOAD(Y, RELAXED, c); FENCED(SEQ_CST); LOAD(X, RELAXED, d)
#else
#define THIRD LOAD(X, ACQUIRE, a); LOAD(Y, ACQUIRE, b)
#define FOURTH LOAD(Y, ACQUIRE, c); LOAD(X, ACQUIRE, d)
#endif
#define FORBIDDEN (a == 1 && b == 0 && c == 1 && d == 0)
#endif

#ifdef CORR
#define FIRST STORE(X, 1, RELAXED); STORE(X, 2, RELAXED)
#define SECOND LOAD(X, RELAXED, a); LOAD(X, RELAXED, b)
#define FORBIDDEN (a > b)
#endif

#ifndef THIRD
#define THIRD skip
#endif
#ifndef FOURTH
#define FOURTH skip
#endif

active proctype First() { FIRST; ended++ }
active proctype Second() { SECOND; ended++ }
active proctype Third() { THIRD; ended++ }
active proctype Fourth() { FOURTH; ended++ }

active proctype Processor() {
end:
  do
  :: perform(0)
  :: perform(1)
  :: ended == THREADS -> break
  od
}

active proctype Judge() { ended == THREADS -> assert(!FORBIDDEN) }
