// SPDX-License-Identifier: Apache-2.0
#include <tern/global/alltoall.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>

#include <tern/base/error.hpp>
#include <tern/global/codec/frame.hpp>
#include <tern/global/exchange/codec_advice.hpp>
#include <tern/net/collective/inner_communicator.hpp>
#include <tern/net/node.hpp>
#include <tern/net/packing/packing.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::global {
namespace detail {
namespace {

constexpr std::size_t fibers_ahead = 4;             ///< parts that are encoded or decoded at once
constexpr char failure_mark[] = "\tTernCannotSend"; ///< in front of a text, in place of a part
constexpr std::size_t longest_failure = 1000;

const net::detail::collective_kind exchange_kind{"alltoall of hetero_objects"};

/// What a rank has learned and counted.
struct exchange_memory {
  tern::detail::spin_lock guard;
  codec_advice advice; // under the guard
  std::atomic<std::uint64_t> parts{0}, encoded{0}, bytes{0}, sent_bytes{0};
};
const rank_local<exchange_memory> exchange_memories;

template <class F> auto with_advice(F&& f) {
  exchange_memory& m = exchange_memories.get();
  const std::lock_guard hold(m.guard);
  return f(m.advice);
}
codec_advice::element element_of_shape(const array_shape& s) { return {s.kind, s.element}; }
double seconds_since(fiber_clock::time_point began) {
  return std::chrono::duration<double>(fiber_clock::now() - began).count();
}

/// Fibers that are over before what they use is.
template <class T> class all_done {
public:
  all_done() = default;
  all_done(const all_done&) = delete;
  all_done& operator=(const all_done&) = delete;
  ~all_done() {
    for (future<T>& f : futures_) f.wait();
  }
  void push(future<T> f) { futures_.push_back(std::move(f)); }
  std::size_t size() const noexcept { return futures_.size(); }
  T pop() {
    future<T> first = std::move(futures_.front());
    futures_.pop_front();
    return first.get();
  }

private:
  std::deque<future<T>> futures_;
};

/// A part of an array that is as large as a sample: whole rows, or of one dimension.
array_shape sample_of(const array_shape& s) {
  array_shape sample{.element = s.element, .kind = s.kind};
  sample.extent[2] =
      static_cast<std::int32_t>(std::min(s.count(), std::max<std::size_t>(1, least_encoded / s.element)));
  return sample;
}

} // namespace

exchange::exchange(const communicator& ranks, std::string_view codec, const std::source_location& where)
    : ranks_(ranks), where_(where) {
  std::string text(codec.empty() ? std::string_view(net::node::here().opts()[codec_option]) : codec);
  decides_ = text == "auto";
  if (decides_) text = "zstd";
  if (text != "none") codec_ = make_codec(text);
}
exchange::~exchange() = default;

void exchange::check(const std::string& object, std::int64_t rows, std::span<const std::int64_t> counts) const {
  if (counts.size() != static_cast<std::size_t>(ranks_.size()))
    throw error(errc::invalid_argument,
                "alltoall of " + object + ": " + std::to_string(counts.size()) + " counts for " +
                    std::to_string(ranks_.size()) + " ranks",
                "give a count for each rank");
  std::int64_t all = 0;
  for (const std::int64_t n : counts) {
    if (n < 0 || n > rows - all)
      throw error(errc::invalid_argument,
                  "alltoall of " + object + ": counts that end at row " + std::to_string(all) + " + " +
                      std::to_string(n) + " of " + std::to_string(rows),
                  "counts are of rows, one for each rank, and add up to at most the first extent");
    all += n;
  }
}

std::vector<std::int64_t> equal_parts(const std::string& object, std::int64_t rows, int ranks) {
  if (rows % ranks != 0)
    throw error(errc::invalid_argument,
                "alltoall of " + object + ": " + std::to_string(rows) + " rows for " + std::to_string(ranks) + " ranks",
                "let the first extent be a multiple of the number of ranks, or give counts");
  return std::vector<std::int64_t>(static_cast<std::size_t>(ranks), rows / ranks);
}

bool exchange::encodes(std::size_t peer) {
  if (!codec_ || out_[peer].empty()) return false;
  if (!codec_->lossless()) return true;
  if (out_[peer].bytes() < least_encoded) return false;
  return !decides_ || with_advice([&](codec_advice& a) {
    return a.may_pay(ranks_.job_rank(static_cast<int>(peer)), element_of_shape(out_[peer].shape()));
  });
}

// In a fiber of its own. Empty: it stays as it is.
byte_buffer exchange::encoded(std::size_t peer) {
  part& p = out_[peer];
  p.acquire();
  const std::span<const std::byte> raw = p.packed();
  const int rank = ranks_.job_rank(static_cast<int>(peer));
  const auto encode = [&](const array_shape& s) {
    const auto began = fiber_clock::now();
    byte_buffer frame = encode_frame(*codec_, s, raw.first(s.bytes()));
    const double took = seconds_since(began);
    with_advice([&](codec_advice& a) { a.encoded(element_of_shape(s), s.bytes(), took); });
    return frame;
  };
  if (decides_) {
    const array_shape sample = sample_of(p.shape());
    const double left =
        static_cast<double>(encode(sample).size()) / static_cast<double>(std::max<std::size_t>(1, sample.bytes()));
    const bool pays = with_advice([&](codec_advice& a) { return a.pays(rank, element_of_shape(sample), left); });
    if (!pays) return {};
  }
  byte_buffer frame = encode(p.shape());
  if (codec_->lossless() && frame.size() >= raw.size()) return {}; // the other side tells them by their size
  return frame;
}

void exchange::take(std::size_t peer, std::span<const std::byte> came) {
  part& p = in_[peer];
  const bool raw = came.size() == p.bytes() && (!codec_ || codec_->lossless() || p.empty());
  if (!raw && came.size() >= sizeof failure_mark && std::memcmp(came.data(), failure_mark, sizeof failure_mark) == 0)
    throw error(errc::invalid_state, "rank " + std::to_string(ranks_.job_rank(static_cast<int>(peer))) +
                                         " could not send its part of an alltoall: " +
                                         std::string(reinterpret_cast<const char*>(came.data()) + sizeof failure_mark,
                                                     came.size() - sizeof failure_mark));
  if (!raw && (p.empty() || !codec_))
    throw error(errc::invalid_data,
                "rank " + std::to_string(ranks_.job_rank(static_cast<int>(peer))) + " has sent " +
                    std::to_string(came.size()) + " bytes in an alltoall, and " + std::to_string(p.bytes()) +
                    " are to come",
                "let all ranks give the same codec, and parts of the extents that the other rank gets");
  if (p.empty()) return;
  p.acquire();
  if (raw) {
    std::memcpy(p.room().data(), came.data(), came.size());
  } else {
    const auto began = fiber_clock::now();
    decode_frame(came, p.shape(), p.room());
    const double took = seconds_since(began);
    with_advice([&](codec_advice& a) { a.decoded(element_of_shape(p.shape()), p.bytes(), took); });
  }
  p.unpack();
  p.release();
}

void exchange::keep_own() {
  const auto me = static_cast<std::size_t>(ranks_.rank());
  part &from = out_[me], &to = in_[me];
  if (!(from.empty() && to.empty()) && !(from.shape() == to.shape()))
    throw error(errc::invalid_argument,
                "alltoall: rank " + std::to_string(ranks_.job_rank(ranks_.rank())) + " gives itself " +
                    from.shape().text() + ", and gets " + to.shape().text(),
                "let both parts have the same extents");
  if (from.empty()) return;
  from.acquire();
  to.acquire();
  const std::span<const std::byte> elements = from.packed();
  std::memcpy(to.room().data(), elements.data(), elements.size());
  to.unpack();
  to.release();
}

void exchange::run() {
  for (const part& p : out_)
    if (codec_ && !p.empty()) check_codec(*codec_, p.shape());
  using namespace net::detail;
  collective_call all(inner_communicator::context_of(ranks_, "alltoall"), exchange_kind, collective_call::no_root,
                      where_);
  const auto n = static_cast<std::size_t>(all.size()), me = static_cast<std::size_t>(all.place());
  exchange_memory& memory = exchange_memories.get();
  std::exception_ptr failed; // the first; all others are sent to and received from all the same
  const auto attempt = [&](auto&& f) {
    try {
      f();
    } catch (...) {
      if (!failed) failed = std::current_exception();
      return false;
    }
    return true;
  };
  const auto began = fiber_clock::now();
  std::size_t raw_bytes = 0, encoded_bytes = 0;

  struct made {
    bool by_fiber = false;
    byte_buffer frame;
  };
  all_done<made> encoding;
  std::vector<bool> goes_by_fiber(n);
  std::size_t begun = 1;
  const auto begin_some = [&](std::size_t round) {
    for (; begun < n && begun < round + fibers_ahead; ++begun) {
      const std::size_t to = (me + begun) % n;
      goes_by_fiber[begun] = encodes(to);
      if (goes_by_fiber[begun])
        encoding.push(async([this, to] { return made{true, encoded(to)}; }, {.name = "alltoall encodes"}));
    }
  };
  for (std::size_t round = 1; round < n; ++round) {
    begin_some(round);
    const std::size_t to = (me + round) % n;
    byte_buffer frame;
    std::span<const std::byte> raw;
    const bool sends = attempt([&] {
      if (goes_by_fiber[round]) frame = encoding.pop().frame;
      out_[to].acquire();
      if (frame.empty()) raw = out_[to].packed();
    });
    (frame.empty() ? raw_bytes : encoded_bytes) += out_[to].bytes();
    const std::size_t bytes = frame.empty() ? raw.size() : frame.size();
    memory.parts.fetch_add(1, std::memory_order_relaxed);
    memory.encoded.fetch_add(frame.empty() ? 0 : 1, std::memory_order_relaxed);
    memory.bytes.fetch_add(out_[to].bytes(), std::memory_order_relaxed);
    memory.sent_bytes.fetch_add(bytes, std::memory_order_relaxed);
    const int place = static_cast<int>(to);
    if (!sends) {
      std::string text(failure_mark, sizeof failure_mark);
      try {
        std::rethrow_exception(failed);
      } catch (const std::exception& e) {
        text += std::string(e.what()).substr(0, longest_failure);
      } catch (...) {
        text += "an exception of another type";
      }
      if (text.size() == out_[to].bytes()) text += ' '; // else it would be taken for the part
      all.send(place, std::as_bytes(std::span(text)));
    } else if (frame.empty()) {
      raw.size() < least_body ? all.send(place, raw) : all.lend(place, raw);
    } else if (frame.size() < least_body) {
      all.send(place, frame.bytes());
    } else {
      all.give(place, std::move(frame));
    }
  }
  attempt([&] { keep_own(); });

  all_done<void> decoding;
  for (std::size_t round = 1; round < n; ++round) {
    const std::size_t from = (me + n - round) % n;
    auto came = std::make_shared<collective_part>(all.receive(static_cast<int>(from)));
    const std::size_t bytes = came->elements().size();
    if (bytes == in_[from].bytes()) {
      attempt([&] { take(from, came->elements()); });
      continue;
    }
    if (decoding.size() >= fibers_ahead) attempt([&] { decoding.pop(); });
    decoding.push(async([this, from, came] { take(from, came->elements()); }, {.name = "alltoall decodes"}));
  }
  while (decoding.size() > 0) attempt([&] { decoding.pop(); });
  // Parts of all travel at once, by what they share: so it is the exchange that has a pace, as this
  // rank has sent all of it. Ranks decide apart, and all come to what is best soon.
  if (decides_ && raw_bytes + encoded_bytes >= least_encoded && (raw_bytes == 0 || encoded_bytes == 0)) {
    const double took = seconds_since(began);
    with_advice([&](codec_advice& a) {
      for (std::size_t peer = 0; peer < n; ++peer) {
        if (peer == me) continue;
        const int rank = ranks_.job_rank(static_cast<int>(peer));
        if (encoded_bytes == 0)
          a.sent(rank, raw_bytes, took);
        else
          a.sent_encoded(rank, element_of_shape(out_[peer].shape()), encoded_bytes, took);
      }
    });
  }
  all.settle();
  for (part& p : out_) p.release();
  for (part& p : in_) p.release();
  if (failed) std::rethrow_exception(failed);
}

} // namespace detail

exchange_counts count_exchanges() {
  const detail::exchange_memory& m = detail::exchange_memories.get();
  const auto get = [](const std::atomic<std::uint64_t>& c) { return c.load(std::memory_order_relaxed); };
  return {.parts = get(m.parts), .encoded = get(m.encoded), .bytes = get(m.bytes), .sent_bytes = get(m.sent_bytes)};
}

} // namespace tern::global
