// SPDX-License-Identifier: Apache-2.0
/// \file
/// Policies by name, and the messages between their objects.
#include <tern/balance/policy.hpp>

#include <algorithm>

#include <tern/balance/policy/builtin.hpp>
#include <tern/base/error.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/base/options/option_table.hpp>

namespace tern::balance {
namespace {

// What static objects of programs and of plug-ins have entered. A function's static, because those
// objects are made in any order.
std::vector<policy_kind>& entered() {
  static std::vector<policy_kind> kinds;
  return kinds;
}

// For a policy that is made only to see whether its parameters are right.
class no_context final : public policy_context {
public:
  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return 1; }
  int workers() const noexcept override { return 1; }
  double now() const noexcept override { return 0; }
  double pace() const noexcept override { return 1; }
  double load() const noexcept override { return 0; }
  double waiting() const noexcept override { return 0; }
  std::size_t ready() const noexcept override { return 0; }
  std::vector<object_info> objects() const override { return {}; }
  double cost(object_id) const override { return 0; }
  std::vector<contact> contacts(object_id) const override { return {}; }
  void move(object_id, int, std::function<void(bool)>) override {}
  void after(double, std::function<void()>) override {}
  void fiber(std::function<void()>) override {}
  void enter(const std::function<void()>&) override {}
  std::uint64_t random(std::uint64_t) noexcept override { return 0; }
  void place(object_id, int) override {}
  void note(std::string_view, double) override {}
  void post(int, byte_buffer) override {}
};

} // namespace

void detail::enter(policy_kind kind) { entered().push_back(std::move(kind)); }

std::vector<policy_kind> policies() {
  std::vector<policy_kind> all = entered();
  for (policy_kind& kind : detail::builtin_policies()) all.push_back(std::move(kind));
  std::sort(all.begin(), all.end(), [](const policy_kind& a, const policy_kind& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(all.begin(), all.end(),
                                        [](const policy_kind& a, const policy_kind& b) { return a.name == b.name; });
  if (twice != all.end())
    throw error(errc::already_exists, "two policies are called " + twice->name, "give one of them another name");
  return all;
}

std::unique_ptr<policy> make_policy(std::string_view text, policy_context& h) {
  const policy_text parts = split_policy(text);
  const std::vector<policy_kind> all = policies();
  const auto kind = std::find_if(all.begin(), all.end(), [&](const policy_kind& k) { return k.name == parts.name; });
  if (kind == all.end()) {
    std::vector<std::string> names;
    for (const policy_kind& k : all) names.push_back(k.name);
    throw error(errc::invalid_option, "there is no policy \"" + parts.name + "\"",
                tern::detail::nearest_of(parts.name, names, "there are"));
  }
  parameters given(parts.name, parts.rest);
  std::unique_ptr<policy> made = kind->make(h, given);
  given.finish();
  return made;
}

void check_policy(std::string_view text) {
  no_context nowhere;
  make_policy(text, nowhere);
}

std::vector<double> policy_context::running() const {
  const auto n = static_cast<std::size_t>(std::max(workers(), 1));
  return std::vector<double>(n, std::max(0.0, load() - waiting()) / static_cast<double>(n));
}

void policy::receive(int from, std::span<const std::byte> message) {
  const std::size_t number = message.empty() ? handlers_.size() : std::to_integer<std::size_t>(message[0]);
  if (number >= handlers_.size())
    throw error(errc::invalid_data, "rank " + std::to_string(from) + " has sent a policy what is no message of its own",
                "let all ranks run the same program, with the same option balance");
  handlers_[number].take(from, message.subspan(1));
}

std::uint8_t policy::number_of(const std::type_info& type) const {
  const auto found =
      std::find_if(handlers_.begin(), handlers_.end(), [&](const handler& h) { return *h.type == type; });
  if (found == handlers_.end())
    throw error(errc::invalid_state,
                "a policy sends a message of type " + tern::detail::type_name(type) +
                    ", for which it has named no function",
                "call on(&policy::function) in its constructor");
  return static_cast<std::uint8_t>(found - handlers_.begin());
}

} // namespace tern::balance
