// SPDX-License-Identifier: Apache-2.0
/// \file
/// A job goes back to a copy.
#include <tern/mobile/protect/roll_back.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include <tern/base/error.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/mobile/checkpoint/agreement.hpp>
#include <tern/mobile/checkpoint/object_restorer.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/message.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

namespace tern::mobile::detail {

using object_places = std::vector<std::pair<object_id, std::int32_t>>;

/// Some objects of a rank that is no more.
struct object_lot {
  std::string name;
  std::vector<std::uint32_t> classes; // by their handlers
  std::vector<saved_object> objects;  // offsets in the bytes
  std::vector<saved_event> events;
  shared_buffer<std::byte> bytes;
  template <class A> void serialize(A& ar) { ar(name, classes, objects, events); }
};

namespace {

constexpr std::size_t most_in_lot = std::size_t{1} << 20; // bytes, but for one larger object

/// What the restoring of one rank has to end. Thread-safe.
class restoring_rank {
public:
  void begin() {
    const std::lock_guard hold(lock_);
    counted_.clear();
  }
  void note_counted(object_id id) {
    const std::lock_guard hold(lock_);
    counted_.push_back(id);
  }
  std::vector<object_id> take() {
    const std::lock_guard hold(lock_);
    return std::exchange(counted_, {});
  }

private:
  tern::detail::spin_lock lock_;
  std::vector<object_id> counted_; // that have a credit of 1, which no reference has
};
const rank_local<restoring_rank> the_restoring;

class lot_source final : public object_source {
public:
  explicit lot_source(const object_lot& of) : of_(of) {}
  void read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset > of_.bytes.size() || to.size() > of_.bytes.size() - offset)
      throw error(errc::invalid_data, of_.name + " is shorter than it says");
    if (!to.empty()) std::memcpy(to.data(), of_.bytes.data() + offset, to.size());
  }
  std::uint64_t bytes() const noexcept override { return of_.bytes.size(); }
  std::string name() const override { return of_.name; }

private:
  const object_lot& of_;
};

/// What a rank tells all others of the dead ranks whose copies it has, and the names that it keeps.
struct told_tables {
  std::vector<std::pair<std::int32_t, std::uint64_t>> numbers;
  std::vector<saved_array> arrays;
  std::vector<saved_name> names;
  template <class A> void serialize(A& ar) { ar(numbers, arrays, names); }
};

} // namespace

/// On the objects' home.
void note_places(const object_places& all) {
  directory& here = directory::here();
  for (const auto& [id, where] : all) here.restore_elsewhere(id, where);
}

namespace {

// Restores objects of a source here, and tells their homes.
class restorer {
public:
  explicit restorer(net::node& here) : here_(here), all_(directory::of(here)), one_(all_) {}
  void restore(const object_source& from, const type_record& type, const saved_object& o) {
    one_.restore(from, type, o, 1);
    if (o.with.credit > 0) the_restoring.of(here_).note_counted(o.id);
    if (const int home = all_.home_of(o.id); home != here_.rank()) elsewhere_[home].emplace_back(o.id, here_.rank());
    if (++n_ % 64 == 0) this_fiber::yield();
  }
  void restore(const std::vector<saved_event>& events) {
    for (const saved_event& e : events) all_.restore_event(e.object, *entered_event_kind::find(e.arms), e.state);
  }
  void tell_homes() {
    for (auto& [home, places] : elsewhere_) tern::send<&note_places>(home, std::move(places));
  }

private:
  net::node& here_;
  directory& all_;
  object_restorer one_;
  std::map<int, object_places> elsewhere_;
  std::uint32_t n_ = 0;
};

} // namespace

/// On a rank that takes over objects.
void take_lot(object_lot lot, shared_buffer<std::byte> bytes) {
  lot.bytes = std::move(bytes);
  const lot_source from(lot);
  restorer here(net::node::here());
  for (const saved_object& o : lot.objects) here.restore(from, *movable_class::find(lot.classes.at(o.type)), o);
  here.restore(lot.events);
  here.tell_homes();
}

namespace {

class going_back {
public:
  going_back(net::node& here, const job_copy& to, const std::vector<std::int32_t>& living)
      : here_(here), all_(directory::of(here)), to_(to), living_(living), mine_(to.own->tables()) {
    const copy_shelf& shelf = copy_shelf::of(here);
    for (const std::int32_t rank : to.ranks) {
      if (lives(rank) || to.buddy_of(rank) != here.rank()) continue;
      dead_.emplace_back(shelf.other(rank, to.number), saved_tables());
      if (!dead_.back().first)
        throw error(errc::internal, "rank " + std::to_string(here.rank()) + " does not have copy " +
                                        std::to_string(to.number) + " of rank " + std::to_string(rank));
      dead_.back().second = dead_.back().first->tables();
    }
  }

  // Nothing is sent before all ranks have done this: the next step is a collective operation.
  void forget(protected_steps& what) {
    rank_objects& objects = all_.objects();
    objects.begin_restoring();
    the_restoring.of(here_).begin();
    all_.reset();
    array_table::here().begin_reset();
    name_table::of(here_).clear();
    what.clear_roots();
    objects.drop_kept_credit(); // the copy counts anew
    std::vector<std::int32_t> homes = to_.homes;
    std::size_t next = 0;
    for (std::int32_t& h : homes)
      if (!lives(h)) h = living_[next++ % living_.size()];
    if (next > 0 || !objects.homes().is_identity()) all_.set_homes(std::move(homes));
  }
  void restore_tables(protected_steps& what) {
    told_tables told;
    told.names = mine_.names;
    for (const auto& [copy, tables] : dead_) {
      told.numbers.insert(told.numbers.end(), tables.numbers.begin(), tables.numbers.end());
      told.arrays.insert(told.arrays.end(), tables.arrays.begin(), tables.arrays.end());
      told.names.insert(told.names.end(), tables.names.begin(), tables.names.end());
    }
    told_ = communicator::world().allgather(std::move(told));
    std::map<std::uint64_t, std::vector<saved_array>> arrays;
    for (const saved_array& a : mine_.arrays) arrays[a.id].push_back(a);
    for (const told_tables& t : told_) {
      for (const auto& [home, number] : t.numbers)
        if (all_.homes().rank_of(home) == here_.rank()) all_.objects().adopt(home, number);
      for (const saved_array& a : t.arrays) arrays[a.id].push_back(a);
    }
    for (const auto& one : arrays) array_table::here().restore(one.second);
    array_table::here().end_reset();
    what.load_roots(mine_.roots);
    communicator::world().barrier(); // objects that are sent from now on find their arrays
  }
  void restore_objects() {
    restorer own(here_);
    for (const saved_object& o : mine_.objects)
      own.restore(*to_.own, *movable_class::find(mine_.classes[o.type].arrival), o);
    own.restore(mine_.events);
    own.tell_homes();
    for (const auto& [copy, tables] : dead_) spread(*copy, tables);
    for (auto& one : under_way_) one.get();
    under_way_.clear();
  }
  // When all objects are there, and their homes know.
  void restore_names_and_credit() {
    for (const told_tables& t : told_) name_table::of(here_).restore(t.names);
    add(mine_.credits);
    add(mine_.root_credits);
    for (const auto& [copy, tables] : dead_) add(tables.credits); // its roots are no more
  }
  void give_credit_back() {
    for (const auto& [id, credit] : all_.objects().end_restoring()) all_.return_credit(id, credit);
    for (const object_id id : the_restoring.of(here_).take()) all_.return_credit(id, 1);
  }

private:
  bool lives(std::int32_t rank) const { return std::binary_search(living_.begin(), living_.end(), rank); }
  void add(const split_recorder::credits& all) {
    for (const auto& [id, credit] : all) post_control(here_, add_credit_handler, id, 0, credit);
  }

  struct filled_lot {
    object_lot lot;
    std::vector<std::byte> bytes;
  };
  void spread(const memory_copy& from, const saved_tables& t) {
    std::uint64_t total = 0;
    for (const saved_object& o : t.objects) total += weight_of(o);
    even_spread places(static_cast<int>(living_.size()), total);
    auto event = t.events.begin(); // in the objects' order
    filled_lot lot;
    int place = 0;
    for (const saved_object& o : t.objects) {
      const int next = places.next(o);
      if (next != place || lot.bytes.size() + o.bytes > most_in_lot) pass(std::exchange(lot, {}), place);
      place = next;
      if (lot.lot.objects.empty()) {
        lot.lot.name = from.name();
        for (const saved_class& c : t.classes) lot.lot.classes.push_back(c.arrival);
      }
      saved_object& copy = lot.lot.objects.emplace_back(o);
      copy.offset = lot.bytes.size();
      lot.bytes.resize(lot.bytes.size() + o.bytes);
      from.read(o.offset, std::span(lot.bytes).last(o.bytes));
      for (; event != t.events.end() && event->object == o.id; ++event) lot.lot.events.push_back(*event);
    }
    pass(std::move(lot), place);
  }
  void pass(filled_lot lot, int place) {
    if (lot.lot.objects.empty()) return;
    under_way_.push_back(tern::call<&take_lot>(living_[static_cast<std::size_t>(place)], std::move(lot.lot),
                                               shared_buffer<std::byte>(std::move(lot.bytes))));
  }

  net::node& here_;
  directory& all_;
  const job_copy& to_;
  const std::vector<std::int32_t>& living_;
  const saved_tables mine_;
  std::vector<std::pair<std::shared_ptr<const memory_copy>, saved_tables>> dead_; // whose buddy this rank is
  std::vector<told_tables> told_;
  std::vector<future<void>> under_way_;
};

} // namespace

std::optional<std::pair<std::int32_t, std::int32_t>> lost_with_buddy(const job_copy& copy,
                                                                     const std::vector<std::int32_t>& living) {
  const auto lives = [&](std::int32_t rank) { return std::binary_search(living.begin(), living.end(), rank); };
  for (const std::int32_t rank : copy.ranks)
    if (const std::int32_t buddy = copy.buddy_of(rank); !lives(rank) && !lives(buddy)) return {{rank, buddy}};
  return {};
}

void roll_back(net::node& here, const job_copy& to, const std::vector<std::int32_t>& living, protected_steps& what) {
  const frozen_objects rest(directory::of(here).objects());
  going_back job(here, to, living);
  job.forget(what);
  job.restore_tables(what);
  together(true, [&] { job.restore_objects(); });
  quiesce();
  job.restore_names_and_credit();
  quiesce();
  job.give_credit_back();
  quiesce();
  auto* const balancer = directory::of(here).objects().balancer();
  const bool all = communicator::world().allreduce(
      std::uint8_t{balancer != nullptr}, [](std::uint8_t a, std::uint8_t b) -> std::uint8_t { return a & b; });
  if (balancer) balancer->gone_back(all);
}

} // namespace tern::mobile::detail
