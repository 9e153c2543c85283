// SPDX-License-Identifier: Apache-2.0
#include <tern/net/report/tracing.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include <unistd.h>

#include <tern/base/log.hpp>
#include <tern/net/call/replies.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/message.hpp>
#include <tern/net/node.hpp>
#include <tern/task/wait/waiting.hpp>
#include <tern/trace/merge.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::net {
namespace {

namespace fs = std::filesystem;

const option<std::string> trace_option{"trace",
                                       "",
                                       "record what all ranks do, into this file, which opens at ui.perfetto.dev",
                                       {[](const std::string& t) {
                                          std::error_code ignored;
                                          return !t.ends_with('/') && !fs::is_directory(t, ignored);
                                        },
                                        "a file, not a folder"}};
const option<int> trace_kib_option{"trace-kib", 4096,
                                   "room for each worker's record, KiB; when it is full the oldest is overwritten",
                                   between<int>(256, 1 << 22)};
const option<bool> trace_lossless_option{"trace-lossless", false,
                                         "overwrite nothing of the trace: it grows as long as the disk has room"};
// Compare the clocks of ranks on one host too: for tests.
const known_environment compare_clocks{"TERN_TRACE_COMPARE_CLOCKS"};

// Of the process, as the recording itself is.
std::atomic<trace_session*> current_session{nullptr};

// The program may go to another folder.
std::string absolute(const std::string& file) {
  std::error_code e;
  const fs::path path = file.empty() ? fs::path() : fs::absolute(file, e);
  return e ? file : path.string();
}

std::string parts_of(const std::string& file) { return file + ".parts"; }

void tell_of_parts_of(const std::string& file) noexcept {
  std::fprintf(stderr, "tern: the trace's parts are in %s.parts; `tern trace %s` merges them\n", file.c_str(),
               file.c_str());
}

// A simulated job has one ring for all.
int ring_kib(const options& opts, trace_session::job kind, int ranks, int workers) {
  constexpr std::int64_t most = 1 << 20;
  const std::int64_t each = opts[trace_kib_option];
  if (kind != trace_session::job::simulated) return static_cast<int>(each);
  return static_cast<int>(std::max(each, std::min(most, each * ranks * std::max(1, workers))));
}

// Ranks for which this is the same have the same clock.
std::string clock_domain() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  if (!id.empty()) return id;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

struct clock_tag {};
const handler_record clock_record{typeid(clock_tag), "tern clock", __FILE__,
                                  [](node& here, int source, const wire_header& h, payload&) {
                                    detail::post_answer(here, source, h.reply, trace::clock_ns());
                                    here.message_done(h);
                                  },
                                  true};

// The shortest of some round trips to rank 0 says most about its clock.
void compare_with_first(node& here, trace::recorder& recorder) {
  std::int64_t shortest = 0, at = 0, add = 0;
  for (int i = 0; i < 12; ++i) {
    const std::int64_t before = trace::clock_ns();
    const std::int64_t there = detail::post_call<std::int64_t>(here, 0, [&](std::uint64_t number) {
                                 detail::post_packed(here, 0, {clock_record.id(), 0, number}, {.urgent = true});
                               }).get();
    const std::int64_t took = trace::clock_ns() - before;
    if (i > 0 && took >= shortest) continue;
    shortest = took;
    at = before + took / 2;
    add = there - at;
  }
  recorder.clock_offset(at, add);
}

} // namespace

trace_session::trace_session(const options& opts, job kind, int rank, int ranks, int workers)
    : file_(absolute(opts[trace_option])), kind_(kind), rank_(rank) {
  if (file_.empty()) return;
  trace::recorder_settings s;
  s.folder = parts_of(file_);
  s.ranks = ranks;
  s.rank = rank;
  s.ring_kib = ring_kib(opts, kind, ranks, workers);
  s.lossless = opts[trace_lossless_option];
  if (kind == job::simulated) s.clock = tern::detail::virtual_ticks;
  if (kind != job::parallel) trace::prepare_parts(s.folder); // else when all ranks have met
  recorder_ = std::make_unique<trace::recorder>(std::move(s));
  current_session.store(this, std::memory_order_release);
}

trace_session::~trace_session() {
  if (recorder_) current_session.store(nullptr, std::memory_order_relaxed);
}

void trace_session::end() noexcept {
  if (recorder_) recorder_->end();
}

void trace_session::merge() noexcept {
  if (!recorder_ || rank_ != 0) return;
  const std::string parts = parts_of(file_);
  try {
    const trace::merge_summary done = trace::merge(parts, file_);
    log(done.complete() ? log_level::info : log_level::warning, "trace " + file_ + ": " + done.text());
    if (done.ranks < done.expected_ranks || done.not_ended > 0)
      tell_of_parts_of(file_); // what is missing may yet come
    else
      trace::remove_parts(parts);
  } catch (const std::exception& e) {
    log_error("the trace " + file_ + " could not be made; its parts are in " + parts + ": " + e.what());
  }
}

// What has been recorded has no use.
void trace_session::leave() noexcept {
  current_session.store(nullptr, std::memory_order_release);
  recorder_->end();
  std::error_code ignored;
  fs::remove(recorder_->part(), ignored);
  fs::remove(parts_of(file_), ignored); // which works if it is empty
}

std::string wanted_trace() {
  const trace_session* const s = current_session.load(std::memory_order_acquire);
  return s && s->kind_ == trace_session::job::parallel ? s->file_ : std::string();
}

void begin_trace(node& here, const std::string& firsts) {
  trace_session* const s = current_session.load(std::memory_order_acquire);
  if (s && s->kind_ != trace_session::job::parallel) return;
  if (firsts.empty()) {
    if (!s) return;
    log_warning("nothing is recorded into " + s->file_ + ": the option 'trace' must be given to rank 0 too");
    s->leave();
    return;
  }
  if (!s)
    log_warning("this rank will not be in the trace " + firsts + ": the option 'trace' was not given to it");
  else if (s->file_ != firsts)
    log_warning("this rank will not be in the trace " + firsts + ": it records into " + parts_of(s->file_));
  const std::vector<std::string> parts = gather(s ? fs::path(s->recorder_->part()).filename().string() : "");
  if (here.rank() == 0) trace::prepare_parts(parts_of(firsts), parts);
  const std::string mine = clock_domain(), first_clock = broadcast(mine);
  if (!s) return;
  s->far_ = here.rank() != 0 && (first_clock != mine || std::getenv("TERN_TRACE_COMPARE_CLOCKS"));
  align_trace(here);
}

void align_trace(node& here) {
  trace_session* const s = current_session.load(std::memory_order_acquire);
  if (s && s->far_) compare_with_first(here, *s->recorder_);
}

void tell_of_parts() noexcept {
  const trace_session* const s = current_session.load(std::memory_order_acquire);
  if (s && s->kind_ != trace_session::job::simulated) tell_of_parts_of(s->file_);
}

void merge_at_once() noexcept {
  trace_session* const s = current_session.load(std::memory_order_acquire);
  if (!s || s->kind_ != trace_session::job::simulated) return;
  s->end();
  try {
    std::thread([s] { s->merge(); }).join(); // on a stack that is large enough
  } catch (const std::exception&) {
    s->merge();
  }
}

} // namespace tern::net
