// SPDX-License-Identifier: Apache-2.0
#include <tern/global/transfer/transfer_table.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/global/codec/frame.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/rank_local.hpp>

namespace tern::global {

const option<int> inline_option{"global-inline", 2048,
                                "device data of up to so many bytes travel within their message, if the host has them "
                                "and nothing is to write them"};

namespace detail {
namespace {

const rank_local<transfer_table> tables;

// They run in the polling context and must not wait.
void request_arrives(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_request(here, source, h, message);
}
void drop_arrives(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_drop(here, source, h, message);
}
void data_arrive(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_data(here, source, h, message);
}
void failure_arrives(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  transfer_table::of(here).take_failure(here, source, h, message);
}

struct request_tag {};
struct drop_tag {};
struct data_tag {};
struct failure_tag {};
const net::handler_record request_record{typeid(request_tag), "tern request of data", __FILE__, &request_arrives, true};
const net::handler_record drop_record{typeid(drop_tag), "tern data not wanted", __FILE__, &drop_arrives, true};
const net::handler_record data_record{typeid(data_tag), "tern data", __FILE__, &data_arrive, true};
const net::handler_record failure_record{typeid(failure_tag), "tern failure of data", __FILE__, &failure_arrives, true};

const net::detail::abandon_hook hook{[](net::node& here, const error& why) {
  if (transfer_table* const all = tables.if_made(here)) all->abandon(std::make_exception_ptr(why));
}};

error bad_message(int source, const std::string& what) {
  return error(errc::invalid_data, "rank " + std::to_string(source) + " " + what);
}

} // namespace

const net::handler_record& data_message() noexcept { return data_record; }
const net::handler_record& failure_message() noexcept { return failure_record; }

// `auto` looks at what exchanges have measured: a message's pace is not known.
transfer_table::transfer_table()
    : most_inside_(static_cast<std::size_t>(std::max(0, net::node::here().opts()[inline_option]))),
      job_codec_(net::node::here().opts()[codec_option] == "zstd" ? make_codec("zstd") : nullptr) {}

transfer_table& transfer_table::here() { return tables.get(); }
transfer_table& transfer_table::of(net::node& rank) { return tables.of(rank); }

template <class T, class V> std::uint64_t transfer_table::enter(net::detail::id_table<T>& in, V value) {
  std::unique_lock hold(guard_);
  while (in.full()) {
    const std::uint32_t capacity = in.capacity();
    hold.unlock(); // others need not wait for memory
    auto more = in.make(capacity);
    hold.lock();
    in.grow(capacity, more);
  }
  auto [number, place] = in.take();
  place = std::move(value);
  return number;
}

std::shared_ptr<departure> transfer_table::take_departure(std::uint64_t number) noexcept {
  const std::lock_guard hold(guard_);
  std::shared_ptr<departure>* const found = departures_.find(number);
  if (!found) return nullptr;
  std::shared_ptr<departure> d = std::move(*found);
  departures_.free(number);
  return d;
}

transfer_table::arrival transfer_table::take_arrival(std::uint64_t number, int source, const char* what) {
  const std::lock_guard hold(guard_);
  arrival* const found = arrivals_.find(number);
  if (!found || found->origin != source)
    throw bad_message(source, std::string("sent ") + what + " that were not asked for");
  arrival a = std::move(*found);
  arrivals_.free(number);
  return a;
}

std::uint64_t transfer_table::announce(std::shared_ptr<departure> what) {
  const std::uint64_t number = enter(departures_, std::move(what));
  add(announced_);
  if (net::detail::abandoned(net::node::here())) drop(number); // behind what `abandon` has seen
  return number;
}

void transfer_table::drop(std::uint64_t number) noexcept {
  if (take_departure(number)) add(dropped_); // its reader ends with it
}

void transfer_table::request(int origin, std::uint64_t number, std::size_t bytes,
                             std::unique_ptr<hetero::detail::incoming> into, coding coded, const array_shape& shape) {
  net::node& here = net::node::here();
  const std::uint64_t landing = enter(arrivals_, arrival{std::move(into), bytes, origin, coded, shape});
  if (net::detail::abandoned(here)) // likewise
    return abandon(std::make_exception_ptr(net::detail::rank_lost_error(here, "data of a hetero_object")));
  try {
    here.post(origin, pack(net::wire_header{request_record.id(), 0, number}, landing), {.urgent = true});
  } catch (...) {
    const arrival lost = take_arrival(landing, origin, "data");
    throw;
  }
}

void transfer_table::refuse(int origin, std::uint64_t number) {
  net::node::here().post(origin, pack(net::wire_header{drop_record.id(), 0, number}), {.urgent = true});
}

void transfer_table::take_request(net::node&, int source, const net::wire_header& h, net::payload& message) {
  const auto landing = unpack<std::uint64_t>(net::detail::body_of(message.bytes));
  const std::shared_ptr<departure> d = take_departure(h.reply);
  if (!d) throw bad_message(source, "asked for data that were not announced, or twice");
  d->requested(source, landing, h);
}

void transfer_table::take_drop(net::node& here, int source, const net::wire_header& h, net::payload&) {
  {
    const std::shared_ptr<departure> d = take_departure(h.reply);
    if (!d) throw bad_message(source, "does not want data that were not announced, or twice");
    add(dropped_);
  }
  here.message_done(h);
}

void transfer_table::take_data(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  arrival a = take_arrival(h.reply, source, "data");
  byte_buffer& body = message.body;
  if (a.coded == coding::always || (a.coded == coding::maybe && body.size() < a.bytes))
    return decode(here, h, std::move(a), std::move(body));
  if (body.size() != a.bytes)
    throw bad_message(source,
                      "sent " + std::to_string(body.size()) + " bytes of data in place of " + std::to_string(a.bytes));
  a.into->land(own(std::move(body)));
  add(landed_);
  here.message_done(h);
}

// Takes long: in a fiber of its own. The message counts until the data have landed.
void transfer_table::decode(net::node& here, const net::wire_header& h, arrival a, byte_buffer frame) {
  here.fibers().spawn(
      [this, &here, h, a = std::move(a), frame = own(std::move(frame))]() mutable {
        try {
          byte_buffer elements(a.shape.bytes());
          decode_frame(frame.bytes(), a.shape, elements.bytes());
          a.into->land(std::move(elements));
          add(landed_);
        } catch (const error& e) {
          a.into->fail(std::make_exception_ptr(
              error(e.code(), "from rank " + std::to_string(a.origin) + ": " + e.message(), e.hint())));
        } catch (...) {
          a.into->fail(std::current_exception());
        }
        here.message_done(h);
      },
      {.name = "data are decoded"});
}

void transfer_table::take_failure(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  arrival a = take_arrival(h.reply, source, "a failure of data");
  net::detail::failure f;
  unpack_into(net::detail::body_of(message.bytes), f);
  a.into->fail(std::make_exception_ptr(f.as_error()));
  here.message_done(h);
}

void transfer_table::abandon(const std::exception_ptr& why) {
  std::vector<std::shared_ptr<departure>> unwanted; // ended without the lock, as are the others
  std::vector<arrival> lost;
  {
    const std::lock_guard hold(guard_);
    std::vector<std::uint64_t> numbers;
    departures_.for_each([&](std::uint64_t number, std::shared_ptr<departure>& d) {
      unwanted.push_back(std::move(d));
      numbers.push_back(number);
    });
    for (const std::uint64_t number : numbers) departures_.free(number);
    numbers.clear();
    arrivals_.for_each([&](std::uint64_t number, arrival& a) {
      lost.push_back(std::move(a));
      numbers.push_back(number);
    });
    for (const std::uint64_t number : numbers) arrivals_.free(number);
  }
  for (std::size_t i = 0; i < unwanted.size(); ++i) add(dropped_);
  for (const arrival& a : lost) a.into->fail(why);
}

transfer_counts transfer_table::counts() noexcept {
  const auto get = [](const counter& c) { return c.load(std::memory_order_relaxed); };
  transfer_counts n{.inside = get(inside_),
                    .bodies = get(bodies_),
                    .announced = get(announced_),
                    .sent = get(sent_),
                    .dropped = get(dropped_),
                    .failed = get(failed_),
                    .departing = 0,
                    .given = get(given_),
                    .landed = get(landed_),
                    .arriving = 0};
  n.departing = n.announced - n.sent - n.dropped - n.failed;
  const std::lock_guard hold(guard_);
  n.arriving = arrivals_.size();
  return n;
}

byte_buffer own(byte_buffer memory) {
  constexpr std::size_t alignment = alignof(std::max_align_t);
  // address: whether elements of any type can be used where they lie
  const bool aligned = reinterpret_cast<std::uintptr_t>(memory.data()) % alignment == 0;
  if (memory.writable() && aligned) return memory;
  return memory.copy();
}

} // namespace detail

transfer_counts count_transfers() { return detail::transfer_table::here().counts(); }

} // namespace tern::global
