// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Encoding and decoding on a rank, with its account. Internal.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include <tern/base/bytes.hpp>
#include <tern/global/codec.hpp>
#include <tern/global/codec/frame.hpp>
#include <tern/global/coding/codec_advice.hpp>
#include <tern/net/node.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global::detail {

/// A rank has one. It makes frames and reads them, knows what has gone through each codec, and what
/// is in one now, for statistics and reports. Threads: any of the rank. `encode` and `decode` take
/// as long as the codec, and wait for nothing.
class coder final : net::reported_part {
public:
  coder();
  ~coder();
  coder(const coder&) = delete;
  coder& operator=(const coder&) = delete;
  static coder& here();
  static coder& of(net::node& rank);

  byte_buffer encode(const codec& c, const array_shape& s, std::span<const std::byte> elements, chunk_place at = {});
  /// As decode_frame.
  void decode(std::span<const std::byte> frame, const array_shape& wanted, std::span<std::byte> to,
              chunk_place at = {});
  /// What is left of a byte, by a sample of at most `least_encoded` bytes.
  double sample(const codec& c, const array_shape& s, std::span<const std::byte> elements);
  /// Devices have done it: so many bytes have become so many, or have been made of them.
  void count_on_devices(const std::string& codec, bool encoded, std::size_t raw, std::size_t stored);

  /// Calls `f(codec_advice&)` under the lock.
  template <class F> auto advice(F&& f) {
    const std::lock_guard hold(guard_);
    return f(advice_);
  }
  /// What to do with an array for this peer, if the codec decides.
  codec_advice::answer ask(const codec& c, const array_shape& s, codec_advice::route to) {
    return advice([&](codec_advice& a) { return a.ask(to, element_of(c, s)); });
  }
  static codec_advice::element element_of(const codec& c, const array_shape& s) {
    return {s.kind, s.element, c.text()};
  }

private:
  struct account {
    std::uint64_t encoded = 0, decoded = 0; ///< arrays, or chunks
    std::uint64_t raw = 0, stored = 0;      ///< bytes before encoding, and after
    std::uint64_t raw_decoded = 0;          ///< bytes after decoding
    double encode_seconds = 0, decode_seconds = 0;
  };
  struct at_work; // a list, on the stacks of the fibers that encode and decode
  void enter(at_work& w) noexcept;
  void leave(at_work& w) noexcept;

  // reported_part
  std::string describe() override;
  net::stats_table statistics() override;

  net::node& here_;
  tern::detail::spin_lock guard_; // all below
  codec_advice advice_;
  std::map<std::string, account> accounts_;
  at_work* first_ = nullptr;
};

/// Seconds since then, by the clock of fibers.
double seconds_since(fiber_clock::time_point began) noexcept;

} // namespace tern::global::detail
