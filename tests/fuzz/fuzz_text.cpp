// SPDX-License-Identifier: Apache-2.0
// What people write: the text of a simulated world, an options file, a command line. Any text is a
// value or error(invalid_option). An input is which of the three, and the text.
#include "fuzz.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include <tern/base/options.hpp>
#include <tern/net/sim_world.hpp>

namespace {

const tern::option<bool> a_switch{"fuzz-switch", false, "a switch"};
const tern::option<int> a_number{"fuzz-number", 4, "a number", tern::between(1, 100)};
const tern::option<std::int64_t> a_long{"fuzz-long", 4, "a number"};
const tern::option<double> a_real{"fuzz-real", 0.5, "a number", tern::at_least(0.0)};
const tern::option<std::string> a_word{"fuzz-word", "a", "a word", tern::one_of({"a", "b"})};

void world(std::string_view text) {
  tern::sim::world w;
  if (!fuzz::accepts({tern::errc::invalid_option}, [&] { w = tern::sim::parse_world(text); })) return;
  const std::string written = to_string(w);
  const tern::sim::world again = tern::sim::parse_world(written); // what it throws is a finding
  fuzz::require(to_string(again) == written, "a world's text differs when it was read and written");
  const auto same = [](double a, double b) { return a == b; };
  fuzz::require(
      again.ranks == w.ranks && again.workers == w.workers && again.seed == w.seed && again.slots == w.slots &&
          same(again.preempt, w.preempt) && same(again.step, w.step) &&
          same(again.network.latency, w.network.latency) && same(again.network.overhead, w.network.overhead) &&
          same(again.network.gap, w.network.gap) && same(again.network.bandwidth, w.network.bandwidth) &&
          again.network.topology == w.network.topology && same(again.network.taper, w.network.taper) &&
          same(again.network.hop, w.network.hop) && again.network.host == w.network.host &&
          same(again.network.jitter, w.network.jitter) && same(again.faults.delay, w.faults.delay) &&
          same(again.faults.reorder, w.faults.reorder) && again.faults.slow.size() == w.faults.slow.size() &&
          again.faults.pause.size() == w.faults.pause.size() && again.faults.crash.size() == w.faults.crash.size(),
      "a world differs when it was written and read");
  for (std::size_t i = 0; i < w.faults.slow.size(); ++i)
    fuzz::require(again.faults.slow[i].rank == w.faults.slow[i].rank &&
                      same(again.faults.slow[i].factor, w.faults.slow[i].factor),
                  "a slow rank differs");
  for (std::size_t i = 0; i < w.faults.pause.size(); ++i)
    fuzz::require(again.faults.pause[i].rank == w.faults.pause[i].rank &&
                      same(again.faults.pause[i].at, w.faults.pause[i].at) &&
                      same(again.faults.pause[i].seconds, w.faults.pause[i].seconds),
                  "a pause differs");
  for (std::size_t i = 0; i < w.faults.crash.size(); ++i)
    fuzz::require(again.faults.crash[i].rank == w.faults.crash[i].rank &&
                      same(again.faults.crash[i].at, w.faults.crash[i].at),
                  "a crash differs");
}

void parse(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  fuzz::accepts({tern::errc::invalid_option}, [&] {
    const tern::options opts = tern::options::parse(argc, argv.data());
    fuzz::require(opts[a_number] >= 1 && opts[a_number] <= 100 && opts[a_real] >= 0 &&
                      (opts[a_word] == "a" || opts[a_word] == "b"),
                  "an option has a value that is not allowed");
    static_cast<void>(opts[a_switch]);
    static_cast<void>(opts[a_long]);
    static_cast<void>(opts.help());
  });
}

void options_file(std::string_view text) {
  const int file = ::memfd_create("options", 0);
  fuzz::require(file >= 0, "no memory file");
  fuzz::require(::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "cannot write");
  parse({"fuzz", "--tern-options=/proc/self/fd/" + std::to_string(file)});
  ::close(file);
}

void command_line(std::string_view text) {
  std::vector<std::string> arguments{"fuzz"};
  for (;;) {
    const std::size_t end = text.find('\n');
    const std::string_view one = text.substr(0, end);
    if (!one.starts_with("--tern-options")) arguments.emplace_back(one); // no file of this machine
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  parse(std::move(arguments));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const auto which = in.number();
  const auto bytes = in.rest();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size()); // of its own, for the sanitizer
  switch (which % 3) {
  case 0:
    world(text);
    break;
  case 1:
    options_file(text);
    break;
  default:
    command_line(text);
  }
  return 0;
}
