// SPDX-License-Identifier: Apache-2.0
#include <tern/task/fiber/fiber_trace.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include <tern/task/fiber/fiber_state.hpp>
#include <tern/trace/record/events.hpp>

namespace tern::detail {
namespace {

std::uint64_t number(const fiber& f) noexcept { return f.id.load(std::memory_order_relaxed); }

// Its name, or where it was made.
std::uint32_t name_number(const fiber& f) noexcept {
  if (f.name[0]) return trace::detail::name_number(f.name);
  std::string_view file = f.made.file_name();
  file.remove_prefix(std::min(file.size(), file.rfind('/') + 1)); // npos + 1 is 0
  char text[96];
  const std::size_t n = std::min(file.size(), sizeof text - 16);
  std::memcpy(text, file.data(), n);
  text[n] = ':';
  const char* const end = std::to_chars(text + n + 1, text + sizeof text, f.made.line()).ptr;
  return trace::detail::name_number({text, static_cast<std::size_t>(end - text)});
}

} // namespace

void trace_enters(fiber& f) noexcept {
  if (!trace::on()) return;
  const bool first = (f.leave_flags & leave_flags::begun) == 0;
  if (first || f.trace_name == 0) f.trace_name = name_number(f);
  f.leave_flags |= leave_flags::begun | leave_flags::inside;
  trace::detail::fiber_enters(number(f), f.trace_name, first);
}

void trace_leaves(fiber& f, bool for_ever) noexcept {
  if (trace::on() && (f.leave_flags & leave_flags::inside) != 0) {
    const wait_kind kind = f.waits.load(std::memory_order_relaxed);
    if (for_ever)
      trace::detail::fiber_ends(number(f));
    else if (kind != wait_kind::none)
      trace::detail::fiber_waits(number(f), trace::detail::name_number(name_of(kind)),
                                 f.waits_for.load(std::memory_order_relaxed));
    else
      trace::detail::fiber_yields(number(f));
  }
  f.leave_flags &= static_cast<std::uint8_t>(~leave_flags::inside);
  if (for_ever) trace_forgets(f);
}

void trace_forgets(fiber& f) noexcept {
  f.leave_flags &= leave_flags::canary | leave_flags::traced;
  f.trace_name = 0;
}

} // namespace tern::detail
