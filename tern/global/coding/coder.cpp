// SPDX-License-Identifier: Apache-2.0
#include <tern/global/coding/coder.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include <tern/net/memory/bounded_lock.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/task/fiber/ticks.hpp>
#include <tern/task/scheduler/scheduler_core.hpp>

namespace tern::global::detail {
namespace {
const rank_local<coder> coders;
constexpr double mebibyte = 1 << 20;
} // namespace

struct coder::at_work {
  at_work(coder& of, std::string encoded_by, const array_shape& s)
      : by(of), codec(std::move(encoded_by)), shape(s), since(tern::detail::rough_ticks()) {
    by.enter(*this);
  }
  ~at_work() { by.leave(*this); }
  at_work(const at_work&) = delete;
  at_work& operator=(const at_work&) = delete;

  coder& by;
  const std::string codec; ///< empty: it decodes
  const array_shape shape;
  const std::int64_t since;
  at_work *next = nullptr, *before = nullptr;
};

double seconds_since(fiber_clock::time_point began) noexcept {
  return std::chrono::duration<double>(fiber_clock::now() - began).count();
}

coder::coder() : here_(net::node::here()) { here_.report_on(*this); }
coder::~coder() { here_.forget_part(*this); }
coder& coder::here() { return coders.get(); }
coder& coder::of(net::node& rank) { return coders.of(rank); }

void coder::enter(at_work& w) noexcept {
  const std::lock_guard hold(guard_);
  w.next = first_;
  if (first_) first_->before = &w;
  first_ = &w;
}

void coder::leave(at_work& w) noexcept {
  const std::lock_guard hold(guard_);
  (w.before ? w.before->next : first_) = w.next;
  if (w.next) w.next->before = w.before;
}

byte_buffer coder::encode(const codec& c, const array_shape& s, std::span<const std::byte> elements, chunk_place at) {
  const at_work now(*this, c.text(), s);
  const auto began = fiber_clock::now();
  byte_buffer frame = encode_frame(c, s, elements, at);
  const double took = seconds_since(began);
  const std::lock_guard hold(guard_);
  account& a = accounts_[c.text()];
  ++a.encoded;
  a.raw += elements.size();
  a.stored += frame.size();
  a.encode_seconds += took;
  advice_.encoded(element_of(c, s), elements.size(), took);
  return frame;
}

void coder::decode(std::span<const std::byte> frame, const array_shape& wanted, std::span<std::byte> to,
                   chunk_place at) {
  const at_work now(*this, {}, wanted);
  const auto began = fiber_clock::now();
  const auto c = decode_frame(frame, wanted, to, at);
  const double took = seconds_since(began);
  const std::lock_guard hold(guard_);
  account& a = accounts_[c->text()];
  ++a.decoded;
  a.raw_decoded += to.size();
  a.decode_seconds += took;
  advice_.decoded(element_of(*c, wanted), to.size(), took);
}

double coder::sample(const codec& c, const array_shape& s, std::span<const std::byte> elements) {
  array_shape first{.element = s.element, .kind = s.kind}; // whatever its dimensions: whole rows, or parts of one
  first.extent[2] = static_cast<std::int32_t>(std::min(s.count(), std::max<std::size_t>(1, least_encoded / s.element)));
  const byte_buffer frame = encode(c, first, elements.first(first.bytes()));
  return static_cast<double>(frame.size()) / static_cast<double>(std::max<std::size_t>(1, first.bytes()));
}

void coder::count_on_devices(const std::string& codec, bool encoded, std::size_t raw, std::size_t stored) {
  const std::lock_guard hold(guard_);
  account& a = accounts_[codec + " on devices"];
  ++(encoded ? a.encoded : a.decoded);
  (encoded ? a.raw : a.raw_decoded) += raw;
  if (encoded) a.stored += stored;
}

std::string coder::describe() {
  constexpr std::size_t listed = 10;
  const auto hold = net::try_for_a_while(guard_);
  if (!hold) return {};
  std::string text;
  std::size_t n = 0;
  for (const at_work* w = first_; w; w = w->next) {
    if (++n > listed) continue;
    char age[32];
    std::snprintf(age, sizeof age, "%.1f s", here_.fibers().inside().seconds_since(w->since));
    text += "    " + w->shape.text() + (w->codec.empty() ? " are decoded" : " are encoded by " + w->codec) + " since " +
            age + "\n";
  }
  if (n == 0) return {};
  if (n > listed) text += "    and " + std::to_string(n - listed) + " more\n";
  return "  codecs: " + std::to_string(n) + (n == 1 ? " is" : " are") + " at work:\n" + text;
}

net::stats_table coder::statistics() {
  net::stats_table t;
  t.of = "codec";
  t.columns = {{"encoded", 0}, {"raw MiB", 1}, {"stored MiB", 1}, {"encode s", 2},
               {"decoded", 0}, {"to MiB", 1},  {"decode s", 2}};
  const std::lock_guard hold(guard_);
  for (const auto& [codec, a] : accounts_)
    t.rows.push_back({codec,
                      {static_cast<double>(a.encoded), static_cast<double>(a.raw) / mebibyte,
                       static_cast<double>(a.stored) / mebibyte, a.encode_seconds, static_cast<double>(a.decoded),
                       static_cast<double>(a.raw_decoded) / mebibyte, a.decode_seconds}});
  return t;
}

} // namespace tern::global::detail
