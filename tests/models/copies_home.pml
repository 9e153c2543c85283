/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host is to read is copied there behind the task that writes it, tern/hetero/device/worker/copies_home.cpp.
 * Task F is in a stream of the device and may fail; W, which writes and perhaps comes later than F, is in another; the
 * host's task H comes after both and reads what W writes, and R after it writes that anew on the device. The device does
 * what is in its streams; the worker gives, sees ends, launches W a second time if it was not done, and begins and ends
 * the copy. What comes behind something that failed or was not done may be done or not. H waits for the ends of F and W
 * and for the copy; R for H and the copy.
 *
 * - H reads what W has written, however often that was launched.
 * - Nothing writes what is being copied, and no copy writes what H reads.
 * - All end.
 *
 * Each of these must be found out:
 *   -DNO_ORDER       the copy is put there with no order behind W
 *   -DENDS_EARLY     it counts as over when the device has done it, whatever has become of W
 *   -DNOT_AGAIN      what was copied while W was not done is taken for what it writes
 *   -DAGAIN_AT_ONCE  it is made again when W is launched again, and not when W has ended
 *   -DTWO_AT_ONCE    it is made again while it is still being made
 *   -DSKIPPED_DONE   a copy that was not done is taken for one that was
 *   -DFREE_READER    H does not wait for the copy
 */

mtype = { none, put, doing, over, skipped, failed };

mtype f = put, w = none, copy = none, r = none; /* on the device */
bool w_behind, copy_behind;                     /* they have an order: the first, and not the second time */
bool w_new, memory_new, host_new;               /* what was written and copied is W's */
bool overwritten;                               /* by R */
bool f_ended, w_ended, h_ended, r_ended, copied; /* as the host sees it */
bool again, begun, h_reads;
byte launches;

proctype device() {
  do
  :: f == put -> atomic { if :: f = over :: f = failed fi }
  :: atomic { w == put && (!w_behind || f == over || f == failed) ->
       if
       :: w_behind && f == failed -> w = skipped
       :: else -> w = doing
       fi }
  :: atomic { w == doing -> assert(copy != doing || again); memory_new = true; w = over }
  :: atomic { copy == put && (!copy_behind || (f != put && (w == over || w == skipped))) ->
       if
       :: copy_behind && (w == skipped || f == failed) -> copy = skipped /* may be, and need not */
       :: assert(!h_reads); copy = doing
       fi }
  :: atomic { copy == doing -> host_new = memory_new && !overwritten; copy = over }
  :: atomic { r == put -> assert(copy != doing && copy != put); overwritten = true; r = over }
  :: r_ended -> break
  od
}

inline begin_copy(is_behind) {
  assert(copy != put && copy != doing);
  copy_behind = is_behind;
  copy = put
}

proctype worker() {
  do
  :: atomic { f != put && !f_ended && w != none -> f_ended = true }
  :: atomic { w == none -> w = put; launches = 1; if :: w_behind = true :: w_behind = false fi }
  /* H is offered: W is in a stream and has not ended. Or it finds what is missing when it is ready. */
  :: atomic { w != none && launches == 1 && !begun && !w_ended && !again ->
       begun = true;
#ifdef NO_ORDER
       begin_copy(false)
#else
       begin_copy(true)
#endif
     }
  :: atomic { f_ended && w_ended && !begun -> begun = true; begin_copy(false) }
  :: atomic { (f_ended || !w_behind) && w == over && !w_ended -> w_ended = true }
  :: atomic { f_ended && w == skipped ->
       if
       :: begun && !copied ->
#ifdef AGAIN_AT_ONCE
         if :: copy == over || copy == skipped -> begin_copy(false) :: else -> again = true fi
#else
#ifndef NOT_AGAIN
         again = true
#else
         skip
#endif
#endif
       :: else -> skip
       fi;
       w_behind = false;
       launches++;
       w = put }
  :: atomic { begun && !copied &&
#ifndef ENDS_EARLY
       f_ended && w_ended &&
#endif
#ifdef TWO_AT_ONCE
       (copy == over || copy == skipped || (again && copy == doing)) ->
#else
       (copy == over || copy == skipped) ->
#endif
       if
#ifdef SKIPPED_DONE
       :: again -> again = false; begin_copy(false)
#else
       :: again || copy == skipped -> again = false; begin_copy(false)
#endif
       :: else -> copied = true
       fi }
  :: atomic { h_ended && copied && r == none -> r = put }
  :: atomic { r == over -> r_ended = true }
  :: r_ended -> break
  od
}

proctype host() {
  atomic {
#ifdef FREE_READER
    f_ended && w_ended ->
#else
    f_ended && w_ended && copied ->
#endif
    h_reads = true;
    assert(host_new)
  }
  h_reads = false;
  h_ended = true
}

init {
  atomic {
    run device();
    run worker();
    run host()
  }
}
