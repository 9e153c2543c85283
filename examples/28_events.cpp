// SPDX-License-Identifier: Apache-2.0
// Events: pieces of a ring of metal, each of which goes on when both of its neighbours have spoken;
// at the end one of them has access to all.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>

#include <tern/tern.hpp>

constexpr std::int64_t pieces = 12, steps = 20;

class piece {
public:
  piece() = default; // for moves
  piece(const tern::mobile_array<piece>& ring, const tern::indices<1>& at) : ring_(ring) {
    if (at[0] == 0) cells_[0] = 1000; // degrees
  }
  void begin() {
    const tern::event ready = tern::make_event<&piece::go>(tern::self<piece>(), 3); // for three signals
    const std::int64_t here = tern::array_index<1>()[0];
    tern::send<&piece::meet>(ring_((here + 1) % pieces), 0, ready); // this is its left one
    tern::send<&piece::meet>(ring_((here + pieces - 1) % pieces), 1, ready);
    events_[2] = ready; // its own: a piece does not go on before it has told its neighbours
  }
  void learn(const tern::event& end) { end_ = end; }
  void meet(std::size_t side, const tern::event& theirs) { events_[side] = theirs; }
  void tell() {
    tern::signal(events_[0], 1, cells_.front());
    tern::signal(events_[1], 0, cells_.back());
    tern::signal(events_[2], 2);
    for (tern::event& e : events_) e = e.next_round();
  }
  void go(const tern::signals& in) { // in the order of the numbers, whichever came first
    double before = in.get<double>(0);
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      const double behind = i + 1 < cells_.size() ? cells_[i + 1] : in.get<double>(1), now = cells_[i];
      cells_[i] = now + 0.25 * (before - 2 * now + behind);
      before = now;
    }
    if (++step_ == steps) return tern::signal(end_, tern::array_index<1>()[0], tern::self<piece>()); // brings itself
    tern::rearm(in.of()); // a neighbour may have signalled the next round already
    tell();
  }
  // When all pieces are done, of one of them, with access to all: as hot everywhere.
  void level(std::span<piece* const> ring) {
    double sum = 0;
    for (const piece* const p : ring) sum += p->heat();
    for (piece* const p : ring) p->cells_.fill(sum / (pieces * static_cast<double>(cells_.size())));
  }
  double heat() const {
    double sum = 0;
    for (const double c : cells_) sum += c;
    return step_ == steps ? sum : 0;
  }
  template <class A> void serialize(A& ar) { ar(ring_, events_, end_, cells_, step_); }

private:
  tern::mobile_array<piece> ring_;
  std::array<tern::event, 3> events_;
  tern::event end_; // of all pieces
  std::array<double, 8> cells_{};
  std::int64_t step_ = 0;
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::mobile_array<piece> ring;
    if (tern::rank() == 0) {
      ring = tern::mobile_array<piece>({.name = "ring"}, {pieces});
      tern::send<&piece::begin>(ring);
      tern::send<&piece::learn>(ring, tern::make_event<&piece::level>(ring(0), pieces));
    }
    tern::quiesce(); // all know their neighbours' events
    if (tern::rank() == 0) {
      tern::send<&piece::tell>(ring);
      for (int i = 0; i < pieces; ++i) tern::migrate(ring(i), i % tern::size()).get(); // what has come goes with them
    }
    tern::quiesce(); // no signal waits any more
    if (tern::rank() > 0) return 0;
    const double heat = tern::reduce<&piece::heat>(ring, std::plus<>()).get();
    const double one = tern::call<&piece::heat>(ring(pieces - 1)).get();
    std::printf("%.3f of heat after %d steps, %.3f in each piece\n", heat, static_cast<int>(steps), one);
    return std::fabs(heat - 1000) < 1e-9 && std::fabs(one * pieces - 1000) < 1e-9 ? 0 : 1;
  });
}
