// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Whether encoding pays, by what has been measured. Internal.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include <tern/global/codec.hpp>

namespace tern::global::detail {

/// How bytes go to a peer.
enum class way : std::uint8_t {
  exchange, ///< all at once, among all ranks
  memory,   ///< from the host's memory
  staged    ///< from a device, by pieces
};

/// Learns, on one rank, how fast a peer is reached on each way, and how fast elements of a type are
/// encoded and decoded with the load of the moment. Sending a byte takes 1/B. Encoded it takes the
/// slowest of 1/E, r/B and 1/D, where r is what is left of a byte: all three go on at once.
/// Encoding pays below 0.9 of 1/B. One question in 64 is answered against that, so that what has
/// changed is seen.
///
/// Once all of a transfer, or an exchange, has been encoded, what that took counts in place of the
/// three: where sending takes the processor's time too, they do not go on at once.
///
/// What is not known: nothing pays before B has been measured. Threads: one at a time.
class codec_advice {
public:
  struct route {
    int peer = 0;
    way by = way::exchange;
    auto operator<=>(const route&) const = default;
  };
  struct element {
    element_kind kind = element_kind::other;
    std::uint32_t bytes = 1;
    std::string codec{}; ///< its text
    auto operator<=>(const element&) const = default;
  };
  enum class answer : std::uint8_t {
    raw,     ///< they go as they are
    measure, ///< so too, and what that takes is worth to know
    sample   ///< a sample of them is to be encoded: `pays` says the rest
  };
  /// What to do with an array for this peer?
  answer ask(route to, const element& of);
  /// Does it pay, if so much is left of a byte?
  bool pays(route to, const element& of, double left) const;

  /// Bytes that were not encoded have come within so many seconds.
  void sent(route to, std::size_t bytes, double seconds);
  /// The same of elements that were all encoded: so much raw data.
  void sent_encoded(route to, const element& of, std::size_t bytes, double seconds);
  void encoded(const element& of, std::size_t bytes, double seconds);
  void decoded(const element& of, std::size_t bytes, double seconds);

private:
  class pace {
  public:
    void add(std::size_t bytes, double seconds) noexcept;
    /// Of the last few. What takes longer on the wire than the best has waited for something else;
    /// codecs have the load of the moment, which is what counts. 0: not known.
    double best() const noexcept;
    double mean() const noexcept;

  private:
    std::array<double, 8> last_{};
    std::size_t count_ = 0;
  };
  struct codec_pace {
    pace encode, decode;
  };
  double slowest(const element& of) const;
  /// \return seconds a byte if it is encoded, as far as is known.
  double expected(route to, const element& of, double left, double raw) const;
  std::map<route, pace> wires_;
  std::map<element, codec_pace> codecs_;
  std::map<std::pair<route, element>, pace> outcomes_;
  std::uint64_t asked_ = 0;
};

} // namespace tern::global::detail
