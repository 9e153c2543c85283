// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/device/simulated/simulated_device.hpp>

#include <tern/hetero/device/device_kind.hpp>
#include <tern/hetero/device/settings.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>

namespace tern::hetero::detail {
namespace {

// ---- copies

// One side of a copy: where its rows are.
struct side {
  std::size_t first, pitch, slice;
  std::size_t row(const copy_request& what, std::size_t n) const noexcept {
    return first + n / what.rows * slice + n % what.rows * pitch;
  }
};

bool is_empty(const copy_request& what) noexcept { return what.row_bytes == 0 || what.rows == 0 || what.slices == 0; }
std::size_t bytes_of(const copy_request& what) noexcept {
  return is_empty(what) ? 0 : what.row_bytes * what.rows * what.slices;
}

// One past its last byte; none if that is more than a number can hold.
std::optional<std::size_t> end_of(const copy_request& what, const side& s) noexcept {
  if (is_empty(what)) return s.first;
  std::size_t rows = 0, slices = 0, all = 0, end = 0;
  if (__builtin_mul_overflow(what.rows - 1, s.pitch, &rows) ||
      __builtin_mul_overflow(what.slices - 1, s.slice, &slices))
    return std::nullopt;
  if (__builtin_add_overflow(rows, slices, &all) || __builtin_add_overflow(all, what.row_bytes, &all) ||
      __builtin_add_overflow(all, s.first, &end))
    return std::nullopt;
  return end;
}

// Does no row begin before the one before it has ended?
bool rows_apart(const copy_request& what, const side& s) noexcept {
  if (is_empty(what)) return true;
  if (what.rows > 1 && s.pitch < what.row_bytes) return false;
  return what.slices == 1 || s.slice >= (what.rows - 1) * s.pitch + what.row_bytes;
}

// Do rows of the two share a byte? \pre both are apart, so their rows come one after the other.
bool overlap(const copy_request& what, const side& a, const side& b) noexcept {
  const std::size_t n = is_empty(what) ? 0 : what.rows * what.slices;
  for (std::size_t i = 0, j = 0; i < n && j < n;) {
    const std::size_t x = a.row(what, i), y = b.row(what, j);
    if (x + what.row_bytes <= y)
      ++i;
    else if (y + what.row_bytes <= x)
      ++j;
    else
      return true;
  }
  return false;
}

side device_side(const copy_request& what) noexcept { return {what.offset, what.pitch, what.slice}; }
side host_side(const copy_request& what) noexcept { return {0, what.host_pitch, what.host_slice}; }
side from_side(const copy_request& what) noexcept { return {what.from_offset, what.from_pitch, what.from_slice}; }

// ---- numbers

// Handles and tickets say which device they are of. A handle is no address that a processor knows.
constexpr std::uint64_t handle_mark = std::uint64_t{0x5a} << 56;
constexpr int serial_bits = 36;
constexpr std::uint64_t named(int device, std::uint64_t serial) {
  return ((static_cast<std::uint64_t>(device) + 1) << serial_bits) + serial;
}
std::int64_t device_of(std::uint64_t number) {
  return static_cast<std::int64_t>((number & ~handle_mark) >> serial_bits) - 1;
}

// None of two operations that end at the same moment waits for the later one.
std::uint64_t next_turn() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed);
}

constexpr std::byte poison{0xa5};
constexpr double longest = 1e15; // nanoseconds, of one operation

} // namespace

std::vector<std::unique_ptr<device>> open_simulated(const options& opts) {
  std::vector<std::unique_ptr<device>> all;
  auto settings = parse_simulated(opts[hetero_simulated]);
  const local_rank here = rank_on_machine(opts);
  const int count = static_cast<int>(settings.size());
  for (int n = 0; n < count; ++n) {
    if (!here.uses(n, count)) continue;
    simulated_settings& one = settings[static_cast<std::size_t>(n)];
    if (const int sharing = opts[hetero_share]; sharing > 0 && !here.divides(count))
      one.memory = std::max<std::size_t>(1, one.memory / static_cast<std::size_t>(sharing));
    all.push_back(std::make_unique<simulated_device>(n, one, opts[hetero_queues]));
  }
  return all;
}

extern const device_kind_entry simulated_kind;
constinit const device_kind_entry simulated_kind{.name = "simulated",
                                                 .order = 0,
                                                 .kind = device_kind::simulated,
                                                 .in_simulations = true,
                                                 .always = true,
                                                 .find = [](device_search& s) { return open_simulated(s.opts); }};

simulated_device::simulated_device(int number, const simulated_settings& settings, int queues)
    : number_(number), settings_(settings), free_at_(static_cast<std::size_t>(4 + std::max(queues, 1))),
      made_(settings.now()), dice_(static_cast<std::uint64_t>(number) + 1) {
  info_.kind = device_kind::simulated;
  info_.id = "simulated" + std::to_string(number);
  info_.name = "simulated device";
  info_.driver = "Tern";
  info_.memory_bytes = static_cast<std::int64_t>(settings.memory);
  info_.local_memory_bytes = static_cast<std::int64_t>(settings.unit_memory);
  info_.compute_units = settings.units;
}

// ---- what is refused

std::string simulated_device::describe(const operation& op) const {
  std::string what;
  if (op.code)
    what = "the kernel '" + std::string(op.code->name) + "'";
  else
    what = "the copy of " + std::to_string(bytes_of(op.copy)) + " bytes " +
           (op.copy.way == direction::to_device     ? "to the device"
            : op.copy.way == direction::from_device ? "from the device"
            : op.copy.way == direction::between     ? "from another device"
                                                    : "within the device");
  return info_.id + ": " + what + " in stream " + std::to_string(op.stream);
}

void simulated_device::refuse(const operation& op, const std::string& what) const {
  throw error(errc::invalid_argument, describe(op) + " " + what);
}

void simulated_device::check_usable() {
  if (misuse_) {
    const error what = std::move(*misuse_);
    misuse_.reset();
    throw what;
  }
  if (lost_)
    throw error(errc::device_lost, info_.id + " is lost", "what its memory alone had is gone; nothing more runs on it");
}

// address: a number that counts up, see detail/simulated_device.hpp
static std::uintptr_t address_of(memory_handle memory) noexcept { return reinterpret_cast<std::uintptr_t>(memory); }

std::string simulated_device::stale(memory_handle memory) const {
  const auto number = address_of(memory);
  if (!memory || (number & handle_mark) != handle_mark) return "which is no memory of simulated devices";
  if (device_of(number) != number_) return "which is memory of simulated" + std::to_string(device_of(number));
  return number <= (handle_mark | named(number_, given_)) ? "which has been freed" : "which was never allocated";
}

std::byte* simulated_device::find(memory_handle memory) const noexcept {
  const std::lock_guard hold(blocks_lock_);
  const auto found = blocks_.find(address_of(memory));
  return found == blocks_.end() ? nullptr : found->second.data.get();
}

void simulated_device::check_memory(const operation& op, const char* which, memory_handle memory,
                                    std::optional<std::size_t> end) const {
  const std::lock_guard hold(blocks_lock_);
  const auto found = blocks_.find(address_of(memory));
  if (found == blocks_.end()) refuse(op, "has " + std::string(which) + " " + stale(memory));
  if (!end || *end > found->second.bytes)
    refuse(op, "goes " + (end ? "to byte " + std::to_string(*end) : std::string("beyond all bytes")) + " of " + which +
                   ", which has " + std::to_string(found->second.bytes));
}

void simulated_device::check_copy(const operation& op) const {
  const copy_request& what = op.copy;
  const bool between = what.way == direction::between;
  if (between && (!what.source || !reaches(*what.source)))
    refuse(op, "comes from another device, which this one does not reach");
  const bool within = what.way == direction::within;
  const int needed = what.way == direction::to_device || between ? 0 : what.way == direction::from_device ? 1 : 2;
  const bool waits = op.stream == waiting_for(what.way);
  if (!waits && (within ? op.stream < needed : op.stream != needed))
    refuse(op, "belongs into stream " + std::to_string(needed) + (within ? " or a later one" : ""));
  if (!rows_apart(what, device_side(what)) || !rows_apart(what, within || between ? from_side(what) : host_side(what)))
    refuse(op, "has rows of " + std::to_string(what.row_bytes) + " bytes that overlap");
  check_memory(op, within || between ? "a destination" : "memory", what.device, end_of(what, device_side(what)));
  if (within) {
    check_memory(op, "a source", what.from, end_of(what, from_side(what)));
    if (what.from == what.device && overlap(what, device_side(what), from_side(what)))
      refuse(op, "has a source and a destination that overlap");
  } else if (between) {
    static_cast<const simulated_device*>(what.source)
        ->check_memory(op, "a source", what.from, end_of(what, from_side(what)));
  } else if (!what.host && !is_empty(what))
    refuse(op, "has no memory of the host");
}

void simulated_device::check_shape(const operation& op, std::size_t dynamic_bytes) const {
  const grid& g = op.shape;
  std::int64_t all = 1, items = 1;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::string where = std::string(" in ") + "xyz"[d];
    const int fixed = op.code->fixed_size[d];
    if (g.groups[d] < 1) refuse(op, "has " + std::to_string(g.groups[d]) + " groups" + where);
    if (g.items[d] < 1 || g.items[d] > info_.max_group[d] || (fixed != 0 && g.items[d] != fixed))
      refuse(op, "has groups of " + std::to_string(g.items[d]) + " items" + where + ", and there can be " +
                     (fixed ? "just " + std::to_string(fixed) : "1 to " + std::to_string(info_.max_group[d])));
    if (std::int64_t{g.groups[d]} * g.items[d] > std::numeric_limits<int>::max())
      refuse(op, "has more items" + where + " than an int can count");
    items *= g.items[d];
    if (__builtin_mul_overflow(all, g.groups[d], &all)) refuse(op, "has more groups than can be counted");
  }
  if (items > info_.max_group_items)
    refuse(op, "has groups of " + std::to_string(items) + " items, and there can be " +
                   std::to_string(info_.max_group_items));
  if (dynamic_bytes > settings_.unit_memory)
    refuse(op, "needs " + std::to_string(dynamic_bytes) + " bytes of dynamic memory, and a group can have " +
                   std::to_string(settings_.unit_memory));
}

// ---- memory

bool simulated_device::strikes(std::int64_t& fault) noexcept { return fault > 0 && --fault == 0; }

memory_handle simulated_device::allocate(std::size_t bytes) {
  check_usable();
  if (strikes(settings_.faults.allocation) || bytes > settings_.memory - bytes_) return nullptr;
  block b{std::unique_ptr<std::byte[], give_back>(
              static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64}, std::nothrow))),
          bytes};
  if (!b.data) return nullptr;
  std::memset(b.data.get(), static_cast<int>(poison), bytes); // what is read before it is written is seen
  const std::uint64_t name = handle_mark | named(number_, ++given_);
  {
    const std::lock_guard hold(blocks_lock_);
    blocks_.emplace(name, std::move(b));
  }
  bytes_ += bytes;
  return reinterpret_cast<memory_handle>(name); // NOLINT(performance-no-int-to-ptr): it points to nothing
}

void simulated_device::free(memory_handle memory, std::size_t bytes) noexcept {
  const auto found = blocks_.find(address_of(memory));
  if (found == blocks_.end() || found->second.bytes != bytes) {
    const std::string what =
        found == blocks_.end() ? stale(memory) : "which has " + std::to_string(found->second.bytes);
    if (!misuse_)
      misuse_.emplace(errc::invalid_argument,
                      info_.id + ": freed were " + std::to_string(bytes) + " bytes of memory " + what);
  }
  if (found == blocks_.end()) return;
  bytes_ -= found->second.bytes;
  const std::lock_guard hold(blocks_lock_);
  blocks_.erase(found); // an operation that still needs it will not find it
}

// ---- operations

simulated_device::operation simulated_device::make(int stream, const char* what, bool waits) const {
  if (stream < 0 || (stream >= streams() && !waits))
    throw error(errc::invalid_argument, info_.id + ": there is no stream " + std::to_string(stream) + " for " + what +
                                            ", only 0 to " + std::to_string(streams() - 1));
  operation op;
  op.stream = stream;
  return op;
}

ticket simulated_device::put(operation&& op, double duration) {
  op.loses = strikes(settings_.faults.lose);
  op.number = named(number_, ++given_);
  std::int64_t& free_at = free_at_[static_cast<std::size_t>(op.stream)];
  op.begin = std::max({free_at, settings_.now(), op.begin}) + op.delay;
  free_at = op.begin + std::llround(std::min(duration, longest));
  op.end = free_at;
  const ticket t = op.number;
  op.turn = next_turn();
  pending_.insert({op.end, op.turn, t});
  asked_.emplace(seen_at(op), t);
  operations_.emplace(t, std::move(op));
  return t;
}

// One that is forgotten is done, and the host knows what has become of it.
void simulated_device::come_after(operation& op, std::span<const ticket> all, std::span<const event_ref> others) {
  for (const event_ref& e : others) {
    auto end = std::dynamic_pointer_cast<const end_of_operation>(e);
    if (!end)
      throw error(errc::invalid_argument,
                  describe(op) + " is to come after something that is no operation of its kind");
    op.begin = std::max(op.begin, end->end);
    op.delay += std::llround(settings_.waits);
    op.elsewhere.push_back(std::move(end));
  }
  std::vector<int> streams; // in which there is one to wait for
  for (const ticket t : all) {
    if (device_of(t) != number_ || t > named(number_, given_))
      throw error(errc::invalid_argument, describe(op) + " is to come after something that is no operation of it");
    const auto found = operations_.find(t);
    if (found == operations_.end()) continue;
    const operation& before = found->second;
    op.after.push_back(t);
    op.skipped = op.skipped || before.failure || before.skipped;
    if (before.stream == op.stream || before.finished) continue;
    op.begin = std::max(op.begin, before.end);
    if (std::find(streams.begin(), streams.end(), before.stream) != streams.end()) continue;
    streams.push_back(before.stream);
    op.delay += std::llround(settings_.waits);
  }
}

void simulated_device::skip_what_follows(const operation& op) noexcept {
  for (const ending& e : pending_)
    if (operation& later = operations_.at(e.number);
        std::find(later.after.begin(), later.after.end(), op.number) != later.after.end())
      later.skipped = true;
}

ticket simulated_device::copy(int stream, const copy_request& what) {
  check_usable();
  operation op = make(stream, "a copy", stream == waiting_for(what.way));
  op.copy = what;
  op.copy.after = {}; // they are the caller's
  op.copy.after_others = {};
  check_copy(op);
  come_after(op, what.after, what.after_others);
  op.fails = strikes(settings_.faults.copy);
  simulated_counters::copies& count = what.way == direction::to_device     ? counted_.to_device
                                      : what.way == direction::from_device ? counted_.from_device
                                      : what.way == direction::between     ? counted_.between
                                                                           : counted_.within;
  ++count.count;
  count.bytes += bytes_of(what);
  return put(std::move(op), copy_nanoseconds(what.way, bytes_of(what)));
}

double simulated_device::copy_nanoseconds(direction way, std::size_t bytes) const noexcept {
  const double bandwidth = way == direction::between ? settings_.peer_bandwidth : settings_.bandwidth;
  const bool limited = way != direction::within && bandwidth > 0;
  return settings_.latency + (limited ? static_cast<double>(bytes) / bandwidth * 1e9 : 0);
}

simulated_device::operation simulated_device::kernel(int stream, const launch_request& what) {
  operation op = make(stream, "a kernel");
  if (!what.code || !what.code->run)
    throw error(errc::invalid_argument, info_.id + ": a kernel without code was launched");
  op.code = what.code;
  op.shape = what.shape;
  if (stream < 2) refuse(op, "belongs into stream 2 or a later one");
  check_shape(op, what.dynamic_bytes);
  op.at.reserve(what.arguments.size());
  op.references.reserve(what.arguments.size());
  std::size_t lines = 0;
  for (const argument& a : what.arguments) {
    const std::string which = "parameter " + std::to_string(op.at.size());
    if (a.memory) {
      check_memory(op, which.c_str(), a.memory, a.offset == SIZE_MAX ? std::nullopt : std::optional(a.offset + 1));
      op.references.push_back({op.at.size(), a.memory, a.offset});
    } else if (!a.value || a.bytes == 0)
      refuse(op, "has neither a value nor memory as " + which);
    op.at.push_back(lines);
    lines += a.memory ? 1 : (a.bytes + sizeof(line) - 1) / sizeof(line);
  }
  op.values.resize(lines);
  for (std::size_t i = 0; i < op.at.size(); ++i)
    if (!what.arguments[i].memory) std::memcpy(&op.values[op.at[i]], what.arguments[i].value, what.arguments[i].bytes);
  op.dynamic.resize((what.dynamic_bytes + sizeof(line) - 1) / sizeof(line));
  if (!op.dynamic.empty()) std::memset(op.dynamic.data(), static_cast<int>(poison), op.dynamic.size() * sizeof(line));
  come_after(op, what.after, what.after_others);
  op.fails = strikes(settings_.faults.kernel);
  return op;
}

double simulated_device::work(const operation& op) const noexcept {
  double items = static_cast<double>(op.shape.count());
  for (const int n : op.shape.items) items *= n;
  return items * settings_.item / settings_.speed;
}

double simulated_device::unsteady(const kernel_code* code, double duration) {
  const unsteady_times& u = settings_.unsteady;
  if (u.noise > 0) duration *= std::max(0.1, std::normal_distribution<>(1, u.noise)(dice_));
  if (u.outlier_share > 0 && std::uniform_real_distribution<>(0, 1)(dice_) < u.outlier_share)
    duration *= u.outlier_factor;
  if (u.first_factor != 1 && warm_.insert(code).second) duration *= u.first_factor;
  if (u.drift_factor != 1 && static_cast<double>(settings_.now() - made_) >= u.drift_at) duration *= u.drift_factor;
  return duration;
}

ticket simulated_device::launch(int stream, const launch_request& what) {
  check_usable();
  operation op = kernel(stream, what);
  ++counted_.launches;
  const double duration = unsteady(what.code, settings_.launch + work(op));
  return put(std::move(op), duration);
}

std::size_t simulated_device::fuses(const launch_request& what) const noexcept {
  const std::int64_t most = std::int64_t{4} * settings_.units;
  return what.shape.count() <= most ? static_cast<std::size_t>(settings_.fuse) : 0;
}

ticket simulated_device::launch_fused(int stream, std::span<const launch_request> all) {
  check_usable();
  operation op = kernel(stream, all.front());
  double duration = settings_.launch + work(op);
  op.others.reserve(all.size() - 1);
  for (const launch_request& other : all.subspan(1)) {
    op.others.push_back(kernel(stream, other));
    duration += work(op.others.back());
    op.fails = op.fails || op.others.back().fails;
  }
  ++counted_.launches;
  return put(std::move(op), unsteady(all.front().code, duration));
}

void simulated_device::order(int stream, ticket t) {
  check_usable();
  const operation op = make(stream, "an order", stream == waiting_stream() || stream == waiting_stream_in());
  if (t == 0) return;
  if (device_of(t) != number_ || t > named(number_, given_))
    throw error(errc::invalid_argument, info_.id + ": stream " + std::to_string(stream) +
                                            " is ordered after something that is no operation of it");
  // One that is forgotten is done.
  if (const auto found = operations_.find(t); found != operations_.end()) {
    std::int64_t& free_at = free_at_[static_cast<std::size_t>(op.stream)];
    if (found->second.end > settings_.now())
      free_at = std::max(free_at, found->second.end) + std::llround(settings_.waits);
  }
}

event_ref simulated_device::event(ticket t) {
  check_usable();
  const auto found = operations_.find(t);
  if (found == operations_.end()) return nullptr;
  operation& op = found->second;
  if (!op.told) {
    op.told = std::make_shared<end_of_operation>(op.end);
    if (op.finished) tell(op, !op.failure && !op.skipped);
  }
  return op.told;
}

void simulated_device::tell(const operation& op, bool is_done) noexcept {
  if (op.told && op.told->is.load(std::memory_order_relaxed) == end_of_operation::under_way)
    op.told->is.store(is_done ? end_of_operation::done : end_of_operation::not_done, std::memory_order_release);
}

const simulated_device& simulated_device::source_of(const copy_request& what) const noexcept {
  return what.way == direction::between ? *static_cast<const simulated_device*>(what.source) : *this;
}

bool simulated_device::reaches(const device& from) const noexcept {
  return settings_.peer_bandwidth > 0 && &from != this && from.info().kind == device_kind::simulated;
}

void simulated_device::move(const operation& op) const {
  const copy_request& what = op.copy;
  std::byte* const memory = find(what.device);
  const bool on_host = is_of_host(what.way);
  const side here = device_side(what), there = on_host ? host_side(what) : from_side(what);
  std::byte* const other = on_host ? what.host : source_of(what).find(what.from);
  for (std::size_t n = 0; n < what.rows * what.slices; ++n) {
    std::byte *const a = memory + here.row(what, n), *const b = other + there.row(what, n);
    if (what.way == direction::from_device)
      std::memcpy(b, a, what.row_bytes);
    else
      std::memcpy(a, b, what.row_bytes);
  }
}

void simulated_device::compute(operation& op) const {
  for (const reference& r : op.references) {
    void* const at = find(r.memory) + r.offset;
    std::memcpy(&op.values[op.at[r.parameter]], &at, sizeof at);
  }
  std::vector<const void*> values;
  values.reserve(op.at.size());
  for (const std::size_t at : op.at) values.push_back(&op.values[at]);
  op.code->run(op.code->kernel, op.shape, 0, op.shape.count(), reinterpret_cast<char*>(op.dynamic.data()),
               values.data());
}

bool simulated_device::memory_is_there(const operation& op) const {
  const auto there = [this](memory_handle m) { return find(m) != nullptr; };
  if (op.code)
    return std::all_of(op.references.begin(), op.references.end(), [&](const reference& r) { return there(r.memory); });
  return there(op.copy.device) && (is_of_host(op.copy.way) || source_of(op.copy).find(op.copy.from));
}

void simulated_device::perform(operation& op) {
  op.finished = true;
  const bool there = memory_is_there(op) && std::all_of(op.others.begin(), op.others.end(),
                                                        [this](const operation& o) { return memory_is_there(o); });
  if (op.skipped) {
    // nothing is done
  } else if (!there) {
    op.failure.emplace(errc::invalid_argument, describe(op) + " was not done yet when its memory was freed");
  } else if (!op.code && source_of(op.copy).lost()) {
    op.failure.emplace(errc::device_failed, describe(op) + " failed, as " + source_of(op.copy).info_.id + " was lost");
  } else if (op.fails) {
    op.failure.emplace(errc::device_failed, describe(op) + " failed",
                       std::string("it was to: ") + (op.code ? "fail-kernel" : "fail-copy"));
  } else if (op.code) {
    compute(op);
    for (operation& other : op.others) compute(other);
  } else if (!is_empty(op.copy)) {
    move(op);
  }
  if (op.failure || op.skipped) skip_what_follows(op);
  tell(op, !op.failure && !op.skipped);
  op.values.clear();
  op.dynamic.clear();
  op.others.clear();
}

void simulated_device::progress() {
  const std::int64_t now = settings_.now();
  while (!pending_.empty() && pending_.begin()->at <= now) {
    operation& op = operations_.at(pending_.begin()->number);
    for (const auto& other : op.elsewhere) { // acquire: what it wrote
      const auto is = other->is.load(std::memory_order_acquire);
      if (is == end_of_operation::under_way) return;
      op.skipped = op.skipped || is == end_of_operation::not_done;
    }
    if (op.loses || (op.fails && op.code && !settings_.skip)) return lose();
    pending_.erase(pending_.begin());
    perform(op);
  }
}

void simulated_device::forget(ticket t) noexcept {
  if (const auto found = operations_.find(t); found != operations_.end()) {
    tell(found->second, false); // unless it has been told
    pending_.erase({found->second.end, found->second.turn, t});
    asked_.erase({seen_at(found->second), t});
    operations_.erase(found);
  }
}

bool simulated_device::done(ticket t) {
  if (!lost_) progress();
  if (misuse_ || lost_) {
    forget(t);
    check_usable();
  }
  if (t == 0) return true;
  const auto found = operations_.find(t);
  if (found == operations_.end())
    throw error(errc::invalid_argument,
                info_.id + ": was asked for an operation that is not its own, or that is forgotten");
  if (!found->second.finished || seen_at(found->second) > settings_.now()) return false;
  took_ = found->second.end - found->second.begin;
  const std::optional<error> failure = std::move(found->second.failure);
  const bool skipped = found->second.skipped;
  forget(t);
  if (failure) throw *failure;
  if (skipped) throw predecessor_failed();
  return true;
}

// What could be seen before, and has not been asked for, need not be soon.
// Others may wait for what its owner does not ask for: not until these have ended, say.
std::int64_t simulated_device::poll_delay() noexcept {
  if (!lost_) progress();
  const std::int64_t now = settings_.now();
  for (const auto& [seen, t] : asked_) {
    if (seen > now) return seen - now;
    if (!std::exchange(operations_.at(t).told_of, true)) return 0;
  }
  return 0;
}

void simulated_device::lose() noexcept {
  lost_ = true;
  for (const auto& [number, op] : operations_) tell(op, false);
  pending_.clear();
  asked_.clear();
}

simulated_counters simulated_device::counters() const noexcept {
  simulated_counters all = counted_;
  all.allocations = blocks_.size();
  all.bytes = bytes_;
  all.tickets = operations_.size();
  return all;
}

} // namespace tern::hetero::detail
