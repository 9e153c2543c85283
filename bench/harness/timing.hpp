// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What programs have in common that are measured, ours and rivals: how ranks are bound, how long
/// they measure, and how two of them repeat an operation.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <sched.h>

namespace tern::bench {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One CPU of each core that this process may use.
inline std::vector<int> cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {};
  std::vector<int> found;
  std::set<std::string> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string siblings;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
    if (!std::getline(file, siblings)) siblings = std::to_string(cpu);
    if (seen.insert(siblings).second) found.push_back(cpu);
  }
  return found;
}

/// Binds a rank that an MPI launcher started to a core of its own, and both sides in the same way:
/// the launchers' own flags differ, and refuse more than they bind on some virtual machines.
/// \return whether there was such a launcher.
inline bool bind_to_core() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_RANK"}) {
    const char* text = std::getenv(name);
    if (!text) continue;
    const auto all = cores();
    const auto rank = static_cast<std::size_t>(std::atoi(text));
    if (rank >= all.size()) throw std::runtime_error("not enough cores for rank " + std::string(text));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(all[rank], &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0)
      throw std::runtime_error("cannot bind to CPU " + std::to_string(all[rank]) + ": " + std::strerror(errno));
    return true;
  }
  return false;
}

/// "8,64,1024"
inline std::vector<std::size_t> list_of(const std::string& text) {
  std::vector<std::size_t> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    found.push_back(std::stoull(text.substr(at, end - at)));
    at = end + 1;
  }
  return found;
}

/// Seconds for one item: the median over batches. `batch(n)` does n items and gives the seconds
/// they took; n is such that a batch takes at least `shortest`. A third of `most` is warm-up.
template <class Batch> double per_item(double most, double shortest, long least, Batch batch) {
  long n = least;
  const double began = seconds();
  do {
    if (batch(n) < shortest) n *= 2;
  } while (seconds() < began + most / 3);
  std::vector<double> found;
  do {
    found.push_back(batch(n) / static_cast<double>(n));
  } while (seconds() < began + most || found.size() < 5);
  std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(found.size() / 2), found.end());
  return found[found.size() / 2];
}

constexpr double latency_batch = 0.25e-3; // seconds

/// Does `once(i)` n times for i = 0, 1, …. \return seconds.
template <class Once> double timed(long n, Once once) {
  const double began = seconds();
  for (long i = 0; i < n; ++i) once(i);
  return seconds() - began;
}

/// On rank 0 microseconds for one time of what `repeat(n)` does n times on all ranks, and measures;
/// 0 elsewhere. `tell(n)` gives rank 0's number to all.
template <class Tell, class Repeat> double measured(int rank, double most, Tell tell, Repeat repeat) {
  if (rank == 0) {
    const auto batch = [&](long n) {
      tell(n);
      return repeat(n);
    };
    const double each = per_item(most, latency_batch, 1, batch);
    tell(0L);
    return each * 1e6;
  }
  while (const long n = tell(0L)) repeat(n);
  return 0;
}

inline void check(bool right, const char* what) {
  if (!right) throw std::runtime_error(std::string(what) + " brought something else");
}

} // namespace tern::bench
