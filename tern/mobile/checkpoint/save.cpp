// SPDX-License-Identifier: Apache-2.0
/// \file
/// A job saves itself in files.
#include <tern/mobile/checkpoint.hpp>

#include <chrono>

#include <tern/base/error.hpp>
#include <tern/mobile/checkpoint/agreement.hpp>
#include <tern/mobile/checkpoint/checkpoint_file.hpp>
#include <tern/mobile/checkpoint/rank_saver.hpp>
#include <tern/mobile/checkpoint/restored_job.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/communicator.hpp>
#include <tern/net/runtime.hpp>

namespace tern::mobile::detail {
namespace {

void save_program(checkpoint_writer& to) {
  std::vector<std::string> names;
  for (const net::handler_record* h : net::handler_table::all()) names.push_back(h->name());
  const byte_buffer bytes = pack(names);
  to.part(checkpoint_part::program, {bytes.data(), bytes.size()});
}

std::uint64_t seconds_now() {
  // address: only told to people, and not in a simulation
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(since).count());
}

} // namespace

bool saves_roots() { return communicator::world().rank() == 0; }

void save_job(const std::string& path, std::vector<saved_root> roots, split_recorder::credits credit) {
  net::node& here = net::node::here();
  if (const auto* const inside = running_invocation::here())
    throw error(errc::invalid_state,
                "tern::checkpoint was called by an invocation of object " + to_string(inside->id()) + " (" +
                    inside->type().name + ")",
                "all ranks call it from their main functions");
  restored_job& job = restored_job::of(here);
  job.check_before_saving(here);
  directory& all = directory::of(here);
  const frozen_objects rest(all.objects());
  quiesce();
  together(true, [] { check_nothing_open("tern::checkpoint"); });
  const checkpoint_folder folder(path);
  const communicator living = communicator::world(); // ranks may have died: then there are fewer files
  const bool first = living.rank() == 0, durable = !here.simulated();
  checkpoint_head head;
  together(first, [&] { head.generation = folder.begin(); });
  head.seconds = first && durable ? seconds_now() : 0;
  head.generation = broadcast(head.generation);
  head.seconds = broadcast(head.seconds);
  head.rank = static_cast<std::uint32_t>(living.rank());
  head.ranks = static_cast<std::uint32_t>(living.size());
  head.homes = static_cast<std::uint32_t>(all.homes().count());
  head.program = net::handler_table::fingerprint();
  try {
    together(true, [&] {
      checkpoint_writer to(folder.file(head.generation, living.rank(), false), head, durable);
      save_program(to);
      rank_saver saver(here, to);
      saver.save_objects();
      saver.save_rest(std::move(roots), std::move(credit));
    });
    together(first, [&] { folder.commit(head.generation, durable); });
  } catch (...) {
    if (first) folder.give_up(head.generation);
    throw;
  }
  if (first) folder.keep(head.generation, job.last_saved(path).value_or(head.generation));
  job.note_saved(path, head.generation);
}

} // namespace tern::mobile::detail
