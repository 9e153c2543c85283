// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Data on their way into a new object. Internal; for layers above.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>

#include <tern/base/bytes.hpp>
#include <tern/hetero/access.hpp>
#include <tern/hetero/passage/landing_place.hpp>
#include <tern/hetero/passage/pieces.hpp>

namespace tern::hetero::detail {

/// Writes all of a new object from outside of tasks: the object is *arriving*.
///
/// It is a hidden task that has no body. Tasks and accesses that come later wait for it, and so
/// does `wait_all`. The data come at once, into the host's memory (`land`), or by pieces, which may
/// go straight into a device's (`put`, then `landed`). It ends by `land`, `landed` or `fail`; the
/// destructor fails it if none came. The object may lose all its handles before: then what lands
/// goes with it.
///
/// Threads: made in a fiber of the object's scheduler, the rest in any context; one call at a time,
/// but several of `put`, each with a part of its own.
class incoming {
public:
  /// \pre `fresh` has never been used.
  explicit incoming(object_state& fresh);
  ~incoming();
  incoming(const incoming&) = delete;
  incoming& operator=(const incoming&) = delete;

  /// The object's memory on the host from now on, with all of its elements, packed. They are valid,
  /// and what waits goes on. The object owns the buffer. \pre as many bytes as the object, in
  /// memory that may be written to.
  void land(byte_buffer memory) noexcept;
  /// By pieces into the memory of device `number`, if there is room; 0, or no room: of the host's.
  /// Before the first piece. In a fiber. \throws what submitting a task throws.
  void lands_on(std::uint8_t number);
  /// As landing_place::put; may come before the others have been copied.
  void put(const box& part, const std::byte* from, piece_request& tells) noexcept;
  slices cut(std::size_t bytes) const noexcept;
  /// All pieces have been copied. \return whether that was to a device.
  bool landed() noexcept;
  /// They will not come. \pre no piece is under way. Tasks that need them fail with `why`.
  void fail(std::exception_ptr why) noexcept;

private:
  task_record* held_;
  std::shared_ptr<landing_place> place_; ///< of pieces
};

/// Gives a new object its elements at once. \pre as `incoming::land`, and `fresh` was never used.
void land_at_once(object_state& fresh, byte_buffer memory) noexcept;

} // namespace tern::hetero::detail
