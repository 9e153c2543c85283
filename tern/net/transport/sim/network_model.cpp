// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport/sim/network_model.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace tern::sim::detail {
namespace {

__extension__ typedef unsigned __int128 wide; // NOLINT(modernize-use-using): the standard has none

// Later than this is never, and nothing takes longer than `endless`: sums of a few of them fit into
// 64 bits.
constexpr std::int64_t never = std::int64_t{1} << 62, endless = std::int64_t{1} << 60;

std::int64_t picoseconds(double seconds) { return std::llround(seconds * 1e12); }

// Division by a number that is known once: a multiplication (Lemire, Kaser, Kurz: Faster remainder
// by direct computation, Software: Practice and Experience, 2019). Exact for 32 bits.
class divider {
public:
  explicit divider(std::uint32_t d = 1) : reciprocal_(d == 1 ? 0 : ~std::uint64_t{0} / d + 1) {}
  std::uint32_t operator()(std::uint32_t n) const noexcept {
    return reciprocal_ == 0 ? n : static_cast<std::uint32_t>(static_cast<wide>(reciprocal_) * n >> 64);
  }

private:
  std::uint64_t reciprocal_;
};

// How long so many bytes take at a rate: a number of 63 bits, shifted, so that any rate loses no
// digits of a double.
class speed {
public:
  explicit speed(double bytes_per_second = 1) {
    int exponent = 0;
    const double fraction = std::frexp(1e12 / bytes_per_second, &exponent); // [0.5, 1)
    factor_ = static_cast<std::uint64_t>(std::ldexp(fraction, 63));
    shift_ = static_cast<unsigned>(63 - exponent); // 23 to 92 for 1 to 1e21 bytes a second
    half_ = wide{1} << (shift_ - 1);
  }
  std::int64_t operator()(std::uint64_t bytes) const noexcept {
    const wide time = (static_cast<wide>(bytes) * factor_ + half_) >> shift_;
    return time < static_cast<wide>(endless) ? static_cast<std::int64_t>(time) : endless;
  }

private:
  wide half_;
  std::uint64_t factor_;
  unsigned shift_;
};

// A server of work with two intervals to give away: from `free` on, and one gap before. Work that
// comes to the server after other work is served after it. That other work either took the whole
// gap from its arrival on, or fitted into the gap entirely.
struct queue {
  std::int64_t free = 0, gap_begin = 0, gap_end = 0;

  struct place {
    std::int64_t begin, first, rest_begin; // `first` of the work from `begin` on, the rest from `rest_begin` on
    std::int64_t after(std::int64_t work) const noexcept {
      return work <= first ? begin + work : rest_begin + (work - first);
    }
  };

  // `soonest`: about when anything that is sent from now on can come; what lies before that is no
  // gap.
  place take(std::int64_t at, std::int64_t work, std::int64_t soonest) noexcept {
    const std::int64_t last = free;
    if (at >= last) {
      if (at - std::max(last, soonest) > gap_end - std::max(gap_begin, soonest)) gap_begin = last, gap_end = at;
      free = std::min(at + work, never);
      return {at, work, at};
    }
    if (at >= gap_end) return free = std::min(last + work, never), place{last, work, last};
    const std::int64_t begin = std::max(at, gap_begin), space = gap_end - begin;
    if (work <= space) {
      // Two gaps are left, one is remembered.
      if (begin - std::max(gap_begin, soonest) > space - work)
        gap_end = begin;
      else
        gap_begin = begin + work;
      return {begin, work, begin};
    }
    gap_end = begin;
    // A gap of no length would still take in a message of no bytes, ahead of this one.
    if (gap_begin == gap_end) gap_begin = gap_end = 0;
    free = std::min(last + (work - space), never);
    return {begin, space, last};
  }
};

// A link between switches. `head`: the latest first byte that it passed on.
struct alignas(32) link {
  queue line;
  std::int64_t head = 0;
};
struct card {
  std::int64_t in = 0, out = 0; // when it is free
};

struct message {
  std::uint64_t bytes;
  std::int64_t length, soonest; // length: bytes * G of a card
};

// When the first byte is on the other side of a link that it reaches at `at`.
inline std::int64_t pass(link& through, const speed& rate, const message& m, std::int64_t at) noexcept {
  const std::int64_t work = rate(m.bytes);
  const queue::place place = through.line.take(at, work, m.soonest);
  // Its last byte passes when its turn of the shared capacity is over, its first so much earlier
  // that it may then go on at a card's speed. But not before a first byte that it could overtake:
  // those stand in `head`, or have left by the time its turn begins.
  const std::int64_t begin =
      std::min(never, std::max({at, place.after(work) - m.length, std::min(through.head, place.begin)}));
  through.head = std::max(through.head, begin);
  return begin;
}

struct flat {
  explicit flat(const world&, std::uint32_t) {}
  template <class Pass> std::int64_t route(std::uint32_t, std::uint32_t, std::int64_t at, const Pass&) noexcept {
    return at;
  }
  std::size_t memory() const noexcept { return 0; }
};

// Switches have numbers within their level; the host h hangs below switch h / DOWN, and so on up.
struct fat_tree {
  struct level {
    divider down;
    speed rate;         // of a switch's uplink
    std::size_t up = 0; // where its links begin: one up, one down for each switch
  };
  std::array<level, most_levels> levels;
  std::vector<link> links;
  std::int64_t hop;

  explicit fat_tree(const world& w, std::uint32_t hosts) : hop(picoseconds(w.network.hop)) {
    const topology shape = parse_topology(w.network.topology);
    double bandwidth = w.network.bandwidth;
    std::size_t switches = hosts, total = 0;
    for (std::size_t i = 0; i < shape.numbers.size(); ++i) {
      const auto down = static_cast<std::uint32_t>(shape.numbers[i]);
      switches = (switches + down - 1) / down;
      // `check` saw to it that none is slower than a card; and none need be faster than all cards
      // that there can be.
      bandwidth = std::clamp(bandwidth * w.network.taper * down, w.network.bandwidth, w.network.bandwidth * most_ranks);
      levels[i] = {divider(down), speed(bandwidth), total};
      if (switches > 1) total += 2 * switches;
    }
    links.resize(total);
  }
  template <class Pass>
  std::int64_t route(std::uint32_t from, std::uint32_t to, std::int64_t at, const Pass& pass_on) noexcept {
    std::array<std::uint32_t, most_levels> way_down;
    std::size_t i = 0;
    for (;; ++i) {
      at += hop;
      from = levels[i].down(from);
      to = levels[i].down(to);
      if (from == to) break;
      way_down[i] = to;
      at = pass_on(links[levels[i].up + 2 * from], levels[i].rate, at);
    }
    while (i-- > 0) at = pass_on(links[levels[i].up + 2 * way_down[i] + 1], levels[i].rate, at) + hop;
    return at;
  }
  std::size_t memory() const noexcept { return links.capacity() * sizeof(link); }
};

// Port q of group g, which belongs to router q / H, leads to group g + q + 1, counted around. Only
// the groups that have hosts have links.
struct dragonfly {
  divider per_router, per_group, ports;
  std::uint32_t routers, all_groups, groups;
  speed rate;
  std::vector<link> local, global; // by group, router, router; by group, group
  std::int64_t hop;

  explicit dragonfly(const world& w, std::uint32_t hosts) : rate(w.network.bandwidth), hop(picoseconds(w.network.hop)) {
    const topology shape = parse_topology(w.network.topology);
    const auto number = [&](std::size_t i) { return static_cast<std::uint32_t>(shape.numbers[i]); };
    per_router = divider(number(0));
    per_group = divider(routers = number(1));
    ports = divider(number(2));
    groups = per_group(per_router(hosts - 1)) + 1;
    // More than are used make no difference but to the gateways' numbers, which must fit into 32
    // bits.
    all_groups = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{routers} * number(2) + 1, std::uint64_t{1} << 31));
    local.resize(std::size_t{groups} * routers * routers);
    if (groups > 1) global.resize(std::size_t{groups} * groups);
  }
  std::uint32_t gateway(std::uint32_t group, std::uint32_t other) const noexcept {
    const std::uint32_t port = other > group ? other - group - 1 : all_groups + other - group - 1;
    return ports(port);
  }
  template <class Pass>
  std::int64_t within(std::uint32_t group, std::uint32_t from, std::uint32_t to, std::int64_t at,
                      const Pass& pass_on) noexcept {
    if (from == to) return at;
    return pass_on(local[(std::size_t{group} * routers + from) * routers + to], rate, at) + hop;
  }
  template <class Pass>
  std::int64_t route(std::uint32_t from, std::uint32_t to, std::int64_t at, const Pass& pass_on) noexcept {
    const std::uint32_t source = per_router(from), target = per_router(to);
    const std::uint32_t out = per_group(source), in = per_group(target);
    at += hop;
    if (out == in) return within(out, source - out * routers, target - in * routers, at, pass_on);
    at = within(out, source - out * routers, gateway(out, in), at, pass_on);
    at = pass_on(global[std::size_t{out} * groups + in], rate, at) + hop;
    return within(in, gateway(in, out), target - in * routers, at, pass_on);
  }
  std::size_t memory() const noexcept { return (local.capacity() + global.capacity()) * sizeof(link); }
};

template <class Topology> class network_of final : public network {
public:
  explicit network_of(const world& w)
      : latency_(picoseconds(w.network.latency)), gap_(picoseconds(w.network.gap)), rate_(w.network.bandwidth),
        host_of_(static_cast<std::uint32_t>(w.network.host)),
        cards_(host_of_(static_cast<std::uint32_t>(w.ranks - 1)) + std::size_t{1}),
        copies_(static_cast<std::size_t>(w.ranks)), topology_(w, static_cast<std::uint32_t>(cards_.size())) {}

  std::int64_t deliver(int from, int to, std::size_t bytes, std::int64_t now) override {
    now = std::min(now, never);
    const message m{bytes, rate_(bytes), now + latency_};
    const std::int64_t work = std::max(gap_, m.length), tail = tail_of(bytes);
    const auto source = host_of_(static_cast<std::uint32_t>(from)), target = host_of_(static_cast<std::uint32_t>(to));
    if (source == target) {
      std::int64_t& busy = copies_[static_cast<std::size_t>(from)];
      const std::int64_t begin = std::max(now, busy);
      busy = std::min(begin + work, never);
      return std::min(begin + latency_ / 4 + tail, never);
    }
    std::int64_t& out = cards_[source].out;
    const std::int64_t begin = std::max(now, out);
    out = std::min(begin + work, never);
    const std::int64_t at =
        topology_.route(source, target, begin + latency_,
                        [&m](link& through, const speed& rate, std::int64_t t) { return pass(through, rate, m, t); });
    return std::min(at + tail, never);
  }

  std::int64_t receive(int from, int to, std::size_t bytes, std::int64_t at) override {
    at = std::min(at, never);
    const auto source = host_of_(static_cast<std::uint32_t>(from)), target = host_of_(static_cast<std::uint32_t>(to));
    if (source == target) return at;
    std::int64_t& in = cards_[target].in;
    const std::int64_t tail = tail_of(bytes), begin = std::max(at - tail, in);
    in = std::min(begin + std::max(gap_, rate_(bytes)), never);
    return std::min(begin + tail, never);
  }

  std::size_t memory() const noexcept override {
    return sizeof *this + cards_.capacity() * sizeof(card) + copies_.capacity() * sizeof(std::int64_t) +
           topology_.memory();
  }

private:
  // From the first byte to the last.
  std::int64_t tail_of(std::size_t bytes) const noexcept { return bytes > 1 ? rate_(bytes - 1) : 0; }

  std::int64_t latency_, gap_;
  speed rate_;
  divider host_of_;
  std::vector<card> cards_;
  std::vector<std::int64_t> copies_; // when each rank's copies within its host are done
  Topology topology_;
};

} // namespace

std::unique_ptr<network> make_network(const world& w) {
  switch (parse_topology(w.network.topology).is) {
  case topology::kind::flat:
    break;
  case topology::kind::fat_tree:
    return std::make_unique<network_of<fat_tree>>(w);
  case topology::kind::dragonfly:
    return std::make_unique<network_of<dragonfly>>(w);
  }
  return std::make_unique<network_of<flat>>(w);
}

} // namespace tern::sim::detail
