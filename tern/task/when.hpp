// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// One future for several: `when_all` is ready when all of them are, `when_any` when the
/// first is. No fiber waits meanwhile: the futures' own setting counts them.
///
///     auto [m, options] = tern::when_all(read_mesh(), read_options()).get(); // all are ready
///     use(m.get(), options.get());
///
///     auto [index, replies] = tern::when_any(std::move(asked)).get(); // a vector of futures
///     use(replies[index].get()); // the others may become ready later
///
/// What the futures hold, value or exception, stays in them: the combined future itself throws
/// nothing. A `future` is moved from, a `shared_future` is copied. Any thread, also a foreign one.

#include <array>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <memory>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/task/future.hpp>

namespace tern {

/// Which of `futures` was ready first. Of none, `index` is `nothing`.
template <class Sequence> struct when_any_result {
  static constexpr std::size_t nothing = ~std::size_t{0};
  std::size_t index = nothing;
  Sequence futures;
};

namespace detail {

/// The hooks of a state that waits for several others.
template <class State> struct group_hook : ready_hook {
  group_hook() noexcept : ready_hook(State::fired) {}
  State* group = nullptr;
  future_state_base* input = nullptr;
};

template <class... Futures> auto states_of(std::tuple<Futures...>& all) {
  return std::apply(
      [](auto&... f) { return std::array<future_state_base*, sizeof...(f)>{&future_access::state(f)...}; }, all);
}
template <class Future> auto states_of(std::vector<Future>& all) {
  std::vector<future_state_base*> states;
  states.reserve(all.size());
  for (Future& f : all) states.push_back(&future_access::state(f));
  return states;
}

/// The state of a when_all. Its value is there from the beginning; only that it is ready is
/// missing.
template <class Sequence> class all_state final : public future_state<Sequence> {
  using hook = group_hook<all_state>;

public:
  all_state(Sequence&& futures, const std::source_location& made) : future_state<Sequence>(1, made) {
    this->store(std::move(futures));
    const auto inputs = states_of(this->kept_value());
    hooks_ = std::make_unique<hook[]>(inputs.size());
    left_.store(inputs.size() + 1, std::memory_order_relaxed); // 1: `start`
    for (std::size_t i = 0; i < inputs.size(); ++i) hooks_[i].input = inputs[i];
    size_ = inputs.size();
  }
  /// \pre the caller has a reference.
  void start() noexcept {
    ready_queue more;
    for (std::size_t i = 0; i < size_; ++i) {
      hook& h = hooks_[i];
      h.group = this;
      this->add_reference(); // the hook's
      if (!h.input->subscribe(h)) fired(h, more);
    }
    arrive(more);
    more.run();
  }
  static void fired(ready_hook& h, ready_queue& more) noexcept {
    all_state& self = *static_cast<hook&>(h).group;
    self.arrive(more);
    self.release();
  }

private:
  void arrive(ready_queue& more) noexcept {
    // The last one's acquire makes visible what the others' setters did; so does reading their
    // states.
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) this->publish(more);
  }
  std::unique_ptr<hook[]> hooks_;
  std::size_t size_;
  std::atomic<std::size_t> left_;
};

/// The state of a when_any. The first to be ready, together with `start` (which has to be through
/// with all of them), ends it; the others' hooks are then taken away, so that a future that is
/// asked again and again gathers none.
template <class Sequence> class any_state final : public future_state<when_any_result<Sequence>> {
  using hook = group_hook<any_state>;
  static constexpr std::size_t nothing = when_any_result<Sequence>::nothing;

public:
  any_state(Sequence&& futures, const std::source_location& made) : future_state<when_any_result<Sequence>>(1, made) {
    this->store(when_any_result<Sequence>{nothing, std::move(futures)});
    const auto inputs = states_of(this->kept_value().futures);
    hooks_ = std::make_unique<hook[]>(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) hooks_[i].input = inputs[i];
    size_ = inputs.size();
  }
  /// \pre the caller has a reference.
  void start() noexcept {
    ready_queue more;
    if (size_ == 0) arrive(more);
    for (std::size_t i = 0; i < size_ && first_.load(std::memory_order_relaxed) == nothing; ++i) {
      hook& h = hooks_[i];
      h.group = this;
      this->add_reference(); // the hook's
      if (!h.input->subscribe(h)) fired(h, more);
    }
    arrive(more);
    more.run();
  }
  static void fired(ready_hook& h, ready_queue& more) noexcept {
    any_state& self = *static_cast<hook&>(h).group;
    std::size_t none = nothing;
    const auto index = static_cast<std::size_t>(static_cast<hook*>(&h) - self.hooks_.get());
    if (self.first_.compare_exchange_strong(none, index, std::memory_order_relaxed)) self.arrive(more);
    self.release();
  }

private:
  void arrive(ready_queue& more) noexcept {
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    for (std::size_t i = 0; i < size_; ++i)
      if (hooks_[i].input->unsubscribe(hooks_[i])) this->release(); // not the last: the caller has one
    this->kept_value().index = first_.load(std::memory_order_relaxed);
    this->publish(more);
  }
  std::unique_ptr<hook[]> hooks_;
  std::size_t size_;
  std::atomic<std::size_t> first_{nothing};
  std::atomic<int> left_{2}; // the first one and `start`
};

template <class State, class Sequence> auto combine(Sequence&& futures, const std::source_location& made) {
  auto* state = new State(std::forward<Sequence>(futures), made);
  auto result = future_access::make(state);
  state->start();
  return result;
}

template <class... Futures> void check_all_valid(const char* what, const Futures&... futures) {
  if (!(futures.valid() && ...)) throw_no_state(what);
}

template <class Range>
concept future_range = requires(Range& r) {
  std::begin(r) != std::end(r);
  requires is_any_future<std::remove_cvref_t<decltype(*std::begin(r))>>;
};

/// The futures of a range, moved if that is given away.
template <class Range> auto gather(const char* what, Range&& range) {
  using future_type = std::remove_cvref_t<decltype(*std::begin(range))>;
  constexpr bool moves = !std::is_lvalue_reference_v<Range>;
  static_assert(moves || std::is_copy_constructible_v<future_type>,
                "futures are taken out of their range: write when_all(std::move(range))");
  for (auto&& f : range) check_all_valid(what, f);
  if constexpr (std::is_same_v<std::remove_cv_t<Range>, std::vector<future_type>>) {
    return std::vector<future_type>(std::forward<Range>(range));
  } else {
    std::vector<future_type> all;
    for (auto&& f : range) {
      if constexpr (moves)
        all.push_back(std::move(f));
      else
        all.push_back(f);
    }
    return all;
  }
}

} // namespace detail

/// Ready when all futures are; at once if there are none.
/// \return future<std::tuple<…>> of them.
/// \throws error(invalid_state) if one is not `valid`, and then all stay as they are.
template <class... Futures>
requires(detail::is_any_future<std::remove_cvref_t<Futures>>&&...) auto when_all(Futures&&... futures) {
  using sequence = std::tuple<std::remove_cvref_t<Futures>...>;
  detail::check_all_valid("when_all", futures...);
  return detail::combine<detail::all_state<sequence>>(sequence(std::forward<Futures>(futures)...),
                                                      std::source_location::current());
}
/// The same for a range.
/// \return future<std::vector<…>> of them.
template <detail::future_range Range>
auto when_all(Range&& futures, std::source_location made = std::source_location::current()) {
  auto all = detail::gather("when_all", std::forward<Range>(futures));
  return detail::combine<detail::all_state<decltype(all)>>(std::move(all), made);
}

/// Ready when one of the futures is; at once if there are none, with the index `nothing`. If
/// several are ready already, it is the first of them.
/// \return future<when_any_result<std::tuple<…>>>.
/// \throws error(invalid_state) if one is not `valid`, and then all stay as they are.
template <class... Futures>
requires(detail::is_any_future<std::remove_cvref_t<Futures>>&&...) auto when_any(Futures&&... futures) {
  using sequence = std::tuple<std::remove_cvref_t<Futures>...>;
  detail::check_all_valid("when_any", futures...);
  return detail::combine<detail::any_state<sequence>>(sequence(std::forward<Futures>(futures)...),
                                                      std::source_location::current());
}
/// The same for a range.
/// \return future<when_any_result<std::vector<…>>>.
template <detail::future_range Range>
auto when_any(Range&& futures, std::source_location made = std::source_location::current()) {
  auto all = detail::gather("when_any", std::forward<Range>(futures));
  return detail::combine<detail::any_state<decltype(all)>>(std::move(all), made);
}

} // namespace tern
