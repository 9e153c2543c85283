/* SPDX-License-Identifier: Apache-2.0
 *
 * How it is known that nothing is under way: tern::net::node::quiesce. RANKS ranks send up to MESSAGES messages, which
 * travel in any order; handlers send more. Each rank counts what it has sent and what it has handled to the end, each
 * by itself. Waves of sums go round: a rank joins one when nothing goes on on it, reads what it has handled, then what
 * it has sent. When all have, each knows the sums. They are compared with those of the wave before.
 *
 * - When it is said that all is quiet, no message is on its way and no handler runs.
 * - It comes to be said: else a run ends in a state in which nobody can do anything.
 *
 * Each of these must be found out:
 *   -DONE_WAVE       what was sent has been done, in one wave
 *   -DNO_BALANCE     two waves had the same sums, though more was sent than done
 *   -DSENT_FIRST     in one wave, with a handler running, reads what was sent first
 */

#ifndef RANKS
#define RANKS 3
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#define ROOM 6

chan net = [ROOM] of { byte };
byte sent[RANKS] = 0, done[RANKS] = 0, busy[RANKS] = 0;
byte budget = MESSAGES;
byte joined = 0, sum_sent = 0, sum_done = 0, before_sent = 99, before_done = 99, wave = 0;
bool quiet = false;

inline send_one(me) {
  select(to : 0 .. RANKS - 1);
  budget--;
  sent[me]++;
  net ! to;
  to = 0
}

/* Handlers, which run beside the fiber that waits. */
active [RANKS] proctype handlers() {
  byte me = _pid, to;
  do
  :: atomic { net ?? eval(me) -> busy[me]++ }
  :: atomic { busy[me] > 0 && budget > 0 -> send_one(me) }
  :: atomic { busy[me] > 0 -> busy[me]--; done[me]++ }
  :: quiet -> break
  od
}

/* The fibers that wait. */
active [RANKS] proctype waits() {
  byte me = _pid - RANKS, to, mine = 0, d, s;
  do /* before it waits it sends */
  :: atomic { budget > 0 && mine == 0 -> send_one(me) }
  :: mine = 0; break
  od;
  do
#ifdef SENT_FIRST
  :: wave == mine && !quiet ->
    s = sent[me];
    d = done[me];
#else
  :: wave == mine && !quiet && busy[me] == 0 ->
    d = done[me];
    s = sent[me];
#endif
    atomic {
      sum_sent = sum_sent + s;
      sum_done = sum_done + d;
      joined++;
      mine = 1 - mine;
      d = 0; s = 0;
      if
      :: joined == RANKS ->
        if
#ifdef ONE_WAVE
        :: sum_sent == sum_done ->
#else
#ifdef SENT_FIRST
        :: sum_sent == sum_done ->
#else
#ifdef NO_BALANCE
        :: sum_sent == before_sent && sum_done == before_done ->
#else
        :: sum_sent == sum_done && sum_sent == before_sent && sum_done == before_done ->
#endif
#endif
#endif
          assert(len(net) == 0);
          to = 0;
          do
          :: to < RANKS -> assert(busy[to] == 0); to++
          :: else -> break
          od;
          quiet = true
        :: else
        fi;
        before_sent = sum_sent; before_done = sum_done;
        sum_sent = 0; sum_done = 0; joined = 0; to = 0;
        wave = 1 - wave
      :: else
      fi
    }
  :: quiet -> break
  od
}
