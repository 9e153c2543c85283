// SPDX-License-Identifier: Apache-2.0
#include <tern/net/call/replies.hpp>

#include <typeinfo>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::net::detail {
namespace {

// They run in the polling context and must not wait.
void give_value(pending_reply& who, const byte_buffer& message) noexcept {
  try {
    who.value(body_of(message));
  } catch (...) {
    who.failed(std::current_exception());
  }
}

void take_value(node& here, int source, const wire_header& h, payload& message) {
  pending_reply::discard_function late = nullptr;
  auto who = here.calls().take(h.reply, source, &late);
  if (!who) {
    if (late) late(body_of(message.bytes));
    return here.message_done(h);
  }
  if (who->needs_fiber() && !scheduler::in_fiber()) {
    message.settle();
    here.fibers().spawn([&here, h, who = std::move(who), bytes = std::move(message.bytes)]() mutable {
      give_value(*who, bytes);
      who.reset();
      here.message_done(h);
    });
    return;
  }
  give_value(*who, message.bytes);
  here.message_done(h);
}

void take_error(node& here, int source, const wire_header& h, payload& message) {
  auto who = here.calls().take(h.reply, source);
  if (!who) return here.message_done(h); // too late
  failure f;
  unpack_into(body_of(message.bytes), f);
  who->failed(std::make_exception_ptr(f.as_error()));
  here.message_done(h);
}

struct reply_value_tag {};
struct reply_error_tag {};
const handler_record value_record{typeid(reply_value_tag), "tern reply", __FILE__, &take_value, true};
const handler_record error_record{typeid(reply_error_tag), "tern error reply", __FILE__, &take_error, true};

} // namespace

std::uint32_t reply_handler() { return value_record.id(); }

void reply_error(node& here, int to, std::uint64_t reply, std::exception_ptr e, const std::string& context) {
  if (here.generation().abandoned()) return; // neither it nor its caller is of any use
  failure f = describe(std::move(e));
  f.message += " (in " + (f.within.empty() ? context : f.within) + " on rank " + std::to_string(here.rank());
  if (!reply) f.message += ", for rank " + std::to_string(to);
  f.message += ")";
  if (reply) {
    try {
      here.post(to, pack(wire_header{error_record.id(), 0, reply}, f), {.urgent = true});
    } catch (const std::exception& x) {
      here.fatal("rank " + std::to_string(to) + " cannot be told that " + f.message + ": " + x.what());
    }
    return;
  }
  const std::string text =
      error(f.code, f.message, f.hint.empty() ? "a send has no caller: use call instead of send to handle it" : f.hint,
            f.place)
          .what();
  if (here.stops_at_unhandled()) here.fatal(text);
  log_error(text);
}

} // namespace tern::net::detail
