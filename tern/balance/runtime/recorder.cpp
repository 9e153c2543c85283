// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/runtime/recorder.hpp>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include <tern/base/log.hpp>
#include <tern/mobile/directory.hpp>
#include <tern/net/communicator.hpp>
#include <tern/task/fiber.hpp>

namespace tern::balance::detail {
namespace {

double seconds_now() noexcept { return std::chrono::duration<double>(fiber_clock::now().time_since_epoch()).count(); }

} // namespace

recorder::recorder(net::node& here, mobile::directory& objects)
    : node_(here), objects_(objects), began_(seconds_now()), busy_(static_cast<std::size_t>(here.computing_workers())) {
  part_.ranks = here.size();
  part_.workers = here.computing_workers();
}

double recorder::now() const noexcept { return std::max(0.0, seconds_now() - began_); }

void recorder::ran(mobile::object_id id, const mobile::type_record& type, const void* object, int worker,
                   double seconds) {
  bool is_new = false;
  {
    const std::lock_guard hold(guard_);
    is_new = !known_.contains(id.bits);
  }
  double bytes = 0;
  if (is_new && type.bytes) {
    try {
      bytes = static_cast<double>(type.bytes(object));
    } catch (...) { // it cannot be packed: a request to move it tells why
    }
  }
  const double at = now();
  const std::lock_guard hold(guard_);
  if (known_.try_emplace(id.bits, part_.objects.size()).second) {
    auto number = std::find_if(types_.begin(), types_.end(), [&](const auto& t) { return t.first == &type; });
    if (number == types_.end()) number = types_.insert(types_.end(), {&type, part_.name(type.name)});
    part_.objects.push_back({id, number->second, mobile::directory::of(node_).home_of(id), bytes});
  }
  recording::work& w = works_[id.bits];
  w.object = id;
  ++w.invocations;
  w.seconds += seconds;
  const auto k = static_cast<std::size_t>(worker);
  if (k >= busy_.size()) return;
  busy_[k] += seconds;
  if (at < next_sample_) return;
  next_sample_ = at + std::max(0.1, at / 20); // some 100 in all, however long the run
  for (std::size_t i = 0; i < busy_.size(); ++i)
    part_.busies.push_back({at, node_.rank(), static_cast<std::int32_t>(i), busy_[i]});
}

void recorder::charged(mobile::object_id id, double device) {
  const std::lock_guard hold(guard_);
  if (!known_.contains(id.bits)) return;
  recording::work& w = works_[id.bits];
  w.object = id;
  w.device += device;
}

void recorder::moved(mobile::object_id id, int to) {
  const double at = now();
  const std::lock_guard hold(guard_);
  part_.migrations.push_back({at, id, node_.rank(), to});
}

void recorder::noted(std::string_view what, double value) {
  const double at = now();
  const std::lock_guard hold(guard_);
  part_.notes.push_back({at, node_.rank(), part_.name(what), value});
}

// Under the lock.
void recorder::close_phase() {
  for (auto& [bits, w] : works_) {
    w.phase = phase_;
    part_.works.push_back(w); // stored in order: see tidy
  }
  works_.clear();
}

void recorder::phase_ends(const std::vector<mobile::object_contact>& talks) {
  const double at = now();
  const std::lock_guard hold(guard_);
  close_phase();
  ++phase_;
  part_.phase_ends.push_back(at);
  for (const mobile::object_contact& t : talks) part_.links.push_back({t.from, t.to, t.bytes, t.messages});
}

void recorder::store(const std::string& path, const std::string& policy, const std::string& order) {
  recording part;
  {
    const std::vector<mobile::object_contact> talks = objects_.take_contacts();
    const double at = now();
    const std::lock_guard hold(guard_);
    // What came after the last mark is a phase of its own, if it is anything.
    if (!works_.empty()) {
      close_phase();
      if (phase_ > 0) part_.phase_ends.push_back(at);
    }
    for (const mobile::object_contact& t : talks) part_.links.push_back({t.from, t.to, t.bytes, t.messages});
    part_.length = at;
    part_.policy = policy;
    part_.order = order;
    part = std::move(part_);
  }
  tidy(part);
  const communicator all = communicator::world();
  // Some ranks may have done something after the last mark, and others nothing.
  const auto phases =
      all.allreduce(part.phase_ends.size(), [](std::size_t a, std::size_t b) { return std::max(a, b); });
  while (part.phase_ends.size() < phases) part.phase_ends.push_back(part.length);
  auto parts = all.gather(std::move(part), 0);
  if (all.rank() != 0) return;
  recording whole = std::move(parts[0]);
  for (std::size_t r = 1; r < parts.size(); ++r) combine(whole, std::move(parts[r]));
  // What was talked to and has never worked is an object all the same.
  std::vector<mobile::object_id> there;
  for (const auto& o : whole.objects) there.push_back(o.id);
  const auto add = [&](mobile::object_id id) { there.push_back(id); };
  for (const auto& l : whole.links) {
    add(l.from);
    add(l.to);
  }
  for (const auto& m : whole.migrations) add(m.object);
  std::sort(there.begin(), there.end());
  there.erase(std::unique(there.begin(), there.end()), there.end());
  std::vector<mobile::object_id> listed;
  for (const auto& o : whole.objects) listed.push_back(o.id);
  std::sort(listed.begin(), listed.end()); // one that has worked on several ranks is listed by each of them
  const mobile::directory& known = mobile::directory::of(node_);
  for (const mobile::object_id id : there)
    if (!std::binary_search(listed.begin(), listed.end(), id))
      whole.objects.push_back({id, whole.name("?"), known.home_of(id), 0});
  const std::size_t objects = there.size(), phases_there = whole.phases();
  write_recording(std::move(whole), path);
  log_info("recorded " + std::to_string(objects) + (objects == 1 ? " object in " : " objects in ") +
           std::to_string(phases_there) + (phases_there == 1 ? " phase" : " phases") + ": " + path +
           "; see tern replay");
}

} // namespace tern::balance::detail
