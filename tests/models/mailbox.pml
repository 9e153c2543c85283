/* SPDX-License-Identifier: Apache-2.0
 *
 * Mailboxes of objects on a rank of several workers: docs/decisions/0066. tern/mobile/mail/mailboxes.cpp puts and
 * delivers; tern/task/scheduler/activations.cpp runs, steals and wakes; tern/task/scheduler/parking.cpp sleeps. The
 * names are those of the C++ code. One object and its mailbox, whose home is worker 0. A fiber sends MAILS messages, each
 * of which may be urgent, so that there are two tickets. Then the object's end is known, and its mailbox is to go.
 *
 * A handler ends at once, or *waits* until the one behind it has run (WAITS of them). A worker may also come to the long
 * body of a fiber (LONGS of them, one at a time), which ends when all messages have been delivered. So what is left in a
 * mailbox that no worker comes to ends in a deadlock, which is an error. The invariants:
 *   A  One fiber at a time delivers.
 *   B  What was sent first is delivered first.
 *   C  Each message is delivered once, and none stays. (Deadlock.)
 *   D  Nothing touches a mailbox that has gone; it goes. (Assertion; the end.)
 *
 * Each of these must be found out; the letter is the invariant that it breaks:
 *   -DNO_OWNER         A  a second ticket delivers beside the first
 *   -DGOES_ON          A  a fiber that has waited goes on with what is behind it, although another does
 *   -DBEHIND           B  what was taken and not delivered is put behind what has come meanwhile
 *   -DEND_SILENT       C  who ends a delivery does not look at what has come meanwhile
 *   -DKEEPS            C  a fiber that waits keeps its mailbox
 *   -DLOOK_FIRST       C  looks for a sleeper before the ticket is in the queue
 *   -DNO_LOOK          C  a worker that parks does not look once more
 *   -DLAST_STAYS       C  nobody takes the last ticket of a worker in a long body
 *   -DFREE_EARLY       D  the mailbox goes when it is empty, whatever tickets there are
 *
 * Memory is sequentially consistent: what is under the shard's or a queue's lock is one step, and the fences of
 * `wake_for` and `park` are those of parking.pml. A timer wakes a worker that has seen one ticket of another
 * (`look_again`). Not here: admission to the object, which order and exclusion of invocations follow from (mobile.pml);
 * the choice of the home; moves.
 */

#ifndef MAILS
#define MAILS 3
#endif
#ifndef WAITS
#define WAITS 1
#endif
#ifndef LONGS
#define LONGS 1
#endif
#define WORKERS 2
#define HOME 0

/* The mailbox: under the shard's lock. */
chan waiting = [MAILS] of { byte };
chan current = [MAILS] of { byte };
bool delivering, orphaned, freed;
bool queued[2]; /* by urgency */
byte urgent[2]; /* how many wait or are being delivered */
bool is_urgent[MAILS + 1];

/* Tickets in workers' queues. */
byte queue[WORKERS * 2];
#define COUNT(w) (queue[2 * (w)] + queue[2 * (w) + 1])
bool in_long[WORKERS];
#ifdef LAST_STAYS
#define CAN_STEAL (COUNT(other) > 1)
#else
#define CAN_STEAL (COUNT(other) > 1 || (COUNT(other) == 1 && in_long[other]))
#endif

mtype = {awake, parked, unparked};
mtype spot[WORKERS] = awake;
byte asleep, searching;

byte delivered, waits = WAITS, longs = LONGS, deliverers, blocked;

#define ALIVE assert(!freed)

inline drop_if_unused() {
  if
#ifdef FREE_EARLY
  :: orphaned && !freed && len(waiting) == 0 && !delivering -> freed = 1
#else
  :: orphaned && !freed && len(waiting) == 0 && !delivering && !queued[0] && !queued[1] -> freed = 1
#endif
  :: else
  fi
}
/* Sets `ticket`: 0 or 1, by urgency; 2: none. */
inline next_ticket() {
  if
  :: delivering || len(waiting) == 0 -> ticket = 2
  :: else ->
     if
     :: urgent[1] > 0 && !queued[1] -> ticket = 1; queued[1] = 1
     :: urgent[1] > 0 && queued[1] -> ticket = 2
     :: urgent[1] == 0 && !queued[0] && !queued[1] -> ticket = 0; queued[0] = 1
     :: else -> ticket = 2
     fi
  fi
}
inline wake(w) { atomic {
  if
  :: spot[w] == parked -> spot[w] = unparked; searching++
  :: else
  fi } }
inline wake_for() {
  if
  :: atomic { target != me && spot[target] == parked -> skip }; wake(target)
  :: atomic { !(target != me && spot[target] == parked) && asleep > 0 && searching == 0 -> skip };
     atomic {
       if
       :: spot[1] == parked -> spot[1] = unparked; searching++
       :: spot[1] != parked && spot[0] == parked -> spot[0] = unparked; searching++
       :: else
       fi
     }
  :: atomic { !(target != me && spot[target] == parked) && !(asleep > 0 && searching == 0) -> skip }
  fi
}
inline ready() {
  if
  :: ticket == 2
  :: ticket < 2 ->
     atomic {
       target = HOME;
       if
       :: spot[HOME] == parked && me < WORKERS -> target = me
       :: else
       fi
     };
#ifdef LOOK_FIRST
     wake_for();
     atomic { queue[2 * target + ticket]++; ticket = 2 }
#else
     atomic { queue[2 * target + ticket]++; ticket = 2 };
     wake_for()
#endif
  fi
}
inline end_delivery() {
  atomic {
    ALIVE;
#ifdef BEHIND
    do
    :: current?mail -> waiting!mail
    :: len(current) == 0 -> break
    od;
#else
    do
    :: waiting?mail -> current!mail
    :: len(waiting) == 0 -> break
    od;
    do
    :: current?mail -> waiting!mail
    :: len(current) == 0 -> break
    od;
#endif
    mail = 0;
    delivering = 0;
    deliverers--;
    ticket = 2;
#ifndef END_SILENT
    next_ticket();
#endif
    drop_if_unused()
  };
  ready()
}

inline found_work() { /* of the last to search: see parking.pml */
  if
  :: atomic { counted -> counted = 0; searching-- };
     if
     :: atomic { searching == 0 && asleep > 0 && spot[other] == parked -> spot[other] = unparked; searching++ }
     :: atomic { !(searching == 0 && asleep > 0 && spot[other] == parked) -> skip }
     fi
  :: atomic { !counted -> skip }
  fi
}
inline run_ticket() {
  if
  :: ticket == 1 -> ticket = 2; deliver(1)
  :: ticket == 0 -> ticket = 2; deliver(0)
  fi
}
inline sleep() {
  if
  :: atomic { spot[me] == unparked -> skip }
  :: atomic { perhaps && CAN_STEAL -> perhaps = 0 } /* the timer; when it would find nothing, it does not matter */
  :: freed -> skip /* the end */
  fi
}

/* A handler that waited has been answered, on whatever worker. */
proctype resumed(byte which) {
  byte mail;
  atomic { delivered > which -> blocked-- };
#ifdef GOES_ON
  atomic {
    if
    :: len(current) > 0 -> deliverers++; assert(deliverers == 1)
    :: len(current) == 0
    fi
  }
#endif
}

inline deliver(which) {
  atomic {
    ALIVE;
    queued[which] = 0;
    if
#ifdef NO_OWNER
    :: len(waiting) == 0 -> drop_if_unused()
#else
    :: delivering || len(waiting) == 0 -> drop_if_unused()
#endif
    :: else ->
       delivering = 1;
       deliverers++;
       assert(deliverers == 1); /* A */
       do
       :: waiting?mail -> current!mail
       :: len(waiting) == 0 -> break
       od;
       mail = 0;
       mine = 1
    fi
  };
  do
  :: atomic { mine && len(current) > 0 ->
       ALIVE;
       current?mail;
       assert(mail == delivered + 1); /* B */
       delivered++;
       urgent[is_urgent[mail]]--;
       printf("%d delivers %d\n", me, mail) };
     if
     :: skip /* quick */
     :: atomic { waits > 0 && mail < MAILS -> waits--; blocked++; run resumed(mail); printf("%d waits\n", mail); mine = 0 };
#ifndef KEEPS
        end_delivery()
#endif
     fi
  :: atomic { mine -> mine = 0 }; end_delivery() /* there is no more, or it is the others' turn */
  :: atomic { !mine -> break }
  od
}

active [WORKERS] proctype worker() {
  byte me = _pid, other = 1 - _pid, ticket = 2, target, mail;
  bool mine, counted, perhaps;
  do
  :: atomic { COUNT(me) > 0 ->
       if
       :: queue[2 * me + 1] > 0 -> queue[2 * me + 1]--; ticket = 1
       :: else -> queue[2 * me]--; ticket = 0
       fi };
     found_work();
     run_ticket()
  :: atomic { COUNT(me) == 0 && CAN_STEAL ->
       if
       :: queue[2 * other + 1] > 0 -> queue[2 * other + 1]--; ticket = 1
       :: else -> queue[2 * other]--; ticket = 0
       fi };
     found_work();
     run_ticket()
  :: atomic { longs > 0 && !in_long[other] -> longs--; in_long[me] = 1; printf("%d is in a long body\n", me) };
     found_work();
     atomic { delivered == MAILS -> in_long[me] = 0 }
  :: atomic { COUNT(me) == 0 && !counted -> counted = 1; searching++ }
  :: atomic { COUNT(me) == 0 && counted -> spot[me] = parked };
     atomic { asleep++; searching--; counted = 0; perhaps = 0 };
     if
#ifdef NO_LOOK
     :: skip -> sleep()
#else
     :: atomic { COUNT(me) > 0 || COUNT(other) > 1 -> skip }
     :: atomic { COUNT(me) == 0 && COUNT(other) == 1 -> perhaps = 1 }; sleep()
     :: atomic { COUNT(me) == 0 && COUNT(other) == 0 -> skip }; sleep()
#endif
     fi;
     atomic {
       if
       :: spot[me] == unparked
       :: else -> searching++ /* by itself; else the one that unparked it has counted it */
       fi;
       spot[me] = awake;
       asleep--;
       counted = 1
     }
  od
}

active proctype sender() {
  byte me = WORKERS, ticket = 2, target, level, n = 1;
  do
  :: n <= MAILS ->
     atomic {
       ALIVE;
       if
       :: level = 0
       :: level = 1
       fi;
       is_urgent[n] = level;
       waiting!n;
       urgent[level]++;
       printf("%d is sent, %d\n", n, level);
       next_ticket()
     };
     ready();
     n++
  :: n > MAILS -> break
  od;
  atomic { delivered == MAILS && blocked == 0 -> orphaned = 1; drop_if_unused() };
  freed
}
