// SPDX-License-Identifier: Apache-2.0
/// \file
/// The MPI transport plug-in: compiled once for each MPI found when Tern is built, into a library
/// that exports the table `tern_transport_plugin` and links nothing of Tern. See
/// tern/net/transport_abi.h for the contract, endpoint.hpp for how it is kept.
#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include <sys/time.h>
#include <unistd.h>

#include "endpoint.hpp"

namespace {

// MPI itself is one a process, so is its endpoint. Never destroyed: other threads may call `wake`
// and `give_back` until the process ends. Made before anything of this library can be called, so
// that reaching it costs nothing.
alignas(tern_mpi::endpoint) char memory[sizeof(tern_mpi::endpoint)];
tern_mpi::endpoint& self = *new (memory) tern_mpi::endpoint;

char why[512] = "";

[[gnu::cold]] int remember(const std::exception& e) {
  std::snprintf(why, sizeof why, "%s", e.what());
  return -1;
}

int plugin_init(int* argc, char*** argv, const tern_transport_settings* settings, tern_transport_info* info) {
  try {
    self.init(argc, argv, *settings, *info);
    return 0;
  } catch (const std::exception& e) {
    return remember(e);
  }
}
const char* plugin_last_error() { return why; }
int plugin_send(int destination, const void* head, size_t head_size, const void* body, size_t body_size, void* token,
                uint64_t where, int urgent) {
  try {
    return self.send(destination, head, head_size, body, body_size, token, where, urgent != 0);
  } catch (const std::exception& e) {
    return remember(e);
  }
}
int plugin_receive(tern_transport_arrival* into) {
  try {
    return self.receive(*into);
  } catch (const std::exception& e) {
    return remember(e);
  }
}
int plugin_may_have_input() {
  try {
    return self.may_have_input() ? 1 : 0;
  } catch (const std::exception&) {
    return 1; // `receive` meets the same error and reports it
  }
}
void plugin_give_back(void* slot) { self.give_back(slot); }
void plugin_wait(int64_t at_most_microseconds) { self.wait(at_most_microseconds); }
void plugin_wake() { self.bell.wake(); }
int plugin_finish() {
  try {
    self.finish();
    return 0;
  } catch (const std::exception& e) {
    return remember(e);
  }
}
volatile std::sig_atomic_t code_to_leave_with = 1;
extern "C" void leave_at_once(int) { _exit(code_to_leave_with); }

/// MPICH's MPI_Abort over UCX goes on communicating, without end if another rank no longer does: so
/// only for a moment. A rank that leaves without MPI_Finalize ends the job under both launchers.
void plugin_abort(int code) {
  code_to_leave_with = code;
  std::signal(SIGALRM, leave_at_once);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGALRM);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  const itimerval moment{{0, 0}, {0, 250'000}};
  setitimer(ITIMER_REAL, &moment, nullptr);
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) MPI_Abort(self.heads == MPI_COMM_NULL ? MPI_COMM_WORLD : self.heads, code);
  _exit(code);
}

} // namespace

extern "C" __attribute__((visibility("default"))) const struct tern_transport_plugin tern_transport_plugin = {
    TERN_TRANSPORT_ABI,
#ifdef OPEN_MPI
    "openmpi",
#else
    "mpich",
#endif
    plugin_init,        plugin_last_error, plugin_send, plugin_receive, plugin_may_have_input,
    plugin_give_back,   plugin_wait,       plugin_wake, plugin_finish,  plugin_abort,
};
