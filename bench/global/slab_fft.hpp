// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A Fourier transform of a cube that is distributed by slabs, on tern::alltoall: for a test and a
/// benchmark. Include it where FFTW is.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fftw3.h>

#include <tern/global/alltoall.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/net/communicator.hpp>

namespace tern::bench {

/// Complex numbers of n³ points, n / P planes on each of P ranks: [z][y][x], each two floats.
/// `forward` leaves [z][y][x] with all z, and n / P of y. One fiber a rank.
class slab_fft {
public:
  /// \param planning FFTW_ESTIMATE or FFTW_MEASURE, which writes to both.
  slab_fft(communicator ranks, int n, unsigned planning = FFTW_ESTIMATE)
      : ranks_(std::move(ranks)), n_(n), mine_(n / ranks_.size()), planes_(numbers()), rows_(numbers()),
        packed_(numbers()) {
    if (n % ranks_.size() != 0) throw std::runtime_error("slab_fft: the ranks do not divide the cube");
    const auto in = planes_.host(access_mode::write).get(), out = rows_.host(access_mode::write).get();
    auto* const p = reinterpret_cast<fftwf_complex*>(in.data());
    auto* const r = reinterpret_cast<fftwf_complex*>(out.data());
    const int square[2] = {n, n};
    const int column[1] = {n}, across = mine_ * n;
    const std::lock_guard hold(planner()); // FFTW's is one for the process
    for (const int way : {FFTW_FORWARD, FFTW_BACKWARD}) {
      const std::size_t i = way == FFTW_FORWARD ? 0 : 1;
      in_planes_[i] = fftwf_plan_many_dft(2, square, mine_, p, nullptr, 1, n * n, p, nullptr, 1, n * n, way, planning);
      along_z_[i] = fftwf_plan_many_dft(1, column, across, r, nullptr, across, 1, r, nullptr, across, 1, way, planning);
      if (!in_planes_[i] || !along_z_[i]) throw std::runtime_error("slab_fft: FFTW has no plan");
    }
  }
  ~slab_fft() {
    const std::lock_guard hold(planner());
    for (const std::size_t i : {0u, 1u}) {
      fftwf_destroy_plan(in_planes_[i]);
      fftwf_destroy_plan(along_z_[i]);
    }
  }
  slab_fft(const slab_fft&) = delete;
  slab_fft& operator=(const slab_fft&) = delete;

  /// Before `forward` and after `backward`: [n / P][n][n].
  const hetero_object<float>& planes() const noexcept { return planes_; }
  /// After `forward` and before `backward`: [n][n / P][n].
  const hetero_object<float>& rows() const noexcept { return rows_; }
  int first_plane() const { return ranks_.rank() * mine_; }
  int my_planes() const noexcept { return mine_; }

  void forward(std::string_view codec) {
    {
      const auto v = planes_.host(access_mode::read_write).get();
      const auto to = packed_.host(access_mode::write).get();
      auto* const p = reinterpret_cast<fftwf_complex*>(v.data());
      fftwf_execute_dft(in_planes_[0], p, p);
      move_blocks(v.data(), to.data(), true);
    }
    alltoall(ranks_, packed_, rows_, codec);
    const auto v = rows_.host(access_mode::read_write).get();
    auto* const r = reinterpret_cast<fftwf_complex*>(v.data());
    fftwf_execute_dft(along_z_[0], r, r);
  }
  /// Not scaled: everything is n³ times what it was.
  void backward(std::string_view codec) {
    {
      const auto v = rows_.host(access_mode::read_write).get();
      auto* const r = reinterpret_cast<fftwf_complex*>(v.data());
      fftwf_execute_dft(along_z_[1], r, r);
    }
    alltoall(ranks_, rows_, packed_, codec);
    const auto v = planes_.host(access_mode::write).get();
    const auto from = packed_.host(access_mode::read).get();
    move_blocks(v.data(), from.data(), false);
    auto* const p = reinterpret_cast<fftwf_complex*>(v.data());
    fftwf_execute_dft(in_planes_[1], p, p);
  }

private:
  std::int64_t numbers() const { return 2 * std::int64_t{n_} * n_ * mine_; }
  static std::mutex& planner() {
    static std::mutex one;
    return one;
  }
  /// Between planes and blocks for each rank, [rank][z][y of the rank][x].
  void move_blocks(float* planes, float* blocks, bool to_blocks) const {
    const std::size_t n = static_cast<std::size_t>(n_), m = static_cast<std::size_t>(mine_), run = 2 * n * m;
    for (std::size_t q = 0; q < n / m; ++q)
      for (std::size_t z = 0; z < m; ++z) {
        float* const plane = planes + 2 * n * (z * n + q * m);
        float* const block = blocks + run * (q * m + z);
        if (to_blocks)
          std::memcpy(block, plane, run * sizeof(float));
        else
          std::memcpy(plane, block, run * sizeof(float));
      }
  }

  const communicator ranks_;
  const int n_, mine_;
  hetero_object<float> planes_, rows_, packed_;
  fftwf_plan in_planes_[2] = {}, along_z_[2] = {};
};

} // namespace tern::bench
