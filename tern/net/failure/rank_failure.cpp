// SPDX-License-Identifier: Apache-2.0
#include <tern/net/rank_failure.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>

#include <unistd.h>

#include <tern/base/clock.hpp>
#include <tern/base/error.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/collective/collective.hpp>
#include <tern/net/collective/collective_table.hpp>
#include <tern/net/failure/failed_ranks.hpp>
#include <tern/net/failure/survivors.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/node.hpp>

namespace tern::net::detail {
namespace {

struct question_tag {};
struct answer_tag {};

void take_question(node& here, int source, const wire_header& h, payload& message);
void take_answer(node& here, int source, const wire_header& h, payload& message);
const handler_record question_record{typeid(question_tag), "tern heartbeat", __FILE__, &take_question, true};
const handler_record answer_record{typeid(answer_tag), "tern heartbeat answer", __FILE__, &take_answer, true};

void post(node& here, int to, const handler_record& handler, const std::string& text) {
  const wire_header h{handler.id(), flag_uncounted, 0};
  byte_buffer message(sizeof h + text.size());
  std::memcpy(message.data(), &h, sizeof h);
  if (!text.empty()) std::memcpy(message.data() + sizeof h, text.data(), text.size());
  here.post(to, std::move(message), {.counted = false, .urgent = true});
}

// They run where messages arrive. To the watchdog they are no progress.
void take_question(node& here, int source, const wire_header&, payload&) {
  here.collectives().count_enquiry(2); // that it was received, and that it is answered
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  post(here, source, answer_record, "process " + std::to_string(getpid()) + " on host " + host);
}

void take_answer(node& here, int source, const wire_header&, payload& message) {
  here.collectives().count_enquiry(1);
  const std::size_t size = std::max(message.bytes.size(), sizeof(wire_header)) - sizeof(wire_header);
  here.failures().answered(
      source, steady_seconds(),
      std::string(reinterpret_cast<const char*>(message.bytes.data()) + sizeof(wire_header), size));
}

} // namespace

failed_ranks::failed_ranks() = default;
failed_ranks::~failed_ranks() = default;

void failed_ranks::add(node& here, handler f) {
  std::vector<rank_failure> before;
  {
    const std::lock_guard hold(guard_);
    handlers_.push_back(f);
    before = known_;
  }
  for (auto& what : before) call(here, f, std::move(what));
  listen(here);
}

void failed_ranks::listen(node& here) {
  {
    const std::lock_guard hold(guard_);
    if (std::exchange(listens_, true)) return;
  }
  here.wire().tell_failures([this, &here](const lost_rank& lost) {
    if (lost.left) return here.survivors().leaves(lost.rank);
    here.survivors().learn({lost.rank, lost.text});
    tell(here, {lost.rank, lost.host, fiber_clock::time_point(std::chrono::nanoseconds(lost.when)), lost.text});
  });
}

void failed_ranks::tell(node& here, const rank_failure& what) {
  std::vector<handler> all;
  {
    const std::lock_guard hold(guard_);
    if (std::any_of(known_.begin(), known_.end(), [&](const auto& k) { return k.rank == what.rank; })) return;
    known_.push_back(what);
    all = handlers_;
  }
  if (all.empty()) return;
  call(
      here,
      [all = std::move(all)](const rank_failure& each) {
        for (const handler& f : all) f(each);
      },
      what);
}

void failed_ranks::call(node& here, handler f, rank_failure what) {
  // Counts itself, also if it never begins.
  struct runs {
    std::atomic<int>* count;
    explicit runs(std::atomic<int>& c) : count(&c) { c.fetch_add(1, std::memory_order_relaxed); }
    runs(runs&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
    runs& operator=(runs&&) = delete;
    ~runs() {
      if (count) count->fetch_sub(1, std::memory_order_release); // pairs with `running`: what it wrote is visible
    }
  };
  here.fibers().spawn(
      [&here, f = std::move(f), what = std::move(what), counted = runs(running_)] {
        try {
          f(what);
        } catch (...) {
          const failure x = describe(std::current_exception());
          here.fatal(error(x.code,
                           "a function given to on_rank_failure failed on rank " + std::to_string(here.rank()) + ": " +
                               x.message,
                           x.hint, x.place)
                         .what());
        }
      },
      {.name = "rank failure"});
}

void failed_ranks::ask(node& here, int rank) {
  here.collectives().count_enquiry(1);
  post(here, rank, question_record, {});
}

void failed_ranks::answered(int rank, double at, std::string from) {
  const std::lock_guard hold(guard_);
  for (auto& [who, last] : answers_)
    if (who == rank) {
      last = {at, std::move(from)};
      return;
    }
  answers_.emplace_back(rank, answer{at, std::move(from)});
}

failed_ranks::answer failed_ranks::last_answer(int rank) const {
  const std::lock_guard hold(guard_);
  for (const auto& [who, last] : answers_)
    if (who == rank) return last;
  return {};
}

} // namespace tern::net::detail

namespace tern {

void on_rank_failure(std::function<void(const rank_failure&)> f) {
  net::node& here = net::node::here();
  here.failures().add(here, std::move(f));
}

std::vector<int> living() { return net::node::here().generation().living(); }

} // namespace tern
