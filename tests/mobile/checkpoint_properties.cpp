// SPDX-License-Identifier: Apache-2.0
// What checkpoints promise, against a plain model: a job that is saved at any quiescent moment goes
// on, on any number of ranks, as it was then; pointers, arrays, names, pins and counted references
// hold; a damaged newest checkpoint is not used.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/array.hpp>
#include <tern/mobile/checkpoint.hpp>
#include <tern/mobile/counted.hpp>
#include <tern/mobile/names.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>

#include "property.hpp"
#include "travellers.hpp"

namespace checkpoint_properties {

using namespace tern::property;
using tern::call;
using tern::mobile_ptr;
using tern::mobile_ref;
using tern::rank;
using tern::size;
using tern::property::travellers::leaf;
using tern::property::travellers::text;

class cell {
public:
  cell() = default;
  explicit cell(std::int64_t total) : total_(total) {}
  void add(std::int64_t n) {
    total_ += n;
    bytes_.resize(static_cast<std::size_t>(total_ % 97));
  }
  std::int64_t total() const { return bytes_.size() <= 97 ? total_ : -1; }
  void meet(mobile_ptr<cell> other) { other_ = other; }
  mobile_ptr<cell> other() const { return other_; }
  void keep(mobile_ref<leaf> one) { leaf_ = std::move(one); }
  void drop() { leaf_ = {}; }
  std::int64_t leaf_value() const { return leaf_ ? call<&leaf::value>(leaf_).get() : -1; }
  template <class A> void serialize(A& ar) { ar(total_, bytes_, other_, leaf_); }

private:
  std::int64_t total_ = 0;
  std::vector<char> bytes_;
  mobile_ptr<cell> other_;
  mobile_ref<leaf> leaf_;
};
using grid = tern::mobile_array<cell, 2>;

int skew(const tern::indices<2>& at, const tern::extents<2>&, int ranks) {
  return static_cast<int>((2 * at[0] + at[1]) % ranks);
}

// The model ----------------------------------------------------------------------------------------------------------

struct loose {
  mobile_ptr<cell> at;
  std::int64_t total = 0, leaf_value = -1;
  mobile_ptr<cell> other{};
  mobile_ptr<leaf> leaf_at{};
  bool pinned = false;
};
struct state {
  std::map<std::int64_t, std::int64_t> there; // elements: their totals, by linear index
  std::map<std::int64_t, bool> used;          // indices that have had an element
  std::vector<loose> objects;
  std::map<std::string, mobile_ptr<cell>> names;
  std::map<std::uint64_t, int> born; // how often an id was given
};
struct model {
  std::string folder;
  tern::extents<2> extent{};
  bool sparse = false;
  state now;
  std::vector<state> saved; // by its stamp
  std::int64_t stamp = -1;  // from which the job should go on; below 0: anew
  std::uint64_t seed = 0;
  ~model() {
    std::error_code ignored;
    if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
  }
};
per_case<model> all;

tern::indices<2> index_of(std::int64_t linear) { return {linear / all->extent[1], linear % all->extent[1]}; }

void expect_gone(mobile_ptr<leaf> one) {
  try {
    call<&leaf::value>(one).get();
  } catch (const tern::error& e) {
    TERN_HOLDS(e.code() == tern::errc::not_found, std::string("unexpected: ") + e.what());
    return;
  }
  TERN_HOLDS(false, "a counted object has outlived its last reference");
}

// By one rank, when nothing is under way.
void check(const grid& array) {
  const state& s = all->now;
  for (std::int64_t i = 0; i < all->extent[0] * all->extent[1]; ++i) {
    const auto expected = s.there.find(i);
    try {
      const std::int64_t total = call<&cell::total>(array(index_of(i))).get();
      TERN_HOLDS(expected != s.there.end() && total == expected->second,
                 "element " + text(i) + " has " + text(total) + ", and not " +
                     text(expected == s.there.end() ? -1 : expected->second));
    } catch (const tern::error& e) {
      TERN_HOLDS(e.code() == tern::errc::not_found && expected == s.there.end(),
                 "element " + text(i) + " is not there: " + e.what());
    }
  }
  if (!s.there.empty()) {
    std::int64_t sum = 0;
    for (const auto& [i, total] : s.there) sum += total;
    TERN_HOLDS(tern::reduce<&cell::total>(array, std::plus<>()).get() == sum, "a reduction gives another sum");
  }
  for (std::size_t n = 0; n < s.objects.size(); ++n) {
    const loose& o = s.objects[n];
    const std::string which = "object " + text(static_cast<std::int64_t>(n));
    TERN_HOLDS(call<&cell::total>(o.at).get() == o.total, which + " has another total");
    TERN_HOLDS(call<&cell::other>(o.at).get() == o.other, which + " knows another object");
    TERN_HOLDS(call<&cell::leaf_value>(o.at).get() == o.leaf_value, which + " has another leaf");
    if (o.other) static_cast<void>(call<&cell::total>(o.other).get()); // it is there
    if (!o.pinned) continue;
    try {
      tern::migrate(o.at, (tern::rank() + 1) % size()).get();
      tern::migrate(o.at, (tern::rank() + 2) % size()).get();
      TERN_HOLDS(size() == 1, which + " was pinned, and moves");
    } catch (const tern::error& e) {
      TERN_HOLDS(e.code() == tern::errc::invalid_state, std::string("unexpected: ") + e.what());
    }
  }
  for (const auto& [name, object] : s.names)
    TERN_HOLDS(tern::try_find<cell>(name).get() == object, "the name " + name + " is another object's");
}

// Some work of one rank.
void work(const grid& array, dice& roll, std::int64_t operations) {
  state& s = all->now;
  const std::int64_t places = all->extent[0] * all->extent[1];
  for (std::int64_t k = 0; k < operations; ++k) {
    if (roll.chance(0.2)) tern::this_fiber::sleep_for(std::chrono::microseconds(roll.below(20)));
    const std::int64_t i = roll.below(places);
    const auto to = static_cast<int>(roll.below(size()));
    switch (roll.below(8)) {
    case 0:
    case 1:
      if (const auto at = s.there.find(i); at != s.there.end()) {
        const std::int64_t n = roll.below(50);
        at->second += n;
        tern::send<&cell::add>(array(index_of(i)), n);
      }
      break;
    case 2:
      if (s.there.contains(i)) tern::migrate(array(index_of(i)), to).get();
      break;
    case 3:
      if (all->sparse && !s.used[i]) {
        s.used[i] = true;
        array.insert(index_of(i), std::int64_t{7}).get();
        s.there[i] = 7;
      }
      break;
    case 4: { // objects by themselves, which know each other, and have leaves
      const auto at = tern::create_on<cell>(to, k).get();
      TERN_HOLDS(all->now.born[at.id().bits]++ == 0, "an id was given twice: " + tern::mobile::to_string(at.id()));
      loose o{at, k};
      if (!s.objects.empty()) {
        o.other = s.objects[static_cast<std::size_t>(roll.below(static_cast<std::int64_t>(s.objects.size())))].at;
        tern::send<&cell::meet>(at, o.other);
      }
      if (roll.chance(0.6)) {
        o.leaf_value = 1000 + k;
        auto one = tern::create_counted_on<leaf>(static_cast<int>(roll.below(size())), o.leaf_value).get();
        o.leaf_at = one.ptr();
        call<&cell::keep>(at, one).get();
      }
      if (roll.chance(0.2)) {
        tern::pin(at).get();
        o.pinned = true;
      }
      s.objects.push_back(o);
      break;
    }
    case 5:
      if (s.objects.empty()) break;
      {
        loose& o = s.objects[static_cast<std::size_t>(roll.below(static_cast<std::int64_t>(s.objects.size())))];
        const std::int64_t n = roll.below(50);
        o.total += n;
        tern::send<&cell::add>(o.at, n);
      }
      break;
    case 6:
      if (s.objects.empty()) break;
      {
        const loose o = s.objects[static_cast<std::size_t>(roll.below(static_cast<std::int64_t>(s.objects.size())))];
        if (roll.chance(0.3))
          tern::swap_out(o.at).get();
        else if (!o.pinned)
          tern::migrate(o.at, to).get();
      }
      break;
    case 7:
      if (!s.objects.empty() && s.names.size() < 5) {
        const std::string name =
            "n" + text(rank()) + "." + text(static_cast<std::int64_t>(all->saved.size())) + "." + text(k);
        const auto one =
            s.objects[static_cast<std::size_t>(roll.below(static_cast<std::int64_t>(s.objects.size())))].at;
        s.names[name] = one;
        tern::publish(name, one).get();
      }
      break;
    }
  }
}

// The main function of all jobs.
void live(std::uint64_t seed, std::int64_t rounds, std::int64_t operations, int mapping) {
  dice roll(seed * 1'000'003 + static_cast<std::uint64_t>(rank()));
  grid array;
  std::int64_t stamp = -1;
  mobile_ref<leaf> root;
  if (!tern::restored(array, stamp, root)) {
    TERN_HOLDS(all->stamp < 0, "the job should have gone on from a checkpoint");
    if (rank() == 0) {
      static const tern::array_mapping mappings[] = {tern::block_mapping, tern::cyclic_mapping, tern::map_by<&skew>};
      array = grid({.mapping = mappings[mapping], .sparse = all->sparse, .name = "grid"}, all->extent, std::int64_t{3});
      if (!all->sparse)
        for (std::int64_t i = 0; i < all->extent[0] * all->extent[1]; ++i)
          all->now.there[i] = 3, all->now.used[i] = true;
      root = tern::create_counted<leaf>(std::int64_t{77});
    }
    array = tern::broadcast(array);
  } else {
    TERN_HOLDS(stamp == all->stamp,
               "the job goes on from checkpoint " + text(stamp) + ", and not from " + text(all->stamp));
    TERN_HOLDS(call<&leaf::value>(root).get() == 77, "a reference in the roots is not what it was");
    tern::barrier();
    if (rank() == 0) {
      all->now = all->saved[static_cast<std::size_t>(stamp)];
      for (const loose& o : all->now.objects)
        TERN_HOLDS(all->now.born[o.at.id().bits] > 0, "an object without a birth");
      check(array);
    }
    tern::barrier();
  }
  for (std::int64_t r = 0; r < rounds; ++r) {
    work(array, roll, roll.below(operations) + 1);
    tern::quiesce();
    if (rank() == 0) {
      if (roll.chance(0.3) && !all->now.there.empty()) { // no rank sends to it meanwhile
        const std::int64_t i = all->now.there.begin()->first;
        all->now.there.erase(i);
        array.erase(index_of(i)).get();
      }
      stamp = static_cast<std::int64_t>(all->saved.size());
      all->saved.push_back(all->now);
    }
    tern::checkpoint(all->folder, array, stamp, root);
  }
  work(array, roll, 3); // of this nothing is saved
  tern::quiesce();
  if (rank() == 0 && rounds > 0) check(array);
  tern::barrier();
  // References that were saved are counted.
  if (rank() == 0)
    for (const loose& o : all->now.objects)
      if (o.leaf_value >= 0) call<&cell::drop>(o.at).get();
  tern::quiesce();
  if (rank() == 0)
    for (const loose& o : all->now.objects)
      if (o.leaf_value >= 0) expect_gone(o.leaf_at);
  tern::barrier();
  const auto last = root.ptr();
  if (rank() != 0) root = {};
  tern::quiesce();
  if (rank() == 0) TERN_HOLDS(call<&leaf::value>(root).get() == 77, "a reference in the roots was not counted");
  root = {};
  tern::quiesce();
  if (rank() == 0) expect_gone(last);
  tern::barrier();
}

// Changes one bit of the newest checkpoint. \return false: it is the only one.
bool damage(dice& roll) {
  namespace fs = std::filesystem;
  std::vector<std::string> folders;
  for (const auto& f : fs::directory_iterator(all->folder)) folders.push_back(f.path().string());
  if (folders.size() < 2) return false;
  std::sort(folders.begin(), folders.end());
  std::vector<std::string> files;
  for (const auto& f : fs::directory_iterator(folders.back())) files.push_back(f.path().string());
  std::sort(files.begin(), files.end());
  const std::string& file = files[static_cast<std::size_t>(roll.below(static_cast<std::int64_t>(files.size())))];
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  const auto at = static_cast<std::streamoff>(roll.below(static_cast<std::int64_t>(fs::file_size(file))));
  bytes.seekg(at);
  const int before = bytes.get();
  bytes.seekp(at);
  bytes.put(static_cast<char>(before ^ 1 << roll.below(8)));
  return true;
}

TERN_PROPERTY(jobs_go_on_as_they_were,
              "ranks=1..9 workers=1..3 faults=delay:reorder:slow:pause network=any rows=1..5 columns=1..6 sparse=0..1 "
              "mapping=0..2 rounds=1..3 operations=1..20 memory=0..3 known=0..100 again=1..9 last=1..9 damage=0..3") {
  const std::uint64_t seed = common().next();
  const std::int64_t rounds = knob("rounds"), operations = knob("operations");
  const int mapping = static_cast<int>(knob("mapping"));
  if (rank() == 0) {
    model& m = *all;
    std::string name = (std::filesystem::temp_directory_path() / "tern-checkpoint-XXXXXX").string();
    TERN_HOLDS(::mkdtemp(name.data()), "no folder can be made");
    m.folder = name;
    m.extent = {knob("rows"), knob("columns")};
    m.sparse = knob("sparse") > 0;
    m.seed = seed;
    afterwards([=, world = the_world(), memory = knob("memory"), damages = knob("damage"),
                ranks = std::array{knob("again"), knob("last")}](const ending&) {
      dice roll(seed + 1);
      for (std::size_t n = 0; n < ranks.size(); ++n) {
        all->stamp = static_cast<std::int64_t>(all->saved.size()) - 1;
        if (damages > 0 && damage(roll)) --all->stamp;
        tern::sim::world next = world;
        next.ranks = static_cast<int>(ranks[n]);
        next.seed = seed + 10 + n;
        tern::options options;
        options.set(tern::mobile::restart_option, all->folder);
        static const char* const words[] = {"0", "1", "120", "1000"};
        options.set(tern::mobile::memory_option, words[memory]);
        const auto ended = tern::sim::run(
            next, [&] { return live(seed + 20 + n, n == 0 ? rounds : 0, operations, mapping), 0; }, options);
        TERN_HOLDS(ended.code == 0, "a job that went on has ended with code " + text(ended.code));
      }
    });
  }
  tern::barrier();
  live(seed, rounds, operations, mapping);
}

} // namespace checkpoint_properties
