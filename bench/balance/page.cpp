// SPDX-License-Identifier: Apache-2.0
#include "bench/balance/page.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "bench/balance/pictures.hpp"
#include "bench/balance/simulated.hpp"
#include "bench/harness/page/page.hpp"

namespace tern::bench::balance {
namespace {

using markdown::count, markdown::head, markdown::number, markdown::row;

std::string seconds(double value) { return number(value, "%.1f s"); }
std::string ratio(double value) { return number(value, "%.4f"); }

/// What the literature measured there: static and diffusion.
constexpr double published[][2] = {{681.8, 494.4}, {704.1, 497.6}, {691.9, 515.2}, {717.8, 515.9}};

std::string literature(const scale& of) {
  std::string text = head({"cores", "", "literature, measured there", "here, literature", "here, clustered"});
  for (std::size_t i = 0; i < std::size(literature_sizes); ++i) {
    const machine_size s = of(literature_sizes[i], tiny_size);
    std::map<std::pair<std::string, std::string>, simulated> runs; // each takes a while, and is used several times
    for (const char* const placement : {"literature", "clustered"})
      for (const char* const policy : {"none", "diffusion", "refine", "gossip"})
        runs.emplace(std::pair(placement, policy), simulated(placement, s, policy));
    const auto both = [&](const std::string& policy, const auto& cell) {
      std::vector<std::string> cells;
      for (const char* const placement : {"literature", "clustered"})
        cells.push_back(cell(runs.at({placement, policy}), runs.at({placement, "none"})));
      return cells;
    };
    const auto add = [&](const std::string& cores, const std::string& what, const std::string& there,
                         const std::vector<std::string>& here) {
      text += row({cores, what, there, here[0], here[1]});
    };
    const auto makespan = [](const simulated& run, const simulated&) { return seconds(run("makespan")); };
    const auto of_static = [](const simulated& run, const simulated& stays) {
      return number(run("makespan") / stays("makespan"), "%.3f");
    };
    const auto of_bound = [](const simulated& run, const simulated&) { return ratio(run("ratio")); };
    add(std::to_string(literature_sizes[i].cores), "static", seconds(published[i][0]), both("none", makespan));
    add("", "diffusion", seconds(published[i][1]), both("diffusion", makespan));
    add("", "diffusion / static", number(published[i][1] / published[i][0], "%.3f"), both("diffusion", of_static));
    add("", "diffusion / bound", "1.03-1.04", both("diffusion", of_bound));
    add("", "refine / bound", "", both("refine", of_bound));
    add("", "gossip / bound", "", both("gossip", of_bound));
  }
  return text;
}

std::string beyond(const scale& of) {
  std::string text = head({"cores", "load", "objects", "of the bound", "moves", "of one object at most",
                           "messages of the policy", "virtual time", "took", "memory"});
  for (const char* const placement : {"literature", "clustered"}) {
    const nlohmann::json r = simulated(placement, of(large, tiny_size), best_policy).report();
    text += row({count(large.cores), std::string(placement) + ", the whole runtime", count(r.at("invocations")),
                 ratio(r.at("ratio")), count(r.at("moves")), count(r.at("most_moves")), count(r.at("messages")),
                 number(r.at("makespan"), "%.0f s"), number(r.at("wall").get<double>() / 60, "%.1f min"),
                 number(r.at("mib").get<double>() / 1024, "%.1f GiB")});
  }
  for (const char* const placement : {"literature", "clustered"}) {
    const nlohmann::json r = modelled(placement, of(huge, tiny_size), best_policy);
    text += row({count(huge.cores), std::string(placement) + ", the model", count(r.at("invocations")),
                 ratio(r.at("makespan").get<double>() / r.at("bound").get<double>()), count(r.at("moves")),
                 count(r.at("most_moves")), count(r.at("messages")), number(r.at("makespan"), "%.0f s"),
                 number(r.at("wall").get<double>() / 60, "%.1f min"), ""});
  }
  return text;
}

struct outcome {
  double ratio;
  std::string moves;
  double remote_gb; ///< of talk
};

/// A load under all policies, none first: makespan over the bound, and how many objects moved.
struct load_row {
  std::string load;
  std::vector<outcome> outcomes;
};

std::vector<load_row> all_loads(const scale& of) {
  const machine_size s = of(nodes, tiny_size);
  std::vector<std::string> policies{"none"};
  policies.insert(policies.end(), std::begin(all_policies), std::end(all_policies));
  std::vector<load_row> rows;
  const auto add = [&](const std::string& load, const auto& run) {
    rows.push_back({load, {}});
    for (const auto& p : policies) {
      const nlohmann::json r = run(p);
      rows.back().outcomes.push_back({r.at("makespan").get<double>() / r.at("bound").get<double>(),
                                      count(r.at("moves")) + " (" + count(r.at("most_moves")) + ")",
                                      r.value("remote_bytes", 0.0) / 1e9});
    }
  };
  for (const load_case& one : other_loads)
    add(one.placement, [&](const std::string& p) { return simulated(one.placement, s, p, one.setting).report(); });
  add("rare", [&](const std::string& p) { return simulated("rare", s, p).report(); });
  add("talk", [&](const std::string& p) { return modelled_talk(s, p); });
  return rows;
}

std::string loads(const scale& of) {
  std::vector<std::string> names{"load", "none"};
  names.insert(names.end(), std::begin(all_policies), std::end(all_policies));
  const std::vector<load_row> rows = all_loads(of);
  std::string text = head(names);
  for (const auto& one : rows) {
    double least = one.outcomes[0].ratio;
    for (const auto& o : one.outcomes) least = std::min(least, o.ratio);
    std::vector<std::string> cells{one.load};
    for (const auto& o : one.outcomes)
      cells.push_back(o.ratio == least ? "**" + number(o.ratio, "%.3f") + "**" : number(o.ratio, "%.3f"));
    text += row(cells);
  }
  names.erase(names.begin() + 1);
  text += "\n" + head(names);
  for (const auto& one : rows) {
    std::vector<std::string> cells{one.load};
    for (std::size_t i = 1; i < one.outcomes.size(); ++i) cells.push_back(one.outcomes[i].moves);
    text += row(cells);
  }
  const auto& talk = rows.back().outcomes; // of all policies, "communication" last
  return text + "\nTalk between ranks: " + number(talk.back().remote_gb, "%.3g") + " GB with `communication`, " +
         number(talk.front().remote_gb, "%.3g") + " GB without a policy.\n";
}

std::string real_ranks(const std::vector<metric>& metrics, const scale& of) {
  std::string text = head({"metric", "ours", "rival", "ratio", "target", ""});
  for (const metric& m : metrics) text += to_markdown(of.tiny() ? measure_tiny(m) : measure(m, 9)) + "\n";
  return text;
}

} // namespace

void write_page(const std::string& path, const std::vector<metric>& real, const scale& of) {
  result_page page(path, {"taken where", "literature", "beyond", "other loads", "real ranks"});
  page.take("taken where", taken_where());
  page.take("literature", literature(of));
  page.take("other loads", loads(of));
  page.take("real ranks", real_ranks(real, of));
  page.take("beyond", beyond(of));
  page.write();
  draw_pictures(of(literature_sizes[3], tiny_size), usual_policy, page.folder());
}

} // namespace tern::bench::balance
