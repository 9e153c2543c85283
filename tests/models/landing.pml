/* SPDX-License-Identifier: Apache-2.0
 *
 * How device data are asked for within a budget: tern/global/transfer/landing_budget.hpp, transfer_table.cpp. The names are
 * those of the C++ code. One rank asks another for N transfers, of one unit each, within a budget of ROOM. They read one
 * object between whose readers writers stand: transfer i is ready when all before it have left, or were dropped. Their
 * descriptors come in any order, as messages may be forwarded, and any of them may be read to be thrown away.
 *
 *   A  All come to the end: each has landed or was dropped. (No state but the last is an end.)
 *   B  No more is under way than the budget has. (Assertion.)
 *   C  Each is asked for or dropped once, and lands once, with room. (Assertions.)
 *   D  At the end nothing of the budget is held. (Assertion.)
 *
 * Each of these must be found out; the letter is the invariant that it breaks:
 *   -DNO_RECALL     A  what has room and is not ready keeps it
 *   -DFULL_REQUEST  A  what there is no room for is not asked for until there is, in the order of the descriptors
 *   -DKEEPS_BACK    A  room that is given back is not given to the next
 *   -DDROP_LOST     A  what is not wanted is not told
 *   -DTWICE         B  room that is given back counts as given back by the data, too
 *   -DPASSES        B  what becomes ready does not look whether there is room
 */

#ifndef N
#define N 3 /* or 4 */
#endif
#ifndef ROOM
#define ROOM 1
#endif

mtype = { request, drop, room, recall, ready, returned, data };
chan to_origin = [4 * N] of { mtype, byte, bool }; /* which, with room */
chan to_receiver = [3 * N] of { mtype, byte };

/* The origin's departures. */
bool asked[N], has_room[N], told[N], left[N];
byte first; /* all before it have left or were dropped */

inline advance() {
  do
  :: first < N && left[first] -> first++
  :: else -> break
  od
}

active proctype origin() {
  byte i;
  bool with;
end_origin:
  do
  :: to_origin?request(i, with) -> atomic { assert(!asked[i]); asked[i] = true; has_room[i] = with } /* C */
  :: to_origin?drop(i, with) -> atomic { assert(!asked[i]); asked[i] = true; left[i] = true; advance() } /* C */
  :: to_origin?room(i, with) -> assert(told[i] && !left[i]); has_room[i] = true /* C */
  :: to_origin?recall(i, with) ->
     atomic {
       if
       :: !left[i] && i > first && has_room[i] -> has_room[i] = false; to_receiver!returned(i)
       :: else
       fi
     }
  :: atomic { first < N && asked[first] && !left[first] && has_room[first] ->
       left[first] = true;
       to_receiver!data(first);
       advance() }
  :: atomic { first < N && asked[first] && !left[first] && !has_room[first] && !told[first] ->
       told[first] = true;
       to_receiver!ready(first) }
  od
}

/* The receiver's arrivals: what part of the budget each has. */
#define UNREAD 0
#define NONE 1
#define WAITS 2
#define HAS 3
#define RECALLED 4
#define OVER 5
byte part[N], held;
chan waiting = [N] of { byte };

inline let_come() {
  do
  :: len(waiting) > 0 && held < ROOM ->
     waiting?j;
     held++;
     part[j] = HAS;
#ifdef FULL_REQUEST
     to_origin!request(j, true)
#else
     to_origin!room(j, true)
#endif
  :: else -> break
  od;
  j = 0
}

active proctype receiver() {
  byte i, j, n;
  do
  :: n < N ->
     atomic {
       n++;
       if /* any descriptor that has not been read */
       :: part[0] == UNREAD -> i = 0
       :: part[1] == UNREAD -> i = 1
       :: part[2] == UNREAD -> i = 2
#if N > 3
       :: part[3] == UNREAD -> i = 3
#endif
       fi;
       if
       :: part[i] = OVER; /* it is thrown away */
#ifndef DROP_LOST
          to_origin!drop(i, false)
#endif
       :: len(waiting) == 0 && held < ROOM -> held++; part[i] = HAS; to_origin!request(i, true)
#ifdef FULL_REQUEST
       :: !(len(waiting) == 0 && held < ROOM) -> part[i] = WAITS; waiting!i
#else
       :: !(len(waiting) == 0 && held < ROOM) -> part[i] = NONE; to_origin!request(i, false)
#endif
       fi
     }
  :: to_receiver?ready(i) ->
     atomic {
       assert(part[i] == NONE); /* C */
       if
#ifdef PASSES
       :: true -> held++; part[i] = HAS; to_origin!room(i, true)
#else
       :: len(waiting) == 0 && held < ROOM -> held++; part[i] = HAS; to_origin!room(i, true)
       :: else ->
          part[i] = WAITS;
          waiting!i;
#ifndef NO_RECALL
          j = 0;
          do
          :: j < N ->
             if
             :: part[j] == HAS -> part[j] = RECALLED; to_origin!recall(j, true)
             :: else
             fi;
             j++
          :: else -> break
          od;
          j = 0
#endif
#endif
       fi;
       assert(held <= ROOM) /* B */
     }
  :: to_receiver?returned(i) ->
     atomic {
       assert(part[i] == RECALLED); /* C */
       part[i] = NONE;
       held--;
#ifndef KEEPS_BACK
       let_come()
#endif
     }
  :: to_receiver?data(i) ->
     atomic {
       assert(part[i] == HAS || part[i] == RECALLED); /* C */
       part[i] = OVER;
       held--;
#ifdef TWICE
       if
       :: held > 0 -> held--
       :: else -> assert(false) /* B: more is given back than is held */
       fi;
#endif
       let_come()
     }
  :: n == N && first == N && len(to_receiver) == 0 && len(to_origin) == 0 -> break
  od;
  assert(held == 0 && len(waiting) == 0) /* D */
}
