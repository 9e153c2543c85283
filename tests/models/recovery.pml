/* SPDX-License-Identifier: Apache-2.0
 *
 * How survivors agree after a death, and which copy they go back to (tern/net/failure/generation.hpp). RANKS ranks, of
 * which up to DEATHS die, at any moment. Each rank learns of a death at a time of its own, and of none that was not.
 *
 * A program: a copy, then COPIES - 1 times some messages and another copy, then its end. A copy: all call and are quiet,
 * each packs its own and sends it to its buddy, the next in the ring of those that live; a rank that has packed and has what it
 * keeps for another enters a barrier; behind it, it drops the copy before. The end is a barrier too.
 *
 * A rank that knows of more deaths than its generation has abandons it. Then messages of generations before are
 * dropped, handlers end, and it reports what it knows and the number of its newest complete copy to the lowest that
 * lives. That one begins the next generation when all that live have reported what it knows itself: all go back to the
 * newest copy that any has seen complete, and take a new one at once. If one and its buddy are dead, all throw.
 *
 * Rings, barriers and quiescence are steps of their own here (quiescence.pml). A report replaces the one before it. A
 * coordinator that dies has told only some. Other messages overtake each other, and arrive at any time or not.
 *
 * - No message is counted in another generation than it was sent in, and none is on its way when a copy is packed.
 * - All that live have the copy that they go back to, and all the same; those of the dead are at their buddies.
 * - All that live come to the end together, or all throw, and of the same generation; nothing waits for ever.
 *
 * Each of these must be found out:
 *   -DCOUNTS_OLD      a message of a generation before is counted
 *   -DDROPS_NEW       a message of a generation to come is dropped
 *   -DKEEPS_OLD       a copy that was sent in a generation before is kept
 *   -DNO_UNWIND       a rank reports though a handler has not ended
 *   -DPASSES_LATE     a copy becomes complete for a rank that has reported
 *   -DDISCARDS_EARLY  a copy that is not complete is dropped when its generation is abandoned
 *   -DFREES_EARLY     the copy before is dropped when the next is packed
 *   -DOWN_NUMBER      the coordinator goes back to the newest copy that it has seen complete itself
 *   -DNOT_ADOPTED     a rank that has gone back to a copy which it had not seen complete reports the one before
 *   -DANY_SETS        the coordinator does not wait for reports of what it knows
 *   -DREFUSES_MORE    it ignores a report of more than it knows
 *   -DNEW_RING        a dead rank's copy is looked for where its buddy would be now
 *   -DLEAVES          a rank that has come to its end, or has thrown, reports no more
 *   -DNO_LAST         a rank comes to its end without the others
 */

#ifndef RANKS
#define RANKS 3
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef COPIES
#define COPIES 2
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif

#define IN(s, r) (((s) >> (r)) & 1)
#define COUNT(s) (((s) & 1) + (((s) >> 1) & 1) + (((s) >> 2) & 1) + (((s) >> 3) & 1))
#define LOWEST(s) (!IN(s, 0) -> 0 : (!IN(s, 1) -> 1 : (!IN(s, 2) -> 2 : 3)))
#define AFTER(r, n) (((r) + (n)) % RANKS)
/* The ring without the dead of a set, either way: a rank itself if there is no other. */
#define NEXT(r, s) (!IN(s, AFTER(r, 1)) -> AFTER(r, 1) : (!IN(s, AFTER(r, 2)) -> AFTER(r, 2) : AFTER(r, 3)))
#define BEFORE(r, s) \
  (!IN(s, AFTER(r, RANKS - 1)) -> AFTER(r, RANKS - 1) : \
                                  (!IN(s, AFTER(r, RANKS - 2)) -> AFTER(r, RANKS - 2) : AFTER(r, 1)))
#define NONE 31 /* no copy; else the dead when it was taken */
#define ENDED 15 /* as the number of a copy: all have come to the end */
#define GENERATIONS (DEATHS + 1)

mtype = { working, quiet, packed, entered, last, done, thrown };

typedef rank_state {
  mtype phase = quiet;
  byte known, begun;                    /* dead ranks, as sets: what it knows, and with which it has begun */
  byte reported = NONE;                 /* what it has reported of */
  byte number;                          /* of its newest complete copy */
  byte own = NONE, own_new = NONE;      /* copies: when they were taken */
  byte held = NONE, held_new = NONE;    /* another's */
  byte sent, got;
  bool running;
  byte running_in;                      /* of which generation the handler is, for the check */
  byte said[RANKS] = NONE, said_number[RANKS]; /* what others have reported to it */
};
rank_state at[RANKS];
byte dead, messages, finished;
byte deaths; /* to come: chosen at first, so that what then waits for ever is seen */
byte flying[RANKS * GENERATIONS];       /* to, in the generation: messages of the program */
byte quiets[GENERATIONS], barriers[GENERATIONS], inside[GENERATIONS], ends[GENERATIONS];
bool over[GENERATIONS];
chan copies[RANKS] = [4] of { byte, byte, byte, byte }; /* generation, the dead, number, whose */
chan begins[RANKS] = [3] of { byte, byte, bool }; /* the dead, the number, whether all throw */

#define ABANDONED(r) (at[r].known != at[r].begun)
#define HERE(r) COUNT(at[r].begun)
#define LIVES(r) (!IN(dead, r))
#define OUT(r) (at[r].phase == done || at[r].phase == thrown)

/* When the copy of a number was taken that a rank has. */
#define TAKEN(r, n) (at[r].number == (n) -> at[r].own : (at[r].number + 1 == (n) -> at[r].own_new : NONE))
#define TAKEN_FOR(r, n) (at[r].number == (n) -> at[r].held : (at[r].number + 1 == (n) -> at[r].held_new : NONE))

inline complete(r) {
  at[r].number++;
  at[r].own = at[r].own_new; at[r].own_new = NONE;
  at[r].held = at[r].held_new; at[r].held_new = NONE
}

#if RANKS == 4
#define EVERY(what, r) (what(r, 0) && what(r, 1) && what(r, 2) && what(r, 3))
#define SUM(what, r) (what(r, 0) + what(r, 1) + what(r, 2) + what(r, 3))
#else
#define EVERY(what, r) (what(r, 0) && what(r, 1) && what(r, 2))
#define SUM(what, r) (what(r, 0) + what(r, 1) + what(r, 2))
#endif
/* The messages of a generation are all counted, and no handler runs: what the waves of quiesce find. */
#define IS_QUIET(r, i) \
  (IN(at[r].begun, i) || (LIVES(i) && !ABANDONED(i) && at[i].begun == at[r].begun && at[i].phase == quiet && \
                          at[i].number == at[r].number && !at[i].running))
#define SENT(r, i) (IN(at[r].begun, i) -> 0 : at[i].sent)
#define GOT(r, i) (IN(at[r].begun, i) -> 0 : at[i].got)
#define QUIET(r) (EVERY(IS_QUIET, r) && SUM(SENT, r) == SUM(GOT, r))
/* All that live have reported what the coordinator knows. */
#ifdef ANY_SETS
#define HAS_SAID(r, i) (IN(at[r].known, i) || at[r].said[i] != NONE)
#else
#define HAS_SAID(r, i) (IN(at[r].known, i) || at[r].said[i] == at[r].known)
#endif
#define AT_END(r, i) (!LIVES(i) || (OUT(i) && !ABANDONED(i) && at[i].known == dead))

/* A rank dies: nothing of it matters any more. */
inline die(r) {
  dead = dead | (1 << r); deaths--;
  at[r].phase = quiet; at[r].known = 0; at[r].begun = 0; at[r].reported = NONE; at[r].number = 0;
  at[r].own = NONE; at[r].own_new = NONE; at[r].held = NONE; at[r].held_new = NONE;
  at[r].sent = 0; at[r].got = 0; at[r].running = false; at[r].running_in = 0;
  for (i : 0 .. RANKS - 1) { at[r].said[i] = NONE; at[r].said_number[i] = 0 }
  for (i : 0 .. DEATHS) { flying[r * GENERATIONS + i] = 0 }
  do :: nempty(copies[r]) -> copies[r] ? _, _, _, _ :: empty(copies[r]) -> break od;
  do :: nempty(begins[r]) -> begins[r] ? _, _, _ :: empty(begins[r]) -> break od;
  i = 0
}

/* A message of the program, in the rank's generation. */
inline send(r) {
  at[r].sent++;
  if
  :: LIVES(NEXT(r, at[r].begun)) -> flying[NEXT(r, at[r].begun) * GENERATIONS + HERE(r)]++
  :: else
  fi
}

/* The coordinator's decision: which copy, and whether one that is dead has no buddy that lives. */
inline decide(r) {
  m = at[r].number; set = at[r].known;
#ifndef OWN_NUMBER
  for (i : 0 .. RANKS - 1) {
    if
    :: !IN(set, i) && at[r].said_number[i] > m -> m = at[r].said_number[i]
    :: else
    fi
  }
#endif
  fine = true;
  if
  :: m == ENDED -> skip
  :: m == 0 -> fine = false
  :: else ->
     n = TAKEN(r, m);
     assert(n != NONE);
     for (i : 0 .. RANKS - 1) {
       if
       :: IN(set, i) && !IN(n, i) ->
#ifdef NEW_RING
          if :: !IN(set, NEXT(i, set)) -> skip :: else -> fine = false fi
#else
          if :: !IN(set, NEXT(i, n)) -> skip :: else -> fine = false fi
#endif
       :: else
       fi
     }
     for (i : 0 .. RANKS - 1) {
       if
       :: fine && !IN(set, i) && LIVES(i) -> assert(TAKEN(i, m) == n)
       :: fine && IN(set, i) && !IN(n, i) ->
#ifdef NEW_RING
          assert(BEFORE(NEXT(i, set), n) == i);
          assert(!LIVES(NEXT(i, set)) || TAKEN_FOR(NEXT(i, set), m) == n)
#else
          assert(!LIVES(NEXT(i, n)) || TAKEN_FOR(NEXT(i, n), m) == n)
#endif
       :: else
       fi
     }
  fi;
  i = 0; n = 0
}

proctype rank(byte me) {
  byte i, n, m, set, whose;
  bool fine;
  do
  /* The program: messages, their handlers, copies, the end. */
  :: atomic { LIVES(me) && !ABANDONED(me) && at[me].phase == working && messages < MESSAGES ->
       messages++; send(me) }
#ifdef COUNTS_OLD
  :: atomic { LIVES(me) && !ABANDONED(me) && !OUT(me) && !at[me].running && HERE(me) > 0 &&
              flying[me * GENERATIONS + HERE(me) - 1] > 0 ->
       flying[me * GENERATIONS + HERE(me) - 1]--; at[me].got++; at[me].running = true; at[me].running_in = HERE(me) }
#endif
  :: atomic { LIVES(me) && !ABANDONED(me) && !OUT(me) && !at[me].running && flying[me * GENERATIONS + HERE(me)] > 0 ->
       flying[me * GENERATIONS + HERE(me)]--; at[me].got++; at[me].running = true; at[me].running_in = HERE(me) }
#ifdef DROPS_NEW
  :: atomic { LIVES(me) && HERE(me) < DEATHS && flying[me * GENERATIONS + HERE(me) + 1] > 0 ->
       flying[me * GENERATIONS + HERE(me) + 1]-- }
#endif
  :: atomic { LIVES(me) && at[me].running && (ABANDONED(me) || messages == MESSAGES) ->
       at[me].running = false; assert(ABANDONED(me) || at[me].running_in == HERE(me)); at[me].running_in = 0 }
  :: atomic { LIVES(me) && at[me].running && !ABANDONED(me) && messages < MESSAGES ->
       assert(at[me].running_in == HERE(me)); at[me].running = false; at[me].running_in = 0;
       if
       :: skip
       :: messages++; send(me)
       fi }
  :: atomic { LIVES(me) && !ABANDONED(me) && at[me].phase == working && at[me].number < COPIES -> at[me].phase = quiet }
  :: atomic { LIVES(me) && !ABANDONED(me) && at[me].phase == quiet &&
              (quiets[HERE(me)] > at[me].number || QUIET(me)) ->
       if :: quiets[HERE(me)] <= at[me].number -> quiets[HERE(me)] = at[me].number + 1 :: else fi;
       for (i : 0 .. RANKS - 1) { assert(IN(at[me].begun, i) || flying[i * GENERATIONS + HERE(me)] == 0) }
       i = 0;
       at[me].own_new = at[me].begun;
#ifdef FREES_EARLY
       at[me].own = NONE;
#endif
       at[me].phase = packed;
       n = NEXT(me, at[me].begun);
       if
       :: n == me -> at[me].held_new = at[me].begun
       :: n != me && !LIVES(n)
       :: else -> copies[n] !! HERE(me), at[me].begun, at[me].number + 1, me
       fi;
       n = 0 }
  :: atomic { LIVES(me) && !ABANDONED(me) && at[me].phase == packed && at[me].held_new != NONE ->
       at[me].phase = entered;
       inside[HERE(me)]++;
       if
       :: inside[HERE(me)] == RANKS - HERE(me) -> inside[HERE(me)] = 0; barriers[HERE(me)] = at[me].number + 1
       :: else
       fi }
#ifdef PASSES_LATE
  :: atomic { LIVES(me) && at[me].phase == entered && barriers[HERE(me)] > at[me].number ->
#else
  :: atomic { LIVES(me) && !ABANDONED(me) && at[me].phase == entered && barriers[HERE(me)] > at[me].number ->
#endif
       complete(me); at[me].phase = working }
  :: atomic { LIVES(me) && !ABANDONED(me) && at[me].phase == working && at[me].number >= COPIES ->
       ends[HERE(me)]++;
#ifdef NO_LAST
       at[me].phase = done; at[me].number = ENDED
#else
       at[me].phase = last;
       if
       :: ends[HERE(me)] == RANKS - HERE(me) -> over[HERE(me)] = true
       :: else
       fi
#endif
     }
  :: atomic { LIVES(me) && !ABANDONED(me) && at[me].phase == last && over[HERE(me)] ->
       at[me].phase = done; at[me].number = ENDED }

  /* Copies that arrive: those of generations to come wait. */
  :: atomic { LIVES(me) && copies[me] ?? [eval(HERE(me)), _, _, _] ->
       copies[me] ?? eval(HERE(me)), set, n, whose;
       if
       :: !ABANDONED(me) ->
          assert(set == at[me].begun && n == at[me].number + 1 && whose == BEFORE(me, set) && at[me].held_new == NONE);
          at[me].held_new = set
       :: else
       fi;
       set = 0; n = 0; whose = 0 }
  :: atomic { LIVES(me) && HERE(me) > 0 && copies[me] ?? [eval(HERE(me) - 1), _, _, _] ->
       copies[me] ?? eval(HERE(me) - 1), set, n, whose;
#ifdef KEEPS_OLD
       if
       :: !ABANDONED(me) && at[me].held_new == NONE && n == at[me].number + 1 -> at[me].held_new = set
       :: else
       fi;
#endif
       set = 0; n = 0; whose = 0 }
  /* Deaths, and what is known of them. */
  :: atomic { LIVES(me) && deaths > 0 && !finished -> die(me); break }
  :: atomic { LIVES(me) && (dead & ~at[me].known) != 0 ->
       if
       :: (dead & ~at[me].known & 1) -> at[me].known = at[me].known | 1
       :: (dead & ~at[me].known & 2) -> at[me].known = at[me].known | 2
       :: (dead & ~at[me].known & 4) -> at[me].known = at[me].known | 4
       :: (dead & ~at[me].known & 8) -> at[me].known = at[me].known | 8
       fi;
#ifdef DISCARDS_EARLY
       at[me].own_new = NONE; at[me].held_new = NONE;
#endif
     }

  /* The agreement. */
  :: atomic { LIVES(me) && ABANDONED(me) &&
#ifndef NO_UNWIND
              !at[me].running &&
#endif
#ifdef LEAVES
              !OUT(me) &&
#endif
              at[me].reported != at[me].known ->
       n = LOWEST(at[me].known);
#ifdef REFUSES_MORE
       if
       :: (at[me].known & ~at[n].known) == 0 -> at[n].said[me] = at[me].known; at[n].said_number[me] = at[me].number
       :: else
       fi;
#else
       at[n].said[me] = at[me].known; at[n].said_number[me] = at[me].number;
#endif
       at[me].reported = at[me].known;
       n = 0 }
  :: atomic { LIVES(me) && ABANDONED(me) && LOWEST(at[me].known) == me && EVERY(HAS_SAID, me) ->
       decide(me);
       for (i : 0 .. RANKS - 1) {
         at[me].said[i] = NONE; at[me].said_number[i] = 0;
         if
         :: IN(set, i) || !LIVES(i)
         :: !IN(set, i) && LIVES(i) -> begins[i] !! set, m, !fine
         :: !IN(set, i) && LIVES(i) && deaths > 0 -> n = 1 /* it dies before it has told this one */
         fi
       }
       i = 0; m = 0; set = 0; fine = false;
       if
       :: n == 1 -> n = 0; die(me); break
       :: n == 0
       fi }
  :: atomic { LIVES(me) && nempty(begins[me]) ->
       if
       :: begins[me] ?? [eval(at[me].known), _, _] -> begins[me] ?? eval(at[me].known), n, fine
       :: else -> begins[me] ? set, n, fine; assert((set & ~at[me].known) == 0); set = NONE
       fi;
       if
       :: set == NONE
       :: set != NONE && ABANDONED(me) ->
          at[me].begun = at[me].known;
          at[me].reported = NONE;
          at[me].sent = 0; at[me].got = 0;
#ifndef NO_UNWIND
          assert(!at[me].running);
#endif
          if
          :: n == ENDED -> assert(at[me].phase == last || at[me].phase == done); at[me].phase = done
          :: n != ENDED && fine -> assert(at[me].phase != done); at[me].phase = thrown
          :: n != ENDED && !fine -> assert(!OUT(me)); at[me].phase = quiet
          fi;
          if
          :: n == ENDED || n == 0 -> skip
          :: else ->
             assert(n == at[me].number || n == at[me].number + 1);
             if
#ifdef NOT_ADOPTED
             :: n != at[me].number -> at[me].own = at[me].own_new; at[me].held = at[me].held_new
#else
             :: n != at[me].number -> complete(me)
#endif
             :: else
             fi
          fi;
          if :: n == ENDED -> at[me].number = ENDED :: else fi;
          /* What a dead rank had goes on to others. */
          if
          :: at[me].phase == quiet && IN(at[me].begun, BEFORE(me, at[me].own)) && NEXT(me, at[me].begun) != me ->
             send(me)
          :: else
          fi;
          at[me].own_new = NONE; at[me].held_new = NONE;
#ifndef COUNTS_OLD
          for (i : 0 .. HERE(me) - 1) { flying[me * GENERATIONS + i] = 0 }
          i = 0
#endif
       fi;
       n = 0; set = 0; fine = false }

  /* All that live have come to their end together. */
  :: atomic { LIVES(me) && (finished || EVERY(AT_END, me)) ->
       for (i : 0 .. RANKS - 1) { assert(IN(dead, i) || at[i].phase == at[me].phase) }
       i = 0;
       finished = true;
       break }
  od
}

init {
  byte r = 0;
  atomic {
    select(deaths : 0 .. DEATHS);
    do
    :: r < RANKS -> run rank(r); r++
    :: r == RANKS -> break
    od
  }
}
