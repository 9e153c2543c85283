// SPDX-License-Identifier: Apache-2.0
#include <tern/trace/merge.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/trace/merge/painter.hpp>
#include <tern/trace/part/part.hpp>

namespace tern::trace {
namespace {

using namespace detail;
namespace fs = std::filesystem;

constexpr std::int64_t farthest = std::numeric_limits<std::int64_t>::max() / 4; // differences of two times must fit
constexpr std::size_t most_absent_shown = 64, most_classes_shown = 8;

using parts = std::vector<std::unique_ptr<part>>;

parts open_parts(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code e;
  for (const auto& entry : fs::directory_iterator(folder, e))
    if (entry.path().filename().string().ends_with(part_suffix)) names.push_back(entry.path().string());
  if (e) throw error(errc::not_found, "the parts of a trace in " + folder + " cannot be read: " + e.message());
  if (names.empty())
    throw error(errc::not_found, "there are no parts of a trace in " + folder,
                "a job that ends properly merges and removes them");
  std::sort(names.begin(), names.end());
  parts all;
  for (auto& name : names) all.push_back(std::make_unique<part>(std::move(name)));
  return all;
}

std::set<int> ranks_of(const part& p) {
  std::set<int> ranks;
  for (const part::track& t : p.tracks()) ranks.insert(t.rank);
  if (ranks.empty()) ranks.insert(p.header().rank);
  return ranks;
}

// "rank 3", "ranks 0 to 2 and 7"
std::string listed(const std::set<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (auto it = ranks.begin(); it != ranks.end();) {
    auto last = it;
    while (std::next(last) != ranks.end() && *std::next(last) == *last + 1) ++last;
    if (it != ranks.begin()) text += std::next(last) == ranks.end() ? " and " : ", ";
    text += std::to_string(*it);
    if (last != it) text += (*last == *it + 1 ? " and " : " to ") + std::to_string(*last);
    it = std::next(last);
  }
  return text;
}

// What one part lacks, each as a sentence without its subject.
std::vector<std::string> faults_of(const part& p) {
  std::vector<std::string> faults;
  if (!p.header().ended) faults.emplace_back("did not end: killed, or still running");
  if (p.lost() != 0)
    faults.push_back(std::to_string(p.lost()) +
                     " of the oldest events were overwritten: record with larger rings, or lossless");
  if (p.header().names_refused != 0) faults.emplace_back("had more different names than the trace may have");
  if (p.damaged_chunks() != 0) faults.push_back(std::to_string(p.damaged_chunks()) + " damaged pieces were left out");
  if (p.cut_off()) faults.emplace_back("its file has been cut off");
  return faults;
}

// The records of one ring, oldest first.
class cursor {
public:
  cursor(const part& p, const part::ring& r, std::size_t which) : part_(&p), ring_(&r), which_(which) { settle(); }
  bool there() const noexcept { return chunk_ < ring_->chunks.size(); }
  const record& at() const noexcept { return ring_->chunks[chunk_].first[next_]; }
  std::int64_t time() const noexcept { return time_; }
  std::size_t which() const noexcept { return which_; }
  void advance() noexcept {
    ++next_;
    settle();
  }

private:
  void settle() noexcept {
    while (there() && next_ >= ring_->chunks[chunk_].used) {
      ++chunk_;
      next_ = 0;
    }
    if (there()) time_ = std::clamp(part_->time(at().time), -farthest, farthest);
  }

  const part* part_;
  const part::ring* ring_;
  std::size_t which_, chunk_ = 0;
  std::uint64_t next_ = 0;
  std::int64_t time_ = 0;
};

struct merger {
  merger(parts p, const std::string& out) : all(std::move(p)), on(out) {}

  void look() {
    std::set<int> present;
    for (const auto& p : all) {
      const std::set<int> ranks = ranks_of(*p);
      present.insert(ranks.begin(), ranks.end());
      result.expected_ranks = std::max(result.expected_ranks, p->header().ranks);
      result.lost += p->lost();
      if (!p->header().ended) ++result.not_ended;
      for (const std::string& fault : faults_of(*p)) {
        std::string host(p->header().host, strnlen(p->header().host, sizeof p->header().host));
        result.missing.push_back(listed(ranks) + " (process " + std::to_string(p->header().process) + " on " + host +
                                 "): " + fault);
        for (const int rank : ranks) labels[rank] += (labels[rank].empty() ? "" : "; ") + fault;
      }
    }
    result.parts = static_cast<int>(all.size());
    result.ranks = static_cast<int>(present.size());
    for (int rank = 0; rank < result.expected_ranks; ++rank)
      if (!present.contains(rank)) absent.insert(rank);
    if (!absent.empty())
      result.missing.push_back(listed(absent) + ": nothing was recorded, or the files are elsewhere");
    for (const auto& p : all)
      if (p->header().ranks != result.expected_ranks) {
        result.missing.emplace_back("the parts are of jobs of different sizes: results of two jobs lie in one folder");
        break;
      }
  }

  void meta(int pid, int tid, std::string_view what, std::string_view key, const std::string& value) {
    text.clear();
    text << (on.events == 0 ? "[\n{\"ph\":\"M\",\"pid\":" : ",\n{\"ph\":\"M\",\"pid\":") << pid;
    if (tid > 0) text << ",\"tid\":" << tid;
    text << ",\"name\":\"" << what << "\",\"args\":{\"" << key << "\":" << value << "}}";
    ++on.events;
    on.write(text);
  }
  static std::string json(std::string_view s) {
    std::string quoted;
    append_json(quoted, s);
    return quoted;
  }
  void note(int pid, std::string_view what) {
    text.clear();
    text << ",\n{\"ph\":\"i\",\"pid\":" << pid
         << ",\"tid\":1,\"ts\":0,\"s\":\"p\",\"cat\":\"missing\",\"name\":" << json(what) << '}';
    ++on.events;
    on.write(text);
  }

  // Written first, so that a truncated file has it: what is missing, and the rank and worker of
  // each track.
  void write_beginning() {
    if (!result.missing.empty()) {
      const int pid = shown(result.expected_ranks); // of no rank
      meta(pid, 0, "process_name", "name", json("INCOMPLETE: see here what this trace lacks"));
      meta(pid, 0, "process_sort_index", "sort_index", "-1");
      meta(pid, 1, "thread_name", "name", json("missing"));
      for (const std::string& m : result.missing) note(pid, m);
    }
    std::set<std::pair<int, int>> told;
    for (const auto& p : all)
      for (const part::track& t : p->tracks()) {
        if (!told.emplace(t.rank, t.worker).second) continue;
        if (named.insert(t.rank).second) name_rank(t.rank);
        meta(shown(t.rank), shown(t.worker), "thread_name", "name", t.name);
        meta(shown(t.rank), shown(t.worker), "thread_sort_index", "sort_index", std::to_string(t.worker));
      }
    std::size_t shown_absent = 0;
    for (const int rank : absent) {
      if (++shown_absent > most_absent_shown) break;
      meta(shown(rank), 0, "process_name", "name", json("rank " + std::to_string(rank) + " (absent)"));
      meta(shown(rank), 0, "process_sort_index", "sort_index", std::to_string(rank));
      meta(shown(rank), 1, "thread_name", "name", json("missing"));
      note(shown(rank), "nothing of this rank is here");
    }
    if (on.events == 0) meta(1, 0, "process_name", "name", json("nothing was recorded"));
  }
  void name_rank(int rank) {
    meta(shown(rank), 0, "process_name", "name", json("rank " + std::to_string(rank)));
    meta(shown(rank), 0, "process_sort_index", "sort_index", std::to_string(rank));
    if (const auto l = labels.find(rank); l != labels.end())
      meta(shown(rank), 0, "process_labels", "labels", json("INCOMPLETE: " + l->second));
  }

  void write_records() {
    std::vector<painter> painters;
    painters.reserve(all.size());
    std::vector<cursor> cursors;
    for (std::size_t i = 0; i < all.size(); ++i) {
      painters.emplace_back(on, *all[i]);
      for (const part::ring& r : all[i]->rings())
        if (cursor c(*all[i], r, i); c.there()) cursors.push_back(c);
    }
    const auto later = [](const cursor& a, const cursor& b) { return a.time() > b.time(); };
    std::make_heap(cursors.begin(), cursors.end(), later);
    const std::int64_t start = cursors.empty() ? 0 : cursors.front().time();
    while (!cursors.empty()) {
      std::pop_heap(cursors.begin(), cursors.end(), later);
      cursor& c = cursors.back();
      // As long as this ring is the first one, the others need not be looked at.
      const std::int64_t until = cursors.size() > 1 ? cursors.front().time() : farthest;
      do {
        ++result.records;
        // A ring of real time is in order, but virtual clocks of different workers lie in one ring:
        // none is before 0.
        if (!painters[c.which()].paint(c.at(), std::max<std::int64_t>(c.time() - start, 0))) ++result.damaged;
        c.advance();
      } while (c.there() && c.time() <= until);
      if (c.there())
        std::push_heap(cursors.begin(), cursors.end(), later);
      else
        cursors.pop_back();
    }
    for (painter& p : painters) p.end();
  }

  merge_summary run() {
    look();
    write_beginning();
    write_records();
    if (result.damaged != 0) {
      result.missing.push_back(std::to_string(result.damaged) + " damaged events were left out");
      note(shown(result.expected_ranks), result.missing.back());
    }
    on.file.write("\n]\n");
    on.file.finish();
    result.events = on.events;
    result.sent = on.sent;
    result.handled = on.handled;
    result.forwarded = on.forwarded;
    for (const auto& [type, m] : on.moved) // JSON
      result.moved.push_back({type.substr(1, type.size() - 2), m.number, m.bytes});
    std::sort(result.moved.begin(), result.moved.end(),
              [](const merge_summary::moves& a, const merge_summary::moves& b) {
                return a.number != b.number ? a.number > b.number : a.type < b.type;
              });
    result.seconds = 1e-9 * static_cast<double>(on.last);
    return std::move(result);
  }

  const parts all;
  canvas on;
  merge_summary result;
  std::map<int, std::string> labels;
  std::set<int> absent, named;
  lines text;
};

} // namespace

std::string merge_summary::text() const {
  const auto n = [](auto count, const std::string& what, const char* plural = "s") {
    return std::to_string(count) + " " + what + (count == 1 ? "" : plural);
  };
  const auto size = [&](std::uint64_t bytes) {
    const bool mib = bytes >= 1024 * 1024;
    if (bytes < 1024) return n(bytes, "byte");
    char number[32];
    std::snprintf(number, sizeof number, "%.1f %s", static_cast<double>(bytes) / (mib ? 1024 * 1024 : 1024),
                  mib ? "MiB" : "KiB");
    return std::string(number);
  };
  char span[32];
  std::snprintf(span, sizeof span, "%.6g", seconds);
  std::string s = n(records, "event") + " in " + span + " s of " + n(ranks, "rank") + " (" + n(parts, "process", "es") +
                  "), " + n(sent, "message") + " sent, " + std::to_string(handled) + " handled";
  if (forwarded > 0) s += ", " + std::to_string(forwarded) + " forwarded to objects that were elsewhere";
  if (const std::uint64_t known = handled + forwarded; sent > known)
    s += ", " + std::to_string(sent - known) + " with no handler in the trace";
  else if (sent < known)
    s += ", " + std::to_string(known - sent) + " of these sent before the trace begins";
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if (i == most_classes_shown) {
      s += ", and objects of " + n(moved.size() - i, "more class", "es");
      break;
    }
    s += (i == 0 ? "\nmoved: " : ", ") + moved[i].type + " " + n(moved[i].number, "time") + " (" +
         size(moved[i].bytes) + ")";
  }
  for (const std::string& m : missing) s += "\nmissing: " + m;
  return s;
}

merge_summary merge(const std::string& folder, const std::string& out) { return merger(open_parts(folder), out).run(); }

void remove_parts(const std::string& folder) noexcept {
  try {
    std::error_code e;
    static_cast<void>(remove_idle_parts(folder));
    fs::remove(folder, e);          // which works if it is empty
  } catch (const std::exception&) { // no memory: they stay
  }
}

} // namespace tern::trace
