// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the policies have in common that act while work goes on: how ranks compare, which objects
/// one transfers to another, and what is known of objects that have come from elsewhere. Internal.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <tern/balance/policies/resources/resources.hpp>
#include <tern/balance/policies/shared/list_schedule.hpp>
#include <tern/balance/policy.hpp>

namespace tern::balance::detail {

/// The load of a rank, as it tells others: of its workers, or of its devices if these end later.
struct load_report {
  double ahead = 0; ///< seconds of work, if all its workers share it to the end
  double ends = 0;  ///< seconds until the last worker has done its share: objects cannot be divided
  double rate = 1;  ///< how many seconds later they end for each unit of load that comes
  double each = 0;  ///< what one waiting object takes a worker there, on average: seconds
  double more = -1; ///< how much one more object like those would disturb: some worker ends later than its share says;
                    ///< -1: not known
  std::uint32_t workers = 1;
  std::uint32_t ready = 0; ///< objects that wait
  std::uint32_t idle = 0;  ///< workers that have nothing to do, as far as known
  resource of = resource::worker;
  bool knows = true; ///< `rate`
  // Of the other resource: 0 workers if it does not count.
  bool knows_other = false;
  std::uint32_t other_workers = 0;
  double other_rate = 0;
  template <class A> void serialize(A& ar) {
    ar(ahead, ends, rate, each, more, workers, ready, idle, of, knows, knows_other, other_workers, other_rate);
  }
};

/// What load means to that rank which loads another rank's critical resource. Its rate is taken to
/// be that rank's if it does not know it.
inline load_report in_terms_of(load_report s, const load_report& giver) {
  if (s.of != giver.of) {
    s.of = giver.of;
    std::swap(s.rate, s.other_rate);
    std::swap(s.knows, s.knows_other);
    std::swap(s.workers, s.other_workers);
    s.workers = std::max(s.workers, 1U);
    s.idle = std::min(s.idle, s.workers);
    s.more = -1;
  }
  if (!s.knows) s.rate = giver.rate * giver.workers / s.workers;
  return s;
}

/// The load that `from` must give to `to` so that both ranks end at the same time. Negative if `to`
/// ends later already.
inline double evens_out(const load_report& from, const load_report& to) {
  return (from.ahead - to.ahead) / (from.rate + in_terms_of(to, from).rate);
}

/// How much later some worker ends there if one more object comes: none, as long as there are so
/// many others that they can be dealt out anew around it.
double disturbs(const load_report& s, double takes);

/// The first ends later than the other although it may not have more: what it has cannot be divided
/// any better.
/// \param least seconds that must be at stake.
bool uneven(const load_report& late, const load_report& other, double least);

/// An object that moves, and the ranks that it has left lately.
struct migrating_object {
  object_id id;
  std::vector<std::int32_t> left;
  template <class A> void serialize(A& ar) { ar(id.bits, left); }
};

/// Goes ahead of objects: which they are.
struct announced {
  std::vector<migrating_object> objects;
  template <class A> void serialize(A& ar) { ar(objects); }
};

/// What has become of a wish for objects: they have arrived, or there are none.
struct settled {
  std::uint32_t number = 0; ///< whatever the wish said
  std::uint32_t moved = 0, failed = 0;
  load_report giver;
  template <class A> void serialize(A& ar) { ar(number, moved, failed, giver); }
};

/// Transfers objects and remembers where they have been, so that none wanders for ever: an object
/// that has come here leaves again only if nothing else is fit to go, not when it has been moved
/// `most` times, and not to where it has been; until it has stayed for `hold` seconds, or a phase
/// has ended. One thread at a time.
class transfer_planner {
public:
  transfer_planner(policy_context& h, double hold, int most, counted by = counted::worker)
      : here_(h), counting_(h, by), hold_(hold), most_(static_cast<std::size_t>(most)) {}

  load_report mine() const;
  /// With `more`, which takes time.
  load_report precisely() const;
  /// The load of one object: the average of those that wait, or lately waited. 0: none has yet.
  double each() const;
  /// Fewer wait for each worker than `limit`.
  bool short_of(double limit) const;

  const resources& counting() const noexcept { return counting_; }

  /// When the last worker will have done its share if more comes. \param all the load. \param each
  /// of one object. \param of what.
  double ends_with(double each, double all, resource of = resource::worker) const;
  /// How much load it is of use to take from there: `most`, or less; 0: none.
  double worth_taking(const load_report& giver, const load_report& mine, double most) const;

  /// The objects with which rank `to` would be helped, of load `most` or hardly more; 0: only what
  /// keeps this rank from dividing the rest well. Those that have not moved before come first, and
  /// of these the heaviest, unless the taker's are heavier still. Never so much that this rank
  /// would be the poorer one. Takes time for each object.
  std::vector<object_info> choose(int to, const load_report& taker, double most) const;
  /// Their announcement. \pre `move` follows.
  announced announce(const std::vector<object_info>& objects) const;
  /// Moves them. \param number for `settled`. \param then is called when all have arrived or
  /// failed; at once if there are none.
  void move(const std::vector<object_info>& objects, int to, std::uint32_t number,
            std::function<void(const settled&)> then);
  /// What has been announced comes from rank `from`.
  void coming(const announced& what);
  /// A phase has ended: all may move again.
  void forget();

private:
  struct history {
    std::vector<std::int32_t> left;
    double until = 0; ///< then it does not count any more
  };
  const history* known(object_id id) const;
  bool may_go(object_id id, int to) const;
  void sweep();
  load_report report(resource of) const;
  double look_ahead(double ahead, resource of) const;
  double deal(const std::vector<double>& loads, resource of) const;
  /// Of objects that could leave with what they have to do, the heaviest first.
  std::vector<double> waiting_loads(resource of) const;
  void choose_remainder(int to, const load_report& giver, load_report taker, std::vector<object_info>& chosen) const;

  policy_context& here_;
  const resources counting_;
  double hold_;
  std::size_t most_;
  mutable double each_ = 0;
  mutable lpt_scheduler scheduler_;
  mutable std::size_t seen_ready_ = 0;
  mutable double seen_waiting_ = 0, end_at_ = 0;
  mutable bool changed_ = true;              ///< something has come or gone since
  mutable resource seen_ = resource::worker; ///< what was critical then
  std::map<object_id, history> came_;
  std::size_t sweep_at_ = 64;
};

} // namespace tern::balance::detail
