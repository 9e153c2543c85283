// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tern/net/handler.hpp>

#include <mutex>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/language/hash.hpp>

namespace tern::net {
namespace {

// The one process-wide table (DESIGN: handlers and types), as function-local statics because
// records in other files register themselves before this file's own statics exist.
struct registry {
  std::mutex lock;
  handler_record* newest = nullptr;
  bool frozen = false, late = false;
  std::string late_name;
  std::vector<const handler_record*> ordered;
  std::uint64_t fingerprint = 0;
};
registry& the_registry() {
  static registry r;
  return r;
}

// Whether a mangled name means the same thing in every file. Names of internal linkage carry a
// marker (Itanium C++ ABI: `_GLOBAL__N_` for anonymous namespaces, `L` before the name for static
// functions); to see one too many is harmless.
bool has_linkage(std::string_view identity) {
  return identity.find("_GLOBAL__N_") == identity.npos && identity.find("ZL") == identity.npos;
}

} // namespace

handler_record::handler_record(const std::type_info& identity, std::string_view pretty, const char* file,
                               handler_entry run, bool internal, handler_entry runs, handler_run many, bool ageless)
    : identity_(identity.name()), name_(detail::pretty_name(pretty)), file_(file), entry_(run), direct_(runs),
      many_(many), internal_(internal), ageless_(ageless) {
  std::copy_n(name_.data(), std::min(name_.size(), label_.size() - 1), label_.data());
  registry& r = the_registry();
  std::lock_guard hold(r.lock);
  if (r.frozen) {
    r.late = true;
    r.late_name = name_;
  }
  next_ = r.newest;
  r.newest = this;
}

void handler_record::throw_unnumbered() const {
  throw error(errc::invalid_state, "handler '" + name_ + "' has no number: no runtime has started since it was loaded",
              "link the library that defines it, or dlopen it before tern::run");
}

void handler_table::freeze() {
  registry& r = the_registry();
  std::lock_guard hold(r.lock);
  if (r.late)
    throw error(errc::invalid_state,
                "handler '" + r.late_name + "' was loaded after the runtime had started, too late to get a number",
                "link the library that defines it, or dlopen it before tern::run");
  if (r.frozen) return;
  std::vector<handler_record*> all;
  for (handler_record* h = r.newest; h; h = h->next_) all.push_back(h);
  std::sort(all.begin(), all.end(), [](auto* a, auto* b) {
    if (a->internal_ != b->internal_) return a->internal_;
    return a->identity_ != b->identity_ ? a->identity_ < b->identity_ : std::string_view(a->file_) < b->file_;
  });
  r.ordered.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && all[i]->identity_ == all[i - 1]->identity_) {
      // A library built with hidden visibility brings its own record of the same function: one
      // handler, no collision.
      if (has_linkage(all[i]->identity_)) {
        all[i]->id_ = all[i - 1]->id_;
        continue;
      }
      throw error(errc::already_exists,
                  "two handlers have the name '" + all[i]->name_ + "': one in " + all[i - 1]->file_ + ", one in " +
                      all[i]->file_,
                  "ranks tell handlers apart by name: give one of them another name or a named namespace "
                  "(anonymous namespaces and lambdas of different files can collide)");
    }
    all[i]->id_ = static_cast<std::uint32_t>(r.ordered.size());
    r.ordered.push_back(all[i]);
  }
  r.fingerprint = tern::detail::hash_of({});
  for (auto* h : r.ordered) // which end, so that none could be two
    r.fingerprint = tern::detail::hash_of("\xff", tern::detail::hash_of(h->identity_, r.fingerprint));
  r.frozen = true;
}

std::uint32_t handler_table::size() noexcept { return static_cast<std::uint32_t>(the_registry().ordered.size()); }
const handler_record& handler_table::at(std::uint32_t id) noexcept { return *the_registry().ordered[id]; }
std::span<const handler_record* const> handler_table::all() noexcept { return the_registry().ordered; }
std::uint64_t handler_table::fingerprint() noexcept { return the_registry().fingerprint; }

namespace detail {

std::string_view pretty_name(std::string_view s) noexcept {
  const auto start = s.find("F = ");
  if (start == s.npos) return s;
  s.remove_prefix(start + 4);
  const auto end = s.find("; std::string_view = "); // g++ lists the return type too
  s = s.substr(0, end != s.npos ? end : s.rfind(']'));
  while (!s.empty() && (s.front() == '&' || s.front() == '(' || s.front() == ' ')) s.remove_prefix(1);
  if (!s.empty() && s.back() == ')' && s.find('(') == s.npos) s.remove_suffix(1);
  return s;
}

} // namespace detail
} // namespace tern::net
