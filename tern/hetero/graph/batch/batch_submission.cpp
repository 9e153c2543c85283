// SPDX-License-Identifier: Apache-2.0
#include <exception>
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
}

task_record& batch_submission::next() { return *(open_ = make_task()); }

void batch_submission::add() {
  runtime& home = *open_->home;
  if (home.collected(open_)) {
    open_ = nullptr;
    return;
  }
  const bool first = home.give_place(open_, wide_);
  task_record* const t = std::exchange(open_, nullptr);
  ++given_;
  if (first) {
    if ((t->flags & (task_record::placed | task_record::commutes)) == task_record::placed)
      placed_[placed_count_++] = t;
    else if (home.execution().make_ready(t, true)) // it is to run on the host
      ready_[ready_count_++] = t;
  }
  if (given_ == together) flush();
}

void batch_submission::flush() noexcept {
  if (given_ == 0) return;
  const std::span ready(ready_.data(), std::exchange(ready_count_, 0));
  const std::span placed(placed_.data(), std::exchange(placed_count_, 0));
  if (!placed.empty()) placed.front()->home->placement().place(placed);
  if (!ready.empty()) {
    runtime& home = *ready.front()->home;
    if (bundles_ && !home.checked())
      task_bundle::push(ready);
    else
      for (task_record* const t : ready) home.execution().push_to_host(t);
  }
  runtime::here("submit_batch").window_after(std::exchange(given_, 0), std::exchange(wide_, false));
}

void batch_submission::failed(std::size_t number) const {
  const std::exception_ptr why = std::current_exception();
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
