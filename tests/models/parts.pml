/* SPDX-License-Identifier: Apache-2.0
 *
 * Two parts of a divided graph: tern/task/parallel/divided_graph.hpp. The names are those of the C++ code. Part 0 has
 * ENTRIES nodes at first and sends an entry to part 1 for each; part 1 has a node for each, and answers with an entry,
 * for which part 0 has a node more. So strands end and begin again. WAITS functions of part 1 wait until all other
 * nodes of their part are done: the part's next strand goes on then, and the fiber that waited gives its node back. Two
 * workers run what is queued, and fibers that can go on.
 *
 * The invariants:
 *   A  A part has one strand at a time.
 *   B  All entries are found, and all nodes given back are. (The end; deadlock.)
 *   C  The group ends when all nodes and strands have been counted, and nothing is touched after that.
 *
 * Each of these must be found out; the letter is the invariant that it breaks:
 *   -DNO_BARRIER   B  a strand looks at its entries before others see that it is leaving
 *   -DLOOK_FIRST   B  a sender looks at the state before its entry can be found
 *   -DNO_LOOK      B  a strand that is leaving does not look at its entries once more
 *   -DNO_MAILED    B  a strand ends although a sender has told it to stay
 *   -DANY_QUEUES   A  two senders that find the part idle both queue its strand
 *   -DNOT_LEFT     B  a function waits, and its part waits with it, while another function of it is what it waits for
 *   -DBACK_SILENT  B  a node is given back and no strand is told
 *   -DNOT_COUNTED  B  a strand that is queued is not counted
 *   -DCOUNT_FIRST  C  nodes are counted before what follows from them has been done
 *
 * Stores and loads of different places may change their order only in a sender, where nothing but the compiler keeps
 * it: its store may be seen late, until the barrier of the other side (`flush`).
 */

#ifndef ENTRIES
#define ENTRIES 2
#endif
#ifndef WAITS
#define WAITS 1
#endif
#define TO_DO(p) (p == 0 -> 2 * ENTRIES : ENTRIES)

mtype = { running, queued, idle, leaving, mailed };
mtype state[2] = idle;
byte strands[2];        /* that run the part now */
byte in_queue[2];       /* strand tasklets */
byte buffered[2];       /* entries that the sender has stored and that no other core sees yet, to that part */
byte entries[2];        /* that can be seen */
byte read[2];
byte returned;          /* nodes of part 1 given back */
byte suspended;         /* fibers of part 1 that wait */
byte waits = WAITS;
byte done[2];           /* nodes */
short group;            /* what is not counted: nodes and strands */
bool over;

inline flush() { entries[0] = entries[0] + buffered[0]; buffered[0] = 0; entries[1] = entries[1] + buffered[1];
                 buffered[1] = 0 }
inline alive() { assert(!over) /* C */ }
inline count(n) { atomic { alive(); group = group - (n); if :: group == 0 -> over = 1 :: else fi } }

inline queue(p) {
#ifndef NOT_COUNTED
  atomic { alive(); group++ };
#endif
  atomic { alive(); state[p] = queued; in_queue[p]++ }
}
inline wake(p) {
  do
  :: atomic { state[p] == leaving -> state[p] = mailed; break }
#ifdef ANY_QUEUES
  :: state[p] == idle -> queue(p); break
#else
  :: atomic { state[p] == idle -> state[p] = queued }; queue(p); break
#endif
  :: atomic { state[p] == running || state[p] == queued || state[p] == mailed -> break }
  od
}
/* An entry for the other part. */
inline send(p) {
#ifdef LOOK_FIRST
  seen = state[p];
#endif
  atomic { alive(); buffered[p]++ };
#ifndef LOOK_FIRST
  atomic { alive(); seen = state[p] };
#endif
  if
  :: seen == idle || seen == leaving -> atomic { flush() }; wake(p) /* a read-modify-write */
  :: else
  fi
}
/* A node is done: what follows from it. */
inline finish(p) {
  atomic { alive(); done[p]++ };
  if
  :: p == 0 && done[0] <= ENTRIES -> send(1)
  :: p == 1 -> send(0)
  :: else
  fi
}

/* A worker: strands that are queued, and fibers that it had left. */
proctype worker() {
  byte ran, p;
  mtype seen;
  bool stays;
loop:
  do
  :: over -> goto end
  :: atomic { in_queue[0] > 0 -> in_queue[0]--; p = 0 } -> break
  :: atomic { in_queue[1] > 0 -> in_queue[1]--; p = 1 } -> break
  /* The function goes on: all other nodes of its part are done. */
  :: atomic { suspended > 0 && done[1] == ENTRIES - 1 -> suspended-- };
#ifdef COUNT_FIRST
     count(2);
#endif
     atomic { alive(); returned++ };
#ifndef BACK_SILENT
     atomic { flush(); seen = state[1] };
     if
     :: seen == idle || seen == leaving -> wake(1)
     :: else
     fi;
#endif
#ifndef COUNT_FIRST
     count(2) /* its node, and the strand that it was */
#endif
  od;
  atomic { alive(); state[p] = running; strands[p]++; assert(strands[p] == 1); /* A */ ran = 0 };
  do
  :: atomic { p == 1 && returned > 0 -> returned-- }; finish(1)
  :: atomic { read[p] < entries[p] -> read[p]++ };
     if
     :: atomic { p == 1 && waits > 0 -> waits-- }; /* the function waits */
#ifdef NOT_LEFT
        done[1] == ENTRIES - 1
#else
        atomic { strands[p]--; suspended++ };
        queue(p);
        if
        :: ran > 0 -> count(ran)
        :: else
        fi;
        goto loop
#endif
     :: skip
     fi;
     finish(p);
     ran++
  :: atomic { read[p] == entries[p] && !(p == 1 && returned > 0) -> skip };
     if
     :: done[p] == TO_DO(p) -> atomic { alive(); strands[p]--; state[p] = idle }; break
     :: else ->
        atomic { alive(); state[p] = leaving };
#ifndef NO_BARRIER
        atomic { flush() };
#endif
#ifdef NO_LOOK
        stays = 0;
#else
        atomic { stays = (read[p] < entries[p] || (p == 1 && returned > 0)) };
#endif
        if
        :: stays -> atomic { alive(); state[p] = running }
        :: else ->
           if
#ifdef NO_MAILED
           :: atomic { strands[p]--; state[p] = idle }; break
#else
           :: atomic { state[p] == leaving -> strands[p]--; state[p] = idle }; break
           :: atomic { state[p] != leaving -> state[p] = running }
#endif
           fi
        fi
     fi
  od;
  if
  :: ran > 0 -> count(ran)
  :: else
  fi;
  count(1); /* the strand */
  goto loop;
end: skip
}

/* A store is seen some time. */
active proctype memory() {
  do
  :: atomic { buffered[0] + buffered[1] > 0 -> flush() }
  :: over -> break
  od
}

init {
  atomic {
    group = 3 * ENTRIES + 2;
    entries[0] = ENTRIES;
    state[0] = queued; in_queue[0] = 1;
    state[1] = queued; in_queue[1] = 1;
    run worker();
    run worker()
  }
}
