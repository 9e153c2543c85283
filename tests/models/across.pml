/* SPDX-License-Identifier: Apache-2.0
 *
 * A task that follows one of another device and is put behind it, tern/hetero/device/worker/across.cpp: F and P are on
 * device 0, where P may be behind F, needs nothing of it, and is done a second time if F fails. S is on device 1: it
 * reads what P writes, by a copy, and changes what it has there. Q is on device 0 again, behind S, and overwrites what
 * the copy reads. Devices do what may be done next, in any order that events leave; workers see ends in any order.
 *
 * - S changes its data once, and with what P wrote.
 * - What the copy reads is not overwritten before it has been read for the last time.
 * - The copy is not made twice at once, and not while S is being done.
 * - All end.
 *
 * Each of these must be found out:
 *   -DNO_EVENT      the copy does not wait for P
 *   -DNO_COPY_ORDER S does not wait for the copy
 *   -DCOPY_ANYWAY   the copy is made though P was not done, and so is S
 *   -DNOT_AGAIN     the copy is not made again
 *   -DENDS_EARLY    the copy counts as over while P has not ended
 *   -DS_AT_ONCE     S is launched again while its copy has not ended
 *   -DQ_ANYWAY      Q is done though S was not
 *   -DNO_HOLD       S is made ready while it is handed over
 */

mtype = { none, put, doing, over, skipped, failed };

mtype f = put, p = none, c = none, s = none, q = none;
mtype p_first = put, c_first = put, s_first = put; /* what became of the first time: what events tell */
bool p_behind, c_behind, s_behind, q_behind; /* in the order of devices: the first time, and not the second */
bool written, read_new, overwritten;
byte s_done;
bool f_end, p_end, c_end, s_end, q_end;
bool handed, s_ready, s_taken; /* S: by the first worker, by nobody, by the second one */
byte p_times, pending = 1; /* S: P */

proctype devices() {
  do
  :: f == put -> atomic { if :: f = over :: f = failed fi }
  :: atomic { p == put && (!p_behind || f == over || f == failed) ->
       if :: p_behind && f == failed -> p = skipped :: else -> written = true; p = over fi;
       if :: p_first == put -> p_first = p :: else -> skip fi }
#ifdef NO_EVENT
  :: atomic { c == put ->
#else
  :: atomic { c == put && (!c_behind || p_first != put) ->
#endif
       if
#ifdef COPY_ANYWAY
       :: c = doing
#else
       :: c_behind && p_first == skipped -> c = skipped; c_first = skipped
       :: else -> c = doing
#endif
       fi }
  :: atomic { c == doing -> assert(!overwritten); read_new = written; c = over;
       if :: c_first == put -> c_first = over :: else -> skip fi }
#ifdef NO_COPY_ORDER
  :: atomic { s == put && (!s_behind || p_first != put) ->
#else
  :: atomic { s == put && (!s_behind || c_first != put) ->
#endif
       if
       :: s_behind && c_first == skipped -> s = skipped; s_first = skipped
       :: else -> assert(read_new && c != doing); s_done++; assert(s_done == 1); s = over;
         if :: s_first == put -> s_first = over :: else -> skip fi
       fi }
  :: atomic { q == put && (!q_behind || s_first != put) ->
       if
#ifndef Q_ANYWAY
       :: q_behind && s_first == skipped -> q = skipped
       :: else ->
#else
       :: true ->
#endif
         assert(c != put && c != doing); overwritten = true; q = over
       fi }
  :: q_end -> break
  od
}

inline release() {
  pending--;
  if
  :: pending == 0 && s == none -> s_ready = true
  :: else -> skip
  fi
}

proctype first() { /* the worker of F, P and Q */
  do
  :: atomic { p == none -> p = put; p_times = 1; if :: p_behind = true :: p_behind = false fi }
  :: atomic { p != none && !p_end && !handed ->
       handed = true;
#ifndef NO_HOLD
       pending++
#endif
     }
  :: atomic { !f_end && (f == over || f == failed) -> f_end = true }
  :: atomic { p == over && !p_end && (f_end || !p_behind) -> p_end = true; release() }
  :: atomic { p == skipped && f_end -> p_behind = false; p_times++; p = put }
  :: atomic { q == none && s != none && !s_end -> q_behind = true; q = put }
  :: atomic { q == none && s_end -> q_behind = false; q = put }
  :: atomic { s_end && q == over && !q_end -> q_end = true }
  :: atomic { s_end && q == skipped -> q_behind = false; q = put }
  :: q_end -> break
  od
}

proctype second() { /* the worker of the copy and S */
  byte at_first = 0;
  do
#ifdef NO_HOLD
  :: atomic { handed && !s_taken && c == none ->
#else
  :: atomic { handed && !s_taken && pending > 1 && c == none ->
#endif
#ifdef NO_HOLD
       assert(!s_ready);
#endif
       s_taken = true;
       at_first = 1;
       c_behind = true; c = put; pending++; /* the copy's */
       s_behind = true; s = put }
  :: atomic { s_taken && at_first == 1 -> at_first = 2; /* the hold */
#ifndef NO_HOLD
       release()
#endif
     }
#ifndef NO_HOLD
  :: atomic { handed && !s_taken && c == none -> s_taken = true; release() } /* refused: when it is ready */
#endif
  :: atomic { s_ready && c == none && s == none -> s_ready = false; s_taken = true;
       c_behind = false; c = put; pending++ }
  :: atomic { s == none && c_end && pending == 0 -> s_behind = false; s = put }
  :: atomic {
#ifndef ENDS_EARLY
       p_end &&
#endif
       (c == over || c == skipped) && !c_end ->
       if
#ifndef NOT_AGAIN
       :: c == skipped -> c_behind = false; c = put
#endif
       :: else -> c_end = true;
         pending--
       fi }
#ifdef S_AT_ONCE
  :: atomic { s == skipped -> s_behind = false; s = put }
#else
  :: atomic { s == skipped && pending == 0 -> s_behind = false; s = put }
#endif
  :: atomic { s == over && !s_end && pending == 0 -> s_end = true }
  :: s_end -> break
  od
}

init {
  atomic {
    run devices();
    run first();
    run second()
  }
}
