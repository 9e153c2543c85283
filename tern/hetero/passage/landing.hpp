// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data on their way into an object that exists. Internal; for layers above.

#include <exception>

#include <tern/base/bytes.hpp>
#include <tern/hetero/access.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::hetero::detail {

/// Writes a part of an object from outside of tasks.
///
/// It is a hidden task in the order of the object's others, that writes without looking at what was
/// there. The data may come before the part may be written: they are kept *aside*, and nothing that
/// brings them waits. It ends when both have come. Where the data do not come (`fail`), the object
/// is what it was, and tasks that need the data fail.
///
/// Guarantees: the listener is told once, after the object's later tasks may go on. Threads:
/// `begin` or `begin_anywhere` by one; then `land` or `fail` once, in any context, at any time.
class landing final : access_request {
public:
  struct listener {
    /// \param why null: the data are in the object. Must not wait. The landing may be destroyed.
    virtual void landed(std::exception_ptr why) noexcept = 0;

  protected:
    ~listener() = default;
  };
  struct outcome {
    bool aside = false;   ///< the data came before the object could be written
    bool adopted = false; ///< their memory has become the object's
  };

  /// \param handle is taken over: the object lives until this is destroyed.
  landing(object_state* handle, const box& part, listener& tells) noexcept;
  ~landing();
  landing(const landing&) = delete;
  landing& operator=(const landing&) = delete;

  /// Takes its place in the order; in a fiber of the object's scheduler. \throws
  /// error(invalid_state) inside a `recorded`; what submitting a task throws. Then nothing is told.
  void begin();
  /// The same in any context, where nothing may wait: no window holds it up.
  void begin_anywhere();

  /// The data, packed. Lent memory is copied before this returns. \pre as many bytes as the part.
  void land(byte_buffer memory) noexcept;
  /// They will not come.
  void fail(std::exception_ptr why) noexcept;
  /// \pre the listener is being told.
  const outcome& how() const noexcept { return outcome_; }

private:
  void granted(task_record* t, const host_place& where) noexcept override;
  void refused(std::exception_ptr why) noexcept override;
  void come(byte_buffer memory, std::exception_ptr why) noexcept;
  void finish(byte_buffer memory) noexcept;
  bool adopt(byte_buffer& memory) noexcept;
  void copy_from(const std::byte* from) const noexcept;

  object_state* const object_;
  const box part_;
  listener& tells_;
  tern::detail::spin_lock guard_;
  bool answered_ = false, come_ = false;
  task_record* held_ = nullptr; ///< null when answered: it was refused
  host_place where_{};
  byte_buffer aside_;
  std::exception_ptr failure_;
  outcome outcome_;
};

/// The same memory, or a copy that an object may keep and write to.
byte_buffer own_memory(byte_buffer memory);

} // namespace tern::hetero::detail
