// SPDX-License-Identifier: Apache-2.0
/// \file
/// Claims of objects for functions over several.
#include <tern/mobile/access/admission.hpp>

#include <array>
#include <mutex>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/load/object_loads.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::mobile::detail {

// Under the shard's lock, as all until the next line. The access is had from now on.
claim_grant admission::claim(entry& e, action how) noexcept {
  using bond = claim_grant::bond;
  e.admit(how);
  ++e.claims;
  ++e.runs;
  return {rank_,
          e.pins > 0     ? bond::pinned
          : e.type->pack ? bond::none
                         : bond::of_class,
          how == action::share, e.unfinished > 0, 0};
}

void admission::grant(entry& e, std::unique_ptr<invocation> one, deferred_actions& then) {
  const claim_grant with = claim(e, one->what->what);
  then.grants.push_back({std::move(one), with});
}

// --------------------------------------------------------------------------------------------------------------------

namespace {

// A claim of it ends: not while its claimer moves it.
void check_claimed(const entry* e, object_id id) {
  if (!e || e->at != entry::place::here || e->claims == 0) [[unlikely]]
    throw error(errc::invalid_data, "a claim of object " + to_string(id) + " ends, which is not here and claimed");
}

} // namespace

// A rank has died, and with it what was claimed may have gone.
bool admission::has_given_up(const entry* e) const noexcept {
  return objects_.abandoned() && (!e || e->at != entry::place::here || e->claims == 0);
}

bool admission::try_claim(claimed_object& one) {
  tern::detail::activations::settle();
  shard& s = objects_.shard_of(one.id);
  const std::lock_guard hold(s.lock);
  entry* const e = s.entries.find(one.id);
  // After what this rank has sent before.
  if (!e || e->under_way > 0 || e->not_begun > 0 || e->own_open || e->starting || !e->waiting.empty() ||
      !e->admits(one.how()))
    return false;
  one.with = claim(*e, one.how());
  one.granted = true;
  one.of = e;
  one.object = e->type->self == one.type->self ? e->object : cast_object(*e->type, e->object, *one.type);
  return true;
}

void admission::find_claimed(claimed_object& one) {
  shard& s = objects_.shard_of(one.id);
  const std::lock_guard hold(s.lock);
  entry* const e = s.entries.find(one.id);
  if (!e || e->at != entry::place::here || e->claims == 0)
    throw error(errc::invalid_data, "object " + to_string(one.id) + " is not here and claimed");
  one.of = e;
  one.object = cast_object(*e->type, e->object, *one.type);
  if (!one.object)
    throw error(errc::not_found,
                "object " + to_string(one.id) + " is a " + e->type->name + ", not a " + one.type->name);
}

void admission::carry(std::unique_ptr<invocation> request) {
  deferred_actions then;
  {
    shard& s = objects_.shard_of(request->to.object);
    const std::lock_guard hold(s.lock);
    entry* const e = s.entries.find(request->to.object);
    if (!e || e->at != entry::place::here || e->claims == 0 || !e->exclusive)
      throw error(errc::invalid_data, "rank " + std::to_string(request->source) + " moves object " +
                                          to_string(request->to.object) + ", which is not here and claimed");
    then.of = e;
    e->travels().carry = std::move(request);
    admit_waiting(*e, then);
  }
  objects_.perform(then);
}

void admission::end_claim(object_id id, bool shared) {
  entry* e = nullptr;
  {
    shard& s = objects_.shard_of(id);
    const std::lock_guard hold(s.lock);
    e = s.entries.find(id);
    if (has_given_up(e)) return;
    check_claimed(e, id);
  }
  end_claim(*e, shared); // it stays as long as it is claimed
}

void admission::end_claim(entry& e, bool shared) {
  {
    const std::lock_guard hold(objects_.shard_of(e.id).lock);
    if (has_given_up(&e)) return;
    check_claimed(&e, e.id);
    --e.claims;
    if (objects_.attends() == 0 && e.waiting.empty() && !e.travel) [[likely]] {
      if (shared)
        --e.sharing;
      else
        e.exclusive = false;
      return;
    }
  }
  finished(e, !shared, objects_.watches());
}

void admission::run_claimed(std::span<claimed_object> all, claimed_body& body) {
  constexpr std::size_t few = 32;
  std::array<void*, few> space{};
  std::vector<void*> more;
  if (all.size() > few) more.resize(all.size());
  const std::span<void*> objects = all.size() > few ? std::span(more) : std::span(space).first(all.size());
  const claimed_object* main = nullptr;
  for (claimed_object& one : all) {
    if (!one.object) find_claimed(one);
    if (debug_ == debugging::reserialize && !one.with.shared && one.of->unfinished == 0 && !is_kept(*one.of)) {
      reserialize(*one.of);
      find_claimed(one);
    }
    objects[one.place] = one.object;
    if (one.place == 0) main = &one;
  }
  const int origin = tern::detail::work_frame::origin_here().value_or(rank_); // of the message, if one has come
  const together_frame frame(*this, *main, all, origin);
  if (!objects_.watches()) [[likely]]
    return body.run(objects);
  call_claimed(*main, objects, body);
}

// What it takes is what the main object takes.
void admission::call_claimed(const claimed_object& main, std::span<void* const> objects, claimed_body& body) {
  entry& e = *main.of;
  const double load = loads_.weigh(e, 0);
  auto* const b = objects_.balancer();
  if (b) b->begun(e.id, load);
  const tern::detail::run_timer time;
  const auto ended = [&] {
    const double took = time.seconds();
    loads_.note_time(e, took);
    if (b) b->ended(e.id, *e.type, e.object, load, took, true);
  };
  try {
    body.run(objects);
  } catch (...) {
    ended();
    throw;
  }
  ended();
}

} // namespace tern::mobile::detail
