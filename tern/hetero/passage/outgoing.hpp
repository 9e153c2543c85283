// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data on their way out of an object. Internal; for layers above.

#include <atomic>
#include <cstddef>
#include <exception>
#include <string>

#include <tern/base/bytes.hpp>
#include <tern/hetero/access.hpp>
#include <tern/hetero/data/object_state.hpp>
#include <tern/hetero/passage/pieces.hpp>
#include <tern/hetero/record/box.hpp>

namespace tern::hetero::detail {

/// Reads a part of an object from outside of tasks, from a moment in the order of its tasks on.
///
/// It is a hidden task: it follows the writers before `begin`, and writers after `begin` wait until
/// it has ended. Data that are on a device stay there, and are taken by pieces (`in_pieces`),
/// unless they lie otherwise there, or the host's memory is limited: then they are brought to it
/// first. It ends by `release`, or when what `take` made is gone, or with a failure. The destructor
/// ends it too, if it has the data; \pre it has been answered, or was never begun.
///
/// An object that is given away (`gives`), all of it, by its last handle, is left to this: nothing
/// will use it any more, and `give` hands its memory over.
///
/// Threads: `begin` in a fiber of the object's scheduler; the rest in any context, one at a time.
class outgoing final : access_request {
public:
  /// Told once, on a worker, if `begin` returned false. Must not wait.
  struct listener {
    /// The data are there to be taken, or `failure` says why they never will be.
    virtual void answered(outgoing& of) noexcept = 0;

  protected:
    ~listener() = default;
  };

  /// \param handle is taken over: the object lives until this ends.
  /// \param gives no other handle will use it any more.
  /// \param to_host data on a device are brought to the host, and never taken by pieces.
  outgoing(object_state* handle, const box& part, bool gives, bool to_host = false) noexcept;
  ~outgoing();
  outgoing(const outgoing&) = delete;
  outgoing& operator=(const outgoing&) = delete;

  /// Takes its place in the order. \return whether it has been answered already; else `tells` will
  /// be, perhaps before this returns. \throws error(invalid_state) inside a `recorded`; what
  /// submitting a task throws.
  bool begin(listener& tells);
  /// The same in any context, where nothing may wait.
  bool begin_anywhere(listener& tells);
  /// Null: the data are here. \pre answered.
  const std::exception_ptr& failure() const noexcept { return failure_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::string text() const { return text_of(*object_, part_); } ///< "[0, 10) of hetero_object<double> of 100"

  // With the data -----------------------------------------------------------------------------------------------------
  /// A device has them, or some: they are taken by pieces, and none of the rest is allowed but
  /// `release`.
  bool in_pieces() const noexcept { return in_pieces_; }
  slices cut(std::size_t bytes) const noexcept { return {part_, object_->element, bytes}; }
  void copy_piece(const box& piece, std::byte* to, piece_request& tells) const noexcept {
    copy_piece_out(*object_, piece, to, tells);
  }

  /// If not: copies a piece, packed. Until `release` any thread, on several at once.
  void copy_piece_to(const box& piece, std::byte* to) const noexcept;
  /// Copies them, packed.
  void copy_to(std::byte* to) const noexcept;
  /// The bytes, packed, in a buffer: the object's own memory if it was given away; lent from there
  /// if they lie in one piece, and then this ends when they come back; else a copy.
  /// \throws error(out_of_memory), and then nothing has changed.
  byte_buffer take();
  /// Is the memory the object's own, which was given away? Else it is lent, or copied.
  bool gives() const noexcept { return gives_; }
  /// The object, with one handle more, for its own rank. Its tasks wait until this ends.
  object_state* keep() const noexcept {
    add_handle(*object_);
    return object_;
  }
  /// Writers may go on.
  void release() noexcept;

private:
  void granted(task_record* t, const host_place& where) noexcept override;
  void refused(std::exception_ptr why) noexcept override;
  void answer() noexcept;
  bool is_answered() noexcept;
  void hold(bool anywhere);
  void look() noexcept;
  bool in_one_piece() const noexcept;
  byte_buffer give();

  enum : int { beginning, telling, answered };
  object_state* object_;
  const box part_;
  const std::size_t bytes_;
  const bool gives_, stays_;
  bool in_pieces_ = false;
  std::atomic<int> state_{beginning};
  listener* listener_ = nullptr;
  std::exception_ptr failure_;
  task_record* held_ = nullptr; ///< until it ends
  host_place where_{};
};

} // namespace tern::hetero::detail
