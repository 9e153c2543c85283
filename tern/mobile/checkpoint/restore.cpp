// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a rank reads back.
#include <tern/mobile/checkpoint.hpp>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/mobile/array/array_table.hpp>
#include <tern/mobile/checkpoint/agreement.hpp>
#include <tern/mobile/checkpoint/checkpoint_file.hpp>
#include <tern/mobile/checkpoint/object_restorer.hpp>
#include <tern/mobile/checkpoint/restored_job.hpp>
#include <tern/mobile/checkpoint/saved_tables.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

namespace tern::mobile {

const option<std::string> restart_option{
    "restart", "",
    "the folder of tern::checkpoint from which the job goes on, on any number of ranks; the program asks for it by "
    "tern::restored. Empty: it begins anew"};

namespace detail {
namespace {

const rank_local<restored_job> the_job;

/// One checkpoint, as all ranks see it. Each reads all tables, and looks at every sum of its share
/// of the files.
class checkpoint_content {
public:
  /// \throws error(invalid_data), error(not_found), error(io) for a damaged one;
  /// error(invalid_argument, unsupported) for one that cannot be this program's.
  checkpoint_content(net::node& here, const checkpoint_folder& folder, std::uint64_t generation) {
    files_.emplace_back(folder.file(generation, 0), generation, 0);
    const int ranks = static_cast<int>(files_[0].head().ranks);
    for (int r = 1; r < ranks; ++r) {
      files_.emplace_back(folder.file(generation, r), generation, r);
      const checkpoint_head &first = files_.front().head(), &other = files_.back().head();
      if (other.ranks != first.ranks || other.program != first.program || other.homes != first.homes)
        files_.back().damaged(0, "the head of another checkpoint's file");
    }
    check_program();
    for (int r = 0; r < ranks; ++r) {
      const checkpoint_reader& f = file(r);
      if (r % here.size() == here.rank()) f.verify();
      const byte_buffer bytes = f.tables();
      saved_tables& t = tables_.emplace_back();
      try {
        unpack_into({bytes.data(), bytes.size()}, t);
      } catch (const error& e) {
        f.damaged(f.bytes(), "a table that cannot be: " + e.message());
      }
      check(f, t);
    }
    check_homes();
    check_arrays();
  }
  int ranks() const noexcept { return static_cast<int>(files_.size()); }
  int homes() const noexcept { return static_cast<int>(files_[0].head().homes); }
  const checkpoint_reader& file(int r) const noexcept { return files_[static_cast<std::size_t>(r)]; }
  const saved_tables& tables(int r) const noexcept { return tables_[static_cast<std::size_t>(r)]; }
  const std::vector<saved_tables>& all() const noexcept { return tables_; }

private:
  void check_program() const {
    if (files_[0].head().program == net::handler_table::fingerprint()) return;
    const byte_buffer bytes = files_[0].program();
    std::vector<std::string> theirs;
    unpack_into({bytes.data(), bytes.size()}, theirs);
    std::vector<std::string> ours;
    for (const net::handler_record* h : net::handler_table::all()) ours.push_back(h->name());
    const auto lacks = [](const std::vector<std::string>& in, const std::string& name) {
      return std::find(in.begin(), in.end(), name) == in.end();
    };
    std::string what = "its functions have other signatures or places";
    for (std::size_t i = 0; i < std::max(theirs.size(), ours.size()); ++i) {
      if (i < theirs.size() && lacks(ours, theirs[i])) {
        what = "this program does not have '" + theirs[i] + "'";
        break;
      }
      if (i < ours.size() && lacks(theirs, ours[i])) {
        what = "that program did not have '" + ours[i] + "'";
        break;
      }
    }
    throw error(errc::invalid_argument, files_[0].path() + " was written by another program: " + what,
                "go on with the program that has written it");
  }
  static void check(const checkpoint_reader& f, const saved_tables& t) {
    for (const saved_class& c : t.classes) {
      const type_record* const type = movable_class::find(c.arrival);
      if (!type || type->name != c.name)
        f.damaged(f.bytes(), "a class '" + c.name + "' that the program does not have");
      if (type->size != c.size || type->alignment != c.alignment)
        throw error(errc::invalid_argument,
                    f.path() + " was written by another version of the program: class '" + c.name + "' had " +
                        std::to_string(c.size) + " bytes, and has " + std::to_string(type->size),
                    "go on with the program that has written it");
    }
    for (const saved_object& o : t.objects)
      if (!o.id || o.id.home() >= static_cast<int>(f.head().homes) || o.type >= t.classes.size() ||
          o.offset > f.bytes() || o.bytes > f.bytes() - o.offset)
        f.damaged(f.bytes(), "an object that cannot be");
    for (const saved_name& n : t.names)
      if (!n.object || n.object.home() >= static_cast<int>(f.head().homes)) f.damaged(f.bytes(), "a name of no object");
    for (const saved_event& e : t.events)
      if (!e.object || !entered_event_kind::find(e.arms) || e.state.size < 1 || e.state.size > most_signals ||
          !e.state.signals.empty())
        f.damaged(f.bytes(), "an event that cannot be");
  }

  // Each home is in one file, with the first number that it had not given.
  void check_homes() {
    std::uint64_t there = 0;
    for (const saved_tables& t : tables_) there += t.numbers.size();
    if (there != files_[0].head().homes) files_[0].damaged(files_[0].bytes(), "a table that lacks homes");
    std::vector<std::uint64_t> next(static_cast<std::size_t>(there));
    for (std::size_t r = 0; r < tables_.size(); ++r)
      for (const auto& [home, first] : tables_[r].numbers) {
        if (home < 0 || home >= homes() || first < 1 || first > most_numbers ||
            next[static_cast<std::size_t>(home)] > 0)
          files_[r].damaged(files_[r].bytes(), "a home that cannot be");
        next[static_cast<std::size_t>(home)] = first;
      }
    for (std::size_t r = 0; r < tables_.size(); ++r)
      for (const saved_object& o : tables_[r].objects)
        if (o.id.number() < 1 || o.id.number() >= next[static_cast<std::size_t>(o.id.home())])
          files_[r].damaged(files_[r].bytes(), "an object with a number that was never given");
  }
  // A damaged one must not ask for memory that no checkpoint of that length needs.
  void check_arrays() const {
    std::uint64_t bytes = 0;
    for (const checkpoint_reader& f : files_) bytes += f.bytes();
    for (std::size_t r = 0; r < tables_.size(); ++r)
      for (const saved_array& a : tables_[r].arrays) {
        try {
          check_array(a, homes(), bytes);
        } catch (const error& e) {
          files_[r].damaged(files_[r].bytes(), e.message());
        }
      }
  }

  static constexpr std::uint64_t most_numbers = std::uint64_t{1} << 40; // an object_id has no room for more
  std::vector<checkpoint_reader> files_;
  std::vector<saved_tables> tables_;
};

std::uint64_t total_weight(const checkpoint_content& from) {
  std::uint64_t all = 0;
  for (const saved_tables& t : from.all())
    for (const saved_object& o : t.objects) all += weight_of(o);
  return all;
}

class rank_restorer {
public:
  rank_restorer(net::node& here, const checkpoint_content& from)
      : here_(here), all_(directory::of(here)), from_(from), places_(here.size(), total_weight(from)), one_(all_) {}

  void restore_homes() {
    const int ranks = here_.size(), homes = std::max(from_.homes(), ranks);
    if (homes > ranks) {
      std::vector<std::int32_t> where(static_cast<std::size_t>(homes));
      for (int h = 0; h < homes; ++h) where[static_cast<std::size_t>(h)] = h < ranks ? h : h % ranks;
      all_.set_homes(std::move(where));
    }
    rank_objects& objects = all_.objects();
    std::uint64_t arrays = 0;
    for (const saved_tables& t : from_.all()) {
      for (const auto& [home, next] : t.numbers)
        if (home == here_.rank())
          objects.go_on_from(next);
        else if (home >= 0 && home < homes && objects.homes().rank_of(home) == here_.rank())
          objects.adopt(home, next);
      arrays = std::max(arrays, t.arrays_made);
    }
    array_table::here().go_on_from(arrays);
  }
  void restore_arrays() {
    std::unordered_map<std::uint64_t, std::vector<saved_array>> arrays;
    for (const saved_tables& t : from_.all())
      for (const saved_array& a : t.arrays) arrays[a.id].push_back(a);
    for (const auto& one : arrays) array_table::here().restore(one.second);
  }
  void restore_objects() {
    all_.objects().begin_restoring();
    add_credits();
    std::uint32_t n = 0;
    for (int f = 0; f < from_.ranks(); ++f)
      for (const saved_object& o : from_.tables(f).objects) {
        // With as many ranks as there were it is the same one.
        const int where = from_.ranks() == here_.size() ? f : places_.next(o);
        if (where == here_.rank())
          restore(f, o);
        else if (all_.home_of(o.id) == here_.rank())
          all_.restore_elsewhere(o.id, where);
        if (++n % 64 == 0) this_fiber::yield();
      }
  }
  /// After the objects. On each rank, those of the objects that it has.
  void restore_events() {
    for (const saved_tables& t : from_.all())
      for (const saved_event& e : t.events) all_.restore_event(e.object, *entered_event_kind::find(e.arms), e.state);
  }
  void restore_names() {
    for (const saved_tables& t : from_.all()) name_table::of(here_).restore(t.names);
  }
  /// When all ranks have their objects: gives credit back that has come meanwhile. Nothing in the
  /// checkpoint refers to some objects: as when the last reference has gone.
  void give_credit_back() {
    for (const auto& [id, credit] : all_.objects().end_restoring()) all_.return_credit(id, credit);
    for (const object_id id : unreferenced_) all_.return_credit(id, 1);
  }

private:
  // What all references in the checkpoint have. The roots are unpacked on each rank.
  void add_credits() {
    for (const saved_tables& t : from_.all()) {
      for (const auto& [id, credit] : t.credits) credits_[id] += credit;
      for (const auto& [id, credit] : t.root_credits) credits_[id] += credit * static_cast<std::uint64_t>(here_.size());
    }
  }
  void restore(int file, const saved_object& o) {
    std::uint64_t credit = 0;
    if (o.with.credit > 0) {
      const auto at = credits_.find(o.id);
      credit = at == credits_.end() ? 1 : at->second;
      if (at == credits_.end()) unreferenced_.push_back(o.id);
    }
    one_.restore(from_.file(file), *movable_class::find(from_.tables(file).classes[o.type].arrival), o, credit);
  }

  net::node& here_;
  directory& all_;
  const checkpoint_content& from_;
  even_spread places_;
  object_restorer one_;
  std::unordered_map<object_id, std::uint64_t> credits_;
  std::vector<object_id> unreferenced_;
};

bool is_damage(const error& e) {
  return e.code() == errc::invalid_data || e.code() == errc::io || e.code() == errc::not_found;
}

// The newest one that all ranks can read.
std::unique_ptr<checkpoint_content> find_good(net::node& here, const std::string& path, restored_job& job) {
  const checkpoint_folder folder(path);
  std::vector<std::uint64_t> there;
  together(here.rank() == 0, [&] { there = folder.generations(); });
  there = broadcast(std::move(there));
  std::string damage;
  for (const std::uint64_t generation : there) {
    std::unique_ptr<checkpoint_content> content;
    std::exception_ptr wrong;
    try {
      content = std::make_unique<checkpoint_content>(here, folder, generation);
    } catch (...) {
      wrong = std::current_exception();
    }
    const auto first = first_failure(wrong);
    if (!first) {
      job.note_saved(path, generation);
      return content;
    }
    if (!is_damage(*first)) throw *first;
    if (here.rank() == 0)
      log_warning("checkpoint " + folder.of(generation) + " is damaged and is not used: " + first->message());
    if (damage.empty()) damage = first->message();
  }
  throw error(errc::invalid_data, "no checkpoint in " + path + " can be used: " + damage,
              "restore the folder from a copy, or begin anew");
}

} // namespace

restored_job& restored_job::of(net::node& here) { return the_job.of(here); }

void restored_job::check_before_saving(const net::node& here) const {
  if (!done && !here.opts()[restart_option].empty())
    throw error(errc::invalid_state,
                "tern::checkpoint was called before tern::restored, in a job that was started with "
                "--tern-restart " +
                    here.opts()[restart_option],
                "call tern::restored before the first object is created");
}

std::optional<std::uint64_t> restored_job::last_saved(const std::string& folder) const {
  const auto at = saved_.find(folder);
  if (at == saved_.end()) return {};
  return at->second;
}

const std::vector<saved_root>* restore_job() {
  net::node& here = net::node::here();
  const std::string& path = here.opts()[restart_option];
  if (path.empty()) return nullptr;
  restored_job& job = restored_job::of(here);
  directory& all = directory::of(here);
  together(true, [&] {
    if (job.done) throw error(errc::invalid_state, "tern::restored was called twice");
    if (all.size() > 0 || all.objects().next_number() > 1)
      throw error(errc::invalid_state, "tern::restored was called when there were mobile objects already",
                  "call it before the first object is created");
  });
  const auto content = find_good(here, path, job);
  const frozen_objects rest(all.objects());
  rank_restorer one(here, *content);
  together(true, [&] {
    one.restore_homes();
    one.restore_arrays();
    one.restore_objects();
    one.restore_events();
    one.restore_names();
    job.roots = content->tables(0).roots;
    job.done = true;
  });
  one.give_credit_back();
  return &job.roots;
}

void check_roots(std::size_t asked, const std::vector<saved_root>& there) {
  if (asked == there.size()) return;
  throw error(errc::invalid_argument,
              "tern::restored asks for " + std::to_string(asked) + " roots, and tern::checkpoint was given " +
                  std::to_string(there.size()),
              "give both the same");
}

void bad_root(std::size_t number, const std::string& asked, const saved_root& there, const char* why) {
  throw error(errc::invalid_argument,
              "tern::restored asks for a " + asked + " as root " + std::to_string(number) +
                  (why ? std::string(", which cannot be unpacked: ") + why
                       : ", and tern::checkpoint was given a " + there.type),
              "give both the same");
}

} // namespace detail
} // namespace tern::mobile
