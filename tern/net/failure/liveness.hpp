// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Which of the ranks that one watches are still there: a state machine over moments that its
/// caller gives it, without a clock, a thread or a message of its own. Internal.
///
/// Of a rank on the same host the operating system tells: `seen`. That it says nothing for hours is
/// no sign of death then, however many ranks share a core. Of others nothing is known but what they
/// answer: `heard`.

#include <cstdint>
#include <vector>

namespace tern::net::detail {

/// What the operating system says of a process.
enum class process_sign : std::uint8_t {
  unknown, ///< nothing: it is on another host
  runs,    ///< or waits for something
  stopped, ///< by a signal
  traced,  ///< a debugger holds it
  left,    ///< it has ended by itself, or was asked to
  killed,  ///< it has ended in another way
};

class liveness {
public:
  /// In seconds.
  struct settings {
    double limit = 5;     ///< that a process may be stopped
    double silence = 0;   ///< that a rank may leave a question without answer; 0: for ever
    double tick = 0.5;    ///< between two calls of `tick`, more or less
    double gap = 2;       ///< between two: a rank that is kept from them for longer was stopped itself
    double ask_after = 1; ///< that nothing was heard of a rank before it is asked, but for the first time
    double grace = 1.5;   ///< for what ends the job because a process has left: mostly its launcher
  };
  enum class kind : std::uint8_t {
    ask = 1,  ///< is to be asked whether it is there
    debugged, ///< said once
    stopped,  ///< for longer than the limit
    left,
    killed,
    silent, ///< for longer than the limit
  };
  struct finding {
    int rank = -1;
    kind what = kind::ask;
    double since = 0; ///< the moment when it was first so
  };

  /// \param self the watching rank: it asks itself too, and how long others are silent counts only
  /// while it answers, since a rank that computes does not hear either.
  liveness(const settings& s, int self) : cfg_(s), self_{self} {}

  /// A rank is to be watched; twice does no harm.
  void watch(int rank, double now);
  /// The operating system says so.
  void seen(int rank, process_sign what, double now);
  /// A message of it, or its answer, came then: the last one may be told of again and again.
  void heard(int rank, double now);
  /// What is new. Each rank is found lost once at most.
  std::vector<finding> tick(double now);

private:
  struct peer {
    int rank = -1;
    process_sign sign = process_sign::unknown;
    double since = 0;     // it has this sign
    double heard = 0;     // last
    double asked = never; // the question that has no answer
    double excused = 0;   // of the time since then
    bool greeted = false, debugged = false, lost = false;
  };
  static constexpr double never = -1;
  peer* find(int rank);
  bool asks(peer& p, double now, std::vector<finding>& found) const;
  void look_at(peer& p, double now, std::vector<finding>& found) const;

  const settings cfg_;
  peer self_;
  std::vector<peer> peers_;
  double last_ = never; // tick
};

} // namespace tern::net::detail
