// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// A promise that travels: made on one rank together with its future, set on whichever rank has the
/// result.
///
///     void find(std::string key, tern::remote_promise<int> found) {
///       if (auto at = look_up(key)) return found.set_value(*at);
///       tern::send<&find>((tern::rank() + 1) % tern::size(), key, std::move(found)); // the next one may know
///     }
///     tern::remote_promise<int> found;
///     auto answer = found.get_future();
///     tern::send<&find>(0, "tern", std::move(found));
///     use(answer.get());

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/net/message.hpp>

namespace tern {

template <class T> class remote_promise;

namespace net::detail {

template <class T> inline constexpr bool is_remote_promise = false;
template <class T> inline constexpr bool is_remote_promise<remote_promise<T>> = true;

/// Where one of the calling rank's promises was made of which a share is left anywhere; nothing if
/// there is none.
std::optional<std::source_location> first_open_promise();

/// One reference to a promise that rank `owner` keeps: what a remote_promise is made of, whatever
/// its type.
class promise_share {
public:
  enum class stage : std::uint8_t {
    unborn, ///< no rank knows of it yet
    live,
    set,  ///< through this share
    gone, ///< moved away
  };

  explicit promise_share(const std::source_location& made) noexcept : made_(made) {}
  promise_share(promise_share&& other) noexcept
      : made_(other.made_), number_(other.number_), owner_(other.owner_), halvings_(other.halvings_),
        stage_(std::exchange(other.stage_, stage::gone)) {}
  promise_share& operator=(promise_share&& other) noexcept {
    if (this != &other) {
      drop();
      made_ = other.made_;
      number_ = other.number_;
      owner_ = other.owner_;
      halvings_ = other.halvings_;
      stage_ = std::exchange(other.stage_, stage::gone);
      leaves_ = false;
    }
    return *this;
  }
  ~promise_share() { drop(); }

  bool born() const noexcept { return stage_ != stage::unborn; }
  /// Enters `who` on this rank. \throws error(invalid_state) on a thread that works for no rank.
  void bear(reply_ref who);
  const std::source_location& made() const noexcept { return made_; }

  /// A share with half of this one's weight.
  promise_share split(const char* what) const;
  /// \throws error(invalid_state, already_exists) unless it can be set here and now.
  void check(const char* what) const;
  bool at_home() const;
  /// \pre at home. \return the reply that waits, for the caller to set. \throws
  /// error(already_exists) if it has been set before.
  reply_ref claim();
  /// \pre not at home. \param value after space for `prefix` bytes.
  void send_value(byte_buffer value);
  void send_exception(std::exception_ptr e);
  static constexpr std::size_t prefix = sizeof(wire_header) + 8;

  /// The whole of it goes with the next serialization.
  void will_leave() noexcept { leaves_ = true; }
  template <class A> void save(A& ar, const char* what) const {
    if constexpr (std::is_same_v<A, size_archive>) { // what counts must not change anything
      ar(owner_, halvings_, number_);
    } else {
      const promise_share goes = depart(what);
      ar(goes.owner_, goes.halvings_, goes.number_);
      goes.stage_ = stage::gone;
      if (ar.purpose() == archive_purpose::message)
        ar.on_abandon([owner = goes.owner_, halvings = goes.halvings_, number = goes.number_] {
          give_back(owner, halvings, number);
        });
    }
  }
  void load(input_archive& ar);
  /// A share that has been packed will not be read.
  static void give_back(std::int32_t owner, std::uint32_t halvings, std::uint64_t number) noexcept;

private:
  promise_share depart(const char* what) const;
  void drop() noexcept;
  void send(std::uint32_t what, byte_buffer message) const;

  std::source_location made_; // if it was made here
  // A share is given away by functions that take constants: serialization does.
  std::uint64_t number_ = 0; // of the owner
  std::int32_t owner_ = -1;  // -1: a share of nothing, or unborn
  mutable std::uint32_t halvings_ = 0;
  mutable stage stage_ = stage::unborn;
  mutable bool leaves_ = false;
};

} // namespace net::detail

/// The giving end of one value, for ranks. Made where the future is wanted; any number of shares
/// may travel from there as arguments or results; one of them, on any rank, may set it. Move-only:
/// `share` makes another one, and so does serializing one that is kept (`std::move` sends the share
/// itself, which saves a message). One context at a time uses a share.
///
/// Set a second time, it is error(already_exists) that names the rank and, on that rank, the place
/// where the promise was made. It is thrown where it is known at once: by the share that set it,
/// and on the promise's own rank. Else the job ends with it, as with any exception that reaches no
/// caller. When all shares are destroyed, wherever they are, and none has set it, the future throws
/// error(broken_promise) that names the same place. For that, copies cost no messages: see
/// call/credit.hpp. A share counts as destroyed if its message is not sent (another argument cannot
/// be packed, or the transport fails), if that is an answer to a call that was given up, or if the
/// object that it was for is gone. A share in bytes that the program packs itself (`tern::pack`) is
/// lost without notice if they are never read: do not keep such bytes, or send them twice.
///
/// Used on worker threads of a rank, in or out of fibers. A share that is destroyed after the job
/// has ended, or on another thread, is not told of.
template <class T> class remote_promise {
  static_assert(!std::is_reference_v<T>, "a remote promise holds values: a reference means nothing on another rank");
  static_assert(std::is_same_v<T, std::remove_cv_t<T>>, "a remote promise holds values: leave const away");

public:
  /// Nothing is entered anywhere before it is first used.
  explicit remote_promise(std::source_location made = std::source_location::current()) noexcept : share_(made) {}
  remote_promise(remote_promise&&) noexcept = default;
  remote_promise& operator=(remote_promise&&) noexcept = default;

  /// On the promise that was made, not on shares. \throws error(invalid_state) the second time, on
  /// a share, and on a thread that works for no rank.
  future<T> get_future() {
    be_born();
    if (!future_.valid()) tern::detail::throw_no_state("remote_promise::get_future");
    return std::exchange(future_, {});
  }
  /// Another share. \throws error(already_exists) if this one has set it; error(invalid_state)
  /// after it was moved away.
  remote_promise share() const {
    be_born();
    return remote_promise(share_.split("remote_promise::share"));
  }

  /// Takes nothing for void. The value travels to the promise's rank, where its `load` must not
  /// wait.
  /// \throws error(already_exists) if that is known here; what packing or constructing a T throws,
  /// and then it can still be set.
  template <class... U>
  requires(std::is_void_v<T> ? sizeof...(U) == 0 : sizeof...(U) == 1) void set_value(U&&... value) {
    be_born();
    share_.check("remote_promise::set_value");
    if constexpr (std::is_void_v<T>) {
      if (share_.at_home())
        static_cast<reply&>(*share_.claim()).set();
      else
        share_.send_value(pack_after(net::detail::promise_share::prefix));
    } else if constexpr (net::detail::accept_arguments<std::tuple<T>, U...>()) {
      const auto named = [] { return std::string("argument 1 of tern::remote_promise::set_value"); };
      if (share_.at_home()) {
        (tern::detail::check_fit<T>(value, named), ...);
        T x(std::forward<U>(value)...); // which may throw
        static_cast<reply&>(*share_.claim()).set(std::move(x));
      } else {
        share_.send_value(pack_after(net::detail::promise_share::prefix,
                                     net::detail::as_stored<T>(std::forward<U>(value), named)...));
      }
    }
  }
  /// The future throws `e`: on another rank than this a tern::error with its code and hint,
  /// anything else as error(remote) with its type and text. \throws error(already_exists) as
  /// `set_value`.
  void set_exception(std::exception_ptr e) {
    be_born();
    share_.check("remote_promise::set_exception");
    if (share_.at_home())
      share_.claim()->failed(std::move(e));
    else
      share_.send_exception(std::move(e));
  }

  /// For messages.
  template <class A> void save(A& ar) const {
    be_born();
    share_.save(ar, "a remote_promise that travels");
  }
  void load(input_archive& ar) {
    future_ = {};
    share_.load(ar);
  }
  void will_leave() noexcept { share_.will_leave(); }

private:
  using reply = net::detail::awaited<T>;
  explicit remote_promise(net::detail::promise_share s) noexcept : share_(std::move(s)) {}
  void be_born() const {
    if (share_.born()) return;
    auto [who, f] = reply::make(share_.made());
    share_.bear(std::move(who));
    future_ = std::move(f);
  }
  mutable net::detail::promise_share share_;
  mutable future<T> future_; // until it is asked for
};

} // namespace tern
