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
 * Threads. Every function but `wake` is called by one thread only, the *owner*: the one that called `init`.
 * Every int-returning function returns 0 for success; otherwise it writes one line for the user into `error`.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TERN_TRANSPORT_ABI = 1 };

struct tern_transport_info {
  int rank, size;           /* of this process in the job */
  int host_rank, host_size; /* among the job's processes on the same host */
  char library[256];        /* name and version of the network library, one line */
  char threads[32];         /* the thread level in force: "single", "funneled", … */
};

/** How a plug-in hands things to the core; `context` is passed back unchanged. Called only from within `poll`/`finish`.
 */
struct tern_transport_sink {
  void* context;
  /** Memory for an arriving message of `size` bytes; null means out of memory. Owned by the core from `deliver` on. */
  void* (*allocate)(void* context, size_t size);
  /** A whole message from `source` is in `data`. Messages of one source are delivered in the order sent. */
  void (*deliver)(void* context, int source, void* data, size_t size);
  /** The send that was given `token` needs its memory no more. */
  void (*sent)(void* context, void* token);
};

struct tern_transport_plugin {
  uint32_t abi;     /* TERN_TRANSPORT_ABI */
  const char* name; /* "openmpi", "mpich" */
  /** Initialises the network library unless the application has. `multithreaded`: the rank has more threads than the
   *  owner (they never call the library). `fragment`: messages above this many bytes travel in pieces. */
  int (*init)(int* argc, char*** argv, int multithreaded, size_t fragment, struct tern_transport_info* info,
              char* error, size_t error_size);
  /** Starts sending; `data` stays valid and unchanged until `sent(token)`. Never blocks on the receiver.
   *  `destination` is never the own rank. Rings the destination's doorbell if it sleeps on this host. */
  int (*send)(int destination, const void* data, size_t size, void* token, char* error, size_t error_size);
  /** Makes progress and delivers what has arrived, at most a bounded number of messages; `*events` counts deliveries
   * and completed sends. Never blocks. */
  int (*poll)(const struct tern_transport_sink* sink, size_t* events, char* error, size_t error_size);
  /** The owner has nothing to do: sleep until a message may have arrived, `wake` was called, or the time is over.
   * Returns at once if `wake` was called since the last `wait` returned. An idle process must not burn its core. */
  void (*wait)(int64_t at_most_microseconds);
  /** Ends a present or the next `wait` of this process. Any thread; async-signal-safe; cheap when the owner is awake.
   */
  void (*wake)(void);
  /** Collective. Completes all sends, meets all ranks, releases everything; finalises the library only if `init` did.
   */
  int (*finish)(const struct tern_transport_sink* sink, char* error, size_t error_size);
  /** Ends all ranks of the job with this exit code. Does not return. Any thread that may call the library. */
  void (*abort)(int code);
};

#ifdef __cplusplus
}
#endif
#endif
