// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// On whose account a fiber runs: what the layers above count as caused by something, directly or indirectly. Internal.

#include <cstdint>

namespace tern::detail {

struct fiber;

/// Counts what goes on because of something. A fiber inherits the cause of the context that starts it, and is counted
/// from then until its end; so are continuations, coroutines that wait, and task groups with all of their tasklets.
/// Whoever is counted may count more, so that the count is zero only when nothing is left that could.
class cause {
public:
  /// One more. \pre the caller is counted.
  virtual void hold() noexcept = 0;
  /// One less. It may be gone afterwards. Any thread; may be called where fibers cannot wait.
  virtual void let_go() noexcept = 0;

protected:
  ~cause() = default;
};

/// Of the calling fiber, or of the context where messages arrive; null: nobody counts. On a thread that is no worker
/// always null.
cause* this_cause() noexcept;
/// \return the one before. Nothing on a thread that is no worker.
cause* set_this_cause(cause* c) noexcept;

/// The calling context works on somebody else's account, who is counted elsewhere meanwhile. It may move between
/// threads, as a fiber does.
class cause_scope {
public:
  explicit cause_scope(cause* c) noexcept : before_(set_this_cause(c)) {}
  ~cause_scope() { set_this_cause(before_); }
  cause_scope(const cause_scope&) = delete;
  cause_scope& operator=(const cause_scope&) = delete;

private:
  cause* const before_;
};

/// What a layer above does in the calling fiber, and can find again from there: it lives on the fiber's stack, between
/// its constructor and destructor. Nested ones hide those outside.
class work_frame {
public:
  work_frame() noexcept;
  work_frame(const work_frame&) = delete;
  work_frame& operator=(const work_frame&) = delete;
  /// The calling fiber's; null if there is none, and outside fibers.
  static work_frame* here() noexcept;

protected:
  ~work_frame();

private:
  fiber* const of_;
  work_frame* const outer_;
};

/// How long the calling fiber runs: without the time that it waits, or that it is ready and others run. In a simulation
/// what it charges. On the fiber's stack; within each other at will.
class run_timer {
public:
  run_timer() noexcept;
  ~run_timer();
  run_timer(const run_timer&) = delete;
  run_timer& operator=(const run_timer&) = delete;
  /// Since this was made.
  double seconds() const noexcept;

private:
  fiber* const of_;
  const std::int64_t began_;
  std::int64_t before_ = 0;
  bool outer_ = false;
};

/// Is counted while it lives, if there is a cause.
class held_cause {
public:
  held_cause() noexcept = default;
  explicit held_cause(cause* c) noexcept : cause_(c) {
    if (cause_) cause_->hold();
  }
  /// Of one who is held already.
  static held_cause adopt(cause* c) noexcept {
    held_cause h;
    h.cause_ = c;
    return h;
  }
  held_cause(held_cause&& other) noexcept : cause_(other.cause_) { other.cause_ = nullptr; }
  held_cause& operator=(held_cause&& other) noexcept {
    if (this != &other) {
      let_go();
      cause_ = other.cause_;
      other.cause_ = nullptr;
    }
    return *this;
  }
  ~held_cause() { let_go(); }
  void let_go() noexcept {
    if (cause* const c = cause_) {
      cause_ = nullptr;
      c->let_go();
    }
  }
  cause* get() const noexcept { return cause_; }
  /// Whoever takes it lets go.
  cause* release() noexcept {
    cause* const c = cause_;
    cause_ = nullptr;
    return c;
  }

private:
  cause* cause_ = nullptr;
};

} // namespace tern::detail
