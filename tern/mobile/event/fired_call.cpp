// SPDX-License-Identifier: Apache-2.0
/// \file
/// Events whose functions take the objects that signals bring.
#include <tern/mobile/event.hpp>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/mobile/entry/event_set.hpp>
#include <tern/mobile/object/element_name.hpp>
#include <tern/mobile/together/together_call.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/message.hpp>

namespace tern::mobile::detail {
namespace {

/// As it goes to the rank where the objects are; behind the claims.
struct packed_firing {
  std::uint64_t target = 0;
  std::uint32_t number = 0, round = 0;
  std::int32_t last = -1;
  fired_signals with;
  template <class A> void serialize(A& ar) { ar(target, number, round, last, with); }
};

// For those that follow it from where the target was. Nothing if the target is gone.
void post_end(net::node& here, const fired_with_objects& what) {
  post_control(here, round_ended_handler, what.target, 0, firing_note{what.number, what.round});
}

// On the rank where all are. The target may have come with its events still under way; then
// `rearm` is a message to it, and the end must come behind that.
void run_and_end(net::node& here, fired_with_objects& what, const named_objects& named, const gathered& how,
                 std::span<void* const> objects) {
  event_signals& events = directory::of(here).events();
  const bool whole = events.has_all(what.target);
  const auto end = [&] {
    const firing_note note{what.number, what.round};
    if (!whole || events.ended_here(what.target, note) == event_signals::result::not_here) post_end(here, what);
  };
  try {
    how.run(here, what, named, objects);
  } catch (...) {
    end();
    throw;
  }
  end();
}

class fired_call final : public together_call {
public:
  fired_call(net::node& here, fired_with_objects what, named_objects named, const gathered& how)
      : together_call(here, 1 + named.others.size()), here_(here), what_(std::move(what)), named_(std::move(named)),
        how_(how) {}

  const std::string& name() const override { return what_.kind->fires->name(); }
  void run(std::span<void* const> objects) override { run_and_end(here_, what_, named_, how_, objects); }
  void post_to(int where, std::span<const claim_name> claims) override {
    const std::vector<claim_name> names(claims.begin(), claims.end());
    const packed_firing rest{what_.target.bits, what_.number, what_.round, what_.last, std::move(what_.with)};
    remote_ = net::detail::post_call<void>(here_, where, [&](std::uint64_t reply) {
      net::detail::post_packed(here_, where, {what_.kind->fires->id(), 0, reply}, {}, names, rest);
    });
  }
  void wait() override { remote_.get(); }
  void failed(std::exception_ptr why) noexcept override { why_ = std::move(why); }
  void publish() noexcept override {
    if (!why_) return;
    try {
      post_end(here_, what_); // if it did not run, later rounds still may
      net::detail::failure f = net::detail::describe(std::move(why_));
      if (f.hint.empty())
        f.hint =
            "an event's function has no caller: give the pointers as values, and use tern::call_together within the "
            "function to handle this";
      const std::string element = element_name(&here_, what_.target);
      here_.reply_error(here_.rank(), 0, std::make_exception_ptr(f.as_error()),
                        describe_event(what_.number, element.empty() ? "object " + to_string(what_.target) : element));
    } catch (const std::exception& e) {
      here_.fatal(e.what());
    }
  }
  void drop() noexcept override { delete this; }

private:
  net::node& here_;
  fired_with_objects what_;
  const named_objects named_;
  const gathered& how_;
  future<void> remote_;
  std::exception_ptr why_;
};

} // namespace

void* target_as(net::node& here, object_id target, const type_record& wanted) {
  claimed_object one{target, &wanted};
  directory::of(here).access().find_claimed(one);
  return one.object;
}

void fire_with_objects(net::node& here, fired_with_objects what, const gathered& how) {
  const net::detail::handler_frame sent(what.last);
  const event_kind& kind = *what.kind;
  const firing_note note{what.number, what.round};
  const object_id of = what.target;
  try {
    named_objects named(what.target, what.with);
    const std::vector<object_id> others = named.others;
    const bool alone = named.target && !how.shares_others; // the target is among what is to be had alone
    const object_id target = what.target;
    auto* const call = new fired_call(here, std::move(what), std::move(named), how);
    together_ref owned(call);
    call->add(target, *how.target(), how.shares_target && !alone);
    for (const object_id id : others) call->add(id, *how.other(), how.shares_others);
    run_together(std::move(owned));
  } catch (...) { // a pointer that cannot exist in this job
    post_control(here, round_ended_handler, of, 0, note);
    here.reply_error(here.rank(), 0, std::current_exception(), "'" + kind.fires->name() + "'");
  }
}

void run_gathered(net::node& here, int source, const net::wire_header& header, net::payload& message,
                  const event_kind& kind, const gathered& how) {
  std::string text = "'" + kind.fires->name() + "'";
  net::detail::answer<void>(
      here, source, header, [&] { return text; },
      [&] {
        arrived_claims claims(here, message); // are let go before the claimer hears of it
        text = claims.describe(kind.fires->name(), *how.target());
        auto [names, rest] = net::detail::unpack_call<std::tuple<std::vector<claim_name>, packed_firing>>(message);
        fired_with_objects what{&kind,     object_id(rest.target), rest.number, rest.round,
                                rest.last, std::move(rest.with)};
        const net::detail::handler_frame sent(what.last);
        const named_objects named(what.target, what.with);
        claims.run(*how.target(), *how.other(),
                   [&](std::span<void* const> objects) { run_and_end(here, what, named, how, objects); });
      });
}

} // namespace tern::mobile::detail
