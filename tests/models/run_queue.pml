/* SPDX-License-Identifier: Apache-2.0
 *
 * The private half of a worker's queue, tern/task/worker/run_queue.hpp and run_queue.cpp: a lock that is biased towards
 * its owner. One owner; OTHERS others, which ask, force and take; each shared access a step of its own. FIBERS fibers,
 * which the owner makes, which give way on it (by rotation too) and end anywhere, and one that is bound to the owner.
 * The names are those of the C++ code.
 *
 * - No fiber is entered twice, nor while its stack is still in use; each ends once.
 * - A fiber may be a long one: it keeps its worker until all others have been begun elsewhere. (Not so on the last free
 *   worker.) So a wake-up that is lost ends in a deadlock, which is an error; and so does a wait in a circle.
 *
 * Memory is that of x86: the owner's plain stores wait in a buffer, in order, until they drain; its taking of the lock
 * drains it first, and so does a barrier. The others store under the lock only, where a buffer makes no difference.
 *
 * Right as it stands, and also with -DKEEP_WANT: the mode for kernels without a barrier.
 * Each of these must be found out:
 *   -DNO_BARRIER      force without the barrier
 *   -DFORCE_ANY       force without a look whether `want` is still the number that the barrier made known
 *   -DNO_BUSY         force does not wait for an owner that is inside
 *   -DWANT_FIRST      the owner reads `want` before it sets `busy`
 *   -DFRONT_FIRST     begin_rotation reads the first one before it reads `want`
 *   -DKEEP_BUSY       the owner takes the lock with `busy` set
 *   -DEND_EARLY       a rotation ends before the stack has been left
 *   -DUNLOCKED        publish takes no lock
 *   -DPUSH_SILENT     the owner does not look at `want` after a push
 *   -DFORCE_SILENT    who forces and is not counted as searching (steal_yielded) tells nobody that `want` is clear
 *   -DBOUND_SILENT    the owner goes from what is private to a bound fiber without telling anybody
 */

#ifndef FIBERS
#define FIBERS 3
#endif
#ifndef OTHERS
#define OTHERS 2
#endif
#define WORKERS (1 + OTHERS)
#define BUFFER 3 /* stores that may wait */
#define BOUND (1 << FIBERS)

#ifdef KEEP_WANT
#define KEPT 1
#else
#define KEPT 0
#endif

#define BUSY 0
#define PRIVATE 1
#define STACK 2
#define LOCK 3

/* The queue. Sets of fibers are bits; whoever takes one takes the lowest. */
bool busy, lock;
bool want = KEPT;
byte same_want;                   /* bit i: `want` is still the number that process i has prepared */
byte private, public;
bool bound = 1;                   /* the bound one can run */
byte stack = 1;                   /* whose the owner uses, as memory knows */
chan buffer = [BUFFER] of {byte, byte}; /* place and value */

byte parked; /* bit i: process i sleeps or is about to */

/* Of the properties. */
byte inside = 1; /* those that run */
byte alive = 1;  /* made and not ended */
byte blocked;

#define OVER (alive == 0 && !bound && inside == 0)
#define NOTHING_LEFT (private == 0 && public == 0 && len(buffer) == 0)

inline drain_one() {
  buffer?place, value;
  if
  :: place == BUSY -> busy = value
  :: place == PRIVATE -> private = value
  :: place == STACK -> stack = value
  :: else -> lock = value
  fi;
  place = 0;
  value = 0
}
inline drain() {
  do
  :: nempty(buffer) -> drain_one()
  :: empty(buffer) -> break
  od
}
inline lowest(these, low) {
  if
  :: (these) & 1 -> low = 1
  :: !((these) & 1) && ((these) & 2) -> low = 2
  :: !((these) & 3) && ((these) & 4) -> low = 4
  :: !((these) & 7) && ((these) & 8) -> low = 8
  :: else -> low = 0
  fi
}
inline enters(f) {
  assert((inside & (f)) == 0);
  assert((f) == BOUND || (alive & (f)) != 0);
  inside = inside | (f)
}
inline leaves(f) { inside = inside & ~(f) }
inline notify() { parked = 0 } /* parking.pml has it in detail */
#define TWO_OR_MORE(of) (((of) & ((of) - 1)) != 0)

proctype memory() {
  byte place, value;
end:
  do
  :: atomic { nempty(buffer) -> drain_one() }
  od
}

/* Of the owner, whose loads see its own stores first: `mine` is what it has stored last. */
inline load_private(to) {
  if
  :: buffer??[PRIVATE, _] -> to = mine
  :: else -> to = private
  fi
}
inline store_private(set) {
  mine = set;
  buffer!PRIVATE, mine
}
inline enter_queue() {
#ifdef WANT_FIRST
  atomic { slow = want };
  atomic { buffer!BUSY, 1 };
#else
  atomic { /* one step only if the buffer has room; nobody sees the difference */
    buffer!BUSY, 1;
    slow = want
  };
#endif
  if
  :: atomic { !slow -> skip }
  :: atomic { slow ->
#ifndef KEEP_BUSY
       buffer!BUSY, 0
#endif
     };
     atomic { !lock -> drain(); lock = 1 }
  fi
}
inline leave_queue() {
  atomic {
    if
    :: slow -> buffer!LOCK, 0
    :: else -> buffer!BUSY, 0
    fi;
    slow = 0
  }
}
inline answer() { /* publish, and notify */
  atomic {
#ifndef UNLOCKED
    !lock ->
#endif
    drain();
    if
    :: want ->
       if
       :: TWO_OR_MORE(private) ->
          lowest(private, x);
          private = private & ~x;
          public = public | x;
          printf("owner publishes %d\n", x);
          want = KEPT;
          if
          :: !KEPT -> same_want = 0
          :: else
          fi
       :: else
       fi
    :: else
    fi;
    x = 0;
    notify()
  }
}
inline push(added) {
  enter_queue();
  atomic {
    load_private(v);
    v = v | (added);
    added = 0;
    store_private(v);
    v = 0
  };
  leave_queue()
}

proctype owner() {
  byte place, value;
  byte mine, v, x;
  bool slow;
  byte self = 1; /* that runs */
  byte made = 1;

runs:
  do
  :: atomic { made < FIBERS -> x = 1 << made; made++; alive = alive | x; printf("owner makes %d\n", x) };
     push(x);
     if
#ifdef PUSH_SILENT
     :: skip
#else
     :: atomic { want -> skip };
        answer()
     :: atomic { !want -> skip }
#endif
     fi

  :: atomic { self != BOUND -> /* begin_rotation */
       buffer!BUSY, 1;
#ifdef FRONT_FIRST
       load_private(v);
       lowest(v, x)
#endif
     };
     if
     :: atomic { want -> buffer!BUSY, 0; v = 0; x = 0; goto gives_way }
     :: atomic { !want -> skip }
     fi;
     atomic {
       load_private(v);
#ifndef FRONT_FIRST
       lowest(v, x);
#endif
       if
       :: v == 0 || x == 0 -> buffer!BUSY, 0; v = 0; x = 0; goto gives_way
       :: else
       fi;
       v = (v & ~x) | self;
       store_private(v);
       printf("owner rotates from %d to %d\n", self, x);
       v = 0
     };
#ifdef END_EARLY
     atomic { buffer!BUSY, 0 };
#endif
     atomic {
       buffer!STACK, x;
       leaves(self);
       enters(x);
       self = x;
       x = 0
     };
#ifndef END_EARLY
     atomic { buffer!BUSY, 0 } /* end_rotation */
#endif

  :: atomic { self != BOUND && !NOTHING_LEFT && blocked + 1 < WORKERS ->
       blocked++; printf("owner runs %d for long\n", self) };
     atomic { NOTHING_LEFT -> blocked--; goto ends_now }
  :: atomic { self == BOUND && !NOTHING_LEFT && blocked + 1 < WORKERS ->
       blocked++; printf("owner runs the bound one for long\n") };
     atomic { NOTHING_LEFT -> blocked--; goto ends_now }

  :: atomic { made == FIBERS || self != 1 -> goto ends_now } /* the first one makes all others */
  od;

gives_way: /* not by rotation */
  atomic {
    buffer!STACK, 0;
    leaves(self);
    printf("owner: %d gives way\n", self)
  };
  push(self);
  atomic { load_private(v) };
  if
#ifndef PUSH_SILENT
  :: atomic { want && TWO_OR_MORE(v) -> v = 0 };
     answer()
  :: atomic { !want || !TWO_OR_MORE(v) -> v = 0 } /* alone, it goes on here at once */
#else
  :: atomic { v = 0 }
#endif
  fi;
  goto looks;

ends_now:
  atomic {
    printf("owner: %d ends\n", self);
    if
    :: self == BOUND -> leaves(self)
    :: else -> leaves(self); alive = alive & ~self
    fi;
    self = 0;
    buffer!STACK, 0
  };

looks:
  atomic { load_private(v) };
  if
  :: atomic { bound -> x = BOUND }; /* pop_bound */
#ifndef BOUND_SILENT
     if
     :: atomic { want && v != 0 -> v = 0 };
        answer();
        atomic { x = BOUND }
     :: atomic { !want || v == 0 -> v = 0 }
     fi;
#endif
     atomic { v = 0; goto found }
  :: atomic { !lock && public != 0 -> /* take_public */
       drain();
       lowest(public, x);
       public = public & ~x;
       v = 0;
       goto found
     }
  :: atomic { v == 0 -> goto nothing }
  :: atomic { v != 0 -> v = 0 };
     enter_queue(); /* pop */
     atomic {
       load_private(v);
       lowest(v, x);
       if
       :: x != 0 -> store_private(v & ~x)
       :: else
       fi;
       v = 0
     };
     leave_queue();
     if
     :: atomic { x != 0 -> goto found }
     :: atomic { x == 0 -> skip }
     fi
  fi;
nothing:
  atomic { v = 0; drain() };
  if
  :: atomic { public != 0 || bound || private != 0 -> goto looks }
  :: atomic { OVER -> goto over }
  fi;
found:
  atomic {
    enters(x);
    if
    :: x == BOUND -> bound = 0
    :: else
    fi;
    self = x;
    x = 0;
    printf("owner runs %d\n", self);
    buffer!STACK, self;
    goto runs
  };
over:
  skip
}

proctype other() {
  byte place, value;
  byte x, v;
  bool searching, told;

looks:
  if
  :: atomic { !lock && public != 0 -> /* take_public */
       lowest(public, x);
       public = public & ~x;
       printf("%d takes %d\n", _pid, x);
       assert(stack != x);
       enters(x);
       if
       :: searching -> notify(); searching = 0 /* found_work */
       :: else
       fi
     };
     if
     :: atomic { !NOTHING_LEFT && blocked + 1 < WORKERS -> blocked++; printf("%d runs %d for long\n", _pid, x) };
        atomic { NOTHING_LEFT -> blocked-- }
     :: atomic { true -> skip }
     fi;
     atomic {
       leaves(x);
       alive = alive & ~x;
       x = 0;
       goto looks
     }

  :: atomic { OVER -> goto over }

  :: atomic { !searching -> searching = 1 }; /* nothing found: counts as searching, or forces before it does */
     if
     :: atomic { true -> goto looks }
     :: atomic { private != 0 -> searching = 0 }
     fi

  :: atomic { searching -> parked = parked | (1 << _pid); searching = 0; printf("%d parks\n", _pid) }

  :: atomic { !lock && !want -> want = 1; printf("%d asks\n", _pid); goto looks } /* ask */
  fi;

  atomic { !lock -> want = 1; same_want = same_want | (1 << _pid) }; /* prepare_force */
#if !defined(NO_BARRIER) && !defined(KEEP_WANT)
  atomic { drain(); printf("%d passes the barrier\n", _pid) };
#endif
  if
  :: atomic { private != 0 -> skip } /* has */
  :: atomic { private == 0 && public != 0 -> goto up }
  :: atomic { private == 0 && public == 0 ->
       if
       :: parked & (1 << _pid) -> printf("%d sleeps\n", _pid)
       :: else -> goto up /* unparked, or only forcing */
       fi };
     atomic { !(parked & (1 << _pid)) || OVER -> goto up }
  fi;
  atomic { !lock -> lock = 1 }; /* force */
  atomic {
    if
#ifdef FORCE_ANY
    :: !want -> lock = 0; goto up
#else
    :: !want || !(same_want & (1 << _pid)) -> lock = 0; goto up
#endif
    :: else
    fi
  };
#ifndef NO_BUSY
  atomic { !busy -> skip };
#endif
  atomic { v = private };
  atomic {
    lowest(v, x);
    if
    :: x != 0 ->
       printf("%d forces %d\n", _pid, x);
       private = v & ~x;
       public = public | x;
       want = KEPT;
       if
       :: !KEPT -> same_want = 0
       :: else
       fi;
#ifdef FORCE_SILENT
       if
       :: parked & (1 << _pid) -> searching = 1
       :: else
       fi
#else
       notify()
#endif
    :: else
    fi;
    x = 0;
    v = 0;
    lock = 0
  };
up:
  atomic {
    if
    :: parked & (1 << _pid) -> parked = parked & ~(1 << _pid); searching = 1
    :: else
    fi;
    same_want = same_want & ~(1 << _pid);
    goto looks
  };
over:
  skip
}

init {
  byte i;
  atomic {
    run memory();
    run owner();
    for (i : 1 .. OTHERS) { run other() }
  }
}
