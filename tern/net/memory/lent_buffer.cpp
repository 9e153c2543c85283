// SPDX-License-Identifier: Apache-2.0
#include <tern/net/memory/lent_buffer.hpp>

#include <utility>

#include <tern/net/transport/thread_id.hpp>

namespace tern::net::detail {
namespace {
thread_local deferred_releases* later = nullptr; // the innermost
thread_local int letting = 0;
} // namespace

bool releasing() noexcept { return letting > 0; }

deferred_releases::deferred_releases() noexcept : outer_(std::exchange(later, this)) {}

deferred_releases::~deferred_releases() {
  later = outer_;
  while (share_lender* one = first_) {
    first_ = one->next_;
    one->take_back(nullptr); // or an outer one's affair
  }
}

void share_lender::take_back(std::byte*) noexcept {
  if (!later) {
    const void* const thread = this_thread_id();
    ++letting;
    delete this;
    if (this_thread_id() != thread)
      share_lender::tell_waited(
          "what frees memory that was lent to a message has waited: it must not, as it runs where "
          "messages arrive; start a fiber for what may wait");
    --letting;
  } else {
    next_ = std::exchange(later->first_, this);
  }
}

} // namespace tern::net::detail
