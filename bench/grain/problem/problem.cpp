// SPDX-License-Identifier: Apache-2.0
#include "bench/grain/problem/problem.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace tern::bench::grain {
namespace {

constexpr int usual_radix = 5;

[[noreturn]] void unknown(const std::string& word, const std::string& name) {
  throw std::invalid_argument("\"" + word + "\" in \"" + name +
                              "\" means nothing: see bench/grain/problem/problem.hpp");
}

/// A number at the beginning of `text`, which is taken away there; 0 if there is none.
int number_in(std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  text.erase(0, static_cast<std::size_t>(end - text.data()));
  return value;
}

pattern pattern_named(const std::string& name, const std::string& whole) {
  using enum pattern;
  constexpr std::array<std::pair<const char*, pattern>, 8> all{{{"trivial", trivial},
                                                                {"stencil", stencil},
                                                                {"fft", fft},
                                                                {"tree", tree},
                                                                {"blocks", blocks},
                                                                {"nearest", nearest},
                                                                {"spread", spread},
                                                                {"random", random}}};
  for (const auto& [known, value] : all)
    if (name == known) return value;
  unknown(name, whole);
}

/// A number of [0, 1) for each task, the same in each run.
double chance(int step, int column) {
  std::uint64_t x = (static_cast<std::uint64_t>(step) << 32) + static_cast<std::uint64_t>(column) + 1;
  x ^= x >> 12; // xorshift* (Marsaglia 2003), after a spread of the few bits that differ
  x *= 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  x *= 0x2545f4914f6cdd1dull;
  return static_cast<double>(x >> 11) * 0x1p-53;
}

std::string text_of(stamp s) { return "column " + std::to_string(s.column) + " in step " + std::to_string(s.step); }

stamp stamp_at(std::span<const std::byte> bytes, std::size_t offset) {
  stamp found;
  std::memcpy(&found, bytes.data() + offset, sizeof found);
  return found;
}

} // namespace

problem::problem(const std::string& whole) : name(whole) {
  std::vector<std::string> words;
  std::istringstream in(whole);
  for (std::string one; std::getline(in, one, '.');) words.push_back(one);
  if (words.size() < 2) unknown(whole, whole);
  std::string shape = words[0];
  const std::size_t digits = std::min(shape.find_first_of("0123456789"), shape.size());
  std::string after = shape.substr(digits);
  shape.resize(digits);
  const int radix = after.empty() ? usual_radix : number_in(after), width = number_in(words[1]);
  if (!after.empty() || !words[1].empty()) unknown(words[0] + "." + words[1], whole);
  truth = plan = grid(pattern_named(shape, whole), width, radix);
  for (std::size_t i = 2; i < words.size(); ++i) {
    std::string word = words[i];
    const auto value = static_cast<std::size_t>(number_in(word));
    if (word == "memory" && value == 0) {
      work = kernel::memory;
    } else if (word == "stays" && value == 0) {
      load = imbalance::stays;
    } else if (word == "fresh" && value == 0) {
      load = imbalance::fresh;
    } else if (word == "broken" && value == 0) {
      const int column = width / 2; // the first one of the second of two ranks
      const auto needed = truth.dependences(1, column);
      if (needed.empty()) throw std::invalid_argument(whole + ": there is no dependence that could be left out");
      plan.drop(1, column, needed.front());
    } else if ((word == "B" || word == "KiB") && value > 0) {
      bytes = value * (word == "KiB" ? 1024 : 1);
    } else if (word == "us" && value > 0) {
      microseconds = static_cast<double>(value);
    } else {
      unknown(words[i], whole);
    }
  }
  if (bytes < least_bytes || bytes % least_bytes != 0)
    throw std::invalid_argument(whole + ": outputs have a multiple of " + std::to_string(least_bytes) + " bytes");
}

long problem::iterations(int step, int column, long mean) const noexcept {
  if (load == imbalance::none) return mean;
  const double part = load == imbalance::stays ? (column + 0.5) / width() : chance(step, column);
  return static_cast<long>(2 * part * static_cast<double>(mean));
}

void write_output(std::span<std::byte> output, stamp of) {
  for (std::size_t at = 0; at < output.size(); at += sizeof of) std::memcpy(output.data() + at, &of, sizeof of);
}

void check_input(std::span<const std::byte> input, stamp of, stamp task) {
  const auto check = [&](std::size_t offset) {
    const stamp found = stamp_at(input, offset);
    if (found == of) return;
    throw std::runtime_error("the task of " + text_of(task) + " needs the output of " + text_of(of) + ", and byte " +
                             std::to_string(offset) + " of what it got is of " + text_of(found));
  };
  if (input.size() < sizeof of)
    throw std::runtime_error("the task of " + text_of(task) + " needs the output of " + text_of(of) +
                             ", and has got nothing");
  for (std::size_t at = 0; at < input.size(); at += page_bytes) check(at);
  check(input.size() - sizeof of);
}

void check_run(const problem& p, int steps, long tasks, long inputs) {
  const long wanted = static_cast<long>(steps) * p.width(), wanted_inputs = static_cast<long>(p.truth.inputs(steps));
  if (tasks != wanted || inputs != wanted_inputs)
    throw std::runtime_error(p.name + ": " + std::to_string(tasks) + " tasks with " + std::to_string(inputs) +
                             " inputs have run instead of " + std::to_string(wanted) + " with " +
                             std::to_string(wanted_inputs));
}

} // namespace tern::bench::grain
