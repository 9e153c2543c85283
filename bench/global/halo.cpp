// SPDX-License-Identifier: Apache-2.0
/// \file
/// Ghost layers of a block on a device: packed and unpacked by one kernel each, and by a kernel a
/// face, as one writes it without `halo`.
///
///     bench_global_halo EDGE    virtual microseconds for all six faces of EDGE x EDGE x EDGE cells:
///                               as "halo", and as "faces"
///
/// In a simulation of one rank, on a simulated device. What is packed goes nowhere, and what is
/// unpacked is there. Prints one JSON object.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include <tern/base/clock.hpp>
#include <tern/global/halo.hpp>
#include <tern/hetero/dialect.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/runtime.hpp>

TERN_KERNELS_BEGIN(face_kernels)
// A face of rows x columns cells, which begins at `start` in the field.
TERN_KERNEL(pack_face, int rows, int columns, int start, int row_step, int column_step, TERN_GLOBAL const double* field,
            TERN_GLOBAL double* face) {
  TERN_REGION_IN(columns, rows, 1) {
    face[item.y * columns + item.x] = field[start + item.y * row_step + item.x * column_step];
  };
}
TERN_KERNEL(unpack_face, int rows, int columns, int start, int row_step, int column_step,
            TERN_GLOBAL const double* face, TERN_GLOBAL double* field) {
  TERN_REGION_IN(columns, rows, 1) {
    field[start + item.y * row_step + item.x * column_step] = face[item.y * columns + item.x];
  };
}
TERN_KERNELS_END(face_kernels)

namespace {

using field = tern::hetero_object<double, 3>;
using face = tern::hetero_object<double>;
struct block {};
constexpr int exchanges = 20;

field made_field(int edge) {
  field f({edge + 2, edge + 2, edge + 2}, 0.0);
  const auto cells = f.host(tern::access_mode::read_write).get();
  for (std::int64_t z = 1; z <= edge; ++z)
    for (std::int64_t y = 1; y <= edge; ++y)
      for (std::int64_t x = 1; x <= edge; ++x) cells(z, y, x) = static_cast<double>((z * 7 + y) * 5 + x);
  return f;
}

/// Virtual microseconds of an exchange, when all is on the device.
double time_of(const std::function<void()>& exchange) {
  exchange(); // brings it there
  tern::wait_all();
  const std::int64_t began = tern::detail::clock_now();
  for (int i = 0; i < exchanges; ++i) exchange();
  tern::wait_all();
  return static_cast<double>(tern::detail::clock_now() - began) * 1e-3 / exchanges;
}

/// The ghost layers are those of a block that is its own neighbour.
void check(const field& f, int edge) {
  const auto cells = f.host(tern::access_mode::read).get();
  for (std::int64_t i = 1; i <= edge; ++i)
    for (std::int64_t j = 1; j <= edge; ++j)
      if (cells(0, i, j) != cells(edge, i, j) || cells(edge + 1, i, j) != cells(1, i, j) ||
          cells(i, 0, j) != cells(i, edge, j) || cells(i, edge + 1, j) != cells(i, 1, j) ||
          cells(i, j, 0) != cells(i, j, edge) || cells(i, j, edge + 1) != cells(i, j, 1))
        throw std::runtime_error("a ghost layer is wrong");
}

double by_halo(int edge) {
  const field f = made_field(edge);
  tern::halo<double, 3> h(
      {.cells = {edge, edge, edge}, .grid = {1, 1, 1}, .periodic = {true, true, true}},
      [](const tern::indices<3>&) { return tern::mobile_ptr<block>(tern::mobile::object_id(0, 1)); });
  std::array<face, tern::global::detail::halo_side_count> there; // by side
  for (const auto& part : h.pack(f)) {
    there[static_cast<std::size_t>(part.from)] = face(part.cells.count());
    tern::submit(face_kernels::pack_face, tern::items(part.cells.count()), 1, static_cast<int>(part.cells.count()), 0,
                 0, 1, tern::read(part.cells), tern::write(there[static_cast<std::size_t>(part.from)]));
  }
  const double us = time_of([&] {
    for (const auto& part : h.pack(f)) h.arrived(h.step(), part.from, there[static_cast<std::size_t>(part.from)]);
    h.unpack(h.step(), f);
  });
  check(f, edge);
  return us;
}

double by_faces(int edge) {
  const field f = made_field(edge);
  const int row = edge + 2, plane = row * row, inside = plane + row + 1;
  struct side {
    int from, to, row_step, column_step;
  };
  const std::array<side, 6> sides{{{inside + (edge - 1) * plane, inside - plane, row, 1},
                                   {inside, inside + edge * plane, row, 1},
                                   {inside + (edge - 1) * row, inside - row, plane, 1},
                                   {inside, inside + edge * row, plane, 1},
                                   {inside + edge - 1, inside - 1, plane, row},
                                   {inside, inside + edge, plane, row}}};
  const double us = time_of([&] {
    std::vector<face> packed;
    for (const side& s : sides) {
      packed.emplace_back(std::int64_t{edge} * edge);
      tern::submit(face_kernels::pack_face, tern::items(edge, edge), edge, edge, s.from, s.row_step, s.column_step,
                   tern::read(f), tern::write(packed.back()));
    }
    for (std::size_t i = 0; i < sides.size(); ++i)
      tern::submit(face_kernels::unpack_face, tern::items(edge, edge), edge, edge, sides[i].to, sides[i].row_step,
                   sides[i].column_step, tern::read(packed[i]), tern::read_write(f));
  });
  check(f, edge);
  return us;
}

} // namespace

int main(int argc, char** argv) {
  try {
    const int edge = argc > 1 ? std::atoi(argv[1]) : 0;
    if (edge < 1) throw std::runtime_error("usage: bench_global_halo EDGE");
    return tern::run(argc, argv, [edge] {
      const nlohmann::json found{{"halo", by_halo(edge)}, {"faces", by_faces(edge)}};
      std::printf("%s\n", found.dump().c_str());
    });
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_global_halo: %s\n", e.what());
    return 1;
  }
}
