/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims of several objects (docs/design/claims.md): OBJECTS objects, one on each rank at first, and CLAIMERS functions
 * over two or three of them each, whichever. A claimer asks for its objects in ascending order, each when the one before
 * is granted; an object grants to the first that waits. When all are granted, those that are elsewhere move to the main
 * object's rank; then the function runs, and all are let go. MOVES times a program asks for a move of any object, which
 * is made when nothing has it. PAUSES times a function releases all its objects and gets them back, in ascending order,
 * before all that wait; meanwhile they do not move: who has to move one lets all go, waits, and claims anew.
 *
 * -DPAIRS: each wants one of the three pairs, in a ring.
 *
 * - Nothing has an object beside another, also while it moves and where it lands.
 * - A function runs when it has all of its objects, which are on one rank.
 * - Nothing moves before its function has all.
 * - All functions end (no invalid end state), and nothing is claimed then.
 *
 * Not here: messages to an object's rank, which the model of mobile objects has (mobile.pml); shared claims; failures,
 * after which all are let go as at the end.
 *
 * Each of these must be found out:
 *   -DUNORDERED       a claimer asks for its objects as they were given
 *   -DALL_AT_ONCE     it asks for all at once
 *   -DLOST            what is claimed is free where it lands
 *   -DMOVES_EARLY     the first that is granted moves at once
 *   -DREGAINS_ANYHOW  what was released is had again in descending order
 *   -DMOVED_BY_OTHERS a claimed object moves when a program asks for it
 *   -DWAITS_WITH_ALL  who finds that an object cannot move, since a function has released it, waits with all it has
 */

#ifndef OBJECTS
#define OBJECTS 3
#endif
#ifndef CLAIMERS
#define CLAIMERS 3
#endif
#ifndef MOVES
#define MOVES 1
#endif
#ifndef PAUSES
#define PAUSES 1
#endif

#define NOBODY 7
#define HAS(c, o) ((wants[c] >> (o)) & 1)

chan waiting[OBJECTS] = [CLAIMERS] of { byte };
byte holder[OBJECTS] = NOBODY; /* who has it */
byte place[OBJECTS];
bool travelling[OBJECTS];
byte resuming[OBJECTS]; /* claimers (bits) that have released it and want it back */
byte wants[CLAIMERS], main_of[CLAIMERS], got[CLAIMERS];
bool may_move[CLAIMERS];
byte inside[OBJECTS], unfinished[OBJECTS];
byte moves, pauses, ended, begun;

/* The object admits who comes next: one step under its lock. */
inline admit(o) {
  if
  :: holder[o] == NOBODY && !travelling[o] && resuming[o] == 0 && nempty(waiting[o]) ->
     waiting[o] ? w;
     holder[o] = w;
     got[w] = got[w] | (1 << (o))
  :: else
  fi
}
inline let_go(o) { holder[o] = NOBODY; admit(o) }

proctype claimer(byte me) {
  byte o, w, n;
  atomic {
    /* Which, and which is the main one. */
#ifdef PAIRS
    if
    :: me == 0 -> wants[me] = 3
    :: me == 1 -> wants[me] = 6
    :: me == 2 -> wants[me] = 5
    fi;
#else
    if
    :: wants[me] = 3
    :: wants[me] = 6
    :: wants[me] = 5
    :: wants[me] = 7
    fi;
#endif
    if
    :: HAS(me, 0) -> main_of[me] = 0
    :: HAS(me, 1) -> main_of[me] = 1
    :: HAS(me, 2) -> main_of[me] = 2
    fi
  }
  /* Claiming. */
claiming:
#ifdef UNORDERED
  atomic { n = main_of[me]; waiting[n] ! me; admit(n) }
  (got[me] & (1 << n));
#endif
  o = 0;
  do
  :: o < OBJECTS && HAS(me, o) && !(got[me] & (1 << o)) ->
     atomic { waiting[o] ! me; admit(o) }
#ifndef ALL_AT_ONCE
     (got[me] & (1 << o));
#ifdef MOVES_EARLY
     atomic { place[o] = place[main_of[me]]; assert(may_move[me]) }
#endif
#endif
     o++
  :: o < OBJECTS && (!HAS(me, o) || (got[me] & (1 << o))) -> o++
  :: o == OBJECTS -> break
  od;
  (got[me] == wants[me]);
  o = 0; w = 0;
  /* Can those move that have to? Looked at when each was granted: while it is had, nothing is released. */
  n = NOBODY;
  atomic {
    for (o : 0 .. OBJECTS - 1) {
      if
      :: HAS(me, o) && place[o] != place[main_of[me]] && unfinished[o] > 0 -> n = o
      :: else
      fi
    }
  }
  if
  :: n != NOBODY ->
#ifndef WAITS_WITH_ALL
     o = 0;
     do
     :: o < OBJECTS && HAS(me, o) -> atomic { got[me] = got[me] & ~(1 << o); let_go(o) } o++
     :: o < OBJECTS && !HAS(me, o) -> o++
     :: o == OBJECTS -> break
     od;
#endif
     (unfinished[n] == 0);
     goto claiming
  :: else
  fi;
  may_move[me] = true; n = 0; o = 0; w = 0;
  /* Moving: what is claimed leaves, and is claimed where it lands. */
  o = 0;
  do
  :: o < OBJECTS && HAS(me, o) && place[o] != place[main_of[me]] ->
     atomic {
       assert(holder[o] == me && !travelling[o]);
       travelling[o] = true
#ifdef LOST
       ; holder[o] = NOBODY
#endif
     }
     atomic { /* it lands, and its rank looks who may have it */
       place[o] = place[main_of[me]];
       travelling[o] = false;
       admit(o)
     }
     o++
  :: o < OBJECTS && (!HAS(me, o) || place[o] == place[main_of[me]]) -> o++
  :: o == OBJECTS -> break
  od;
  /* Running. */
  o = 0; w = 0;
  atomic {
    for (o : 0 .. OBJECTS - 1) {
      if
      :: HAS(me, o) ->
         assert(holder[o] == me && !travelling[o] && place[o] == place[main_of[me]]);
         inside[o]++;
         assert(inside[o] == 1)
      :: else
      fi
    }
  }
  if
  :: atomic { pauses < PAUSES -> pauses++ }
     o = 0;
     do
     :: o < OBJECTS && HAS(me, o) -> atomic { inside[o]--; unfinished[o]++; let_go(o) } o++
     :: o < OBJECTS && !HAS(me, o) -> o++
     :: o == OBJECTS -> break
     od;
     n = 0;
     do
     :: n < OBJECTS ->
#ifdef REGAINS_ANYHOW
        o = OBJECTS - 1 - n;
#else
        o = n;
#endif
        if
        :: HAS(me, o) ->
           atomic { resuming[o] = resuming[o] | (1 << me) }
           atomic {
             holder[o] == NOBODY && !travelling[o] ->
             holder[o] = me;
             resuming[o] = resuming[o] & ~(1 << me);
             unfinished[o]--
           }
           atomic { inside[o]++; assert(inside[o] == 1) }
        :: else
        fi;
        n++
     :: n == OBJECTS -> break
     od
  :: true
  fi;
  /* Letting go. */
  w = 0; n = 0;
  o = 0;
  do
  :: o < OBJECTS && HAS(me, o) -> atomic { inside[o]--; assert(holder[o] == me); let_go(o) } o++
  :: o < OBJECTS && !HAS(me, o) -> o++
  :: o == OBJECTS -> break
  od;
  ended++
}

/* A program asks for moves; the object leaves when nothing has it, and comes back to life elsewhere. */
proctype mover() {
  byte o, w;
  do
  :: moves < MOVES ->
     moves++;
     select (o : 0 .. 2);
     atomic {
#ifdef MOVED_BY_OTHERS
       !travelling[o] && inside[o] == 0 -> travelling[o] = true
#else
       holder[o] == NOBODY && !travelling[o] && unfinished[o] == 0 -> travelling[o] = true
#endif
     }
     if
     :: true -> place[o] = 0
     :: true -> place[o] = 1
     fi;
     atomic { travelling[o] = false; admit(o) }
  :: moves == MOVES -> break
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. OBJECTS - 1) { place[i] = i };
    for (i : 0 .. CLAIMERS - 1) { run claimer(i) };
    run mover()
  }
  timeout;
  atomic {
    assert(ended == CLAIMERS);
    for (i : 0 .. OBJECTS - 1) { assert(holder[i] == NOBODY && len(waiting[i]) == 0 && resuming[i] == 0) }
  }
}
