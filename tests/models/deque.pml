/* SPDX-License-Identifier: Apache-2.0
 *
 * The split deque, tern/task/tasklet/split_deque.hpp and split_deque.cpp: one owner, THIEVES thieves, each shared access a step of
 * its own. Every task is taken exactly once. The names are those of the C++ code.
 *
 * Memory is that of x86: the owner's plain stores wait in a buffer, in order, until they drain; its compare-and-swaps
 * drain it first, and so does a thief's barrier. Thieves have no plain stores, so they need no buffer.
 *
 * Right as it stands, and also with -DKEEP_WANT: the mode for kernels without a barrier.
 * Each of these must be found out:
 *   -DNO_TAG            the tag does not change: slots that a thief has copied may be stale when its swap succeeds
 *   -DNO_BARRIER        force without the barrier
 *   -DNO_CAS_ON_WANT    the owner pops a private task without changing the word while `want` is set
 *   -DNO_CAS_ON_LAST    the same, only for the last private one, when there is nothing to give
 *   -DFORCE_ANY         force takes the word as it is at the end instead of the one before the barrier
 */

#ifndef TASKS
#define TASKS 4 /* pushed in a run */
#endif
#ifndef THIEVES
#define THIEVES 2
#endif
#ifndef UNPOPS
#define UNPOPS 1
#endif
#ifndef BUFFER
#define BUFFER 3 /* stores that may wait */
#endif
#ifndef CAPACITY
#define CAPACITY 4
#endif
#define INDICES 16 /* 2^16 in the code */
#define FIRST 14   /* so that indices wrap */

#define FORWARD(i, n) (((i) + (n)) % INDICES)
/* As static_cast<std::int16_t>(a - b), and as std::uint16_t. */
#define SIGNED(a, b) ((((a) - (b) + INDICES + INDICES / 2) % INDICES) - INDICES / 2)
#define UNSIGNED(a, b) (((a) - (b) + INDICES) % INDICES)
#define HALF_UP(n) (((n) + 1) / 2)

#ifdef KEEP_WANT
#define KEPT 1
#else
#define KEPT 0
#endif

byte top = FIRST, split = FIRST;
bool want = KEPT;
byte same_tag; /* the tag never comes back, so all that matters of it: bit i, it is still as process i read it */
byte bottom = FIRST;
byte slot[CAPACITY];
chan buffer = [BUFFER] of {byte, byte}; /* place and value; place CAPACITY is `bottom` */
short taken;                            /* bit i: task i */

inline drain_one() {
  buffer?place, value;
  if
  :: place < CAPACITY -> slot[place] = value
  :: else -> bottom = value
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
inline take(t) {
  assert(t != 0);
  assert((taken & (1 << (t))) == 0);
  taken = taken | (1 << (t))
}
inline load_word() {
  vtop = top;
  vsplit = split;
  vwant = want;
  same_tag = same_tag | (1 << _pid)
}
inline forget_word() {
  vtop = 0;
  vsplit = 0;
  vwant = 0;
  same_tag = same_tag & ~(1 << _pid)
}
#define UNCHANGED (top == vtop && split == vsplit && want == vwant && (same_tag & (1 << _pid)))
#ifdef NO_TAG
#define CHANGE_TAG skip
#else
#define CHANGE_TAG same_tag = 0
#endif

proctype memory() {
  byte place, value;
end:
  do
  :: atomic { nempty(buffer) -> drain_one() }
  od
}

proctype owner() {
  byte place, value;
  byte vtop, vsplit;
  bool vwant;
  byte b = FIRST;      /* bottom, as the owner sees it: nobody else writes it */
  byte mine[CAPACITY]; /* the slots likewise */
  byte pushed, unpops, t;
  byte give;
  bool last; /* all was pushed: pop until there is nothing left */

next:
  do
  :: atomic { pushed < TASKS && UNSIGNED(b, top) < CAPACITY -> /* the code's `size() < capacity` reads the word */
       pushed++;
       t = pushed;
       printf("owner pushes %d\n", t)
     };
    push:
     atomic { /* one step only if the buffer has room; nobody sees the difference */
       mine[b % CAPACITY] = t;
       buffer!b % CAPACITY, t;
       t = 0;
       b = FORWARD(b, 1);
       buffer!CAPACITY, b
     };
     atomic {
       if
       :: want && SIGNED(b, split) > 0 -> load_word() /* publish */
       :: true -> goto next
       fi
     };
    publish:
     atomic {
       drain();
       if
       :: UNCHANGED ->
          split = FORWARD(vsplit, HALF_UP(SIGNED(b, vsplit)));
          want = KEPT;
          CHANGE_TAG;
          printf("owner publishes up to %d\n", split)
       :: else ->
          load_word();
          if
          :: SIGNED(b, vsplit) > 0 -> goto publish
          :: else
          fi
       fi;
       forget_word()
     }

  :: atomic { /* pop_fast */
       b = FORWARD(b, INDICES - 1);
       buffer!CAPACITY, b
     };
     atomic {
       t = mine[b % CAPACITY];
       if
       :: SIGNED(b, split) >= 0 && !want -> goto popped
       :: else
       fi
     };
     atomic { load_word() }; /* pop_slow */
    again:
     atomic {
       give = 0;
       if
       :: SIGNED(b + 1, vsplit) > 0 ->
          if
          :: !vwant -> goto popped
          :: else
          fi;
#ifdef NO_CAS_ON_WANT
          goto popped;
#endif
          give = SIGNED(b + 1, vsplit) / 2;
#ifdef NO_CAS_ON_LAST
          if
          :: give == 0 -> goto popped
          :: else
          fi;
#endif
          drain();
          if
          :: UNCHANGED ->
             want = (KEPT || (give == 0 && vsplit == vtop));
             split = FORWARD(vsplit, give);
             CHANGE_TAG;
             goto popped
          :: else -> load_word(); goto again
          fi
       :: else ->
          if
          :: vsplit == vtop -> goto nothing
          :: else
          fi;
          drain();
          if
          :: UNCHANGED ->
             split = FORWARD(vtop, UNSIGNED(vsplit, vtop) / 2);
             if
             :: split == vtop -> want = 1 /* hungry */
             :: want = vwant
             fi;
             CHANGE_TAG;
             goto popped
          :: else -> load_word(); goto again
          fi
       fi
     };
    nothing:
     atomic {
       t = 0; forget_word(); give = 0;
       b = FORWARD(b, 1);
       if
       :: last -> break
       :: else -> buffer!CAPACITY, b
       fi;
       goto next
     };
    popped:
     atomic {
       forget_word(); give = 0;
       if
       :: printf("owner pops %d\n", t); take(t); t = 0
       :: unpops < UNPOPS -> unpops++; printf("owner pops %d and pushes it again\n", t); goto push
       fi
     }

  :: atomic { pushed == TASKS -> last = 1 }
  od;
  assert(taken == (1 << (TASKS + 1)) - 2) /* all of them */
}

proctype thief() {
  byte place, value;
  byte vtop, vsplit;
  bool vwant;
  byte n, copied[2], seen;

end:
  do
  :: atomic { top != split || !want -> load_word() }; /* steal, and ask, which is its first half */
     atomic {
       n = UNSIGNED(vsplit, vtop);
       if
       :: n == 0 ->
          if
          :: !vwant -> want = 1; printf("%d asks\n", _pid)
          :: else
          fi
       :: else -> copied[0] = slot[vtop % CAPACITY]; printf("%d copies %d\n", _pid, copied[0])
       fi
     };
     if
     :: n > 2 -> atomic { copied[1] = slot[(vtop + 1) % CAPACITY] }
     :: else
     fi;
     atomic {
       if
       :: n > 0 && UNCHANGED ->
          top = FORWARD(vtop, HALF_UP(n));
          want = (vwant || n == 1);
          printf("%d steals %d, and %d\n", _pid, copied[0], copied[1]);
          take(copied[0]);
          if
          :: n > 2 -> take(copied[1])
          :: else
          fi
       :: else /* tries again, or gives up */
       fi;
       forget_word(); n = 0; copied[0] = 0; copied[1] = 0
     }

  :: atomic { top == split -> load_word() }; /* prepare_force */
     atomic {
       if
       :: !vwant -> want = 1; load_word(); printf("%d asks and prepares to force\n", _pid)
       :: else
       fi;
       if
       :: vtop != vsplit -> goto over
       :: else
       fi
     };
#if !defined(NO_BARRIER) && !defined(KEEP_WANT)
     atomic { drain(); printf("%d passes the barrier\n", _pid) };
#endif
     atomic { /* force */
       seen = bottom;
       if
       :: SIGNED(seen, vsplit) <= 0 -> goto over
       :: else
       fi
     };
     atomic {
#ifdef FORCE_ANY
       load_word();
#endif
       if
       :: UNCHANGED && SIGNED(seen, vsplit) > 0 ->
          split = FORWARD(vsplit, HALF_UP(SIGNED(seen, vsplit)));
          want = KEPT;
          CHANGE_TAG;
          printf("%d forces up to %d\n", _pid, split)
       :: else
       fi
     };
    over:
     atomic { forget_word(); seen = 0 }
  od
}

init {
  byte i;
  atomic {
    run memory();
    run owner();
    for (i : 1 .. THIEVES) { run thief() }
  }
}
