/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks that are put behind others on a device, tern/hetero/device/worker/followers.hpp and queued_launches.cpp: who
 * takes a task, the device's worker behind its predecessors, or whoever it is ready for. Tasks 0 and 1 are on the
 * device, 2 is on the host; 3 follows 0 and 2, 4 follows 3, 1 and 0. One thread submits them, one runs tasks elsewhere,
 * and the worker gives, looks, launches behind and completes. Each shared access is a step.
 *
 * - Each task runs once: behind its predecessors, or ready.
 * - None is launched before each of its predecessors has ended or is in a stream, and none ends before all of them.
 * - Nothing is looked at after its end, when its record may be another task's.
 * - All end: a task that nobody takes is a deadlock.
 *
 * Each of these must be found out:
 *   -DANY_GIVEN     a task is offered as soon as one of its predecessors is given
 *   -DSEEN_AGAIN    what has been seen of a list is counted once more
 *   -DKEEP_COUNT    a predecessor that ends stays counted
 *   -DREADY_TOO     a task that is in a stream is made ready when its predecessors have ended
 *   -DEND_EARLY     the worker completes a task before what it follows
 *   -DENDED_LAST    the worker counts down when the list has been closed and followed
 *   -DFREE_BIAS     a task that is not submitted yet has nothing but its links to wait for
 */

#define TASKS 5
#define BIAS 8 /* until it is submitted */
#define BIT(t) (1 << (t))

byte pending[TASKS];
byte list[TASKS];     /* bits: successors */
bool closed[TASKS];
bool done[TASKS], gone[TASKS], given[TASKS], ready[TASKS], taken[TASKS]; /* gone: its record may be another's */
byte ran[TASKS];
byte follows[TASKS];  /* bits: of the properties */

/* The worker's. */
byte seen[TASKS], counted[TASKS];
bool decided[TASKS];

inline make_ready(t) {
#ifndef READY_TOO
  if
  :: given[t] -> skip
  :: else ->
#endif
    assert(!ready[t]);
    ready[t] = true
#ifndef READY_TOO
  fi
#endif
}

inline release(t) {
  atomic {
    assert(!gone[t]);
    assert(pending[t] > 0);
    pending[t]--;
    if
    :: pending[t] == 0 -> make_ready(t)
    :: else -> skip
    fi
  }
}

/* `left`, `s`: the caller's. */
inline complete(t) {
  atomic {
    for (s : 0 .. TASKS - 1) {
      assert(!(follows[t] & BIT(s)) || done[s]);
    }
    s = 0;
    assert(!done[t]);
    ran[t]++;
    assert(ran[t] == 1);
    closed[t] = true;
    done[t] = true;
    left = list[t]
  }
  for (s : 0 .. TASKS - 1) {
    if
    :: left & BIT(s) -> release(s)
    :: else -> skip
    fi
  }
  s = 0;
  left = 0
}

inline follow(t, before) {
  atomic {
    follows[t] = follows[t] | BIT(before);
    if
    :: closed[before] -> skip
    :: else ->
      list[before] = list[before] | BIT(t);
      links++
    fi
  }
}

inline submit(t) {
  atomic {
#ifdef FREE_BIAS
    pending[t] = pending[t] + links;
#else
    pending[t] = pending[t] - (BIAS - links);
#endif
    links = 0;
    if
    :: pending[t] == 0 -> make_ready(t)
    :: else -> skip
    fi
  }
}

proctype submitter() {
  byte links = 0;
  follow(3, 0);
  follow(3, 2);
  submit(3);
  follow(4, 3);
  follow(4, 1);
  follow(4, 0);
  submit(4)
}

proctype elsewhere() {
  byte left = 0, s = 0, t = 2;
  do
  :: atomic { ready[2] && !taken[2] -> taken[2] = true; t = 2 }
    complete(t);
    gone[t] = true
  :: atomic { ready[3] && !taken[3] -> taken[3] = true; t = 3 }
    complete(t);
    gone[t] = true
  :: atomic { ready[4] && !taken[4] -> taken[4] = true; t = 4 }
    complete(t);
    gone[t] = true
  :: done[2] && done[3] && done[4] -> break
  od
}

inline give(t) {
  atomic {
    for (s : 0 .. TASKS - 1) {
      assert(!(follows[t] & BIT(s)) || done[s] || given[s]);
    }
    s = 0;
    assert(!given[t]);
    given[t] = true
  }
}

inline count_down(t) {
#ifndef KEEP_COUNT
  for (s : 0 .. TASKS - 1) {
    if
    :: seen[t] & BIT(s) ->
      assert(!gone[s]);
      counted[s]--
    :: else -> skip
    fi
  }
  s = 0;
#endif
  skip
}

inline one(t) { /* what the worker may do next with a task */
  if
  :: atomic { ready[t] && !taken[t] -> taken[t] = true } give(t)
  :: given[t] && !done[t] && list[t] != seen[t] -> /* look */
    atomic {
#ifdef SEEN_AGAIN
      left = list[t];
#else
      left = list[t] & ~seen[t];
#endif
      seen[t] = list[t];
      for (s : 0 .. TASKS - 1) {
        if
        :: left & BIT(s) -> counted[s]++
        :: else -> skip
        fi
      }
      s = 0;
      left = 0
    }
#ifdef ANY_GIVEN
  :: counted[t] > 0 && !decided[t] && pending[t] < BIAS ->
#else
  :: counted[t] > 0 && !decided[t] && pending[t] == counted[t] ->
#endif
    decided[t] = true;
    assert(!gone[t]);
    if
    :: assert(!ready[t]); give(t)
    :: skip /* refused: it goes the other way */
    fi
#ifdef END_EARLY
  :: given[t] && !done[t] ->
#else
  :: given[t] && !done[t] && pending[t] == 0 ->
#endif
#ifndef ENDED_LAST
    count_down(t);
#endif
    complete(t);
    gone[t] = true;
#ifdef ENDED_LAST
    count_down(t);
#endif
    skip
  :: else -> skip
  fi
}

proctype worker() {
  byte left = 0, s = 0;
  do
  :: (ready[0] && !taken[0]) || (given[0] && !done[0]) -> one(0)
  :: (ready[1] && !taken[1]) || (given[1] && !done[1]) -> one(1)
  :: (ready[3] && !taken[3]) || (given[3] && !done[3]) || (counted[3] > 0 && !decided[3]) -> one(3)
  :: (ready[4] && !taken[4]) || (given[4] && !done[4]) || (counted[4] > 0 && !decided[4]) -> one(4)
  :: done[0] && done[1] && done[3] && done[4] -> break
  od
}

init {
  atomic {
#ifndef FREE_BIAS
    pending[3] = BIAS;
    pending[4] = BIAS;
#endif
    ready[0] = true;
    ready[1] = true;
    ready[2] = true;
    run submitter();
    run elsewhere();
    run worker()
  }
}
