// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/record/failure.hpp>

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {
namespace {

/// The error of a task that needs what `cause` was to write.
std::exception_ptr failure_after(const task_record& t, const task_record& cause) {
  errc code = errc::invalid_state;
  std::string why = "for a reason that is no std::exception", hint;
  try {
    std::rethrow_exception(cause.failure);
  } catch (const error& e) {
    code = e.code();
    why = e.message();
    hint = e.hint();
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) { // has no text
  }
  constexpr std::size_t longest = 600; // a chain of thousands tells what matters by its beginning and its root
  std::string text = std::string("task '") + t.text_name() + "' was not run, as '" + cause.text_name() + "' before it ";
  const bool itself = why.rfind("task '", 0) == 0 && why.find("was not run") != std::string::npos;
  if (why.size() > longest) why = why.substr(0, longest / 2) + " … " + why.substr(why.size() - longest / 2);
  text += itself ? "was not: " : "failed: ";
  return std::make_exception_ptr(error(code, text + why, hint));
}

} // namespace

void fail(task_record* t, std::exception_ptr why) noexcept {
  // acq_rel: one thread alone writes the reason. It does so before the task can run or complete,
  // which waits for it.
  if (t->marks.fetch_or(task_record::failed, std::memory_order_acq_rel) & task_record::failed) return;
  t->failure = std::move(why);
  t->marks.fetch_or(task_record::failure_set, std::memory_order_release);
}

// The failure of an internal task of the runtime reaches the user through the first user task that
// needed its result.
void inherit_failure(task_record& t, const task_record& from) noexcept {
  if (!(from.flags & task_record::hidden) || (from.marks.load(std::memory_order_relaxed) & task_record::inherited))
    t.marks.fetch_or(task_record::inherited, std::memory_order_relaxed);
  fail(&t, failure_after(t, from));
}

// `cancel` needs a few instructions from the one mark to the other.
void wait_until_failure_set(const task_record& t) noexcept {
  for (int tries = 0; !(t.marks.load(std::memory_order_acquire) & task_record::failure_set); ++tries)
    tern::detail::spin_lock::back_off(tries);
}

} // namespace tern::hetero::detail
