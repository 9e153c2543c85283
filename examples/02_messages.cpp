// SPDX-License-Identifier: Apache-2.0
// Messages: arguments of own types, many calls at the same time, and exceptions across ranks.
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <tern/tern.hpp>

struct sample {
  std::string station;
  std::vector<double> values;
  template <class A> void serialize(A& ar) { ar(station, values); } // the form that cereal uses
};

std::map<std::string, double> mean(const sample& s) {
  if (s.values.empty()) throw std::invalid_argument("station " + s.station + " has no values");
  double sum = 0;
  for (double v : s.values) sum += v;
  return {{s.station, sum / static_cast<double>(s.values.size())}};
}

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    if (tern::rank() == 0) {
      std::vector<tern::future<std::map<std::string, double>>> answers;
      for (int i = 0; i < 4; ++i) // `call` does not wait: all four run at the same time
        answers.push_back(tern::call<&mean>(i % tern::size(), sample{"s" + std::to_string(i), {1.0 * i, 2.0 * i}}));
      for (auto& a : answers)
        for (const auto& [station, value] : a.get()) std::printf("%s: %.1f\n", station.c_str(), value);
      try {
        tern::call<&mean>(tern::size() - 1, sample{"empty", {}}).get();
      } catch (const tern::error& e) {
        std::printf("as expected: %s\n", e.message().c_str());
      }
    }
    const int all = tern::allreduce(1, [](int a, int b) { return a + b; }); // collective: every rank calls it
    if (tern::rank() == 0) std::printf("%s\n", all == tern::size() ? "all ranks counted" : "a rank is missing");
    return all == tern::size() ? 0 : 1;
  });
}
