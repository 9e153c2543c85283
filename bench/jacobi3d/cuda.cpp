// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival with MPI and CUDA, as one first writes it: the field stays on the device; a kernel
/// packs each layer, which is copied into page-locked memory, sent, received, copied to the device,
/// and unpacked by a kernel. All ranks share the first device.
///
/// Where there is no CUDA device, the object that rank 0 prints says "absent", and why.

#include "bench/cuda/gpu.hpp"
#include "bench/harness/contestant.hpp"
#include "bench/jacobi3d/mpi.hpp"

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace {

using namespace tern::bench::jacobi3d;
using tern::bench::cuda::gpu;
namespace cu = tern::bench::cuda::cu;

const char* const text = R"(
extern "C" __global__ void sweep(int nx, int ny, int nz, double alpha, double beta, const double* __restrict__ from,
                                 double* __restrict__ to) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
  if (x >= nx || y >= ny || z >= nz) return;
  const int row = nx + 2, plane = row * (ny + 2);
  const int i = (z + 1) * plane + (y + 1) * row + x + 1;
  to[i] = alpha * from[i] + beta * (((((from[i - 1] + from[i + 1]) + from[i - row]) + from[i + row]) +
                                     from[i - plane]) + from[i + plane]);
}
extern "C" __global__ void pack(int first, int fast, int fast_step, int slow, int slow_step, const double* field,
                                double* layer) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < fast && k < slow) layer[k * fast + i] = field[first + i * fast_step + k * slow_step];
}
extern "C" __global__ void unpack(int first, int fast, int fast_step, int slow, int slow_step, double* field,
                                  const double* layer) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, k = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < fast && k < slow) field[first + i * fast_step + k * slow_step] = layer[k * fast + i];
}
)";

constexpr unsigned wide = 64, tall = 4; // items of a group
unsigned groups(std::int64_t items, unsigned each) { return static_cast<unsigned>((items + each - 1) / each); }

/// A rank's part on the device.
class part {
public:
  /// \throws contest::not_here
  explicit part(const place& here)
      : here_(here), box_(here.mine()), gpu_(tern::bench::cuda::the_gpu()), stream_(gpu_.stream()),
        first_(static_cast<std::size_t>(box_.room())), in_(here.layers()), out_(here.layers()) {
    const std::string exact = "--fmad=false"; // a product and a sum are rounded each by itself, as everywhere here
    sweep_ = gpu_.compile(text, "sweep", {&exact, 1});
    pack_ = gpu_.compile(text, "pack", {&exact, 1});
    unpack_ = gpu_.compile(text, "unpack", {&exact, 1});
    now_ = gpu_.allocate(bytes(first_));
    next_ = gpu_.allocate(bytes(first_));
    for (std::size_t s = 0; s < side_count; ++s) {
      if (out_[s].empty()) continue;
      layer_[s] = gpu_.allocate(bytes(out_[s]));
      for (std::vector<double>* v : {&in_[s], &out_[s]}) gpu_.lock(v->data(), bytes(*v));
    }
    box_.fill(first_.data());
  }

  void reset() {
    write(now_, first_);
    write(next_, first_);
    gpu_.wait(stream_);
  }
  void iterate(std::int64_t iterations) {
    for (std::int64_t k = 0; k < iterations; ++k) iterate();
  }
  std::uint64_t hash() {
    read(now_, first_);
    gpu_.wait(stream_);
    return box_.hash(first_.data());
  }

private:
  static std::size_t bytes(const std::vector<double>& v) { return v.size() * sizeof(double); }
  void write(cu::pointer to, const std::vector<double>& from) {
    gpu_.must(gpu_.api.MemcpyHtoDAsync(to, from.data(), bytes(from), stream_), "copy to the device");
  }
  void read(cu::pointer from, std::vector<double>& to) {
    gpu_.must(gpu_.api.MemcpyDtoHAsync(to.data(), from, bytes(to), stream_), "copy from the device");
  }
  void copy_layer(cu::function how, const layer_place& at, cu::pointer layer) {
    gpu_.launch(how, {{groups(at.fast, wide), groups(at.slow, tall), 1}, {wide, tall, 1}}, stream_, at.first, at.fast,
                at.fast_step, at.slow, at.slow_step, now_, layer);
  }
  void iterate() {
    receives_.clear();
    sends_.clear();
    receives_.reserve(side_count);
    sends_.reserve(side_count);
    here_.receive(in_, receives_);
    for (int s = 0; s < side_count; ++s)
      if (here_.has(s)) {
        copy_layer(pack_, box_.layer(s, 0), layer_[static_cast<std::size_t>(s)]);
        read(layer_[static_cast<std::size_t>(s)], out_[static_cast<std::size_t>(s)]);
      }
    gpu_.wait(stream_);
    for (int s = 0; s < side_count; ++s)
      if (here_.has(s)) here_.send(s, out_[static_cast<std::size_t>(s)], sends_);
    MPI_Waitall(static_cast<int>(receives_.size()), receives_.data(), MPI_STATUSES_IGNORE);
    for (int s = 0; s < side_count; ++s)
      if (here_.has(s)) {
        write(layer_[static_cast<std::size_t>(s)], in_[static_cast<std::size_t>(s)]);
        copy_layer(unpack_, box_.layer(s, 1), layer_[static_cast<std::size_t>(s)]);
      }
    const auto& [nx, ny, nz] = box_.size;
    gpu_.launch(sweep_, {{groups(nx, wide), groups(ny, tall), static_cast<unsigned>(nz)}, {wide, tall, 1}}, stream_,
                static_cast<int>(nx), static_cast<int>(ny), static_cast<int>(nz), double{alpha}, double{beta}, now_,
                next_);
    MPI_Waitall(static_cast<int>(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE);
    gpu_.wait(stream_); // what has been received may be overwritten from here on
    std::swap(now_, next_);
  }

  const place& here_;
  const box box_;
  const gpu& gpu_;
  cu::stream stream_;
  cu::function sweep_ = nullptr, pack_ = nullptr, unpack_ = nullptr;
  cu::pointer now_ = 0, next_ = 0;
  std::array<cu::pointer, side_count> layer_{};
  std::vector<double> first_;
  std::array<std::vector<double>, side_count> in_, out_;
  std::vector<MPI_Request> receives_, sends_;
};

void compute(const job& j) {
  const place here(j.n);
  std::optional<part> mine;
  std::string missing;
  try {
    mine.emplace(here);
  } catch (const tern::bench::contest::not_here& e) {
    missing = e.what();
  }
  if (!here.all(missing.empty())) {
    if (here.is_first()) {
      if (missing.empty()) missing = "a GPU with memory for all ranks";
      std::printf("%s\n", nlohmann::json({{"absent", missing}}).dump().c_str());
    }
    return;
  }
  mine->reset();
  mine->iterate(1); // what is done once is done now
  mine->reset();
  here.barrier();
  const double began = tern::bench::seconds();
  mine->iterate(j.iterations);
  const double taken = tern::bench::seconds() - began;
  here.report(taken, mine->hash());
}

} // namespace

int main(int argc, char** argv) { return mpi_main(argc, argv, true, compute); }
