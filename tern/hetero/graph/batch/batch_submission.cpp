// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/hetero/batch.hpp>
#include <tern/hetero/graph/batch/task_bundle.hpp>
#include <tern/hetero/graph/runtime.hpp>

namespace tern::hetero::detail {

batch_submission::batch_submission(const kernel_code& kernel, const grid& shape, std::size_t count)
    : kernel_(kernel), count_(count), bundles_(shape.count() == 1) {}

batch_submission::~batch_submission() {
  if (open_) unmake_task(open_);
  flush();
  if (empty_ && spare_count_ > 0) {
    empty_->count = static_cast<std::uint32_t>(spare_count_);
    std::copy_n(spares_.begin(), spare_count_, empty_->all);
    home_->records().free_magazine(empty_);
  } else {
    while (spare_count_ > 0) home_->records().free(spares_[--spare_count_]);
    if (empty_) home_->records().free_block(empty_);
  }
  while (more_) home_->records().free_magazine(std::exchange(more_, more_->next));
}

void batch_submission::find_spares() {
  if (!home_) {
    home_ = &runtime::here("a task on heterogeneous objects");
    more_ = home_->records().take_magazines();
  }
  if (more_ || (more_ = home_->records().take_magazines())) {
    record_magazine* const m = std::exchange(more_, more_->next);
    std::copy_n(m->all, m->count, spares_.begin());
    spare_count_ = m->count;
    if (empty_) home_->records().free_block(empty_);
    empty_ = m;
  } else {
    spares_[spare_count_++] = home_->records().allocate();
  }
  for (std::size_t i = 0; i < spare_count_ && i < early; ++i) fetch_soon(*spares_[spare_count_ - 1 - i]);
}

bool batch_submission::are_plain() const {
  home_->look_for_devices(open_->kinds);
  const tern::detail::worker* const w = tern::detail::this_worker();
  // relaxed: if a collector is this fiber's, it was this worker that wrote it.
  return home_->parts().is_mine(w) && !w->causal && !home_->pager() && !home_->placement().chooses_for(*open_) &&
         !home_->parts().here().collects.load(std::memory_order_relaxed);
}

void batch_submission::add() {
  if (given_ == 0) plain_ = are_plain();
  if (!plain_ || !order_plain(open_)) {
    if (home_->collected(open_)) {
      open_ = nullptr;
      return;
    }
    order(open_);
  }
  open_ = nullptr;
  if (++given_ == together) flush();
}

// \return false: nothing has been done.
bool batch_submission::order_plain(task_record* t) noexcept {
  const use& u = t->slots[0].of;
  if (t->use_count != 1 || &u.object->home != home_ || u.object->reducing.load(std::memory_order_acquire)) return false;
  t->state.store(task_record::waiting, std::memory_order_relaxed);
  task_record* before = nullptr;
  if (!dependencies::take_over(t, before)) return false;
  t->pending.store(0, std::memory_order_relaxed); // no other thread knows it
  wide_ = wide_ || u.object->is_large(u.part);
  // acquire: as in task_execution::acquire_on_host
  if (u.object->on_host.load(std::memory_order_acquire)) [[likely]] {
    ready_[ready_count_++] = t;
    ++uncounted_;
  } else {
    outstanding_tasks::count_submitted(home_->parts().here(), home_->parts().is_mine(tern::detail::this_worker()));
    if (home_->execution().make_ready(t, true)) ready_[ready_count_++] = t;
  }
  if (before && record_pool::drop_reference(before)) {
    home_->records().renew(before);
    if (spare_count_ < together)
      spares_[spare_count_++] = before;
    else
      home_->records().free(before);
  }
  return true;
}

void batch_submission::order(task_record* t) {
  if (!home_->give_place(t, wide_)) return;
  if ((t->flags & (task_record::placed | task_record::commutes)) == task_record::placed)
    placed_[placed_count_++] = t;
  else if (home_->execution().make_ready(t, true)) // it is to run on the host
    ready_[ready_count_++] = t;
}

void batch_submission::flush() noexcept {
  if (given_ == 0) return;
  const std::span ready(ready_.data(), std::exchange(ready_count_, 0));
  const std::span placed(placed_.data(), std::exchange(placed_count_, 0));
  if (const std::size_t more = std::exchange(uncounted_, 0); more > 0) { // before they can end
    const worker_parts& all = home_->parts();
    outstanding_tasks::count_submitted(all.here(), all.is_mine(tern::detail::this_worker()), more);
  }
  if (!placed.empty()) home_->placement().place(placed);
  if (!ready.empty()) {
    if (bundles_ && !home_->checked())
      task_bundle::push(ready);
    else
      for (task_record* const t : ready) home_->execution().push_to_host(t);
  }
  home_->window_after(std::exchange(given_, 0), std::exchange(wide_, false));
}

void batch_submission::failed(std::size_t number, const std::exception_ptr& why) const {
  const std::string where = std::string("submit_batch: task ") + std::to_string(number) + " of " +
                            std::to_string(count_) + " of kernel '" + kernel_.name + "': ";
  const std::string rest = number == 0   ? "no task was submitted"
                           : number == 1 ? "task 0 was submitted"
                                         : "tasks 0 to " + std::to_string(number - 1) + " were submitted";
  try {
    std::rethrow_exception(why);
  } catch (const error& e) {
    std::throw_with_nested(error(e.code(), where + e.message(), (e.hint().empty() ? "" : e.hint() + "; ") + rest));
  } catch (const std::exception& e) {
    std::throw_with_nested(error(errc::invalid_argument, where + e.what(), rest));
  } catch (...) {
    std::throw_with_nested(error(errc::invalid_argument, where + "the function threw something", rest));
  }
}

} // namespace tern::hetero::detail
