// SPDX-License-Identifier: MIT
//
// The ring of urma/providers/shm/ring.h: every message arrives once, in order and whole, no slot is
// written that the other side still uses, and every message ends once at its sender, whatever dies
// when. Plain writes before a release store are visible after the acquire load that pairs with it,
// so sequential consistency is no simplification here.
//
// Each of these removes a part of the rules, and must be detected:
//   NO_CLEAR: the word after a message is not cleared (RingProducer::begin)
//   REUSE: consumed slots count as room before their end was reported (RingProducer::room_for)
//   NO_WANTED: lazy answers are not requested (RingProducer::want_answers)
//   EARLY: the position is published before the message is read (RingConsumer::consume)

#define SLOTS 4
#define MESSAGES 4
#define QUARTER 2
#define GARBAGE 99
#define AT(position) ((position) % SLOTS)

#ifdef REUSE
#define FREE_FROM consumed
#else
#define FREE_FROM reaped
#endif
#define ROOM_FOR(count) (head - FREE_FROM + count + 1 <= SLOTS)

// Shared memory. The first word holds the position + 1, so that zeros are not a message in
// the first lap, and a word with the position itself in none.
byte tag[SLOTS], slots[SLOTS], id[SLOTS];
bool wants_answer[SLOTS];
bool failed[SLOTS];  // the answers
byte consumed, wanted;

// State of the checks only.
bool held[SLOTS];  // published, and not consumed
byte published, received, ended;
bool refused[MESSAGES];

bool producer_dead, consumer_dead;

// Private to the producer.
byte head, reaped, sent_slots[SLOTS], sent_id[SLOTS];
bool dirty[SLOTS];

inline put(position, word, number) {
  d_step {
    assert(!held[AT(position)]);
    tag[AT(position)] = word;
    id[AT(position)] = number;
  }
}

// Each step touches shared memory once, together with private state of the producer.
inline send(count) {
#ifndef NO_CLEAR
  if
  :: dirty[AT(head + count)] -> put(head + count, head + count, GARBAGE)
  :: else
  fi;
#endif
  // Payload that would look like a message in the next lap.
  if
  :: count == 2 -> put(head + 1, head + 1 + SLOTS + 1, published)
  :: else
  fi;
  if
  :: publish(count, true)
  :: publish(count, false)
  fi
}

inline publish(count, wants) {
  d_step {
    assert(!held[AT(head)]);
    dirty[AT(head + count)] = false;
    if
    :: count == 2 -> dirty[AT(head + 1)] = true
    :: else
    fi;
    dirty[AT(head)] = false;
    sent_slots[AT(head)] = count;
    sent_id[AT(head)] = published;
    wants_answer[AT(head)] = wants;
    slots[AT(head)] = count;
    id[AT(head)] = published;
    held[AT(head)] = true;
    held[AT(head + count - 1)] = true;
    // SYNC(ring-publish)
    tag[AT(head)] = head + 1;
    published++;
    head = head + count
  }
}

// SYNC(ring-consumed)
#define NEXT_IS_THROUGH (reaped != head && reaped + sent_slots[AT(reaped)] <= consumed)

inline reap() {
  d_step {
    assert(sent_id[AT(reaped)] == ended);
    assert(failed[AT(reaped)] == refused[ended]);
    failed[AT(reaped)] = false;
    ended++;
    reaped = reaped + sent_slots[AT(reaped)]
  }
}

active proctype Producer() {
  {
    do
    :: published < MESSAGES && ROOM_FOR(1) -> send(1)
    :: published < MESSAGES && ROOM_FOR(2) -> send(2)
    :: NEXT_IS_THROUGH -> reap()
#ifndef NO_WANTED
    :: d_step { published == MESSAGES && wanted != head -> wanted = head }
#endif
    :: published == MESSAGES && reaped == head -> break
    :: consumer_dead ->
      // No more reports: unanswered messages end with the connection.
      do
      :: NEXT_IS_THROUGH -> reap()
      :: !NEXT_IS_THROUGH && reaped != head ->
        d_step { ended++; reaped = reaped + sent_slots[AT(reaped)] }
      :: reaped == head -> break
      od;
      break
    od;
    assert(ended == published)
  } unless { producer_dead }
}

active proctype Consumer() {
  byte position, told;
  bool answer;
  {
    do
    :: d_step {
        tag[AT(position)] == position + 1 ->
        assert(held[AT(position)]);
        assert(id[AT(position)] == received)
      };
#ifdef EARLY
      d_step { told = position + slots[AT(position)]; consumed = told };
#endif
      d_step {
        assert(held[AT(position + slots[AT(position)] - 1)]);
        assert(id[AT(position + slots[AT(position)] - 1)] == received);
        answer = wants_answer[AT(position)]
      };
      if
      :: true
      :: d_step { failed[AT(position)] = true; refused[received] = true; answer = true }
      fi;
      d_step {
        held[AT(position)] = false;
        held[AT(position + slots[AT(position)] - 1)] = false;
        position = position + slots[AT(position)];
        received++;
        if
        :: position != told && (answer || position - told >= QUARTER) ->
          told = position;
          consumed = position
        :: else
        fi
      }
    // SYNC(ring-wanted)
    :: d_step { told != position && wanted > told -> told = position; consumed = position }
    :: producer_dead && tag[AT(position)] != position + 1 -> assert(received == published); break
    :: received == MESSAGES && told == position -> break
    :: received == MESSAGES && consumer_dead -> break
    od
  } unless { consumer_dead }
}

// Which process it kills, and when.
active proctype Fate() {
  if
  :: true
  :: producer_dead = true
  :: consumer_dead = true
  fi
}
