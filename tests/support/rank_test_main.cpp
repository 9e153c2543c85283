// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <functional>
#include <string_view>
#include <vector>

#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "rank_test.hpp"

namespace tern::test {
namespace {

std::vector<const rank_test*>& all() {
  static std::vector<const rank_test*> list;
  return list;
}
const rank_local<std::atomic<int>> failures;

int run_all(int argc, char** argv) {
  int passed = 0, failed = 0;
  for (const rank_test* t : all()) {
    if (argc > 1 && std::string_view(t->name).find(argv[1]) == std::string_view::npos) continue;
    const int before = failures->load();
    try {
      t->body();
    } catch (const std::exception& e) {
      fail(t->name, 0, std::string("threw ") + e.what());
    }
    const bool bad = allreduce(failures->load() != before ? 1 : 0, std::plus<>()) > 0;
    ++(bad ? failed : passed);
    if (rank() == 0) std::printf("%s %s\n", bad ? "FAILED" : "ok    ", t->name), std::fflush(stdout);
  }
  if (rank() == 0) std::printf("%d passed, %d failed\n", passed, failed);
  return failed || !passed;
}

} // namespace

rank_test::rank_test(const char* n, void (*b)()) : name(n), body(b) { all().push_back(this); }

void fail(const char* file, int line, const std::string& what) {
  ++failures.get();
  std::fprintf(stderr, "%s:%d: rank %d: %s\n", file, line, rank(), what.c_str());
}

} // namespace tern::test

int main(int argc, char** argv) { return tern::run(argc, argv, tern::test::run_all); }
