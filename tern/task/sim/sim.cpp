// SPDX-License-Identifier: Apache-2.0
#include <tern/task/sim.hpp>

#include <cmath>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/scheduler.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>
#include <tern/task/sim/simulated_executor.hpp>

namespace tern::sim {
namespace {

// A scheduler has no other executor than that of a simulation.
detail::simulated_executor* here() noexcept {
  const tern::detail::worker* w = tern::detail::this_worker();
  return w ? static_cast<detail::simulated_executor*>(w->home->executor) : nullptr;
}

[[noreturn]] void run_twice() {
  throw error(errc::invalid_state, "simulation::run was called twice for one scheduler",
              "make a new scheduler for another run");
}

} // namespace

simulation::simulation(settings s) {
  if (!(s.preempt >= 0 && s.preempt < 1))
    throw error(errc::invalid_argument, "sim::settings::preempt must be at least 0 and less than 1");
  if (!(s.step_seconds > 0 && s.step_seconds < 1))
    throw error(errc::invalid_argument, "sim::settings::step_seconds must be more than 0 and less than 1");
  executor_ = std::make_unique<detail::simulated_executor>(s);
}
simulation::~simulation() = default;

std::vector<std::exception_ptr> simulation::run(std::span<member> all, std::source_location made) {
  executor_->expect_free();
  std::vector<tern::detail::scheduler_core*> cores;
  cores.reserve(all.size());
  for (const member& m : all) { // before any of them begins
    if (!m.who || m.who->inside().executor != executor_.get())
      throw error(errc::invalid_argument, "simulation::run was given a scheduler that is not in this simulation",
                  "set scheduler::settings::simulation when it is made");
    if (m.who->inside().started) run_twice();
    cores.push_back(&m.who->inside());
  }
  if (executor_->any_twice(cores)) run_twice();
  for (member& m : all) m.who->inside().begin_run(std::move(m.main), made);
  executor_->run(cores);
  std::vector<std::exception_ptr> failed(all.size());
  for (std::size_t i = 0; i < cores.size(); ++i) {
    try {
      cores[i]->conclude();
    } catch (...) {
      failed[i] = std::current_exception();
    }
  }
  return failed;
}

std::uint64_t simulation::seed() const noexcept { return executor_->cfg().seed; }
double simulation::seconds() const noexcept { return 1e-9 * static_cast<double>(executor_->latest()); }
std::uint64_t simulation::trace_hash() const noexcept { return executor_->hash(); }
std::uint64_t simulation::events() const noexcept { return executor_->events(); }
const std::vector<std::string>& simulation::surprises() const noexcept { return executor_->surprises(); }
std::uint64_t simulation::random() noexcept { return executor_->random(); }

bool active() noexcept { return here() != nullptr; }

void charge(double seconds) {
  if (!(seconds >= 0 && seconds < 1e9))
    throw error(errc::invalid_argument, "sim::charge was given " + std::to_string(seconds) + " seconds",
                "a time of work is at least 0 and finite");
  auto* e = here();
  if (!e) return;
  e->charge(std::llround(seconds * 1e9));
  if (scheduler::in_fiber()) this_fiber::yield(); // a worker whose clock is behind comes first
}

outside_world::outside_world() noexcept {
  if (auto* e = here()) ++e->announced;
}
outside_world::~outside_world() {
  if (auto* e = here(); e && --e->announced == 0) e->overlook();
}

} // namespace tern::sim

tern::detail::virtual_executor& tern::detail::executor_of(sim::simulation& s) noexcept { return s.inside(); }
