// SPDX-License-Identifier: Apache-2.0
/// \file
/// Operations on global pointers, as they begin.
#include <tern/global/pointer/operation.hpp>

#include <memory>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/global/pointer/service.hpp>
#include <tern/global/transfer/departure.hpp>
#include <tern/global/transfer/transfer_table.hpp>
#include <tern/hetero/passage/combining.hpp>
#include <tern/hetero/passage/incoming.hpp>
#include <tern/hetero/passage/landing.hpp>

namespace tern {
namespace global::detail {
namespace {

/// The initiator's side of a get into an object. Lives until it is over.
class get_target final : public data_sink, hetero::detail::landing::listener {
public:
  get_target(local_part into, pointer_service::weak of, int owner)
      : of_(std::move(of)), owner_(owner), landing_(into.release(), into.part, *this) {}

  /// \param self keeps it until it is told.
  static void begin(const std::shared_ptr<get_target>& self) {
    self->landing_.begin(); // it cannot be told before data come
    self->self_ = self;
  }
  void is_called(std::uint64_t number) noexcept { number_ = number; }
  void land(byte_buffer memory) noexcept override { landing_.land(std::move(memory)); }
  void fail(std::exception_ptr why) noexcept override { landing_.fail(std::move(why)); }

private:
  void landed(std::exception_ptr why) noexcept override {
    const std::shared_ptr<get_target> self = std::move(self_); // goes last
    if (pointer_service* const of = pointer_service::of(of_)) of->operations().end(number_, owner_, why);
  }

  const pointer_service::weak of_;
  const int owner_;
  std::uint64_t number_ = 0;
  std::shared_ptr<get_target> self_;
  hetero::detail::landing landing_;
};

/// What a table of arrivals owns of it.
class get_sink final : public data_sink {
public:
  explicit get_sink(std::shared_ptr<get_target> to) noexcept : to_(std::move(to)) {}
  void land(byte_buffer memory) noexcept override { to_->land(std::move(memory)); }
  void fail(std::exception_ptr why) noexcept override { to_->fail(std::move(why)); }

private:
  const std::shared_ptr<get_target> to_;
};

/// The initiator's side of a get into a new object.
class new_target final : public data_sink {
public:
  new_target(hetero::detail::object_state& fresh, operation_table& of, int owner)
      : operations_(of), owner_(owner), incoming_(fresh) {}
  void is_called(std::uint64_t number) noexcept { number_ = number; }
  void land(byte_buffer memory) noexcept override {
    incoming_.land(hetero::detail::own_memory(std::move(memory)));
    operations_.end(number_, owner_, nullptr);
  }
  void fail(std::exception_ptr why) noexcept override {
    incoming_.fail(why);
    operations_.end(number_, owner_, why);
  }

private:
  operation_table& operations_;
  const int owner_;
  std::uint64_t number_ = 0;
  hetero::detail::incoming incoming_;
};

struct drop_made {
  void operator()(hetero::detail::object_state* o) const noexcept { hetero::detail::drop_handle(o); }
};
using made_object = std::unique_ptr<hetero::detail::object_state, drop_made>;

made_object make_object(const global_place& like, const element_type& of, const char* type) {
  hetero::detail::box all;
  all.high = like.extent;
  return made_object(hetero::detail::new_object(all, of.bytes, type, nullptr));
}

void check_place(const char* what, const global_place& place, const element_type& named) {
  if (!place)
    throw error(errc::invalid_argument, std::string(what) + ": a " + place.text(named),
                "it is the pointer of an exported<>, or a copy of one");
  const int ranks = net::node::here().size();
  if (place.owner() >= ranks)
    throw error(errc::invalid_argument,
                std::string(what) + ": a " + place.text(named) + ", in a job of " + std::to_string(ranks) + " ranks",
                "it is damaged, or of another job");
  if (!place.fits(named) || !place.sound())
    throw error(errc::invalid_argument,
                std::string(what) + ": a " + typed_text("global_ptr", named) + " of rank " +
                    std::to_string(place.owner()) + " is damaged, or one to elements of another type",
                "pointers are copied, sent and narrowed, and nothing else");
  net::node::here().check_rank(place.owner());
}

/// The source's data, announced: to be requested, or dropped.
class announced_data {
public:
  explicit announced_data(local_part source) : table_(transfer_table::here()) {
    const hetero::detail::box part = source.part;
    const bool given = source.given;
    auto leaves = std::make_shared<departure>(table_, net::node::here(), source.release(), part, given);
    departure::begin(leaves);
    number_ = table_.announce(std::move(leaves));
  }
  ~announced_data() {
    if (number_ != 0) table_.drop(number_);
  }
  announced_data(const announced_data&) = delete;
  announced_data& operator=(const announced_data&) = delete;
  std::uint64_t number() const noexcept { return number_; }
  void sent() noexcept { number_ = 0; }

private:
  transfer_table& table_;
  std::uint64_t number_ = 0;
};

announcement begin_announcement(operation_kind kind, const global_place& place, const element_type& of) {
  announcement a;
  a.kind = kind;
  a.place = place;
  a.element = of.hash;
  return a;
}

/// Sends it. \param into where data are to come; null: none are.
template <class Sink, class Target>
std::shared_ptr<operation> announce_with(announcement a, std::size_t bytes, std::unique_ptr<Sink> into,
                                         Target* target) {
  const int owner = a.place.owner();
  pointer_service& service = pointer_service::here();
  return service.announce(a, [&](announcement& all, std::uint64_t number) {
    target->is_called(number);
    all.landing = transfer_table::here().expect(owner, bytes, std::move(into));
  });
}

std::shared_ptr<operation> send_data(operation_kind kind, local_part source, const global_place& to, accumulation how) {
  announcement a = begin_announcement(kind, to, source.element);
  a.how = static_cast<std::uint32_t>(how);
  announced_data data(std::move(source));
  a.data = data.number();
  auto of = pointer_service::here().announce(a, [](announcement&, std::uint64_t) {});
  data.sent();
  net::node::here().throttle(to.owner());
  return of;
}

} // namespace

void check_part_for(const char* what, const hetero::detail::object_state* mine, const hetero::detail::box& part,
                    const element_type& of, const global_place& place, const element_type& named) {
  const std::string source = hetero::detail::text_of(*mine, part);
  if (of.hash != named.hash)
    throw error(errc::invalid_argument,
                std::string(what) + ": " + source + " and a " + place.text(named) +
                    " have elements of different types, or different dimensions",
                "both are of one type");
  check_place(what, place, named);
  for (std::size_t d = 0; d < 3; ++d)
    if (part.extent(d) != place.extent[d])
      throw error(errc::invalid_argument,
                  std::string(what) + ": " + source + " and a " + place.text(named) + " differ in shape",
                  "narrow the larger one with part()");
}

std::shared_ptr<operation> begin_put(local_part source, const global_place& to) {
  return send_data(operation_kind::put, std::move(source), to, accumulation::plus);
}

std::shared_ptr<operation> begin_accumulate(local_part source, const global_place& to, accumulation how,
                                            bool in_order) {
  return send_data(in_order ? operation_kind::accumulate_in_order : operation_kind::accumulate, std::move(source), to,
                   how);
}

std::shared_ptr<operation> begin_get(local_part target, const global_place& from) {
  const announcement a = begin_announcement(operation_kind::get, from, target.element);
  const std::size_t bytes = target.bytes();
  const auto into = std::make_shared<get_target>(std::move(target), pointer_service::here().weak_self(), from.owner());
  get_target::begin(into);
  try {
    auto of = announce_with(a, bytes, std::make_unique<get_sink>(into), into.get());
    net::node::here().throttle(from.owner());
    return of;
  } catch (...) {
    into->fail(std::current_exception()); // it has its place among the target's tasks
    throw;
  }
}

hetero::detail::object_state* begin_get_new(const element_type& of, const char* type, const global_place& from) {
  check_place("get", from, of);
  made_object made = make_object(from, of, type);
  auto into = std::make_unique<new_target>(*made, pointer_service::here().operations(), from.owner());
  new_target* const target = into.get();
  announce_with(begin_announcement(operation_kind::get, from, of), static_cast<std::size_t>(from.count()) * of.bytes,
                std::move(into), target)
      ->mark_seen(); // the tasks that need it tell
  net::node::here().throttle(from.owner());
  return made.release();
}

hetero::detail::object_state* begin_fetch_accumulate(local_part source, const char* type, const global_place& to,
                                                     accumulation how) {
  announcement a = begin_announcement(operation_kind::fetch, to, source.element);
  a.how = static_cast<std::uint32_t>(how);
  const element_type of = source.element;
  const std::size_t bytes = source.bytes();
  made_object made = make_object(to, of, type);
  announced_data data(std::move(source));
  a.data = data.number();
  auto into = std::make_unique<new_target>(*made, pointer_service::here().operations(), to.owner());
  new_target* const target = into.get();
  announce_with(a, bytes, std::move(into), target)->mark_seen(); // likewise
  data.sent();
  net::node::here().throttle(to.owner());
  return made.release();
}

export_entry::~export_entry() {
  if (!place_) return;
  net::node* const here = net::node::current();
  if (!here || here->is_over()) return; // the table has gone, or goes, with all that is in it
  if (pointer_service* const all = pointer_service::if_made(*here)) all->exports().remove(place_);
}

export_entry enter_export(hetero::detail::object_state* handle, const hetero::detail::box& part, const element_type& of,
                          std::source_location where) {
  if (!handle) hetero::detail::moved_from();
  made_object kept(handle);
  export_entry e(pointer_service::here().exports().enter(handle, part, of, where));
  static_cast<void>(kept.release());
  return e;
}

} // namespace global::detail

shared_future<void> transfer::done() const {
  if (!of_)
    throw error(errc::invalid_state, "transfer::done: there is no transfer in this handle",
                "it is what put, get and accumulate return");
  return of_->done();
}

future<void> fence(int rank) {
  net::node& here = net::node::here();
  if (rank < 0 || rank >= here.size())
    throw error(errc::invalid_argument,
                "fence: there is no rank " + std::to_string(rank) + " in a job of " + std::to_string(here.size()),
                "ranks are 0 to size() - 1");
  return global::detail::pointer_service::of(here).operations().fence(rank);
}

future<void> fence() { return global::detail::pointer_service::here().operations().fence(); }

namespace global {
pointer_counts count_pointers() { return detail::pointer_service::here().counts(); }
} // namespace global

} // namespace tern
