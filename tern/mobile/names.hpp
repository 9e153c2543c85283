// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Mobile objects that are found by a name:
///
///     tern::publish("solver", tern::create<solver>()).get();                  // on one rank, in any fiber
///     tern::mobile_ptr<solver> s = tern::find<solver>("solver").get();        // on any rank, before or after that
///     auto late = tern::find<solver>({.timeout = 1s}, "solver");              // error(timeout) if it is not published
///     if (auto p = tern::try_find<solver>("solver").get()) use(p);            // null if it is not
///
/// Nothing here is collective. A name belongs to the job; the rank that keeps it follows from the
/// name alone, so that no rank keeps all. `find` costs a message there and one back, and one more
/// each way if the object was born elsewhere: keep the pointer that it gives.
///
/// A name is a mobile_ptr: it does not keep an object alive, counted or not. When the object has
/// been destroyed, the name is as if it had never been published, and may be given again. (For an
/// object that has moved this may be a moment later than `destroy` says that it is gone; invoking
/// it is error(not_found) then, as always.) Reports list the names that are waited for and not
/// published, with the ranks that wait, and name the objects that they list.

#include <string>
#include <utility>

#include <tern/base/language/durations.hpp>
#include <tern/mobile/counted.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/call_options.hpp>

namespace tern {

namespace mobile::detail {

/// The rank that keeps a name. \throws error(invalid_argument) for an empty one.
int keeper_of(net::node& here, const std::string& name);
future<void> publish(std::string name, object_id id, const type_record& type);
future<void> unpublish(std::string name);

/// What `find` asks for.
struct name_query {
  bool waits = true;                 ///< until it is published
  bool limited = false;              ///< or until its caller gives up
  std::chrono::nanoseconds limit{0}; ///< after as long; 0: whenever
};
extern const net::handler_record find_handler;
void post_find(net::node& here, int keeper, std::uint64_t reply, const std::string& name, const type_record& wanted,
               const name_query& how);

} // namespace mobile::detail

/// Gives the object a name, which it keeps until `unpublish` or its end. An object may have
/// several. The future is set when the name can be found; it throws error(already_exists), with
/// both objects and their ranks, if an object that lives has it, and error(not_found) for an object
/// that has been destroyed. \throws error(invalid_argument) for an empty name and a null pointer.
/// Any worker thread of a rank.
template <class T> future<void> publish(std::string name, mobile_ptr<T> object) {
  return mobile::detail::publish(std::move(name), object.id(), mobile::detail::type_of<T>());
}
template <class T> future<void> publish(std::string name, const mobile_ref<T>& object) {
  return publish(std::move(name), object.ptr());
}

/// Takes the name away. The future throws error(not_found) if no object has it. \throws
/// error(invalid_argument) for an empty name. Any worker thread of a rank.
inline future<void> unpublish(std::string name) { return mobile::detail::unpublish(std::move(name)); }

/// The object of that name, as soon as there is one. T is the class that it was published as, or a
/// base of that to which the program converts pointers; else the future throws
/// error(invalid_argument) with both classes. A `find` that waits is no message under way:
/// `quiesce` and the end of the job do not wait for it. \throws error(invalid_argument) for an
/// empty name. Any worker thread of a rank.
template <class T> future<mobile_ptr<T>> find(const std::string& name) {
  net::node& here = net::node::here();
  const int keeper = mobile::detail::keeper_of(here, name);
  return net::detail::post_call<mobile_ptr<T>>(here, keeper, [&](std::uint64_t reply) {
    mobile::detail::post_find(here, keeper, reply, name, mobile::detail::type_of<T>(), {});
  });
}
/// The same with a limit (see call_options.hpp): the future throws error(timeout) or
/// error(cancelled), with the name.
template <class T> future<mobile_ptr<T>> find(const call_options& limit, const std::string& name) {
  net::node& here = net::node::here();
  const int keeper = mobile::detail::keeper_of(here, name);
  return net::detail::post_call<mobile_ptr<T>>(here, limit, "find(\"" + name + "\")", keeper, [&](std::uint64_t reply) {
    mobile::detail::post_find(here, keeper, reply, name, mobile::detail::type_of<T>(),
                              {.limited = true, .limit = limit.timeout});
  });
}
/// The object of that name if there is one at this moment, else a null pointer. Else as `find`.
template <class T> future<mobile_ptr<T>> try_find(const std::string& name) {
  net::node& here = net::node::here();
  const int keeper = mobile::detail::keeper_of(here, name);
  return net::detail::post_call<mobile_ptr<T>>(here, keeper, [&](std::uint64_t reply) {
    mobile::detail::post_find(here, keeper, reply, name, mobile::detail::type_of<T>(), {.waits = false});
  });
}

} // namespace tern
