// SPDX-License-Identifier: Apache-2.0
/// \file
/// A job that is saved, and one that goes on from there.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/mobile/checkpoint.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace tern::bench::mobile {
namespace {

class slab {
public:
  slab() = default;
  explicit slab(const indices<1>& at) : data_(cargo_bytes / sizeof(std::uint64_t), static_cast<std::uint64_t>(at[0])) {}
  template <class A> void serialize(A& ar) { ar(data_); }
  std::uint64_t sum() const { return data_.front() + data_.back(); }

private:
  std::vector<std::uint64_t> data_;
};

void look_at(const mobile_array<slab>& all) {
  const auto n = static_cast<std::uint64_t>(all.size()[0]);
  if (rank() == 0) check(reduce<&slab::sum>(all, std::plus<>()).get() == n * (n - 1), "what was saved");
}

nlohmann::json rate(std::size_t mib, double took) { return {{"rate", static_cast<double>(mib) / took}}; }

} // namespace

nlohmann::json save(std::size_t mib, const std::string& folder) {
  mobile_array<slab> all;
  if (rank() == 0) all = mobile_array<slab>({static_cast<std::int64_t>(mib)});
  all = broadcast(all);
  look_at(all);
  barrier();
  const double began = seconds();
  checkpoint(folder, all);
  return rate(mib, seconds() - began);
}

nlohmann::json go_on(std::size_t mib) {
  mobile_array<slab> all;
  barrier();
  const double began = seconds();
  check(restored(all), "--tern-restart");
  const double took = seconds() - began;
  look_at(all);
  barrier();
  return rate(mib, took);
}

} // namespace tern::bench::mobile
