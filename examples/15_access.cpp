// SPDX-License-Identifier: Apache-2.0
// Objects, their parts, and access to them on the host.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

TERN_KERNELS_BEGIN(shapes)
// Rows of a part lie `pitch` elements apart, which differs from device to device.
TERN_KERNEL(scale, int columns, int rows, double by, int pitch, TERN_GLOBAL double* v) {
  TERN_REGION_IN(columns, rows, 1) { v[item.y * pitch + item.x] *= by; };
}
TERN_KERNELS_END(shapes)

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::hetero_object<double, 2> field({100, 60}, 1.0); // 100 rows of 60, all 1
    field.name("field");                                  // shown in error messages

    auto middle = field.part({40, 20}, {60, 40}); // rows 40 to 59, columns 20 to 39
    tern::submit(shapes::scale, tern::items(20, 20), 20, 20, 3.0, tern::pitch(middle), tern::read_write(middle));

    {
      auto view = field.rows(0, 1).host(tern::access_mode::read_write).get(); // the first row only
      for (int j = 0; j < 60; ++j) view(0, j) = j;
    } // released: tasks that wait for the row may run

    std::vector<double> all(6000);
    field.copy_to(all.data()).get();

    // The program's own memory, without a copy.
    std::vector<double> mine{3, 1, 2};
    auto adopted = tern::hetero_object<double>::adopt(mine.data(), {3});
    tern::submit([](tern::host_view<double, 1> v) { std::sort(v.begin(), v.end()); }, tern::read_write(adopted));
    auto sorted = adopted.host(tern::access_mode::read).get();

    try { // A read of an object that was never written throws.
      tern::hetero_object<int> empty(10);
      empty.host(tern::access_mode::read).get();
    } catch (const tern::error& e) {
      if (tern::rank() == 0) std::printf("%s\n", e.message().c_str());
    }
    if (tern::rank() == 0) std::printf("%g %g %g\n", all[40 * 60 + 20], all[59], sorted[0]);
    return all[40 * 60 + 20] == 3 && all[59] == 59 && all[60] == 1 && sorted[0] == 1 ? 0 : 1;
  });
}
