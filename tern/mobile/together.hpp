// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One function over several mobile objects, which come to one rank for it:
///
///     double exchange(block& main, std::span<block* const> others, double dt);
///     double flow = tern::call_together<&exchange>(a, {b, c}, 0.1).get();
///
/// The function has access to all of them. It runs on the rank of the first, and the others stay
/// there afterwards. Two calls whose sets of objects overlap never wait for each other in a circle:
/// each claims its objects in the order of their ids, and moves none before it has all.
/// docs/concepts/together.md says what that costs.

#include <initializer_list>
#include <span>
#include <utility>

#include <tern/mobile/object.hpp>
#include <tern/mobile/together/typed_call.hpp>
#include <tern/task/future.hpp>

namespace tern {

/// Runs `F(main, others, args…)` with access to `main` and to all of `others`, and gives a future
/// for the result.
///
/// F is `R f(T& main, std::span<U* const> others, P… args)`, a captureless lambda like it, or a
/// member `R T::f(std::span<U* const> others, P… args)`. `const T&` (a const member) and
/// `std::span<const U* const>` ask for *shared* access, beside other readers; else it is exclusive.
/// Pointers to derived classes convert; `others` is a list in braces, or a vector, array or span of
/// mobile_ptr<U>, and may be empty. Arguments travel by value, as those of `call`.
///
/// Each object is *claimed* in ascending order of `object_id`. A claim is an invocation in the
/// object's own list: it comes after what the calling fiber has sent to the object before, and is
/// admitted as any other. From then on the object admits nothing else (if the claim is shared,
/// shared invocations and claims) until F has ended, and is not moved by others: migrations wait,
/// and balancers see it as not movable. When all are granted, those that are elsewhere move to
/// `main`'s rank, and F runs there. An object that is pinned, or of a class that cannot move,
/// stays: then F runs on its rank, to which `main` moves too. A shared claim of an object that has
/// to move becomes exclusive. Objects on disk come back.
///
/// If all objects are on the calling rank and free, no message is sent.
///
/// Within F, `self` names `main`, a `release_access` gives up all objects meanwhile, and an
/// invocation of any of them that F waits for is error(deadlock).
///
/// \throws error(invalid_argument) for a null pointer, for an object that is named twice, and for
/// an argument that does not fit; error(invalid_state) outside a running job.
///
/// The future throws, with function and objects in the message:
/// - error(deadlock) when it is waited for in an invocation of one of the objects that keeps its
///   access: use `release_access`, or do not wait;
/// - error(not_found) if an object is gone or is of another class;
/// - error(invalid_state) if two of them cannot move and are on different ranks: nothing has moved;
/// - what packing or unpacking an object that has to move throws;
/// - what F throws.
/// In all these cases all objects are let go, where they are; but for the last, F has not run. A
/// future that is dropped drops such an error, too.
///
/// An invocation that keeps its own object and waits for one that is claimed can still close a
/// circle, as with `call`. Reports of a hang name what each claim has, and what it waits for.
///
/// Any worker thread of a rank, in or out of a fiber. Source: docs/design/claims.md.
template <auto F, class... A>
auto call_together(mobile_ptr<mobile::detail::together_main<F>> main,
                   std::span<const mobile_ptr<mobile::detail::together_other<F>>> others, A&&... args)
    -> future<mobile::detail::together_result<F>> {
  if constexpr (mobile::detail::check_together<F, A...>())
    return mobile::detail::start_typed<F>(main, others, std::forward<A>(args)...);
  else
    return {};
}
/// The same for a list in braces.
template <auto F, class... A>
auto call_together(mobile_ptr<mobile::detail::together_main<F>> main,
                   std::initializer_list<mobile_ptr<mobile::detail::together_other<F>>> others, A&&... args)
    -> future<mobile::detail::together_result<F>> {
  return call_together<F>(main,
                          std::span<const mobile_ptr<mobile::detail::together_other<F>>>(others.begin(), others.size()),
                          std::forward<A>(args)...);
}

} // namespace tern
