/* SPDX-License-Identifier: Apache-2.0
 *
 * How an epoch's end is known: tern/net/termination/epoch_table.hpp. RANKS ranks, of which 0 is the origin, and up to
 * MESSAGES messages, which travel in any order. The body of the epoch and each handler send as many as they like, to
 * any rank, as long as there are some. A bank makes UNITS units for a message: few, so that there are many banks.
 *
 * What is done under the guard is one step. Letting go and then settling are two, as in the code: a message may arrive
 * in between.
 *
 * - Over is over: then no message is on its way and nothing goes on anywhere.
 * - It comes to be over: else a run ends in a state in which nobody can do anything.
 * - At the end no rank has an account left.
 *
 * Each of these must be found out:
 *   -DNO_PARENT       a bank gives back all that it has as soon as nothing goes on at its rank
 *   -DKEEP_ALL        a bank that misses units gives back nothing, not only not its parent's
 *   -DLAST_PARENT     the parent is the bank from which units came last
 *   -DNO_RECHECK      settles though a message has arrived since it let go
 *   -DORIGIN_KEEPS    the origin gives others' units back only when it has all its own
 */

#ifndef RANKS
#define RANKS 3
#endif
#ifndef MESSAGES
#define MESSAGES 4
#endif
#ifndef UNITS
#define UNITS 2
#endif
#define NONE 7
#define ROOM 8

chan net = [ROOM] of { byte, byte, byte };  /* to, bank, units */
chan back = [ROOM] of { byte, byte };       /* to the bank, units */

typedef account {
  byte holds = 0;
  byte issued = 0;
  byte parent = NONE;
  byte units[RANKS] = 0;
};
account at[RANKS];
byte sent = 0, running = 0;
bool over = false;

inline give_back(r, bank) {
  if
  :: at[r].units[bank] > 0 -> back ! bank, at[r].units[bank]; at[r].units[bank] = 0
  :: else
  fi
}

/* look_at and conclude */
inline settle(r) {
  if
#ifdef NO_RECHECK
  :: true ->
#else
  :: at[r].holds == 0 ->
#endif
    for (b : 0 .. RANKS - 1) {
      if
#ifdef NO_PARENT
      :: true -> give_back(r, b)
#else
#ifdef KEEP_ALL
      :: at[r].issued == 0 || r == 0 -> give_back(r, b)
#else
#ifdef ORIGIN_KEEPS
      :: at[r].issued == 0 || (r != 0 && b != at[r].parent) -> give_back(r, b)
#else
      :: at[r].issued == 0 || r == 0 || b != at[r].parent -> give_back(r, b)
#endif
#endif
#endif
      :: else
      fi
    }
    if
    :: at[r].issued == 0 && at[r].parent != NONE -> at[r].parent = NONE
    :: else
    fi;
    if
    :: r == 0 && at[r].issued == 0 && !over ->
      assert(len(net) == 0 && running == 0);
      over = true
    :: else
    fi
  :: else
  fi
}

active [RANKS] proctype rank() {
  byte me = _pid, b, n, to, half;
  if
  :: me == 0 -> atomic { at[0].holds = 1; running++ } /* the body */
  :: else
  fi;
  do
  /* a message arrives */
  :: atomic {
    net ?? eval(me), b, n ->
    at[me].holds++;
    running++;
    if
    :: b == me -> at[me].issued = at[me].issued - n
    :: else ->
      if
#ifdef LAST_PARENT
      :: me != 0 -> at[me].parent = b
#else
      :: me != 0 && at[me].parent == NONE -> at[me].parent = b
#endif
      :: else
      fi;
      at[me].units[b] = at[me].units[b] + n
    fi;
    b = 0; n = 0
  }
  /* what goes on sends one */
  :: atomic {
    at[me].holds > 0 && running > 0 && sent < MESSAGES ->
    sent++;
    select(to : 0 .. RANKS - 1);
    half = 0;
    for (b : 0 .. RANKS - 1) {
      if
      :: half == 0 && at[me].units[b] >= 2 ->
        half = at[me].units[b] / 2;
        at[me].units[b] = at[me].units[b] - half;
        net ! to, b, half
      :: else
      fi
    }
    if
    :: half == 0 -> at[me].issued = at[me].issued + UNITS; net ! to, me, UNITS
    :: else
    fi;
    b = 0; to = 0; half = 0
  }
  /* something that goes on ends */
  :: atomic { at[me].holds > 0 -> at[me].holds--; running-- ; n = at[me].holds }
    if
    :: n == 0 -> atomic { settle(me); b = 0 }
    :: else
    fi;
    n = 0
  /* units come home */
  :: atomic {
    back ?? eval(me), n ->
    assert(n <= at[me].issued);
    at[me].issued = at[me].issued - n;
    settle(me);
    b = 0; n = 0
  }
  :: over && len(net) == 0 && len(back) == 0 -> break
  od;
  assert(at[me].issued == 0 && at[me].parent == NONE)
}
