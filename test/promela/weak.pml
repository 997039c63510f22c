// SPDX-License-Identifier: MIT
//
// A memory that is as weak as C++ allows, for models to include: each location keeps all writes to
// it, and a thread may read any that is not older than what it has seen. What a thread has seen is
// a view: per location, the number of a write. A release write carries the view of its thread, an
// acquire load of that write joins it, and sequentially consistent fences join theirs in the order
// in which they execute. So a thread may see writes of another one in any order (stores pass
// stores), read old values (loads pass loads), and miss a write of another thread that misses its
// own (loads pass stores). With LATE each thread may also keep one load back while it executes
// stores (stores pass loads): LOAD_LATE.
//
// Stronger than C++ in two ways: writes to one location get their order when they execute, and only
// loads by LOAD_LATE are passed by later stores. weak_litmus.pml shows all this.
//
// Define before: THREADS, the first processes of the model; LOCATIONS, all 0 at first; WRITES, more
// than the writes to any one of them.

#define RELAXED 0
#define ACQUIRE 1
#define RELEASE 2
#define ACQ_REL 3
#define SEQ_CST 7

#define ME _pid
#define OF(thread, location) ((thread) * LOCATIONS + (location))
#define WRITE(location, number) ((location) * WRITES + (number))

byte written[LOCATIONS * WRITES];
byte carried[LOCATIONS * WRITES * LOCATIONS];  // the view that the write carries
byte newest[LOCATIONS];
byte seen[THREADS * LOCATIONS];
byte heard[THREADS * LOCATIONS];  // what an acquire fence lets it see: carried by all it has read
byte told[THREADS * LOCATIONS];   // what its relaxed writes carry: seen at its last release fence
byte agreed[LOCATIONS];           // joined by sequentially consistent fences
#ifdef LATE
byte late[THREADS];  // the location of a load that is kept back, + 1
byte late_value[THREADS];
#define NOT_LATE(thread) (late[thread] == 0)
#else
#define NOT_LATE(thread) true
#endif
byte chosen;
hidden byte other;

#define CARRIED(location, number, of) carried[WRITE(location, number) * LOCATIONS + (of)]
#define RAISE(view, to)              \
  if                                 \
  :: view < (to) -> view = (to)      \
  :: else                            \
  fi

inline take(thread, location, order) {
  RAISE(seen[OF(thread, location)], chosen);
  for (other : 0 .. LOCATIONS - 1) {
    RAISE(heard[OF(thread, other)], CARRIED(location, chosen, other));
    if
    :: (order) & ACQUIRE -> RAISE(seen[OF(thread, other)], CARRIED(location, chosen, other))
    :: else
    fi
  }
  RAISE(heard[OF(thread, location)], chosen)
}

inline add(location, value, order) {
  assert(newest[location] + 1 < WRITES);
  newest[location]++;
  seen[OF(ME, location)] = newest[location];
  heard[OF(ME, location)] = newest[location];
  written[WRITE(location, newest[location])] = value;
  for (other : 0 .. LOCATIONS - 1) {
    CARRIED(location, newest[location], other) =
        ((order) & RELEASE -> seen[OF(ME, other)] : told[OF(ME, other)])
  }
  CARRIED(location, newest[location], location) = newest[location]
}

inline choose(thread, location) {
  chosen = newest[location];
  do
  :: chosen > seen[OF(thread, location)] -> chosen--
  :: break
  od;
  skip  // Spin wants a step between a loop and a d_step.
}

inline LOAD(location, order, to) {
  atomic {
    choose(ME, location);
    d_step {
      to = written[WRITE(location, chosen)];
      take(ME, location, order);
      chosen = 0
    }
  }
}

inline STORE(location, value, order) {
  d_step {
    !((order) & RELEASE) || NOT_LATE(ME);
    add(location, value, order)
  }
}

// Of the newest write, `chosen`. The new one carries on what that carried.
inline replace(location, value, order) {
  take(ME, location, order);
  add(location, value, order);
  for (other : 0 .. LOCATIONS - 1) {
    RAISE(CARRIED(location, newest[location], other), CARRIED(location, chosen, other))
  }
}

inline SWAP(location, value, order, before) {
  d_step {
    !((order) & RELEASE) || NOT_LATE(ME);
    chosen = newest[location];
    before = written[WRITE(location, chosen)];
    replace(location, value, order);
    chosen = 0
  }
}

inline ADD(location, amount, order) {
  d_step {
    !((order) & RELEASE) || NOT_LATE(ME);
    chosen = newest[location];
    replace(location, written[WRITE(location, chosen)] + (amount), order);
    chosen = 0
  }
}

// Whether the location held `from` goes to `done`. A failed one is a relaxed load.
inline CAS(location, from, value, order, done) {
  atomic {
    !((order) & RELEASE) || NOT_LATE(ME);
    choose(ME, location);
    d_step {
      if
      :: written[WRITE(location, chosen)] == from -> chosen = newest[location]
      :: else
      fi;
      done = written[WRITE(location, chosen)] == from;
      if
      :: done -> replace(location, value, order)
      :: else -> take(ME, location, RELAXED)
      fi;
      chosen = 0
    }
  }
}

inline fence(thread, order) {
  for (other : 0 .. LOCATIONS - 1) {
    if
    :: (order) & ACQUIRE -> seen[OF(thread, other)] = heard[OF(thread, other)]
    :: else
    fi;
    if
    :: (order) == SEQ_CST ->
      RAISE(agreed[other], seen[OF(thread, other)]);
      seen[OF(thread, other)] = agreed[other];
      heard[OF(thread, other)] = agreed[other]
    :: else
    fi;
    if
    :: (order) & RELEASE -> told[OF(thread, other)] = seen[OF(thread, other)]
    :: else
    fi
  }
}

inline FENCE(order) {
  d_step {
    NOT_LATE(ME);
    fence(ME, order);
    other = 0  // Spin wants something after a loop.
  }
}

// One interrupt of a membarrier: between two steps of that thread.
inline FENCE_OF(thread) {
  d_step {
    NOT_LATE(thread);
    fence(thread, SEQ_CST);
    other = 0
  }
}

#ifdef LATE
inline LOAD_LATE(location) {
  d_step {
    NOT_LATE(ME);
    late[ME] = (location) + 1
  }
}
// Whatever depends on the value waits for it.
inline AWAIT_LATE(to) {
  d_step {
    NOT_LATE(ME);
    to = late_value[ME];
    late_value[ME] = 0
  }
}
inline perform(thread) {
  atomic {
    !NOT_LATE(thread);
    choose(thread, late[thread] - 1);
    d_step {
      late_value[thread] = written[WRITE(late[thread] - 1, chosen)];
      take(thread, late[thread] - 1, RELAXED);
      late[thread] = 0;
      chosen = 0
    }
  }
}
#endif

// A mutex of the system: its holder sees what those before it saw.
bool mutex;
byte left_behind[LOCATIONS];

inline LOCK() {
  d_step {
    !mutex;
    mutex = true;
    for (other : 0 .. LOCATIONS - 1) {
      RAISE(seen[OF(ME, other)], left_behind[other]);
      RAISE(heard[OF(ME, other)], left_behind[other])
    }
    other = 0
  }
}
inline UNLOCK() {
  d_step {
    NOT_LATE(ME);
    mutex = false;
    for (other : 0 .. LOCATIONS - 1) {
      left_behind[other] = seen[OF(ME, other)]
    }
    other = 0
  }
}
