// SPDX-License-Identifier: Apache-2.0
// Small equal kernels as one launch: each plane of its grid is one kernel, and has parameters of
// its own (fused_text.hpp).
#include <algorithm>
#include <utility>
#include <vector>

#include <tern/base/log.hpp>
#include <tern/hetero/device/opencl/fused_text.hpp>
#include <tern/hetero/device/opencl/opencl_device.hpp>
#include <tern/hetero/kernel/prelude.hpp>
#include <tern/hetero/kernel/signal_guard.hpp>
#include <tern/trace/trace.hpp>

namespace tern::hetero::detail {
namespace {

constexpr std::size_t most_together = 32; // the more, the longer is the kernel's text, and its compilation

// Of one kernel's arguments. Drivers may align each.
std::size_t bytes_of(const launch_request& what) noexcept {
  std::size_t all = 0;
  for (const argument& a : what.arguments) all += ((a.value ? a.bytes : sizeof(cl::memory)) + 7) / 8 * 8;
  return std::max<std::size_t>(all, 8);
}

} // namespace

opencl_fused_kernel& opencl_programs::add_fused(const kernel_code& code, std::size_t tasks) {
  opencl_fused_kernel& made = fused_[&code]; // is tried once
  made.tasks = tasks;
  const source_block& block = code.source();
  const std::string name = "'" + std::string(code.name) + "'";
  try {
    const auto text = fused_text(text_of(block), code.name, static_cast<int>(tasks));
    if (!text) {
      log_info("the tasks of the kernel " + name + " are launched one by one: its parameters are not plain in " +
               block.file);
      return made;
    }
    const signal_guard keep;
    const trace::region bar(trace::on() ? "compile " + std::string(block.name) + ", several at a time" : std::string());
    fused_programs_.reserve(fused_programs_.size() + 1);
    fused_programs_.push_back(build(text_of_source(block, std::string(prelude(language::opencl_fused)) + *text)));
    made.code = find(fused_programs_.back(), code, fused_name(code));
  } catch (const error& e) {
    if (e.code() == errc::device_lost) throw;
    log_info("the tasks of the kernel " + name + " are launched one by one: " + e.what());
  }
  return made;
}

std::size_t opencl_device::fuses(const launch_request& what) const noexcept {
  constexpr std::int64_t each = 4; // groups on each unit: with more, the device is busy with one
  if (what.code->form != code_form::dialect || what.shape.groups[2] != 1 || what.shape.count() == 0 ||
      what.shape.count() > each * target_->info.compute_units)
    return 0;
  constexpr std::size_t hidden = 16; // that of dynamic memory
  const std::size_t room = target_->parameter_bytes > hidden ? target_->parameter_bytes - hidden : 0;
  return std::min(most_together, room / bytes_of(what));
}

bool opencl_device::prepare_fused(const launch_request& what) {
  const opencl_kernel& together = programs_.fused(*what.code, fuses(what)).code;
  if (!together.handle) return false;
  // The shape that it would have alone, as well.
  const std::size_t most = std::min(together.max_items, programs_.get(*what.code).max_items);
  const grid fits = fitted(what.shape, static_cast<std::int64_t>(most), target_->info.max_group);
  return fits.items == what.shape.items && fits.groups == what.shape.groups;
}

ticket opencl_device::launch_fused(int stream, std::span<const launch_request> all) {
  const cl::queue q = queue(stream);
  const launch_request& first = all.front();
  const opencl_kernel& alone = programs_.get(*first.code);
  opencl_fused_kernel& k = programs_.fused(*first.code, fuses(first));
  for (const launch_request& one : all) check(alone, one);
  const release_parts release{target_->api, parts_};
  set_dynamic(k.code, first);
  const std::size_t had = std::exchange(k.set, k.tasks); // if this fails, all are set the next time
  const auto parameter = [&](std::size_t task) { return static_cast<cl::uint>(1 + task * first.arguments.size()); };
  for (std::size_t i = 0; i < all.size(); ++i) set_arguments(k.code, all[i], parameter(i));
  // The driver looks at all parameters, so none may name memory that may be gone.
  if (const std::size_t end = had == 0 ? k.tasks : had; end > all.size()) {
    std::vector<argument> none(first.arguments.begin(), first.arguments.end());
    for (argument& a : none)
      if (!a.value) a = {};
    launch_request unused = first;
    unused.arguments = none;
    for (std::size_t i = all.size(); i < end; ++i) set_arguments(k.code, unused, parameter(i));
  }
  k.set = all.size();
  launch_request planes = first;
  planes.shape.groups[2] = static_cast<int>(all.size());
  after_.clear();
  return enqueue(q, k.code, planes);
}

} // namespace tern::hetero::detail
