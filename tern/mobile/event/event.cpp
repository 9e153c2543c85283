// SPDX-License-Identifier: Apache-2.0
/// \file
/// Events: from the program's call to the target.
#include <tern/mobile/event.hpp>

#include <exception>
#include <string>

#include <tern/base/error.hpp>
#include <tern/mobile/entry/event_set.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/message.hpp>

namespace tern {
namespace mobile::detail {
namespace {

void check_not_null(const event& e, const char* what) {
  if (!e) throw error(errc::invalid_argument, std::string("a null event was ") + what, "make it first, by make_event");
}

void post_signal(net::node& here, object_id target, const event_note& s, byte_buffer& bytes, std::uint64_t reply) {
  if (bytes.empty()) return post_control(here, signal_handler, target, reply, s);
  object_address to{here, directory::of(here), target};
  auto elements = net::detail::buffer_access::adopt<std::byte>(std::move(bytes));
  try {
    net::detail::post_packed_to(here, to, {signal_handler.id(), 0, reply}, {}, address(), s,
                                net::detail::range_out<std::byte>(std::move(elements)));
  } catch (...) {
    if (to.chosen) to.known.failed(to.next);
    throw;
  }
}

} // namespace

// \throws error(invalid_argument).
void event_access::bad_signal(const event& e, std::int64_t i) {
  check_not_null(e, "signalled");
  throw error(errc::invalid_argument,
              "signal " + std::to_string(i) + " of an event of " + std::to_string(e.size_) +
                  " signals was given (event " + std::to_string(e.number_) + " of object " + to_string(e.object_) + ")",
              "signals have the numbers 0 to " + std::to_string(e.size_ - 1));
}

event event_access::make(object_id target, const event_kind& kind, std::int64_t n) {
  if (n < 1 || n > most_signals)
    throw error(errc::invalid_argument, "an event of " + std::to_string(n) + " signals was asked for",
                "an event takes 1 to " + std::to_string(most_signals) + " signals");
  net::node& here = net::node::here();
  event e;
  e.object_ = target;
  e.size_ = static_cast<std::uint32_t>(n);
  e.number_ = directory::of(here).events().arm_here(target, kind, e.size_);
  if (e.number_ == 0) {
    e.number_ =
        net::detail::post_call<std::uint32_t>(here, directory::of(here).home_of(target), [&](std::uint64_t reply) {
          post_control(here, *kind.arms, target, reply, arm_note{e.size_, 0});
        }).get();
  }
  return e;
}

inline event_note event_access::note_of(const event& e, std::int64_t i, std::uint32_t type) {
  if (!e || i < 0 || i >= e.size_) [[unlikely]]
    bad_signal(e, i);
  const auto* const running = running_invocation::here();
  return {running ? running->id() : object_id(), e.number_, e.round_, static_cast<std::uint32_t>(i), e.size_, type, 0};
}

void event_access::give(const event& e, std::int64_t i) {
  if (!directory::of(net::node::here()).events().add_bare(e.object_, note_of(e, i, 0))) give(e, i, {});
}

void event_access::give(const event& e, std::int64_t i, signal_value value) {
  const event_note s = note_of(e, i, value.type);
  net::node& here = net::node::here();
  signal_content content{s.index, s.type, std::move(value.bytes), {}};
  try {
    if (directory::of(here).events().signal_here(e.object_, s, content) == event_signals::result::done) return;
  } catch (...) { // as if it had come from another rank
    return here.reply_error(here.rank(), 0, std::current_exception(), "'tern::signal'");
  }
  post_signal(here, e.object_, s, content.bytes, 0);
}

future<void> event_access::call(const event& e, std::int64_t i, signal_value value) {
  const event_note s = note_of(e, i, value.type);
  net::node& here = net::node::here();
  signal_content content{s.index, s.type, std::move(value.bytes), {}};
  promise<void> done;
  try {
    if (directory::of(here).events().signal_here(e.object_, s, content) == event_signals::result::done) {
      done.set_value();
      return done.get_future();
    }
  } catch (const error& x) {
    done.set_exception(std::make_exception_ptr(x));
    return done.get_future();
  }
  return net::detail::post_call<void>(here, directory::of(here).home_of(e.object_), [&](std::uint64_t reply) {
    post_signal(here, e.object_, s, content.bytes, reply);
  });
}

event event_access::rearm(const event& e) {
  check_not_null(e, "rearmed");
  net::node& here = net::node::here();
  try {
    if (directory::of(here).events().rearm_here(e.object_, e.number_, e.round_) == event_signals::result::done)
      return e.next_round();
  } catch (...) {
    here.reply_error(here.rank(), 0, std::current_exception(), "'tern::rearm'");
    return e.next_round();
  }
  post_control(here, rearm_handler, e.object_, 0, firing_note{e.number_, e.round_});
  return e.next_round();
}

void event_access::tell(signals& in, object_id target, const firing_note& f) {
  in.of_.object_ = target;
  in.of_.number_ = f.number;
  in.of_.size_ = static_cast<std::uint32_t>(in.size());
  in.of_.round_ = f.round;
}

template <class Signals> Signals event_access::signals_of(fired_with_objects& what) {
  Signals in;
  in.what_ = std::move(what.with);
  tell(in, what.target, {what.number, what.round});
  return in;
}
template signals event_access::signals_of<signals>(fired_with_objects& what);

} // namespace mobile::detail

void signal(const event& e, std::int64_t i) { mobile::detail::event_access::give(e, i); }
future<void> call_signal(const event& e, std::int64_t i) { return mobile::detail::event_access::call(e, i, {}); }
event rearm(const event& e) { return mobile::detail::event_access::rearm(e); }

} // namespace tern
