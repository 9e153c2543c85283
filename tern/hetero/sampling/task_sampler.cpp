// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/sampling/task_sampler.hpp>

#include <exception>
#include <vector>

#include <tern/hetero/data/object_state.hpp>

namespace tern::hetero::detail {
namespace {

sized_use size_of(const use& u) noexcept {
  return {u.object->element, {u.part.extent(0), u.part.extent(1), u.part.extent(2)}, u.how};
}

} // namespace

task_sampler::task_sampler(const options& opts, bool simulated, const device_table& devices)
    : simulated_(opts[hetero_simulated]), devices_(devices), models_(opts, simulated) {}

std::string task_sampler::model_of_device(std::size_t device) const {
  return device_model(devices_.info(device), simulated_);
}

sampled_kernel* task_sampler::to_sample(task_record& t, const kernel_code& code, const grid& shape) noexcept {
  if (!on()) return nullptr;
  size_hash size(0);
  for (std::size_t i = 0; i < t.use_count; ++i) size.add(size_of(t.use_at(i)));
  const sampled_kernel::key which{&code, size.of(shape), t.device};
  std::atomic<sampled_kernel*>& recent = recent_[hash()(which) % recent_.size()];
  sampled_kernel* k = recent.load(std::memory_order_acquire); // pairs with the store: its model
  if (!k || !(k->of() == which)) [[unlikely]] {
    try {
      k = find(which, t, shape);
    } catch (const std::exception&) { // no memory, or no text
      return nullptr;
    }
    recent.store(k, std::memory_order_release);
  }
  if (!k || !k->model_) return nullptr;
  const std::uint32_t passed = k->passed_.load(std::memory_order_relaxed) + 1;
  const bool now = passed >= k->every_.load(std::memory_order_relaxed);
  k->passed_.store(now ? 0 : passed, std::memory_order_relaxed); // another thread's count may be lost
  return now ? k : nullptr;
}

// \return null where each size is another one.
sampled_kernel* task_sampler::find(const sampled_kernel::key& which, task_record& t, const grid& shape) {
  const std::lock_guard hold(guard_);
  if (const auto found = known_.find(which); found != known_.end()) return &found->second;
  if (known_.size() >= 2 * model_set::kernels_most) return nullptr;
  // If what follows throws, it has no model from now on.
  sampled_kernel& made = known_.try_emplace(which, which).first->second;
  std::vector<sized_use> uses;
  for (std::size_t i = 0; i < t.use_count; ++i) uses.push_back(size_of(t.use_at(i)));
  made.model_ = models_.model_of({identity_of(*which.code), model_of_device(which.device), which.size},
                                 size_class_of(uses, shape));
  return &made;
}

void task_sampler::ran(sampled_kernel& kernel, std::int64_t nanoseconds) noexcept {
  const std::size_t samples = models_.record(*kernel.model_, static_cast<double>(nanoseconds));
  const bool seldom = samples == sample_history::capacity && nanoseconds < brief;
  kernel.every_.store(seldom ? brief_every : 1, std::memory_order_relaxed);
}

void task_sampler::copied(std::size_t device, direction way, std::uint64_t bytes, std::int64_t nanoseconds,
                          bool both_ways) noexcept {
  if (!on() || !is_of_host(way)) return;
  try {
    const std::string host = model_of_device(0), other = model_of_device(device);
    const bool to = way == direction::to_device;
    models_.record_copy(to ? host : other, to ? other : host, bytes, static_cast<double>(nanoseconds), both_ways);
  } catch (const std::exception&) { // no memory: it does not count
  }
}

} // namespace tern::hetero::detail
