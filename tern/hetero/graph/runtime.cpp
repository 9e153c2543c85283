// SPDX-License-Identifier: Apache-2.0
/// \file
/// The runtime's life.
#include <tern/hetero/graph/runtime.hpp>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/hetero/data/pinned_memory.hpp>
#include <tern/hetero/device/device_list.hpp>
#include <tern/hetero/device/device_worker.hpp>
#include <tern/hetero/kernel/checked.hpp>
#include <tern/task/fiber/sanitizer.hpp>

namespace tern::hetero {

statistics count() { return detail::runtime::here("tern::hetero::count").counts(); }

namespace detail {
namespace {
constexpr int tasks_per_worker = 4; // that the host gets from a policy at once
}

runtime::runtime(tern::detail::scheduler_core& core)
    : core_(core), worker_count_(core.cfg.workers),
      light_(core.barrier.usable() && !core.executor && !tern::detail::tsan::enabled),
      parts_(new worker_part[static_cast<std::size_t>(core.cfg.workers) + 1]),
      opts_(core.cfg.opts ? *core.cfg.opts : options()),
      checked_(opts_[hetero_checked] ? std::make_unique<checked_kernels>(opts_) : nullptr),
      group_(nullptr, std::source_location::current()) {
  std::vector<device_note> notes;
  found_devices f = find_devices(opts_, core.cfg.workers, core.executor != nullptr, notes);
  for (const device_note& note : notes) log_debug(note.text);
  infos_ = std::move(f.infos);
  locked_ = std::move(f.locked);
  host_runs_ = f.host_runs;
  loads_.resize(infos_.size());
  tasks_of_.resize(infos_.size());
  for (std::size_t d = 0; d < infos_.size(); ++d) {
    loads_[d].info = &infos_[d];
    if (f.devices[d]) {
      loads_[d].room = f.devices[d]->streams() * 2;
      kinds_beside_host_ |= kinds_of(infos_[d].kind);
      drivers_.push_back(std::make_unique<driver>(*this, static_cast<std::uint8_t>(d), std::move(f.devices[d]),
                                                  opts_[hetero_threads] && !core.executor));
    } else {
      loads_[d].room = core.cfg.workers * tasks_per_worker;
      drivers_.emplace_back();
    }
  }
  policy_ = make_policy(opts_[hetero_policy]);
}

runtime::~runtime() = default;

runtime& runtime::here(const char* what) {
  tern::detail::worker_base* const w = tern::detail::this_worker_base();
  if (!w)
    throw error(errc::invalid_state, std::string(what) + " was called on a thread that is no worker",
                "call it from inside tern::run or scheduler::run");
  tern::detail::scheduler_core& core = *w->home;
  if (auto* const r = core.extension.get()) [[likely]]
    return static_cast<runtime&>(*r);
  // Opening devices may take a second: others wait, as fibers.
  return static_cast<runtime&>(core.extension.get_or_make(
      [](tern::detail::scheduler_core& home) -> tern::detail::scheduler_extension* { return new runtime(home); },
      core));
}

void runtime::ends() noexcept {
  core_.fibers.each_left([this](const tern::detail::fiber&) { left_fibers_ = true; });
  ended_.store(true, std::memory_order_seq_cst);
  while (releasing_.load(std::memory_order_seq_cst) > 0)
    std::this_thread::yield(); // it is a few instructions from its end
  {                            // fibers wait for these, which will be gone when the runtime goes
    std::vector<progress_waiter> unreached;
    const std::lock_guard hold(progress_lock_);
    unreached.swap(progress_);
  }
  for (const auto& d : drivers_)
    if (d) d->end_thread();
  if (const std::uint64_t left = outstanding(); left > 0)
    log_warning(std::to_string(left) + (left == 1 ? " task" : " tasks") +
                " on heterogeneous objects had not run when the program ended: something that they wait for never came"
                " (an access to an object that was not released?)");
  std::size_t unknown = 0;
  for (task_record* t : std::exchange(failed_, {})) {
    unknown += (t->marks.load(std::memory_order_relaxed) & task_record::observed) ? 0 : 1;
    unreference(t);
  }
  if (unknown > 0)
    log_warning(std::to_string(unknown) + (unknown == 1 ? " task" : " tasks") +
                " on heterogeneous objects failed, and nobody asked: call wait_all, or a task's wait");
  release();
}

void runtime::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

std::size_t runtime::device_called(std::string_view id) const {
  std::string there;
  for (std::size_t d = 0; d < infos_.size(); ++d) {
    if (infos_[d].id == id) return d;
    there += (d == 0 ? "" : ", ") + infos_[d].id;
  }
  throw error(errc::not_found, "there is no device '" + std::string(id) + "'", "there are: " + there);
}

bool runtime::in_driver() const noexcept {
  return std::any_of(drivers_.begin(), drivers_.end(), [](const auto& d) { return d && d->is_here(); });
}

std::byte* runtime::allocate_host(std::size_t bytes) {
  constexpr std::size_t most = std::size_t{1} << 47; // of a process; sanitizers take it ill to be asked for more
  if (bytes > most) throw std::bad_alloc();
  if (locked_)
    if (std::byte* const p = locked_->allocate(bytes)) return p;
  // Whole pages, so that devices can use them in place.
  constexpr std::size_t page = 4096;
  const std::size_t whole = (bytes + page - 1) / page * page;
  auto* const p = static_cast<std::byte*>(std::aligned_alloc(whole >= page * 4 ? page : 64, whole));
  if (!p) throw std::bad_alloc();
  return p;
}

void runtime::free_host(std::byte* memory) noexcept {
  if (locked_ && locked_->holds(memory))
    locked_->free(memory);
  else
    std::free(memory);
}

void runtime::count_copy(direction way, std::size_t bytes) noexcept {
  if (way == direction::within) return;
  copied& c = copies_[static_cast<std::size_t>(way)];
  c.times.fetch_add(1, std::memory_order_relaxed);
  c.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

statistics runtime::counts() const {
  statistics s;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(workers()); ++i) {
    s.submitted += parts_[i].submitted.load(std::memory_order_relaxed);
    s.completed += parts_[i].completed.load(std::memory_order_relaxed);
  }
  const auto tell = [&](direction way, std::uint64_t& times, std::uint64_t& bytes) {
    times = copies_[static_cast<std::size_t>(way)].times.load(std::memory_order_relaxed);
    bytes = copies_[static_cast<std::size_t>(way)].bytes.load(std::memory_order_relaxed);
  };
  tell(direction::to_device, s.copies_to_devices, s.bytes_to_devices);
  tell(direction::from_device, s.copies_from_devices, s.bytes_from_devices);
  tell(direction::between, s.copies_between_devices, s.bytes_between_devices);
  {
    const std::lock_guard hold(policy_lock_);
    for (std::size_t d = 0; d < infos_.size(); ++d)
      s.devices.push_back({infos_[d].id, tasks_of_[d], drivers_[d] ? drivers_[d]->bytes_held() : 0});
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(workers()); ++i)
    s.devices[0].tasks += parts_[i].on_host.load(std::memory_order_relaxed);
  return s;
}

} // namespace detail
} // namespace tern::hetero
