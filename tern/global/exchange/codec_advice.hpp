// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Whether encoding pays, by what has been measured. Internal.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include <tern/global/codec.hpp>

namespace tern::global::detail {

/// Learns, on one rank, how fast a peer is reached, and how fast elements of a type are encoded and
/// decoded with the load of the moment. Sending a byte takes 1/B. Encoded it takes the slowest of
/// 1/E, r/B and 1/D, where r is what is left of a byte: all three go on at once. Encoding pays
/// below 0.9 of 1/B. One question in 64 is answered against that, so that what has changed is seen.
///
/// Once all of an exchange has been encoded, what that took counts in place of the three: where
/// sending takes the processor's time too, they do not go on at once.
///
/// What is not known: nothing pays before B has been measured. Threads: one at a time.
class codec_advice {
public:
  using element = std::pair<element_kind, std::uint32_t>;

  /// Is it worth to encode a sample of an array for this peer?
  bool may_pay(int peer, element of);
  /// Does it pay, if so much is left of a byte?
  bool pays(int peer, element of, double left);

  /// Bytes that were not encoded have come within so many seconds.
  void sent(int peer, std::size_t bytes, double seconds);
  /// The same of elements that were all encoded: so much raw data.
  void sent_encoded(int peer, element of, std::size_t bytes, double seconds);
  void encoded(element of, std::size_t bytes, double seconds);
  void decoded(element of, std::size_t bytes, double seconds);

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
  double slowest(element of) const;
  /// \return seconds a byte if it is encoded, as far as is known.
  double expected(int peer, element of, double left, double raw) const;
  std::map<int, pace> wires_;
  std::map<element, codec_pace> codecs_;
  std::map<std::pair<int, element>, pace> outcomes_;
  std::uint64_t asked_ = 0;
};

} // namespace tern::global::detail
