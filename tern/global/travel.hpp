// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data of devices in messages: with this header a `hetero_object` is an argument like any value.
///
///     void take(int step, tern::hetero_object<double> face) {       // runs when the message
/// arrives
///       tern::submit(blend, tern::items(n), n, tern::read(face), tern::read_write(mine)); // waits
/// for the data
///     }
///     tern::submit(pack, tern::items(n), n, tern::read(field), tern::write(face)); // on any
/// device
///     tern::send<&take>(neighbour, step, face);                      // does not wait for that
/// task
///     tern::submit(pack, tern::items(n), n, tern::read(field), tern::write(face)); // waits until
/// the data have left
///
/// **One rule: a transfer is two tasks.** At the source, a task that reads the object, submitted
/// where `send` or `call` is called. At the target, one that writes a new object, submitted before
/// the handler begins. So
/// - the data need not exist when they are sent: tasks submitted before may still compute them;
/// - tasks submitted after the `send` that write the object wait until its data have left. The
///   handle may go out of scope at once;
/// - a handler's objects are *arriving*: tasks and `host()` wait for the data, everything else goes
///   on, and the objects may be sent on before they have come;
/// - `wait_all` waits for transfers too, at both ends;
/// - if a task that was to compute the data fails, the tasks that need them at the target fail,
///   with the reason and the rank that it comes from.
///
/// **What travels**: a `hetero_object<T, N>` as parameter of a handler or of a member function of a
/// mobile object; as result of `call`; inside of containers, aggregates and classes that are
/// arguments or results. A parameter of that type takes a `hetero_view` too, a part for one: it
/// arrives as an object of its own, of the part's extents, in the host's layout. A handle to no
/// object arrives as that.
///
/// **Members of mobile objects.** An object whose `serialize` names them moves at once, and its
/// invocations begin on the new rank at once. The data follow: there, members are arriving. If the
/// object cannot be packed or unpacked it stays where it was, whole, and no data have left. What
/// goes to disk, into checkpoints and protect's copies, or through `tern::pack`, has the elements
/// themselves: packing waits, as a fiber, for the tasks that compute them, and fails if they fail.
///
/// `std::move(x)` gives the object away. Its memory goes along without a copy, within a process, if
/// `x` was its last handle, and all of it; no later task has to wait. To the rank itself the object
/// goes, and its elements stay where they are, on a device too.
///
/// **How they travel** is chosen for each: up to `--tern-global-inline` bytes within the message,
/// if the host has them and no task is to write them; else as the message's body under the same
/// condition, the first of a message; else the receiver asks for them, and they follow.
///
/// `compressed(view, "zfp:rate=16")` travels encoded (codec.hpp), whatever its size and wherever it
/// is, and arrives as an object like any other. It is decoded before tasks see it.
///
/// A transfer counts as a message under way until its data have landed: for `quiesce`, for `finish`
/// and epochs, and for the end of the job.
///
/// **A rank that dies** in a job that survives it (mobile/protect.hpp): objects that were arriving
/// on the others fail with error(rank_lost), from whichever rank they were to come.
///
/// **Errors.** error(invalid_state) inside of `recorded::submit`. error(unsupported) where the same
/// bytes go to many ranks: `multicast` and collective operations. Threads: fibers of a rank.
/// Source: Thomadakis and Chrisochoides 2024 have one-sided transfers of such objects; the order of
/// tasks in place of completion is ours.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/base/options.hpp>
#include <tern/global/codec.hpp>
#include <tern/global/transfer/argument.hpp>
#include <tern/global/transfer/descriptor.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/net/message.hpp>

namespace tern {

namespace global {

/// `global-inline`: up to so many bytes travel within their message.
extern const option<int> inline_option;

/// What the calling rank has sent and received of device data. `announced` = `sent` + `dropped` +
/// `failed` + `departing`.
struct transfer_counts {
  std::uint64_t inside = 0;       ///< sent within their messages
  std::uint64_t bodies = 0;       ///< as bodies of their messages
  std::uint64_t announced = 0;    ///< to follow when asked for, or asked for by a get
  std::uint64_t sent = 0;         ///< of those: that has happened
  std::uint64_t dropped = 0;      ///< of those: never needed
  std::uint64_t failed = 0;       ///< of those: the task that was to compute them did
  std::uint64_t departing = 0;    ///< of those: neither yet
  std::uint64_t given = 0;        ///< of all, those whose memory went along
  std::uint64_t landed = 0;       ///< objects that were asked for and have come
  std::uint64_t on_devices = 0;   ///< of those: into a device's memory
  std::uint64_t pieces = 0;       ///< in which they have come, if not at once
  std::uint64_t slowed = 0;       ///< sends that were slowed down (`--tern-global-ahead`)
  std::uint64_t landing_peak = 0; ///< bytes, the most that had been asked for and had not landed
  std::uint64_t arriving = 0;     ///< that have been asked for and have not
};
/// Any thread of a rank. \throws error(invalid_state) elsewhere.
transfer_counts count_transfers();

} // namespace global

/// A view on its way into a message, which will be encoded.
template <class T, int N> struct compressed_view {
  hetero_view<T, N> view;
  std::shared_ptr<const global::codec> how;
};
/// An argument for a parameter of type `hetero_object<T, N>`. Whatever the codec, the source's
/// writers wait until the elements have been encoded. \throws error(invalid_option) for a codec
/// that is not there; error(invalid_argument) for one that does not take the elements;
/// error(unsupported) that names the package that Tern was built without.
template <class T, int N> compressed_view<T, N> compressed(const hetero_view<T, N>& view, std::string_view codec) {
  auto how = global::make_codec(codec);
  global::check_codec(*how, global::shape_of<T, N>(view.size()));
  return {view, std::move(how)};
}
template <class T, int N> compressed_view<T, N> compressed(const hetero_object<T, N>& object, std::string_view codec) {
  return compressed<T, N>(static_cast<const hetero_view<T, N>&>(object), codec);
}

namespace detail {

/// In messages.
template <class T, int N> struct codec<hetero_object<T, N>> {
  static constexpr std::size_t min_size = sizeof(global::detail::descriptor);
  template <class A> static void save(A& ar, const hetero_object<T, N>& x) {
    global::detail::argument<T, N>(x, false).save(ar);
  }
  static void load(input_archive& ar, hetero_object<T, N>& x) { global::detail::load(ar, nullptr, nullptr, x); }
};
template <class T, int N> struct codec<global::detail::argument<T, N>> {
  static constexpr std::size_t min_size = sizeof(global::detail::descriptor);
  template <class A> static void save(A& ar, const global::detail::argument<T, N>& x) { x.save(ar); }
};

} // namespace detail

namespace net::detail {

template <class T, int N> struct argument_form<hetero_object<T, N>> {
  static constexpr bool is = true;
  template <class A> static global::detail::argument<T, N> make(A&& a) {
    if constexpr (std::is_same_v<std::remove_cvref_t<A>, compressed_view<T, N>>) {
      if (a.view) global::detail::about_to_send(*a.view.inside(), a.view.inside_part());
      return {a.view, false, a.how};
    } else {
      constexpr bool fits = std::is_convertible_v<const std::remove_cvref_t<A>&, const hetero_view<T, N>&>;
      static_assert(fits, "this parameter is a hetero_object: its argument is one, or a view, of the same elements and "
                          "dimensions");
      if constexpr (fits) {
        const hetero_view<T, N>& view = a;
        if (view) global::detail::about_to_send(*view.inside(), view.inside_part());
        return {std::forward<A>(a), !std::is_lvalue_reference_v<A> && !std::is_const_v<A>};
      } else {
        return {hetero_object<T, N>(), false};
      }
    }
  }
  static void load(input_archive& ar, byte_buffer& body, bool& body_used, hetero_object<T, N>& x) {
    global::detail::load(ar, &body, &body_used, x);
  }
};

} // namespace net::detail
} // namespace tern
