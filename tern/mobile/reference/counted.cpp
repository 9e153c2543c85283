// SPDX-License-Identifier: Apache-2.0
/// \file
/// Credit of counted references.
#include <tern/mobile/counted.hpp>

#include <tern/base/error.hpp>
#include <tern/mobile/entry/homes.hpp>
#include <tern/mobile/object/credit_keeper.hpp>
#include <tern/mobile/object/split_recorder.hpp>
#include <tern/net/packing/multicastable.hpp>

namespace tern::mobile::detail {
namespace {

constexpr std::uint64_t more = std::uint64_t{1} << 40; // asked for at a time

} // namespace

std::uint64_t shared_credit::split() {
  if (net::detail::multicast_packing::here())
    throw error(errc::unsupported,
                "a mobile_ref to object " + to_string(id_) +
                    " cannot go to many ranks at once, all of which get the same bytes",
                "send it to each of them");
  split_recorder* const noted = split_recorder::here();
  if (noted && noted->gives_copies()) {
    noted->note(id_, split_recorder::of_copy);
    return split_recorder::of_copy;
  }
  directory::here().note_split();
  std::uint64_t have = credit_.load(std::memory_order_relaxed);
  for (;;) {
    if (have == 1) { // which keeps the object alive while it is asked
      ask(add_credit_handler, id_, more).get();
      have = credit_.fetch_add(more, std::memory_order_relaxed) + more;
      continue;
    }
    // relaxed: a number, of which no other reference has a part
    if (credit_.compare_exchange_weak(have, have - have / 2, std::memory_order_relaxed)) break;
  }
  if (noted) noted->note(id_, have / 2);
  return have / 2;
}

std::shared_ptr<shared_credit> received_credit(object_id id, std::uint64_t credit) {
  // Else the last copy would end the job, when it gives its credit back.
  if (const directory* const here = directory::current(); here && id.home() >= here->homes().count())
    throw error(errc::invalid_data, "a mobile_ref names object " + to_string(id) + ", but the job has " +
                                        std::to_string(here->homes().count()) + " homes of objects");
  return std::make_shared<shared_credit>(id, credit);
}

shared_credit::~shared_credit() {
  const std::uint64_t all = credit_.load(std::memory_order_relaxed);
  if (all == 0) return;
  directory* const here = directory::current();
  if (!here) return; // at the job's end all objects end
  if (credit_keeper* const later = credit_keeper::here())
    later->keep(id_, all);
  else
    here->return_credit(id_, all);
}

} // namespace tern::mobile::detail
