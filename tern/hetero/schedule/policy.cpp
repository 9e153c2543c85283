// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/policy.hpp>

#include <bit>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>
#include <tern/hetero/schedule/placement.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero {

namespace detail {
#define TERN_POLICY(ident) extern const policy_entry ident##_policy;
#include "policies.inc" // of the list in CMakeLists.txt
#undef TERN_POLICY
} // namespace detail

namespace {

struct maker {
  policy_maker plain;
  policy_maker_with_parameters with; ///< null: it has none
};

std::map<std::string, maker, std::less<>>& makers() {
  static std::map<std::string, maker, std::less<>> all{
#define TERN_POLICY(ident)                                                                                             \
  {detail::ident##_policy.name, {detail::ident##_policy.make, detail::ident##_policy.make_with}},
#include "policies.inc"
#undef TERN_POLICY
  };
  return all;
}

/// \throws error(invalid_option).
const maker& find_maker(std::string_view name) {
  const auto at = makers().find(name);
  if (at != makers().end()) return at->second;
  std::vector<std::string> known;
  for (const auto& [other, make] : makers()) known.push_back(other);
  throw error(errc::invalid_option, "there is no policy '" + std::string(name) + "'",
              tern::detail::nearest_of(name, known, "there are"));
}

/// Of a policy without parameters nothing is made.
void check_policy(std::string_view text) {
  const auto [name, rest] = split_policy(text);
  if (find_maker(name).with)
    static_cast<void>(make_policy(text));
  else
    policy_parameters(name, rest).finish();
}

void add_maker(std::string_view name, const maker& how) {
  if (!makers().emplace(name, how).second)
    throw error(errc::already_exists, "two policies are called '" + std::string(name) + "'",
                "give one of them another name");
}

} // namespace

const option<std::string> hetero_policy{
    "hetero-policy",
    "auto",
    "where tasks run that could run on several devices: auto (locality, and dmda once most of the time is in kernels "
    "whose times are known), locality, dmda, steal, energy, eager, round-robin, random, or "
    "one of the program's; NAME:PARAMETER=VALUE,… sets parameters",
    {.verify = [](const std::string& text, const options&) { check_policy(text); }}};

const char* ready_task::name() const noexcept { return task_->text_name(); }
int ready_task::priority() const noexcept { return task_->priority; }
std::optional<std::uint64_t> ready_task::affinity() const noexcept {
  return task_->has_key() ? std::optional(task_->key) : std::nullopt;
}
bool ready_task::may_run_on(int device) const noexcept { return detail::placement_of(*task_).allowed(*task_, device); }
bool ready_task::is_planned() const noexcept { return (task_->flags & detail::task_record::planned) != 0; }
void ready_task::plan_for(int device) noexcept { task_->device_mask = std::int64_t{1} << device; }
std::int64_t ready_task::bytes_missing(int device) const {
  return detail::copies_of(*task_).bytes_missing(task_, static_cast<std::uint8_t>(device));
}
void ready_task::find_missing(int device, std::vector<missing_data>& into) const {
  into.clear();
  std::vector<read_data> all;
  find_data(all);
  for (const read_data& one : all)
    if (is_missing(one, device)) into.push_back(one.as_missing);
}
void ready_task::find_data(std::vector<read_data>& into) const {
  into.clear();
  detail::copies_of(*task_).each_piece(task_, [&](const detail::coherence::data_piece& p) {
    into.push_back({{p.number, p.bytes, p.from}, p.spaces});
  });
}
bool ready_task::is_missing(const read_data& piece, int device) const noexcept {
  return (piece.memories >> detail::copies_of(*task_).devices().space_of(static_cast<std::size_t>(device)) & 1) == 0;
}
void ready_task::expected_times(std::vector<double>& into) const {
  detail::sampler_of(*task_).expected_times(*task_, into);
}
std::optional<double> ready_task::expected_time(int device) const {
  return detail::sampler_of(*task_).expected_time(*task_, static_cast<std::size_t>(device));
}
std::optional<double> ready_task::expected_copy(int from, int to, std::int64_t bytes) const {
  return detail::sampler_of(*task_).expected_copy(static_cast<std::size_t>(from), static_cast<std::size_t>(to),
                                                  static_cast<std::uint64_t>(bytes));
}
std::optional<double> ready_task::expected_joules(int device, double seconds) const {
  return detail::sampler_of(*task_).expected_joules(static_cast<std::size_t>(device), seconds);
}
std::optional<double> ready_task::idle_watts(int device) const {
  return detail::sampler_of(*task_).idle_watts(static_cast<std::size_t>(device));
}
std::uint64_t ready_task::size_class(int device) const {
  return detail::sampler_of(*task_).size_class_of(*task_, static_cast<std::size_t>(device));
}
double ready_task::now() const { return static_cast<double>(tern::detail::clock_now()) * 1e-9; }
float ready_task::note() const noexcept { return task_->note; }
void ready_task::set_note(float n) noexcept { task_->note = n; }

bool policy::follow(ready_task t, int device, std::span<const device_load> devices) {
  constexpr int enough = 8; // tasks at a device, while another one has none
  bool elsewhere = false, waits = false;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    if (static_cast<int>(d) == device || devices[d].lost || !t.may_run_on(static_cast<int>(d))) continue;
    elsewhere = true;
    waits = waits || devices[d].tasks == 0;
  }
  if (!elsewhere) return true;
  if (waits && devices[static_cast<std::size_t>(device)].tasks >= enough) return false;
  return t.bytes_missing(device) == 0;
}

void ready_queue::push(ready_task t) {
  detail::task_record* const x = t.inside();
  const auto [at, fresh] = lines_.try_emplace(x->priority);
  line& l = at->second;
  if (!fresh && !l.first) --empty_lines_;
  x->next = nullptr;
  (l.first ? l.last->next : l.first) = x;
  l.last = x;
  ++count_;
  for (std::uint64_t rest = none_for_; rest != 0; rest &= rest - 1)
    if (t.may_run_on(std::countr_zero(rest))) none_for_ &= ~(rest & -rest);
}
detail::task_record* ready_queue::after(detail::task_record* t) noexcept { return t->next; }
ready_task ready_queue::unlink(line& of, detail::task_record* before, detail::task_record* t) noexcept {
  (before ? before->next : of.first) = t->next;
  if (of.last == t) of.last = before;
  t->next = nullptr;
  --count_;
  constexpr std::size_t kept = 16; // lines without tasks: priorities come again
  if (!of.first && ++empty_lines_ > kept) {
    std::erase_if(lines_, [](const auto& one) { return !one.second.first; });
    empty_lines_ = 0;
  }
  return ready_task(t);
}

policy_registration::policy_registration(std::string_view name, policy_maker make) { add_maker(name, {make, nullptr}); }
policy_registration::policy_registration(std::string_view name, policy_maker_with_parameters make) {
  add_maker(name, {nullptr, make});
}

std::unique_ptr<policy> make_policy(std::string_view text, std::uint64_t seed) {
  const auto [name, rest] = split_policy(text);
  const maker& how = find_maker(name);
  policy_parameters given(name, rest);
  std::unique_ptr<policy> made = how.with ? how.with(seed, given) : nullptr;
  given.finish();
  return how.with ? std::move(made) : how.plain(seed);
}

} // namespace tern::hetero
