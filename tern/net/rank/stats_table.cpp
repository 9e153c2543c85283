// SPDX-License-Identifier: Apache-2.0
#include <tern/net/rank/stats_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace tern::net {
namespace {

std::string number(double value, int decimals) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

} // namespace

stats_table::row& stats_table::at(const std::string& name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const row& r) { return r.name == name; });
  if (found != rows.end()) return *found;
  rows.push_back({name, std::vector<double>(columns.size())});
  return rows.back();
}

void stats_table::add(const stats_table& o) {
  if (columns.empty()) columns = o.columns;
  for (const row& other : o.rows) {
    row& mine = at(other.name);
    for (std::size_t c = 0; c < mine.values.size() && c < other.values.size(); ++c) mine.values[c] += other.values[c];
  }
}

std::string stats_table::text() const {
  if (rows.empty()) return {};
  std::vector<std::vector<std::string>> lines{{of}};
  for (const column& c : columns) lines[0].push_back(c.name);
  std::vector<const row*> sorted;
  for (const row& r : rows) sorted.push_back(&r);
  std::sort(sorted.begin(), sorted.end(), [](const row* a, const row* b) { return a->name < b->name; });
  for (const row* r : sorted) {
    lines.push_back({r->name});
    for (std::size_t c = 0; c < columns.size(); ++c) lines.back().push_back(number(r->values[c], columns[c].decimals));
  }
  std::string text;
  std::vector<std::size_t> width(columns.size() + 1);
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) width[c] = std::max(width[c], line[c].size());
  for (const auto& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) {
      const std::string pad(width[c] - line[c].size(), ' ');
      text += c == 0 ? line[c] + pad : "  " + pad + line[c];
    }
    text += '\n';
  }
  return text;
}

void add_tables(std::vector<stats_table>& to, const std::vector<stats_table>& from) {
  for (const stats_table& t : from) {
    auto mine = std::find_if(to.begin(), to.end(), [&](const stats_table& m) { return m.of == t.of; });
    if (mine == to.end()) mine = to.insert(mine, {t.of, t.columns, {}});
    mine->add(t);
  }
}

std::string message_totals::text() const {
  std::string line =
      "messages: " + number(handled + forwarded + collectives, 0) + " sent = " + number(handled, 0) + " handled";
  if (forwarded > 0) line += " + " + number(forwarded, 0) + " forwarded";
  if (collectives > 0) line += " + " + number(collectives, 0) + " of collective operations";
  return line;
}

} // namespace tern::net
