// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/protect/copy_shelf.hpp>

#include <algorithm>
#include <mutex>

#include <tern/net/rank_local.hpp>

namespace tern::mobile::detail {
namespace {

const rank_local<copy_shelf> the_shelf;

} // namespace

std::int32_t job_copy::buddy_of(std::int32_t rank) const {
  return buddies[static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), rank) - ranks.begin())];
}

copy_shelf& copy_shelf::of(net::node& here) { return the_shelf.of(here); }

void copy_shelf::add(job_copy copy) {
  auto made = std::make_shared<const job_copy>(std::move(copy));
  const std::lock_guard hold(lock_);
  own_[made->number] = made;
}

void copy_shelf::keep(int rank, std::uint64_t number, std::uint32_t index, bool is_tables, memory_copy::piece p) {
  auto fresh = std::make_shared<memory_copy>(rank, number);
  const std::lock_guard hold(lock_);
  auto& one = others_[{number, rank}];
  if (!one) one = std::move(fresh);
  one->put(index, is_tables, std::move(p));
}

std::shared_ptr<const job_copy> copy_shelf::own(std::uint64_t number) const {
  const std::lock_guard hold(lock_);
  const auto at = own_.find(number);
  return at == own_.end() ? nullptr : at->second;
}

std::shared_ptr<const memory_copy> copy_shelf::other(int rank, std::uint64_t number) const {
  const std::lock_guard hold(lock_);
  const auto at = others_.find({number, rank});
  return at == others_.end() ? nullptr : at->second;
}

void copy_shelf::settle(std::uint64_t number) noexcept {
  std::map<std::uint64_t, std::shared_ptr<const job_copy>> own; // go without the lock
  std::map<std::pair<std::uint64_t, int>, std::shared_ptr<memory_copy>> others;
  const std::lock_guard hold(lock_);
  own.swap(own_);
  others.swap(others_);
  if (auto one = own.extract(number)) own_.insert(std::move(one));
  for (auto at = others.begin(); at != others.end();) {
    const auto next = std::next(at);
    if (at->first.first == number) others_.insert(others.extract(at));
    at = next;
  }
}

void copy_shelf::clear() noexcept { settle(no_copy); }

std::size_t copy_shelf::bytes() const {
  const std::lock_guard hold(lock_);
  std::size_t n = 0;
  for (const auto& [number, one] : own_) n += one->own->size();
  for (const auto& [key, one] : others_) n += one->size();
  return n;
}

void keep_piece(std::int32_t rank, std::uint64_t number, std::uint32_t index, bool is_tables, memory_copy::piece p) {
  copy_shelf::of(net::node::here()).keep(rank, number, index, is_tables, std::move(p));
}

} // namespace tern::mobile::detail
