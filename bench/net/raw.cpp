// SPDX-License-Identifier: Apache-2.0
/// \file
/// The rival: the loops of `bench_net_tern` as one writes them in MPI, compiled once for each MPI.
///
///     bench_net_mpi_X LEVEL latency SIZE,… SECONDS      microseconds for half a round trip, for each size
///     bench_net_mpi_X LEVEL bandwidth SIZE,… SECONDS    GB/s, for each size
///     bench_net_mpi_X LEVEL stream SECONDS              millions of 8-byte messages a second
///
/// LEVEL: single, funneled, serialized or multiple. SECONDS: for each size. Rank 0 prints one JSON
/// object.

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/net/contestant.hpp"

namespace {

using namespace tern::bench;
using namespace tern::bench::net;

enum kind : long { latency, bandwidth, stream, whole, end };
constexpr int data_tag = 1, order_tag = 2, done_tag = 3;

/// What rank 0 has rank 1 do next.
struct order {
  long what, count, size;
};

class rank_pair {
public:
  double run(const order& o) {
    prepare(o);
    MPI_Send(&o, sizeof o, MPI_BYTE, 1, order_tag, MPI_COMM_WORLD);
    const double began = seconds();
    if (o.what == latency)
      ping(o);
    else if (o.what == bandwidth)
      push(o);
    else if (o.what == stream)
      pour(o);
    else if (o.what == whole)
      to_and_fro(o);
    return seconds() - began;
  }

  void serve() {
    for (;;) {
      order o{};
      MPI_Recv(&o, sizeof o, MPI_BYTE, 0, order_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (o.what == end) return;
      prepare(o);
      if (o.what == latency)
        pong(o);
      else if (o.what == bandwidth)
        pull(o);
      else if (o.what == stream)
        drain(o);
      else
        fro_and_to(o);
    }
  }

private:
  // Receives that are under way at one time must not share memory; sends may.
  void prepare(const order& o) {
    const auto size = static_cast<std::size_t>(o.size);
    const std::size_t wanted = o.what == bandwidth ? size * window(size) : size;
    if (in_.size() < wanted) in_.assign(wanted, std::byte{1});
    if (out_.size() < size) out_.assign(size, std::byte{2});
  }

  void ping(const order& o) {
    const int size = static_cast<int>(o.size);
    for (long i = 0; i < o.count; ++i) {
      MPI_Send(out_.data(), size, MPI_BYTE, 1, data_tag, MPI_COMM_WORLD);
      MPI_Recv(in_.data(), size, MPI_BYTE, 1, data_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  void pong(const order& o) {
    const int size = static_cast<int>(o.size);
    for (long i = 0; i < o.count; ++i) {
      MPI_Recv(in_.data(), size, MPI_BYTE, 0, data_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      MPI_Send(out_.data(), size, MPI_BYTE, 0, data_tag, MPI_COMM_WORLD);
    }
  }

  void push(const order& o) {
    const std::size_t w = window(static_cast<std::size_t>(o.size));
    for (long i = 0; i < o.count; ++i) {
      for (std::size_t k = 0; k < w; ++k)
        MPI_Isend(out_.data(), static_cast<int>(o.size), MPI_BYTE, 1, data_tag, MPI_COMM_WORLD, &requests_[k]);
      MPI_Waitall(static_cast<int>(w), requests_.data(), MPI_STATUSES_IGNORE);
      await_done(1);
    }
  }
  void pull(const order& o) {
    const auto size = static_cast<std::size_t>(o.size);
    const std::size_t w = window(size);
    for (long i = 0; i < o.count; ++i) {
      for (std::size_t k = 0; k < w; ++k)
        MPI_Irecv(in_.data() + k * size, static_cast<int>(size), MPI_BYTE, 0, data_tag, MPI_COMM_WORLD, &requests_[k]);
      MPI_Waitall(static_cast<int>(w), requests_.data(), MPI_STATUSES_IGNORE);
      tell_done(0);
    }
  }

  void pour(const order& o) {
    for (long i = 0; i < o.count; i += burst) {
      for (std::size_t k = 0; k < burst; ++k)
        MPI_Isend(out_.data(), static_cast<int>(o.size), MPI_BYTE, 1, data_tag, MPI_COMM_WORLD, &requests_[k]);
      MPI_Waitall(burst, requests_.data(), MPI_STATUSES_IGNORE);
    }
    await_done(1);
  }
  void drain(const order& o) {
    for (long i = 0; i < o.count; ++i)
      MPI_Recv(in_.data(), static_cast<int>(o.size), MPI_BYTE, 0, data_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    tell_done(0);
  }

  // One message; the receiver checks all its bytes.
  void to_and_fro(const order& o) {
    const int size = static_cast<int>(o.size);
    std::vector<std::byte> sent(static_cast<std::size_t>(o.size)), got(sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 256);
    MPI_Send(sent.data(), size, MPI_BYTE, 1, data_tag, MPI_COMM_WORLD);
    MPI_Recv(got.data(), size, MPI_BYTE, 1, data_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(sent == got, "a message");
  }
  void fro_and_to(const order& o) {
    const int size = static_cast<int>(o.size);
    MPI_Recv(in_.data(), size, MPI_BYTE, 0, data_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(in_.data(), size, MPI_BYTE, 0, data_tag, MPI_COMM_WORLD);
  }

  static void await_done(int from) {
    int x = 0;
    MPI_Recv(&x, 1, MPI_INT, from, done_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  static void tell_done(int to) {
    const int x = 1;
    MPI_Send(&x, 1, MPI_INT, to, done_tag, MPI_COMM_WORLD);
  }

  std::vector<std::byte> in_, out_;
  std::array<MPI_Request, burst> requests_{};
};

int level_of(const std::string& name) {
  if (name == "single") return MPI_THREAD_SINGLE;
  if (name == "funneled") return MPI_THREAD_FUNNELED;
  if (name == "serialized") return MPI_THREAD_SERIALIZED;
  if (name == "multiple") return MPI_THREAD_MULTIPLE;
  throw std::runtime_error("no thread level is called " + name);
}

/// The JSON of rank 0.
std::string measure(rank_pair& both, const std::string& what, const std::string& sizes, double most) {
  std::string found;
  const auto add = [&](const std::string& name, double value) {
    char text[64];
    std::snprintf(text, sizeof text, "\"%s\":%.9g", name.c_str(), value);
    found += (found.empty() ? "" : ",") + std::string(text);
  };
  if (what == "stream") {
    const double each = per_item(most, stream_batch, 1024, [&](long n) { return both.run({stream, n, 8}); });
    add("stream", 1e-6 / each);
  } else {
    if (what != "latency" && what != "bandwidth") throw std::runtime_error("no measurement is called " + what);
    for (const std::size_t size : list_of(sizes)) {
      const auto bytes = static_cast<long>(size);
      both.run({whole, 1, bytes});
      if (what == "latency") {
        const auto batch = [&](long n) { return both.run({latency, n, bytes}); };
        add(std::to_string(size), per_item(most, latency_batch, 1, batch) / 2 * 1e6);
      } else {
        const auto batch = [&](long n) { return both.run({bandwidth, n, bytes}); };
        const double each = per_item(most, latency_batch, 1, batch);
        add(std::to_string(size), static_cast<double>(size * window(size)) / each / 1e9);
      }
    }
  }
  return "{" + found + "}";
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw std::runtime_error("usage: bench_net_mpi_X LEVEL latency|bandwidth|stream [SIZE,…] SECONDS");
    bind_to_core();
    const int wanted = level_of(argv[1]);
    int level = 0, rank = 0, size = 0;
    MPI_Init_thread(&argc, &argv, wanted, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (level < wanted) throw std::runtime_error("this MPI does not offer the thread level " + std::string(argv[1]));
    if (size != 2) throw std::runtime_error("start two processes");
    rank_pair both;
    if (rank == 0) {
      const std::string found = measure(both, argv[2], argv[3], std::atof(argv[argc - 1]));
      both.run({end, 0, 0});
      std::printf("%s\n", found.c_str());
    } else {
      both.serve();
    }
    MPI_Finalize();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_net_mpi: %s\n", e.what());
    std::_Exit(1); // the launcher ends the other rank
  }
}
