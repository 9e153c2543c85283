/* SPDX-License-Identifier: Apache-2.0
 *
 * A mobile object: tern/mobile, whose README explains the protocol. RANKS ranks, 0 is the home, where the object is
 * born; the network keeps the order from each rank to each. The ranks in ACTORS (bits) have a fiber that sends MESSAGES
 * invocations, in order, and the one on rank DESTROYER a destroy behind them; between them, all fibers together ask
 * MOVES times for a move to any rank. Up to FAILS times unpacking fails; up to CLOSES times a rank forgets an entry.
 * The names are those of the C++ code.
 *
 * - Each invocation runs once, in its sender's order, while no other copy could run one; or, if the object has been
 *   destroyed, is refused once.
 * - When nothing is left to do, all have been; nothing is kept anywhere; each rank that knows of the object has an open
 *   stream, all of which was taken in; and nobody knows of one that has been destroyed.
 * - While the object lives, no message takes more than HOPS hops: else it might go round for ever, of which a search for
 *   deadlocks sees nothing. (Of one that has been destroyed a message may go to and fro until the home knows.)
 *
 * What a rank does under the shard's lock, and then without it (`act`), is one step, but for those that are known to
 * matter: a fiber that has chosen its way posts later; an object is packed, unpacked and run later; who has unpacked
 * answers later. Where an invocation may run it may also wait, so for each order in which handlers take their time there
 * is one here. Not here: shared invocations, hops beyond 8, sends that fail (skip), packing that fails (it is like a
 * move to where the object is, which is here). There is one object, so the open streams' states are those of the copy
 * that is alive: they need not travel.
 *
 * Each of these must be found out:
 *   -DGONE_DROPPED      who waits for the new rank's answer does not keep a note that the object is gone
 *   -DOPEN_DIRECTLY     a stream is not opened by way of the home
 *   -DKEEPS_NOTHING     own messages are sent by way of the home during the close
 *   -DLANDS_AT_ONCE     an object that is back before its old rank has learned that it had arrived does not wait
 *   -DSENDS_ON_EARLY    who waits for the new rank's answer sends on at once
 *   -DFORGETS_EARLY     an entry is forgotten while its rank's own messages are on their way to it
 *   -DTOLD_FIRST        who could not unpack says so before it has put its entry right
 *   -DBACK_LATER        who could not unpack sends later what had followed, and meanwhile sends back what still comes
 *
 * These do no harm, or none that is seen, in searches that fit into 2 GB; simulation has found the third:
 *   -DLEAVES_EARLY      the object leaves before what follows it has come
 *   -DOLD_NEWS          older knowledge replaces newer
 *   -DKEPT_BEHIND_HELD  own messages that were kept during the close come behind those held
 *   -DNOT_REOPENED      a stream that was closed while its rank had the object, or waited for an answer, stays so
 *   -DCLOSED_EARLY      the close is answered before the home knows where the object is
 *   -DNO_CONFIRMATION   the object leaves again before the home knows where it is
 */

#define RANKS 3
#ifndef ACTORS
#define ACTORS 2
#endif
#ifndef MESSAGES
#define MESSAGES 2
#endif
#ifndef MOVES
#define MOVES 2
#endif
#ifndef DESTROYER
#define DESTROYER 9
#endif
#ifndef CLOSES
#define CLOSES 0
#endif
#ifndef FAILS
#define FAILS 0
#endif
#ifndef HOPS
#define HOPS 4
#endif
#ifndef ROOM
#define ROOM 6
#endif

#define HOME 0
#define ACTS(r) (((ACTORS) >> (r)) & 1)

mtype = {
  invoke, destroy, migrate, open, close,               /* to the object */
  land, landed, unlanded,                              /* the object; whether it could be unpacked */
  located, moved, confirmed_note, gone, closed_note,   /* between directories */
  absent, elsewhere, arriving, here, leaving, left     /* where it is */
};

/* A message: what; its number among its sender's, or a rank, or a version; stream and number; origin and hops. */
#define NUMBER(rank, n) (16 * (rank) + (n))
#define UNNUMBERED NUMBER(3, 0)
#define FOLLOWS NUMBER(4, 0)
#define NOT_OPEN 15
#define ORIGIN (from % 4)
#define MESSAGE what, arg, tag, from
byte what, arg, tag, from, k, other, again; /* of the step at hand */
#define END_OF_STEP what = 0; arg = 0; tag = 0; from = 0; k = 0; other = 0; again = 0

#define NET(s, d) net[3 * (s) + (d)]
chan net[9] = [ROOM] of { byte, byte, byte, byte };

/* Entries. */
mtype at[RANKS] = absent;
byte where[RANKS], version[RANKS], sent[RANKS], under_way[RANKS], coming[RANKS];
bool confirmed[RANKS] = 1;
bool own_open[RANKS], own_closing[RANKS], own_left[RANKS];
byte told[RANKS], closed[RANKS];                         /* sets of ranks */
byte kept_moved[RANKS], kept_from[RANKS]; bool kept_gone[RANKS]; /* notes */
bool returns[RANKS];
chan waiting[RANKS] = [ROOM] of { byte, byte, byte, byte };
chan moves[RANKS] = [MOVES] of { byte, byte, byte, byte };
chan followed[RANKS] = [ROOM] of { byte, byte, byte, byte }; /* what follows an object that is to come back */
chan held[RANKS] = [ROOM] of { byte, byte, byte, byte };
chan early[RANKS] = [ROOM] of { byte, byte, byte, byte };
chan kept[RANKS] = [ROOM] of { byte, byte, byte, byte }; /* after_close */

/* Fibers, and those that post. */
byte posting[RANKS];
bool to_open[RANKS];
mtype answered[RANKS] = absent; /* to who has sent the object */
byte owes[RANKS];               /* to whom it is still to be answered */
byte dest[RANKS];
bool failing[RANKS];

/* The object. */
byte due[RANKS] = NOT_OPEN; /* of each stream */
byte land_version, land_coming;
bool destroyed;

/* Of the properties. */
byte asked, fails, closes, refused_moves, done_moves;
byte ran[RANKS], refused[RANKS], acting;

#define HOLDS_ALL(r) (at[r] == arriving || at[r] == left || coming[r] > 0)
#ifdef NO_CONFIRMATION
#define KNOWN(r) true
#else
#define KNOWN(r) confirmed[r]
#endif
#ifdef LEAVES_EARLY
#define ALL_HERE(r) true
#else
#define ALL_HERE(r) (coming[r] == 0)
#endif

#define MAY_RELEASE(r) (at[r] != absent && !HOLDS_ALL(r) && len(followed[r]) == 0)
#ifdef KEPT_BEHIND_HELD
#define MAY_RELEASE_KEPT(r) (MAY_RELEASE(r) && len(held[r]) == 0 && !own_closing[r] && len(kept[r]) > 0)
#else
#define MAY_RELEASE_KEPT(r) (at[r] != absent && !own_closing[r] && len(kept[r]) > 0)
#endif

inline hop() {
  if
  :: from / 4 < HOPS -> from = from + 4
  :: else -> assert(destroyed)
  fi
}
inline forget(r) {
  assert(len(held[r]) == 0 && len(kept[r]) == 0 && len(early[r]) == 0 && len(waiting[r]) == 0 && len(moves[r]) == 0);
  at[r] = absent; where[r] = 0; version[r] = 0; sent[r] = 0; under_way[r] = 0; confirmed[r] = 1;
  own_open[r] = 0; own_closing[r] = 0; own_left[r] = 0; told[r] = 0; closed[r] = 0
}
inline begin_own(r) {
  own_open[r] = 1;
  sent[r] = 0;
  if
  :: posting[r] > 0 -> to_open[r] = 1
#ifdef OPEN_DIRECTLY
  :: posting[r] == 0 && at[r] == elsewhere -> NET(r, where[r]) ! open, 0, UNNUMBERED, r
  :: posting[r] == 0 && at[r] != elsewhere -> NET(r, r) ! open, 0, UNNUMBERED, r
#else
  :: else -> NET(r, HOME) ! open, 0, UNNUMBERED, r
#endif
  fi
}
inline send_on(r, d) {
  if
  :: tag == UNNUMBERED -> tag = NUMBER(r, sent[r]); sent[r]++
  :: else
  fi;
  hop();
  NET(r, d) ! MESSAGE
}
inline tell_closed(r) {
  for (other : 0 .. RANKS - 1) {
    if
    :: closed[r] & (1 << other) -> NET(r, other) ! closed_note, 0, 0, 0
    :: else
    fi
  }
  closed[r] = 0
}
/* In the order in which it is to run. */
inline accept(r) {
  if
  :: what == migrate -> moves[r] ! MESSAGE
  :: what == open -> assert(due[ORIGIN] == NOT_OPEN); due[ORIGIN] = 0
  :: what == close ->
     due[ORIGIN] = NOT_OPEN;
     closed[r] = closed[r] | (1 << ORIGIN);
     if
#ifdef CLOSED_EARLY
     :: true -> tell_closed(r)
#else
     :: confirmed[r] -> tell_closed(r)
#endif
     :: else
     fi
  :: else -> waiting[r] ! MESSAGE
  fi
}
/* Those that are early and now due, of any stream; and the own stream may have come to its end. */
inline after_number(r) {
  k = len(early[r]);
  again = 0;
  do
  :: k > 0 ->
     k--;
     early[r] ? MESSAGE;
     if
     :: tag % 16 == due[tag / 16] -> due[tag / 16]++; accept(r); again = 1
     :: else -> early[r] ! MESSAGE
     fi
  :: k == 0 && again -> k = len(early[r]); again = 0
  :: else -> break
  od;
  if
  :: own_open[r] && !own_closing[r] && at[r] != elsewhere && due[r] != NOT_OPEN && due[r] == sent[r] ->
     due[r] = NOT_OPEN;
     own_open[r] = 0;
     sent[r] = 0
  :: else
  fi
}
inline accept_numbered(r) {
  if
  :: tag % 16 == due[tag / 16] -> due[tag / 16]++; accept(r); after_number(r)
  :: else -> early[r] !! MESSAGE
  fi
}
inline tell_where(r) {
  if
  :: from / 4 > 0 && ORIGIN != r && at[r] == here && !(told[r] & (1 << ORIGIN)) ->
     told[r] = told[r] | (1 << ORIGIN);
     NET(r, ORIGIN) ! located, version[r], 0, 0
  :: else
  fi
}
inline take_in(r) {
  if
  :: tag == FOLLOWS && at[r] != left ->
     if
     :: at[r] == elsewhere -> NET(r, source) ! MESSAGE /* the object could not be unpacked here */
     :: else -> assert(coming[r] > 0); accept(r); coming[r]--
     fi
  :: else ->
     if
#ifdef KEEPS_NOTHING
     :: own_closing[r] && tag == UNNUMBERED && ORIGIN == r && at[r] == elsewhere && !own_left[r] ->
        NET(r, HOME) ! MESSAGE
#endif
     :: own_closing[r] && tag == UNNUMBERED && ORIGIN == r && !own_left[r] -> kept[r] ! MESSAGE
     :: own_closing[r] && tag == UNNUMBERED && ORIGIN == r && own_left[r] ->
        NET(r, HOME) ! MESSAGE;
        if
        :: under_way[r] == 0 -> forget(r)
        :: else
        fi
     :: else ->
        if
#ifdef SENDS_ON_EARLY
        :: at[r] == left && tag != FOLLOWS -> send_on(r, dest[r])
#endif
        :: tag == FOLLOWS -> followed[r] ! MESSAGE
        :: tag != FOLLOWS && HOLDS_ALL(r) -> held[r] ! MESSAGE
        :: !HOLDS_ALL(r) && at[r] == elsewhere -> send_on(r, where[r])
        :: !HOLDS_ALL(r) && at[r] != elsewhere ->
           tell_where(r);
           if
           :: tag == UNNUMBERED && !own_open[r] -> accept(r); after_number(r)
           :: tag == UNNUMBERED && own_open[r] -> tag = NUMBER(r, sent[r]); sent[r]++; accept_numbered(r)
           :: else -> accept_numbered(r)
           fi
        fi
     fi
  fi
}
/* The message at hand, if there is one, and what may now be released because of it. */
inline take_all(r) {
  do
  :: what != 0 -> take_in(r); what = 0
  :: what == 0 && at[r] != absent && at[r] != left && len(followed[r]) > 0 ->
     followed[r] ? MESSAGE;
     assert(at[r] != elsewhere)
  :: what == 0 && MAY_RELEASE_KEPT(r) -> kept[r] ? MESSAGE
  :: what == 0 && !MAY_RELEASE_KEPT(r) && MAY_RELEASE(r) && len(held[r]) > 0 -> held[r] ? MESSAGE
  :: else -> break
  od
}

inline refuse(r) {
  assert(destroyed);
  if
  :: what == invoke -> refused[ORIGIN]++
  :: what == migrate -> refused_moves++
  :: else
  fi;
  if
  :: ORIGIN != r && (tag / 16 == ORIGIN || what == open) -> NET(r, ORIGIN) ! gone, 0, 0, 0
  :: else
  fi
}
inline lost(r) {
  if
  :: r == HOME && tag != FOLLOWS -> refuse(r)
  :: else ->
     hop();
     if
     :: tag == FOLLOWS -> NET(r, source) ! MESSAGE
     :: else -> NET(r, HOME) ! MESSAGE
     fi
  fi
}
inline take_gone(r) {
  if
  :: at[r] == elsewhere ->
     do
     :: len(kept[r]) > 0 -> kept[r] ? MESSAGE; NET(r, HOME) ! MESSAGE
     :: len(kept[r]) == 0 -> break
     od;
     forget(r)
  :: else
  fi
}
inline take_moved(r, s, v) {
  if
#ifdef OLD_NEWS
  :: at[r] == elsewhere -> where[r] = s; version[r] = v
#else
  :: at[r] == elsewhere && v > version[r] -> where[r] = s; version[r] = v
#endif
  :: else
  fi;
  NET(r, s) ! confirmed_note, v, 0, 0
}
inline release_own(r) {
  own_open[r] = 0;
  sent[r] = 0;
  if
  :: at[r] != elsewhere -> own_closing[r] = 0 /* it has come here meanwhile */
  :: else ->
     do
     :: len(kept[r]) > 0 -> kept[r] ? MESSAGE; NET(r, HOME) ! MESSAGE
     :: len(kept[r]) == 0 -> break
     od;
     own_left[r] = 1;
     if
#ifdef FORGETS_EARLY
     :: true -> forget(r)
#else
     :: under_way[r] == 0 -> forget(r)
#endif
     :: else
     fi
  fi
}
inline begin_landing(r, s) {
  assert(at[r] == elsewhere);
  at[r] = arriving;
  where[r] = s;
  version[r] = land_version;
  coming[r] = land_coming;
  confirmed[r] = (r == HOME);
  if
  :: own_left[r] -> own_left[r] = 0; own_closing[r] = 0
  :: else
  fi;
  if
  :: !own_open[r] -> begin_own(r)
  :: else
  fi
}

inline receive(r) {
  if
  :: what == land ->
     if
#ifdef LANDS_AT_ONCE
     :: at[r] == left -> at[r] = elsewhere; begin_landing(r, source)
#else
     :: at[r] == left -> returns[r] = 1
#endif
     :: at[r] == absent -> at[r] = elsewhere; begin_landing(r, source)
     :: else -> begin_landing(r, source)
     fi
  :: what == landed || what == unlanded -> assert(at[r] == left && answered[r] == absent); answered[r] = what
  :: what == located ->
     if
     :: at[r] == absent && r != HOME ->
        at[r] = elsewhere;
        where[r] = source;
        version[r] = arg;
        begin_own(r)
#ifdef OLD_NEWS
     :: at[r] == elsewhere -> where[r] = source; version[r] = arg
#else
     :: at[r] == elsewhere && arg > version[r] -> where[r] = source; version[r] = arg
#endif
     :: else
     fi
  :: what == moved ->
     if
     :: at[r] == left -> assert(!kept_moved[r]); kept_moved[r] = arg; kept_from[r] = source
     :: else -> take_moved(r, source, arg)
     fi
  :: what == confirmed_note ->
     if
     :: at[r] != absent && at[r] != elsewhere && version[r] == arg -> confirmed[r] = 1; tell_closed(r)
     :: else
     fi
  :: what == gone ->
     if
#ifndef GONE_DROPPED
     :: at[r] == left -> kept_gone[r] = 1 /* it is further than we know */
#endif
     :: else -> take_gone(r)
     fi
  :: what == closed_note ->
     if
     :: at[r] != absent -> release_own(r)
     :: else
     fi
  fi;
  what = 0
}
/* The message at hand is one to the object. */
inline arrive(r) {
  if
  :: at[r] == absent -> lost(r); what = 0
  :: else ->
     if
     :: tag == UNNUMBERED && source == r && under_way[r] > 0 -> under_way[r]--
     :: else
     fi
  fi
}
inline end_object(r) {
  destroyed = 1;
  for (k : 0 .. RANKS - 1) {
    if
    :: k != r && (k == HOME || due[k] != NOT_OPEN || (closed[r] & (1 << k))) -> NET(r, k) ! gone, 0, 0, 0
    :: else
    fi;
    due[k] = NOT_OPEN
  }
  do
  :: len(waiting[r]) > 0 -> waiting[r] ? MESSAGE; refuse(r)
  :: len(waiting[r]) == 0 && len(moves[r]) > 0 -> moves[r] ? MESSAGE; refuse(r)
  :: len(waiting[r]) == 0 && len(moves[r]) == 0 && len(kept[r]) > 0 -> kept[r] ? MESSAGE; refuse(r)
  :: len(waiting[r]) == 0 && len(moves[r]) == 0 && len(kept[r]) == 0 && len(early[r]) > 0 -> early[r] ? MESSAGE; refuse(r)
  :: else -> break
  od;
  forget(r)
}
inline stays(r, n) {
  at[r] = here;
  coming[r] = n;
  dest[r] = 0;
  after_number(r)
}
inline depart(r) {
  if
  :: !own_open[r] -> own_open[r] = 1; sent[r] = 0; assert(due[r] == NOT_OPEN); due[r] = 0
  :: else
  fi;
  assert(closed[r] == 0 || !confirmed[r]);
  land_version = version[r] + 1;
  land_coming = len(waiting[r]) + len(moves[r]);
  at[r] = left;
  told[r] = 0;
  NET(r, dest[r]) ! land, 0, 0, 0;
  do
  :: len(waiting[r]) > 0 -> waiting[r] ? MESSAGE; NET(r, dest[r]) ! what, arg, FOLLOWS, from
  :: len(waiting[r]) == 0 && len(moves[r]) > 0 -> moves[r] ? MESSAGE; NET(r, dest[r]) ! what, arg, FOLLOWS, from
  :: else -> break
  od
}
inline has_left(r) {
  at[r] = elsewhere;
  where[r] = dest[r];
  version[r]++;
  confirmed[r] = 1;
  closed[r] = 0;
  dest[r] = 0;
  done_moves++;
  if
  :: returns[r] -> returns[r] = 0; begin_landing(r, where[r])
#ifndef NOT_REOPENED
  :: !returns[r] && !own_open[r] -> begin_own(r)
#endif
  :: else
  fi;
  /* What was held is taken in by take_all; what was early, here. */
  do
  :: len(early[r]) > 0 -> early[r] ? MESSAGE;
     if
     :: HOLDS_ALL(r) -> held[r] ! MESSAGE
     :: else -> send_on(r, where[r])
     fi
  :: len(early[r]) == 0 -> break
  od;
  if
  :: kept_moved[r] -> take_moved(r, kept_from[r], kept_moved[r]); kept_moved[r] = 0; kept_from[r] = 0
  :: else
  fi
}
inline send_back(r) {
  do
  :: len(waiting[r]) > 0 -> waiting[r] ? MESSAGE; NET(r, where[r]) ! MESSAGE
  :: len(waiting[r]) == 0 && len(moves[r]) > 0 -> moves[r] ? MESSAGE; NET(r, where[r]) ! MESSAGE
  :: else -> break
  od
}
inline unpacked(r) {
  at[r] = here;
  owes[r] = owes[r] | (1 << where[r]);
  where[r] = 0;
  if
  :: !confirmed[r] -> NET(r, HOME) ! moved, version[r], 0, 0
  :: else
  fi;
  after_number(r)
}
inline not_unpacked(r) {
  at[r] = elsewhere;
  version[r]--;
  coming[r] = 0;
  confirmed[r] = 1;
#ifndef NOT_REOPENED
  if
  :: !own_open[r] -> begin_own(r) /* it was closed meanwhile */
  :: else
  fi;
#endif
#ifndef TOLD_FIRST
  NET(r, where[r]) ! unlanded, 0, 0, 0;
#endif
#ifdef BACK_LATER
  failing[r] = (len(waiting[r]) > 0 || len(moves[r]) > 0)
#else
  failing[r] = 0;
  send_back(r)
#endif
}

#define UNPACKED 3
#define NOT_UNPACKED 4
#define PACKED 5
#define ANSWERED 6

proctype rank(byte me) {
  byte source, event;
end:
  do
  :: atomic {
       if
       :: nempty(NET(0, me)) -> source = 0
       :: nempty(NET(1, me)) -> source = 1
       :: nempty(NET(2, me)) -> source = 2
#ifdef TOLD_FIRST
       :: at[me] == arriving && !failing[me] -> event = UNPACKED
       :: at[me] == arriving && failing[me] -> event = NOT_UNPACKED
#else
       :: at[me] == arriving -> event = UNPACKED
       :: at[me] == arriving && fails < FAILS -> fails++; event = NOT_UNPACKED
#endif
       :: at[me] == leaving -> event = PACKED
       :: at[me] == left && answered[me] != absent -> event = ANSWERED
       fi;
       d_step {
         what = 0;
         if
         :: event == 0 ->
            NET(source, me) ? MESSAGE;
            if
            :: what == invoke || what == destroy || what == migrate || what == open || what == close -> arrive(me)
            :: else -> receive(me)
            fi
         :: event == UNPACKED -> unpacked(me); what = 0; printf("%d has unpacked\n", me)
         :: event == NOT_UNPACKED -> not_unpacked(me); what = 0; printf("%d cannot unpack\n", me)
         :: event == PACKED && dest[me] == me -> stays(me, 0); done_moves++; what = 0
         :: event == PACKED && dest[me] != me ->
            printf("%d sends it to %d\n", me, dest[me]);
            depart(me);
            what = 0
         :: event == ANSWERED && answered[me] == unlanded ->
            answered[me] = absent;
            stays(me, land_coming);
            done_moves++;
            what = 0
         :: event == ANSWERED && answered[me] == landed -> answered[me] = absent; has_left(me); what = 0
         fi;
         take_all(me);
         if
         :: kept_gone[me] && at[me] != left -> kept_gone[me] = 0; take_gone(me)
         :: else
         fi;
         source = 0;
         event = 0;
         END_OF_STEP
       }
     }
  /* an invocation runs, from its begin to its end */
  :: d_step {
       at[me] == here && coming[me] == 0 && len(waiting[me]) > 0 && !(len(moves[me]) > 0 && KNOWN(me)) ->
       waiting[me] ? MESSAGE;
       for (k : 0 .. RANKS - 1) { assert(k == me || (at[k] != here && at[k] != leaving)) }
       assert(!destroyed);
       if
       :: what == invoke ->
          printf("%d runs %d of %d\n", me, arg, ORIGIN);
          assert(arg == ran[ORIGIN]);
          ran[ORIGIN]++
       :: else -> printf("%d ends it\n", me); end_object(me)
       fi;
       END_OF_STEP
     }
  :: d_step {
       at[me] == here && ALL_HERE(me) && len(moves[me]) > 0 && KNOWN(me) ->
       moves[me] ? MESSAGE;
       dest[me] = arg;
       at[me] = leaving;
       END_OF_STEP
     }
  /* who has unpacked answers */
  :: d_step { owes[me] & 1 -> owes[me] = owes[me] & ~1; NET(me, 0) ! landed, 0, 0, 0 }
  :: d_step { owes[me] & 2 -> owes[me] = owes[me] & ~2; NET(me, 1) ! landed, 0, 0, 0 }
  :: d_step { owes[me] & 4 -> owes[me] = owes[me] & ~4; NET(me, 2) ! landed, 0, 0, 0 }
#ifdef TOLD_FIRST
  :: d_step {
       at[me] == arriving && fails < FAILS && !failing[me] ->
       fails++;
       failing[me] = 1;
       NET(me, where[me]) ! unlanded, 0, 0, 0
     }
#endif
#ifdef BACK_LATER
  :: d_step { failing[me] -> failing[me] = 0; send_back(me); END_OF_STEP }
#endif
#if CLOSES > 0
  /* the clock comes by */
  :: d_step {
       closes < CLOSES && me != HOME && at[me] == elsewhere && own_open[me] && !own_closing[me] && under_way[me] == 0 ->
       closes++;
       own_closing[me] = 1;
       NET(me, where[me]) ! close, 0, NUMBER(me, sent[me]), me;
       sent[me]++;
       printf("%d closes\n", me)
     }
#endif
  od
}

proctype fiber(byte me) {
  byte n, w, x, t, to;
  bool by_home;
  do
  :: atomic {
       if
       :: n < MESSAGES -> w = invoke; x = n; n++
       :: n == MESSAGES && me == DESTROYER -> w = destroy; n++
       :: asked < MOVES -> asked++; w = migrate; select(x : 0 .. RANKS - 1)
       :: n == MESSAGES + (me == DESTROYER) && asked == MOVES -> acting--; break
       fi;
       d_step { /* find_way */
         if
         :: at[me] == absent -> t = UNNUMBERED; by_home = (me != HOME); posting[me] = posting[me] + by_home
         :: at[me] != absent && (at[me] != elsewhere || under_way[me] > 0 || own_closing[me]) ->
            t = UNNUMBERED;
            to = me;
            under_way[me]++
         :: else -> t = NUMBER(me, sent[me]); to = where[me]; sent[me]++; assert(sent[me] < NOT_OPEN)
         fi
       }
     };
     d_step {
       NET(me, to) ! w, x, t, me;
       if
       :: by_home ->
          posting[me]--;
          if
          :: posting[me] == 0 && to_open[me] -> to_open[me] = 0; NET(me, HOME) ! open, 0, UNNUMBERED, me
          :: else
          fi
       :: else
       fi;
       w = 0; x = 0; t = 0; to = 0; by_home = 0
     }
  od
}

init {
  byte r, n;
  atomic {
    at[HOME] = here;
    for (r : 0 .. RANKS - 1) {
      run rank(r);
      if
      :: ACTS(r) -> acting++; run fiber(r)
      :: else
      fi
    };
    r = 0
  };
  timeout;
  atomic { /* at rest */
    assert(acting == 0 && asked == MOVES && done_moves + refused_moves == MOVES);
    for (r : 0 .. RANKS - 1) {
      assert(ran[r] + refused[r] == (ACTS(r) -> MESSAGES : 0));
      assert(len(waiting[r]) == 0 && len(moves[r]) == 0 && len(held[r]) == 0 && len(early[r]) == 0 && len(kept[r]) == 0);
      assert(len(NET(r, 0)) == 0 && len(NET(r, 1)) == 0 && len(NET(r, 2)) == 0);
      assert(under_way[r] == 0 && !own_closing[r] && posting[r] == 0 && !to_open[r]);
      if
      :: destroyed -> assert(at[r] == absent)
      :: !destroyed && at[r] == here -> n++; assert(!own_open[r] && confirmed[r])
      :: !destroyed && at[r] == elsewhere ->
         assert(own_open[r] && due[r] == sent[r] && (r != HOME || at[where[r]] == here))
      :: !destroyed && at[r] == absent -> assert(r != HOME)
      :: else -> assert(false)
      fi
    };
    assert(destroyed == (DESTROYER < RANKS) && n == !destroyed)
  }
}
