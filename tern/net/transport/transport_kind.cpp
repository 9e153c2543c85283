// SPDX-License-Identifier: Apache-2.0
#include <tern/net/transport_kind.hpp>

#include <algorithm>
#include <mutex>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/transport/built_in.hpp>

namespace tern::net {

void transport::kill_for_test(int rank) {
  throw error(errc::unsupported,
              "rank " + std::to_string(rank) + " cannot be made to fail: " + describe() + " does not outlive a rank");
}
namespace {

// Function-local, because kinds in other files register themselves before this file's own statics
// exist.
struct kind_list {
  std::mutex lock;
  std::vector<const transport_kind*> all;
};
kind_list& the_kinds() {
  static auto* const one = new kind_list; // never destroyed: kinds leave it when the process ends
  return *one;
}

} // namespace

transport_kind::transport_kind(description d) : about_(std::move(d)) {
  kind_list& kinds = the_kinds();
  const std::lock_guard hold(kinds.lock);
  kinds.all.push_back(this);
}

transport_kind::~transport_kind() {
  kind_list& kinds = the_kinds();
  const std::lock_guard hold(kinds.lock);
  std::erase(kinds.all, this);
}

bool transport_kind::suits(const options&) const { return about_.preference > 0; }
bool transport_kind::refuse(int&, char**, const std::function<void()>&) const { return false; }

std::vector<const transport_kind*> transport_kinds() {
  detail::make_built_in_transports();
  kind_list& kinds = the_kinds();
  const std::lock_guard hold(kinds.lock);
  std::vector<const transport_kind*> all = kinds.all;
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->name() < b->name(); });
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i]->name() == all[i - 1]->name())
      throw error(errc::already_exists, "two transports have the name '" + all[i]->name() + "'",
                  "give the transport that the program adds another name");
  return all;
}

} // namespace tern::net
