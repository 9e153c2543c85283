// SPDX-License-Identifier: Apache-2.0
// Messages before they reach a rank: taken apart (detail/parse.hpp), their arguments
// (detail/packing.hpp), batches of them (detail/batch.hpp). Any bytes are a message or
// error(invalid_data). An input is what to do, how badly head and body are aligned, and the
// message.
#include "fuzz.hpp"

#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <tern/net/message.hpp>
#include <tern/net/message/batch.hpp>
#include <tern/net/message/parse.hpp>
#include <tern/net/packing/packing.hpp>

namespace {

using tern::net::arrival;
using tern::net::payload;

struct cell {
  double mass;
  std::int64_t at;
};

} // namespace

template <> inline constexpr bool tern::is_bitwise<cell> = true;

namespace {

std::uint64_t sum_of(std::span<const std::byte> bytes) {
  std::uint64_t sum = bytes.size();
  for (const std::byte each : bytes) sum = sum * 31 + std::to_integer<std::uint64_t>(each);
  return sum;
}

// Arguments are used as a handler might: what it is given to keep it may destroy at once.
template <class T> std::uint64_t range_sum(std::span<const T> range) {
  fuzz::require(reinterpret_cast<std::uintptr_t>(range.data()) % alignof(T) == 0, "a range is badly aligned");
  return sum_of(std::as_bytes(range));
}
template <class T> struct used {
  static std::uint64_t up(const T& value) { return sum_of(tern::pack(value)); }
};
template <class T> struct used<tern::net::detail::range_view<T>> {
  static std::uint64_t up(const tern::net::detail::range_view<T>& view) { return range_sum<T>(view); }
};
template <class T> struct used<tern::buffer<T>> {
  static std::uint64_t up(tern::buffer<T>& given) {
    const tern::buffer<T> mine(std::move(given)); // a parameter would live to the end of the caller's expression
    return range_sum<T>(mine);
  }
};

template <class T> struct used<tern::shared_buffer<T>> {
  static std::uint64_t up(tern::shared_buffer<T>& given) {
    const tern::shared_buffer<T> mine(std::move(given));
    fuzz::require(given.empty() && mine.use_count() == (mine.empty() ? 0 : 1), "shares are counted wrongly");
    return range_sum<T>(mine);
  }
};

// From right to left: buffers, which are destroyed, stand behind views.
template <class... Stored> std::uint64_t use(std::tuple<Stored...> args) {
  std::uint64_t sum = 0;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    constexpr std::size_t last = sizeof...(Stored) - 1;
    ((sum = sum * 17 + used<std::tuple_element_t<last - I, std::tuple<Stored...>>>::up(std::get<last - I>(args))), ...);
  }
  (std::index_sequence_for<Stored...>{});
  return sum;
}

template <class... P> void call(payload message) {
  using tern::net::detail::pack_call, tern::net::detail::unpack_call;
  using arguments = typename tern::net::detail::signature<void, P...>::arguments;
  std::optional<arguments> args;
  if (!fuzz::accepts({tern::errc::invalid_data}, [&] { args.emplace(unpack_call<arguments>(message)); })) return;
  // What was read can be sent again, and then means the same.
  payload again;
  std::uint64_t after = 0;
  fuzz::accepts({}, [&] {
    again.bytes =
        std::apply([](const auto&... a) { return pack_call<arguments>(tern::net::wire_header{}, a...); }, *args);
    after = use(unpack_call<arguments>(again));
  });
  fuzz::require(use(std::move(*args)) == after, "arguments differ when they are sent again");
}

using text = std::string;
constexpr void (*calls[])(payload) = {
    call<int, text>,
    call<std::span<const double>>,
    call<std::span<const std::uint8_t>, std::span<const double>, int>,
    call<tern::buffer<double>>,
    call<std::span<const double>, tern::buffer<double>>,
    call<tern::shared_buffer<double>>,
    call<std::span<const std::uint8_t>, tern::shared_buffer<cell>, tern::buffer<double>>,
    call<std::vector<text>, tern::buffer<std::uint16_t>, std::map<int, text>>,
    call<tern::byte_buffer, std::span<const std::int64_t>, std::optional<text>>,
    call<std::vector<bool>, std::span<const cell>, tern::buffer<cell>, tern::buffer<std::uint8_t>>,
    call<std::span<const text>, std::vector<std::pair<std::uint8_t, bool>>>,
};

// Takes a batch apart as a node does, keeps some of its messages for longer than others, and may
// give up half-way.
void batch(arrival whole, fuzz::input& in) {
  if (whole.head.size() < sizeof(tern::net::wire_header)) return; // the node reads the destination first
  tern::net::batch_reader* reader = nullptr;
  if (!fuzz::accepts({tern::errc::invalid_data}, [&] { reader = tern::net::batch_reader::open(std::move(whole)); }))
    return;
  const std::uint8_t patience = in.number();
  std::vector<arrival> kept;
  std::uint64_t sum = 0;
  for (unsigned n = 0;; ++n) {
    arrival one;
    bool more = false;
    if (n == patience || !fuzz::accepts({tern::errc::invalid_data}, [&] { more = reader->next(one); })) {
      reader->abandon();
      break;
    }
    if (!more) break;
    for (const std::byte each : one.head) sum += std::to_integer<std::uint64_t>(each);
    if (n % 3 != 0) kept.push_back(std::move(one));
  }
  for (arrival& each : kept) {
    fuzz::accepts({tern::errc::invalid_data}, [&] {
      auto taken = tern::net::detail::parse(std::move(each));
      taken.message.settle();
    });
    sum += each.head.size();
  }
  static_cast<void>(sum);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool frozen = (tern::net::handler_table::freeze(), true);
  static_cast<void>(frozen);
  fuzz::input in(data, size);
  const auto what = in.number(), places = in.number();
  const bool read_only = in.number() % 2 != 0;
  const auto head = in.bytes(in.number<std::uint16_t>());
  arrival message{1, fuzz::placed::buffer(head, places % 16), {}};
  if (what % 16 == 15) {
    batch(std::move(message), in);
    return 0;
  }
  message.body = fuzz::placed::buffer(in.rest(), places / 16, read_only);
  payload taken;
  if (fuzz::accepts({tern::errc::invalid_data},
                    [&] { taken = tern::net::detail::parse(std::move(message)).message; })) {
    fuzz::require(taken.bytes.size() >= sizeof(tern::net::wire_header), "a message has no header");
    calls[what % std::size(calls)](std::move(taken));
  }
  return 0;
}
