// SPDX-License-Identifier: Apache-2.0
#include <tern/mobile/directory.hpp>

#include <cstring>
#include <mutex>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/net/message.hpp>
#include <tern/net/runtime.hpp>

namespace tern::mobile {
namespace {

const rank_local<directory> the_directory;

} // namespace

struct directory::entry {
  entry(object_id i, const type_record& t, void* o) : id(i), type(t), object(o) {}
  ~entry() {
    if (object) type.destroy(object);
  }
  const object_id id;
  const type_record& type;
  void* object;
  tern::detail::spin_lock lock; // protects what follows
  int sharing = 0;
  bool exclusive = false;
  bool starting = false; // admitted invocations are being started: what arrives meanwhile comes after them
  bool gone = false;     // destroyed; whoever still holds the entry must not queue
  std::deque<invocation> waiting;

  bool admits(const invocation& call) const noexcept {
    return call.exclusive ? !exclusive && sharing == 0 : !exclusive;
  }
  void admit(const invocation& call) noexcept {
    if (call.exclusive)
      exclusive = true;
    else
      ++sharing;
  }
};

directory::~directory() = default;

directory& directory::here() { return the_directory.get(); }

object_id directory::add(const type_record& type, void* object) {
  const int home = net::node::here().rank();
  std::lock_guard hold(lock_);
  const object_id id(home, next_++);
  objects_.emplace(id, std::make_shared<entry>(id, type, object));
  return id;
}

std::shared_ptr<directory::entry> directory::find(object_id id) const {
  std::lock_guard hold(lock_);
  const auto it = objects_.find(id);
  return it == objects_.end() ? nullptr : it->second;
}

int directory::locate(object_id id) const {
  const net::node& here = net::node::here();
  if (!id) throw error(errc::invalid_argument, "a null mobile_ptr was invoked", "create the object first");
  if (id.home() >= here.size())
    throw error(errc::invalid_argument,
                "a mobile_ptr names object " + to_string(id) + ", but the job has " + std::to_string(here.size()) +
                    " ranks",
                "pointers are valid within the job that made them only");
  return find(id) ? here.rank() : id.home();
}

std::string directory::missing(object_id id, const std::string& type) const {
  bool never = false;
  {
    std::lock_guard hold(lock_);
    never = id.home() != net::node::here().rank() || id.number() >= next_;
  }
  return "object " + to_string(id) + " (" + type + ") " + (never ? "was never created" : "has been destroyed");
}

void directory::deliver(net::node& here, object_id id, const type_record& expected, invocation call) {
  std::string problem;
  const auto e = find(id);
  if (!e)
    problem = missing(id, expected.name);
  else if (&e->type != &expected && e->type.name != expected.name)
    problem = "object " + to_string(id) + " is a " + e->type.name + ", not a " + expected.name;
  if (problem.empty() && submit(here, e, call)) return;
  refuse(here, call, problem.empty() ? missing(id, expected.name) : problem);
}

void directory::refuse(net::node& here, const invocation& call, const std::string& problem) {
  auto why = std::make_exception_ptr(error(errc::not_found, problem, "do not use pointers to destroyed objects"));
  if (call.ends)
    call.ends->set_exception(std::move(why)); // its message is uncounted, and nobody waits for a reply
  else
    here.reply_error(call.source, call.header.reply, std::move(why), "invocation of '" + *call.name + "'");
  here.refused(call.source, call.header, *call.name);
}

bool directory::submit(net::node& here, const std::shared_ptr<entry>& e, invocation& call) {
  {
    std::lock_guard hold(e->lock);
    if (e->gone) return false;
    if (e->starting || !e->waiting.empty() || !e->admits(call)) {
      call.message.settle();
      call.on = here.hold_account();
      e->waiting.push_back(std::move(call));
      return true;
    }
    e->admit(call);
  }
  start(here, e, std::move(call));
  return true;
}

void directory::start(net::node& here, std::shared_ptr<entry> e, invocation call) noexcept {
  const std::string& name = *call.name;
  const net::wire_header header = call.header;
  const int source = call.source;
  try {
    if (!here.starts_at_once(header)) call.message.settle();
    // One allocation for all of it: the closure would need one anyway.
    auto owned = std::make_unique<invocation>(std::move(call));
    here.run_handler(
        [this, &here, e = std::move(e), owned = std::move(owned)]() mutable {
          owned->body(e->object, owned->message);
          const bool exclusive = owned->exclusive;
          owned.reset(); // what it holds goes before the next one sees the object
          finished(here, e, exclusive);
        },
        source, header, name);
  } catch (const std::exception& x) { // memory has run out: the object would stay locked for ever
    here.fatal("cannot start '" + name + "': " + x.what());
  }
}

void directory::finished(net::node& here, const std::shared_ptr<entry>& e, bool exclusive) {
  std::vector<invocation> admitted;
  std::unique_lock hold(e->lock);
  if (exclusive)
    e->exclusive = false;
  else
    --e->sharing;
  if (e->starting) return; // whoever is starting looks again
  e->starting = true;
  for (;;) {
    while (!e->waiting.empty() && e->admits(e->waiting.front())) {
      e->admit(e->waiting.front());
      admitted.push_back(std::move(e->waiting.front()));
      e->waiting.pop_front();
    }
    if (admitted.empty()) break;
    hold.unlock();
    for (auto& call : admitted) {
      const tern::detail::cause_scope in(call.on.get()); // not that of the one that has finished
      start(here, e, std::move(call));
    }
    admitted.clear();
    hold.lock();
  }
  e->starting = false;
}

void directory::end(net::node& here, object_id id, promise<void> gone) {
  const auto e = find(id);
  if (!e) throw error(errc::not_found, missing(id, "unknown type"), "destroy each object once");
  static const std::string name = "destroy";
  invocation last;
  last.exclusive = true;
  last.name = &name;
  last.header.flags = net::flag_uncounted; // the request that caused it is counted and waits for it
  last.ends = std::make_unique<promise<void>>(std::move(gone));
  last.body = [this, &here, e, gone = last.ends.get()](void* object, net::payload&) {
    std::deque<invocation> late;
    {
      std::lock_guard hold(lock_);
      objects_.erase(e->id);
    }
    {
      std::lock_guard hold(e->lock);
      e->gone = true;
      late.swap(e->waiting);
    }
    for (auto& call : late) refuse(here, call, missing(e->id, e->type.name));
    e->object = nullptr;
    e->type.destroy(object);
    gone->set_value();
  };
  if (!submit(here, e, last)) throw error(errc::not_found, missing(id, e->type.name), "destroy each object once");
}

std::size_t directory::size() const {
  std::lock_guard hold(lock_);
  return objects_.size();
}

std::string to_string(object_id id) { return std::to_string(id.home()) + ":" + std::to_string(id.number()); }

namespace detail {

object_id read_target(const byte_buffer& message) {
  object_id id;
  if (message.size() < sizeof(net::wire_header) + sizeof id.bits)
    throw error(errc::invalid_data, "an invocation's message of " + std::to_string(message.size()) +
                                        " bytes has no room for the object's id");
  std::memcpy(&id.bits, message.data() + sizeof(net::wire_header), sizeof id.bits);
  return id;
}

std::string describe_invocation(const std::string& function, object_id id, const type_record& type) {
  return "'" + function + "' of object " + to_string(id) + " (" + type.name + ")";
}

void destroy_object(std::uint64_t id) {
  promise<void> gone;
  auto done = gone.get_future();
  directory::here().end(net::node::here(), object_id(id), std::move(gone));
  done.get();
}

} // namespace detail
} // namespace tern::mobile
