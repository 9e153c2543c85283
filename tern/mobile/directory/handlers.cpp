// SPDX-License-Identifier: Apache-2.0
/// \file
/// What takes the runtime's own messages to objects.
#include <tern/mobile/directory.hpp>

#include <tern/base/archive.hpp>
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

} // namespace

const invocable signal_message{action::signal, nullptr, []() -> const std::string& { return signal_handler.name(); },
                               nullptr};
const invocable rearm_message{action::rearm, nullptr, []() -> const std::string& { return rearm_handler.name(); },
                              nullptr};
const net::handler_record signal_handler{typeid(signal_tag), "tern::signal", __FILE__, &take_control<signal_message>,
                                         true};
const net::handler_record rearm_handler{typeid(rearm_tag), "tern::rearm", __FILE__, &take_control<rearm_message>, true};

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

} // namespace tern::mobile::detail
