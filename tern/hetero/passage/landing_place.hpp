// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Memory into which an arriving object's pieces go. Internal.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include <tern/hetero/device/device_kind.hpp>
#include <tern/hetero/passage/pieces.hpp>
#include <tern/hetero/record/task_record.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::detail {
struct scheduler_core;
}

namespace tern::hetero::detail {

/// An instance on a device, as soon as there is room for it, which stays until `settle` or
/// `give_up`; the host's memory, if there never is, or none was asked for. Pieces that come before
/// that is known wait for it.
///
/// \pre a hidden task that writes all of the object has its turn, and is held until after
/// `settle`; `give_up` ends it. Threads: made in a fiber of the object's scheduler, the rest in any
/// context of the rank, `settle` and `give_up` when no piece is under way.
class landing_place : completion_hook {
public:
  /// \param device 0: the host's memory.
  static std::shared_ptr<landing_place> make(object_state& o, std::uint8_t device);
  ~landing_place();
  landing_place(const landing_place&) = delete;
  landing_place& operator=(const landing_place&) = delete;

  /// \param part whole slices. \param from packed; stays until `tells` has been told, perhaps
  /// before this returns.
  void put(const box& part, const std::byte* from, piece_request& tells) noexcept;
  /// All pieces have been put: the object is valid there, and only there. \return whether that is a
  /// device.
  bool settle() noexcept;
  /// \param held the task, which fails with `why` and ends, now or as soon as the instance is
  /// known.
  void give_up(task_record* held, std::exception_ptr why) noexcept;

private:
  landing_place(object_state& o, bool on_host) noexcept;
  void reserve(std::uint8_t device);
  void reserved(task_record& of) noexcept;
  void leave(task_record* held, std::exception_ptr why) noexcept;
  void put_on_host(const box& part, const std::byte* from, piece_request& tells) noexcept;
  struct piece {
    box part;
    const std::byte* from;
    piece_request* tells;
  };
  object_state& object_;
  tern::detail::spin_lock guard_; // all below
  bool known_;
  task_record* given_up_ = nullptr; // the held task, if it waits
  std::exception_ptr why_;
  std::uint8_t instance_ = 0; // 0: the host's
  std::vector<piece> early_;
  std::shared_ptr<landing_place> self_; // until it is known
};

/// The device of that kind with the least in its memory; 0: there is none whose memory is its own.
/// Looks for devices. In a fiber. \throws as runtime::look_for_devices.
std::uint8_t device_to_land_on(const object_state& o, device_kind kind);
/// Where a part is, or is to be when the tasks that have been submitted are done, as far as can be
/// told: a kind whose devices have memory of their own, else the host.
device_kind kind_that_has(object_state& o, const box& part) noexcept;

/// How many devices that are not the host the scheduler's runtime has found; 0 if it has not looked
/// for any. Any thread.
int devices_found(const tern::detail::scheduler_core& by) noexcept;

} // namespace tern::hetero::detail
