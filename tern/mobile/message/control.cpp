// SPDX-License-Identifier: Apache-2.0
/// \file
/// Packs the runtime's own messages to objects.
#include <tern/mobile/message/control.hpp>

#include <cstring>
#include <tuple>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/mobile/object/element_name.hpp>
#include <tern/mobile/object/type.hpp>
#include <tern/net/message.hpp>
#include <tern/net/node.hpp>

namespace tern::mobile::detail {
namespace {

constexpr std::uint32_t kept_flags =
    net::flag_uncounted | net::flag_high | net::flag_low | flag_work; // by what is sent on

template <action What, const net::handler_record& Handler>
constexpr invocable message_for{What, nullptr, []() -> const std::string& { return Handler.name(); }, nullptr};

} // namespace

const invocable destroy_message = message_for<action::destroy, destroy_handler>;
const invocable migrate_message = message_for<action::migrate, migrate_handler>;
const invocable swap_out_message = message_for<action::swap_out, swap_out_handler>;
const invocable pin_message = message_for<action::pin, pin_handler>;
const invocable unpin_message = message_for<action::unpin, unpin_handler>;
const invocable add_credit_message = message_for<action::add_credit, add_credit_handler>;
const invocable return_credit_message = message_for<action::return_credit, return_credit_handler>;
const invocable open_message = message_for<action::open, open_handler>;
const invocable close_message = message_for<action::close, close_handler>;
const invocable skip_message = message_for<action::skip, skip_handler>;
const invocable claim_message = message_for<action::exclude, claim_handler>;
const invocable claim_shared_message = message_for<action::share, claim_shared_handler>;
const invocable settle_message = message_for<action::settle, settle_handler>;
const invocable carry_message = message_for<action::migrate, carry_handler>;

void make_destroy(invocation& one) noexcept {
  one.what = &destroy_message;
  one.header.handler = destroy_handler.id(); // it may be sent on
}

std::uint64_t credit_in(invocation& one) {
  return std::get<0>(net::detail::unpack_call<std::tuple<std::uint64_t>>(one.message, sizeof(address)));
}

void post_note(net::node& here, int to, const directory_note& n) {
  net::detail::post_packed(here, to, {note_handler.id(), 0, 0}, {}, n);
}

void post_open(net::node& here, int home, object_id id) {
  net::detail::post_packed(here, home, {open_handler.id(), 0, 0}, {}, address(id, here.rank()));
}

void post_close(net::node& here, int where, const address& to) {
  net::detail::post_packed(here, where, {close_handler.id(), 0, 0}, {}, to);
}

namespace {

std::unique_ptr<invocation> move_request(net::node& here, const invocable& what, const net::handler_record& handler,
                                         object_id id, int to, std::uint64_t reply) {
  auto one = std::make_unique<invocation>();
  one->what = &what;
  one->source = here.rank();
  one->header = {handler.id(), 0, reply};
  one->to = address(id, here.rank());
  one->message.bytes = pack(one->header, one->to, static_cast<std::int32_t>(to));
  one->on = here.hold_account();
  here.parked(one->header);
  return one;
}

} // namespace

std::unique_ptr<invocation> migrate_request(net::node& here, object_id id, int to, std::uint64_t reply) {
  return move_request(here, migrate_message, migrate_handler, id, to, reply);
}
std::unique_ptr<invocation> carry_request(net::node& here, object_id id, int to, std::uint64_t reply) {
  return move_request(here, carry_message, carry_handler, id, to, reply);
}

void post_skip(net::node& here, int where, const address& to) {
  net::detail::post_packed(here, where, {skip_handler.id(), 0, 0}, {}, to);
}

namespace {

const std::string& any_object() { // of whatever class
  static const std::string name = "object";
  return name;
}

} // namespace

void forward(net::node& here, int where, std::unique_ptr<invocation> one) {
  net::wire_header h = one->header;
  h.flags = (h.flags & kept_flags) | (one->message.body.empty() ? 0 : net::flag_range);
  byte_buffer& bytes = one->message.bytes;
  if (!bytes.writable()) bytes = bytes.copy();
  std::memcpy(bytes.data(), &h, sizeof h);
  std::memcpy(bytes.data() + sizeof h, &one->to, sizeof one->to);
  here.forwards(one->source, one->header, one->what->type ? one->what->type()->name : any_object(),
                one->to.object.bits);
  {
    const tern::detail::causal_scope in(one->on.get());
    here.post(where, std::move(bytes), one->message.body, {(h.flags & net::flag_uncounted) == 0});
  }
  one->on.reset();
  here.message_done(one->header); // after what it has caused was counted
}

void no_address(std::size_t bytes) {
  throw error(errc::invalid_data,
              "an invocation's message of " + std::to_string(bytes) + " bytes has no room for the object's name");
}

void bad_rank(object_id object, int rank, int ranks) {
  throw error(errc::invalid_data, "a message to object " + to_string(object) + " speaks of rank " +
                                      std::to_string(rank) + ", but there are " + std::to_string(ranks));
}

void bad_address(const address& to, int ranks, int homes) {
  if (!to.object) throw error(errc::invalid_data, "a message to no object has come");
  if (to.object.home() >= homes) bad_rank(to.object, to.object.home(), homes);
  if (to.origin() >= ranks) bad_rank(to.object, to.origin(), ranks);
  bad_rank(to.object, to.stream, ranks);
}

std::string describe_invocation(const std::string& function, object_id id, const std::string& type) {
  if (const std::string element = element_name(net::node::current(), id); !element.empty())
    return "'" + function + "' of " + element + " (object " + to_string(id) + ")";
  return "'" + function + "' of object " + to_string(id) + " (" + type + ")";
}

} // namespace tern::mobile::detail
