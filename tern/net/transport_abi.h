/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TERN_NET_TRANSPORT_ABI_H
#define TERN_NET_TRANSPORT_ABI_H
/**
 * \file
 * The C table that a transport plug-in exports as `tern_transport_plugin` (a `const struct tern_transport_plugin`).
 *
 * A plug-in links its own network library (an MPI) and nothing of Tern; the core opens it with dlopen when the program
 * starts, so that neither the core nor the application links any MPI and one binary runs with none or with either.
 *
 * Threads. Every function but `wake` and `give_back` is called by one thread only, the *owner*: the one that called
 * `init`.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TERN_TRANSPORT_ABI = 8 };

struct tern_transport_info {
  int rank, size;           /* of this process in the job */
  int host_rank, host_size; /* among the job's processes on the same host */
  int sharer_rank, sharers; /* among those of them that may run on a CPU of this one's */
  size_t head_limit;        /* the most bytes of a head */
  char library[256];        /* name and version of the network library, one line */
  char threads[32];         /* the thread level in force: "single", "funneled", … */
  int rings;                /* small messages between the ranks of this host go through rings in shared memory */
  int reads;                /* and large ones are read out of the sender's memory */
  int shares;               /* and those that lie in a segment are used where they are */
  void* notes; /* 56 bytes for each rank of this host, by host_rank: shared by them, zero at first, until the process
                  ends; aligned to 8 bytes; null: they share none */
  size_t notes_stride; /* bytes from one rank's to the next */
};

/** What `init` is told. */
struct tern_transport_settings {
  int multithreaded; /* the rank has more threads than the owner (they never call the library) */
  int preallocate;   /* 0: no receives posted in advance, no pooled memory: to show what they are good for */
  int rings; /* what ranks of one host may send each other without the library, if there is preallocation: 0: nothing;
                1: heads; 2: also bodies that fit through shared memory; 3: also others, which the receiver reads, and
                those that cost less so; 4: the receiver reads all but small ones, whatever it costs; 5: as 3, but a
                body in the sender's segment stays there, and the receiver uses it in place */
  size_t fragment; /* bodies above this many bytes travel in pieces; 0: the plug-in's choice */
  void* context;   /* handed to `land` */
  /** Memory for the body of a message of which the head has arrived; null means out of memory. Called within `receive`;
   *  must not call the plug-in. */
  void* (*land)(void* context, int source, const void* head, size_t head_size, size_t body_size);
  /** The file of this process's segment, which others of its host may map; -1: there is none yet. Within `send`. */
  int (*segment)(void* context);
  /** Maps the segment of another rank: `file` of a process. \return whether it could. Within `receive`. */
  int (*map)(void* context, int source, int process, int file);
};

/** What `receive` gives. */
enum { TERN_TRANSPORT_NOTHING = 0, TERN_TRANSPORT_MESSAGE = 1, TERN_TRANSPORT_SENT = 2 };
struct tern_transport_arrival {
  int source; /* of a message */
  void* head; /* the plug-in's memory, until `give_back(slot)`; aligned to 16 bytes */
  size_t head_size;
  void* slot; /* for `give_back`; the same address as `head`, even of an empty one */
  void* body; /* what `land` gave, filled; null if the message has none, or if it lies in the source's segment */
  size_t body_size;
  uint64_t where; /* there; what `send` was told */
  void* token;    /* of a message that was sent: its body's memory is needed no more */
};

struct tern_transport_plugin {
  uint32_t abi;     /* TERN_TRANSPORT_ABI */
  const char* name; /* "openmpi", "mpich" */
  /** Initialises the network library unless the application has. \return 0, or -1: see `last_error`. */
  int (*init)(int* argc, char*** argv, const struct tern_transport_settings* settings,
              struct tern_transport_info* info);
  /** Why the last call that failed did: one line for the user. */
  const char* (*last_error)(void);
  /** Sends a message. `head` is copied before this returns; a `body` (null: none) stays valid and unchanged until
   *  `receive` gives `token` back. Messages to one destination arrive in the order of these calls. Never blocks on the
   *  receiver. `destination` is never the own rank. Rings the destination's doorbell if it sleeps on this host.
   *  `where`: the body is in the segment, and may stay there for the receiver; 0: not so.
   *  \return 1 if sent; 2 if also `body` is needed no more, so that no token comes; 3: the same, and the receiver uses
   *  it where it is; 0 if the receiver has no space for
   *  it (`urgent` may use the space kept for that); -1 for an error. */
  int (*send)(int destination, const void* head, size_t head_size, const void* body, size_t body_size, void* token,
              uint64_t where, int urgent);
  /** Makes progress and gives one thing that has happened. Never blocks. \return a TERN_TRANSPORT_… or -1. */
  int (*receive)(struct tern_transport_arrival* into);
  /** May `receive` have a message to give? Looks, and takes nothing. \return 0 if there was none. */
  int (*may_have_input)(void);
  /** The head's memory is needed no more. Any thread. */
  void (*give_back)(void* slot);
  /** The owner has nothing to do: sleep until a message may have arrived or may have space, `wake` was called, or the
   *  time is over. Returns at once if `wake` was called since the last `wait` returned. An idle process must not burn
   *  its core. */
  void (*wait)(int64_t at_most_microseconds);
  /** Ends a present or the next `wait` of this process. Any thread; async-signal-safe; cheap when the owner is awake.
   */
  void (*wake)(void);
  /** Collective. Completes all sends, meets all ranks, releases everything; finalises the library only if `init` did.
   *  Calls of `receive` must have given all tokens back before, or their memory must outlive this call. */
  int (*finish)(void);
  /** Ends all ranks of the job with this exit code. Does not return. Any thread that may call the library. */
  void (*abort)(int code);
};

#ifdef __cplusplus
}
#endif
#endif
