// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// How long operations of a CUDA device's streams take. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <tern/hetero/device/cuda/cuda_api.hpp>
#include <tern/hetero/device/device.hpp>

namespace tern::hetero::detail {

struct cuda_target;

/// Pairs of timed events around operations. A pair costs two calls of the driver, and what is
/// between its events begins when what was in the stream before is over: so a launch has one only
/// if it asks for it, and a copy if its turn has come.
///
/// Guarantees that nothing fails because it could not be timed: there is no time then.
///
/// Threads: as `device`.
class cuda_timer {
public:
  /// Of the copies of one way and order of magnitude, the first ones are timed, then one in
  /// `every`.
  static constexpr std::uint32_t first_copies = 8, every = 16;

  explicit cuda_timer(cuda_target& target) noexcept : target_(target) {}
  ~cuda_timer(); ///< \pre the context is current, if it was opened
  cuda_timer(const cuda_timer&) = delete;
  cuda_timer& operator=(const cuda_timer&) = delete;

  /// Does the driver tell times?
  bool works() const noexcept;
  bool is_turn_of_copy(direction way, std::size_t bytes) noexcept;
  /// \return how long what is in the pair took, in nanoseconds, at least 1; 0: that is not known.
  /// \param pair is forgotten; 0: nothing. \pre what was put into its stream by then is over.
  std::int64_t take(std::uint32_t pair) noexcept;
  /// It is not asked for; it may be under way. 0: nothing.
  void forget(std::uint32_t pair) noexcept;
  /// What the driver has said about the context while something was timed, if that is broken for
  /// good: nothing more is to be put there.
  cu::result trouble() const noexcept { return trouble_; }
  std::size_t in_use() const noexcept { return pairs_.size() - unused_.size(); }

  /// What is put into a stream while it lives. \pre the context is current.
  class span {
  public:
    span(cuda_timer& of, cu::stream in, bool wanted) noexcept
        : of_(of), in_(in), pair_(wanted && of.works() ? of.begin(in) : 0) {}
    ~span() { of_.forget(pair_); }
    span(const span&) = delete;
    span& operator=(const span&) = delete;
    /// \return the pair, which is the caller's to forget; 0: there is none.
    std::uint32_t end() noexcept;

  private:
    cuda_timer& of_;
    const cu::stream in_;
    std::uint32_t pair_;
  };

private:
  struct pair {
    cu::event begin = nullptr, end = nullptr;
  };
  std::uint32_t begin(cu::stream in) noexcept;
  bool went(cu::result r) noexcept;

  cuda_target& target_;
  cu::result trouble_ = cu::success;
  std::vector<pair> pairs_; // by number - 1
  std::vector<std::uint32_t> unused_;
  std::array<std::array<std::uint32_t, 64>, 4> copies_{}; // by way and order of magnitude
};

} // namespace tern::hetero::detail
