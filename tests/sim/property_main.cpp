// SPDX-License-Identifier: Apache-2.0
// The main function of every program of properties.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>

#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/base/options.hpp>
#include <tern/base/topology.hpp>

#include "bugs.hpp"
#include "harness.hpp"

namespace tern::property {
namespace {

const known_environment seeds_variable{"TERN_SIM_SEEDS"};

constexpr const char* help_text = R"(Tries properties in simulated jobs, a seed each, until one fails.

  --seeds N         how many seeds of each property (default 200; the environment variable TERN_SIM_SEEDS goes before)
  --from S          the first seed (1)
  --jobs J          processes at a time (as many as there are CPUs)
  --budget SECONDS  for all properties together; who has not tried --least seeds by then has failed
  --least N         (200, or --seeds if that is less)
  --timeout SECONDS of one seed (20)
  --property NAME   only this one; may be given several times
  --shrink SECONDS  how long to look for a smaller case that fails in the same way (20; 0: not at all)
  --case TEXT       run this one case, in this process; needs --property
  --twice           run each case twice in its process: it has failed if the runs differ
  --junk N          begin each process with a heap in disorder, another one for each N
  --must-fail TEXT  succeed if every property fails for a seed so that its kind and text have TEXT in them
  --bug NAME        in a program with broken copies: have this bug; with --must-fail, the same seeds must hold without it
  --list            print the properties and what cases they have
  --tern-...        Tern's options

Exit code: 0 if all properties held, 1 if one failed, 2 for bad arguments, 3 if there was no time for enough seeds.
)";

struct usage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct arguments {
  std::optional<std::uint64_t> seeds, least;
  std::uint64_t from = 1, junk = 0;
  int jobs = std::max(1, usable_cpus());
  double budget = std::numeric_limits<double>::infinity(), timeout = 20, shrink = 20;
  std::vector<std::string> properties;
  std::optional<std::string> the_case, must_fail, bug;
  bool twice = false, list = false, help = false;
};

template <class T> T number(const std::string& name, const std::string& text, T least) {
  T n{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), n);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || !(n >= least))
    throw usage(name + " needs a number of at least " + std::to_string(least) + ", not '" + text + "'");
  return n;
}

arguments read_arguments(int argc, char** argv) {
  arguments a;
  if (const char* text = std::getenv("TERN_SIM_SEEDS"); text && *text)
    a.seeds = number<std::uint64_t>("TERN_SIM_SEEDS", text, 1);
  const bool given = a.seeds.has_value();
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string {
      if (++i >= argc) throw usage(name + " needs a value");
      return argv[i];
    };
    if (name == "--seeds") {
      const auto n = number<std::uint64_t>(name, value(), 1);
      if (!given) a.seeds = n;
    } else if (name == "--least") {
      a.least = number<std::uint64_t>(name, value(), 0);
    } else if (name == "--from") {
      a.from = number<std::uint64_t>(name, value(), 0);
    } else if (name == "--jobs") {
      a.jobs = number<int>(name, value(), 1);
    } else if (name == "--budget") {
      a.budget = number<double>(name, value(), 0);
    } else if (name == "--timeout") {
      a.timeout = number<double>(name, value(), 0);
    } else if (name == "--shrink") {
      a.shrink = number<double>(name, value(), 0);
    } else if (name == "--junk") {
      a.junk = number<std::uint64_t>(name, value(), 0);
    } else if (name == "--property") {
      a.properties.push_back(value());
    } else if (name == "--case") {
      a.the_case = value();
    } else if (name == "--twice") {
      a.twice = true;
    } else if (name == "--must-fail") {
      a.must_fail = value();
    } else if (name == "--bug") {
      a.bug = value();
    } else if (name == "--list") {
      a.list = true;
    } else if (name == "--help" || name == "-h") {
      a.help = true;
    } else {
      throw usage("unknown argument '" + name + "'");
    }
  }
  return a;
}

std::vector<plan> chosen(const arguments& a) {
  std::vector<plan> all, some;
  for (const declaration* d : declarations()) all.push_back(plan_of(*d));
  if (a.properties.empty()) return all;
  for (const std::string& name : a.properties) {
    const auto it = std::find_if(all.begin(), all.end(), [&](const plan& p) { return p.name == name; });
    if (it == all.end()) {
      std::string known;
      for (const plan& p : all) known += " " + p.name;
      throw usage("there is no property '" + name + "'; there are:" + known);
    }
    some.push_back(*it);
  }
  return some;
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

class program {
public:
  program(arguments a, options o, std::vector<std::string> own)
      : a_(std::move(a)), opts_(std::move(o)), own_(std::move(own)) {
    who_.jobs = a_.jobs;
    who_.timeout = a_.timeout;
    who_.twice = a_.twice;
    who_.junk = a_.junk;
    who_.opts = &opts_;
    deadline_ = monotonic_seconds() + a_.budget;
    if (a_.bug) want_bug(a_.bug->c_str());
    // Each rank 0 says how it begins: not thousands of times.
    set_log_level(opts_.source("log-level") == "default" ? log_level::warning
                                                         : log_level_from(opts_[log_level_option]));
  }

  int one_case() {
    const auto plans = chosen(a_);
    if (a_.properties.size() != 1) throw usage("--case needs one --property");
    const test_case c = parse_case(plans.front(), *a_.the_case);
    const char* name = plans.front().name.c_str();
    const verdict v = run_here(plans.front(), c, opts_, a_.twice, [&](const verdict& bad) {
      std::fprintf(stderr, "%s FAILED: %s: %s\n", name, bad.kind.c_str(), bad.text.c_str());
      std::fflush(stderr);
    });
    for (const std::string& f : v.outcome.faults) std::printf("  %s\n", f.c_str());
    if (v.stuck) std::printf("%s ended in a deadlock, which it may\n", name);
    if (!v.failed || v.outcome.events > 0)
      std::printf("%s%s trace %016llx, %llu events, %llu messages, %.9f s\n", name,
                  v.failed ? "" : " held:", static_cast<unsigned long long>(v.outcome.trace_hash),
                  static_cast<unsigned long long>(v.outcome.events),
                  static_cast<unsigned long long>(v.outcome.messages), v.outcome.seconds);
    std::fflush(stdout);
    if (!v.failed) return 0;
    std::fflush(stderr);
    std::_Exit(1); // stuck fibers may hold what destructors wait for
  }

  int all() {
    int code = 0;
    const auto plans = chosen(a_);
    if (plans.empty()) throw usage("this program has no properties");
    for (std::size_t i = 0; i < plans.size(); ++i) {
      // Each gets an equal part of what is left.
      const double now = monotonic_seconds(), until = now + (deadline_ - now) / static_cast<double>(plans.size() - i);
      const int one = try_property(plans[i], until);
      if (code != 1 && one != 0) code = one;
    }
    return code;
  }

private:
  int try_property(const plan& p, double until) {
    const std::uint64_t seeds = a_.seeds.value_or(200), least = std::min(a_.least.value_or(200), seeds);
    const double begin = monotonic_seconds();
    const bool terminal = isatty(STDERR_FILENO) == 1;
    const auto progress = [&](const tally& t) {
      if (terminal)
        std::fprintf(stderr, "\r%s: %llu of %llu seeds\033[K", p.name.c_str(), static_cast<unsigned long long>(t.done),
                     static_cast<unsigned long long>(seeds));
    };
    verdict other; // of an invariant that is not the one which must break
    const auto counts = [&](const verdict& v) {
      if (!a_.must_fail || (v.kind + ": " + v.text).find(*a_.must_fail) != std::string::npos) return true;
      if (!other.failed) other = v;
      return false;
    };
    const tally t = run_cases(
        p, seeds, [&](std::uint64_t i) { return draw(p, a_.from + i); }, who_, until, counts, progress);
    if (terminal) std::fprintf(stderr, "\r\033[K");
    const double took = monotonic_seconds() - begin;
    if (t.failed_at && a_.must_fail) return as_it_must(p, t, took, until) ? 0 : 1;
    if (t.failed_at) {
      tell_failure(p, t, took);
      return 1;
    }
    const auto done = static_cast<unsigned long long>(t.done);
    if (t.out_of_time)
      std::printf("%s: %llu of %llu seeds in %.1f s, then the time was over\n", p.name.c_str(), done,
                  static_cast<unsigned long long>(seeds), took);
    else if (!other.failed)
      std::printf("%s: held for %llu seeds in %.1f s (%.0f/s), digest %016llx\n", p.name.c_str(), done, took,
                  static_cast<double>(done) / std::max(took, 1e-3), static_cast<unsigned long long>(t.digest));
    int code = 0;
    if (t.done < least) {
      std::printf("%s: TOO FEW SEEDS: %llu were tried, at least %llu are demanded\n", p.name.c_str(), done,
                  static_cast<unsigned long long>(least));
      code = 3;
    }
    if (other.failed) {
      std::printf("%s: ANOTHER INVARIANT BROKE than must, for no seed '%s':\n  %s: %s\n", p.name.c_str(),
                  a_.must_fail->c_str(), other.kind.c_str(), other.text.c_str());
      code = 1;
    } else if (a_.must_fail) {
      std::printf("%s: DID NOT FAIL, which it must\n", p.name.c_str());
      code = 1;
    }
    std::fflush(stdout);
    return code;
  }

  // Does it hold for the same seeds without the bug?
  bool as_it_must(const plan& p, const tally& t, double took, double until) {
    std::printf("%s: failed as it must at seed %llu, after %llu seeds in %.1f s\n  %s: %s\n", p.name.c_str(),
                static_cast<unsigned long long>(a_.from + *t.failed_at), static_cast<unsigned long long>(t.done), took,
                t.failure.kind.c_str(), t.failure.text.c_str());
    std::fflush(stdout);
    if (!a_.bug) return true;
    want_bug(nullptr);
    const tally without = run_cases(
        p, *t.failed_at + 1, [&](std::uint64_t i) { return draw(p, a_.from + i); }, who_, until);
    want_bug(a_.bug->c_str());
    if (without.failed_at) {
      tell_failure(p, without, 0);
      std::printf("%s: FAILS WITHOUT THE BUG TOO: nothing shows that the bug was caught\n", p.name.c_str());
    } else if (without.out_of_time) {
      std::printf("%s: there was no time to try the same seeds without the bug\n", p.name.c_str());
    } else {
      std::printf("%s: held for the same %llu seeds without the bug\n", p.name.c_str(),
                  static_cast<unsigned long long>(without.done));
      return true;
    }
    return false;
  }

  void tell_failure(const plan& p, const tally& t, double took) {
    const std::uint64_t seed = a_.from + *t.failed_at;
    const test_case c = draw(p, seed);
    std::printf("%s: FAILED at seed %llu, after %llu seeds in %.1f s\n  %s: %s\n", p.name.c_str(),
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(t.done), took,
                t.failure.kind.c_str(), t.failure.text.c_str());
    for (std::size_t at = 0, lines = 0; at < t.failure.log.size() && lines < 40; ++lines) {
      const std::size_t end = t.failure.log.find('\n', at);
      std::printf("  | %s\n", t.failure.log.substr(at, end - at).c_str());
      at = std::min(end, t.failure.log.size() - 1) + 1;
    }
    std::printf("  replay: %s\n", replay(p, c).c_str());
    std::fflush(stdout);
    if (a_.shrink <= 0) return;
    const double begin = monotonic_seconds();
    const test_case small = shrink(p, c, t.failure.signature(), who_, begin + a_.shrink);
    if (to_string(small) == to_string(c))
      std::printf("  no smaller case was found in %.1f s\n", monotonic_seconds() - begin);
    else
      std::printf("  smaller, found in %.1f s: %s\n", monotonic_seconds() - begin, replay(p, small).c_str());
    std::fflush(stdout);
  }

  // For people to paste into a shell.
  std::string replay(const plan& p, const test_case& c) const {
    std::string text;
    for (char** each = environ; *each; ++each)
      if (const std::string_view word(*each); word.starts_with("TERN_") && !word.starts_with("TERN_SIM")) {
        const std::string_view name = word.substr(0, word.find('='));
        text +=
            std::string(name) + "=" + quoted(std::string(word.substr(std::min(name.size() + 1, word.size())))) + " ";
      }
    std::error_code ignored;
    text += std::filesystem::read_symlink("/proc/self/exe", ignored).string();
    for (const std::string& word : own_) text += " " + quoted(word);
    if (a_.bug) text += " --bug " + *a_.bug;
    text += " --property " + p.name + " --case " + quoted(to_string(c));
    if (a_.twice) text += " --twice";
    if (opts_.help().find("--tern-trace") != std::string::npos) text += " --tern-trace=replay.json";
    return text;
  }

  const arguments a_;
  const options opts_;
  const std::vector<std::string> own_; // Tern's
  crew who_;
  double deadline_;
};

int run(int argc, char** argv) {
  std::vector<std::string> own;
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with("--tern-") && !std::string_view(argv[i]).starts_with("--tern-trace"))
      own.emplace_back(argv[i]);
  options opts = options::parse(argc, argv);
  arguments a = read_arguments(argc, argv);
  if (a.help || opts.help_requested()) {
    std::fputs(a.help ? help_text : opts.help().c_str(), stdout);
    return 0;
  }
  if (a.list) {
    for (const plan& p : chosen(a))
      for (const declaration* d : declarations())
        if (d->name == p.name) std::printf("%s: %s\n", d->name, d->cases);
    return 0;
  }
  const bool one = a.the_case.has_value();
  program all(std::move(a), std::move(opts), std::move(own));
  return one ? all.one_case() : all.all();
}

} // namespace
} // namespace tern::property

int main(int argc, char** argv) {
  try {
    return tern::property::run(argc, argv);
  } catch (const tern::property::usage& e) {
    std::fprintf(stderr, "%s: %s (--help)\n", argv[0], e.what());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
  }
  return 2;
}
