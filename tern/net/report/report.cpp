// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a report says.
#include <tern/net/report.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include <unistd.h>

#include <tern/base/log.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/collective/collective_table.hpp>
#include <tern/net/epoch/epoch_table.hpp>
#include <tern/net/node.hpp>
#include <tern/net/report/report_file.hpp>
#include <tern/net/report/reporter.hpp>
#include <tern/task/report/fiber_report.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::net {
namespace {

using steady = std::chrono::steady_clock;

constexpr std::size_t listed = 8; // of things that may be thousands

std::string seconds(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", s);
  return text;
}
std::string counted(std::size_t n, const char* one, const char* many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}
std::string handler_name(std::uint32_t id) {
  return id < handler_table::size() ? "'" + handler_table::at(id).name() + "'" : "handler " + std::to_string(id);
}
std::string and_more(std::size_t all) {
  return all > listed ? "    and " + std::to_string(all - listed) + " more\n" : "";
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string command_line() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::string all{std::istreambuf_iterator<char>(in), {}};
  while (!all.empty() && all.back() == '\0') all.pop_back();
  std::replace(all.begin(), all.end(), '\0', ' ');
  return all.substr(0, 500);
}

// Numbers and addresses are all that ranks in the same situation differ in.
std::string shape(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] < '0' || text[i] > '9') {
      out += text[i++];
      continue;
    }
    out += '#';
    if (text.compare(i, 2, "0x") == 0)
      i = text.find_first_not_of("0123456789abcdef", i + 2);
    else
      i = text.find_first_not_of("0123456789.", i);
    if (i == std::string::npos) break;
  }
  return out;
}

// What reports say of a rank.
struct reporting {
  static tern::detail::scheduler_core& core(node& n) { return n.fibers().inside(); }

  static std::uint64_t progress(node& n) noexcept {
    return n.sent_log().count() + n.received_log().count() + n.counters().sum(message_counters::done) +
           core(n).parking.entered() - n.collectives().enquiries();
  }

  static std::string lines(node& n, const message_log& log, const char* title, const char* direction) {
    const auto latest = log.latest();
    if (latest.empty()) return {};
    std::string text = std::string("  ") + title + ", the latest first:\n";
    for (const auto& l : latest)
      text += "    " + seconds(core(n).seconds_since(l.when)) + " ago " + direction + " rank " +
              std::to_string(l.peer) + ": " + handler_name(l.handler) + ", " + counted(l.bytes, "byte", "bytes") + "\n";
    return text;
  }

  static std::string calls(node& n) {
    std::vector<detail::pending_calls::entry> all;
    {
      const auto hold = try_for_a_while(n.calls().guard());
      if (!hold) return "  (calls without answer: another thread holds the lock on their list)\n";
      all = n.calls().list();
    }
    std::string text;
    if (const std::uint64_t late = n.calls().late())
      text = "  " + counted(late, "answer", "answers") + " came after the caller had given up\n";
    if (all.empty()) return text;
    text += "  " + counted(all.size(), "call", "calls") + " without answer:\n";
    const auto sent = n.sent_log().latest();
    std::size_t told = 0;
    for (const auto& call : all) {
      if (++told > listed) break;
      const auto message = std::find_if(sent.begin(), sent.end(),
                                        [&](const auto& l) { return l.reply == call.number && l.peer == call.from; });
      text += "    of rank " + std::to_string(call.from) +
              (message != sent.end() ? ", " + handler_name(message->handler) : std::string()) + ", since " +
              seconds(core(n).seconds_since(call.since)) + (call.given_up ? ", given up" : "") + "\n";
    }
    return text + and_more(all.size());
  }

  static std::string handlers(node& n) {
    const auto names = n.handlers_not_started();
    if (!names) return "  (handlers that have not started: another thread holds the lock on their list)\n";
    std::size_t all = 0;
    for (const auto& [name, times] : *names) all += times;
    if (all == 0) return {};
    std::string text = "  " + counted(all, "handler has", "handlers have") + " arrived and not started:\n";
    std::size_t listed_names = 0;
    for (const auto& [name, times] : *names)
      if (++listed_names <= listed)
        text += "    '" + name + "'" + (times > 1 ? ", " + std::to_string(times) + " times" : "") + "\n";
    return text + and_more(names->size());
  }

  static std::string collectives(node& n) {
    std::vector<std::shared_ptr<detail::collective_context>> all; // let go without the lock
    {
      const auto hold = try_for_a_while(n.collectives().guard());
      if (!hold) return "  (collective operations: another thread holds the lock on their list)\n";
      all = n.collectives().list();
    }
    std::string text;
    for (const auto& c : all) {
      const auto hold = try_for_a_while(c->guard());
      text += hold ? c->describe() : "  (collective operations: another thread holds the lock on one of their lists)\n";
    }
    return text;
  }

  static std::string epochs(node& n) {
    const auto hold = try_for_a_while(n.epochs().guard());
    return hold ? n.epochs().describe() : "  (epochs: another thread holds the lock on their list)\n";
  }

  static std::string parts(node& n) {
    std::string text;
    n.for_each_part([&](reported_part& part) { text += part.describe(); });
    return text;
  }

  static message_log::line last_message_of(node& n, int from) {
    const auto seen = n.received_log().latest();
    const auto is_heartbeat = [](const message_log::line& l) {
      return l.handler < handler_table::size() && handler_table::at(l.handler).name().starts_with("tern heartbeat");
    };
    const auto last = std::find_if(seen.begin(), seen.end(), [&](const message_log::line& l) {
      return l.peer == from && l.when != 0 && !is_heartbeat(l);
    });
    return last == seen.end() ? message_log::line{} : *last;
  }

  static std::vector<std::string> waits_for(node& n, int rank) {
    std::vector<std::string> all;
    std::vector<std::shared_ptr<detail::collective_context>> contexts; // let go without the lock
    if (const auto hold = try_for_a_while(n.collectives().guard())) contexts = n.collectives().list();
    for (const auto& c : contexts)
      if (const auto hold = try_for_a_while(c->guard()))
        if (std::string text = c->waits_for(rank); !text.empty()) all.push_back(std::move(text));
    std::vector<detail::pending_calls::entry> calls;
    if (const auto hold = try_for_a_while(n.calls().guard())) calls = n.calls().list();
    std::erase_if(calls, [&](const auto& c) { return c.from != rank || c.given_up; });
    if (!calls.empty()) {
      const auto sent = n.sent_log().latest();
      const auto& oldest = calls.front();
      const auto message = std::find_if(sent.begin(), sent.end(),
                                        [&](const auto& l) { return l.reply == oldest.number && l.peer == rank; });
      all.push_back((calls.size() == 1 ? std::string("a call") : std::to_string(calls.size()) + " calls") +
                    (message != sent.end() ? " of " + handler_name(message->handler) : std::string()) + " since " +
                    seconds(core(n).seconds_since(oldest.since)));
    }
    return all;
  }

  static std::string describe(node& n, tern::detail::fiber_report_limits& limits) {
    const auto done = n.counters().sum(message_counters::done); // first: it is never ahead of what has been received
    const auto active = n.counters().sum(message_counters::received) - done;
    std::string text =
        "rank " + std::to_string(n.rank()) + ": about " + std::to_string(n.sent_log().count()) + " messages sent and " +
        std::to_string(n.received_log().count()) + " received; of those that count for the end " +
        std::to_string(n.counters().sum(message_counters::sent)) + " sent, " + std::to_string(done) + " handled\n";
    if (active != 0) text += "  " + std::to_string(active) + " arrived and are not done\n";
    if (n.has_closed()) text += "  the job is ending: nothing may be sent any more\n";
    text += collectives(n) + epochs(n) + parts(n) + calls(n) + handlers(n);
    text += tern::detail::report_fibers(core(n), limits);
    return text + lines(n, n.sent_log(), "sent", "to") + lines(n, n.received_log(), "received", "from");
  }
};

} // namespace

std::uint64_t progress_of(node& n) noexcept { return reporting::progress(n); }

message_log::line last_message_of(node& n, int from) { return reporting::last_message_of(n, from); }
std::string words_for(node& n, const message_log::line& message) {
  return handler_name(message.handler) + ", " + seconds(reporting::core(n).seconds_since(message.when)) + " ago";
}
std::vector<std::string> waits_for(node& n, int rank) { return reporting::waits_for(n, rank); }

std::string describe(node& n, bool stacks) {
  tern::detail::fiber_report_limits limits;
  if (!stacks) return reporting::describe(n, limits);
  tern::detail::stack_reader reader;
  limits.stacks = &reader;
  limits.until = steady::now() + std::chrono::seconds(5);
  return reporting::describe(n, limits);
}

namespace {
std::string describe_all(const std::vector<node*>& ranks, double stacks, const tern::detail::busy_watch* busy) {
  tern::detail::fiber_report_limits limits;
  limits.busy = busy;
  std::unique_ptr<tern::detail::stack_reader> reader;
  if (stacks > 0) {
    reader = std::make_unique<tern::detail::stack_reader>();
    limits.stacks = reader.get();
    limits.until = steady::now() + std::chrono::milliseconds(static_cast<std::int64_t>(1000 * stacks));
  }
  struct kind {
    std::string text;
    std::vector<int> others;
  };
  std::vector<kind> kinds;
  std::map<std::string, std::size_t> known; // shape → place
  for (node* n : ranks) {
    std::string text = reporting::describe(*n, limits);
    const auto [place, fresh] = known.try_emplace(shape(text), kinds.size());
    if (fresh)
      kinds.push_back({std::move(text), {}});
    else
      kinds[place->second].others.push_back(n->rank());
  }
  std::string all;
  for (const auto& k : kinds) {
    all += "\n" + k.text;
    if (!k.others.empty())
      all += "  " + counted(k.others.size(), "rank differs", "ranks differ") +
             " from this one in numbers only: " + ranges(k.others) + "\n";
  }
  return all;
}
} // namespace

std::string describe(const std::vector<node*>& ranks, double stacks) { return describe_all(ranks, stacks, nullptr); }

std::string without_messages(const std::string& text) {
  std::string kept;
  bool list = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    list = line.ends_with(", the latest first:") || (list && line.starts_with("    "));
    if (!list && !line.empty()) kept += "\n" + line;
  }
  constexpr std::size_t most_told = 12000; // bytes, in an error
  if (kept.size() > most_told) kept.resize(kept.rfind('\n', most_told));
  return kept + "\n(more of it, with the last messages and all stacks, in a file: --tern-report FILE)";
}

std::string briefly(const std::string& text, std::size_t most) {
  std::vector<std::vector<std::string>> ranks; // the lines of each
  bool list = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    list = line.ends_with(", the latest first:") || (list && line.starts_with("    "));
    if (list || line.empty() || line.ends_with("worker sleeps") || line.ends_with("workers sleep")) continue;
    if (ranks.empty() || line.starts_with("rank ")) ranks.emplace_back();
    ranks.back().push_back(std::move(line));
  }
  std::string kept;
  std::size_t left = most, left_out = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t here = std::min(ranks[i].size(), left / (ranks.size() - i));
    for (std::size_t k = 0; k < here; ++k) kept += ranks[i][k] + "\n";
    left -= here;
    left_out += ranks[i].size() - here;
  }
  return left_out == 0 ? kept : kept + "and " + counted(left_out, "line", "lines") + " more: --tern-report=FILE\n";
}

namespace {

// Sections younger than this are of the same trouble.
constexpr double same_time = 300;

std::string stack_of_caller(const report_cause& cause) {
  if (cause.where.known == 0) return {};
  tern::detail::stack_reader reader;
  return "stack of " + (cause.thread.empty() ? "the thread that asked" : cause.thread) + ":\n" +
         reader.text(reader.walk(cause.where, 5000), false, "  ");
}

std::vector<int> missing_in(const std::vector<int>& there, int size) {
  std::vector<int> missing;
  for (int r = 0; r < size; ++r)
    if (!std::binary_search(there.begin(), there.end(), r)) missing.push_back(r);
  return missing;
}

std::string who_is_missing(const std::vector<int>& there, int size) {
  const auto missing = missing_in(there, size);
  if (missing.empty()) return size <= 1 ? "" : "\n-- all " + std::to_string(size) + " ranks have reported\n";
  std::string text = "\n-- " + std::to_string(there.size()) + " of " + std::to_string(size) +
                     " ranks have reported; missing: " + ranges(missing) +
                     "\n   A missing rank may not have been asked, still make progress, be stopped, or have gone.\n";
  for (const auto& n : neighbours(missing)) text += words_for(n);
  return text;
}

std::string report_path() {
  std::string path = report_file_option();
  return path.empty() ? "tern-report-" + std::to_string(report_job() & 0x3fffff) + ".txt" : path;
}

/// The ranks that have reported to it lately, and `ours`, which have even if the file cannot be
/// read.
std::vector<int> reported(const report_file& file, const std::vector<int>& ours) {
  const auto read = file.ranks_within(same_time);
  std::vector<int> all;
  std::set_union(read.begin(), read.end(), ours.begin(), ours.end(), std::back_inserter(all));
  return all;
}

std::string written(const report_cause& cause, const std::vector<node*>& ranks, bool complete, bool* alone,
                    const tern::detail::busy_watch* busy) {
  const bool by_us = report_file_option().empty(); // the name; another program may have put a link there
  const std::string path = report_path();
  std::vector<int> numbers;
  for (node* n : ranks) numbers.push_back(n->rank());
  const int size = ranks.empty() ? 0 : ranks.front()->size();
  const std::string who = "process " + std::to_string(getpid()) + " on " + host_name();
  std::string head = ranks.empty() ? "\n-- " + who + ", without ranks\n"
                                   : part_heading(numbers, size, who + ", " + ranks.front()->wire().describe());
  head += "reason: " + cause.reason + "\n";
  if (!complete) head += "(This process' ranks are not told of: another thread holds the lock on their list.)\n";
  const std::string first = "Tern " TERN_VERSION ", " + command_line() + "\n";
  // While a crash is told of, more may go wrong: what is known is in the file at once. Else others
  // need not wait.
  std::string text = cause.crash ? "" : head + stack_of_caller(cause) + describe_all(ranks, 5, busy);
  std::vector<int> there;
  {
    report_file file(path, report_job(), first, !by_us);
    if (cause.crash) {
      file.write(head);
      file.write(stack_of_caller(cause));
      text = describe_all(ranks, 3, busy);
    }
    file.write(text);
    if (file.is_lost()) {
      for (const auto& n : neighbours(missing_in(numbers, size)))
        if (cause.ask_others != 0) ask(n, cause.ask_others);
      if (alone) *alone = true;
      return {};
    }
    there = reported(file, numbers);
    if (alone) *alone = there.size() <= ranks.size();
    if (cause.ask_others == 0 || there.size() >= static_cast<std::size_t>(size)) {
      file.write(who_is_missing(there, size));
      return path;
    }
  }
  std::size_t expected = there.size();
  for (const auto& n : neighbours(missing_in(there, size))) expected += ask(n, cause.ask_others) ? 1 : 0;
  for (const auto until = steady::now() + std::chrono::milliseconds(1500); steady::now() < until;) {
    if (there.size() >= expected) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    there = reported(report_file(path, report_job(), first, !by_us), numbers);
  }
  if (there.size() < static_cast<std::size_t>(size)) // else the last one has said so
    report_file(path, report_job(), first, !by_us).write(who_is_missing(there, size));
  return path;
}

} // namespace

std::string compose_report(const report_cause& cause, bool* alone, const tern::detail::busy_watch* busy) {
  std::string path;
  try {
    const bool had = with_ranks([&](const auto& ranks) { path = written(cause, ranks, true, alone, busy); });
    if (!had) path = written(cause, {}, false, alone, busy);
  } catch (const std::exception& e) {
    log_error(e.what());
  }
  return path;
}

} // namespace tern::net
