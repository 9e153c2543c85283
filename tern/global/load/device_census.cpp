// SPDX-License-Identifier: Apache-2.0
#include <tern/global/load/device_census.hpp>

#include <utility>

#include <tern/balance/device_counter.hpp>
#include <tern/hetero/passage/landing_place.hpp>
#include <tern/net/node.hpp>

namespace tern::global::detail {
namespace {

// Of the calling thread, while it counts, which does not wait; null: it does not.
constinit thread_local double* counted = nullptr;

class device_census final : public balance::detail::device_counter {
public:
  int devices(net::node& of) const noexcept override { return hetero::detail::devices_found(of.fibers().inside()); }
  double resident(const std::function<void()>& counts) const override {
    double bytes = 0;
    double* const outer = std::exchange(counted, &bytes);
    try {
      counts();
    } catch (...) {
      counted = outer;
      throw;
    }
    counted = outer;
    return bytes;
  }
};
constexpr device_census the_census;

} // namespace

void count_devices() { balance::detail::count_devices_by(the_census); }

void count_resident(hetero::detail::object_state& o, const hetero::detail::box& part, std::size_t bytes) noexcept {
  if (!counted || hetero::detail::kind_that_has(o, part) == hetero::device_kind::host) return;
  *counted += static_cast<double>(bytes);
}

} // namespace tern::global::detail
