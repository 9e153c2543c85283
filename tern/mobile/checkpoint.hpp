// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Stop and go on: all mobile objects of a job in a folder, from which a later job goes on, on as
/// many ranks as it has.
///
///     tern::mobile_array<block, 2> grid;
///     int step = 0;
///     if (!tern::restored(grid, step)) {                  // ./app --tern-restart run.ckpt
///       if (tern::rank() == 0) grid = tern::mobile_array<block, 2>({64, 64});
///       grid = tern::broadcast(grid);                     // else: a new run
///     }
///     for (; step < steps; ++step) {
///       if (step % 100 == 0) tern::checkpoint("run.ckpt", grid, step);
///       if (tern::rank() == 0) tern::call<&block::step>(grid).get();
///       tern::barrier();
///     }
///
/// What is saved: each mobile object, by its `serialize`; its id, so that pointers that lie in
/// objects and roots go on naming it; pins; arrays, their mappings and which elements they have;
/// names (`publish`); events without signals; how much credit counted references have. What is not:
/// fibers, local variables, `rank_local`s, and what a program keeps outside of objects. The *roots*
/// carry what a new main function needs of these.
///
/// docs/concepts/checkpoints.md says more; docs/reference/formats.md describes the files.

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tern/base/archive.hpp>
#include <tern/base/language/type_name.hpp>
#include <tern/base/options.hpp>
#include <tern/mobile/object/split_recorder.hpp>
#include <tern/mobile/object_id.hpp>

namespace tern {

namespace mobile {

/// `restart`: the folder from which `restored` goes on; empty: none.
extern const option<std::string> restart_option;

namespace detail {

/// A value that the program has given along.
struct saved_root {
  std::string type; ///< its type's name, for messages
  std::vector<std::byte> bytes;
  template <class A> void serialize(A& ar) { ar(type, bytes); }
};

/// Is this the rank whose roots are saved?
bool saves_roots();
/// Collective. \param credit what references in the roots were given.
void save_job(const std::string& directory, std::vector<saved_root> roots, split_recorder::credits credit);
/// Collective: reads the checkpoint of `restart`. \return its roots; null: the job begins anew.
const std::vector<saved_root>* restore_job();
/// \throws error(invalid_argument) if there is another number of roots.
void check_roots(std::size_t asked, const std::vector<saved_root>& there);
[[noreturn]] void bad_root(std::size_t number, const std::string& asked, const saved_root& there, const char* why);

template <class T> void load_root(T& to, const saved_root& from, std::size_t number) {
  const std::string asked = tern::detail::type_name(typeid(T));
  if (asked != from.type) bad_root(number, asked, from, nullptr);
  try {
    unpack_into(from.bytes, to);
  } catch (const std::exception& e) {
    bad_root(number, asked, from, e.what());
  }
}

} // namespace detail
} // namespace mobile

/// Saves all mobile objects of the job, and the roots, in the folder, which is made if there is
/// none. Collective: all ranks call it, in the same order as other collectives, none of them
/// within an invocation. It waits until nothing is under way (`quiesce`), keeps objects from moving
/// meanwhile, and returns when what it has written is durable on all ranks. Other fibers of the
/// ranks use no objects meanwhile.
///
/// \param directory a path on a file system that all ranks share. It keeps the last two
/// checkpoints of the run; an earlier run's are removed when the first is complete.
/// \param roots values that rank 0 gives; those of other ranks are not looked at. Serializable: a
/// mobile_array, a mobile_ptr, a mobile_ref, numbers, containers of these.
///
/// Objects on disk are copied from there, and not loaded. One file for each rank is written with
/// checksums, under another name; it becomes a checkpoint when all are durable. So if a rank ends
/// or a disk fills meanwhile, the last checkpoint is as it was.
///
/// \throws on all ranks, and then the job goes on and the folder is as before: error(io) naming
/// rank and file; error(unsupported) for an object whose class cannot be serialized;
/// error(invalid_state) for what cannot be saved: an open epoch, a `remote_promise` without a
/// value, an object that is held, a call or `find` without an answer; with rank, and place or
/// object. What an object's packing throws. Any worker thread; one fiber of each rank.
template <class... R> void checkpoint(const std::string& directory, const R&... roots) {
  std::vector<mobile::detail::saved_root> all;
  mobile::detail::split_recorder::credits credit;
  if (mobile::detail::saves_roots()) {
    mobile::detail::split_recorder given(mobile::detail::split_recorder::gives::copies);
    [[maybe_unused]] const auto add = [&](const auto& root) {
      const byte_buffer bytes = pack(root);
      all.push_back({tern::detail::type_name(typeid(root)), {bytes.data(), bytes.data() + bytes.size()}});
    };
    (add(roots), ...);
    credit = given.take();
  }
  mobile::detail::save_job(directory, std::move(all), std::move(credit));
}

/// Was the job started with `--tern-restart DIR`? Then all objects of the last good checkpoint in
/// that folder are there when it returns, and the roots have the values that were given to
/// `checkpoint`, on all ranks. Else nothing happens. Collective; to be called once, before the
/// first object is created.
///
/// The number of ranks may be another one. With the same, each object is on the rank where it was;
/// else they are spread over the ranks by their bytes. The program must be the same: its handlers
/// and its classes' sizes are compared. If the newest checkpoint is damaged, a warning names file
/// and place, and the one before it is taken.
///
/// \throws on all ranks: error(not_found) for a folder that is missing, or has no checkpoint;
/// error(invalid_argument) for one of another program or with another class layout, naming the
/// first difference, and for roots of other types or another number; error(unsupported) for a newer
/// format; error(invalid_data) naming the file if all there are are damaged; error(invalid_state)
/// if there are objects already, or if it was called before.
template <class... R> bool restored(R&... roots) {
  const auto* const all = mobile::detail::restore_job();
  if (!all) return false;
  mobile::detail::check_roots(sizeof...(R), *all);
  [[maybe_unused]] std::size_t n = 0;
  [[maybe_unused]] const auto read = [&](auto& root) {
    mobile::detail::load_root(root, (*all)[n], n + 1);
    ++n;
  };
  (read(roots), ...);
  return true;
}

} // namespace tern
