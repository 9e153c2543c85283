// SPDX-License-Identifier: Apache-2.0
// Operations that touch the same memory must be ordered: by one stream, by events, or because the
// program has seen the first one's end. The mock reports a pair without order if one of the two is
// a copy that writes there. What kernels do with memory is unknown; only the addresses in their
// parameters are known, so only these are checked.
#include <algorithm>
#include <deque>

#include "state.hpp"

namespace mock {
namespace {

/// Where a copy reads or writes, rows of slices.
struct bricks {
  std::uintptr_t first;
  std::size_t row_bytes, rows, slices, pitch, slice;
  std::uintptr_t row(std::size_t n) const { return first + n / rows * slice + n % rows * pitch; }
  std::size_t count() const { return rows * slices; }
  std::uintptr_t end() const { return row(count() - 1) + row_bytes; }
  bool has(std::uintptr_t at) const {
    if (at < first || at >= end()) return false;
    for (std::size_t n = 0; n < count(); ++n)
      if (row(n) <= at && at < row(n) + row_bytes) return true;
    return false;
  }
  bool meets(const bricks& other) const {
    if (end() <= other.first || other.end() <= first) return false;
    for (std::size_t i = 0, j = 0; i < count() && j < other.count();) { // rows rise
      const std::uintptr_t x = row(i), y = other.row(j);
      if (x + row_bytes <= y)
        ++i;
      else if (y + other.row_bytes <= x)
        ++j;
      else
        return true;
    }
    return false;
  }
};
bricks written(const copy_work& w) { return {address(w.to), w.row_bytes, w.rows, w.slices, w.to_pitch, w.to_slice}; }
bricks read(const copy_work& w) { return {address(w.from), w.row_bytes, w.rows, w.slices, w.from_pitch, w.from_slice}; }

bool one_writes(const operation& a, const operation& b) {
  if (a.is == work::graph)
    return std::any_of(a.graph.what->nodes.begin(), a.graph.what->nodes.end(),
                       [&](const node& n) { return one_writes(n.op, b); });
  if (b.is == work::graph) return one_writes(b, a);
  if (a.is != work::copy && b.is == work::copy) return one_writes(b, a);
  if (a.is != work::copy) return false;
  if (b.is == work::kernel)
    return std::any_of(b.kernel.points.begin(), b.kernel.points.end(),
                       [&](std::uintptr_t at) { return written(a.copy).has(at); });
  return b.is == work::copy && (written(a.copy).meets(written(b.copy)) || written(a.copy).meets(read(b.copy)) ||
                                read(a.copy).meets(written(b.copy)));
}

/// How much of each stream comes before what is put into one now.
class past {
public:
  past(const state& s, const stream& to, const operation& op) : s_(s) {
    reach(to, to.pending.size());
    look(op);
    while (!new_.empty()) {
      const operation* const next = new_.front();
      new_.pop_front();
      look(*next);
    }
  }
  bool has(const stream& of, std::size_t n) const {
    const auto found = reached_.find(&of);
    return found != reached_.end() && n < found->second;
  }

private:
  void reach(const stream& of, std::size_t count) {
    std::size_t& now = reached_[&of];
    for (; now < count; ++now) new_.push_back(&of.pending[now]);
  }
  void look(const operation& op) {
    for (const point& p : op.after)
      for (const auto& [number, one] : s_.streams)
        for (std::size_t n = 0; n < one->pending.size(); ++n)
          if (one->pending[n].at == p) reach(*one, n + 1);
  }
  const state& s_;
  std::map<const stream*, std::size_t> reached_; // address: to be found; nothing depends on their order
  std::deque<const operation*> new_;
};

} // namespace

void call::check_order(const stream& to, const operation& op) {
  if (op.is == work::record || op.is == work::wait) return;
  // The usual stream has an order of its own with others.
  const auto usual = [this](const stream& one) {
    return s.devices[static_cast<std::size_t>(one.device)].usual.get() == &one;
  };
  if (usual(to)) return;
  for (const auto& [number, one] : s.streams) {
    if (one.get() == &to || usual(*one)) continue;
    for (std::size_t n = 0; n < one->pending.size(); ++n) {
      const operation& other = one->pending[n];
      if (!one_writes(op, other) || past(s, to, op).has(*one, n)) continue;
      misuse(launch_failed, describe(op) + " in the stream " + hex(to.number) + " and " + describe(other) +
                                " in the stream " + hex(number) +
                                " touch the same memory, and nothing says which comes first");
      return;
    }
  }
}

} // namespace mock
