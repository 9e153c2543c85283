// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Properties: what must hold in every run of a job, tried in thousands of simulated ones.
///
///     using namespace tern::property;
///
///     per_case<std::map<int, int>> next; // by sender
///     void note(int from, int number) { TERN_HOLDS(number == (*next)[from]++, "rank 1 starts them in order"); }
///
///     TERN_PROPERTY(order, "ranks=2..8 workers=1..3 faults=delay:reorder messages=1..200") {
///       for (int i = 0; i < knob("messages"); ++i) {
///         tern::send<&note>(1, tern::rank(), i);
///         take_time();
///       }
///     }
///
/// A seed draws a case: a world (sim_world.hpp) and a number for each knob. The body is the main
/// function of every rank of that job; it drives what it tests with random numbers that the seed
/// decides. A case fails if
/// - a TERN_HOLDS does not hold, on any rank, in any fiber, or afterwards;
/// - an exception leaves the body or a handler, or the process ends itself for any other reason;
/// - it is killed by a signal, or takes longer than --timeout;
/// - nothing can happen any more and a rank has not ended, unless the property allows that.
///
/// `property_main.cpp` is the program's main function: it tries seeds in parallel processes, prints
/// how to replay the one that fails, and looks for a smaller case that fails in the same way. Its
/// options: --help.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tern/net/simulate.hpp>

namespace tern::property {

/// Random numbers: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014).
class dice {
public:
  explicit dice(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept;
  /// 0 … n-1. \pre n > 0
  std::int64_t below(std::int64_t n) noexcept;
  /// least … most.
  std::int64_t between(std::int64_t least, std::int64_t most) noexcept { return least + below(most - least + 1); }
  bool chance(double p) noexcept { return part() < p; }
  /// In [0, 1).
  double part() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

private:
  std::uint64_t state_;
};

// For bodies and handlers ---------------------------------------------------------------------------------------------

/// A number of this case, from the range that the property gave. \throws error(not_found) if it
/// gave none.
std::int64_t knob(std::string_view name);
/// The case's world, as drawn.
const sim::world& the_world();
/// The calling rank's random numbers.
dice& rolls();
/// Random numbers that are the same on every rank; `which` tells several such sequences apart.
dice common(std::uint64_t which = 0);
/// By chance of the calling rank: nothing, a yield, some work, or a sleep, of a few microseconds of
/// virtual time.
void take_time();

/// How a job ended.
struct ending {
  bool deadlock = false; ///< as the property allows; `outcome` means nothing then
  sim::outcome outcome;
};
/// Calls `check` once the job is over, outside it: TERN_HOLDS may be used, not Tern's functions.
/// Any rank; in the order of the calls.
void afterwards(std::function<void(const ending&)> check);

namespace detail {
class fresh {
protected:
  fresh();
  ~fresh() = default;

public:
  fresh(const fresh&) = delete;
  fresh& operator=(const fresh&) = delete;
  virtual void make() = 0;
  virtual void drop() = 0;
};
} // namespace detail

/// What all ranks of a case see: simulated ranks run one at a time on one thread, so that plain
/// variables are shared by them without locks. Make it a static object; each case has a new value,
/// default-constructed before the job starts and destroyed after the last check.
template <class T> class per_case final : detail::fresh {
public:
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }

private:
  void make() override { value_.emplace(); }
  void drop() override { value_.reset(); }
  std::optional<T> value_;
};

/// Notes a failure; the job goes on, so that a recorded replay shows what comes of it.
void fail(const char* file, int line, const std::string& what);

/// A knob that sets an option of the job. Static objects only: constructing one enters it.
class option_knob {
public:
  option_knob(const char* name, void (*set)(options& of, std::int64_t value));
  const char* const name;
  void (*const set)(options& of, std::int64_t value);
};

// For the program -----------------------------------------------------------------------------------------------------

/// Static objects only: constructing one enters it.
class declaration {
public:
  declaration(const char* name, const char* cases, void (*body)());
  const char* const name;
  const char* const cases;
  void (*const body)();
};

} // namespace tern::property

/// Declares a property, followed by its body. `cases`, a string literal of words with blanks
/// between them, says which cases there are; all but `ranks` may be left out:
///
///     ranks=2..16            how many
///     workers=1..3           of each
///     faults=delay:reorder   which faults may strike (sim_world.hpp: also slow, pause, crash); each does in half the
///                            cases
///     network=any            other networks than the usual one
///     room=0..8              messages of one rank to another that may be on their way; 0: any number
///     aggregate=0..2         the option of this name, 0: auto, 1: off, 2: on; a knob too
///     deadlock=allowed       a job that cannot end is no failure: needed with crash
///     messages=1..300        any other word: a knob. The shrinker lowers it.
///
/// Small numbers are drawn more often than large ones.
#define TERN_PROPERTY(name, cases)                                                                                     \
  static void property_##name();                                                                                       \
  static const tern::property::declaration declare_##name{#name, cases, property_##name};                              \
  static void property_##name()

/// \param text an expression that makes a string; evaluated only if the condition is false.
#define TERN_HOLDS(condition, text)                                                                                    \
  ((condition) ? void() : tern::property::fail(__FILE__, __LINE__, std::string(text) + " (" #condition ")"))
