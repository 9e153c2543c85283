// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank has announced to others, and asked them for. Internal.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <tern/base/bytes.hpp>
#include <tern/global/codec.hpp>
#include <tern/global/transfer/departure.hpp>
#include <tern/global/transfer/descriptor.hpp>
#include <tern/global/transfer/landing.hpp>
#include <tern/global/transfer/landing_budget.hpp>
#include <tern/global/transfer/settings.hpp>
#include <tern/global/travel.hpp>
#include <tern/net/call/id_table.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

/// A rank has one. It carries the protocol: request, data, pieces and their answers, failure, drop.
/// Threads: any of the rank; it waits for nothing, but `slow_down`.
class transfer_table final : public departure::owner, public landing::owner, net::reported_part {
public:
  transfer_table();
  ~transfer_table();
  static transfer_table& here();
  static transfer_table& of(net::node& rank);

  /// Bytes that travel inside of messages, at most.
  std::size_t most_inside() const noexcept { return settings_.inside; }
  bool verifies() const noexcept override { return settings_.verify; }

  /// For data of `least_encoded` bytes and more whose sender names none; null: none.
  const std::shared_ptr<const codec>& job_codec() const noexcept { return job_codec_; }

  // Where the data are ------------------------------------------------------------------------------------------------
  /// \return the number under which they can be requested.
  std::uint64_t announce(std::shared_ptr<departure> what);
  /// They will not be requested. By their own rank.
  void drop(std::uint64_t number) noexcept;
  /// What the rank has announced to itself: the object, with a handle for the caller, if it was
  /// given away and has this extent and elements of so many bytes; wherever they are, they stay.
  /// Null: it must be requested.
  hetero::detail::object_state* keep(std::uint64_t number, const std::array<std::int32_t, 3>& extent,
                                     std::size_t element) noexcept;
  void count_inside(std::size_t bytes) noexcept { add(inside_, bytes); }
  void count_body(std::size_t bytes) noexcept { add(bodies_, bytes); }
  void count_given() noexcept override { add(given_); }
  /// An object is about to be sent. If many are on their way, the calling fiber waits for a moment.
  void slow_down();
  bool waits_for_data() const noexcept { return settings_.ahead == 0; }
  /// As `slow_down` where none may be ahead: returns when tasks that compute them have ended.
  static void wait_for(hetero::detail::object_state& o, const hetero::detail::box& part);

  // Where they are to go ----------------------------------------------------------------------------------------------
  /// Asks `origin` for them, as soon as there is room; or, if they are not wanted any more, says
  /// so. \param what, for reports. \param device on which they are to land (0: the host); if there
  /// is one, in a fiber. \param shape if they may be coded.
  void request(int origin, std::uint64_t number, std::size_t bytes, std::unique_ptr<hetero::detail::incoming> into,
               std::string what, std::uint8_t device = 0, coding coded = coding::none, const array_shape& shape = {});
  void request(int origin, std::uint64_t number, std::size_t bytes, std::unique_ptr<data_sink> into);
  static void refuse(int origin, std::uint64_t number);
  /// `origin` is asked for them in another way. \return the number under which they are to come.
  std::uint64_t expect(int origin, std::size_t bytes, std::unique_ptr<data_sink> into);
  /// It was not asked after all.
  void forget(std::uint64_t landing, int origin) noexcept;

  // What arrives. Polling context -------------------------------------------------------------------------------------
  void take_request(net::node& here, int source, const net::wire_header& h, net::payload& message);
  void take_drop(net::node& here, int source, const net::wire_header& h, net::payload& message);
  void take_data(net::node& here, int source, const net::wire_header& h, net::payload& message);
  void take_piece(net::node& here, int source, const net::wire_header& h, net::payload& message);
  void take_landed(net::node& here, int source, const net::wire_header& h);
  void take_failure(net::node& here, int source, const net::wire_header& h, net::payload& message);
  // About room for them: at the receiver, that they are ready, and that they give theirs back; at
  // the origin, that there is some, and that it is wanted back.
  void take_ready(net::node& here, int source, const net::wire_header& h);
  void take_returned(net::node& here, int source, const net::wire_header& h);
  void take_room(net::node& here, const net::wire_header& h, bool there);

  /// The rank gives up its generation (net/rank/abandon_hook.hpp): what was to come fails with
  /// `why`, what was announced is not wanted any more. So is what is announced and asked for until
  /// the next one begins.
  void abandon(const std::exception_ptr& why);

  transfer_counts counts() noexcept;

private:
  struct arrival {
    std::shared_ptr<landing> into;
    std::uint64_t wanted = 0; ///< its number at the origin
  };
  struct counter {
    std::atomic<std::uint64_t> objects{0}, bytes{0}; ///< statistics
  };
  static void add(counter& c, std::size_t bytes = 0) noexcept {
    c.objects.fetch_add(1, std::memory_order_relaxed);
    c.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  template <class T, class V> std::uint64_t enter(net::detail::id_table<T>& in, V value);
  std::shared_ptr<departure> take_departure(std::uint64_t number) noexcept;
  void request_into(std::uint64_t number, const std::shared_ptr<landing>& into);
  std::shared_ptr<departure> find_departure(std::uint64_t number) noexcept;
  std::shared_ptr<landing> find_arrival(std::uint64_t number, int source, const char* what);
  /// There is room for these.
  void let_come(const std::vector<std::uint64_t>& numbers);
  void recall();
  std::uint64_t departing() const noexcept;

  // departure::owner
  void sent(std::uint64_t number, bool failed, std::size_t bytes) noexcept override;
  std::uint64_t enter(std::shared_ptr<staging> s) override { return enter(stages_, std::move(s)); }
  void forget(std::uint64_t stage) noexcept override;
  slot_supply& slots() noexcept override { return slots_; }
  // landing::owner
  void ended(landing& of, bool on_device, bool failed) noexcept override;
  // reported_part
  std::string describe() override;
  net::stats_table statistics() override;

  net::node& here_;
  const settings settings_;
  const std::shared_ptr<const codec> job_codec_;
  slot_supply slots_;
  tern::detail::spin_lock guard_; // all that is no counter
  net::detail::id_table<std::shared_ptr<departure>> departures_;
  net::detail::id_table<std::shared_ptr<staging>> stages_;
  net::detail::id_table<arrival> arrivals_;
  landing_budget budget_;
  std::atomic<std::uint64_t> slowed_{0};
  counter inside_, bodies_, announced_, sent_, dropped_, failed_, given_, landed_, on_devices_, staged_;
};

} // namespace tern::global::detail
