// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a simulated job is: how many ranks, which network, what goes wrong. Written by people as
///
///     TERN_SIM=ranks=256,workers=4,seed=7,topology=fat-tree:16:8,faults=delay:reorder:crash=3@2ms ./app
///
/// A list of WORD=VALUE, separated by commas, without blanks, each word once; what is left out has
/// the default below. Times are numbers with ns, us, ms or s (a lone 0 needs none); rates are bytes
/// a second with an optional k, M or G (powers of ten). The point is a point whatever the locale.

#include <tern/base/language/compiler.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::sim {

/// The parameters of LogGP (Alexandrov, Ionescu, Schauser, Scheiman: LogGP, SPAA 1995).
struct network_settings {
  double latency = 1e-6;    ///< `latency`, L: seconds from the sender's network card to the receiver's, no load
  double overhead = 300e-9; ///< `overhead`, o: seconds that each side's worker is busy with each message
  double gap = 50e-9;       ///< `gap`, g: seconds between two messages of one network card, at least
  double bandwidth = 10e9;  ///< `bandwidth`, 1/G: bytes a second of a network card and of each link
  /// `topology`: "flat" (only network cards are shared, no switches); "fat-tree:DOWN[:DOWN…]",
  /// levels of switches from the leaves up, each with DOWN ports towards the hosts and one uplink
  /// as fast as `taper` of these together, but no slower than a card; "dragonfly:P:A:H", P hosts on
  /// each router, A routers in each group, H links of each router to other groups (Kim, Dally,
  /// Scott, Abts: Technology-driven, highly-scalable dragonfly topology, ISCA 2008), A * H + 1
  /// groups at most, one link between each two, minimal routes. Hosts fill them in order.
  std::string topology = "flat";
  double taper = 1;    ///< `taper` of fat trees, up to 1: full bisection; 0.5: half of it, with two uplinks a quarter
  double hop = 100e-9; ///< `hop`: seconds that each switch adds
  /// `host`: so many ranks in a row share a host and its network card. Messages within a host do
  /// not touch the network: they take a quarter of the latency and are copied at `bandwidth`, by
  /// each sender one after the other.
  int host = 1;
  double jitter = 0.05; ///< `jitter`: each latency is up to so much longer, by chance; 0: exactly the model
};

/// What goes wrong. None of it loses or doubles a message, or changes the order between one pair of
/// ranks.
struct fault_settings {
  /// `delay[=SECONDS]`: one message in 16 takes up to so much longer, and holds up those behind it.
  double delay = 0;
  /// `reorder[=SECONDS]`: every message takes up to so much longer, so that those of different
  /// senders overtake each other.
  double reorder = 0;
  /// What is left out, all after the `=` or a part, the seed chooses: `crash`, `crash=3`,
  /// `crash=@2ms`, `crash=3@2ms`. Each may be given several times; `slow` and `crash` once for each
  /// rank.
  struct slow_rank {
    int rank = -1;     ///< -1: the seed chooses
    double factor = 0; ///< at least 1: its work takes so many times longer; 0: the seed chooses from 2 to 20
  };
  struct pause_rank {
    int rank = -1;
    double at = -1;      ///< -1: the seed chooses within the first millisecond
    double seconds = -1; ///< -1: the seed chooses up to 10 ms
  };
  struct crash_rank {
    int rank = -1;
    double at = -1; ///< it does nothing from then on; what it had sent still arrives
  };
  std::vector<slow_rank> slow;   ///< `slow[=[RANK][@FACTOR]]`
  std::vector<pause_rank> pause; ///< `pause[=[RANK][@WHEN][+HOWLONG]]`
  std::vector<crash_rank> crash; ///< `crash[=[RANK][@WHEN]]`
};

struct world {
  int ranks = 1;          ///< `ranks`
  int workers = 1;        ///< `workers` of each rank
  int apart = 0;          ///< `apart`: 1: the first worker of each rank only looks after its messages
  std::uint64_t seed = 1; ///< `seed`
  double preempt = 0.125; ///< `preempt`: see tern::sim::settings
  double step = 100e-9;   ///< `step`: see tern::sim::settings, step_seconds
  network_settings network;
  /// `slots`: of one rank's messages to another at most so many may not have been received; the
  /// network takes no more until some have been, and a latency later the sender hears of it. 4 more
  /// may be the runtime's own urgent ones. A rank that has crashed receives nothing. 0: any number.
  int slots = 0;
  fault_settings faults; ///< `faults`: the words above, separated by colons; "none" takes away those of a base
};

inline constexpr double default_delay = 100e-6, default_reorder = 10e-6;
inline constexpr int most_ranks = 1'000'000;

/// Reads the text on top of `base`: a word replaces what was there, `faults` all of them. 300ns
/// becomes the same double as 300e-9 in a program. \throws error(invalid_option) that names the
/// word, what is wrong with it, and which words and values there are.
world parse_world(std::string_view text, world base = {});
/// A text from which `parse_world` makes the same world, to the last bit; what has its default is
/// left out, except ranks and seed. \pre `check(w)` passes.
std::string to_string(const world& w);
/// Checks that each value is within its range, and what depends on several words: ranks that faults
/// name exist, the topology has space for all ranks and not too many links. The parser calls it.
/// \throws error(invalid_option).
void check(const world& w);

} // namespace tern::sim
