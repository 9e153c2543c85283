// SPDX-License-Identifier: Apache-2.0
/// \file
/// The runtime's life, and the devices that it finds.
#include <tern/hetero/detail/runtime.hpp>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <sstream>
#include <thread>
#include <utility>

#include <unistd.h>

#include <tern/base/error.hpp>
#include <tern/base/log.hpp>
#include <tern/base/topology.hpp>
#include <tern/hetero/detail/checked.hpp>
#include <tern/hetero/detail/driver.hpp>
#include <tern/hetero/detail/locked_memory.hpp>
#include <tern/hetero/detail/settings.hpp>
#include <tern/task/detail/sanitizer.hpp>

namespace tern::hetero {

namespace {

struct found {
  std::vector<device_info> infos;
  std::vector<std::unique_ptr<detail::device>> devices; ///< one for each info; null: the host
  std::shared_ptr<detail::locked_memory> locked;        ///< for the objects' memory on the host; null: ordinary memory
  bool host_runs = true;
};

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> all;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    if (!word.empty()) all.push_back(word);
  }
  return all;
}

std::size_t quarter_of_memory() {
  const auto pages = static_cast<std::size_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  const std::size_t all = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return std::min<std::uint64_t>(all, cgroup_memory().value_or(all)) / 4;
}

found find(const options& opts, int workers, bool simulated, std::vector<device_note>& notes) {
  found f;
  device_info host;
  host.kind = device_kind::host;
  host.id = host.name = "host";
  host.driver = "Tern";
  host.compute_units = workers;
  host.shares_host_memory = true;
  f.infos.push_back(host);
  f.devices.emplace_back();
  std::vector<std::string> wanted = words(opts[hetero_devices]);
  bool all = wanted.empty() || std::find(wanted.begin(), wanted.end(), "all") != wanted.end();
  if (all && opts[hetero_checked]) wanted = {"host"}, all = false; // nothing checks kernels elsewhere
  const auto is_wanted = [&](const device_info& i) {
    return all || std::any_of(wanted.begin(), wanted.end(),
                              [&](const std::string& w) { return w == i.id || w == name_of(i.kind); });
  };
  f.host_runs = is_wanted(host);
  std::vector<std::string> there{"host"};
  /// \return how many of them are used.
  const auto take = [&](std::vector<std::unique_ptr<detail::device>> some) {
    int used = 0;
    for (auto& d : some) {
      there.push_back(d->info().id);
      if (!is_wanted(d->info())) continue;
      f.infos.push_back(d->info());
      f.devices.push_back(std::move(d));
      ++used;
    }
    return used;
  };
  const auto asks_for = [&](const char* kind) {
    return all ||
           std::any_of(wanted.begin(), wanted.end(), [&](const std::string& w) { return w.rfind(kind, 0) == 0; });
  };
  take(detail::open_fake(opts));
  if (!simulated) { // real devices know no virtual time
    int cuda = 0;
    std::vector<std::string> said;
    const auto note = [&](device_kind kind) {
      for (std::string& text : std::exchange(said, {})) notes.push_back({kind, std::move(text)});
    };
    if (asks_for("cuda")) {
      const auto locked =
          std::make_shared<detail::locked_memory>(detail::bytes_in(opts[hetero_locked]).value_or(quarter_of_memory()));
      cuda = take(detail::open_cuda(opts, locked, said));
      if (cuda > 0) f.locked = locked;
      note(device_kind::cuda);
    }
    if (asks_for("opencl")) {
      take(detail::open_opencl(opts, workers, all && cuda > 0, said));
      note(device_kind::opencl);
    }
  }
  for (const std::string& w : wanted) {
    if (w == "all" || w == "host") continue;
    if (std::any_of(f.infos.begin(), f.infos.end(),
                    [&](const device_info& i) { return w == i.id || w == name_of(i.kind); }))
      continue;
    std::string list, why;
    for (const std::string& id : there) list += (list.empty() ? "" : ", ") + id;
    for (const device_note& note : notes) why += "; " + note.text;
    throw error(errc::invalid_option, "hetero-devices: there is no device '" + w + "' here" + why,
                "there are: " + list);
  }
  constexpr std::size_t devices_most = 62; // bits of a mask
  if (f.infos.size() > devices_most)
    throw error(errc::invalid_option, "hetero-devices: " + std::to_string(f.infos.size()) + " devices are too many",
                "at most " + std::to_string(devices_most));
  return f;
}

} // namespace

std::vector<device_info> devices(const options& opts, std::vector<device_note>* notes, bool open) {
  std::vector<device_note> unwanted;
  std::vector<device_note>& said = notes ? *notes : unwanted;
  found f = find(opts, 1, false, said);
  std::vector<device_info> all;
  for (std::size_t d = 0; d < f.infos.size(); ++d) {
    try {
      if (open && f.devices[d]) f.devices[d]->open();
      all.push_back(f.infos[d]);
    } catch (const error& e) {
      said.push_back({f.infos[d].kind, e.message()});
    }
  }
  f.devices.clear(); // before the memory that they have locked
  return all;
}

statistics count() { return detail::runtime::here("tern::hetero::count").counts(); }

namespace detail {
namespace {
constexpr int tasks_per_worker = 4; // that the host gets from a policy at once
}

runtime::runtime(tern::detail::scheduler_core& core)
    : core_(core), worker_count_(core.cfg.workers),
      light_(core.barrier.usable() && !core.engine && !tern::detail::tsan::enabled),
      parts_(new worker_part[static_cast<std::size_t>(core.cfg.workers) + 1]),
      opts_(core.cfg.opts ? *core.cfg.opts : options()),
      checked_(opts_[hetero_checked] ? std::make_unique<checked_kernels>(opts_) : nullptr),
      group_(nullptr, std::source_location::current()) {
  std::vector<device_note> notes;
  found f = find(opts_, core.cfg.workers, core.engine != nullptr, notes);
  for (const device_note& note : notes) log_debug(note.text);
  infos_ = std::move(f.infos);
  locked_ = std::move(f.locked);
  host_runs_ = f.host_runs;
  loads_.resize(infos_.size());
  tasks_of_.resize(infos_.size());
  for (std::size_t d = 0; d < infos_.size(); ++d) {
    loads_[d].info = &infos_[d];
    if (f.devices[d]) {
      loads_[d].room = f.devices[d]->streams() * 2;
      kinds_beside_host_ |= kinds_of(infos_[d].kind);
      drivers_.push_back(std::make_unique<driver>(*this, static_cast<std::uint8_t>(d), std::move(f.devices[d]),
                                                  opts_[hetero_threads] && !core.engine));
    } else {
      loads_[d].room = core.cfg.workers * tasks_per_worker;
      drivers_.emplace_back();
    }
  }
  policy_ = make_policy(opts_[hetero_policy]);
}

runtime::~runtime() = default;

runtime& runtime::here(const char* what) {
  tern::detail::worker_base* const w = tern::detail::this_worker_base();
  if (!w)
    throw error(errc::invalid_state, std::string(what) + " was called on a thread that is no worker",
                "call it from inside tern::run or scheduler::run");
  tern::detail::scheduler_core& core = *w->home;
  // acquire: pairs with the release below.
  if (auto* const r = core.hetero.load(std::memory_order_acquire)) [[likely]]
    return static_cast<runtime&>(*r);
  const std::lock_guard hold(core.hetero_lock); // opening devices may take a second: others wait, as fibers
  if (auto* const r = core.hetero.load(std::memory_order_acquire)) return static_cast<runtime&>(*r);
  auto* const made = new runtime(core);
  core.hetero.store(made, std::memory_order_release);
  return *made;
}

void runtime::ends() noexcept {
  core_.each_left([this](const tern::detail::fiber&) { left_fibers_ = true; });
  ended_.store(true, std::memory_order_seq_cst);
  while (releasing_.load(std::memory_order_seq_cst) > 0)
    std::this_thread::yield(); // it is a few instructions from its end
  {                            // fibers wait for these, which will be gone when the runtime goes
    std::vector<progress_waiter> unreached;
    const std::lock_guard hold(progress_lock_);
    unreached.swap(progress_);
  }
  for (const auto& d : drivers_)
    if (d) d->end_thread();
  if (const std::uint64_t left = outstanding(); left > 0)
    log_warning(std::to_string(left) + (left == 1 ? " task" : " tasks") +
                " on heterogeneous objects had not run when the program ended: something that they wait for never came"
                " (an access to an object that was not released?)");
  std::size_t unknown = 0;
  for (task_record* t : std::exchange(failed_, {})) {
    unknown += (t->marks.load(std::memory_order_relaxed) & task_record::observed) ? 0 : 1;
    unreference(t);
  }
  if (unknown > 0)
    log_warning(std::to_string(unknown) + (unknown == 1 ? " task" : " tasks") +
                " on heterogeneous objects failed, and nobody asked: call wait_all, or a task's wait");
  release();
}

void runtime::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

std::size_t runtime::device_called(std::string_view id) const {
  std::string there;
  for (std::size_t d = 0; d < infos_.size(); ++d) {
    if (infos_[d].id == id) return d;
    there += (d == 0 ? "" : ", ") + infos_[d].id;
  }
  throw error(errc::not_found, "there is no device '" + std::string(id) + "'", "there are: " + there);
}

bool runtime::in_driver() const noexcept {
  return std::any_of(drivers_.begin(), drivers_.end(), [](const auto& d) { return d && d->is_here(); });
}

std::byte* runtime::allocate_host(std::size_t bytes) {
  constexpr std::size_t most = std::size_t{1} << 47; // of a process; sanitizers take it ill to be asked for more
  if (bytes > most) throw std::bad_alloc();
  if (locked_)
    if (std::byte* const p = locked_->allocate(bytes)) return p;
  // Whole pages, so that devices can use them in place.
  constexpr std::size_t page = 4096;
  const std::size_t whole = (bytes + page - 1) / page * page;
  auto* const p = static_cast<std::byte*>(std::aligned_alloc(whole >= page * 4 ? page : 64, whole));
  if (!p) throw std::bad_alloc();
  return p;
}

void runtime::free_host(std::byte* memory) noexcept {
  if (locked_ && locked_->holds(memory))
    locked_->free(memory);
  else
    std::free(memory);
}

void runtime::count_copy(direction way, std::size_t bytes) noexcept {
  if (way == direction::within) return;
  copied& c = copies_[static_cast<std::size_t>(way)];
  c.times.fetch_add(1, std::memory_order_relaxed);
  c.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

statistics runtime::counts() const {
  statistics s;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(workers()); ++i) {
    s.submitted += parts_[i].submitted.load(std::memory_order_relaxed);
    s.completed += parts_[i].completed.load(std::memory_order_relaxed);
  }
  const auto tell = [&](direction way, std::uint64_t& times, std::uint64_t& bytes) {
    times = copies_[static_cast<std::size_t>(way)].times.load(std::memory_order_relaxed);
    bytes = copies_[static_cast<std::size_t>(way)].bytes.load(std::memory_order_relaxed);
  };
  tell(direction::to_device, s.copies_to_devices, s.bytes_to_devices);
  tell(direction::from_device, s.copies_from_devices, s.bytes_from_devices);
  tell(direction::between, s.copies_between_devices, s.bytes_between_devices);
  const std::lock_guard hold(policy_lock_);
  for (std::size_t d = 0; d < infos_.size(); ++d)
    s.devices.push_back({infos_[d].id, tasks_of_[d], drivers_[d] ? drivers_[d]->bytes_held() : 0});
  return s;
}

} // namespace detail
} // namespace tern::hetero
