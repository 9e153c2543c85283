// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Causal contexts: what the layers above count as caused by something, directly or
/// indirectly; and what they note of the running fiber. Internal to Tern's layers.

#include <atomic>
#include <cstdint>
#include <optional>

#include <tern/task/fiber/worker_head.hpp>

namespace tern::detail {

/// Counts what goes on because of something. A fiber inherits the causal context of the context
/// that starts it, and is counted from then until its end. So are continuations, coroutines that
/// wait, and task groups with all of their tasklets. Only what is counted may count more, so a
/// count of zero means that nothing is left that could.
class causal_context {
public:
  /// One more.
  /// \pre the caller is counted.
  virtual void retain() noexcept = 0;
  /// One less. The object may be gone afterwards. Any thread; may be called where fibers cannot
  /// wait.
  virtual void release() noexcept = 0;
  /// In which context that runs which is counted here; null: in none. Another one than this where
  /// this counts but that, and not what it goes on to start (frame_kind::account_of).
  virtual causal_context* runs_in() noexcept { return this; }

protected:
  ~causal_context() = default;
};

/// Of the calling fiber, or of the context where messages arrive; null: none. Always null on a
/// thread that is no worker.
causal_context* this_causal_context() noexcept;
/// \return the one before. No effect on a thread that is no worker.
causal_context* set_causal_context(causal_context* c) noexcept;

/// The calling context runs in another causal context, which counts it elsewhere meanwhile. May
/// move between threads, as a fiber does.
class causal_scope {
public:
  explicit causal_scope(causal_context* c) noexcept : before_(set_causal_context(c)) {}
  ~causal_scope() { set_causal_context(before_); }
  causal_scope(const causal_scope&) = delete;
  causal_scope& operator=(const causal_scope&) = delete;

private:
  causal_context* const before_;
};

class work_frame;

/// What the frames of one kind have in common: an object for each kind, which lives as long as the
/// program.
struct frame_kind {
  using key_of = std::uint64_t (*)(const work_frame&) noexcept;
  using origin_of = int (*)(const work_frame&) noexcept;
  using account_of = causal_context* (*)(work_frame&, causal_context* outer);
  /// Under which key what is submitted in such a frame belongs together (work_frame::key_here);
  /// null: these frames have none. Set by the layer that owns the kind, or by one above it.
  /// relaxed: what it calls is there for as long as the program.
  std::atomic<key_of> key{nullptr};
  /// Where that came from which such a frame runs (work_frame::origin_here); null: these frames do
  /// not know.
  const origin_of origin = nullptr;
  /// What counts work that is submitted in such a frame until it has ended, in place of its causal
  /// context `outer`, in which it runs: that is counted as long as it counts something. Has counted
  /// one more when it returns. null: these frames have none.
  const account_of account = nullptr;
};

/// What a layer above does in the calling fiber, and can find again from there: it lives on the
/// fiber's stack, between its constructor and destructor. Nested ones hide those of their kind
/// outside.
class work_frame {
public:
  explicit work_frame(const frame_kind& kind) noexcept;
  work_frame(const work_frame&) = delete;
  work_frame& operator=(const work_frame&) = delete;
  /// The calling fiber's innermost of the kind; null if there is none, and outside fibers. Looks at
  /// those within it.
  static work_frame* here(const frame_kind& kind) noexcept;
  /// The key of the calling fiber's innermost frame that has one. Nothing in the function of a task
  /// that runs on the stack of a fiber which waits in such a frame: it has nothing to do with that.
  static std::optional<std::uint64_t> key_here() noexcept;
  /// Counts one in the account of the calling fiber's innermost frame that has one, whose causal
  /// context is `outer`. \return that; null: there is none, nor in such a task's function.
  static causal_context* count_here(causal_context* outer);
  /// The origin of the calling fiber's innermost frame that has one. Nothing in such a task's
  /// function.
  static std::optional<int> origin_here() noexcept;

protected:
  ~work_frame();

private:
  fiber* const of_;
  work_frame* const outer_;
  const frame_kind& kind_;
  const void* const task_; // of_->task: whose function it is in
};

/// How long the calling fiber runs: without the time that it waits, or that it is ready and others
/// run. In a simulation what it charges. On the fiber's stack; within each other at will.
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

/// A counted reference: is counted in its causal context, if it has one, while it lives.
class held_context {
public:
  held_context() noexcept = default;
  explicit held_context(causal_context* c) noexcept : context_(c) {
    if (context_) context_->retain();
  }
  /// Of one that is counted already.
  static held_context adopt(causal_context* c) noexcept {
    held_context h;
    h.context_ = c;
    return h;
  }
  held_context(held_context&& other) noexcept : context_(other.detach()) {}
  held_context& operator=(held_context&& other) noexcept {
    if (this != &other) {
      reset();
      context_ = other.detach();
    }
    return *this;
  }
  ~held_context() { reset(); }
  void reset() noexcept {
    if (causal_context* const c = detach()) c->release();
  }
  causal_context* get() const noexcept { return context_; }
  /// The caller must release it.
  causal_context* detach() noexcept {
    causal_context* const c = context_;
    context_ = nullptr;
    return c;
  }

private:
  causal_context* context_ = nullptr;
};

} // namespace tern::detail
