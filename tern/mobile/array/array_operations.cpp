// SPDX-License-Identifier: Apache-2.0
/// \file
/// What ranks do together with an array.
#include <tern/mobile/array/array_operations.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <numeric>
#include <span>

#include <tern/base/error.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/mobile/entry/homes.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/node.hpp>
#include <tern/task/fiber.hpp>

namespace tern::mobile::detail {

rank_tree rank_tree::all() {
  const communicator world = communicator::world();
  return {world.rank(), 1, world.size()};
}

std::vector<std::pair<int, rank_tree>> rank_tree::children() const {
  std::vector<std::pair<int, rank_tree>> found;
  if (last <= first) return found;
  const communicator world = communicator::world();
  for (std::int32_t end = last; end > first;) {
    const std::int32_t begin = end - (end - first + 1) / 2;
    found.emplace_back(world.job_rank((origin + begin) % world.size()), rank_tree{origin, begin + 1, end});
    end = begin;
  }
  return found;
}

namespace {

std::vector<std::int32_t> ranks_of(std::vector<std::int32_t> homes, const home_table& where) {
  if (where.is_identity()) return homes;
  for (std::int32_t& h : homes) h = where.rank_of(static_cast<int>(h));
  std::sort(homes.begin(), homes.end());
  homes.erase(std::unique(homes.begin(), homes.end()), homes.end());
  return homes;
}

} // namespace

array_operation next_operation(std::uint64_t array, const array_box& box) {
  const array_ref mine = array_table::here().need(array);
  net::node& here = net::node::here();
  const auto ranks = ranks_of(homes_of(box, mine->placed()), directory::of(here).homes());
  return {array, box, mine->next_route(here.rank(), ranks)};
}

array_ref array_of(const array_operation& op) {
  array_ref array = array_table::here().need(op.array);
  op.box.check(array->layout());
  op.route.check(net::node::here().size());
  static_cast<void>(array->placed());
  return array;
}

void element_pace::rest() { this_fiber::yield(); }

// Broadcasts ----------------------------------------------------------------------------------------------------------

void post_packed_invocation(net::node& here, object_id to, std::span<const std::byte> message, std::uint64_t reply) {
  directory& known = directory::of(here);
  const std::size_t bytes = message.size();
  net::wire_header h;
  std::memcpy(&h, message.data(), sizeof h);
  h.reply = reply;
  if (known.has_mailboxes()) { // as all that this rank sends to the object
    outgoing_mail mine(known.mail(), bytes);
    std::memcpy(mine.message().data(), message.data(), bytes);
    std::memcpy(mine.message().data(), &h, sizeof h);
    return known.send(to, mine, true);
  }
  const destination next = known.find_destination(to);
  if (next.is_lined()) {
    byte_buffer mine = byte_buffer::copy_of(message);
    std::memcpy(mine.data(), &h, sizeof h);
    std::memcpy(mine.data() + sizeof h, &next.to, sizeof next.to);
    try {
      known.line().put(to, mine.bytes(), {});
    } catch (...) {
      known.failed(next);
      throw;
    }
    known.sent(next, bytes);
    return known.line().throttle();
  }
  try {
    const auto write_to = [&](std::byte* at) {
      std::memcpy(at, &h, sizeof h);
      std::memcpy(at + sizeof h, &next.to, sizeof next.to);
      constexpr std::size_t head = sizeof h + sizeof next.to;
      std::memcpy(at + head, message.data() + head, bytes - head);
    };
    if (std::byte* const at = here.place(next.where, h, bytes)) {
      write_to(at);
    } else if (bytes <= net::detail::small_message) {
      alignas(16) std::array<std::byte, net::detail::small_message> space;
      write_to(space.data());
      byte_buffer none;
      here.post(next.where, std::span(space).first(bytes), none, {});
    } else {
      byte_buffer whole = here.memory().take(bytes);
      write_to(whole.data());
      here.post(next.where, std::move(whole));
    }
  } catch (...) {
    known.failed(next);
    throw;
  }
  known.sent(next, bytes);
  here.throttle(next.where);
}

namespace {

void check_invocation_message(const array_record& of, std::span<const std::byte> message) {
  net::wire_header h;
  if (message.size() < sizeof h + sizeof(address))
    throw error(errc::invalid_data, "a broadcast to " + of.layout().title() + " is too short");
  std::memcpy(&h, message.data(), sizeof h);
  if (h.handler >= net::handler_table::size() || net::handler_table::at(h.handler).internal())
    throw error(errc::invalid_data, "a broadcast to " + of.layout().title() + " is for handler " +
                                        std::to_string(h.handler) + ", which is none of the program's");
}

// For what no caller waits for. At the job's end nothing follows.
template <class F> void or_fatal(F&& f) {
  try {
    f();
  } catch (const error& e) {
    if (e.code() != errc::invalid_state) net::node::here().fatal(e.what());
  } catch (const std::exception& e) {
    net::node::here().fatal(e.what());
  }
}

} // namespace

void broadcast_part(const array_operation& op, const shared_buffer<std::byte>& message) {
  net::node& here = net::node::here();
  const array_ref array = array_of(op);
  check_invocation_message(*array, message);
  op.route.for_each_part([&](array_route part) {
    const int child = part.first();
    tern::send<&broadcast_part>(child, op.along(std::move(part)), message);
  });
  array->queue().enter(op.route.origin(), op.route.number(), here.hold_account(),
                       [array, box = op.box, message, &here] {
                         or_fatal([&] {
                           element_pace pace;
                           array->for_each(box, [&](std::int64_t linear) {
                             post_packed_invocation(here, array->layout().id_of(linear), message, 0);
                             pace.step();
                           });
                         });
                       });
}

void rethrow_of(const std::string& function, object_id id, const std::string& type) {
  const std::string where =
      " (in " + describe_invocation(function, id, type) + " on rank " + std::to_string(net::node::here().rank()) + ")";
  try {
    throw;
  } catch (const error& e) {
    throw error(e.code(), e.message() + where, e.hint(), e.place());
  } catch (const std::exception& e) {
    throw error(errc::remote, tern::detail::type_name(typeid(e)) + ": " + e.what() + where);
  }
}

void nothing_to_reduce(const array_layout& of) {
  throw net::detail::error_within(
      error(errc::not_found,
            "a reduction over a section of " + of.title() + " (" + of.plan().type + ") found no element",
            "insert elements first"),
      std::string("tern::reduce over ") + (of.plan().name.empty() ? "" : "array ") + of.title());
}

// Making and ending ---------------------------------------------------------------------------------------------------

std::vector<std::pair<std::int32_t, std::uint64_t>> reserve_part(const array_plan& plan, const rank_tree& tree) {
  std::vector<future<std::vector<std::pair<std::int32_t, std::uint64_t>>>> below;
  tree.for_each_child(
      [&](int child, const rank_tree& part) { below.push_back(tern::call<&reserve_part>(child, plan, part)); });
  auto firsts = array_table::here().add(plan);
  for (auto& one : below) {
    const auto theirs = one.get();
    firsts.insert(firsts.end(), theirs.begin(), theirs.end());
  }
  return firsts;
}

std::vector<std::uint64_t> reserve_everywhere(const array_plan& plan, const rank_tree& all) {
  net::node& here = net::node::here();
  std::vector<std::uint64_t> firsts(static_cast<std::size_t>(here.size()));
  for (const auto& [home, first] : tern::call<&reserve_part>(here.rank(), plan, all).get())
    firsts.at(static_cast<std::size_t>(home)) = first;
  return firsts;
}

array_ref array_for_element(std::uint64_t array, std::int64_t linear) {
  array_ref mine = array_table::here().need(array);
  const array_layout& l = mine->placed();
  net::node& here = net::node::here();
  if (linear < 0 || linear >= l.total() || directory::of(here).home_of(l.id_of(linear)) != here.rank())
    throw error(errc::invalid_data, "a message is about an element of " + l.title() + " that is not born here");
  return mine;
}

void erase_element(std::uint64_t array, std::int64_t linear) {
  const array_ref mine = array_for_element(array, linear);
  promise<void> ran;
  future<void> done = ran.get_future(), gone;
  mine->queue().enter(net::node::here().hold_account(), [&, ran = std::move(ran)]() mutable { // this fiber waits
    try {
      mine->erase(linear);
      gone = ask_for(action::destroy, destroy_handler, mine->layout().id_of(linear));
    } catch (...) {
      ran.set_exception(std::current_exception());
      return;
    }
    ran.set_value();
  });
  done.get();
  gone.get();
}

future<void> end_array(array_record& array) {
  net::node& here = net::node::here();
  const communicator world = communicator::world();
  std::vector<std::int32_t> all;
  for (int place = 0; place < world.size(); ++place) all.push_back(world.job_rank(place));
  const array_layout& of = array.placed();
  const array_operation op{of.plan().id, array_box::all_of(of), array.next_route(here.rank(), all)};
  return tern::call<&destroy_part>(op.first(), op);
}

void destroy_part(const array_operation& op) {
  const array_ref array = array_of(op);
  std::vector<future<void>> open;
  op.route.for_each_part([&](array_route part) {
    const int child = part.first();
    open.push_back(tern::call<&destroy_part>(child, op.along(std::move(part))));
  });
  // What has been answered is forgotten at once: a million answers take memory that no cache holds.
  std::deque<future<void>> gone;
  std::exception_ptr wrong;
  const auto take_first = [&] {
    try {
      gone.front().get();
    } catch (const error& e) {
      if (e.code() != errc::not_found) wrong = std::current_exception(); // else by another way
    } catch (...) {
      wrong = std::current_exception();
    }
    gone.pop_front();
  };
  in_turn(*array, op, [&] {
    element_pace pace;
    array->for_each(op.box, [&](std::int64_t linear) {
      array->erase(linear);
      gone.push_back(ask_for(action::destroy, destroy_handler, array->layout().id_of(linear)));
      pace.step();
      while (!gone.empty() && gone.front().ready()) take_first();
    });
  });
  while (!gone.empty()) take_first();
  if (wrong) std::rethrow_exception(wrong);
  for (auto& one : open) one.get();
  array_table::here().remove(op.array);
}

} // namespace tern::mobile::detail
