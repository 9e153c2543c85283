// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/models/performance_models.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include <tern/hetero/devices.hpp>
#include <tern/hetero/models/estimate/size_fit.hpp>

namespace tern::hetero::detail {

performance_models::performance_models(const options& opts, bool simulated, std::int64_t (*date)() noexcept)
    : performance_models(simulated ? model_file() : model_file(opts), date) {
  on_ = opts[hetero_models] != "off";
  if (simulated) probes_ = !model_file::only_reads(opts[hetero_models]);
}

performance_models::performance_models(model_file file, std::int64_t (*date)() noexcept)
    : date_(date), on_(true), stores_(file.how() == model_file::access::write), probes_(stores_),
      file_(std::move(file)), stored_at_(date()) {}

// \pre `guard_` is held. Nothing is stored before, as nothing is known.
model_set& performance_models::models() noexcept {
  if (!loaded_.load(std::memory_order_relaxed)) {
    models_ = file_.load(date_());
    loaded_.store(true, std::memory_order_relaxed); // what it says of `models_` is read under `guard_`
  }
  return models_;
}

void performance_models::load() noexcept {
  if (!on_ || loaded_.load(std::memory_order_relaxed)) return;
  const std::lock_guard hold(guard_);
  models();
}

// Kernels -------------------------------------------------------------------------------------------------------------

kernel_model* performance_models::model_of(const model_key& key, const size_class& size) {
  if (!on_) return nullptr;
  const std::lock_guard hold(guard_);
  auto& kernels = models().kernels;
  if (const auto found = kernels.find(key); found != kernels.end()) return &found->second;
  if (kernels.size() >= model_set::kernels_most) return nullptr;
  kernel_model& made = kernels[key];
  made.size = size;
  return &made;
}

std::size_t performance_models::record(kernel_model& model, double nanoseconds) noexcept {
  const std::lock_guard hold(guard_);
  if (!std::exchange(model.warm, true) || !(nanoseconds > 0)) return model.times.size();
  model.times.add(nanoseconds);
  model.fresh = static_cast<std::uint32_t>(std::min<std::size_t>(model.fresh + 1, model.times.size()));
  model.last = date_();
  return model.times.size();
}

std::optional<prediction> performance_models::predict(const model_key& key, std::uint64_t bytes) {
  std::vector<size_point> others;
  {
    const std::lock_guard hold(guard_);
    const auto& kernels = models().kernels;
    const auto found = kernels.find(key);
    if (found != kernels.end() && found->second.times.usable()) {
      const sample_history& h = found->second.times;
      return prediction{h.median(), h.spread(), h.size(), false};
    }
    for (auto i = kernels.lower_bound({key.kernel, key.device, 0});
         i != kernels.end() && i->first.kernel == key.kernel && i->first.device == key.device; ++i)
      if (i->second.times.usable())
        others.push_back({static_cast<double>(i->second.size.bytes), i->second.times.median()});
  }
  const std::optional<size_fit> fit = size_fit::through(others);
  const std::optional<double> time = fit ? fit->at(static_cast<double>(bytes)) : std::nullopt;
  if (!time) return std::nullopt;
  return prediction{*time, *time / 2, others.size(), true};
}

double performance_models::median_of(const kernel_model& model) {
  const std::lock_guard hold(guard_);
  return model.times.usable() ? model.times.median() : 0;
}

// Copies --------------------------------------------------------------------------------------------------------------

void performance_models::record_copy(const std::string& from, const std::string& to, std::uint64_t bytes,
                                     double nanoseconds, bool both_ways) {
  if (!on_) return;
  const std::lock_guard hold(guard_);
  model_set::dated_link& l = models().links[{from, to}];
  if (both_ways)
    l.link.add_both_ways(bytes, nanoseconds);
  else
    l.link.add(bytes, nanoseconds);
  l.last = date_();
}

std::optional<double> performance_models::predict_copy(const std::string& from, const std::string& to,
                                                       std::uint64_t bytes, bool both_ways) {
  const std::lock_guard hold(guard_);
  const auto& links = models().links;
  const auto found = links.find({from, to});
  if (found == links.end()) return std::nullopt;
  const link_model& l = found->second.link;
  const std::optional<double> alone = l.at(bytes);
  return alone && both_ways ? *alone * l.both_ways_factor() : alone;
}

// Energy --------------------------------------------------------------------------------------------------------------

void performance_models::set_power(const std::string& device, double busy, double idle) {
  if (!on_ || !(busy >= 0) || !(idle >= 0)) return;
  const std::lock_guard hold(guard_);
  models().power[device] = {busy, idle, true, date_()};
}

std::optional<double> performance_models::idle_watts(const std::string& device) noexcept {
  const std::lock_guard hold(guard_);
  const auto& power = models().power;
  const auto found = power.find(device);
  return found == power.end() ? std::nullopt : std::optional(found->second.idle);
}

std::optional<double> performance_models::joules(const std::string& device, double nanoseconds) noexcept {
  const std::lock_guard hold(guard_);
  const auto& power = models().power;
  const auto found = power.find(device);
  if (found == power.end()) return std::nullopt;
  return std::max(0.0, found->second.busy - found->second.idle) * nanoseconds * 1e-9;
}

// Storing -------------------------------------------------------------------------------------------------------------

void performance_models::store() noexcept { store(true); }

// Relaxed: it decides only when the file is written.
void performance_models::store_if_due() noexcept {
  if (!on_) return;
  const std::int64_t now = date_();
  std::int64_t before = stored_at_.load(std::memory_order_relaxed);
  if (now - before < store_every || !stored_at_.compare_exchange_strong(before, now, std::memory_order_relaxed)) return;
  store(false);
}

void performance_models::store(bool wait) noexcept {
  {
    const std::lock_guard hold(guard_);
    if (!models_.has_fresh()) return;
  }
  const std::lock_guard hold(storing_);
  file_.store(
      [this] {
        const std::lock_guard inner(guard_);
        return models_.take_fresh();
      },
      date_(), wait);
}

model_set performance_models::all() {
  const std::lock_guard hold(guard_);
  return models();
}

} // namespace tern::hetero::detail
