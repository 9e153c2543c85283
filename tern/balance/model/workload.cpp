// SPDX-License-Identifier: Apache-2.0
/// \file
/// Made-up work, and what no schedule of some work can beat.
#include <tern/balance/workload.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <tern/balance/policies/shared/random.hpp>
#include <tern/base/error.hpp>

namespace tern::balance {
namespace {

void require(bool good, const std::string& of, const std::string& wrong, const char* hint) {
  if (!good) throw error(errc::invalid_argument, of + " " + wrong, hint);
}

bool amount(double x) { return x >= 0 && std::isfinite(x); }

double slowness(const workload& w, int rank) { return w.slow.empty() ? 1 : w.slow[static_cast<std::size_t>(rank)]; }

// An invocation's time when as many workers as possible share it.
double at_least(const workload& w, const workload::object& x, std::size_t phase) {
  return x.seconds[phase] / std::min(x.tasklets, static_cast<double>(w.workers));
}

} // namespace

double workload::bound() const {
  double speed = 0, fastest = 0;
  for (int r = 0; r < ranks; ++r) {
    speed += workers / slowness(*this, r);
    fastest = std::max(fastest, 1 / slowness(*this, r));
  }
  double all = 0;
  for (std::size_t p = 0; p < phases(); ++p) {
    double work = 0, heaviest = 0;
    for (const object& x : objects) {
      work += x.seconds[p];
      heaviest = std::max(heaviest, at_least(*this, x, p));
    }
    all += std::max(work / speed, heaviest / fastest);
  }
  return all;
}

double workload::static_bound() const {
  struct sum {
    double work = 0, heaviest = 0;
  };
  double all = 0;
  for (std::size_t p = 0; p < phases(); ++p) {
    std::vector<sum> sums(static_cast<std::size_t>(ranks));
    for (const object& x : objects) {
      sum& of = sums[static_cast<std::size_t>(x.rank)];
      of.work += x.seconds[p];
      of.heaviest = std::max(of.heaviest, at_least(*this, x, p));
    }
    double longest = 0;
    for (int r = 0; r < ranks; ++r) {
      const sum& of = sums[static_cast<std::size_t>(r)];
      longest = std::max(longest, std::max(of.work / workers, of.heaviest) * slowness(*this, r));
    }
    all += longest;
  }
  return all;
}

void check(const workload& w) {
  const std::string whole = "a workload";
  require(w.ranks >= 1 && w.ranks <= 1 << 23, whole, "of " + std::to_string(w.ranks) + " ranks",
          "give it 1 to 8,388,608");
  require(w.workers >= 1 && w.workers <= 1 << 16, whole, "with " + std::to_string(w.workers) + " workers on each rank",
          "give it 1 to 65,536");
  require(w.objects.size() < 0xffffffffu, whole, "of " + std::to_string(w.objects.size()) + " objects",
          "give it fewer than 2^32 - 1");
  require(w.slow.empty() || w.slow.size() == static_cast<std::size_t>(w.ranks), whole,
          "says of " + std::to_string(w.slow.size()) + " ranks how slow they are, and has " + std::to_string(w.ranks),
          "say it of all or of none");
  for (std::size_t r = 0; r < w.slow.size(); ++r)
    require(w.slow[r] > 0 && std::isfinite(w.slow[r]), "rank " + std::to_string(r),
            "is " + std::to_string(w.slow[r]) + " times slow", "give a number above 0");
  for (std::size_t i = 0; i < w.objects.size(); ++i) {
    const workload::object& x = w.objects[i];
    const bool good = x.rank >= 0 && x.rank < w.ranks && amount(x.bytes) && x.seconds.size() == w.phases() &&
                      std::all_of(x.seconds.begin(), x.seconds.end(), amount) &&
                      (x.device.empty() || x.device.size() == w.phases()) &&
                      std::all_of(x.device.begin(), x.device.end(), amount) && x.tasklets >= 1 &&
                      std::isfinite(x.tasklets);
    if (good) continue; // names are only made up for what is wrong: there may be millions
    const std::string name = "object " + std::to_string(i);
    require(x.rank >= 0 && x.rank < w.ranks, name, "is on rank " + std::to_string(x.rank), "there is no such rank");
    require(amount(x.bytes), name, "takes " + std::to_string(x.bytes) + " bytes", "give a number from 0");
    require(x.seconds.size() == w.phases(), name,
            "has " + std::to_string(x.seconds.size()) + " phases, and the first object " + std::to_string(w.phases()),
            "give each object the same number of phases");
    require(x.device.empty() || x.device.size() == w.phases(), name,
            "uses devices in " + std::to_string(x.device.size()) + " of " + std::to_string(w.phases()) + " phases",
            "give their times for all phases or for none");
    require(x.tasklets >= 1 && std::isfinite(x.tasklets), name,
            "is shared by " + std::to_string(x.tasklets) + " workers", "give a number from 1");
    require(false, name, "takes a time that is negative or no number", "give seconds from 0");
  }
  for (std::size_t i = 0; i < w.links.size(); ++i) {
    const workload::link& l = w.links[i];
    if (l.from < w.objects.size() && l.to < w.objects.size() && amount(l.bytes) && amount(l.messages)) continue;
    const std::string name = "link " + std::to_string(i);
    require(l.from < w.objects.size() && l.to < w.objects.size(), name,
            "is from object " + std::to_string(l.from) + " to " + std::to_string(l.to), "there is no such object");
    require(false, name, "has bytes or messages that are negative or no number", "give numbers from 0");
  }
}

const char* const placements = "literature|clustered|pareto|burst|slow|talk|rare";

namespace {

class maker {
public:
  explicit maker(const synthetic& s)
      : s_(s), random_(s.seed), workers_(static_cast<std::size_t>(s.ranks) * static_cast<std::size_t>(s.workers)),
        each_(static_cast<std::size_t>(s.per_worker)) {
    made_.ranks = s.ranks;
    made_.workers = s.workers;
  }

  workload make() {
    made_.objects.resize(workers_ * each_);
    for (std::size_t i = 0; i < made_.objects.size(); ++i) {
      workload::object& x = made_.objects[i];
      x.rank = static_cast<int>(i / each_ / static_cast<std::size_t>(s_.workers));
      x.bytes = s_.bytes;
      x.seconds.resize(static_cast<std::size_t>(s_.phases));
      const double takes = s_.placement == "pareto" ? pareto() : s_.seconds * normal();
      for (std::size_t p = 0; p < x.seconds.size(); ++p) x.seconds[p] = whole(takes * (heavy(i, p) ? s_.heavier : 1));
    }
    if (s_.placement == "slow") {
      made_.slow.assign(static_cast<std::size_t>(s_.ranks), 1);
      made_.slow[static_cast<std::size_t>(s_.ranks) / 2] = 4; // not rank 0, which is special to some policies
    }
    if (s_.placement == "rare") rare();
    if (s_.placement == "talk") talk();
    return std::move(made_);
  }

private:
  // Nanoseconds: in the last digits, machines and compilers differ.
  static double whole(double seconds) { return std::round(seconds * 1e9) / 1e9; }
  // An invocation takes some time, however wide times are spread.
  double normal() { return std::max(0.01, 1 + s_.variation * random_.normal()); }
  double pareto() {
    const double root = std::cbrt(1 - random_.fraction());
    return std::min(s_.seconds / 3 / (root * root),
                    s_.seconds * s_.per_worker); // a third: the mean is three times that
  }

  // Is worker `w` of the `share` of them that comes after `from` others?
  bool within(std::size_t w, double from, double share) const {
    const auto of = [&](double x) { return static_cast<std::size_t>(std::llround(x * static_cast<double>(workers_))); };
    return (w + workers_ - of(from) % workers_) % workers_ < of(share);
  }

  bool heavy(std::size_t object, std::size_t phase) const {
    const std::size_t worker = object / each_;
    if (s_.placement == "literature") return within(worker, 0, 0.4) && object % 2 == 0;
    if (s_.placement == "clustered" || s_.placement == "talk") return within(worker, 0, 0.2);
    // By half their share at a time, so that one phase says something about the next, and not all.
    if (s_.placement == "burst") return within(worker, 0.1 * static_cast<double>(phase % 10), 0.2);
    return false;
  }

  void rare() {
    for (std::size_t begin = 0; begin < made_.objects.size(); begin += 1000) {
      const std::size_t n = std::min<std::size_t>(1000, made_.objects.size() - begin);
      for (double& seconds : made_.objects[begin + random_.below(n)].seconds) seconds *= 100;
    }
  }

  void talk() {
    const std::size_t n = made_.objects.size();
    auto width = static_cast<std::size_t>(std::sqrt(static_cast<double>(n)));
    while (n % width != 0) --width;
    std::vector<std::uint32_t> at(n); // the torus's places, row by row
    std::iota(at.begin(), at.end(), 0u);
    for (std::size_t i = n; i > 1; --i) std::swap(at[i - 1], at[random_.below(i)]);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t right = i % width + 1 == width ? i + 1 - width : i + 1, down = (i + width) % n;
      for (const std::size_t to : {right, down})
        if (to != i) made_.links.push_back({at[i], at[to], s_.bytes, 16});
    }
  }

  const synthetic& s_;
  detail::random_numbers random_;
  std::size_t workers_, each_;
  workload made_;
};

} // namespace

workload make(const synthetic& s) {
  const std::string words = "|" + std::string(placements) + "|";
  if (s.placement.empty() || s.placement.find('|') != std::string::npos ||
      words.find("|" + s.placement + "|") == std::string::npos)
    throw error(errc::invalid_option, "there is no placement of loads \"" + s.placement + "\"",
                "allowed: " + std::string(placements));
  const auto objects = static_cast<double>(s.ranks) * s.workers * s.per_worker;
  const std::string of = "a synthetic workload";
  require(s.ranks >= 1 && s.workers >= 1 && s.per_worker >= 1 && s.phases >= 1 && objects < 0xffffffffu, of,
          "of " + std::to_string(s.ranks) + " ranks with " + std::to_string(s.workers) + " workers of " +
              std::to_string(s.per_worker) + " objects in " + std::to_string(s.phases) + " phases",
          "give at least 1 of each, and fewer than 2^32 - 1 objects");
  require(amount(s.seconds) && amount(s.variation) && amount(s.heavier) && amount(s.bytes), of,
          "with a negative time, variation, factor or number of bytes", "give numbers from 0");
  workload made = maker(s).make();
  check(made);
  return made;
}

} // namespace tern::balance
