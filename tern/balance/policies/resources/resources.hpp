// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Workers and devices of a rank: which of them a policy evens out. Internal.
///
/// The load of a rank is the greater of its workers' seconds / workers and of its devices' load *
/// pace / devices. An object counts in both.

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include <tern/balance/policy.hpp>

namespace tern::balance::detail {

enum class resource : std::uint8_t { worker, device };
constexpr resource other(resource r) noexcept { return r == resource::worker ? resource::device : resource::worker; }

/// What the parameter `by` says.
enum class counted : std::uint8_t { both, worker, device };
/// Reads it. \throws error(invalid_option) that lists what there is.
counted by_parameter(parameters& p);

/// A rank's devices, as if they were its workers: loads and pace are those for devices.
class device_view final : public policy_context {
public:
  explicit device_view(policy_context& h) noexcept : all_(h) {}
  int rank() const noexcept override { return all_.rank(); }
  int size() const noexcept override { return all_.size(); }
  int workers() const noexcept override { return all_.devices(); }
  double now() const noexcept override { return all_.now(); }
  double pace() const noexcept override { return all_.device_pace(); } ///< 0: not known
  double load() const noexcept override { return all_.device_load(); }
  double waiting() const noexcept override;
  std::size_t ready() const noexcept override { return all_.ready(); }
  std::vector<object_info> objects() const override;
  double cost(object_id o) const override { return all_.cost(o); }
  std::vector<contact> contacts(object_id o) const override { return all_.contacts(o); }
  void move(object_id o, int to, std::function<void(bool)> done) override { all_.move(o, to, std::move(done)); }
  void after(double seconds, std::function<void()> what) override { all_.after(seconds, std::move(what)); }
  void fiber(std::function<void()> what) override { all_.fiber(std::move(what)); }
  void enter(const std::function<void()>& what) override { all_.enter(what); }
  std::uint64_t random(std::uint64_t n) noexcept override { return all_.random(n); }
  void place(object_id o, int worker) override { all_.place(o, worker); }
  void note(std::string_view what, double value) override { all_.note(what, value); }
  void post(int to, byte_buffer message) override { all_.post(to, std::move(message)); }

private:
  policy_context& all_;
};

/// One thread at a time, as all of a policy.
class resources {
public:
  resources(policy_context& h, counted by) noexcept : workers_(h), devices_(h), by_(by) {}
  resources(const resources&) = delete;
  resources& operator=(const resources&) = delete;

  bool counts(resource r) const noexcept {
    return by_ == counted::both || (by_ == counted::device) == (r == resource::device);
  }
  /// The rank, seen by that.
  const policy_context& of(resource r) const noexcept {
    return r == resource::device ? static_cast<const policy_context&>(devices_) : workers_;
  }
  /// Seconds until all of the load is done there, if all share it.
  double ahead(resource r) const noexcept;
  /// Which of those that count ends later.
  resource critical() const noexcept;
  /// What load of one unit takes one of them there; 0: not known. Large where there are none.
  double pace(resource r) const noexcept;
  const policy_context& seen() const noexcept { return of(critical()); }

private:
  policy_context& workers_;
  const device_view devices_;
  const counted by_;
};

} // namespace tern::balance::detail
