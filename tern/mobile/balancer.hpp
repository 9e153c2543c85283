// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the directory tells a balancer of the rank's load. The layer `balance` implements it.

#include <cstdint>

#include <tern/mobile/object_id.hpp>
#include <tern/task/fiber_options.hpp>

namespace tern::mobile {

struct type_record;

/// As long as invocations are deferred (`directory::defer`), a long invocation waits in its object
/// until a worker is idle, so the object can still migrate with its pending work. Called by any
/// worker, and where messages arrive; never with a lock of the directory held.
class balancer {
public:
  /// An object has an invocation that may begin: `directory::begin_next` begins it. Not told again
  /// before that was called for it, unless a more urgent one has come before it. \param load of
  /// that invocation. \param again it has been told before, with less urgency.
  virtual void ready(object_id object, double load, priority level, bool again) noexcept = 0;
  /// It has left, or is leaving, for another rank, or is no more. \param was_ready it was, and is
  /// no longer.
  virtual void left(object_id object, bool was_ready) noexcept = 0;
  /// The object's load is another: something has arrived, or it has come or gone.
  virtual void changed(object_id object) noexcept = 0;
  /// Before and after an invocation that is watched, in its fiber. \param seconds that it ran,
  /// without what it waited.
  virtual void begun(object_id object, double load) noexcept = 0;
  /// \param instance of `type`, on which it ran. \param expected `begun` was called for it; else it
  /// was long although a quick one was expected.
  virtual void ended(object_id object, const type_record& type, const void* instance, double load, double seconds,
                     bool expected) noexcept = 0;
  /// An invocation of the object, or the tasks that it has submitted, have taken so many seconds of
  /// devices: told when the last of these is over.
  /// Also from the context of a device, so nothing is begun. \param amount how much work that was,
  /// in a unit that is the same on all devices; 0: not known. \return what it counts as load for
  /// devices, here and elsewhere.
  virtual double charged(object_id object, double seconds, double amount) noexcept = 0;
  /// Would another worker or rank soon take an object that waits?
  virtual bool has_takers() const noexcept = 0;
  /// Ranks have died, and those that live have put their objects back (protect.hpp). In a fiber,
  /// before anything runs again. \param all of them have a balancer: then it may talk to the
  /// others, as this is called on each.
  virtual void gone_back(bool /*all*/) {}

protected:
  ~balancer() = default;
};

} // namespace tern::mobile
