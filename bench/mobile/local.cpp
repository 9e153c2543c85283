// SPDX-License-Identifier: Apache-2.0
/// \file
/// Objects of one process.

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tern/mobile/entry/rank_objects.hpp>
#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/future.hpp>
#include <tern/task/sync.hpp>

#include "bench/mobile/contestant.hpp"
#include "bench/mobile/measures.hpp"

namespace tern::bench::mobile {
namespace {

using tern::mobile::directory;
using tern::mobile::object_id;

constexpr long burst = 64; // until the sender lets others run

void nothing() {}
struct idler {
  void nothing() {}
};

/// Nanoseconds for one `send()`, in streams until the last has been handled, which `wait()` waits
/// for.
template <class Send, class Wait> double stream(double most, Send send, Wait wait) {
  return 1e9 * per_item(most, 1e-3, burst, [&](long n) {
           return timed(1, [&](long) {
             for (long i = 0; i < n; ++i) {
               send();
               if (i % burst == burst - 1) this_fiber::yield();
             }
             wait();
           });
         });
}
template <class Call> double calls(double most, Call call) {
  return 1e9 * per_item(most, latency_batch, 1, [&](long n) { return timed(n, [&](long) { call().get(); }); });
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Runs `work(0)`, `work(1)`, … on a worker each, if each waits for the others.
template <class Work> void on_each_worker(Work&& work) {
  std::vector<future<void>> all;
  for (int t = 0; t < threads; ++t) all.push_back(async([&work, t] { work(t); }));
  for (auto& one : all) one.get();
}

/// The directory as programs use it.
class objects {
public:
  explicit objects(std::size_t n) {
    first_ = add();
    for (std::size_t i = 1; i < n; ++i) check(add() == first_ + i, "a new object");
  }
  static std::uint64_t add() { return create<small>().id().bits; }

  class user {
  public:
    explicit user(const objects& all) : first_(all.first_) {}
    bool has(std::size_t i) const { return directory::here().is_here(object_id(first_ + i)); }
    static std::uint64_t add() { return objects::add(); }
    void remove(std::uint64_t number) { last_ = destroy(mobile_ptr<small>(object_id(number))); }
    void finish() {
      if (last_.valid()) last_.get();
    }

  private:
    const std::uint64_t first_;
    future<void> last_; // of those that are to be destroyed
  };

private:
  std::uint64_t first_ = 0;
};

/// The same tables behind the same locks, without what it takes to end an object.
class tables {
public:
  using user = tables&;
  explicit tables(std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) add();
  }
  ~tables() {
    for (const shard& s : shards_)
      for (std::size_t i = 0; i < s.entries.capacity(); ++i)
        if (const std::unique_ptr<entry> e(s.entries.at(i)); e) delete static_cast<small*>(e->object);
  }
  tables(const tables&) = delete;
  tables& operator=(const tables&) = delete;
  bool has(std::size_t i) const {
    const object_id id(0, i + 1);
    const shard& s = shards_[id.number() % shards_.size()];
    return s.entries.looks_marked(id).value_or(true);
  }
  std::uint64_t add() {
    const object_id id(0, next_.fetch_add(1, std::memory_order_relaxed));
    auto e = std::make_unique<entry>(id);
    e->object = new small;
    shard& s = shards_[id.number() % shards_.size()];
    const std::lock_guard hold(s.lock);
    s.entries.insert(id, e.release(), true);
    return id.number();
  }
  void remove(std::uint64_t number) {
    const object_id id(0, number);
    shard& s = shards_[number % shards_.size()];
    std::unique_ptr<entry> e;
    {
      const std::lock_guard hold(s.lock);
      e.reset(s.entries.find(id));
      s.entries.erase(id);
    }
    delete static_cast<small*>(e->object);
  }
  void finish() {}

private:
  using entry = tern::mobile::entry;
  struct alignas(64) shard {
    mutable tern::detail::owner_lock lock;
    tern::mobile::detail::object_table<entry, 6> entries;
  };
  std::array<shard, 64> shards_;
  std::atomic<std::uint64_t> next_{1};
};

template <class Table> nlohmann::json lookups_of(std::size_t n, double most) {
  const auto all = std::make_unique<Table>(n);
  return {{"lookup", lookups(*all, n, most, [](auto&& work) { on_each_worker(work); })}};
}

double allocated() {
  const auto m = mallinfo2();
  return static_cast<double>(m.uordblks + m.hblkhd);
}

struct resting {
  std::array<std::byte, 64> data{};
  template <class A> void serialize(A& ar) { ar(data); }
  void touch() { data[0] = std::byte{1}; }
};

} // namespace

nlohmann::json local(double most) {
  const auto object = create<idler>();
  std::vector<double> sent, invoked, called, asked;
  const int turns = 10;
  const double each = most / turns / 4;
  for (int i = 0; i < turns; ++i) {
    const auto wait = [] { call<&nothing>(0).get(); };
    sent.push_back(stream(
        each, [] { send<&nothing>(0); }, wait));
    invoked.push_back(stream(
        each, [&] { send<&idler::nothing>(object); }, [&] { call<&idler::nothing>(object).get(); }));
    called.push_back(calls(each, [] { return call<&nothing>(0); }));
    asked.push_back(calls(each, [&] { return call<&idler::nothing>(object); }));
  }
  destroy(object).get();
  return {{"send", median(sent)},
          {"invocation", median(invoked)},
          {"call", median(called)},
          {"invocation.call", median(asked)}};
}

nlohmann::json lookup(std::size_t n, double most) { return lookups_of<objects>(n, most); }
nlohmann::json table(std::size_t n, double most) { return lookups_of<tables>(n, most); }

nlohmann::json memory(std::size_t n) {
  std::vector<mobile_ptr<resting>> all;
  all.reserve(n);
  destroy(create<resting>()).get(); // what is made once
  const double before = allocated();
  for (std::size_t i = 0; i < n; ++i) all.push_back(create<resting>());
  const auto each = [&] { return (allocated() - before) / static_cast<double>(n) - sizeof(resting); };
  const double created = each();
  for (const auto& one : all) call<&resting::touch>(one).get();
  return {{"created", created}, {"used", each()}};
}

// Memory of objects that have come back from another rank, after all ranks know their place.
nlohmann::json moved(std::size_t n) {
  std::vector<mobile_ptr<resting>> all;
  all.reserve(n);
  const auto move_all = [&](int to) {
    for (const auto& one : all) migrate(one, to).get();
    quiesce();
  };
  const auto move_some = [&] { // as many as there are at a time, so that what is made for the first is there
    if (rank() == 0) all.push_back(create<resting>());
    move_all(1);
    for (const auto& one : all) destroy(one).get();
    all.clear();
    barrier();
  };
  move_some();
  const double before = allocated();
  barrier();
  if (rank() == 0)
    for (std::size_t i = 0; i < n; ++i) all.push_back(create<resting>());
  const auto each = [&] {
    barrier();
    const double found = (allocated() - before) / static_cast<double>(n) - sizeof(resting);
    barrier();
    return found;
  };
  nlohmann::json found;
  move_all(1);
  found["away"] = each();
  move_all(0);
  found["back"] = each();
  return found;
}

} // namespace tern::bench::mobile
