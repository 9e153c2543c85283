// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/policy.hpp>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/options/option_table.hpp>
#include <tern/hetero/schedule/placement.hpp>
#include <tern/hetero/schedule/policy_entry.hpp>

namespace tern::hetero {

namespace detail {
#define TERN_POLICY(ident) extern const policy_entry ident##_policy;
#include "policies.inc" // of the list in CMakeLists.txt
#undef TERN_POLICY
} // namespace detail

namespace {

std::map<std::string, policy_maker, std::less<>>& makers() {
  static std::map<std::string, policy_maker, std::less<>> all{
#define TERN_POLICY(ident) {detail::ident##_policy.name, detail::ident##_policy.make},
#include "policies.inc"
#undef TERN_POLICY
  };
  return all;
}

/// \throws error(invalid_option).
policy_maker find_maker(std::string_view name) {
  const auto at = makers().find(name);
  if (at != makers().end()) return at->second;
  std::vector<std::string> known;
  for (const auto& [other, make] : makers()) known.push_back(other);
  throw error(errc::invalid_option, "there is no policy '" + std::string(name) + "'",
              tern::detail::nearest_of(name, known, "there are"));
}

} // namespace

const option<std::string> hetero_policy{
    "hetero-policy",
    "locality",
    "where tasks run that could run on several devices: locality, eager, round-robin, random, or one of the program's",
    {.verify = [](const std::string& name, const options&) { static_cast<void>(find_maker(name)); }}};

const char* ready_task::name() const noexcept { return task_->text_name(); }
int ready_task::priority() const noexcept { return task_->priority; }
bool ready_task::may_run_on(int device) const noexcept { return detail::placement_of(*task_).allowed(*task_, device); }
std::int64_t ready_task::bytes_missing(int device) const {
  return detail::bytes_missing_of(*task_, static_cast<std::uint8_t>(device));
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

policy_registration::policy_registration(std::string_view name, policy_maker make) {
  if (!makers().emplace(name, make).second)
    throw error(errc::already_exists, "two policies are called '" + std::string(name) + "'",
                "give one of them another name");
}

std::unique_ptr<policy> make_policy(std::string_view name, std::uint64_t seed) { return find_maker(name)(seed); }

} // namespace tern::hetero
