// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects that do not all fit into memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/node.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/future.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace tern::bench::mobile {
namespace {

class page {
public:
  template <class A> void serialize(A& ar) { ar(data_); }
  void fill(std::uint64_t n) { data_.assign(cargo_bytes / sizeof n, n); }
  std::uint64_t read() const { return data_.front() + data_.back(); }
  std::uint64_t update() { return ++data_.front() + ++data_.back(); }

private:
  std::vector<std::uint64_t> data_;
};

// As a program that goes through all its data: in order, so many asked for at a time.
constexpr std::size_t ahead = 16;

template <auto F> std::uint64_t visit(const std::vector<mobile_ptr<page>>& all) {
  std::array<future<std::uint64_t>, ahead> open;
  std::uint64_t sum = 0;
  const auto take = [&](future<std::uint64_t> one) {
    if (one.valid()) sum += one.get();
  };
  for (std::size_t i = 0; i < all.size(); ++i) take(std::exchange(open[i % ahead], call<F>(all[i])));
  for (auto& one : open) take(std::move(one));
  return sum;
}

} // namespace

nlohmann::json disk(std::size_t objects, long rounds) {
  if (net::node::here().opts()[tern::mobile::memory_option] == "0")
    throw std::runtime_error("say how many fit into memory: --tern-mobile-memory=64M");
  std::vector<mobile_ptr<page>> all;
  for (std::size_t i = 0; i < objects; ++i) {
    all.push_back(create<page>());
    call<&page::fill>(all.back(), i).get();
  }
  const std::uint64_t filled = objects * (objects - 1);
  check(visit<&page::read>(all) == filled, "what was on disk");
  const double mib = static_cast<double>(objects) * static_cast<double>(rounds);
  double began = seconds();
  for (long i = 0; i < rounds; ++i) check(visit<&page::read>(all) == filled, "what was on disk");
  const double read = mib / (seconds() - began);
  began = seconds();
  for (long i = 1; i <= rounds; ++i)
    check(visit<&page::update>(all) == filled + 2 * objects * static_cast<std::uint64_t>(i), "what was on disk");
  const double updated = 2 * mib / (seconds() - began); // to memory and back
  for (const auto& one : all) destroy(one).get();
  return {{"read", read}, {"update", updated}};
}

} // namespace tern::bench::mobile
