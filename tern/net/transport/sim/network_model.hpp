// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// When a simulated message arrives. Internal.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <tern/net/sim_world.hpp>

namespace tern::sim::detail {

/// A network of ranks with a state: until when its links are in use. Times in picoseconds: a byte
/// at 100 GB/s takes ten. Not thread-safe; decides nothing by chance.
///
/// A message of `bytes` that leaves its sender's worker at `now`
/// - waits until the sender's network card is free, which it then occupies for max(gap, bytes * G);
/// - waits for each link on its way in turn, which it occupies for bytes * G(link). Cut-through:
///   its first byte goes on one `hop` for each switch later. No link is slower than a card; a
///   faster one carries several messages at once, and holds a message up only by as much as its
///   last byte would otherwise be too early;
/// - waits until the receiver's card is free, which is busy with it for as long as the sender's.
///   The first two when it is sent (`deliver`), the last when it is there (`receive`). So a card
///   serves the message first that comes first, whenever they were sent. With nothing in its way it
///   arrives at now + L + (bytes - 1) * G + switches * hop, as in LogGP; with no bytes as with one.
///   Switches: none if flat; 2 k - 1 if it climbs to level k of a fat tree; 1 to 4 routers of a
///   dragonfly.
///
/// Ranks of one host (`host`, and a rank and itself) meet in memory: max(gap, bytes * G) for each
/// sender's copies, one after the other, and L / 4 + (bytes - 1) * G until the last byte is there.
/// All others share their host's card.
///
/// A message reserves all its links when it is sent, so calls come in another order than the bytes
/// would. A message that comes to a link early may therefore use the time before another's
/// reservation: each link knows one such gap, the longest that is still to come. Work is conserved
/// within that gap; what does not fit into it follows at the end of the queue.
///
/// The receiver's card serves messages in the order in which their last bytes come. If a short
/// message overtakes a long one on its last way, the long one follows as a whole, as if none of it
/// had come before. So it may take twice its time.
///
/// Between two ranks first bytes never overtake each other on the way. A short message may catch up
/// with a long one that is still coming: calls of `receive` must come for the two in the order of
/// their sending, the short one's as late as the long one's. Then `receive` keeps them in order,
/// too: each is there no earlier than the one before. Times are bounded: what would come after some
/// 53 days (2^62 ps) comes then.
class network {
public:
  virtual ~network() = default;
  /// \pre ranks in range; `now` is not negative and never goes back by more than what one rank's
  /// clock lags behind another's.
  /// \return when the last byte reaches the receiver's card, ps, if that is free.
  virtual std::int64_t deliver(int from, int to, std::size_t bytes, std::int64_t now) = 0;
  /// The message is there. Of calls for one host the order is that of service.
  /// \pre `from`, `to`, `bytes` as `deliver` had them; `at` is what it returned, or later, and no
  /// call before was for a time noticeably later.
  /// \return when the card has its last byte, ps: `at` if it was free, and for ranks of one host.
  virtual std::int64_t receive(int from, int to, std::size_t bytes, std::int64_t at) = 0;
  /// Bytes that this keeps, for budgets.
  virtual std::size_t memory() const noexcept = 0;
};

/// \pre `check(w)` passed.
std::unique_ptr<network> make_network(const world& w);

/// The word `topology`, taken apart.
struct topology {
  enum class kind { flat, fat_tree, dragonfly } is = kind::flat;
  std::vector<int> numbers; ///< DOWN of each level, or P, A, H
};
inline constexpr std::size_t most_levels = 16;
/// \throws error(invalid_option).
topology parse_topology(std::string_view text);

} // namespace tern::sim::detail
