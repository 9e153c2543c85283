// SPDX-License-Identifier: Apache-2.0
/// \file
/// Credit of counted references.
#include <tern/mobile/counted.hpp>

#include <exception>

#include <tern/base/error.hpp>

namespace tern::mobile::detail {
namespace {

constexpr std::uint64_t more = std::uint64_t{1} << 40; // asked for at a time

} // namespace

std::uint64_t shared_credit::split() {
  directory::here().note_split();
  std::uint64_t have = credit_.load(std::memory_order_relaxed);
  for (;;) {
    if (have == 1) { // which keeps the object alive while it is asked
      ask(share_out_handler, id_, more).get();
      have = credit_.fetch_add(more, std::memory_order_relaxed) + more;
      continue;
    }
    // relaxed: a number, of which nobody else has a part
    if (credit_.compare_exchange_weak(have, have - have / 2, std::memory_order_relaxed)) return have / 2;
  }
}

shared_credit::~shared_credit() {
  const std::uint64_t all = credit_.load(std::memory_order_relaxed);
  if (all == 0 || !directory::current()) return; // at the job's end all objects end
  net::node& here = net::node::here();
  try {
    post_control(here, give_back_handler, id_, 0, all);
  } catch (const error& e) {
    if (e.code() != errc::invalid_state) here.fatal(e.what()); // but for the job's end
  } catch (const std::exception& e) {
    here.fatal(e.what());
  }
}

} // namespace tern::mobile::detail
