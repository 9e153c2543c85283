// SPDX-License-Identifier: Apache-2.0
#include <tern/net/failure/liveness.hpp>

#include <algorithm>
#include <utility>

namespace tern::net::detail {

liveness::peer* liveness::find(int rank) {
  if (rank == self_.rank) return &self_;
  const auto at = std::find_if(peers_.begin(), peers_.end(), [&](const peer& p) { return p.rank == rank; });
  return at == peers_.end() ? nullptr : &*at;
}

void liveness::watch(int rank, double now) {
  if (find(rank)) return;
  peer p;
  p.rank = rank;
  p.since = p.heard = now;
  peers_.push_back(p);
}

void liveness::seen(int rank, process_sign what, double now) {
  peer* const p = find(rank);
  if (!p || p->sign == what) return;
  p->sign = what;
  p->since = now;
}

void liveness::heard(int rank, double now) {
  peer* const p = find(rank);
  if (!p) return;
  p->heard = std::max(p->heard, now);
  if (now >= p->asked) p->asked = never;
}

/// One question at a time: messages are not lost, so a second one would tell nothing.
bool liveness::asks(peer& p, double now, std::vector<finding>& found) const {
  if (p.asked != never) return false;
  if (std::exchange(p.greeted, true) && now - p.heard < cfg_.ask_after) return false;
  p.asked = now;
  p.excused = 0;
  found.push_back({p.rank, kind::ask, now});
  return true;
}

void liveness::look_at(peer& p, double now, std::vector<finding>& found) const {
  const auto lose = [&](kind what, double since) {
    p.lost = true;
    found.push_back({p.rank, what, since});
  };
  switch (p.sign) {
  case process_sign::killed:
    return lose(kind::killed, p.since);
  case process_sign::left:
    return now - p.since >= cfg_.grace ? lose(kind::left, p.since) : void();
  case process_sign::stopped:
    return now - p.since >= cfg_.limit ? lose(kind::stopped, p.since) : void();
  case process_sign::traced:
    if (!p.debugged) found.push_back({p.rank, kind::debugged, p.since});
    p.debugged = true;
    return;
  case process_sign::runs:
    return;
  case process_sign::unknown:
    break;
  }
  if (cfg_.silence <= 0 || asks(p, now, found)) return;
  if (p.asked != never && now - p.asked - p.excused >= cfg_.silence) lose(kind::silent, p.heard);
}

std::vector<liveness::finding> liveness::tick(double now) {
  std::vector<finding> found;
  const double passed = last_ == never ? 0 : now - last_;
  last_ = now;
  // A process that was stopped, or had no CPU for long, has seen nothing meanwhile: that counts as
  // one tick. While this rank does not answer itself, no other rank need answer.
  const double lost = passed > cfg_.gap ? passed - cfg_.tick : 0;
  const bool busy = self_.asked != never && now - self_.asked > 2 * cfg_.tick;
  for (peer& p : peers_) {
    p.since = std::min(p.since + lost, now);
    p.heard = std::min(p.heard + lost, now);
    if (p.asked != never) p.excused += busy ? passed : lost;
  }
  self_.heard = std::min(self_.heard + lost, now);
  bool asking = false;
  for (peer& p : peers_) {
    if (!p.lost) look_at(p, now, found);
    asking = asking || (p.asked != never && !p.lost && p.sign == process_sign::unknown);
  }
  if (asking) asks(self_, now, found); // as long as some rank has not answered
  return found;
}

} // namespace tern::net::detail
