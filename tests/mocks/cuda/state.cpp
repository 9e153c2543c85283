// SPDX-License-Identifier: Apache-2.0
// What the mock driver keeps, how it is configured, and what is told at the end of the process.
#include <cstdio>
#include <cstdlib>

#include <pthread.h>
#include <unistd.h>

#include "state.hpp"

namespace mock {
namespace {

constexpr std::size_t most_misuses = 200; // a loop that does it wrong each time need not fill the screen

[[noreturn]] void refuse(const std::string& word) {
  std::fprintf(
      stderr,
      "mock CUDA: cannot make sense of \"%s\" in its configuration (TERN_MOCK_CUDA); there are devices=2, "
      "memory=1G, seed=7, delay=20us, capability=90, driver=13000, mode=exclusive, mode=prohibited, "
      "fail-alloc=N, fail-copy=N, fail-launch=N, fail-graph=N, fault-kernel=N, lose=N, fail-context, no-init, "
      "call=1us, start=5us, kernel=10us, bandwidth=16G, no-peers, memlock=1M, most-items=512, sticky, by-itself, "
      "quiet, lenient\n",
      word.c_str());
  std::abort();
}

std::uint64_t number_in(const std::string& word, const std::string& text, std::string& unit) {
  std::size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0 || digits > 18) refuse(word);
  unit = text.substr(digits);
  return std::stoull(text.substr(0, digits));
}

void parse_word(const std::string& word, settings& to) {
  const std::size_t equals = word.find('=');
  const std::string name = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
  const auto flag = [&](const char* of, bool& set) {
    if (name != of || equals != word.npos) return false;
    return set = true;
  };
  if (flag("fail-context", to.fail_context) || flag("no-init", to.no_init) || flag("quiet", to.quiet) ||
      flag("lenient", to.lenient) || flag("sticky", to.sticky) || flag("by-itself", to.by_itself))
    return;
  bool without = false;
  if (flag("no-peers", without)) {
    to.peers = false;
    return;
  }
  if (equals == word.npos) refuse(word);
  if (name == "mode") {
    to.mode = value == "exclusive"    ? cu::compute_mode_exclusive
              : value == "prohibited" ? cu::compute_mode_prohibited
                                      : 0;
    if (to.mode == 0) refuse(word);
    return;
  }
  std::string unit;
  const std::uint64_t n = number_in(word, value, unit);
  if (name == "memory" || name == "memlock" || name == "bandwidth") {
    const int shift = unit.empty() ? 0 : unit == "k" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
    if (shift < 0) refuse(word);
    (name == "memory" ? to.memory : name == "memlock" ? to.memlock : to.bandwidth) = n << shift;
    return;
  }
  std::int64_t* const time = name == "delay"    ? &to.delay
                             : name == "call"   ? &to.call_time
                             : name == "start"  ? &to.start_time
                             : name == "kernel" ? &to.kernel_time
                                                : nullptr;
  if (time) {
    const std::int64_t scale = unit == "ns" || n == 0 ? 1
                               : unit == "us"         ? 1000
                               : unit == "ms"         ? 1000000
                               : unit == "s"          ? 1000000000
                                                      : 0;
    if (scale == 0) refuse(word);
    *time = static_cast<std::int64_t>(n) * scale;
    return;
  }
  if (!unit.empty()) refuse(word);
  const auto whole = [&](const char* of, auto& set, std::uint64_t least, std::uint64_t most) {
    if (name != of) return false;
    if (n < least || n > most) refuse(word);
    set = static_cast<std::remove_reference_t<decltype(set)>>(n);
    return true;
  };
  constexpr std::uint64_t any = ~std::uint64_t{0};
  if (!(whole("devices", to.devices, 0, 64) || whole("seed", to.seed, 0, any) ||
        whole("most-items", to.most_items, 1, 1024) || whole("capability", to.capability, 10, 255) ||
        whole("driver", to.driver, 1000, 99999) || whole("fail-alloc", to.fail_alloc, 1, any) ||
        whole("fail-copy", to.fail_copy, 1, any) || whole("fail-launch", to.fail_launch, 1, any) ||
        whole("fail-graph", to.fail_graph, 1, any) || whole("fault-kernel", to.fault_kernel, 1, any) ||
        whole("lose", to.lose, 1, any)))
    refuse(word);
}

// Kept until the process has ended: its other threads may still call.
state* only = nullptr;

void begin(const char* text) {
  const std::uint64_t generation = only ? only->generation + 1 : 1;
  const handle given = only ? only->given : 0;
  if (!only) only = new state;
  *only = state{};
  only->set = parse(text);
  only->generation = generation;
  only->given = given;
  only->random.seed(only->set.seed);
  only->devices.resize(static_cast<std::size_t>(only->set.devices));
}

template <class T> std::string counted(std::size_t n, const T& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

// Erases those of a device. \return how many there were
template <class M> std::size_t drop_from(M& all, int device) {
  return std::erase_if(all, [device](const auto& one) { return one.second->device == device; });
}

} // namespace

settings parse(const char* text) {
  settings made;
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    parse_word(rest.substr(0, comma), made);
    rest = comma == rest.npos ? "" : rest.substr(comma + 1);
  }
  return made;
}

std::mutex& global_mutex() {
  static auto* const one = new std::mutex; // lives as long as the state
  return *one;
}

state& global() {
  if (!only) begin(std::getenv("TERN_MOCK_CUDA"));
  return *only;
}

void reset(const char* text) {
  for (const auto& [at, one] : global().memory) unmap_memory(at, one.bytes);
  begin(text);
}

std::string hex(std::uint64_t n) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(n));
  return text;
}

std::string gone(const state& s, handle number) {
  return number == 0 ? "none" : number <= s.given ? "destroyed" : "unknown";
}

void drop(state& s, int device) {
  std::string left;
  const auto add = [&left](std::size_t n, const char* what) {
    if (n > 0) left += (left.empty() ? "" : ", ") + counted(n, what);
  };
  if (device < 0) {
    add(s.graphs.size(), "graph");
    s.graphs.clear();
    if (!left.empty()) s.misuse.push_back("not destroyed at the end: " + left);
    return;
  }
  mock::device& d = s.devices[static_cast<std::size_t>(device)];
  if (d.lost == 0)
    while (advance(s, 1000) > 0) {
    }
  std::size_t allocations = 0, bytes = 0;
  std::string first;
  for (auto one = s.memory.begin(); one != s.memory.end();) {
    if (one->second.device != device) {
      ++one;
      continue;
    }
    ++allocations;
    bytes += one->second.bytes;
    if (first.empty())
      first = "allocation " + std::to_string(one->second.serial) + " of " + std::to_string(one->second.bytes);
    unmap_memory(one->first, one->second.bytes);
    one = s.memory.erase(one);
  }
  if (allocations > 0)
    left = counted(allocations, "allocation") + " not freed, " + std::to_string(bytes) + " bytes (" + first + ")";
  std::size_t streams = 0;
  for (const auto& [number, one] : s.streams) streams += one->device == device && !one->destroyed && one != d.usual;
  drop_from(s.streams, device);
  add(streams, "stream");
  add(drop_from(s.events, device), "event");
  std::erase_if(s.modules, [device](const auto& one) { return one.second->kept && one.second->device == device; });
  add(drop_from(s.modules, device), "module");
  add(drop_from(s.executables, device), "executable graph");
  add(std::erase_if(s.registered, [device](const auto& one) { return one.second.device == device; }),
      "registered host memory");
  const std::string name = "device " + std::to_string(device);
  // Of a lost one nothing can be given back.
  if (!left.empty() && d.lost == 0)
    s.misuse.push_back(name + ": its context ended with what was not given back: " + left);
  const cu::result stays = s.set.sticky ? d.lost : cu::success;
  d = mock::device{};
  d.lost = stays;
}

namespace {

// A test that leaves something behind fails, also if it does not ask for misuse.
__attribute__((destructor)) void at_exit() {
  std::unique_lock lock(global_mutex());
  if (!only) return;
  state& s = *only;
  if (s.set.quiet) return;
  for (int d = 0; d < static_cast<int>(s.devices.size()); ++d) {
    const mock::device& one = s.devices[static_cast<std::size_t>(d)];
    if (one.retains == 0) continue;
    s.misuse.push_back("device " + std::to_string(d) + ": its primary context was not released at the end, retained " +
                       counted(static_cast<std::size_t>(one.retains), "time"));
    drop(s, d);
  }
  drop(s, -1);
  if (s.misuse.empty()) return;
  std::fflush(nullptr);
  for (const std::string& one : s.misuse) std::fprintf(stderr, "mock CUDA: %s\n", one.c_str());
  std::fflush(stderr);
  _exit(86);
}

} // namespace

// ---- calls

void note_stack(state& s) {
  pthread_attr_t here;
  void* low = nullptr;
  std::size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &here) != 0) return;
  pthread_attr_getstack(&here, &low, &bytes);
  pthread_attr_destroy(&here);
  const std::uintptr_t at = address(__builtin_frame_address(0)); // address: where the stack is
  if (at < address(low) || at >= address(low) + bytes) ++s.counted.on_fibers;
}

handle& current_context(const state& s) {
  static thread_local std::uint64_t generation = 0;
  static thread_local handle current = 0;
  if (generation != s.generation) generation = s.generation, current = 0;
  return current;
}

call::call(const char* name, needs what) : s((lock_ = std::unique_lock(global_mutex()), global())), name_(name) {
  ++s.counted.calls;
  ++s.calls.try_emplace(name).first->second;
  s.clock += s.set.call_time;
  if (what == needs::nothing) return;
  if (!s.initialized) {
    failed = misuse(not_initialized, "cuInit has not succeeded");
    return;
  }
  if (what == needs::init) return;
  const handle context = current_context(s);
  if (context == 0) {
    failed = misuse(invalid_context, "no context is current in this thread");
    return;
  }
  for (std::size_t d = 0; d < s.devices.size(); ++d)
    if (s.devices[d].context == context) at = static_cast<int>(d);
  if (at < 0) {
    failed = misuse(context_is_destroyed, "the context that is current in this thread has been destroyed");
    return;
  }
  if (what == needs::context) failed = status();
}

call::~call() {
  if (s.set.by_itself && s.initialized) go_on();
  close_memory(s);
}

cu::result call::status() {
  if (at < 0) return 0;
  if (here().lost) here().told = true;
  return here().lost;
}

cu::result call::misuse(cu::result r, const std::string& what, bool can_go_on) {
  if (s.misuse.size() < most_misuses) s.misuse.push_back(std::string(name_) + ": " + what);
  return can_go_on && s.set.lenient ? cu::success : r;
}

std::shared_ptr<stream> call::find_stream(cu::stream h) {
  const handle number = number_of(h);
  std::shared_ptr<stream> found;
  if (number == 0 && at >= 0) {
    if (!here().usual) {
      here().usual = std::make_shared<stream>();
      here().usual->device = at;
      here().usual->number = ++s.given;
      s.streams.emplace(here().usual->number, here().usual);
    }
    return here().usual;
  }
  if (const auto one = s.streams.find(number); one != s.streams.end() && !one->second->destroyed) found = one->second;
  if (!found) {
    failed = misuse(invalid_handle, "the stream " + hex(number) + " is " + gone(s, number));
  } else if (at >= 0 && found->device != at) {
    failed = misuse(invalid_context, "the stream " + hex(number) + " is of device " + std::to_string(found->device) +
                                         ", and the context of device " + std::to_string(at) + " is current");
    found = nullptr;
  }
  return found;
}

std::shared_ptr<event> call::find_event(cu::event h, bool of_this_device) {
  const auto found = s.events.find(number_of(h));
  if (found == s.events.end()) {
    failed = misuse(invalid_handle, "the event " + hex(number_of(h)) + " is " + gone(s, number_of(h)));
    return nullptr;
  }
  if (of_this_device && found->second->device != at) {
    failed = misuse(invalid_handle, "the event " + hex(number_of(h)) + " is of device " +
                                        std::to_string(found->second->device) + ", and the context of device " +
                                        std::to_string(at) + " is current");
    return nullptr;
  }
  return found->second;
}

bool call::forbidden_in_capture() {
  for (const auto& weak : s.captures)
    if (const auto one = weak.lock();
        one && !one->over && one->mode != 2 && (one->mode == 0 || one->thread == std::this_thread::get_id())) {
      one->broken = true;
      failed = misuse(capture_unsupported, "this is not allowed while operations are captured");
      return true;
    }
  return false;
}

} // namespace mock

MOCK_EXPORT void tern_mock_cuda_configure(const char* text) {
  const std::unique_lock lock(mock::global_mutex());
  mock::reset(text);
}

MOCK_EXPORT void tern_mock_cuda_counters(tern_mock_counters* to) {
  const std::unique_lock lock(mock::global_mutex());
  const mock::state& s = mock::global();
  *to = s.counted;
  for (const mock::device& d : s.devices) {
    to->live_contexts += d.retains > 0;
    to->live_bytes += d.used;
    to->live_streams -= d.usual != nullptr;
  }
  for (const auto& [number, one] : s.streams) {
    to->live_streams += !one->destroyed;
    to->pending += one->pending.size();
  }
  to->live_events = s.events.size();
  to->live_modules = s.modules.size();
  to->live_graphs = s.graphs.size() + s.executables.size();
  to->live_registrations = s.registered.size();
  to->live_allocations = s.memory.size();
  to->misuses = s.misuse.size();
}

MOCK_EXPORT const char* tern_mock_cuda_misuse(void) {
  static thread_local std::string text;
  const std::unique_lock lock(mock::global_mutex());
  text.clear();
  for (const std::string& one : mock::global().misuse) text += (text.empty() ? "" : "\n") + one;
  return text.c_str();
}

MOCK_EXPORT std::uint64_t tern_mock_cuda_calls(const char* name) {
  const std::unique_lock lock(mock::global_mutex());
  const auto& all = mock::global().calls;
  const auto found = all.find(name);
  return found == all.end() ? 0 : found->second;
}

MOCK_EXPORT std::int64_t tern_mock_cuda_clock(void) {
  const std::unique_lock lock(mock::global_mutex());
  return mock::global().clock;
}

MOCK_EXPORT void tern_mock_cuda_keep(std::uint64_t module) {
  const std::lock_guard hold(mock::global_mutex());
  if (const auto found = mock::global().modules.find(module); found != mock::global().modules.end())
    found->second->kept = true;
}

MOCK_EXPORT void tern_mock_cuda_forget_misuse(void) {
  const std::unique_lock lock(mock::global_mutex());
  mock::global().misuse.clear();
}
