// SPDX-License-Identifier: MIT
//
// How memory is taken back while another process copies from it, on the memory of weak.pml. The
// owner stores that it no longer stands, and then what it likes to the memory; the reader looks
// before and after its copy. So a copy that the second look confirms has only what was there
// before. Two protocols do this: a message by reference (RingProducer::hide, RingConsumer::lent),
// and, with SEGMENT, a segment and its word (SegmentTable::remove, Receiver::pull_stretch).
//
// Each of these removes an order, and must be detected:
//   NO_OWNER_FENCE: the release fence after the owner's store
//   NO_READER_FENCE: the acquire fence before the reader's second look
//   NO_STANDS_RELEASE, NO_STANDS_ACQUIRE: what makes it stand, and the first look

#define THREADS 2
#define LOCATIONS 2
#define WRITES 4
#include "weak.pml"

#define WORD 0
#define BYTES 1

#define STANDS 1
#define GONE 2
#define OURS 1
#define OTHER 2

#ifdef NO_STANDS_RELEASE
#define STANDS_RELEASE RELAXED
#else
#define STANDS_RELEASE RELEASE
#endif
#ifdef NO_STANDS_ACQUIRE
#define STANDS_ACQUIRE RELAXED
#else
#define STANDS_ACQUIRE ACQUIRE
#endif
#ifdef SEGMENT
#define GONE_RELEASE RELEASE
#define SECOND_ACQUIRE ACQUIRE
#else
#define GONE_RELEASE RELAXED
#define SECOND_ACQUIRE RELAXED
#endif

active proctype Owner() {
  STORE(BYTES, OURS, RELAXED);
  STORE(WORD, STANDS, STANDS_RELEASE);
  // SYNC(ring-hidden), SYNC(segment-gone)
  STORE(WORD, GONE, GONE_RELEASE);
#ifndef NO_OWNER_FENCE
  FENCE(RELEASE);
#endif
  STORE(BYTES, OTHER, RELAXED)
}

active proctype Reader() {
  byte word, copied;
  LOAD(WORD, STANDS_ACQUIRE, word);
  if
  :: word == STANDS ->
    LOAD(BYTES, RELAXED, copied);
    // SYNC(ring-hidden), SYNC(segment-gone)
#ifndef NO_READER_FENCE
    FENCE(ACQUIRE);
#endif
    LOAD(WORD, SECOND_ACQUIRE, word);
    assert(word == GONE || copied == OURS)
  :: else
  fi
}
