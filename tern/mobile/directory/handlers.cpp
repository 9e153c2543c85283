// SPDX-License-Identifier: Apache-2.0
/// \file
/// What takes the runtime's own messages to objects.
#include <tern/mobile/directory.hpp>

#include <tern/base/archive.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/message/control.hpp>
#include <tern/net/message.hpp>

namespace tern::mobile::detail {
namespace {

template <const invocable& What>
void take_control(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).arrive(here, What, source, header, message, false);
}

// Where it can it ends the object at once, which runs the program's destructor: so it is none of
// those that never wait.
void take_destroy_here(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).arrive(here, destroy_message, source, header, message, true);
}

void take_note(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  directory::of(here).take(source, tern::unpack<directory_note>(net::detail::body_of(message.bytes)));
  here.message_done(header);
}

// The claimer of an object moves it, or lets it go. Both know that it is here.
void take_carry(net::node& here, int source, const net::wire_header& header, net::payload& message) {
  auto one = std::make_unique<invocation>();
  one->what = &carry_message;
  one->source = source;
  one->header = header;
  one->to = read_address(message.bytes);
  check_address(one->to, here.size(), directory::of(here).objects().homes().count());
  message.settle();
  one->message = std::move(message);
  one->on = here.hold_account();
  directory::of(here).access().carry(std::move(one));
}

void take_let_go(net::node& here, int, const net::wire_header& header, net::payload& message) {
  const auto [to, shared] = tern::unpack<std::pair<address, std::uint32_t>>(net::detail::body_of(message.bytes));
  check_address(to, here.size(), directory::of(here).objects().homes().count());
  directory::of(here).access().end_claim(to.object, shared != 0);
  here.message_done(header);
}

struct claim_tag {};
struct claim_shared_tag {};
struct settle_tag {};
struct carry_tag {};
struct let_go_tag {};
struct destroy_tag {};
struct migrate_tag {};
struct swap_out_tag {};
struct pin_tag {};
struct unpin_tag {};
struct add_credit_tag {};
struct return_credit_tag {};
struct open_tag {};
struct close_tag {};
struct skip_tag {};
struct note_tag {};
struct signal_tag {};
struct rearm_tag {};
struct round_ended_tag {};

} // namespace

const invocable signal_message{action::signal, nullptr, []() -> const std::string& { return signal_handler.name(); },
                               nullptr};
const invocable rearm_message{action::rearm, nullptr, []() -> const std::string& { return rearm_handler.name(); },
                              nullptr};
const net::handler_record signal_handler{typeid(signal_tag), "tern::signal", __FILE__, &take_control<signal_message>,
                                         true};
const net::handler_record rearm_handler{typeid(rearm_tag), "tern::rearm", __FILE__, &take_control<rearm_message>, true};
const invocable round_ended_message{action::ended, nullptr,
                                    []() -> const std::string& { return round_ended_handler.name(); }, nullptr};
const net::handler_record round_ended_handler{typeid(round_ended_tag), "end of an event's function", __FILE__,
                                              &take_control<round_ended_message>, true};

const net::handler_record destroy_handler{
    typeid(destroy_tag), "destroy", __FILE__, &take_control<destroy_message>, false, &take_destroy_here};
const net::handler_record migrate_handler{typeid(migrate_tag), "migrate", __FILE__, &take_control<migrate_message>,
                                          true};
const net::handler_record swap_out_handler{typeid(swap_out_tag), "swap_out", __FILE__, &take_control<swap_out_message>,
                                           true};
const net::handler_record pin_handler{typeid(pin_tag), "pin", __FILE__, &take_control<pin_message>, true};
const net::handler_record unpin_handler{typeid(unpin_tag), "unpin", __FILE__, &take_control<unpin_message>, true};
const net::handler_record add_credit_handler{typeid(add_credit_tag), "tern counted references", __FILE__,
                                             &take_control<add_credit_message>, true};
const net::handler_record return_credit_handler{typeid(return_credit_tag), "tern references given back", __FILE__,
                                                &take_control<return_credit_message>, true};
const net::handler_record open_handler{typeid(open_tag), "tern open stream", __FILE__, &take_control<open_message>,
                                       true};
const net::handler_record close_handler{typeid(close_tag), "tern close stream", __FILE__, &take_control<close_message>,
                                        true};
const net::handler_record skip_handler{typeid(skip_tag), "tern skipped number", __FILE__, &take_control<skip_message>,
                                       true};
const net::handler_record note_handler{typeid(note_tag), "tern directory note", __FILE__, &take_note, true};

// A claim never waits where it arrives: what it grants is told from there.
const net::handler_record claim_handler{typeid(claim_tag), "claim", __FILE__, &take_control<claim_message>, true};
const net::handler_record claim_shared_handler{typeid(claim_shared_tag), "shared claim", __FILE__,
                                               &take_control<claim_shared_message>, true};
const net::handler_record settle_handler{typeid(settle_tag), "wait for released access", __FILE__,
                                         &take_control<settle_message>, true};
const net::handler_record carry_handler{typeid(carry_tag), "move of what is claimed", __FILE__, &take_carry, true};
const net::handler_record let_go_handler{typeid(let_go_tag), "end of a claim", __FILE__, &take_let_go, true};

} // namespace tern::mobile::detail
