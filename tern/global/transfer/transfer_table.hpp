// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a rank has announced to others, and asked them for. Internal.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

#include <tern/base/bytes.hpp>
#include <tern/global/codec.hpp>
#include <tern/global/transfer/departure.hpp>
#include <tern/global/transfer/descriptor.hpp>
#include <tern/global/travel.hpp>
#include <tern/hetero/passage/incoming.hpp>
#include <tern/net/call/id_table.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

/// A rank has one. It carries the protocol: request, data, failure, drop. Threads: any of the rank;
/// it waits for nothing.
class transfer_table final : public departure::owner {
public:
  transfer_table();
  static transfer_table& here();
  static transfer_table& of(net::node& rank);

  /// Bytes that travel inside of messages, at most.
  std::size_t most_inside() const noexcept { return most_inside_; }

  /// For data of `least_encoded` bytes and more whose sender names none; null: none.
  const std::shared_ptr<const codec>& job_codec() const noexcept { return job_codec_; }

  // Where the data are ------------------------------------------------------------------------------------------------
  /// \return the number under which they can be requested.
  std::uint64_t announce(std::shared_ptr<departure> what);
  /// They will not be requested. By their own rank.
  void drop(std::uint64_t number) noexcept;
  void count_inside() noexcept { add(inside_); }
  void count_body() noexcept { add(bodies_); }
  void count_given() noexcept override { add(given_); }

  // Where they are to go ----------------------------------------------------------------------------------------------
  /// Asks `origin` for them; or, if they are not wanted any more, says so.
  void request(int origin, std::uint64_t number, std::size_t bytes, std::unique_ptr<hetero::detail::incoming> into,
               coding coded = coding::none, const array_shape& shape = {});
  static void refuse(int origin, std::uint64_t number);

  // What arrives. Polling context -------------------------------------------------------------------------------------
  void take_request(net::node& here, int source, const net::wire_header& h, net::payload& message);
  void take_drop(net::node& here, int source, const net::wire_header& h, net::payload& message);
  void take_data(net::node& here, int source, const net::wire_header& h, net::payload& message);
  void take_failure(net::node& here, int source, const net::wire_header& h, net::payload& message);

  /// The rank gives up its generation (net/rank/abandon_hook.hpp): what was to come fails with
  /// `why`, what was announced is not wanted any more. So is what is announced and asked for until
  /// the next one begins.
  void abandon(const std::exception_ptr& why);

  transfer_counts counts() noexcept;

private:
  struct arrival {
    std::unique_ptr<hetero::detail::incoming> into;
    std::size_t bytes = 0;
    int origin = -1;
    coding coded = coding::none;
    array_shape shape{}; ///< if they may be coded
  };
  void decode(net::node& here, const net::wire_header& h, arrival a, byte_buffer frame);
  using counter = std::atomic<std::uint64_t>;
  static void add(counter& c) noexcept { c.fetch_add(1, std::memory_order_relaxed); } // statistics
  template <class T, class V> std::uint64_t enter(net::detail::id_table<T>& in, V value);
  std::shared_ptr<departure> take_departure(std::uint64_t number) noexcept;
  arrival take_arrival(std::uint64_t number, int source, const char* what);
  void sent(bool failed) noexcept override { add(failed ? failed_ : sent_); }

  const std::size_t most_inside_;
  const std::shared_ptr<const codec> job_codec_;
  tern::detail::spin_lock guard_;
  net::detail::id_table<std::shared_ptr<departure>> departures_;
  net::detail::id_table<arrival> arrivals_;
  counter inside_{0}, bodies_{0}, announced_{0}, sent_{0}, dropped_{0}, failed_{0}, given_{0}, landed_{0};
};

/// The same bytes in memory that an object may keep and write to: copied, if it is lent.
byte_buffer own(byte_buffer memory);

} // namespace tern::global::detail
