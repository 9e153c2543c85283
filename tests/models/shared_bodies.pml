/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks that other processes use in place: tern/net/memory/shared_memory.hpp. One process sends, RECEIVERS receive.
 * There are BLOCKS blocks; the sender takes MESSAGES of them, one after the other or several at once, writes into each,
 * sends it to some receivers, and lets it go. Two of its threads do so. A receiver uses what it has got for as long as
 * it likes, and may write to it if it was sent to that one only and moved. The names are those of the C++ code.
 *
 * - No block is given out while a receiver has it, or twice at once.
 * - What a receiver has is what was written for its message.
 * - At the end all blocks are free or back.
 *
 * Right as it stands. Each of these must be found out:
 *   -DLENT_AFTER    the holder is counted after the message was published
 *   -DNO_LOOK       a block that has gone here is free, whoever still has it
 *   -DONE_FLAG      one flag instead of a count: the first receiver that gives it back frees it
 *   -DLOOK_EARLY    the pool looks before the last share here has gone
 */

#define BLOCKS 2
#define MESSAGES 2 /* of each thread */
#define RECEIVERS 2
#define NONE 15

byte holders[BLOCKS];
byte content[BLOCKS]; /* the message that it was written for */
bool out[BLOCKS];     /* given out, and not let go here */
bool later[BLOCKS];   /* gone here, has holders */
byte having[BLOCKS];  /* by receivers, that is to say really */
chan ring[RECEIVERS] = [4] of { byte, byte, bool }; /* block, message, exclusive */
byte ended;

inline give_back(b) {
#ifdef ONE_FLAG
  atomic { having[b]--; holders[b] = 0 }
#else
  atomic { having[b]--; holders[b]-- }
#endif
}

inline lend(b) { holders[b]++ }

inline publish(to, b, n, own) {
#ifdef LENT_AFTER
  ring[to]!b, n, own; lend(b)
#else
  lend(b); ring[to]!b, n, own
#endif
}

/* take_back, whose lock is a step */
inline let_go(b) {
#ifdef NO_LOOK
  atomic { out[b] = false; later[b] = false }
#else
#ifdef LOOK_EARLY
  atomic { later[b] = !early; out[b] = false }
#else
  byte seen = holders[b];
  atomic { later[b] = (seen != 0); out[b] = false }
#endif
#endif
}

/* take */
inline take(b) {
  do
  :: atomic { !out[0] && (!later[0] || holders[0] == 0) -> b = 0; later[0] = false; out[0] = true; break }
  :: atomic { !out[1] && (!later[1] || holders[1] == 0) -> b = 1; later[1] = false; out[1] = true; break }
  od;
  assert(having[b] == 0)
}

proctype sender(byte first) {
  byte n = 0, b;
  bool early = false;
  do
  :: n < MESSAGES ->
    take(b);
    content[b] = first + n;
    if
    :: early = (holders[b] == 0); publish(0, b, first + n, true)
    :: early = (holders[b] == 0); publish(1, b, first + n, true)
    :: early = (holders[b] == 0); publish(0, b, first + n, false); publish(1, b, first + n, false)
    fi;
    assert(out[b]);
    let_go(b);
    n++
  :: else -> break
  od;
  ended++
}

proctype receiver(byte me) {
  byte b, n;
  bool own;
end:
  do
  :: atomic { ring[me]?b, n, own -> having[b]++ };
    assert(content[b] == n);
    if
    :: own -> content[b] = 100 + n; assert(content[b] == 100 + n)
    :: else -> assert(content[b] == n)
    fi;
    give_back(b)
  od
}

init {
  atomic { run sender(0); run sender(50); run receiver(0); run receiver(1) }
  ended == 2 && empty(ring[0]) && empty(ring[1]) && having[0] == 0 && having[1] == 0;
  assert(holders[0] == 0 && holders[1] == 0)
}
