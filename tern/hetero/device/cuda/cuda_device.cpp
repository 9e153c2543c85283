// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/cuda/cuda_device.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/device/settings.hpp>
#include <tern/hetero/memory/pinned_memory.hpp>
#include <tern/hetero/record/task_record.hpp>
#include <tern/hetero/variants.hpp>

namespace tern::hetero::detail {

bool is_for_good(cu::result r) noexcept {
  constexpr cu::result all[] = {4 /*deinitialized*/,
                                201 /*invalid context*/,
                                214 /*memory that cannot be corrected*/,
                                220 /*NVLink*/,
                                226 /*contained error*/,
                                700 /*illegal address*/,
                                702 /*launch timed out*/,
                                709 /*context destroyed*/,
                                710 /*assertion*/,
                                714 /*hardware stack*/,
                                715 /*illegal instruction*/,
                                716 /*misaligned address*/,
                                717 /*address space*/,
                                718 /*program counter*/,
                                719 /*launch failed*/,
                                721 /*tensor memory leak*/,
                                806 /*MPS: server failed*/,
                                810 /*MPS: client ended*/,
                                911 /*external device*/,
                                999 /*unknown*/};
  return std::find(std::begin(all), std::end(all), r) != std::end(all);
}

namespace {

std::string quoted(const char* name) { return "'" + std::string(name) + "'"; }

/// Devices whose contexts an error has broken, and which: the primary context is one for the
/// process, so another scheduler of it meets the same one. Thread-safe.
class broken_contexts {
public:
  static void note(cu::device d, const std::string& why) {
    state& s = one();
    const std::lock_guard hold(s.lock);
    s.of.emplace(d, why); // the first is the cause
  }
  static void forget(cu::device d) {
    state& s = one();
    const std::lock_guard hold(s.lock);
    s.of.erase(d);
  }
  static std::string why(cu::device d) {
    state& s = one();
    const std::lock_guard hold(s.lock);
    const auto found = s.of.find(d);
    return found == s.of.end() ? "by something outside of Tern" : found->second;
  }

private:
  struct state {
    std::mutex lock;
    std::map<cu::device, std::string> of;
  };
  static state& one() {
    static auto& s = *new state; // never destroyed: runtimes may end after static objects have
    return s;
  }
};

// In whichever thread needs memory.
class visit { // the thread may belong to other code, with a context of its own
public:
  explicit visit(const cuda_target& target) noexcept : api_(target.api) {
    there_ = api_.CtxGetCurrent(&before_) == cu::success && api_.CtxSetCurrent(target.context) == cu::success;
  }
  ~visit() {
    if (there_) api_.CtxSetCurrent(before_);
  }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  explicit operator bool() const noexcept { return there_; }

private:
  const cuda_api& api_;
  cu::context before_ = nullptr;
  bool there_ = false;
};
bool lock_pages(void* owner, void* at, std::size_t bytes) noexcept {
  const auto& target = *static_cast<const cuda_target*>(owner);
  const visit in(target);
  if (!in) return false;
  const cu::result r = target.api.MemHostRegister(at, bytes, cu::host_register_portable);
  if (r == cu::success) return true;
  static std::atomic_flag said;
  if (!said.test_and_set(std::memory_order_relaxed)) { // once: a decision for all later slabs is likely the same
    try {
      log_warning(target.title() + " cannot page-lock " + std::to_string(bytes >> 20) +
                  " MiB of the host's memory: " + target.api.text_of(r) + "; " + pages_not_locked);
    } catch (const std::exception&) { // no memory for the text
    }
  }
  return false;
}
void unlock_pages(void* owner, void* at) noexcept {
  const auto& target = *static_cast<const cuda_target*>(owner);
  if (const visit in(target); in) target.api.MemHostUnregister(at);
}

} // namespace

// The device and what went wrong with it ------------------------------------------------------------------------------

cuda_target::~cuda_target() {
  if (!context) return;
  cu::context now = nullptr;
  if (api.CtxGetCurrent(&now) == cu::success && now == context) api.CtxSetCurrent(nullptr);
  api.DevicePrimaryCtxRelease(number);
}

std::string cuda_target::title() const { return info.id + " (" + info.name + ")"; }

void cuda_target::fail(cu::result r, const std::string& operation, std::string hint) {
  if (is_for_good(r)) lose(r, operation);
  std::string text = title() + " cannot " + operation + ": " + api.text_of(r);
  throw error(r == cu::out_of_memory ? errc::out_of_memory : errc::device_failed, std::move(text), std::move(hint));
}

void cuda_target::lose(cu::result r, const std::string& operation) {
  lost = title() + " cannot " + operation + ": " + api.text_of(r);
  if (is_for_good(r)) broken_contexts::note(number, lost);
  tell_loss();
}

void cuda_target::tell_loss() const {
  throw error(errc::device_lost, lost, "what it alone had is gone; run without it: --tern-hetero-devices");
}

void cuda_target::enter_anew() {
  enter_elsewhere();
  is_current = tells_resumption;
}

void cuda_target::enter_elsewhere() {
  alive();
  if (!context) [[unlikely]]
    throw error(errc::invalid_state, title() + " has not been opened");
  check(api.CtxSetCurrent(context), "make its context the thread's");
}

cuda_device::cuda_device(std::unique_ptr<cuda_target> target, const nvrtc_api& nvrtc, const std::string& why_none,
                         const options& opts, std::shared_ptr<pinned_memory> host)
    : target_(std::move(target)), switches_(switches_of(opts)),
      ways_(nvrtc, why_none, kernel_cache(opts), target_->capability, opts[hetero_fma]), nvml_(nvml_libraries(opts)),
      host_(std::move(host)), wanted_(bytes_in(opts[hetero_memory])),
      share_(share_of_memory(static_cast<std::size_t>(target_->info.memory_bytes), opts, target_->own)),
      limit_(wanted_.value_or(share_)), programs_(std::make_unique<cuda_programs>(*target_, ways_)),
      graphs_(std::make_unique<cuda_graphs>(*target_)), timer_(std::make_unique<cuda_timer>(*target_)),
      stream_count_(2 + opts[hetero_queues]), queues_(*target_, *timer_) {}

void cuda_device::open() {
  cuda_target& t = *target_;
  t.alive();
  if (t.context) return;
  const auto check = [&](cu::result r, const char* operation) {
    if (r == cu::success) return;
    const std::string earlier = is_for_good(r) ? broken_contexts::why(t.number) : std::string();
    t.lost =
        t.title() + " cannot be opened: it cannot " + operation + ": " + t.api.text_of(r) +
        (r == cu::out_of_memory   ? "; other programs have its memory (nvidia-smi)"
         : r == cu::not_available ? "; another program may have it for itself (nvidia-smi)"
         : !earlier.empty() ? "; its context is one for the whole process, and has been broken for good: " + earlier +
                                  "; start the program again to use the device"
                            : "");
    t.alive();
  };
  cu::result made = cu::success;
  on_thread_stack([&] { made = t.api.DevicePrimaryCtxRetain(&t.context, t.number); });
  check(made, "make a context");
  check(t.api.CtxSetCurrent(t.context), "enter its context");
  std::size_t unused = 0, all = 0;
  check(t.api.MemGetInfo(&unused, &all), "tell its memory");
  broken_contexts::forget(t.number); // it has recovered
  limit_ = std::min(wanted_.value_or(std::min(unused - unused / 10, share_)), all);
  constexpr std::size_t granule = std::size_t{2} << 20; // the driver gives no less
  const bool little = limit_ < 64 * granule;            // for tests
  constexpr std::size_t least = 8 * granule;
  if (!wanted_ && limit_ < least) {
    t.lost = t.title() + " cannot be opened: of its " + std::to_string(all >> 20) + " MiB only " +
             std::to_string(unused >> 20) +
             " are free, too little to work with; other programs have its memory (nvidia-smi)";
    t.alive();
  }
  if (!little) limit_ -= limit_ % granule;
  block_pool_settings how{.granule = granule, .limit = limit_};
  if (little) {
    how.granule = how.alignment;
    how.first_slab = limit_ / 8;
  }
  pool_ = std::make_unique<block_pool>(static_cast<slab_source&>(*this), how);
  t.evict = [this] {
    const bool any = pool_->bytes_idle() > 0;
    pool_->trim();
    return any;
  };
  queues_.open(switches_.streams ? static_cast<std::size_t>(stream_count_) + 2 : 1);
  for (std::size_t n = 0; n < queues_.size(); ++n)
    check(t.api.StreamCreateWithPriority(&queues_[n].handle, cu::stream_non_blocking, 0), "make a stream");
  if (host_ && switches_.pinned) host_->lock_with({&lock_pages, &unlock_pages, target_.get()});
}

cuda_device::~cuda_device() {
  const cuda_api& api = target_->api;
  if (!target_->context) return;
  api.CtxSetCurrent(target_->context);
  queues_.wait_for_all(); // copies write into memory of the host, which is not ours
  if (host_) host_->stop_locking(target_.get());
  graphs_.reset();
  timer_.reset();
  programs_.reset();
  pool_.reset();
  // Then the streams, and with the target the context.
}

std::size_t cuda_device::stack_needed() const noexcept { return std::size_t{16} << 20; } // NVRTC's

cuda_device::queue& cuda_device::at(int stream, bool waits) {
  if (stream < 0 || stream >= streams() + (waits ? 2 : 0)) [[unlikely]]
    throw error(errc::invalid_argument, target_->title() + " has the streams 0 to " + std::to_string(streams() - 1) +
                                            ", but not " + std::to_string(stream));
  return queues_[switches_.streams ? static_cast<std::size_t>(stream) : 0];
}

void cuda_device::order(int stream, ticket t) {
  target_->enter();
  queues_.come_after(at(stream, true), t);
}

// Events of one context can be waited for in another, of the same process.
bool cuda_device::waits_for(const device& other) const noexcept {
  return switches_.ahead && &other != this && dynamic_cast<const cuda_device*>(&other) != nullptr;
}

event_ref cuda_device::event(ticket t) {
  target_->enter();
  return queues_.event(t);
}

void cuda_device::mark(int stream) {
  target_->enter();
  queues_.mark(at(stream));
}

void cuda_device::resume(bool new_round) noexcept {
  target_->tells_resumption = true;
  target_->is_current = false;
  if (new_round) queues_.next_round();
}

// Memory --------------------------------------------------------------------------------------------------------------

memory_handle cuda_device::allocate(std::size_t bytes) {
  if (!target_->works()) [[unlikely]]
    target_->enter(); // says why; else the driver is asked for slabs only
  if (bytes == 0) return nullptr;
  if (switches_.pool) return reinterpret_cast<memory_handle>(pool_->allocate(bytes));
  if (bytes > limit_ - used_) return nullptr;
  const std::uintptr_t made = get(bytes);
  if (made) used_ += bytes;
  return reinterpret_cast<memory_handle>(made);
}

void cuda_device::free(memory_handle memory, std::size_t bytes) noexcept {
  if (!memory) return;
  if (switches_.pool) return pool_->free(address_of(memory));
  give_back(address_of(memory), bytes);
  used_ -= std::min(bytes, used_);
}

std::uintptr_t cuda_device::get(std::size_t bytes) {
  target_->enter();
  cu::pointer made = 0;
  const cu::result r = target_->api.MemAlloc(&made, bytes);
  if (r == cu::out_of_memory) return 0;
  if (r != cu::success) target_->fail(r, "allocate " + std::to_string(bytes) + " bytes");
  return made;
}

void cuda_device::give_back(std::uintptr_t at, std::size_t) noexcept {
  if (target_->api.CtxSetCurrent(target_->context) != cu::success) return;
  // Where the device is lost, so is its memory, and its next user gets the error.
  if (const cu::result r = target_->api.MemFree(at); is_for_good(r) && target_->lost.empty())
    target_->lost = target_->title() + " cannot free memory: " + target_->api.text_of(r);
}

// Kernels -------------------------------------------------------------------------------------------------------------

void cuda_device::prepare(const kernel_code& code) {
  target_->enter();
  programs_->get(code);
}

void cuda_device::check(const cuda_kernel& k, const launch_request& what) const {
  const device_info& i = target_->info;
  const auto refuse = [&](const std::string& why, std::string hint = {}) {
    throw error(errc::invalid_argument,
                target_->title() + " cannot launch the kernel " + quoted(what.code->name) + ": " + why,
                std::move(hint));
  };
  std::int64_t items = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const int n = what.shape.items[d], groups = what.shape.groups[d];
    const std::string in = " in " + std::string(1, "xyz"[d]);
    if (n < 1 || groups < 0)
      refuse("a grid has no " + std::to_string(groups) + " groups of " + std::to_string(n) + " items" + in);
    if (n > i.max_group[d])
      refuse("a group has " + std::to_string(n) + " items" + in + ", there it can have " +
             std::to_string(i.max_group[d]));
    if (groups > target_->most_groups[d])
      refuse("a grid has " + std::to_string(groups) + " groups" + in + ", there it can have " +
                 std::to_string(target_->most_groups[d]),
             "let x be the direction with most groups, or make the groups larger");
    items *= n;
  }
  if (items > k.max_items)
    refuse("its groups are too large: here it can have " + std::to_string(k.max_items) + " items in each",
           "launch it with more and smaller groups");
  const std::size_t shared = k.dynamic_for(what.dynamic_bytes) + static_cast<std::size_t>(k.shared_bytes);
  if (shared > static_cast<std::uint64_t>(i.local_memory_bytes))
    refuse("its groups need " + std::to_string(shared) + " bytes of shared and dynamic memory, the device has " +
           std::to_string(i.local_memory_bytes));
  if (!k.knows_sizes) return;
  if (what.arguments.size() != k.sizes.size())
    refuse("it has " + std::to_string(k.sizes.size()) + " parameters, " + std::to_string(what.arguments.size()) +
           " arguments were given");
  for (std::size_t n = 0; n < k.sizes.size(); ++n) {
    const argument& a = what.arguments[n];
    const std::size_t given = a.value ? a.bytes : sizeof(cu::pointer);
    if (given != k.sizes[n])
      refuse("its parameter " + std::to_string(n + 1) + " has " + std::to_string(k.sizes[n]) +
             " bytes, and was given " +
             (a.value ? std::to_string(given) + " bytes" : std::string("an object, an address of 8")));
  }
}

void cuda_device::call(queue& q, const launch_request& what) {
  const native_queue here{device_kind::cuda, target_->info.id.c_str(), q.handle, target_->context,
                          reinterpret_cast<void*>(static_cast<std::intptr_t>(target_->number))};
  try {
    what.call(*what.task, here, what.arguments.data());
  } catch (...) {
    target_->enter_anew();
    target_->api.StreamSynchronize(q.handle); // what has been begun works on memory that is given away now
    throw;
  }
  target_->enter_anew(); // it may have entered another
}

void cuda_device::allow_dynamic(cuda_kernel& k, const launch_request& what) {
  if (const int dynamic = static_cast<int>(k.dynamic_for(what.dynamic_bytes)); dynamic > k.dynamic_bytes) {
    if (const cu::result r = target_->api.FuncSetAttribute(k.handle, cu::function_max_dynamic_shared, dynamic);
        r != cu::success)
      target_->fail(r, "give the kernel " + quoted(what.code->name) + " " + std::to_string(dynamic) +
                           " bytes of dynamic memory");
    k.dynamic_bytes = dynamic;
  }
}

void cuda_device::prepare(const launch_request& given, cuda_launch& l) {
  cuda_kernel& k = programs_->get(*given.code);
  launch_request what = given;
  what.shape = fitted(given.shape, k.max_items, target_->info.max_group);
  check(k, what);
  if (what.code->cooperative && !target_->cooperative)
    throw error(errc::unsupported,
                target_->title() + " runs no cooperative kernels, as " + quoted(what.code->name) + " is");
  l.cooperative = what.code->cooperative;
  allow_dynamic(k, what);
  l.words.clear();
  l.begins.clear();
  l.values.clear();
  l.what.code = k.handle;
  for (std::size_t d = 0; d < 3; ++d) {
    l.what.groups[d] = static_cast<unsigned>(what.shape.groups[d]);
    l.what.items[d] = static_cast<unsigned>(what.shape.items[d]);
  }
  l.what.dynamic_bytes = static_cast<unsigned>(k.dynamic_for(what.dynamic_bytes));
  l.what.in = target_->context;
  for (const argument& a : what.arguments) {
    l.begins.push_back(static_cast<std::uint32_t>(l.words.size()));
    const std::uint64_t address = a.memory ? address_of(a.memory) + a.offset : 0;
    const std::size_t bytes = a.value ? a.bytes : sizeof address;
    l.words.resize(l.words.size() + (bytes + 7) / 8);
    std::memcpy(&l.words[l.begins.back()], a.value ? a.value : &address, bytes);
  }
  for (const std::uint32_t b : l.begins) l.values.push_back(&l.words[b]);
  l.what.values = l.values.data();
}

void cuda_device::put(queue& q, const cuda_launch& l, const char* kernel) {
  const cu::kernel_node& w = l.what;
  const cuda_api& api = target_->api;
  const cu::result r = target_->with_free_memory([&] {
    if (timer_->trouble() != cu::success) return timer_->trouble();
    if (l.cooperative)
      return api.LaunchCooperativeKernel(w.code, w.groups[0], w.groups[1], w.groups[2], w.items[0], w.items[1],
                                         w.items[2], w.dynamic_bytes, q.handle, w.values);
    return api.LaunchKernel(w.code, w.groups[0], w.groups[1], w.groups[2], w.items[0], w.items[1], w.items[2],
                            w.dynamic_bytes, q.handle, w.values, nullptr);
  });
  if (r == cu::success) [[likely]]
    return;
  const std::string kernels = queues_.under_way(); // it may be one of these that failed
  target_->fail(r,
                "launch the kernel " + quoted(kernel) +
                    (is_for_good(r) && !kernels.empty() ? " (on it were: " + kernels + ")" : ""),
                r == cu::launch_out_of_resources ? "smaller groups need less of what it has"
                : r == cu::cooperative_too_large
                    ? "all groups of a cooperative kernel are on the device at once: use fewer"
                    : "");
}

void cuda_device::come_after(queue& q, std::span<const ticket> all, std::span<const event_ref> others) {
  for (const ticket before : all) queues_.come_after(q, before);
  for (const event_ref& e : others) queues_.come_after_others(q, e);
}

ticket cuda_device::launch(int stream, const launch_request& what) {
  target_->enter();
  queue& q = at(stream);
  come_after(q, what.after, what.after_others);
  if (what.sequence) return launch_all(q, *what.sequence, what.task ? what.task->text_name() : nullptr);
  if (what.call) {
    cuda_streams::slot& s =
        queues_.reserve("run what a function has put into its stream", nullptr, what.task->text_name());
    cuda_timer::span time(*timer_, q.handle, what.timed);
    target_->check(timer_->trouble(), "run a function of its queue");
    call(q, what);
    s.timed = time.end();
    return queues_.put(q, s, true);
  }
  prepare(what, one_);
  if (what.shape.count() == 0) return 0;
  cuda_streams::slot& s =
      queues_.reserve("run the kernel", what.code->name, what.task ? what.task->text_name() : nullptr);
  cuda_timer::span time(*timer_, q.handle, what.timed);
  put(q, one_, what.code->name);
  s.timed = time.end();
  return queues_.put(q, s, false);
}

ticket cuda_device::launch_all(queue& q, const launch_sequence& all, const char* task) {
  std::vector<cuda_launch> launches;
  bool plain = !switches_.graphs || !target_->api.has_graphs();
  for (const launch_request& one : all.launches) {
    launches.emplace_back();
    if (one.call || one.shape.count() == 0 || one.code->cooperative) // what a function does is not known
      plain = true;
    if (one.call || one.shape.count() == 0) continue;
    prepare(one, launches.back());
  }
  const char* const some = all.launches.front().code ? all.launches.front().code->name : nullptr;
  cuda_streams::slot& s = queues_.reserve("run the recorded tasks that begin with the kernel", some, task);
  if (!plain && graphs_->launch(q.handle, all.number, launches, all.before, all.begins)) return queues_.put(q, s, true);
  try {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const launch_request& one = all.launches[i];
      if (one.call)
        call(q, one);
      else if (one.shape.count() > 0)
        put(q, launches[i], one.code->name);
    }
  } catch (...) {
    if (target_->lost.empty()) target_->api.StreamSynchronize(q.handle); // what has been begun goes on
    throw;
  }
  return queues_.put(q, s, true);
}

} // namespace tern::hetero::detail
