// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/sampling/task_sampler.hpp>

#include <array>
#include <exception>
#include <span>
#include <vector>

#include <tern/hetero/data/object_state.hpp>

namespace tern::hetero::detail {

task_sampler::task_sampler(const options& opts, bool simulated, const device_table& devices)
    : simulated_(opts[hetero_simulated]), devices_(devices), models_(opts, simulated) {}

std::string task_sampler::model_of_device(std::size_t device) const {
  return device_model(devices_.info(device), simulated_);
}

kernel_model* task_sampler::model_of(task_record& t, const kernel_code& code, const grid& shape) noexcept {
  if (!on()) return nullptr;
  try {
    std::array<sized_use, 16> few;
    std::vector<sized_use> many(t.use_count > few.size() ? t.use_count : 0);
    const std::span<sized_use> uses = many.empty() ? std::span(few).first(t.use_count) : std::span(many);
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const use& u = t.use_at(i);
      uses[i] = {u.object->element, {u.part.extent(0), u.part.extent(1), u.part.extent(2)}, u.how};
    }
    const key which{&code, hash_of_size(uses, shape), t.device};
    const std::lock_guard hold(guard_);
    if (const auto found = known_.find(which); found != known_.end()) return found->second;
    if (known_.size() >= 2 * model_set::kernels_most) return nullptr; // each size is another one
    kernel_model*& made = known_[which];                              // if it throws, there is none from now on
    made = find(which, uses, shape);
    return made;
  } catch (const std::exception&) {
    return nullptr;
  }
}

kernel_model* task_sampler::find(const key& which, std::span<const sized_use> uses, const grid& shape) {
  return models_.model_of({identity_of(*which.code), model_of_device(which.device), which.size},
                          size_class_of(uses, shape));
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
