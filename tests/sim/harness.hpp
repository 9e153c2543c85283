// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The inside of the property harness: cases as values and as text, one case in this process, many
/// in others, and smaller ones that fail in the same way.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/base/options.hpp>
#include <tern/net/sim_world.hpp>

#include "property.hpp"

namespace tern::property {

struct range {
  std::int64_t least = 0, most = 0;
};

/// A declaration's `cases`, read.
struct plan {
  std::string name;
  void (*body)() = nullptr;
  range ranks{1, 1}, workers{1, 1}, room{0, 0};
  std::vector<std::string> faults;
  bool any_network = false, deadlock_allowed = false;
  std::map<std::string, range> knobs;
};
/// \throws error(invalid_argument) that names the property and the word.
plan plan_of(const declaration& d);
const std::vector<const declaration*>& declarations();

struct test_case {
  sim::world world;
  std::map<std::string, std::int64_t> knobs;
};
test_case draw(const plan& p, std::uint64_t seed);
/// `ranks=3,seed=7;messages=12`. `parse_case` makes the same case of it.
std::string to_string(const test_case& c);
/// \throws error(invalid_option) for a text that is no case of the property.
test_case parse_case(const plan& p, std::string_view text);

/// How a case came out.
struct verdict {
  bool failed = false;
  std::string kind; ///< check, exception, deadlock, replay; from outside: signal, exit, time-out
  std::string text; ///< what failed, and where
  std::string log;  ///< what it had written by then
  sim::outcome outcome;
  bool stuck = false; ///< an allowed deadlock
  /// Two failures with one signature are taken for the same: kind and text without numbers.
  std::string signature() const;
  /// Equal for equal runs.
  std::uint64_t digest() const;
};

/// Runs the case in this process. What ends the process, or is about to, is given to `report`
/// before that, as soon as it is known: only the first failure counts.
/// \param twice a second run that differs is a failure too.
verdict run_here(const plan& p, const test_case& c, const options& opts, bool twice,
                 const std::function<void(const verdict&)>& report);

/// How many processes do it, and what stops them.
struct crew {
  int jobs = 1;
  double timeout = 20; ///< of one case, seconds
  bool twice = false;
  std::uint64_t junk = 0; ///< not 0: processes begin with a heap in such a disorder
  const options* opts = nullptr;
};
struct tally {
  std::uint64_t done = 0;   ///< cases that came out well
  std::uint64_t digest = 0; ///< of these, whatever their order
  bool out_of_time = false;
  std::optional<std::uint64_t> failed_at; ///< the first that failed: all before it are done
  verdict failure;
};
/// Runs cases 0 … n-1 in other processes until the first one that fails, or until `deadline` (of
/// monotonic_seconds).
/// \param matters which failures count; if empty, all. \param progress called now and then.
tally run_cases(const plan& p, std::uint64_t n, const std::function<test_case(std::uint64_t)>& make, const crew& who,
                double deadline, const std::function<bool(const verdict&)>& matters = {},
                const std::function<void(const tally&)>& progress = {});
double monotonic_seconds();

/// Looks for the smallest case that fails with this signature: fewer faults, the usual network,
/// fewer workers and ranks, lower knobs; each with a few seeds, since a smaller case takes another
/// course.
test_case shrink(const plan& p, test_case c, const std::string& signature, const crew& who, double deadline);

} // namespace tern::property
