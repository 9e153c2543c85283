// SPDX-License-Identifier: Apache-2.0
/// \file
/// Functions over several objects, of whatever type.
#include <tern/mobile/together/together_call.hpp>

#include <algorithm>
#include <utility>

#include <tern/base/archive.hpp>
#include <tern/base/error.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/mobile/object/type.hpp>
#include <tern/mobile/together/claim_table.hpp>
#include <tern/mobile/together/claimer.hpp>
#include <tern/net/message.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::mobile::detail {
namespace {

// "objects 0:2, 0:3 and 5 more"; empty for none.
template <class Ids> std::string listed_objects(const Ids& ids) {
  constexpr std::size_t most = 4;
  std::string text = ids.size() == 1 ? "object " : "objects ";
  for (std::size_t i = 0; i < ids.size() && i < most; ++i) text += (i > 0 ? ", " : "") + to_string(ids[i]);
  if (ids.size() > most) text += " and " + std::to_string(ids.size() - most) + " more";
  return ids.empty() ? "" : text;
}

std::string describe_together(const std::string& function, const type_record& type,
                              std::span<const claimed_object> all) {
  std::vector<object_id> others;
  object_id main;
  for (const claimed_object& c : all)
    if (c.place != 0)
      others.push_back(c.id);
    else
      main = c.id;
  const std::string with = listed_objects(others);
  return describe_invocation(function, main, type.name) + (with.empty() ? "" : " together with " + with);
}

} // namespace

together_call::together_call(net::node& here, std::size_t objects) : node_(here), first_(near_.data()) {
  open_.emplace(here.shutdown());
  if (objects <= near_.size()) return;
  more_.resize(objects);
  first_ = more_.data();
}
together_call::~together_call() = default;

void together_call::end() noexcept {
  // A fiber of a rank that has died may end after the table.
  if (claim_table* const all = entered_ ? claim_table::if_made(node_) : nullptr) all->remove(*this);
  open_.reset();
  drop();
}

void together_call::add(object_id id, const type_record& type, bool shared) {
  directory::of(node_).check(id);
  first_[count_] = {id, &type, static_cast<std::uint32_t>(count_), shared};
  ++count_;
}

const claimed_object& together_call::main() const noexcept {
  const claimed_object* one = first_;
  while (one->place != 0) ++one;
  return *one;
}

std::string together_call::describe() const { return describe_together(name(), *main().type, objects()); }

void start_together(together_ref call) {
  net::node& here = net::node::here();
  const std::string& name = call->name();
  claimer(*call).begin();
  here.fibers().spawn([call = std::move(call)] { claimer(*call).run(); }, {.name = name});
}

void run_together(together_ref call) noexcept {
  claimer c(*call);
  try {
    c.begin();
  } catch (...) {
    call->failed(std::current_exception());
    return call->publish();
  }
  c.run();
}

arrived_claims::arrived_claims(net::node& here, const net::payload& message) : node_(here) {
  std::vector<claim_name> names;
  input_archive ar(net::detail::body_of(message.bytes));
  ar(names);
  for (const claim_name& n : names) {
    claimed_object& c = objects_.emplace_back(claimed_object{n.id, nullptr, n.place, n.shared != 0});
    c.with.shared = n.shared != 0;
    c.with.rank = here.rank();
  }
}

arrived_claims::~arrived_claims() {
  admission& access = directory::of(node_).access();
  for (auto c = objects_.rbegin(); c != objects_.rend(); ++c) {
    try {
      if (c->of)
        access.end_claim(*c->of, c->with.shared);
      else
        access.end_claim(c->id, c->with.shared);
    } catch (const std::exception& e) {
      node_.fatal(e.what());
    }
  }
}

std::string arrived_claims::describe(const std::string& function, const type_record& main) const {
  return describe_together(function, main, objects_);
}

void arrived_claims::run_body(const type_record& main, const type_record& others, claimed_body& body) {
  for (claimed_object& c : objects_) c.type = c.place == 0 ? &main : &others;
  directory::of(node_).access().run_claimed(objects_, body);
}

void expect_claims(std::span<const object_id> objects, const std::string& name, const std::source_location& made) {
  const auto* const frame = running_invocation::here();
  if (!frame || frame->is_released()) return;
  const auto own = std::find_if(objects.begin(), objects.end(), [&](object_id id) { return frame->is_of(id); });
  if (own == objects.end()) return;
  const std::string how = frame->how() == action::share ? "a shared" : "an exclusive";
  const std::string with = listed_objects(objects.subspan(1));
  throw error(errc::deadlock,
              tern::detail::describe_context(tern::detail::this_context()) + " runs " + how + " invocation of object " +
                  to_string(frame->id()) + " (" + frame->type().name + ") and waits for '" + name + "' of object " +
                  to_string(objects.front()) + (with.empty() ? "" : " together with " + with) +
                  ", which begins only when that invocation has ended",
              "do not wait for it there, or wait while a tern::release_access lives", made);
}

} // namespace tern::mobile::detail
