// SPDX-License-Identifier: Apache-2.0
#include <tern/net/packing/packing.hpp>

#include <string>
#include <utility>

#include <tern/base/error.hpp>
#include <tern/net/handler.hpp>
#include <tern/net/transport/thread_id.hpp>

namespace tern::net::detail {

// Of shares that others' memory is kept by --------------------------------------------------------------------------

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
      rank_base::current()->fatal(
          "what frees memory that was lent to a message has waited: it must not, as it runs where messages "
          "arrive; start a fiber for what may wait");
    --letting;
  } else {
    next_ = std::exchange(later->first_, this);
  }
}

// Errors --------------------------------------------------------------------------------------------------------------

void bad_body(std::size_t wanted, std::size_t there) {
  throw error(errc::invalid_data, "a message says that its body has " + std::to_string(wanted) +
                                      " elements, but it has " + std::to_string(there) + " bytes");
}

std::string argument_name::operator()() const {
  return "argument " + std::to_string(number) + " of '" + handler_table::at(handler).name() + "'";
}

void changed_while_packed() {
  throw error(errc::invalid_data,
              "an argument took another number of bytes when it was packed than when it was counted",
              "do not change arguments while send or call packs them");
}

void bad_body_use(bool twice) {
  throw error(errc::invalid_data, twice ? "a message says that two of its ranges are its body"
                                        : "a message has a body, but says that none of its ranges is that");
}

} // namespace tern::net::detail
