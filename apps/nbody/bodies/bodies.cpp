// SPDX-License-Identifier: Apache-2.0
#include "apps/nbody/bodies/bodies.hpp"

#include <bit>

namespace nbody {
namespace {

template <class B, class F> void for_each_array(B& b, F&& f) {
  f(b.id);
  f(b.label);
  f(b.mass);
  f(b.x);
  f(b.y);
  f(b.z);
  f(b.vx);
  f(b.vy);
  f(b.vz);
}

// The last step of splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

} // namespace

void bodies::reserve(std::size_t n) {
  for_each_array(*this, [&](auto& a) { a.reserve(n); });
}

void bodies::clear() {
  for_each_array(*this, [](auto& a) { a.clear(); });
}

void bodies::push(std::uint32_t number, std::uint8_t of, double m, const double (&at)[3], const double (&velocity)[3]) {
  id.push_back(number);
  label.push_back(of);
  mass.push_back(m);
  x.push_back(at[0]);
  y.push_back(at[1]);
  z.push_back(at[2]);
  vx.push_back(velocity[0]);
  vy.push_back(velocity[1]);
  vz.push_back(velocity[2]);
}

void bodies::push(const bodies& from, std::size_t i) {
  push(from.id[i], from.label[i], from.mass[i], {from.x[i], from.y[i], from.z[i]},
       {from.vx[i], from.vy[i], from.vz[i]});
}

void bodies::append(const bodies& all) {
  for (std::size_t i = 0; i < all.size(); ++i) push(all, i);
}

void bodies::reorder(std::span<const std::uint32_t> order) {
  for_each_array(*this, [&](auto& a) {
    auto old = a;
    for (std::size_t i = 0; i < order.size(); ++i) a[i] = old[order[i]];
  });
}

void accelerations::resize(std::size_t n) {
  x.resize(n);
  y.resize(n);
  z.resize(n);
  potential.resize(n);
}

std::uint64_t hash_of(const bodies& all) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::uint64_t h = mixed(all.id[i] + 0x9e3779b97f4a7c15ULL);
    for (const double v : {all.mass[i], all.x[i], all.y[i], all.z[i], all.vx[i], all.vy[i], all.vz[i]})
      h = mixed(h ^ std::bit_cast<std::uint64_t>(v));
    sum += h;
  }
  return sum;
}

} // namespace nbody
