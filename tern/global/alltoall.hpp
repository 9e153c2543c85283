// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// All-to-all exchange of objects with copies on devices: each rank gives each rank a part of an
/// object, and gets one, encoded on the way if that is wanted.
///
///     tern::hetero_object<float, 3> planes({128, 32, 128}), rows({128, 32, 128});
///     tern::alltoall(tern::communicator::world(), planes, rows);                 // as it is
///     tern::alltoall(tern::communicator::world(), planes, rows, "zfp:rate=16");  // half of the
/// bytes
///
/// Both objects are cut along their first dimension, one part for each rank, in their order. The
/// part that a rank gives itself is copied, and never encoded.
///
/// Collective: all ranks of the communicator call it, with the same codec and elements; the parts
/// that one rank gives and the other one gets have the same extents. It waits until this rank's
/// parts have come and `send` can be written again. Meanwhile only the calling fiber waits.
///
/// It is a task that reads `send` and one that writes `receive`, part by part: each is given when
/// the tasks before have ended that matter for it. Parts of `send` come home from devices, are
/// encoded, travel and are decoded while others do; in round k a rank sends to the rank k places
/// behind it.
///
/// **Codecs** (codec.hpp): none given is the job's, `--tern-global-codec`. A lossless one encodes
/// parts of 64 KiB and more, if that makes them smaller. `auto` decides for each peer, by what
/// sending, encoding and decoding have taken: it encodes if that is expected to take less than 0.9
/// of the time. A lossy codec encodes all, if not told `auto`: results do not depend on time.
///
/// \throws error(invalid_argument) for extents that cannot be cut so, counts that do not add up, a
/// codec that does not take the elements; error(invalid_option) for an unknown one;
/// error(invalid_data) for parts that are not what the other rank was to send; what the tasks
/// before failed with. Threads: fibers of a rank. Source: Zhou et al. 2022 compress all-to-all on
/// GPUs.

#include <cstdint>
#include <source_location>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <tern/global/codec.hpp>
#include <tern/global/exchange/parts.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/net/communicator.hpp>

namespace tern {

namespace global {

/// What the calling rank's exchanges have sent to others and got from them.
struct exchange_counts {
  std::uint64_t parts = 0, encoded = 0;    ///< sent; and those of them that a codec has made smaller
  std::uint64_t bytes = 0, sent_bytes = 0; ///< of these parts' elements; and what has gone to the network for them
};
/// Any thread of a rank. \throws error(invalid_state) elsewhere.
exchange_counts count_exchanges();

} // namespace global

/// Gives rank k the rows of `send` from `send_rows[0] + … + send_rows[k - 1]` on, `send_rows[k]` of
/// them; gets `receive_rows[k]` from it. A count may be 0; rows of either object behind the last
/// part are not used.
template <class T, int N>
void alltoall(const communicator& ranks, const hetero_view<T, N>& send, std::span<const std::int64_t> send_rows,
              const hetero_view<T, N>& receive, std::span<const std::int64_t> receive_rows, std::string_view codec = {},
              std::source_location where = std::source_location::current()) {
  global::detail::exchange parts(ranks, codec, where);
  parts.check(send.text(), send.extent(0), send_rows);
  parts.check(receive.text(), receive.extent(0), receive_rows);
  const auto cut = [&](const hetero_view<T, N>& whole, std::span<const std::int64_t> rows, access_mode how,
                       std::vector<global::detail::part>& into) {
    std::int64_t first = 0;
    for (const std::int64_t n : rows) {
      into.push_back(n == 0 ? global::detail::part() : global::detail::part(whole.rows(first, first + n), how, where));
      first += n;
    }
  };
  cut(send, send_rows, access_mode::read, parts.out());
  cut(receive, receive_rows, access_mode::write, parts.in());
  parts.run();
}

/// The same with parts of equal size. \throws error(invalid_argument) for a first extent that is no
/// multiple of the number of ranks.
template <class T, int N>
void alltoall(const communicator& ranks, const hetero_view<T, N>& send, const hetero_view<T, N>& receive,
              std::string_view codec = {}, std::source_location where = std::source_location::current()) {
  const std::vector<std::int64_t> out = global::detail::equal_parts(send.text(), send.extent(0), ranks.size()),
                                  in = global::detail::equal_parts(receive.text(), receive.extent(0), ranks.size());
  alltoall<T, N>(ranks, send, std::span<const std::int64_t>(out), receive, std::span<const std::int64_t>(in), codec,
                 where);
}
// Objects are views, which templates do not see.
template <class T, int N>
void alltoall(const communicator& ranks, const hetero_object<T, N>& send, const hetero_object<T, N>& receive,
              std::string_view codec = {}, std::source_location where = std::source_location::current()) {
  alltoall<T, N>(ranks, static_cast<const hetero_view<T, N>&>(send), static_cast<const hetero_view<T, N>&>(receive),
                 codec, where);
}
template <class T, int N>
void alltoall(const communicator& ranks, const hetero_object<T, N>& send, std::span<const std::int64_t> send_rows,
              const hetero_object<T, N>& receive, std::span<const std::int64_t> receive_rows,
              std::string_view codec = {}, std::source_location where = std::source_location::current()) {
  alltoall<T, N>(ranks, static_cast<const hetero_view<T, N>&>(send), send_rows,
                 static_cast<const hetero_view<T, N>&>(receive), receive_rows, codec, where);
}

} // namespace tern
