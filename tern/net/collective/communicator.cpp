// SPDX-License-Identifier: Apache-2.0
#include <tern/net/communicator.hpp>

#include <mutex>

#include <tern/base/error.hpp>
#include <tern/base/language/hash.hpp>
#include <tern/net/collective/collective_table.hpp>
#include <tern/net/collective/quiesce.hpp>
#include <tern/net/collectives.hpp>

namespace tern {

namespace net::detail {
namespace {

const collective_kind barrier_kind{"barrier"}, split_kind{"split"};

// How a communicator's ranks agree on what becomes of each in a split.
struct choice {
  bool takes_part = false;
  std::int32_t colour = 0, key = 0;
  std::uint64_t number = 0; ///< of the new communicator, if this rank is its first
  template <class A> void serialize(A& ar) { ar(takes_part, colour, key, number); }
};

std::uint64_t number_of_named(std::uint64_t parent, std::string_view name) noexcept {
  const std::uint64_t hash = tern::detail::hash_of(name, tern::detail::hash_of("named") ^ parent);
  return hash | std::uint64_t{1} << 63; // `next_number` gives out smaller ones
}

} // namespace

// Ranks are counted from the root; rank v receives from v without its lowest set bit, and sends to
// v + 2^k for every 2^k below that bit.
tree_place::tree_place(const collective_call& all, int root) noexcept {
  const int n = all.size(), v = (all.place() - root + n) % n;
  const auto actual = [&](int i) { return (i + root) % n; };
  int bit = 1;
  for (; bit < n; bit <<= 1)
    if (v & bit) {
      above = actual(v - bit);
      break;
    }
  for (bit >>= 1; bit > 0; bit >>= 1)
    if (v + bit < n) below[static_cast<std::size_t>(count++)] = actual(v + bit);
}

void plain_value(std::span<const std::byte> bytes, std::span<std::byte> into) {
  if (bytes.size() != into.size())
    throw error(errc::invalid_data,
                "a value of " + std::to_string(into.size()) + " bytes has arrived as " + std::to_string(bytes.size()));
  std::memcpy(into.data(), bytes.data(), bytes.size());
}

void bad_array(std::size_t bytes, std::size_t element) {
  throw error(errc::invalid_data, "an array of elements of " + std::to_string(element) + " bytes has arrived as " +
                                      std::to_string(bytes) + " bytes");
}

void bad_arrays(std::size_t bytes) {
  throw error(errc::invalid_data,
              "several arrays have arrived as " + std::to_string(bytes) + " bytes, which is less than they say");
}

void bad_values(std::size_t arrived, std::size_t wanted) {
  throw error(errc::invalid_data,
              std::to_string(arrived) + " values have arrived where " + std::to_string(wanted) + " were to");
}

void bad_count(const char* what, std::size_t given, int ranks) {
  throw error(errc::invalid_argument,
              std::string(what) + " was given " + std::to_string(given) + " values for " + std::to_string(ranks) +
                  (ranks == 1 ? " rank" : " ranks"),
              "give one for each rank; vectors of different lengths are fine as values");
}

} // namespace net::detail

using net::detail::collective_call;
using net::detail::collective_context;

communicator communicator::world() { return communicator(net::node::here().collectives().everyone()); }

collective_context& communicator::context(const char* what) const {
  if (!context_)
    throw error(errc::invalid_state, std::string(what) + ": this communicator has no ranks",
                "it is of a rank that gave split() no colour, or was never made: ask valid()");
  if (net::node::current() != &context_->here())
    throw error(errc::invalid_state,
                std::string(what) + ": this communicator belongs to rank " + std::to_string(context_->here().rank()),
                "each rank makes its own by the same calls; use it in that rank's fibers");
  return *context_;
}

int communicator::job_rank(int place) const {
  const collective_context& c = context("job_rank");
  if (place < 0 || place >= c.size())
    throw error(errc::invalid_argument,
                "there is no rank " + std::to_string(place) + " in a communicator of " + std::to_string(c.size()));
  return c.rank_of(place);
}

communicator communicator::split(std::optional<int> colour, int key, std::string name, site where) const {
  using namespace net::detail;
  collective_context& c = context("split");
  net::node& here = c.here();
  choice mine{colour.has_value(), colour.value_or(0), key, here.collectives().next_number(here.rank())};
  const std::vector<choice> all = allgather_as(split_kind, mine, where);
  if (!colour) return {};
  std::vector<int> places;
  for (int i = 0; i < c.size(); ++i)
    if (const choice& x = all[static_cast<std::size_t>(i)]; x.takes_part && x.colour == *colour) places.push_back(i);
  std::sort(places.begin(), places.end(), [&](int a, int b) {
    const int first = all[static_cast<std::size_t>(a)].key, second = all[static_cast<std::size_t>(b)].key;
    return first != second ? first < second : a < b;
  });
  const auto me = std::find(places.begin(), places.end(), c.place()) - places.begin();
  const std::uint64_t number = all[static_cast<std::size_t>(places.front())].number;
  if (name.empty()) name = (c.name().empty() ? "world" : c.name()) + "/" + std::to_string(*colour);
  for (int& p : places) p = c.rank_of(p);
  return communicator(here.collectives().make(here, number, std::move(name), std::move(places), static_cast<int>(me)));
}

communicator communicator::duplicate(std::string name, site where) const {
  if (name.empty()) name = (context("duplicate").name().empty() ? "world" : context_->name()) + " again";
  return split(0, rank(), std::move(name), where);
}

communicator communicator::named(std::string_view name) const {
  collective_context& c = context("named");
  const std::lock_guard hold(c.guard());
  c.check_kept();
  auto at = c.named.find(name);
  if (at == c.named.end()) {
    auto made =
        c.here().collectives().make(c.here(), net::detail::number_of_named(c.number(), name),
                                    (c.name().empty() ? "" : c.name() + "/") + std::string(name), c.ranks(), c.place());
    at = c.named.emplace(std::string(name), std::move(made)).first;
  }
  return communicator(at->second);
}

// In round k each has heard, by others, of 2^k ranks (Hensgen, Finkel, Manber 1988): the fewest
// hops for few ranks, but a message for each rank and round. Of many ranks the first of a group
// goes through the rounds for its group, and so on with groups of groups: a rank sends and receives
// two messages on average, and a host's network card carries those of few ranks. It takes no more
// hops: a group of 8 needs two instead of three.
void communicator::barrier(site where) const {
  constexpr int most_alone = 64, group = 8;
  collective_call all(context("barrier"), net::detail::barrier_kind, collective_call::no_root, where);
  const int n = all.size(), place = all.place();
  const auto send = [&](int to) { all.send(to, std::span<const std::byte>()); };
  const auto receive = [&](int from) { static_cast<void>(all.receive(from)); };
  // `step`: between those that still take part, which are the first ranks of groups of so many.
  int step = 1;
  bool released = false;
  for (; !released && (n - 1) / step >= most_alone; step *= released ? 1 : group) {
    if (const int first = place - place % (step * group); first != place) {
      send(first);
      receive(first);
      released = true;
    } else {
      for (int i = 1; i < group && place + i * step < n; ++i) receive(place + i * step);
    }
  }
  if (!released) {
    const int me = place / step, others = (n - 1) / step + 1;
    for (int bit = 1; bit < others; bit <<= 1) {
      send((me + bit) % others * step);
      receive((me - bit + others) % others * step);
    }
  }
  while (step > 1) {
    step /= group;
    for (int i = 1; i < group && place + i * step < n; ++i) send(place + i * step);
  }
}

void barrier(std::source_location where) { communicator::world().barrier(where); }

void quiesce(quiescence of, std::source_location where) { net::detail::quiesce(net::node::here(), of, where); }

} // namespace tern
