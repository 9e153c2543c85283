/* SPDX-License-Identifier: Apache-2.0
 *
 * What one worker hands to another: docs/decisions/0087. tern/task/worker/handed_ring.hpp is the ring;
 * tern/task/scheduler/activations.cpp hands over, settles, stands in and wakes; tern/mobile/mail/mailboxes.cpp chooses
 * the way. The names are those of the C++ code. A fiber sends MAILS messages to one object, whose home is a worker of
 * its own. The fiber runs on worker 0 or 1, and changes between any two messages. Each message goes through the ring of
 * that worker, if the home is awake and there is space, or straight into the mailbox, behind what was handed over
 * before. The home takes from both rings, in any order, and sleeps when they are empty. Another worker stands in for it
 * if it is in a long body, which it may be once; that ends when all messages have been taken.
 *
 * The invariants:
 *   A  What was sent first is put into the mailbox first.
 *   B  Each message is put once, and none stays in a ring. (The end; deadlock.)
 *
 * Each of these must be found out; the letter is the invariant that it breaks:
 *   -DNO_SETTLE     A  a message goes straight into the mailbox while others are in the ring
 *   -DEARLY         A  the reader counts a message as taken before it has been put
 *   -DSTAYS_BEHIND  A  a fiber that has moved forgets what it has handed over elsewhere
 *   -DNO_LOCK       A  two read a ring at the same time
 *   -DONE_ROUND     B  a slot does not say in which round it was written
 *   -DLOOK_FIRST    B  looks whether the home sleeps before the message is in the ring
 *   -DNO_LOOK       B  the home does not look at its rings once more before it sleeps
 *   -DNO_STAND_IN   B  no worker takes what has been handed to one in a long body
 *
 * Memory is sequentially consistent: the fences of `hand` and `park` are those of parking.pml.
 */

#ifndef MAILS
#define MAILS 4
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif
#define RINGS 2

byte slots[RINGS * CAPACITY]; /* the message, and in the last two bits the round */
byte written[RINGS], passed[RINGS];
bool locked[RINGS];
byte last_put;
bool parked, asleep, in_long;
byte longs = 1;

#ifdef ONE_ROUND
#define ROUND(n) 1
#else
#define ROUND(n) (1 + ((n) / CAPACITY) % 2)
#endif
#define SLOT(r, n) slots[(r) * CAPACITY + (n) % CAPACITY]
#define FRONT(r) ((SLOT(r, passed[r]) & 3) == ROUND(passed[r]))

inline put(m) { atomic {
  assert((m) == last_put + 1); /* A, B */
  last_put++;
  printf("%d is put\n", m) } }

/* Takes all that is in a ring. */
inline take_all(r) {
#ifndef NO_LOCK
  atomic { !locked[r] -> locked[r] = 1 };
#endif
  do
  :: atomic { FRONT(r) -> mail = SLOT(r, passed[r]) / 4 };
#ifdef EARLY
     passed[r]++;
     put(mail)
#else
     put(mail);
     passed[r]++
#endif
  :: atomic { !FRONT(r) -> mail = 0; break }
  od;
#ifndef NO_LOCK
  locked[r] = 0
#endif
}
/* Returns when the first `n` of a ring have been taken. */
inline settle(r, n) {
  if
  :: passed[r] < (n) -> take_all(r)
  :: else
  fi
}
inline wake_if(sleeps) {
  if
  :: atomic { (sleeps) && parked -> parked = 0 }
  :: atomic { !((sleeps) && parked) -> skip }
  fi
}

active proctype sender() {
  byte at = 0, handed_by = RINGS, n = 1, mail;
  bool slept;
  do
  :: n <= MAILS ->
     if /* another worker has the fiber, or the same */
     :: at = 0
     :: at = 1
     fi;
#ifndef STAYS_BEHIND
     if /* settle_if_moved */
     :: handed_by < RINGS && handed_by != at -> settle(handed_by, written[handed_by]); handed_by = RINGS
     :: else
     fi;
#endif
     if
     :: atomic { !asleep && written[at] - passed[at] < CAPACITY -> skip };
#ifdef LOOK_FIRST
        slept = parked;
#endif
        atomic { SLOT(at, written[at]) = n * 4 + ROUND(written[at]); written[at]++; handed_by = at };
#ifdef LOOK_FIRST
        wake_if(slept)
#else
        wake_if(true)
#endif
     :: skip; /* the home is not known, it sleeps, or there is no space */
#ifndef NO_SETTLE
        settle(at, written[at]);
#endif
        put(n)
     fi;
     n++
  :: n > MAILS -> break
  od
}

active proctype home() {
  byte mail, r;
  do
  :: FRONT(0) -> take_all(0)
  :: FRONT(1) -> take_all(1)
  :: atomic { longs > 0 -> longs--; in_long = 1 }; atomic { last_put == MAILS -> in_long = 0 }
  :: !FRONT(0) && !FRONT(1) ->
     parked = 1;
     asleep = 1;
#ifndef NO_LOOK
     if
     :: FRONT(0) || FRONT(1)
     :: else ->
#endif
        if
        :: !parked
        :: last_put == MAILS -> break /* the end */
        fi
#ifndef NO_LOOK
     fi
#endif
     ;
     atomic { parked = 0; asleep = 0 }
  od
}

/* A worker that has nothing to do. */
active proctype thief() {
  byte mail;
  do
#ifndef NO_STAND_IN
  :: in_long && FRONT(0) -> take_all(0)
  :: in_long && FRONT(1) -> take_all(1)
#endif
  :: last_put == MAILS -> break
  od
}
