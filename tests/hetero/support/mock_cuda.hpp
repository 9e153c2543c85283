// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What tests can say to the mock CUDA driver, and ask of it, beside CUDA's own functions. Found
/// with dlsym in the library that they opened as the driver.
///
/// Its behaviour is a text of words between commas, given to `tern_mock_cuda_configure` or, until
/// that is called, in the environment variable TERN_MOCK_CUDA:
///   devices=2            how many there are (1)
///   memory=1G            bytes of each, with k, M, G (1G)
///   seed=7               of all that is left to chance: which operations are done when, in which order items run (1)
///   delay=20us           no operation is done sooner after it was given, with ns, us, ms, s (0)
///   capability=90        of all devices (90)
///   driver=13000         the version of CUDA that the driver says it is for (13000)
///   mode=exclusive, mode=prohibited   how the devices may be used
///   fail-alloc=N         the Nth allocation fails: out of memory (2)
///   fail-copy=N          the Nth copy fails: out of memory (2)
///   fail-launch=N        the Nth launch fails: out of resources (701)
///   fail-graph=N         the Nth graph cannot be made executable: out of memory (2)
///   fault-kernel=N       the Nth kernel that runs touches an illegal address (700): the device's context is lost
///   lose=N               the Nth operation that is done meets an uncorrectable error (214): so it is too
///   fail-context         no context can be had: out of memory (2)
///   no-init              cuInit says that there is no device (100)
///   no-peers             no device reaches another's memory
///   call=1us, start=5us, kernel=10us, bandwidth=16G   a virtual clock: what each call of the driver takes, a launch or
///                        copy until it begins, a kernel, and bytes a second of a copy. Then the host sees an end only
///                        when its own clock, which goes on with each call, has come there (0: there is no clock)
///   memlock=1M           more of the host's memory cannot be registered: out of memory (2)
///   most-items=512       of a group of kernels without launch bounds: they have so many registers (1024)
///   sticky               what breaks a context breaks those that come later in the process, too
///   by-itself            operations go on with every call, not only with questions, as a device's do while the host
///                        has other things to do
///   quiet                misuse is told only on request, and does not make the process fail
///   lenient              calls that can go on in spite of misuse do, and return success
/// Memory of devices cannot be accessed but by copies and kernels: a device's address that the host
/// uses ends the process with a line that says so, as does a kernel that goes beyond a block; a
/// host's address as a kernel's parameter is refused.
/// A driver that has no graphs is the library `mock_cuda_without_graphs`: the same, but it lacks
/// their functions. Any other word ends the process with a message.

#include <cstdint>

extern "C" {

/// Counted since the last configuration; `live_…` is what is there now.
struct tern_mock_counters {
  std::uint64_t calls;            ///< of the driver, all
  std::uint64_t contexts_created; ///< primary contexts
  std::uint64_t set_currents;     ///< cuCtxSetCurrent
  std::uint64_t allocs, frees;    ///< that succeeded
  std::uint64_t registers, unregisters;
  std::uint64_t copies, copies_to_device, copies_from_device, copies_within, copies_between,
      copied_bytes;              ///< given to streams
  std::uint64_t pageable_copies; ///< of them those whose host memory is not registered
  std::uint64_t launches;        ///< cuLaunchKernel
  std::uint64_t event_queries, event_records, stream_waits, stream_queries;
  std::uint64_t synchronizes; ///< of streams and events
  std::uint64_t on_fibers;    ///< cuInit, contexts and modules: calls that were not on a thread's own stack
  std::uint64_t modules_loaded, graph_launches, graph_updates;
  std::uint64_t kernels_done, operations_done; ///< performed so far; operations: kernels and copies, also of graphs
  std::uint64_t live_contexts, live_streams, live_events, live_modules, live_graphs, live_registrations;
  std::uint64_t live_allocations, live_bytes; ///< of device memory
  std::uint64_t pending;                      ///< operations in streams that are not done
  std::uint64_t misuses;                      ///< not forgotten ones
};

/// Resets everything, also what is alive, and behaves as the text says. Null or "": as usual.
void tern_mock_cuda_configure(const char* text);
void tern_mock_cuda_counters(tern_mock_counters* to);
/// Texts of what was used wrongly so far, a line each; "" if nothing was. Valid until the thread's
/// next call of it.
const char* tern_mock_cuda_misuse(void);
void tern_mock_cuda_forget_misuse(void);
/// How often the function was called, "cuLaunchKernel".
std::uint64_t tern_mock_cuda_calls(const char* name);
/// The virtual clock of the host, in nanoseconds; 0 if there is none.
std::int64_t tern_mock_cuda_clock(void);
/// The module, by its handle, is a library's, which keeps it until the context goes: it is no leak.
void tern_mock_cuda_keep(std::uint64_t module);
}
