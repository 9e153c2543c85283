// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Calls that may take too long:
///
///     auto answer = tern::call<&solve>({.timeout = 5ms}, 3, system);
///     auto other = tern::call<&search>({.stop = source.get_token()}, 3, key);
///
/// The future is ready when the first of these comes: the answer, the end of the time, the request
/// to stop. The handler knows nothing of that: it runs to its end, and an answer that comes later
/// is dropped.

#include <cstdint>
#include <memory>
#include <source_location>
#include <stop_token>
#include <string>
#include <utility>

#include <tern/base/language/durations.hpp>
#include <tern/net/message.hpp>

namespace tern {

/// How long the caller waits for an answer.
struct call_options {
  /// Runs from just before the arguments are packed, by `fiber_clock`: virtual in a simulation. 0:
  /// no limit.
  std::chrono::nanoseconds timeout{0};
  /// A stop request of this token's source ends the wait.
  std::stop_token stop{};
};

namespace net::detail {

/// Enters a caller that waits under a limit. \param what names the function, for messages.
std::uint64_t expect(node& here, reply_ref who, int from, const call_options& limit, const std::string& what);
/// \throws error(invalid_argument) for a time before now.
void check(const call_options& limit);
error cancelled_call(const std::string& what, int destination);

/// As the other `post_call`.
template <class R, class Post>
future<R> post_call(node& here, const call_options& limit, const std::string& what, int destination, Post&& post) {
  check(limit);
  auto [reply, result] = awaited<R>::make(std::source_location::current());
  if (limit.stop.stop_requested()) { // what no caller waits for need not start
    reply->failed(std::make_exception_ptr(cancelled_call(what, destination)));
    return std::move(result);
  }
  const std::uint64_t number = expect(here, std::move(reply), destination, limit, what);
  try {
    post(number);
  } catch (...) {
    here.calls().forget(number);
    throw;
  }
  return std::move(result); // a part of a pair
}

} // namespace net::detail

/// As `call` without options. The future throws error(timeout) if the time is over before the
/// answer has come, and error(cancelled) if `limit.stop` is set before that; both name the handler
/// and the rank. If it is set already, nothing is sent. One of the three happens, whatever comes at
/// the same time. \throws as `call`; error(invalid_argument) for a negative time.
template <auto F, class... A>
auto call(const call_options& limit, int destination, A&&... args)
    -> future<typename net::detail::signature_of_callable<std::remove_cvref_t<decltype(F)>>::result> {
  if constexpr (net::detail::check_call<F, A...>()) {
    using sig = net::detail::signature_of_callable<std::remove_cvref_t<decltype(F)>>;
    net::node& here = net::node::here();
    here.check_rank(destination);
    auto result = net::detail::post_call<typename sig::result>(
        here, limit, "handler '" + net::detail::function_handler<F>.name() + "'", destination,
        [&](std::uint64_t number) {
          net::detail::post_function<F>(here, destination, number, std::forward<A>(args)...);
        });
    here.throttle(destination);
    return result;
  } else {
    return {};
  }
}

} // namespace tern
