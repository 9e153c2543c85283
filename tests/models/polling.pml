/* SPDX-License-Identifier: Apache-2.0
 *
 * Who polls for messages on a rank of several workers, what the poller hands over, and how the rank knows that it is
 * idle: docs/decisions/0045. tern/net/message/node_receive.cpp and run_handler.cpp receive and hand over;
 * tern/task/scheduler/worker_loop.cpp polls; tern/net/termination/shutdown.hpp counts. The names are those of the C++
 * code. Worker 0 polls. MESSAGES messages come from other ranks; handlers send up to SENDS more to their own rank, and
 * WAITS of them wait for an answer in the middle. A fiber waits until the rank is idle.
 *
 * A handler is quick, middling (2 to 50 microseconds) or of unknown length. One that was handed over may be *long*. On
 * worker 0 it may then end by itself. Or it keeps its worker until others have done all that there is: on worker 0 what
 * was handed over, elsewhere also what has not been received. (Not so the last free worker.) So a message that nobody
 * receives, or a wake-up that is lost, ends in a deadlock, which is an error. The invariants:
 *   A  While a worker is free, worker 0 begins no middling handler where it arrived if a message waits behind it, and
 *      no long body if it has seen messages that it has not received, unless EACH handlers for each worker wait.
 *   B  After a long body worker 0 polls before it begins another one. The exception is a chain of fibers that enter
 *      each other directly: it has up to CHAIN bodies, and one if what ran before it was long.
 *   C  One context at a time receives.
 *   D  What was sent is received, and what was handed over is run. (Deadlock.)
 *   E  When the rank says that it is idle, no message waits, none is held and no handler runs or waits.
 *   F  It comes to say so, and then all workers sleep. (Deadlock; "cycles": nobody is busy for ever.)
 *
 * Each of these must be found out; the letter is the invariant that it breaks:
 *   -DRUN_HERE           A  a middling handler runs where it arrived, whatever waits behind it
 *   -DSTOP_AT_ONE        A  once one handler waits for a worker, worker 0 receives no more
 *   -DLONG_UNNOTICED     B  worker 0 polls after so many things, whether or not they were long
 *   -DCHAIN_AFTER_LONG   B  fibers enter each other directly also if what ran last was long
 *   -DWAITED_GOES_ON     C  a handler that waited goes on to receive, on whichever worker it goes on
 *   -DSILENT             D  what was asked for is published, and nobody is told
 *   -DNO_LOOK            D  worker 0 does not look for messages once more when it sleeps
 *   -DDONE_FIRST         E  a handler counts as done when it begins
 *   -DSENT_FIRST         E  reads first what was sent, then what is done
 *   -DNEVER_SETTLED      F  what ran where it arrived is counted when the next message comes
 *   -DTOLD_FIRST         F  whoever waits for idleness is told before what is done is counted
 *
 * Memory is sequentially consistent: parking.pml and run_queue.pml have the barriers. A queue's fibers are counted and
 * not kept. `force`, `publish` and `wake_one` are one step; so is to queue a handler and to spawn its fiber. Not here:
 * threads that only poll, the limit of handlers that wait, priorities, epochs.
 */

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef MESSAGES
#define MESSAGES 3
#endif
#ifndef SENDS
#define SENDS 0 /* by handlers */
#endif
#ifndef WAITS
#define WAITS 0
#endif
#define EACH 1       /* handed_to_each */
#define CHAIN 2      /* switch_budget of a worker that polls */
#define POLL_EVERY 3 /* fibers_per_poll */
#define POLLER 0

byte to_come = MESSAGES, sends = SENDS, waits = WAITS;
byte net;      /* has arrived, and nobody has received it */
bool has_next; /* received, and not delivered */

/* Worker 0's queue; handlers that wait for a worker, by the count that `hands_out` reads; woken fibers. */
byte private, public, queued, woken, waiting;
byte woken_pieces; /* of those that are woken: began where they arrived */
byte waiting_pieces;
bool want;

mtype = {awake, parked, unparked};
mtype spot[WORKERS] = awake;
byte asleep, searching;
bool bell_asleep, bell;

/* message_counters, and who waits for them. */
byte sent, done;
bool idle_waiter, told, closed;

/* Of the invariants. */
byte polling, running, blocked;

#define HUNGRY (searching + asleep > 0)
#define HAS_READY (private + public + woken > 0)
#define HANDS_OUT (queued > 0 && queued < EACH * WORKERS)
#define NOTHING_LEFT (net == 0 && !has_next && queued == 0 && private + public + woken == 0)

inline ring() {
  if
  :: atomic { bell_asleep -> bell = 1 }
  :: atomic { !bell_asleep -> skip }
  fi
}
inline wake_one() { /* worker 0 last: it has its events to look after */
  atomic {
    if
    :: spot[1] == parked -> spot[1] = unparked; searching++
#if WORKERS > 2
    :: spot[1] != parked && spot[2] == parked -> spot[2] = unparked; searching++
    :: spot[1] != parked && spot[2] != parked && spot[POLLER] == parked ->
#else
    :: spot[1] != parked && spot[POLLER] == parked ->
#endif
       spot[POLLER] = unparked; searching++; bell = 1
    :: else
    fi
  }
}
inline notify() {
  if
  :: atomic { searching == 0 && asleep > 0 -> printf("%d notifies\n", _pid) }; wake_one()
  :: atomic { searching > 0 || asleep == 0 -> skip }
  fi
}
inline publish() { /* half, and of one nothing: then a worker should be awake who forces it */
  atomic {
    if
    :: private >= 2 -> public = public + private / 2; private = private - private / 2; want = 0
    :: else
    fi;
    printf("%d publishes: %d private, %d public\n", _pid, private, public)
  }
#ifndef SILENT
  ; notify()
#endif
}
inline notify_if_idle() {
  if
  :: atomic { idle_waiter && !closed -> told = 1 }
  :: atomic { !idle_waiter || closed -> skip }
  fi
}
inline settle_counts() {
  if
  :: atomic { recent_done > 0 -> skip };
#ifdef TOLD_FIRST
     notify_if_idle();
     atomic { done = done + recent_done; recent_done = 0 }
#else
     atomic { done = done + recent_done; recent_done = 0 };
     notify_if_idle()
#endif
  :: atomic { recent_done == 0 -> skip }
  fi
}
inline send_one() { atomic { sends > 0 -> sends--; sent++; net++; printf("%d sends\n", me) }; ring() }
inline found_work() {
  if
  :: atomic { !counted -> skip }
  :: atomic { counted -> counted = 0; searching--; last = (searching == 0 && asleep > 0) };
     if
     :: atomic { last -> last = 0 }; wake_one()
     :: atomic { !last -> skip }
     fi
  fi
}
inline ends() {
  atomic {
    running--;
#ifndef DONE_FIRST
    done++
#endif
  };
  notify_if_idle()
}
inline take_fiber(from) { /* \pre there is one */
  from--;
  if
  :: woken_pieces > 0 -> woken_pieces--; piece = 1
  :: else
  fi
}

/* Other ranks: their messages, and the answers that handlers wait for. */
proctype others() {
end_others:
  do
  :: atomic { to_come > 0 -> to_come--; net++; printf("a message comes\n") };
     ring()
  :: atomic { waiting > 0 ->
       waiting--;
       if
       :: waiting_pieces > 0 -> waiting_pieces--; woken_pieces++
       :: else
       fi;
       woken++;
       printf("an answer comes\n") };
     notify()
  od
}

/* The fiber that waits until nothing is under way: wait_until_idle, alone. */
proctype closer() {
  byte s, d;
  atomic { to_come == 0 -> idle_waiter = 1 };
  do
  ::
#ifdef SENT_FIRST
     s = sent;
     d = done;
#else
     d = done;
     s = sent;
#endif
     if
     :: atomic { s == d ->
          closed = 1;
          printf("idle\n");
          assert(NOTHING_LEFT && running == 0 && waiting == 0); /* E */
          break }
     :: atomic { s != d -> s = 0; d = 0 }
     fi;
     atomic { told -> told = 0 } /* as it stands in the list again */
  od
}

proctype worker(byte me) {
  byte poll_in, budget, recent_done;
  bool counted, last, was_long, polled, piece, answered;
  /* Of the invariants, worker 0's. */
  bool left;    /* seen and not received, though too few handlers wait */
  byte late;    /* long bodies that ended since the last poll */
  bool chained; /* what ran before this step was one */

step:
  if
  :: atomic { me != POLLER -> goto search }
  :: atomic { me == POLLER -> polled = 0 }
  fi;
#ifdef LONG_UNNOTICED
  atomic {
    budget = CHAIN;
    was_long = 0;
    if
    :: poll_in <= 1 -> poll_in = POLL_EVERY
    :: poll_in > 1 -> poll_in--; goto own
    fi
  };
#else
  atomic { /* without `poll_in`: whenever nothing took long it may be time to poll, or not */
    chained = 0;
    if
    :: true -> skip
    :: !was_long && HAS_READY -> budget = CHAIN; goto own
    fi;
#ifdef CHAIN_AFTER_LONG
    budget = CHAIN;
#else
    budget = (was_long -> 1 : CHAIN);
#endif
    was_long = 0
  };
#endif

poll:
  atomic {
    chained = (late > 0);
    late = 0;
    left = 0;
    polled = 1;
    polling++;
    assert(polling == 1) /* C */
  };
#ifndef NEVER_SETTLED
  settle_counts();
#endif
receive: /* run_in_fiber */
  atomic {
    if
    :: !has_next && net > 0 -> net--; has_next = 1; printf("%d receives\n", me)
    :: !has_next && net == 0 -> goto received
    :: else
    fi
  };
#ifdef NEVER_SETTLED
  settle_counts();
#endif
  atomic { /* may_start_here */
    has_next = 0;
    if
    :: queued == 0 -> skip /* quick */
#ifdef RUN_HERE
    :: queued == 0 -> was_long = 1; assert(!(HUNGRY && net > 0)) /* middling; A */
#else
    :: queued == 0 && !(HUNGRY && net > 0) -> was_long = 1
#endif
    :: goto hand_over
    fi;
#ifdef DONE_FIRST
    recent_done++;
#endif
    running++;
    printf("%d runs it here\n", me)
  };
  do
  :: send_one()
  :: atomic { waits > 0 -> /* this fiber receives no more: the next poll begins another */
       waits--;
       running--;
       waiting++;
       waiting_pieces++;
       polling--;
       printf("it waits\n");
       goto step }
  :: atomic { true ->
       running--;
#ifndef DONE_FIRST
       recent_done++;
#endif
       goto may_continue }
  od;

hand_over: /* start_later */
  atomic { queued++; private++; answered = want; printf("%d hands it over\n", me) };
  if
  :: atomic { answered -> answered = 0 }; publish()
  :: atomic { !answered -> skip }
  fi;

may_continue:
  atomic {
    if
#ifdef STOP_AT_ONE
    :: HAS_READY -> left = (net > 0 && queued < EACH * WORKERS)
#else
    :: HAS_READY && !HANDS_OUT -> left = (net > 0 && queued > 0 && queued < EACH * WORKERS)
#endif
    :: was_long = 1 /* the budget of messages and time is exhausted */
#ifdef STOP_AT_ONE
    :: !HAS_READY -> goto receive
#else
    :: !HAS_READY || HANDS_OUT -> goto receive
#endif
    fi
  };

received:
#ifndef NEVER_SETTLED
  settle_counts();
#endif
  atomic { polling-- };
  if
  :: atomic { HAS_READY -> skip }; found_work()
  :: atomic { !HAS_READY -> skip }
  fi;

own: /* own_fiber, and what others have made public of it */
  atomic {
    if
    :: woken > 0 -> take_fiber(woken); answered = 0
    :: woken == 0 && public > 0 -> public--
    :: woken == 0 && public == 0 && private > 0 -> private--; answered = (want && private >= 2)
    :: woken + public + private == 0 && me == POLLER && !polled -> goto poll
    :: else -> budget = 0; polled = 0; chained = 0; goto search
    fi;
    assert(!left && late == 0) /* A, B */
  };
  if
  :: atomic { answered -> answered = 0 }; publish()
  :: atomic { !answered -> skip }
  fi;
  found_work();
  goto body;

search:
  if
  :: atomic { me == POLLER -> skip } /* it has polled, and has none of its own */
  :: atomic { me != POLLER ->
       if
       :: woken > 0 -> take_fiber(woken); answered = 1
       :: woken == 0 && public > 0 -> public--; answered = 1
       :: else -> want = 1; answered = 0
       fi };
     if
     :: atomic { answered -> answered = 0 }; found_work(); goto body
     :: atomic { !answered -> skip }
     fi
  fi;
  if
  :: atomic { !counted -> counted = 1; searching++; goto step }
  :: atomic { counted -> counted = 0 }
  fi;
  /* park */
  atomic { spot[me] = parked; asleep++ };
  atomic { searching-- };
  atomic { /* prepare_force and anything_to_do */
    want = (want || me != POLLER);
    if
    :: woken + public > 0 || (me == POLLER && private > 0) -> goto stay
    :: me != POLLER && private > 0 && woken + public == 0 -> /* force */
       public = (private + 1) / 2;
       private = private - public;
       want = 0;
       goto stay
    :: else
    fi
  };
  if
  :: atomic { me != POLLER -> skip };
end_parked:
     atomic { spot[me] == unparked -> skip }
  :: atomic { me == POLLER -> bell_asleep = 1 }; /* node_receive::wait */
     if
#ifdef NO_LOOK
     :: true ->
#else
     :: atomic { net > 0 || has_next -> skip }
     :: atomic { net == 0 && !has_next -> skip };
#endif
end_waits:
        atomic { bell -> skip }
     fi;
     atomic { bell_asleep = 0; bell = 0 }
  fi;
stay: /* cancel_park */
  atomic {
    if
    :: spot[me] == parked -> searching++
    :: else
    fi;
    spot[me] = awake;
    asleep--;
    counted = 1;
    goto step
  };

body: /* of a fiber */
  if
  :: atomic { piece -> piece = 0; running++ }; /* the end of a handler that waited where it arrived */
     ends();
#ifdef WAITED_GOES_ON
     atomic { polling++; assert(polling == 1) }; /* C */
     atomic { polling-- };
#endif
     goto next
  :: atomic { !piece && queued > 0 -> queued--; running++; /* start_handler takes the oldest */
#ifdef DONE_FIRST
       done++;
#endif
       printf("%d begins what was handed over\n", me) }
  :: atomic { !piece && queued == 0 -> running++ } /* goes on after it has waited */
  fi;
  do
  :: send_one()
  :: atomic { waits > 0 -> waits--; running--; waiting++; printf("%d's fiber waits\n", me); goto next }
  :: atomic { me == POLLER -> was_long = 1; late++; printf("%d takes some time\n", me) };
     break
  :: atomic { blocked + 1 < WORKERS -> blocked++; printf("%d is long\n", me) };
     if
     :: atomic { me == POLLER && queued == 0 && private + public + woken == 0 -> blocked--; was_long = 1; late++ }
     :: atomic { me != POLLER && NOTHING_LEFT -> blocked-- }
     fi;
     break
  :: break
  od;
  ends();

next: /* next_fiber */
  atomic {
    if
    :: me == POLLER && budget > 1 && !(want && private >= 2) && public + woken == 0 && private > 0 ->
       budget--;
       private--;
       assert(!left && late < CHAIN && !(late > 0 && chained)); /* A, B */
       printf("%d enters the next one directly\n", me);
       goto body
    :: else -> goto step
    fi
  }
}

init {
  byte i;
  atomic {
    sent = MESSAGES; /* as those that have sent them have counted */
    for (i : 0 .. WORKERS - 1) { run worker(i) };
    run others();
    run closer()
  }
}
