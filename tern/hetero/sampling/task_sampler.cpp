// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/sampling/task_sampler.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <string_view>
#include <vector>

#include <tern/base/log.hpp>
#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/device/settings.hpp>
#include <tern/hetero/power/powercap.hpp>

namespace tern::hetero::detail {
namespace {

sized_use size_of(const use& u) noexcept {
  return {u.object->element, {u.part.extent(0), u.part.extent(1), u.part.extent(2)}, u.how};
}

std::uint64_t hash_of(task_record& t, const grid& shape, std::uint64_t seed) noexcept {
  size_hash size(seed + t.size_number());
  for (std::size_t i = 0; i < t.use_count; ++i) size.add(size_of(t.use_at(i)));
  return size.of(shape);
}

} // namespace

task_sampler::task_sampler(const options& opts, bool simulated, const device_table& devices)
    : simulated_(opts[hetero_simulated]), is_simulation_(simulated), host_power_(watts_in(opts[hetero_host_power])),
      devices_(devices), models_(opts, simulated) {}

void task_sampler::add_devices() {
  for (; devices_known_ < devices_.count(); ++devices_known_) {
    const std::size_t d = devices_known_;
    device_models_[d] = device_model(devices_.info(d), simulated_);
    const device_queue* const q = devices_.queue(d);
    if (const auto watts = q ? q->of().power() : host_power_)
      models_.set_power(model_of_device(d), watts->busy, watts->idle);
    else if (powercap_)
      add_meter(d);
  }
}

void task_sampler::add_meter(std::size_t device) {
  const device_queue* const q = devices_.queue(device);
  std::string why;
  std::shared_ptr<energy_source> source = q ? q->of().energy(why) : open_powercap_energy(*powercap_, why);
  if (!source) {
    if (!why.empty()) log_info("the power of " + devices_.info(device).id + " is not measured: " + why);
    return;
  }
  const std::string& model = model_of_device(device);
  device_power first = source->before_measuring().value_or(device_power());
  constexpr double second = 1e9; // nanoseconds
  if (const auto idle = models_.idle_watts(model), more = models_.joules(model, second); idle && more)
    first = {*idle + *more, *idle}; // measured by an earlier run
  else if (first.busy > 0)
    models_.set_power(model, first.busy, first.idle);
  meters_[device] = std::make_unique<power_meter>(std::move(source), first);
}

void task_sampler::look_at(std::size_t device, std::int64_t now, double busy) noexcept {
  const std::optional<device_power> found = meters_[device]->look(now, busy);
  try {
    if (found) models_.set_power(model_of_device(device), found->busy, found->idle);
  } catch (const std::exception&) { // no memory: what was known stays
  }
}

void task_sampler::meter(std::size_t device, std::int64_t now, double busy) noexcept {
  if (meters_[device]) look_at(device, now, busy);
  if (!meters_[0]) return;
  if (const std::unique_lock hold(host_meter_guard_, std::try_to_lock); hold) look_at(0, now, 0);
}

sampled_kernel* task_sampler::known(const sampled_kernel::key& which, task_record& t, const grid& shape) noexcept {
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
  return k && k->model_ ? k : nullptr;
}

sampled_kernel* task_sampler::to_sample(task_record& t, const kernel_code& code, const grid& shape) noexcept {
  if (!on()) return nullptr;
  sampled_kernel* const k = known({&code, hash_of(t, shape, 0), t.device}, t, shape);
  return k && is_turn_of(*k) ? k : nullptr;
}

bool task_sampler::is_turn_of(sampled_kernel& k) noexcept {
  const std::uint32_t passed = k.passed_.load(std::memory_order_relaxed) + 1;
  const bool now = passed >= k.every_.load(std::memory_order_relaxed);
  k.passed_.store(now ? 0 : passed, std::memory_order_relaxed); // another thread's count may be lost
  return now;
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
  const std::uint64_t number = t.size_number();
  const size_class size = detail::size_class_of(uses, shape, number);
  made.bytes_ = size.bytes;
  const device_queue* const q = devices_.queue(which.device);
  made.costly_ = q && q->of().measures_on_request();
  made.named_ = {identity_of(*which.code, number), model_of_device(which.device), which.size};
  made.model_ = models_.model_of(made.named_, size);
  return &made;
}

void task_sampler::ran(sampled_kernel& kernel, std::int64_t nanoseconds, bool beside) noexcept {
  const std::uint32_t taken = kernel.taken_.load(std::memory_order_relaxed) + 1;
  kernel.taken_.store(taken, std::memory_order_relaxed); // another thread's may be lost
  if (kernel.costly_ && taken >= costly_first) kernel.every_.store(brief_every, std::memory_order_relaxed);
  if (!beside) {
    kernel.alone_.store(true, std::memory_order_relaxed);
  } else if (kernel.alone_.load(std::memory_order_relaxed)) {
    return;
  }
  const std::size_t samples = models_.record(*kernel.model_, static_cast<double>(nanoseconds));
  if (!kernel.costly_) {
    const bool seldom = samples == sample_history::capacity && nanoseconds < brief;
    kernel.every_.store(seldom ? brief_every : 1, std::memory_order_relaxed);
  }
  const double median = models_.median_of(*kernel.model_);
  if (median <= 0) return;
  kernel.expected_.store(median, std::memory_order_relaxed);
  kernel.by_itself_.store(true, std::memory_order_relaxed);
}

void task_sampler::copied(std::size_t device, direction way, std::uint64_t bytes, std::int64_t nanoseconds,
                          bool both_ways) noexcept {
  if (!on() || !is_of_host(way) || nanoseconds <= 0) return;
  try {
    const std::string &host = model_of_device(0), &other = model_of_device(device);
    const bool to = way == direction::to_device;
    models_.record_copy(to ? host : other, to ? other : host, bytes, static_cast<double>(nanoseconds), both_ways);
  } catch (const std::exception&) { // no memory: it does not count
  }
}

bool task_sampler::knows_no_link(std::size_t device) noexcept {
  const hetero::detail::device& d = devices_.queue(device)->of();
  if (!models_.probes_links() || !d.measures() || d.info().shares_host_memory) return false;
  constexpr std::uint64_t bytes = 1 << 20;
  try {
    const std::string &host = model_of_device(0), &other = model_of_device(device);
    return !models_.predict_copy(host, other, bytes) || !models_.predict_copy(other, host, bytes);
  } catch (const std::exception&) { // no memory
    return false;
  }
}

// What policies ask ---------------------------------------------------------------------------------------------------

kernel_at task_sampler::measured(task_record& t, std::size_t device) const noexcept {
  if (!on() || !t.work) return {};
  const device_queue* const q = devices_.queue(device);
  if (q && !q->of().measures()) return {};
  const device_kind kind = devices_.info(device).kind;
  if (t.work->kernel)
    if (const kernel_at at = t.work->kernel(t, kind); at.code) return at;
  return t.work->function && (!q || q->of().measures_functions()) ? t.work->function(t, kind) : kernel_at();
}

std::optional<double> task_sampler::expected_time(task_record& t, std::size_t device) noexcept {
  const kernel_at at = measured(t, device);
  if (!at.code) return std::nullopt;
  sampled_kernel* const k = known({at.code, hash_of(t, *at.shape, 0), static_cast<std::uint8_t>(device)}, t, *at.shape);
  const double nanoseconds = k ? nanoseconds_of(*k) : 0;
  return nanoseconds > 0 ? std::optional(nanoseconds * 1e-9) : std::nullopt;
}

// Devices of a kind have the same kernel, so the hash of its uses is the same.
void task_sampler::expected_times(task_record& t, std::vector<double>& into) noexcept {
  kernel_at last;
  std::uint64_t size = 0;
  for (std::size_t d = 0; d < into.size(); ++d) {
    into[d] = -1;
    const kernel_at at = measured(t, d);
    if (!at.code) continue;
    if (at.shape != last.shape) size = hash_of(t, *at.shape, 0);
    last = at;
    sampled_kernel* const k = known({at.code, size, static_cast<std::uint8_t>(d)}, t, *at.shape);
    if (const double nanoseconds = k ? nanoseconds_of(*k) : 0; nanoseconds > 0) into[d] = nanoseconds * 1e-9;
    if (d == 0 && k && k->every_.load(std::memory_order_relaxed) > 1) count_host_task(t, *k);
  }
}

// If its turn has come, but it runs elsewhere, the next one has it.
void task_sampler::count_host_task(task_record& t, sampled_kernel& k) noexcept {
  const std::uint32_t passed = k.passed_.load(std::memory_order_relaxed);
  if (passed + 1 >= k.every_.load(std::memory_order_relaxed)) {
    t.flags &= static_cast<std::uint16_t>(~task_record::unsampled);
    return;
  }
  k.passed_.store(passed + 1, std::memory_order_relaxed);
  t.flags |= task_record::unsampled;
}

double task_sampler::nanoseconds_of(sampled_kernel& k) noexcept {
  if (!k.by_itself_.load(std::memory_order_relaxed) &&
      k.asked_.fetch_add(1, std::memory_order_relaxed) % ask_again == 0) {
    try {
      if (const std::optional<prediction> p = models_.predict(k.named_, k.bytes_))
        k.expected_.store(p->nanoseconds, std::memory_order_relaxed);
    } catch (const std::exception&) { // no memory: it is not known
    }
  }
  return k.expected_.load(std::memory_order_relaxed);
}

std::uint64_t task_sampler::size_class_of(task_record& t, std::size_t device) noexcept {
  const kernel_at at = measured(t, device);
  if (!at.code || !known({at.code, hash_of(t, *at.shape, 0), static_cast<std::uint8_t>(device)}, t, *at.shape))
    return 0;
  return std::max<std::uint64_t>(hash_of(t, *at.shape, std::hash<std::string_view>()(at.code->name)), 1);
}

// A way that nothing has gone yet is taken to be as the way back.
std::optional<double> task_sampler::link(std::size_t from, std::size_t to, std::uint64_t bytes) {
  const std::string &a = model_of_device(from), &b = model_of_device(to);
  auto nanoseconds = models_.predict_copy(a, b, bytes);
  if (!nanoseconds) nanoseconds = models_.predict_copy(b, a, bytes);
  return nanoseconds ? std::optional(*nanoseconds * 1e-9) : std::nullopt;
}

std::optional<double> task_sampler::expected_copy(std::size_t from, std::size_t to, std::uint64_t bytes) noexcept {
  if (!on()) return std::nullopt;
  try {
    const std::lock_guard hold(copies_guard_);
    copy_time& c = copy_times_[(bytes / 64 * 31 + from * 7 + to) % copy_times_.size()];
    if (c.bytes == bytes && c.from == from && c.to == to && c.asked > 0 && ++c.asked < ask_again) return c.seconds;
    c = {bytes, from, to, 1, std::nullopt};
    if (from == 0 || to == 0) {
      c.seconds = link(from, to, bytes);
    } else if (const auto home = link(from, 0, bytes), there = link(0, to, bytes); home && there) {
      const bool straight = devices_.queue(to)->reaches(*devices_.queue(from));
      c.seconds = straight ? std::max(*home, *there) : *home + *there;
    }
    return c.seconds;
  } catch (const std::exception&) { // no memory: it is not known
    return std::nullopt;
  }
}

std::optional<double> task_sampler::expected_joules(std::size_t device, double seconds) noexcept {
  if (!on()) return std::nullopt;
  const auto joules = models_.joules(model_of_device(device), seconds * 1e9);
  // The host is busy when all of its workers are; a task takes one.
  return joules && device == 0 ? std::optional(*joules / devices_.info(0).compute_units) : joules;
}

std::optional<double> task_sampler::idle_watts(std::size_t device) noexcept {
  return on() ? models_.idle_watts(model_of_device(device)) : std::nullopt;
}

} // namespace tern::hetero::detail
