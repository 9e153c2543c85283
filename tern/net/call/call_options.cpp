// SPDX-License-Identifier: Apache-2.0
#include <tern/net/call_options.hpp>

#include <cstdio>
#include <optional>
#include <utility>

#include <tern/task/wait/waiting.hpp>

namespace tern::net::detail {
namespace {

std::string in_words(std::chrono::nanoseconds d) {
  const auto ns = static_cast<double>(d.count());
  char text[32];
  if (ns >= 1e9)
    std::snprintf(text, sizeof text, "%.4g s", ns / 1e9);
  else if (ns >= 1e6)
    std::snprintf(text, sizeof text, "%.4g ms", ns / 1e6);
  else if (ns >= 1e3)
    std::snprintf(text, sizeof text, "%.4g us", ns / 1e3);
  else
    std::snprintf(text, sizeof text, "%.4g ns", ns);
  return text;
}

/// What may end the wait before the answer comes. The event that takes the call out of the table of
/// calls is the first. Belongs to the call, to the timer while that is set, and to the fiber that
/// makes the call.
class limits final : tern::detail::timed_function {
public:
  limits(pending_calls& table, const call_options& o, std::string what, int destination)
      : timed_function(&time_is_over), calls_(table), timeout_(o.timeout), what_(std::move(what)),
        destination_(destination) {}

  /// \pre the call with this number cannot be answered yet.
  static void begin(const std::shared_ptr<limits>& self, const std::stop_token& stop, std::uint64_t number) {
    self->number_ = number;
    // In this order: once a stop may be asked for, `end` may come at any time, from any thread.
    const std::int64_t deadline =
        self->timeout_.count() > 0 ? tern::detail::deadline_after(self->timeout_) : tern::detail::wait_limit::never;
    if (deadline != tern::detail::wait_limit::never) {
      self->kept_by_timer_ = self;
      self->set(deadline);
    }
    if (stop.stop_possible()) self->stop_.emplace(stop, on_stop{self.get()});
  }
  /// The call has come to its end.
  void end() noexcept {
    if (cancel()) kept_by_timer_.reset();
  }

private:
  struct on_stop {
    limits* self;
    void operator()() const noexcept {
      if (const auto who = self->calls_.give_up(self->number_))
        who->failed(std::make_exception_ptr(cancelled_call(self->what_, self->destination_)));
    }
  };
  static void time_is_over(timed_function& f) noexcept {
    auto& self = static_cast<limits&>(f);
    const auto keep = std::move(self.kept_by_timer_);
    if (const auto who = self.calls_.give_up(self.number_))
      who->failed(std::make_exception_ptr(
          error(errc::timeout,
                self.what_ + " on rank " + std::to_string(self.destination_) + " has not answered within " +
                    in_words(self.timeout_),
                "it may run yet: its answer will be dropped; give the call more time if that is what it takes")));
  }

  pending_calls& calls_;
  const std::chrono::nanoseconds timeout_;
  const std::string what_;
  const int destination_;
  std::uint64_t number_ = 0;
  std::shared_ptr<limits> kept_by_timer_;
  std::optional<std::stop_callback<on_stop>> stop_; // last: its destructor waits for one that is being called
};

class limited_reply final : public pending_reply {
public:
  limited_reply(reply_ref who, std::shared_ptr<limits> until) : who_(std::move(who)), until_(std::move(until)) {}
  ~limited_reply() override { until_->end(); }
  discard_function discards() const noexcept override { return who_->discards(); }
  bool needs_fiber() const noexcept override { return who_->needs_fiber(); }
  void value(std::span<const std::byte> bytes) override {
    until_->end(); // before its caller goes on
    who_->value(bytes);
  }
  void failed(std::exception_ptr e) override {
    until_->end();
    who_->failed(std::move(e));
  }

private:
  reply_ref who_;
  std::shared_ptr<limits> until_;
};

} // namespace

void check(const call_options& limit) {
  if (limit.timeout.count() < 0)
    throw error(errc::invalid_argument, "a call was given a negative time", "0 stands for no limit");
}

error cancelled_call(const std::string& what, int destination) {
  return error(errc::cancelled,
               "the call of " + what + " on rank " + std::to_string(destination) + " was cancelled by its caller",
               "it may run yet: its answer will be dropped");
}

std::uint64_t expect(node& here, reply_ref who, int from, const call_options& limit, const std::string& what) {
  if (limit.timeout.count() == 0 && !limit.stop.stop_possible()) return here.calls().expect(std::move(who), from);
  const auto until = std::make_shared<limits>(here.calls(), limit, what, from);
  const std::uint64_t number = here.calls().expect(reply_ref(new limited_reply(std::move(who), until)), from);
  limits::begin(until, limit.stop, number);
  return number;
}

} // namespace tern::net::detail
