/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of memory that processes share, of which bodies of messages are: docs/decisions/0072,
 * tern/net/memory/shared_memory.hpp. The names are those of the C++ code. One block of the sender's, which is taken
 * LIVES times, each time written with a new content and sent up to SENDS times, some of which are not carried after all
 * (`unlend`). The sender lets it go at any moment after that. Two receivers take messages, read the block, as long as they
 * like, and give it back. With DIES one receiver dies at any moment.
 *
 * What the processes share of the block is `holders`. The sender adds before it publishes, with a relaxed
 * read-modify-write; a receiver subtracts with release; the sender's pool looks with acquire. The model's memory is
 * sequentially consistent, but that a receiver's reads, of which there are several, and its subtraction are steps of
 * their own, as are the sender's writes.
 *
 *   A  Nothing writes to the block while a receiver reads it, and each reads what was sent. (Assertions.)
 *   B  When all has come back the block is taken again: none is lost. (The end.)
 *   C  There are never fewer holders than messages that have not been given back. (Assertion.)
 *   D  The sender waits for no receiver: it ends, also if one dies and gives nothing back.
 *
 * Each of these must be found out; the letter is the invariant that it breaks:
 *   -DLEND_LATE     C  the sender adds when it has published
 *   -DFREE_EARLY    A  the block that was let go is free, whatever `holders` is
 *   -DBACK_EARLY    A  a receiver gives back before it has read the last of it
 *   -DBACK_TWICE    C  it gives back each buffer of one message
 *   -DKEEPS_LENT    B  what was not carried stays counted
 *   -DNO_SECOND     B  a lent block is looked at once only
 *   -DWAITS         D  the sender waits until its block is back (with DIES)
 */

#ifndef LIVES
#define LIVES 2
#endif
#ifndef SENDS
#define SENDS 2
#endif

byte holders, content, sent_content;
chan ring[2] = [SENDS] of { byte }; /* to each receiver: the content that was sent */
bool writing, over, dead[2];
byte reading, under_way; /* receivers that read; messages published and not given back */
byte taken;              /* times that the block was taken */

inline publish(to) {
  ring[to]!content;
  under_way++
}

active proctype sender() {
  byte n, to;
  bool looked, free = true;
  do
  :: taken < LIVES && free ->
     atomic { free = false; taken++; writing = true; assert(reading == 0) }; /* A */
     atomic { content++; writing = false };
     n = 0;
     do
     :: n < SENDS ->
        n++;
        if
        :: to = 0
        :: to = 1
        fi;
#ifdef LEND_LATE
        atomic { publish(to) };
        holders++
#else
        holders++; /* `lend` */
        if
        :: atomic { publish(to) }
#ifdef KEEPS_LENT
        :: skip
#else
        :: holders-- /* `unlend`: there was no space in the ring */
#endif
        fi
#endif
     :: break
     od;
     /* The last buffer here goes. */
#ifdef FREE_EARLY
     free = true
#else
     looked = false
#endif
#ifdef WAITS
     ; holders == 0; free = true
#endif
  :: taken < LIVES && !free ->
     /* Another block of its size is wanted: `find_back` looks, or takes other memory and goes on. */
     if
     :: atomic { holders == 0 && !looked -> free = true }
     :: atomic { holders > 0 -> skip };
#ifdef NO_SECOND
        looked = true
#endif
     :: else
     fi;
     if
     :: atomic { !free && (dead[0] || dead[1]) -> break } /* it does without, for good */
     :: else
     fi
#ifdef NO_SECOND
  :: atomic { looked && !free && holders == 0 -> assert(false) } /* B: it is back, and nothing finds it */
#endif
  :: taken == LIVES -> break
  od;
  over = true;
end_all:
  atomic { (under_way == 0 && len(ring[0]) + len(ring[1]) == 0) || dead[0] || dead[1] };
  assert(dead[0] || dead[1] || holders == 0) /* B */
}

active [2] proctype receiver() {
  byte me = _pid - 1, what;
  bool has;
end_wait:
  do
  :: atomic { !has && len(ring[me]) > 0 ->
       ring[me]?what;
       has = true;
       reading++;
       assert(content == what && !writing) /* A */ }
  :: atomic { has -> assert(content == what && !writing) }; /* A: it reads on */
     if
     :: skip /* the handler has not returned, or has kept it */
     :: skip;
#ifdef BACK_EARLY
        atomic { holders--; under_way-- };
        atomic { assert(content == what && !writing); reading--; has = false }
#else
        atomic { assert(content == what && !writing); reading--; has = false };
        atomic {
          assert(holders > 0); /* C */
          holders--;
          under_way--
        }
#ifdef BACK_TWICE
        ;
        atomic { assert(holders > 0); holders-- }
#endif
#endif
     fi
#ifdef DIES
  :: atomic { me == 0 && !dead[0] -> dead[0] = true;
       if
       :: has -> reading--
       :: else
       fi };
     break
#endif
  od
}
