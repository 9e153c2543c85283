// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One message to many ranks:
///
///     tern::multicast<&new_parameters>(tern::other_ranks, parameters);
///     tern::multicast<&refine>({0, 3, 4}, level);
///     tern::multicast<&refine>(neighbours, level); // std::vector<int> or std::span<const int>

#include <tern/base/language/compiler.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/net/message.hpp>
#include <tern/net/packing/multicastable.hpp>
#include <tern/net/remote_promise.hpp>

namespace tern {

struct all_ranks_t {};
struct other_ranks_t {};
inline constexpr all_ranks_t all_ranks;     ///< of the job
inline constexpr other_ranks_t other_ranks; ///< all but the calling one

/// Which ranks: a view of the caller's list, for the time of a call.
class rank_group {
public:
  // Each stands for the same as what it is made from.
  rank_group(all_ranks_t) noexcept : kind_(kind::all) {}                // NOLINT(google-explicit-constructor)
  rank_group(other_ranks_t) noexcept : kind_(kind::others) {}           // NOLINT(google-explicit-constructor)
  rank_group(std::span<const int> ranks) noexcept : ranks_(ranks) {}    // NOLINT(google-explicit-constructor)
  rank_group(const std::vector<int>& ranks) noexcept : ranks_(ranks) {} // NOLINT(google-explicit-constructor)
  rank_group(std::initializer_list<int> ranks) noexcept                 // NOLINT(google-explicit-constructor)
      : ranks_(ranks.begin(), ranks.size()) {}

  enum class kind : std::uint8_t { listed, all, others };
  kind what() const noexcept { return kind_; }
  std::span<const int> ranks() const noexcept { return ranks_; } ///< if listed

private:
  kind kind_ = kind::listed;
  std::span<const int> ranks_;
};

namespace net::detail {

/// Checks a group before anything is packed. \return the ranks listed but `here`'s, and whether
/// that was among them.
struct recipients {
  std::vector<int> others; // if listed
  bool all_others = false, self = false;
  bool none() const noexcept { return others.empty() && !all_others && !self; }
};
recipients recipients_of(node& here, const rank_group& group);
/// Sends `message`, which begins with a wire_header, to all of them.
void multicast(node& here, recipients to, byte_buffer message);

template <class Arguments> inline constexpr bool has_remote_promise = false;
template <class... T> inline constexpr bool has_remote_promise<std::tuple<T...>> = (is_remote_promise<T> || ...);

template <auto F, class... A> consteval bool check_multicast() {
  if constexpr (check_call<F, A...>()) {
    constexpr bool fine =
        !has_remote_promise<typename signature_of_callable<std::remove_cvref_t<decltype(F)>>::arguments>;
    static_assert(fine, "a remote_promise cannot go to many ranks at once: send each of them a share() of it");
    return fine;
  } else {
    return false;
  }
}

} // namespace net::detail

/// Runs `F(args…)` in a fiber on each rank of the group, the calling one included if it is among
/// them; as `send` otherwise. The arguments are packed once and passed on from rank to rank down a
/// binomial tree. So n ranks have them after log2(n + 1) messages one after the other, and the
/// caller sends as many. All ranks get the same bytes: a remote_promise cannot go this way, and one
/// inside of an argument is error(unsupported).
///
/// Messages of one fiber to one rank start in the order sent if they travel there directly. A
/// multicast may travel through other ranks: it may overtake a `send` or another multicast, and be
/// overtaken. `quiesce` and the end of the job wait for it as for any message.
///
/// \throws error(invalid_argument) for a rank that does not exist, or that is in the group twice;
/// then no rank has been sent anything. Else as `send`. An empty group is allowed.
template <auto F, class... A> void multicast(const rank_group& group, A&&... args) {
  if constexpr (net::detail::check_multicast<F, A...>()) {
    using sig = net::detail::signature_of_callable<std::remove_cvref_t<decltype(F)>>;
    net::node& here = net::node::here();
    auto to = net::detail::recipients_of(here, group);
    if (to.none()) return;
    const net::wire_header header{net::detail::function_handler<F>.id(), 0, 0};
    const auto packed = [&] {
      const net::detail::multicast_packing told;
      return net::detail::pack_call<typename sig::arguments>(header, std::forward<A>(args)...);
    };
    net::detail::multicast(here, std::move(to), packed());
  }
}

} // namespace tern
