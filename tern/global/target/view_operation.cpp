// SPDX-License-Identifier: Apache-2.0
#include <tern/global/target/view_operation.hpp>

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/global/pointer/service.hpp>
#include <tern/global/target/handover.hpp>
#include <tern/hetero/passage/combining.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/net/call/pending_calls.hpp>
#include <tern/net/message.hpp>
#include <tern/task/fiber/causal_context.hpp>

namespace tern::global::detail {
namespace {

constexpr int anywhere = operation_table::anywhere;

/// What goes on without a message counts as one, of the epoch of the context that makes this.
class counted_work {
public:
  explicit counted_work(net::node& here) : here_(here), on_(here.hold_account()) { here_.parked({}); }
  counted_work(const counted_work&) = delete;
  counted_work& operator=(const counted_work&) = delete;
  tern::detail::causal_context* epoch() const noexcept { return on_.get(); }
  /// Once. \pre the rank is there. After what it has caused was counted.
  void end() noexcept {
    on_.reset();
    here_.message_done({});
  }

private:
  net::node& here_;
  tern::detail::held_context on_;
};

// The rank that asks --------------------------------------------------------------------------------------------------

void end_operation(const pointer_service::weak& of, std::uint64_t number, const std::exception_ptr& why) noexcept {
  if (pointer_service* const all = pointer_service::of(of)) all->operations().end(number, anywhere, why);
}

/// The answer to what changes a view: it is done, or has failed.
class change_reply final : public net::pending_reply {
public:
  change_reply(pointer_service::weak of, std::uint64_t operation) noexcept
      : of_(std::move(of)), operation_(operation) {}
  void value(std::span<const std::byte> bytes) override {
    unpack_into(bytes);
    end_operation(of_, operation_, nullptr);
  }
  void failed(std::exception_ptr why) override { end_operation(of_, operation_, why); }

private:
  const pointer_service::weak of_;
  const std::uint64_t operation_;
};

/// The answer to a get into a target: the elements, which may follow.
class get_reply final : public net::pending_reply {
public:
  using unpack_function = hetero::detail::object_state* (*)(std::span<const std::byte>);
  get_reply(std::shared_ptr<handover> into, unpack_function unpack) noexcept
      : into_(std::move(into)), unpack_(unpack) {}
  void value(std::span<const std::byte> bytes) override { into_->take(unpack_(bytes)); }
  void failed(std::exception_ptr why) override { into_->fail(std::move(why)); }
  bool needs_fiber() const noexcept override { return true; } // it makes an object

private:
  const std::shared_ptr<handover> into_;
  const unpack_function unpack_;
};

/// \param make gives the reply to operation `number`.
template <class Make>
std::shared_ptr<operation> begin_with(mobile::object_id on, const Make& make, const post_function& post) {
  net::node& here = net::node::here();
  operation_table& operations = pointer_service::of(here).operations();
  auto [number, of] = operations.begin(anywhere);
  std::uint64_t call = 0;
  try {
    call = here.calls().expect(net::reply_ref(make(number)), mobile::directory::of(here).home_of(on));
    post(call);
  } catch (...) {
    if (call != 0) here.calls().forget(call);
    operations.forget(number, anywhere);
    throw;
  }
  return of;
}

// The rank where the object is ----------------------------------------------------------------------------------------

/// An answer that is given when tasks have ended. Until then it counts as a message, of the epoch
/// of the invocation.
class late_answer : public std::enable_shared_from_this<late_answer> {
public:
  explicit late_answer(const view_caller& by)
      : of_(pointer_service::of(by.here).weak_self()), by_(by), generation_(by.here.generation().number()),
        work_(by.here) {
    pointer_service::of(by.here).count_begun();
  }
  late_answer(const late_answer&) = delete;
  late_answer& operator=(const late_answer&) = delete;
  ~late_answer() {
    if (!ended_ && pointer_service::of(of_)) leave(); // its maker answers in another way
  }
  /// In any context; once.
  void end(const std::exception_ptr& why) noexcept {
    if (!pointer_service::of(of_)) return;
    ended_ = true;
    const tern::detail::causal_scope none(nullptr);
    by_.here.fibers().spawn([self = shared_from_this(), why] { self->give(why); }, {.name = "answer"});
  }

private:
  void give(const std::exception_ptr& why) noexcept {
    net::node& here = by_.here;
    try {
      const tern::detail::causal_scope in(work_.epoch());
      if (here.generation().number() != generation_) {
        // Its caller has given it up.
      } else if (why) {
        here.reply_error(by_.rank, by_.reply, why, by_.describe(by_.object));
      } else {
        net::detail::post_answer(here, by_.rank, by_.reply);
      }
    } catch (const std::exception& e) {
      here.fatal("the answer for rank " + std::to_string(by_.rank) + " cannot be sent: " + e.what());
    }
    leave();
  }
  void leave() noexcept {
    pointer_service::of(by_.here).count_over();
    work_.end(); // after the answer has been counted
  }

  const pointer_service::weak of_;
  const view_caller by_;
  const int generation_;
  counted_work work_;
  bool ended_ = false;
};

const char* name_of(view_action what) noexcept {
  switch (what) {
  case view_action::put:
    return "put";
  case view_action::get:
    return "get";
  case view_action::fetch:
    return "fetch_accumulate";
  case view_action::accumulate:
  case view_action::accumulate_in_order:
    break;
  }
  return "accumulate";
}

error bad_request(const std::string& why) {
  return error(errc::invalid_data, "an operation on a view came " + why, "all ranks must run the same program");
}

error bad_shape(view_action what, const std::string& mine, const std::string& named) {
  return error(errc::invalid_argument,
               std::string(name_of(what)) + ": " + mine + " and the view, " + named + ", differ in shape",
               "the function names a view of the same extents");
}

hetero::detail::object_state* checked_data(const view_request& r, const hetero::detail::object_state* target,
                                           const hetero::detail::box& part, const object_handle& data) {
  if (!data.get()) throw bad_request("without data");
  const hetero::detail::box& all = hetero::detail::all_of(*data.get());
  for (std::size_t d = 0; d < 3; ++d)
    if (all.extent(d) != part.extent(d))
      throw bad_shape(r.what, hetero::detail::text_of(*data.get(), all), hetero::detail::text_of(*target, part));
  return data.get();
}

hetero::detail::combine_request combination(const view_request& r, hetero::detail::object_state* target,
                                            const local_part& part, hetero::detail::object_state* data) {
  hetero::detail::combine_request task;
  task.target = target;
  task.part = part.part;
  task.data = data;
  task.combine = r.how > 2 ? nullptr : combine_for(part.element.hash, r.how);
  if (!task.combine) throw bad_request("that combines in way " + std::to_string(r.how));
  task.in_order = r.what != view_action::accumulate;
  return task;
}

} // namespace

std::shared_ptr<operation> begin_on_view(mobile::object_id on, const post_function& post) {
  return begin_with(
      on, [](std::uint64_t number) { return new change_reply(pointer_service::here().weak_self(), number); }, post);
}

std::shared_ptr<operation> begin_get_of_view(mobile::object_id on, local_part into,
                                             hetero::detail::object_state* (*unpack)(std::span<const std::byte>),
                                             const post_function& post) {
  const auto weak = pointer_service::here().weak_self();
  std::shared_ptr<handover> writes;
  try {
    return begin_with(
        on,
        [&](std::uint64_t number) {
          // The answer may come before the target may be written, and ends then.
          auto work = std::make_shared<counted_work>(net::node::here());
          std::shared_ptr<handover> to;
          try {
            to = std::make_shared<handover>(
                std::move(into),
                [weak, number, work](const std::exception_ptr& why) {
                  if (!pointer_service::of(weak)) return; // the rank has gone
                  end_operation(weak, number, why);
                  work->end();
                },
                weak);
            handover::begin(to);
          } catch (...) {
            work->end();
            throw;
          }
          writes = std::move(to);
          return new get_reply(writes, unpack);
        },
        post);
  } catch (...) {
    if (writes) writes->fail(std::current_exception()); // it has its place among the target's tasks
    throw;
  }
}

void unnamed_view() {
  throw error(errc::invalid_state, "the function has named a view of no object",
              "it returns a view, or an object, that has elements");
}

void check_get(const view_request& r, const hetero::detail::object_state& view, const hetero::detail::box& part,
               const element_type& of) {
  if (r.extent[0] == 0) return; // it takes any
  for (std::size_t d = 0; d < 3; ++d)
    if (r.extent[d] != part.extent(d))
      throw bad_shape(r.what, typed_text("hetero_object", of) + " of " + shape_text(r.extent, of.dimensions),
                      hetero::detail::text_of(view, part));
}

void change_view(const view_caller& by, const view_request& r, local_part target, object_handle data) {
  hetero::detail::object_state* const object = target.handle();
  checked_data(r, object, target.part, data);
  if (r.what != view_action::put && r.what != view_action::accumulate && r.what != view_action::accumulate_in_order)
    throw bad_request("of kind " + std::to_string(static_cast<std::uint32_t>(r.what)));
  const auto later = std::make_shared<late_answer>(by);
  if (r.what == view_action::put) {
    const auto to = std::make_shared<handover>(
        std::move(target), [later](const std::exception_ptr& why) { later->end(why); },
        pointer_service::of(by.here).weak_self());
    handover::begin_anywhere(to);
    return to->take(data.release());
  }
  hetero::detail::combine_request task = combination(r, object, target, data.get());
  task.over = [later](const std::exception_ptr& why) { later->end(why); };
  hetero::detail::submit_combine(std::move(task));
}

hetero::detail::object_state* fetch_from_view(const view_request& r, local_part target, object_handle data) {
  hetero::detail::object_state* const object = target.handle();
  checked_data(r, object, target.part, data);
  object_handle old(hetero::detail::new_object_like(*object, target.part));
  hetero::detail::combine_request task = combination(r, object, target, data.get());
  task.old = old.get();
  task.over = [](const std::exception_ptr&) {}; // the tasks that need what was there tell
  hetero::detail::submit_combine(std::move(task));
  return old.release();
}

} // namespace tern::global::detail
