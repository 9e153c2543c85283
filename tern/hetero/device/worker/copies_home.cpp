// SPDX-License-Identifier: Apache-2.0
/// \file
/// What the host is to read is copied there behind the tasks of the device that the reader follows,
/// before these have ended; so is what another device is to get by way of the host.
///
/// Such a copy has an order with what is in streams, but it does not share its fate: behind a
/// launch that failed, or was not done, it has copied what was there before. So it counts as over
/// only when all tasks that it follows have ended; and if one of them went to the device a second
/// time, it is made once more, with nothing left to follow. (If one of them failed for good, the
/// reader fails or needs nothing of it.)
#include <algorithm>

#include <tern/hetero/access/copying_out.hpp>
#include <tern/hetero/device/worker/device_worker.hpp>

namespace tern::hetero::detail {

// It will run elsewhere, and nowhere where its data could go straight.
bool device_worker::goes_home_first(const task_record& t) const noexcept {
  const task_placement& places = home_.placement();
  if (places.allowed(t, number_)) return false;
  const device_table& all = home_.devices();
  for (std::size_t d = 1; d < all.count(); ++d)
    if (d != number_ && all.queue(d)->reaches(*this) && places.allowed(t, static_cast<int>(d))) return false;
  return true;
}

// \pre the task is this worker's alone.
void device_worker::bring_home(task_record* t, const followers::successor& s) noexcept {
  constexpr unsigned other_way = task_record::commutes | task_record::order_only | task_record::reduces |
                                 task_record::of_reduction | task_record::acquired;
  if (device_->waiting_stream() < 0 || !t->sound() || t->use_count == 0) return;
  transfer_chain behind;
  if (is_copy_out(*t)) {
    copy_out_behind(*t, number_, behind);
  } else if (!(t->flags & other_way)) {
    if (!(t->flags & task_record::placed))
      home_.copies().acquire_home_behind(t, number_, behind);
    else if (goes_home_first(*t))
      home_.copies().bring_home_behind(t, number_, behind);
  }
  if (behind.empty()) return;
  after_.clear();
  std::vector<task_record*>& all = followed_;
  all.clear();
  for (const followers::place& p : s.after) {
    if (std::find(all.begin(), all.end(), p.task) == all.end()) all.push_back(p.task); // once, whatever its edges
    const auto is_later = [&](const followers::place& q) { return q.stream == p.stream && q.number > p.number; };
    if (std::none_of(s.after.begin(), s.after.end(), is_later)) after_.push_back(p.end); // streams keep their order
  }
  behind.take_each([&](transfer* x) {
    x->follows = all;
    begin(x, after_);
  });
}

void device_worker::followed_ended(const task_record* t) noexcept {
  if (behind_ == 0) return;
  for (transfer* x : moving_)
    if (std::erase(x->follows, t) > 0 && x->follows.empty()) --behind_;
}

void device_worker::followed_again(const task_record* t) noexcept {
  if (behind_ == 0) return;
  for (transfer* x : moving_)
    if (std::find(x->follows.begin(), x->follows.end(), t) != x->follows.end()) x->again = true;
}

} // namespace tern::hetero::detail
