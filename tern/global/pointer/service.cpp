// SPDX-License-Identifier: Apache-2.0
#include <tern/global/pointer/service.hpp>

#include <mutex>
#include <string>
#include <typeinfo>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/global/transfer/departure.hpp>
#include <tern/global/transfer/transfer_table.hpp>
#include <tern/hetero/passage/combining.hpp>
#include <tern/hetero/passage/incoming.hpp>
#include <tern/hetero/passage/landing.hpp>
#include <tern/net/call/remote_exception.hpp>
#include <tern/net/failure/generation.hpp>
#include <tern/net/packing/packing.hpp>
#include <tern/net/rank_local.hpp>

namespace tern::global::detail {
namespace {

const rank_local<pointer_service> services;

// They run in the polling context and must not wait.
void announcement_arrives(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  pointer_service::of(here).take_announcement(here, source, h, message);
}
void answers_arrive(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  pointer_service::of(here).take_answers(here, source, h, message);
}

struct announcement_tag {};
struct answers_tag {};
const net::handler_record announcement_record{typeid(announcement_tag), "tern operation on data", __FILE__,
                                              &announcement_arrives, true};
const net::handler_record answers_record{typeid(answers_tag), "tern operations are done", __FILE__, &answers_arrive,
                                         true};

const net::detail::abandon_hook pointer_hook{[](net::node& here, const error& why) {
  if (pointer_service* const all = services.if_made(here)) all->operations().abandon(std::make_exception_ptr(why));
}};

/// The failures that an answer tells of.
struct failed_operation {
  std::uint64_t operation = 0;
  net::detail::failure why;
  template <class A> void serialize(A& ar) { ar(operation, why); }
};

/// The owner's side of a put. Lives until it is over.
class served_put final : hetero::detail::landing::listener, public std::enable_shared_from_this<served_put> {
public:
  served_put(pointer_service::weak of, int source, std::uint64_t operation, const net::wire_header& h,
             hetero::detail::object_state* target, const hetero::detail::box& part) noexcept
      : of_(std::move(of)), source_(source), operation_(operation), header_(h), landing_(target, part, *this) {}

  void begin() {
    self_ = shared_from_this();
    try {
      landing_.begin_anywhere();
    } catch (...) {
      self_.reset();
      throw;
    }
  }
  hetero::detail::landing& target() noexcept { return landing_; }

private:
  void landed(std::exception_ptr why) noexcept override {
    const std::shared_ptr<served_put> self = std::move(self_); // goes last
    pointer_service* const of = pointer_service::of(of_);
    if (!of) return;
    if (landing_.how().aside) of->count_aside();
    if (landing_.how().adopted) of->count_adopted();
    of->served(source_, operation_, header_, why);
  }

  const pointer_service::weak of_;
  const int source_;
  const std::uint64_t operation_;
  const net::wire_header header_;
  std::shared_ptr<served_put> self_;
  hetero::detail::landing landing_;
};

struct drop_owned {
  void operator()(hetero::detail::object_state* o) const noexcept { hetero::detail::drop_handle(o); }
};
using handle_owner = std::unique_ptr<hetero::detail::object_state, drop_owned>;

/// Where a put's data go.
class put_sink final : public data_sink {
public:
  explicit put_sink(std::shared_ptr<served_put> to) noexcept : to_(std::move(to)) {}
  void land(byte_buffer memory) noexcept override { to_->target().land(std::move(memory)); }
  void fail(std::exception_ptr why) noexcept override { to_->target().fail(std::move(why)); }

private:
  const std::shared_ptr<served_put> to_;
};

} // namespace

pointer_service::pointer_service() : node_(net::node::here()), exports_(net::node::here().rank()) {}
pointer_service& pointer_service::here() { return services.get(); }
pointer_service& pointer_service::of(net::node& rank) { return services.of(rank); }
// A rank that has died in a simulation keeps its locals; what it had lent comes back when all is
// over, where no rank works.
pointer_service* pointer_service::of(const weak& self) noexcept {
  return net::node::current() ? self->load(std::memory_order_acquire) : nullptr;
}
pointer_service* pointer_service::if_made(net::node& rank) noexcept { return services.if_made(rank); }

// The initiator --------------------------------------------------------------------------------------------------------

std::shared_ptr<operation> pointer_service::announce(announcement a,
                                                     const std::function<void(announcement&, std::uint64_t)>& prepare) {
  const int owner = a.place.owner();
  auto [number, of] = operations_.begin(owner);
  a.operation = number;
  try {
    prepare(a, number);
    // Not urgent: no message that this fiber sends later is to overtake it.
    net::detail::post_packed(node_, owner, net::wire_header{announcement_record.id(), 0, 0}, net::posting{}, a);
  } catch (...) {
    if (a.landing != 0) transfer_table::here().forget(a.landing, owner);
    operations_.forget(number, owner);
    throw;
  }
  if (net::detail::abandoned(node_)) // behind what `abandon` has seen
    operations_.end(number, owner,
                    std::make_exception_ptr(net::detail::rank_lost_error(node_, "an operation on a global pointer")));
  return of;
}

void pointer_service::take_answers(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  std::vector<std::uint64_t> done;
  std::vector<failed_operation> failed;
  unpack_into(net::detail::body_of(message.bytes), done, failed);
  const auto end = [&](std::uint64_t number, const std::exception_ptr& why) {
    if (!operations_.end(number, source, why))
      throw error(errc::invalid_data,
                  "rank " + std::to_string(source) + " answered an operation that was not announced");
  };
  for (const std::uint64_t number : done) end(number, nullptr);
  for (const failed_operation& f : failed) end(f.operation, std::make_exception_ptr(f.why.as_error()));
  here.message_done(h);
}

// The owner ------------------------------------------------------------------------------------------------------------

void pointer_service::take_announcement(net::node& here, int source, const net::wire_header& h, net::payload& message) {
  const announcement a = read_announcement(net::detail::body_of(message.bytes), source, here.rank());
  serving_.fetch_add(1, std::memory_order_relaxed);
  serve(here, source, h, a, false);
}

// What ends a reduction may wait for a lock.
void pointer_service::serve(net::node& here, int source, const net::wire_header& h, const announcement& a,
                            bool may_wait) noexcept {
  try {
    handle_owner target(exports_.find(a.place, a.element));
    if (!may_wait && hetero::detail::is_reducing(*target)) {
      node_.fibers().spawn([this, &here, source, h, a] { serve(here, source, h, a, true); }, {.name = "operation"});
      return;
    }
    switch (a.kind) {
    case operation_kind::put:
      return put(source, h, a, target.release());
    case operation_kind::get:
      return get(here, source, h, a, target.release());
    default:
      return combine(here, source, h, a, target.get());
    }
  } catch (...) {
    refuse(here, source, h, a, std::current_exception());
  }
}

// The data are requested at once, whatever the target's tasks do: what waits for a put's source
// must not wait for its target.
void pointer_service::put(int source, const net::wire_header& h, const announcement& a,
                          hetero::detail::object_state* target) {
  const hetero::detail::box part = a.place.part();
  const std::size_t bytes = static_cast<std::size_t>(part.size()) * hetero::detail::element_bytes(*target);
  const auto op = std::make_shared<served_put>(self_, source, a.operation, h, target, part);
  op->begin();
  try {
    transfer_table::here().request(source, a.data, bytes, std::unique_ptr<data_sink>(std::make_unique<put_sink>(op)));
  } catch (...) { // the job has ended
    op->target().fail(std::current_exception());
  }
}

void pointer_service::get(net::node& here, int source, const net::wire_header& h, const announcement& a,
                          hetero::detail::object_state* target) {
  const auto d = std::make_shared<departure>(transfer_table::of(here), here, target, a.place.part(), false);
  departure::begin_anywhere(d);
  served_.fetch_add(1, std::memory_order_relaxed);
  serving_.fetch_sub(1, std::memory_order_relaxed);
  transfer_table::of(here).announce(d);
  d->requested(source, a.landing, true, h); // the data are the answer
}

void pointer_service::combine(net::node& here, int source, const net::wire_header& h, const announcement& a,
                              hetero::detail::object_state* target) {
  const combine_elements f = combine_for(a.element, a.how);
  if (!f)
    throw error(errc::invalid_data, "rank " + std::to_string(source) + " adds to elements that are no numbers",
                "all ranks must run the same program");
  const hetero::detail::box part = a.place.part();
  const std::size_t bytes = static_cast<std::size_t>(part.size()) * hetero::detail::element_bytes(*target);
  const handle_owner data(hetero::detail::new_object_like(*target, part));
  auto incoming = std::make_unique<hetero::detail::incoming>(*data.get());
  const bool fetches = a.kind == operation_kind::fetch;
  handle_owner old(fetches ? hetero::detail::new_object_like(*target, part) : nullptr);
  hetero::detail::combine_request task;
  task.target = target;
  task.part = part;
  task.data = data.get();
  task.old = old.get();
  task.combine = f;
  task.in_order = a.kind != operation_kind::accumulate;
  task.over = [self = weak_self(), source, fetches, number = a.operation, h](std::exception_ptr why) {
    if (pointer_service* const there = of(self); there && !fetches) there->served(source, number, h, why);
  };
  hetero::detail::submit_combine(std::move(task));
  transfer_table::here().request(source, a.data, bytes, std::move(incoming), "what is to be accumulated");
  if (!fetches) return;
  hetero::detail::box all;
  for (std::size_t d = 0; d < 3; ++d) all.high[d] = static_cast<std::int32_t>(part.extent(d));
  const auto d = std::make_shared<departure>(transfer_table::of(here), here, old.release(), all, true);
  departure::begin_anywhere(d);
  served_.fetch_add(1, std::memory_order_relaxed);
  serving_.fetch_sub(1, std::memory_order_relaxed);
  transfer_table::of(here).announce(d);
  d->requested(source, a.landing, true, h);
}

void pointer_service::refuse(net::node& here, int source, const net::wire_header& h, const announcement& a,
                             const std::exception_ptr& why) {
  if (a.brings_data()) transfer_table::refuse(source, a.data);
  if (!a.fetches_data()) return served(source, a.operation, h, why);
  served_.fetch_add(1, std::memory_order_relaxed);
  serving_.fetch_sub(1, std::memory_order_relaxed);
  const net::detail::failure f = net::detail::describe(why);
  here.post(source, pack(net::wire_header{failure_message().id(), 0, a.landing}, f), {.urgent = true});
  here.message_done(h);
}

// One message tells of all that end while it waits for a worker.
void pointer_service::served(int source, std::uint64_t number, const net::wire_header& h,
                             const std::exception_ptr& why) noexcept {
  {
    const std::lock_guard hold(guard_);
    answer_queue& q = answers_[source];
    q.waiting.push_back({number, h, why});
    if (std::exchange(q.leaves, true)) return;
  }
  const tern::detail::causal_scope none(nullptr); // it tells of others too
  node_.fibers().spawn([this, source] { send_answers(source); }, {.name = "answers"});
}

void pointer_service::send_answers(int to) noexcept {
  std::vector<answer> all;
  {
    const std::lock_guard hold(guard_);
    answer_queue& q = answers_[to];
    all.swap(q.waiting);
    q.leaves = false;
  }
  std::vector<std::uint64_t> done;
  std::vector<failed_operation> failed;
  for (const answer& x : all) {
    if (x.why)
      failed.push_back({x.operation, net::detail::describe(x.why)});
    else
      done.push_back(x.operation);
  }
  answers_sent_.fetch_add(1, std::memory_order_relaxed);
  served_.fetch_add(all.size(), std::memory_order_relaxed);
  serving_.fetch_sub(all.size(), std::memory_order_relaxed);
  try {
    node_.post(to, pack(net::wire_header{answers_record.id(), 0, 0}, done, failed), {.urgent = true});
  } catch (const std::exception& e) {
    node_.fatal("answers for rank " + std::to_string(to) + " cannot be sent: " + e.what());
  }
  for (const answer& x : all) node_.message_done(x.header); // after the answers have been counted
}

pointer_counts pointer_service::counts() noexcept {
  const auto get = [](const std::atomic<std::uint64_t>& c) { return c.load(std::memory_order_relaxed); };
  return {.announced = operations_.announced(),
          .finished = operations_.finished(),
          .failed = operations_.failed(),
          .served = get(served_),
          .serving = get(serving_),
          .aside = get(aside_),
          .adopted = get(adopted_),
          .answers = get(answers_sent_),
          .exports = exports_.size()};
}

} // namespace tern::global::detail
