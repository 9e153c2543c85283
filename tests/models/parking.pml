/* SPDX-License-Identifier: Apache-2.0
 *
 * How workers sleep and are woken: tern/task/wait/parking_spot.hpp and its use in tern/task/scheduler/parking.cpp. WORKERS workers;
 * one of them starts in the main task; tasks push up to PUSHES tasks in all; a foreign thread adds FOREIGN tasks to the
 * outside queue. Each access to what is shared is a step of its own, but a steal and a force are one step: deque.pml
 * has them in detail. The names are those of the C++ code.
 *
 * A task may be a long one: it keeps its worker, without a look at its deque, until all tasks that are queued have been
 * begun by others. (Not so the last free worker.) So a wake-up that is lost ends in a deadlock, which is an error, and:
 * - all workers end, and the end is declared when nothing is queued and nothing runs;
 * - what is queued is begun once;
 * - no foreign thread is inside `notify` when the scheduler is destroyed.
 *
 * Memory is that of x86: of an owner's stores to its deque's bottom the last one may wait in its buffer; its atomic
 * read-modify-writes drain it first, and so does the barrier of a worker that parks.
 *
 * Right as it stands, and also with:
 *   -DKEEP_WANT             the mode for kernels without a barrier
 *   -DLAST_LOOKS_BEHIND_BARRIER  the last searcher wakes another only if it sees work, private too, behind a barrier
 * Each of these must be found out:
 *   -DNO_RECHECK            sleeps without another look after it parked
 *   -DNO_BARRIER            looks without the barrier
 *   -DNO_FORCE              looks only for what is public
 *   -DPREPARED_OR_NOTHING   what was public when it prepared to force, and is not any more, does not keep it awake
 *   -DLAST_SEARCHER_SILENT  the last searcher finds work and wakes nobody
 *   -DLAST_LOOKS            the last searcher wakes another only if it sees work, private too, but has no barrier
 *   -DLAST_LOOKS_AT_PUBLIC  the same, only for public work
 *   -DEXACTLY_ZERO          compares `searching` with == 0, though it is below 0 for a moment if an unparked worker is
 *                           faster than the one that unparked it
 *   -DCOUNT_FIRST           counts before it unparks, and takes it back if nobody was parked
 *   -DCOUNTED_TWICE         a worker that is unparked while it parks counts itself, as the one that unparked it did
 *   -DFINISH_EARLY          the end is declared by who sees no work, though others may still run
 *   -DNO_VISITORS           the destructor does not wait for foreign threads
 * with FORCES, which lets a worker that is not counted as searching force (force_tasklets):
 *   -DFORCE_SILENT          it has then published in the owner's stead, and cleared `want`, but notifies nobody
 * with YIELDS, which lets tasks yield: they go into their worker's queue, and nobody is told of the first one:
 *   -DQUEUES_FIRST           before it sleeps, a worker looks at another's queue before it looks at its deque
 *   -DYIELDED_SLEEP_ON      a worker that sees a yielded fiber, which its owner may or may not come back to, sleeps
 *                           until it is unparked, instead of for a while
 */

#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef PUSHES
#define PUSHES 2
#endif
#ifndef FOREIGN
#define FOREIGN 1
#endif
#ifndef EARLY
#define EARLY 0 /* sleeps that end by themselves */
#endif
#ifndef YIELDS
#define YIELDS 0 /* times that a task gives way: it goes into its worker's queue */
#endif
#ifndef FORCES
#define FORCES 0 /* times that a worker forces without parking (force_tasklets) */
#endif

#ifdef KEEP_WANT
#define KEPT 1
#else
#define KEPT 0
#endif
#define HALF_UP(n) (((n) + 1) / 2)
#define AFTER(d) (((d) + 1) % WORKERS)

/* Deques: instead of indices the distances from the top; below 0 while an owner pops from one that is empty. */
short bottom[WORKERS];  /* as its owner sees it */
short visible[WORKERS]; /* the same in memory; differs while the owner's last store waits in its buffer */
short split[WORKERS];
bool want[WORKERS] = KEPT;
byte prepared[WORKERS]; /* bit i: the word is still the one that worker i prepared to force */
byte outside;
byte yielded[WORKERS];
byte at_rest[WORKERS]; /* bit i: has not taken a turn since worker i looked (has_overdue_yielded) */

/* Parking. */
mtype = {awake, parked, unparked};
mtype spot[WORKERS] = awake;
byte asleep;
short searching;
bool stopping, finished;

/* Of the properties. */
byte early, yields, forces, pushed, added, queued, running, blocked;
byte visitors, ended;
bool gone;

#ifdef EXACTLY_ZERO
#define NOBODY_SEARCHES (searching == 0)
#else
#define NOBODY_SEARCHES (searching <= 0)
#endif

inline begin() {
  assert(queued > 0);
  queued--;
  running++
}
inline store_bottom(value) { /* the one before it drains: a buffer of one store */
  visible[me] = bottom[me];
  bottom[me] = value
}
inline drain() { visible[me] = bottom[me] }
inline word_changes(d) { prepared[d] = 0 }

inline unpark_one() {
#ifdef COUNT_FIRST
  atomic { searching++ };
#endif
  i = 0;
  do
  :: atomic { i < WORKERS && spot[i] != parked -> i++ }
  :: atomic { i < WORKERS && spot[i] == parked -> spot[i] = unparked; printf("%d unparks %d\n", _pid - 1, i); i = 0 };
#ifndef COUNT_FIRST
     atomic { searching++; printf("%d counts it: searching %d\n", _pid - 1, searching) };
#endif
     break
  :: atomic { i == WORKERS -> i = 0; printf("%d finds nobody parked\n", _pid - 1) };
#ifdef COUNT_FIRST
     atomic { searching-- };
#endif
     break
  od
}
inline notify() {
  if
  :: atomic { asleep == 0 -> printf("%d notifies: nobody is asleep\n", _pid - 1) }
  :: atomic { asleep > 0 -> printf("%d notifies: %d asleep\n", _pid - 1, asleep) };
     if
     :: atomic { !NOBODY_SEARCHES -> printf("%d leaves it to the %d searching\n", _pid - 1, searching) }
     :: atomic { NOBODY_SEARCHES -> skip };
        unpark_one()
     fi
  fi
}
inline attend() { /* the end of `push`: the owner sees whether somebody wants */
  if
  :: atomic { !want[me] || bottom[me] <= split[me] -> printf("%d pushes, private\n", me) }
  :: atomic { want[me] && bottom[me] > split[me] ->
       drain();
       split[me] = split[me] + HALF_UP(bottom[me] - split[me]);
       want[me] = KEPT;
       word_changes(me);
       printf("%d pushes and publishes\n", me) };
     notify()
  fi
}

inline prepare_force(d) { /* 1 in n if something is public */
  if
  :: split[d] == 0 -> want[d] = 1; prepared[d] = prepared[d] | (1 << me)
  :: else -> n = 1
  fi
}
inline force(d) { /* 1 in n if it has */
  if
  :: (prepared[d] & (1 << me)) && visible[d] > 0 ->
     split[d] = HALF_UP(visible[d]);
     assert(split[d] <= bottom[d] + 1); /* one more: the one that its owner is just about to pop */
     want[d] = KEPT;
     word_changes(d);
     printf("%d forces %d out of %d\n", me, split[d], d);
     n = 1
  :: else -> prepared[d] = prepared[d] & ~(1 << me)
  fi
}
inline steal(d) { /* 1 in n if there was something */
  if
  :: split[d] > 0 ->
     more = HALF_UP(split[d]);
     bottom[d] = bottom[d] - more;
     visible[d] = visible[d] - more;
     split[d] = split[d] - more;
     want[d] = (want[d] || split[d] == 0);
     begin();
     printf("%d steals %d from %d\n", me, more, d);
     more--;
     n = 1
  :: else -> want[d] = 1
  fi
}
inline look_at_queue(d) {
  if
  :: yielded[d] > 0 && (at_rest[d] & (1 << me)) -> d = 0; timed = 0; goto stay
  :: yielded[d] > 0 && !(at_rest[d] & (1 << me)) ->
     at_rest[d] = at_rest[d] | (1 << me);
#ifndef YIELDED_SLEEP_ON
     timed = 1
#endif
  :: else
  fi
}
inline next_other(d) {
  d = AFTER(d);
  if
  :: d == me -> d = 0; break
  :: else
  fi
}
inline forget_prepared() {
  for (i : 0 .. WORKERS - 1) { prepared[i] = prepared[i] & ~(1 << me) };
  i = 0
}
inline barrier() {
  atomic {
#if !defined(NO_BARRIER) && !defined(KEEP_WANT)
    for (i : 0 .. WORKERS - 1) { visible[i] = bottom[i] };
#endif
    i = 0
  }
}

proctype memory() {
end:
  do
  :: atomic { visible[0] != bottom[0] -> visible[0] = bottom[0] }
  :: atomic { visible[1] != bottom[1] -> visible[1] = bottom[1] }
#if WORKERS > 2
  :: atomic { visible[2] != bottom[2] -> visible[2] = bottom[2] }
#endif
  od
}

proctype foreign() {
  byte i;
  do
  :: atomic { added < FOREIGN -> visitors++; added++; queued++; outside++; printf("%d, foreign, adds\n", _pid - 1) };
     notify();
     atomic { assert(!gone); visitors-- }
  :: atomic { added == FOREIGN -> break }
  od
}

proctype destructor() {
  atomic {
#ifdef NO_VISITORS
    ended == WORKERS ->
#else
    ended == WORKERS && visitors == 0 ->
#endif
    gone = 1
  }
}

proctype worker(byte me) {
  byte i, d, n;
  byte more; /* stolen, to be put into its own deque */
  bool counted, last, main, timed;

  if
  :: atomic { me == 0 -> main = 1; running++; goto body }
  :: atomic { me != 0 -> skip }
  fi;

own: /* pop */
#if YIELDS > 0
  atomic { at_rest[me] = 0 };
#endif
  if
  :: atomic { bottom[me] == 0 -> goto search }
  :: atomic { bottom[me] > 0 -> store_bottom(bottom[me] - 1) }
  fi;
  atomic {
    if
    :: bottom[me] >= split[me] && !want[me] -> begin(); printf("%d pops\n", me); goto body
    :: else
    fi
  };
  atomic { /* pop_slow */
    if
    :: bottom[me] + 1 > split[me] && !want[me] -> begin(); printf("%d pops\n", me); goto body
    :: bottom[me] + 1 > split[me] && want[me] ->
       drain();
       n = (bottom[me] + 1 - split[me]) / 2;
       want[me] = (KEPT || (n == 0 && split[me] == 0));
       split[me] = split[me] + n;
       word_changes(me);
       begin();
       printf("%d pops and publishes %d\n", me, n);
       if
       :: n == 0 -> goto body
       :: else -> n = 0
       fi
    :: bottom[me] + 1 <= split[me] && split[me] > 0 ->
       drain();
       split[me] = split[me] / 2;
       want[me] = (want[me] || (split[me] == 0 && (searching > 0 || asleep > 0)));
       word_changes(me);
       begin();
       printf("%d pops what was public\n", me);
       goto body
    :: bottom[me] + 1 <= split[me] && split[me] == 0 ->
       store_bottom(bottom[me] + 1);
       goto search
    fi
  };
  notify();

body:
  do
  :: atomic { pushed < PUSHES -> pushed++; queued++; store_bottom(bottom[me] + 1) };
     attend()
  :: atomic { queued > 0 && blocked + 1 < WORKERS -> blocked++; printf("%d is long: %d queued\n", me, queued) };
     atomic { queued == 0 -> blocked--; break }
#if YIELDS > 0
  :: atomic { yields < YIELDS && !main ->
       yields++;
       running--;
       queued++;
       yielded[me]++;
       printf("%d's task yields\n", me);
       if
       :: yielded[me] == 1 -> goto own
       :: else
       fi };
     notify();
     goto own
#endif
  :: break
  od;
  atomic {
    !main || added == FOREIGN -> /* the main task waits until the foreign thread has added all it will */
    if
    :: main -> stopping = 1; main = 0; printf("%d is stopping\n", me)
    :: else
    fi;
    running--;
    goto own
  };

search: /* once before it counts as searching, and once after; then it parks */
#if YIELDS > 0
  atomic { at_rest[me] = 0 };
#endif
#if FORCES > 0
  if
  :: atomic { forces < FORCES -> forces++; d = AFTER(me) };
     do
     :: atomic { prepare_force(d); n = 0; next_other(d) }
     od;
     barrier();
     d = AFTER(me);
     do
     :: atomic {
          force(d);
          if
          :: n == 1 -> break
          :: else
          fi;
          next_other(d) }
     od;
     if
     :: atomic { n == 0 -> skip }
     :: atomic { n == 1 -> n = 0; forget_prepared() };
#ifndef FORCE_SILENT
        notify();
#endif
        atomic {
          steal(d);
          d = 0;
          if
          :: n == 1 -> n = 0; goto keep
          :: else
          fi }
     fi
  :: skip
  fi;
#endif
  atomic {
    if
    :: outside > 0 -> outside--; begin(); printf("%d takes from outside\n", me); goto found
    :: else -> d = AFTER(me)
    fi
  };
  do
  :: atomic {
       steal(d);
       if
       :: n == 1 && more == 0 -> n = 0; d = 0; goto found
       :: n == 1 && more > 0 -> n = 0; d = 0; goto keep
       :: else
       fi;
       next_other(d) }
  od;
#if YIELDS > 0
  atomic {
    if
    :: yielded[me] > 0 -> yielded[me]--; begin(); printf("%d goes on with its yielded\n", me); goto found
    :: else -> d = AFTER(me)
    fi
  };
  do
  :: atomic { /* steal_yielded */
       if
       :: yielded[d] > 0 && (at_rest[d] & (1 << me)) ->
          yielded[d]--;
          begin();
          printf("%d takes %d's yielded\n", me, d);
          d = 0;
          goto found
       :: yielded[d] > 0 && !(at_rest[d] & (1 << me)) -> at_rest[d] = at_rest[d] | (1 << me)
       :: else
       fi;
       next_other(d) }
  od;
#endif

  if
  :: atomic { !counted -> counted = 1; searching++; drain(); printf("%d searches: %d do\n", me, searching) };
     goto search
  :: atomic { counted -> counted = 0 }
  fi;

  /* park */
  atomic { spot[me] = parked; drain() };
  atomic { asleep++ };
  atomic { searching--; printf("%d parks: %d search\n", me, searching) };
#ifndef NO_RECHECK
  d = AFTER(me);
  do
  :: atomic {
       prepare_force(d);
#ifndef PREPARED_OR_NOTHING
       if
       :: n == 1 -> n = 0; d = 0; goto stay
       :: else
       fi;
#endif
       n = 0;
       next_other(d) }
  od;
  barrier();
  atomic { /* anything_to_do */
    if
    :: outside > 0 || finished -> goto stay
    :: else -> d = AFTER(me)
    fi
  };
  do
  :: atomic {
#if YIELDS > 0 && defined(QUEUES_FIRST)
       look_at_queue(d)
     };
     atomic {
#endif
       if
       :: split[d] > 0 -> d = 0; timed = 0; goto stay
       :: else
       fi
     };
     atomic {
#ifndef NO_FORCE
       force(d);
       if
       :: n == 1 -> n = 0; d = 0; timed = 0; goto stay
       :: else
       fi;
#endif
#if YIELDS > 0 && !defined(QUEUES_FIRST)
       skip
     };
     atomic {
       look_at_queue(d);
#endif
       next_other(d)
     }
  od;
#else
  if
  :: atomic { finished -> goto stay }
  :: atomic { !finished -> skip }
  fi;
#endif
  if
  :: atomic { stopping -> skip }
  :: atomic { !stopping -> printf("%d sleeps\n", me); goto sleep }
  fi;
#ifndef FINISH_EARLY
  if
  :: atomic { asleep == WORKERS -> skip }
  :: atomic { asleep != WORKERS -> printf("%d sleeps\n", me); goto sleep }
  fi;
  do
  :: atomic { i < WORKERS && spot[i] == parked -> i++ }
  :: atomic { i < WORKERS && spot[i] != parked -> i = 0; printf("%d sleeps\n", me); goto sleep }
  :: atomic { i == WORKERS -> i = 0; break }
  od;
#endif
  atomic { finished = 1; printf("%d declares the end\n", me); assert(queued == 0 && running == 0) };
  do
  :: atomic { i < WORKERS && spot[i] != parked -> i++ }
  :: atomic { i < WORKERS && spot[i] == parked -> spot[i] = unparked; i++ }
  :: atomic { i == WORKERS -> i = 0; break }
  od;
  goto stay;

sleep:
  if
  :: atomic { spot[me] == unparked -> skip }
  :: atomic { timed -> printf("%d's sleep is over\n", me) }
  :: atomic { early < EARLY -> early++; printf("%d is up too early\n", me) }
  fi;

stay: /* cancel_park */
  atomic {
    forget_prepared();
    timed = 0;
    if
    :: spot[me] == parked -> n = 1; printf("%d stays awake\n", me)
    :: else -> printf("%d is up, unparked\n", me)
    fi;
#ifdef COUNTED_TWICE
    n = 1;
#endif
    spot[me] = awake
  };
  atomic { searching = searching + n; n = 0 };
  atomic {
    asleep--;
    if
    :: finished -> goto over
    :: else -> counted = 1; goto search
    fi
  };

keep: /* stolen ones into its own deque */
  do
  :: atomic { more > 0 -> more--; store_bottom(bottom[me] + 1) };
     attend()
  :: atomic { more == 0 -> break }
  od;
found:
  if
  :: atomic { !counted -> goto body }
  :: atomic { counted -> counted = 0 }
  fi;
  atomic { searching--; drain(); last = NOBODY_SEARCHES; printf("%d found: searching %d\n", me, searching) };
#ifdef LAST_SEARCHER_SILENT
  last = 0;
#endif
  if
  :: atomic { !last -> goto body }
  :: atomic { last -> last = 0;
       if
       :: asleep == 0 -> goto body
       :: else
       fi }
  fi;
#ifdef LAST_LOOKS_BEHIND_BARRIER
  barrier();
#endif
#if defined(LAST_LOOKS) || defined(LAST_LOOKS_AT_PUBLIC) || defined(LAST_LOOKS_BEHIND_BARRIER)
  atomic {
    if
    :: outside > 0 -> goto wake_another
    :: else -> d = 0
    fi
  };
  do
  :: atomic { d < WORKERS ->
       if
#ifdef LAST_LOOKS_AT_PUBLIC
       :: split[d] > 0 -> d = 0; goto wake_another
#else
       :: (d == me -> bottom[d] : visible[d]) > 0 -> d = 0; goto wake_another
#endif
       :: else -> d++
       fi }
  :: atomic { d == WORKERS -> d = 0; printf("%d sees no more\n", me); goto body }
  od;
wake_another:
#endif
  unpark_one();
  goto body;

over:
  assert(queued == 0 && running == 0);
  ended++
}

init {
  byte i;
  atomic {
    for (i : 0 .. WORKERS - 1) { run worker(i) };
    if
    :: FOREIGN > 0 -> run foreign(); run destructor()
    :: else
    fi;
    run memory()
  }
}
