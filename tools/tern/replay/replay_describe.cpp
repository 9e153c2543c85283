// SPDX-License-Identifier: Apache-2.0
/// \file
/// `tern replay --describe`: what is in a recording; and how tables and numbers are written.
#include "tools/tern/replay/replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "tools/pictures/pictures.hpp"

namespace tern::tool {
namespace {

constexpr double mib = 1024 * 1024;

/// Characters, where UTF-8 has several bytes for one.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}
std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string blanks(width > width_of(text) ? width - width_of(text) : 0, ' ');
  return left ? text + blanks : blanks + text;
}

std::string least_mean_most(const std::vector<double>& of, std::string (*text)(double)) {
  const double mean = std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
  const auto [least, most] = std::minmax_element(of.begin(), of.end());
  std::string line = "least " + text(*least) + ", mean " + text(mean) + ", most " + text(*most);
  if (mean > 0) line += " (" + fixed(*most / mean, 3) + " times the mean)";
  return line;
}

/// Of each worker at its last sample.
std::vector<double> busy_at_end(const balance::recording& r) {
  std::map<std::pair<int, int>, double> last;
  for (const auto& b : r.busies) last[{b.rank, b.worker}] = b.seconds * r.unit;
  std::vector<double> busy;
  if (last.empty()) return busy;
  // Not all that the file claims to have, but as many ranks as it tells of.
  const int ranks = last.rbegin()->first.first + 1;
  int workers = 0;
  for (const auto& [where, seconds] : last) workers = std::max(workers, where.second + 1);
  if (static_cast<double>(ranks) * workers > 1 << 26) return busy;
  busy.resize(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(workers));
  for (const auto& [where, seconds] : last)
    busy[static_cast<std::size_t>(where.first) * static_cast<std::size_t>(workers) +
         static_cast<std::size_t>(where.second)] = seconds;
  return busy;
}

struct sum {
  std::uint64_t objects = 0, invocations = 0;
  double bytes = 0, seconds = 0, device = 0;
};

void describe_objects(const balance::recording& r) {
  std::vector<sum> types(r.names.size());
  std::map<int, double> ranks;
  double all = 0;
  std::size_t at = 0;
  for (const auto& x : r.objects) {
    sum& type = types[x.type];
    ++type.objects;
    type.bytes += x.bytes;
    for (; at < r.works.size() && r.works[at].object == x.id; ++at) {
      const auto& w = r.works[at];
      type.invocations += w.invocations;
      type.seconds += w.seconds * r.unit;
      type.device += w.device * r.unit;
      ranks[x.rank] += w.seconds * r.unit;
      all += w.seconds * r.unit;
    }
  }
  table t({"class", "objects", "MiB", "invocations", "time", "of device"});
  for (std::size_t i = 0; i < types.size(); ++i)
    if (const sum& s = types[i]; s.objects)
      t.row({printable(r.names[i]), grouped(static_cast<double>(s.objects)), grouped(s.bytes / mib, 1),
             grouped(static_cast<double>(s.invocations)), time_text(s.seconds), time_text(s.device)});
  t.print();
  std::printf("work where objects began: ");
  if (all > 0 && r.ranks > 0) {
    std::vector<double> loads;
    for (const auto& [rank, seconds] : ranks) loads.push_back(seconds);
    if (loads.size() < static_cast<std::size_t>(r.ranks)) {
      const double mean = all / r.ranks;
      const double most = *std::max_element(loads.begin(), loads.end());
      std::printf("all on %s of %d ranks, mean %s, most %s (%s times the mean)\n",
                  grouped(static_cast<double>(loads.size())).c_str(), r.ranks, time_text(mean).c_str(),
                  time_text(most).c_str(), fixed(most / mean, 3).c_str());
    } else
      std::printf("%s, of each rank\n", least_mean_most(loads, time_text).c_str());
  } else
    std::printf("none\n");
}

void describe_links(const balance::recording& r) {
  std::map<mobile::object_id, int> where;
  for (const auto& x : r.objects) where.emplace_hint(where.end(), x.id, x.rank);
  double bytes = 0, remote = 0, messages = 0;
  for (const auto& l : r.links) {
    bytes += l.bytes;
    messages += static_cast<double>(l.messages);
    if (where.at(l.from) != where.at(l.to)) remote += l.bytes;
  }
  std::printf("talk: %s messages of %s MiB between %s pairs of objects", grouped(messages).c_str(),
              grouped(bytes / mib, 1).c_str(), grouped(static_cast<double>(r.links.size())).c_str());
  if (bytes > 0) std::printf("; %s %% of it between ranks where objects began", fixed(100 * remote / bytes, 1).c_str());
  std::printf("\n");
}

void describe_notes(const balance::recording& r) {
  struct values {
    std::uint64_t times = 0;
    double least = 0, most = 0, sum = 0;
  };
  std::map<std::uint32_t, values> notes;
  for (const auto& n : r.notes) {
    values& v = notes[n.name];
    v.least = v.times ? std::min(v.least, n.value) : n.value;
    v.most = v.times ? std::max(v.most, n.value) : n.value;
    v.sum += n.value;
    ++v.times;
  }
  if (notes.empty()) return;
  const auto text = [](double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.4g", value);
    return std::string(digits);
  };
  std::printf("\n");
  table t({"policies' notes", "times", "least", "mean", "most"});
  for (const auto& [name, v] : notes)
    t.row({printable(r.names[name]), grouped(static_cast<double>(v.times)), text(v.least),
           text(v.sum / static_cast<double>(v.times)), text(v.most)});
  t.print();
}

} // namespace

std::string printable(const std::string& text) {
  std::string plain = text;
  for (char& c : plain)
    if (c < ' ' || c > '~') c = '?';
  return plain;
}

std::string fixed(double value, int decimals) {
  char digits[512];
  std::snprintf(digits, sizeof digits, "%.*f", decimals, value);
  return digits;
}

std::string grouped(double value, int decimals) {
  std::string text = fixed(value, decimals);
  const auto point = static_cast<std::ptrdiff_t>(std::min(text.find('.'), text.size()));
  for (auto at = point - 3; at > (text[0] == '-' ? 1 : 0); at -= 3) text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string time_text(double seconds) {
  const bool s = seconds >= 0.1 || seconds == 0, ms = seconds >= 1e-4;
  const double value = s ? seconds : ms ? seconds * 1e3 : seconds * 1e6;
  const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  return grouped(value, decimals) + (s ? " s" : ms ? " ms" : " us");
}

void table::print() const {
  const std::size_t columns = rows_[0].size();
  std::vector<std::size_t> widths(columns);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < (row.size() < columns ? row.size() - 1 : columns); ++i)
      widths[i] = std::max(widths[i], width_of(row[i]));
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool rest = row.size() < columns && i + 1 == row.size();
      line += (i ? "  " : "") + (rest ? row[i] : padded(row[i], widths[i], i == 0));
    }
    std::printf("%s\n", line.c_str());
  }
}

void describe_recording(const balance::recording& r, const std::string& path) {
  std::printf("%s: %s on %d ranks of %d workers, %s\n", path.c_str(),
              r.program.empty() ? "a run" : printable(r.program).c_str(), r.ranks, r.workers,
              time_text(r.length * r.unit).c_str());
  std::printf("policy %s, order %s\n", r.policy.empty() ? "none" : printable(r.policy).c_str(),
              r.order.empty() ? "unknown" : printable(r.order).c_str());
  if (r.phase_ends.empty())
    std::printf("no phases are marked\n");
  else {
    std::vector<double> lengths;
    for (std::size_t i = 0; i < r.phase_ends.size(); ++i)
      lengths.push_back((r.phase_ends[i] - (i ? r.phase_ends[i - 1] : 0)) * r.unit);
    std::printf("%s phases: %s\n", grouped(static_cast<double>(lengths.size())).c_str(),
                least_mean_most(lengths, time_text).c_str());
  }
  std::printf("\n");
  describe_objects(r);
  if (const auto busy = busy_at_end(r); !busy.empty())
    std::printf("workers were busy: %s\n", least_mean_most(busy, time_text).c_str());
  describe_links(r);
  std::printf("moves: %s\n", grouped(static_cast<double>(r.migrations.size())).c_str());
  describe_notes(r);
}

void draw_recording(const balance::recording& r, const std::string& picture) {
  pictures::busy_picture p;
  p.title = (r.program.empty() ? "A recorded run" : printable(r.program)) + " as it was recorded";
  p.subtitle = std::to_string(r.ranks) + " ranks of " + std::to_string(r.workers) + " workers, policy " +
               (r.policy.empty() ? "none" : printable(r.policy));
  p.workers = r.workers;
  p.panels.push_back({"As recorded", busy_at_end(r), r.length * r.unit});
  draw(p, picture);
}

} // namespace tern::tool
