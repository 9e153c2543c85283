// SPDX-License-Identifier: Apache-2.0
// Small equal kernels as one launch: each plane of its grid is one kernel. The kernels' arguments
// lie in a table, which is the launch's own parameter. So nothing is copied to the device, and no
// memory is held for it.
#include <algorithm>
#include <array>
#include <cstring>

#include <tern/hetero/device/cuda/cuda_device.hpp>
#include <tern/hetero/kernel/prelude.hpp>
#include <tern/hetero/record/task_record.hpp>

namespace tern::hetero::detail {
namespace {

struct alignas(16) table {
  std::array<std::byte, fused_table_bytes> bytes;
};

std::size_t size_of(const argument& a) noexcept { return a.value ? a.bytes : sizeof(cu::pointer); }

// Where an argument of this size lies, behind what ends at `at`.
std::size_t place_of(std::size_t size, std::size_t at) noexcept {
  const std::size_t align = size % 16 == 0 ? 16 : 8;
  return (at + align - 1) / align * align;
}

// Of one kernel's arguments.
std::size_t bytes_of(const launch_request& what) noexcept {
  std::size_t end = 0;
  for (const argument& a : what.arguments) end = place_of(size_of(a), end) + size_of(a);
  return std::max<std::size_t>(16, (end + 15) / 16 * 16);
}

} // namespace

std::size_t cuda_device::fuses(const launch_request& what) const noexcept {
  constexpr std::int64_t each = 4; // groups on each multiprocessor: with more, the device is busy with one
  if (what.code->form != code_form::dialect || what.shape.groups[2] != 1 || what.shape.count() == 0 ||
      what.shape.count() > each * target_->info.compute_units)
    return 0;
  return fused_table_bytes / bytes_of(what);
}

bool cuda_device::prepare_fused(const launch_request& what) {
  target_->enter();
  cuda_kernel* const k = programs_->fused(*what.code);
  // The shape that it would have alone, as well.
  const int most = k ? std::min(k->max_items, programs_->get(*what.code).max_items) : 0;
  return std::int64_t{what.shape.items[0]} * what.shape.items[1] * what.shape.items[2] <= most;
}

ticket cuda_device::launch_fused(int stream, std::span<const launch_request> all) {
  target_->enter();
  queue& q = at(stream);
  const launch_request& first = all.front();
  const cuda_kernel& alone = programs_->get(*first.code);
  cuda_kernel& k = *programs_->fused(*first.code);
  allow_dynamic(k, first);
  table arguments; // not all of it is used, and what is not is not read
  std::memset(arguments.bytes.data(), 0, arguments.bytes.size());
  const std::size_t each = bytes_of(first);
  std::size_t place = 0;
  for (const launch_request& one : all) {
    check(alone, one);
    std::size_t end = place;
    for (const argument& a : one.arguments) {
      const std::uint64_t address = a.memory ? address_of(a.memory) + a.offset : 0;
      end = place_of(size_of(a), end);
      std::memcpy(&arguments.bytes[end], a.value ? a.value : &address, size_of(a));
      end += size_of(a);
    }
    place += each;
  }
  auto bytes = static_cast<unsigned>(each);
  std::array<void*, 2> values{&arguments, &bytes};
  cuda_launch l;
  l.what.code = k.handle;
  for (std::size_t d = 0; d < 3; ++d) {
    l.what.groups[d] = static_cast<unsigned>(d == 2 ? static_cast<int>(all.size()) : first.shape.groups[d]);
    l.what.items[d] = static_cast<unsigned>(first.shape.items[d]);
  }
  l.what.dynamic_bytes = static_cast<unsigned>(k.dynamic_for(first.dynamic_bytes));
  l.what.values = values.data();
  cuda_streams::slot& s =
      queues_.reserve("run the kernel", first.code->name, first.task ? first.task->text_name() : nullptr);
  put(q, l, first.code->name);
  return queues_.put(q, s, true);
}

} // namespace tern::hetero::detail
