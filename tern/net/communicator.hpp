// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Operations that all ranks of a communicator take part in:
///
///     tern::communicator world = tern::communicator::world();
///     double sum = world.allreduce(mine, std::plus<>());
///     tern::communicator row = world.split(world.rank() / columns);
///     std::vector<block> all = row.allgather(my_block);
///
/// Every rank calls the same ones in the same order; while one waits, only its fiber does. Values
/// are anything that can be serialized; values combine in the order of ranks, in a way that depends
/// on their number only, so a result is the same in every run and on every rank, whether or not the
/// operation commutes.
///
/// **Several at once.** Operations of one communicator follow each other; a second fiber that
/// begins one meanwhile gets an error. Each fiber needs a communicator of its own, `duplicate()`,
/// or a name on which the ranks agree, `named("residual")`, which costs no message.
///
/// **Wrong use** — other operations, types, roots or orders on different ranks — is
/// error(invalid_state) on a rank that notices it, naming both operations.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/collective/collective_values.hpp>

namespace tern {

namespace net::detail {

class inner_communicator;

enum class collective : std::uint8_t {
  broadcast,
  reduce,
  allreduce,
  gather,
  allgather,
  scatter,
  alltoall,
  scan,
  exscan
};
constexpr const char* collective_names[] = {"broadcast", "reduce",   "allreduce", "gather", "allgather",
                                            "scatter",   "alltoall", "scan",      "exscan"};

template <collective C, class... Types> std::string collective_text() {
  std::string text = std::string(collective_names[static_cast<std::size_t>(C)]) + "<";
  bool first = true;
  ((text += (std::exchange(first, false) ? "" : ", ") + std::string(tern::detail::type_name<Types>())), ...);
  return text + ">";
}
template <collective C, class... Types> inline const collective_kind kind_of_collective{collective_text<C, Types...>()};

/// The rank that gives a rank the root's value, and the ranks to which it gives that: the first
/// takes the longest.
struct tree_place {
  int above = -1; ///< -1: it is the root
  std::array<int, 32> below{};
  int count = 0;
  tree_place(const collective_call& all, int root) noexcept;
  std::span<const int> children() const noexcept { return std::span(below).first(static_cast<std::size_t>(count)); }
};
[[noreturn]] void bad_count(const char* what, std::size_t given, int ranks);

} // namespace net::detail

/// What ranks have in common.
enum class locality { host, numa };

/// A group of ranks that do things together, on one of them. Copies stand for the same one. Not for
/// other ranks: each makes its own by the same calls. Thread-safe, but for what is said above.
class communicator {
  using site = std::source_location;

public:
  /// Of no ranks.
  communicator() noexcept = default;
  /// All ranks of the job. \throws error(invalid_state) outside one.
  static communicator world();

  /// Does it have ranks, this one among them? All below throws error(invalid_state) if not.
  bool valid() const noexcept { return static_cast<bool>(context_); }
  int rank() const { return context("rank").place(); } ///< this rank's place in it
  int size() const { return context("size").size(); }
  /// The rank of the job at a place. \throws error(invalid_argument) if there is none.
  int job_rank(int place) const;
  /// For messages; empty for the world.
  const std::string& name() const { return context("name").name(); }

  // Others made of it. Collective but for `named`; `name` is for messages ----------------------------------------

  /// One communicator for each colour, in which ranks stand by `key`, and those of equal keys as
  /// here. Without a colour: takes part, and gets one that is not `valid`.
  communicator split(std::optional<int> colour, int key = 0, std::string name = {}, site where = site::current()) const;
  /// One for each host, or each NUMA domain of a host, in which ranks stand as here. A rank is in
  /// the domain that all of its workers are bound to, by the option `bind`; those that are in none,
  /// and in simulations all of a host, are together.
  communicator split(locality what, std::string name = {}, site where = site::current()) const;
  /// The first ranks of parts, which `split` has made: valid on these only, and in the order in
  /// which they stand here.
  communicator leaders(const communicator& part, std::string name = {}, site where = site::current()) const;
  /// The same ranks, for operations that have nothing to do with those of this one.
  communicator duplicate(std::string name = {}, site where = site::current()) const;
  /// The same: one for each name, on which ranks agree by the name alone. Local and cheap; lives as
  /// long as this one.
  communicator named(std::string_view name) const;

  // Operations -----------------------------------------------------------------------------------------------------

  /// Returns when all ranks have called it.
  void barrier(site where = site::current()) const;

  /// The root's value, everywhere. \throws error(invalid_argument) for a root that is no rank; so
  /// do the others below.
  template <class T> T broadcast(T value, int root = 0, site where = site::current()) const {
    return broadcast_as(net::detail::kind_of_collective<net::detail::collective::broadcast, T>, std::move(value), root,
                        where);
  }

  /// All values combined with `op`, which is associative, on `root`; elsewhere a part that means
  /// nothing.
  template <class T, class Op> T reduce(T value, Op op, int root = 0, site where = site::current()) const {
    using namespace net::detail;
    collective_call all(context("reduce"), kind_of_collective<collective::reduce, T, Op>, root, where);
    // Towards the first rank by a binomial tree, so that neighbours combine; from there to the
    // root.
    const int n = all.size(), me = all.place();
    int bit = 1;
    for (; bit < n; bit <<= 1) {
      if (me & bit) {
        send_value(all, me - bit, value);
        break;
      }
      if (me + bit < n) value = op(std::move(value), receive_value<T>(all, me + bit));
    }
    if (root != 0 && me == 0) send_value(all, root, value);
    if (root != 0 && me == root) value = receive_value<T>(all, 0);
    return value;
  }

  /// The same on every rank.
  template <class T, class Op> T allreduce(T value, Op op, site where = site::current()) const {
    return allreduce_as(net::detail::kind_of_collective<net::detail::collective::allreduce, T, Op>, std::move(value),
                        std::move(op), where);
  }

  /// All ranks' values by rank, on `root`; empty elsewhere. Vectors may be of different lengths.
  template <class T> std::vector<T> gather(T value, int root = 0, site where = site::current()) const {
    using namespace net::detail;
    collective_call all(context("gather"), kind_of_collective<collective::gather, T>, root, where);
    const int n = all.size(), me = (all.place() - root + n) % n; // counted from the root
    const auto place = [&](int i) { return (i + root) % n; };
    std::vector<T> held; // of me, me + 1, …
    held.push_back(std::move(value));
    for (int bit = 1; bit < n; bit <<= 1) {
      if (me & bit) {
        send_values<true>(all, place(me - bit), held, 0, held.size());
        return {};
      }
      if (me + bit < n)
        receive_values(all, place(me + bit), held, static_cast<std::size_t>(std::min(bit, n - me - bit)));
    }
    std::rotate(held.begin(), held.end() - root, held.end());
    return held;
  }

  /// The same on every rank.
  template <class T> std::vector<T> allgather(T value, site where = site::current()) const {
    return allgather_as(net::detail::kind_of_collective<net::detail::collective::allgather, T>, std::move(value),
                        where);
  }

  /// To each rank its part of the root's `values`, of which there is one for each rank; what others
  /// give means nothing.
  /// \throws error(invalid_argument) for another number of values.
  template <class T> T scatter(std::vector<T> values, int root = 0, site where = site::current()) const {
    using namespace net::detail;
    const bool is_root = context("scatter").place() == root;
    if (is_root && values.size() != static_cast<std::size_t>(size())) bad_count("scatter", values.size(), size());
    collective_call all(context("scatter"), kind_of_collective<collective::scatter, T>, root, where);
    const int n = all.size(), me = (all.place() - root + n) % n; // counted from the root
    const auto place = [&](int i) { return (i + root) % n; };
    if (me == 0) std::rotate(values.begin(), values.begin() + root, values.end());
    int bit = 1;
    while (bit < n && !(me & bit)) bit <<= 1;
    if (me != 0) {
      values.clear();
      receive_values(all, place(me - bit), values, static_cast<std::size_t>(std::min(bit, n - me)));
    }
    for (bit >>= 1; bit > 0; bit >>= 1) { // to me + bit what is for it and those behind it
      if (me + bit >= n) continue;
      const auto first = static_cast<std::size_t>(bit);
      send_values<true>(all, place(me + bit), values, first, values.size() - first);
      values.erase(values.begin() + bit, values.end());
    }
    return std::move(values.front());
  }

  /// To each rank one of `values`, and from each one for this rank, by rank. \throws
  /// error(invalid_argument) for another number of values than ranks.
  template <class T> std::vector<T> alltoall(std::vector<T>&& values, site where = site::current()) const {
    std::vector<T> got = exchange(values, where, [] {});
    const int n = size(), me = rank();
    for (int step = 1; step < n; ++step)
      values[static_cast<std::size_t>((me - step + n) % n)] = std::move(got[static_cast<std::size_t>(step - 1)]);
    return std::move(values);
  }
  /// The same with values that stay this rank's. Arrays go from where they are and are not copied,
  /// but for this rank's own; they must not change meanwhile.
  template <class T> std::vector<T> alltoall(const std::vector<T>& values, site where = site::current()) const {
    std::optional<T> own;
    std::vector<T> got =
        exchange(values, where, [&] { own.emplace(net::detail::copy_of(values[static_cast<std::size_t>(rank())])); });
    std::vector<T> all;
    const int n = size(), me = rank();
    all.reserve(values.size());
    for (int from = 0; from < n; ++from)
      all.push_back(std::move(from == me ? *own : got[static_cast<std::size_t>((me - from + n) % n - 1)]));
    return all;
  }

  /// The values of this rank and all before it, combined.
  template <class T, class Op> T scan(T value, Op op, site where = site::current()) const {
    using namespace net::detail;
    collective_call all(context("scan"), kind_of_collective<collective::scan, T, Op>, collective_call::no_root, where);
    return scan_with(all, std::move(value), op).first;
  }
  /// The values of all before this rank, combined; on the first rank `first`.
  template <class T, class Op> T exscan(T value, Op op, T first, site where = site::current()) const {
    using namespace net::detail;
    collective_call all(context("exscan"), kind_of_collective<collective::exscan, T, Op>, collective_call::no_root,
                        where);
    auto before = scan_with(all, std::move(value), op).second;
    return before ? std::move(*before) : std::move(first);
  }

private:
  friend class net::detail::inner_communicator;
  explicit communicator(std::shared_ptr<net::detail::collective_context> c) noexcept : context_(std::move(c)) {}
  net::detail::collective_context& context(const char* what) const;
  // Of any kind: the runtime's own have other names.
  template <class T>
  T broadcast_as(const net::detail::collective_kind& kind, T value, int root, const site& where) const {
    using namespace net::detail;
    collective_part part; // outlives what is lent of it
    collective_call all(context("broadcast"), kind, root, where);
    const tree_place tree(all, root);
    if (tree.above >= 0) part = all.receive(tree.above);
    if constexpr (is_array_value<T>) {
      const auto elements = tree.above < 0 ? bytes_of(value) : part.elements();
      for (const int to : tree.children())
        elements.size() < least_body ? all.send(to, elements) : all.lend(to, elements);
      if (tree.above >= 0) array_from(part, value); // meanwhile
      all.settle();
    } else {
      if (tree.above < 0) {
        const multicast_packing told;
        part.bytes = packed_part(all, value, packed_size(value));
      }
      for (const int to : tree.children()) all.send(to, part.value());
      if (tree.above >= 0) unpack_into(part.value(), value);
    }
    return value;
  }
  template <class T, class Op>
  T allreduce_as(const net::detail::collective_kind& kind, T value, Op op, const site& where) const {
    using namespace net::detail;
    collective_call all(context("allreduce"), kind, collective_call::no_root, where);
    // Recursive doubling among the largest power of two; of the first ranks, pairs are one
    // (Rabenseifner 2004).
    const int n = all.size(), me = all.place();
    int most = 1;
    while (2 * most <= n) most *= 2;
    const int pairs = n - most; // (0, 1), (2, 3), …
    if (me < 2 * pairs && me % 2 == 1) {
      send_value(all, me - 1, value);
      return receive_value<T>(all, me - 1);
    }
    if (me < 2 * pairs) value = op(std::move(value), receive_value<T>(all, me + 1));
    const int mine = me < 2 * pairs ? me / 2 : me - pairs;
    const auto place = [pairs](int i) { return i < pairs ? 2 * i : i + pairs; };
    for (int bit = 1; bit < most; bit <<= 1) {
      const int other = place(mine ^ bit);
      send_value(all, other, value);
      T theirs = receive_value<T>(all, other);
      value = mine & bit ? op(std::move(theirs), std::move(value)) : op(std::move(value), std::move(theirs));
    }
    if (me < 2 * pairs) send_value(all, me + 1, value);
    return value;
  }
  template <class T>
  std::vector<T> allgather_as(const net::detail::collective_kind& kind, T value, const site& where) const {
    using namespace net::detail;
    std::vector<T> held; // of me, me + 1, …; outlives what is lent of it
    collective_call all(context("allgather"), kind, collective_call::no_root, where);
    // After each round twice as many, from this rank on (Bruck et al. 1997).
    const int n = all.size(), me = all.place();
    held.reserve(static_cast<std::size_t>(n));
    held.push_back(std::move(value));
    for (int have = 1; have < n; have *= 2) {
      const int more = std::min(have, n - have), to = (me - have + n) % n, from = (me + have) % n;
      send_values<false>(all, to, held, 0, static_cast<std::size_t>(more));
      receive_values(all, from, held, static_cast<std::size_t>(more));
    }
    all.settle();
    std::rotate(held.begin(), held.end() - me, held.end());
    return held;
  }
  /// The others' values for this rank: of the rank before it, the one before that, …; `meanwhile`
  /// runs while they are under way.
  template <class T, class F>
  std::vector<T> exchange(const std::vector<T>& values, const site& where, F&& meanwhile) const {
    using namespace net::detail;
    if (values.size() != static_cast<std::size_t>(size())) bad_count("alltoall", values.size(), size());
    collective_call all(context("alltoall"), kind_of_collective<collective::alltoall, T>, collective_call::no_root,
                        where);
    const int n = all.size(), me = all.place();
    for (int step = 1; step < n; ++step) { // not all to the same rank at the same time
      const int to = (me + step) % n;
      lend_value<T>(all, to, values[static_cast<std::size_t>(to)]);
    }
    meanwhile();
    std::vector<T> got;
    got.reserve(values.size());
    for (int step = 1; step < n; ++step) got.push_back(receive_value<T>(all, (me - step + n) % n));
    all.settle();
    return got;
  }
  /// \return what belongs to this rank and all before, and to all before, if there are any.
  template <class T, class Op>
  static std::pair<T, std::optional<T>> scan_with(net::detail::collective_call& all, T value, Op& op) {
    using namespace net::detail;
    // In each round from those twice as far before (Hillis and Steele 1986).
    std::optional<T> before;
    for (int bit = 1; bit < all.size(); bit <<= 1) {
      if (all.place() + bit < all.size()) send_value(all, all.place() + bit, value);
      if (all.place() - bit < 0) continue;
      T more = receive_value<T>(all, all.place() - bit);
      before = before ? op(T(more), std::move(*before)) : T(more);
      value = op(std::move(more), std::move(value));
    }
    return {std::move(value), std::move(before)};
  }

  std::shared_ptr<net::detail::collective_context> context_;
};

} // namespace tern
