// SPDX-License-Identifier: Apache-2.0
/// \file
/// Credit of counted references.
#include <tern/mobile/counted.hpp>

#include <exception>

#include <tern/base/error.hpp>
#include <tern/net/packing/multicastable.hpp>
#include <tern/task/fiber.hpp>

namespace tern::mobile::detail {
namespace {

constexpr std::uint64_t more = std::uint64_t{1} << 40; // asked for at a time
const fiber_local<unpacking_again*> the_unpacking;

void give_back(object_id id, std::uint64_t credit) noexcept {
  net::node& here = net::node::here();
  try {
    post_control(here, give_back_handler, id, 0, credit);
  } catch (const error& e) {
    if (e.code() != errc::invalid_state) here.fatal(e.what()); // but for the job's end
  } catch (const std::exception& e) {
    here.fatal(e.what());
  }
}

} // namespace

unpacking_again::unpacking_again() { *the_unpacking = this; }
unpacking_again::~unpacking_again() { *the_unpacking = nullptr; }
void unpacking_again::good() {
  *the_unpacking = nullptr;
  for (const auto& [id, credit] : kept_) give_back(id, credit);
}

std::uint64_t shared_credit::split() {
  if (net::detail::multicast_packing::here())
    throw error(errc::unsupported,
                "a mobile_ref to object " + to_string(id_) +
                    " cannot go to many ranks at once, all of which get the same bytes",
                "send it to each of them");
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
  if (unpacking_again* const later = *the_unpacking)
    later->kept_.emplace_back(id_, all);
  else
    give_back(id_, all);
}

} // namespace tern::mobile::detail
