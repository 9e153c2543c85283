// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the files of the plug-in share: its errors and the numbers that all ranks agree on.
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace tern_mpi {

/// What the table's functions turn into -1 and `last_error`.
struct failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline std::string error_text(int rc) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(rc, text, &length) != MPI_SUCCESS) std::snprintf(text, sizeof text, "error %d", rc);
  for (char* c = text; *c; ++c)
    if (*c == '\n') *c = ' ';
  return text;
}

[[noreturn, gnu::cold]] inline void raise(int rc, const char* what) {
  throw failure(std::string(what) + ": " + error_text(rc));
}

inline void check(int rc, const char* what) {
  if (rc != MPI_SUCCESS) [[unlikely]]
    raise(rc, what);
}

[[gnu::cold]] inline failure broken(int source, const std::string& what) {
  return failure("rank " + std::to_string(source) + " sent " + what + "; do all ranks run the same version of Tern?");
}

/// The most bytes of a head, or fewer, as a host's rings allow: eager under both MPIs (Open MPI's
/// limit is raised to 17000 before MPI_Init), so that a receive that matched is complete.
constexpr std::size_t head_limit = 8192;

/// Bodies above this many bytes travel in pieces: MPI-3's counts are int.
constexpr std::size_t largest_fragment = std::size_t{1} << 30;

/// Follows the head, within one MPI message, if the message has a body. Behind it and not before
/// it, so that every head begins where its slot does.
struct trailer {
  std::uint64_t body_size;
  std::uint64_t fragment; // of the sender: where it cuts the body
};

/// The same for a head in a ring; how the body comes is in the upper two bits of the first word.
struct ring_trailer {
  static constexpr std::uint64_t by_mpi = 0;     // `where`: the sender's fragment
  static constexpr std::uint64_t in_ring = 1;    // in the records that follow
  static constexpr std::uint64_t to_be_read = 2; // `where`: its address in the sender's memory
  static constexpr std::uint64_t shared = 3;     // `where`: its place in the sender's segment
  static constexpr int shift = 62;
  static constexpr ring_trailer of(std::uint64_t how, std::uint64_t body_size, std::uint64_t where) {
    return {body_size | how << shift, where};
  }
  constexpr std::uint64_t how() const { return word >> shift; }
  constexpr std::uint64_t body_size() const { return word & ((std::uint64_t{1} << shift) - 1); }

  std::uint64_t word, where;
};

/// A head's MPI tag: the credits that the sender returns to the receiver, and what the message is.
constexpr int credit_bits = 0x3ff, has_body = 0x400, only_credits = 0x800;

/// Messages of one sender that a receiver has space for, and how many of them are kept for urgent
/// ones. Under MPICH one receiver has 64 places for arriving messages in all, and frees 32 at a
/// time. A sender that finds none waits.
#ifdef OPEN_MPI
constexpr int all_credits = 64;
#else
constexpr int all_credits = 32;
#endif
constexpr int urgent_credits = 8;
static_assert(all_credits <= credit_bits);
/// So many are owed before they are returned by a message of their own. A sender that is refused
/// has used more.
constexpr int most_owed = all_credits / 2;
static_assert(most_owed <= all_credits - urgent_credits);

} // namespace tern_mpi
