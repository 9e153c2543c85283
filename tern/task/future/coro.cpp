// SPDX-License-Identifier: Apache-2.0
#include <tern/task/coro.hpp>

namespace tern::detail {

/// The body of a fiber that goes on with a coroutine. Destroyed without having been called, as by a
/// scheduler that ends, it ends the coroutine.
class coro_root::continued {
public:
  continued(coro_root& root, std::coroutine_handle<> h) noexcept
      : root_(&root), next_(h), on_(std::move(root.causal_)) {}
  continued(continued&& other) noexcept
      : root_(std::exchange(other.root_, nullptr)), next_(other.next_), on_(std::move(other.on_)) {}
  continued& operator=(continued&&) = delete;
  ~continued() {
    if (!root_) return;
    if (began_) // this fiber waits inside the coroutine's body, for ever: that cannot be destroyed
      root_->result_.abandon();
    else
      root_->conclude_(*root_, false);
  }
  void operator()() noexcept {
    began_ = true;
    const causal_scope in(on_.get()); // it may have been spawned from elsewhere
    root_->result_.produced_by(this_context());
    root_->drive(next_);
    root_ = nullptr;
  }

private:
  bool began_ = false;
  coro_root* root_;
  std::coroutine_handle<> next_;
  held_context on_;
};

// Out of line, or g++ 12 warns that a local variable's address is kept: until the coroutine goes on
// elsewhere, as it must.
[[gnu::noinline]] void coro_root::set_leg(leg& l) noexcept { leg_ = &l; }

void coro_root::drive(std::coroutine_handle<> h) noexcept {
  leg here{h};
  set_leg(here);
  // Once the coroutine waits, another context may go on with it, on a leg of its own; this one then
  // has no next.
  while (here.next) std::exchange(here.next, nullptr).resume();
  if (!here.ended) return;
  causal_.reset(); // it did not leave after all
  conclude_(*this, true);
}

void coro_root::resume_later(std::coroutine_handle<> h) noexcept {
  const causal_scope in(causal_.get()); // not that of the context that made ready what it waits for
  try {
    where_->spawn(continued(*this, h));
  } catch (...) { // what could not be spawned has been destroyed, and has told
  }
}

} // namespace tern::detail
