// SPDX-License-Identifier: Apache-2.0
#include <tern/global/alltoall.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>

#include <tern/base/error.hpp>
#include <tern/global/codec/chunks.hpp>
#include <tern/global/codec/frame.hpp>
#include <tern/global/coding/coder.hpp>
#include <tern/net/collective/inner_communicator.hpp>
#include <tern/net/node.hpp>
#include <tern/net/packing/packing.hpp>
#include <tern/net/rank_local.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/sync.hpp>

namespace tern::global {
namespace detail {
namespace {

constexpr std::size_t fibers_ahead = 4; ///< chunks that are encoded or decoded at once
constexpr std::size_t bytes_of_chunk = std::size_t{256} << 10;
constexpr char failure_mark[] = "\tTernCannotSend"; ///< in front of a text, in place of a part
constexpr std::size_t longest_failure = 1000;

const net::detail::collective_kind exchange_kind{"alltoall of hetero_objects"};

/// What a rank has counted.
struct exchange_memory {
  std::atomic<std::uint64_t> parts{0}, encoded{0}, bytes{0}, sent_bytes{0};
};
const rank_local<exchange_memory> exchange_memories;

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

array_chunks chunks_of(const part& p) { return {p.shape(), bytes_of_chunk}; }

} // namespace

/// What this rank does with the parts that it gives to a peer and gets from it.
struct exchange::peer_state {
  bool encodes = false; ///< what goes there
  bool stopped = false; ///< it has been told of a failure
  std::size_t sent_bytes = 0;
  std::atomic<std::size_t> chunks_left{0}; ///< of what comes

  // Fibers of several chunks come for them.
  std::span<const std::byte> elements_of(part& p) {
    const std::lock_guard hold(access_);
    return out_.get([&] {
      p.acquire();
      return p.packed();
    });
  }
  std::span<std::byte> room_of(part& p) {
    const std::lock_guard hold(access_);
    return in_.get([&] {
      p.acquire();
      return p.room();
    });
  }

private:
  /// Memory that is asked for once; what that failed with is said wherever it is needed.
  template <class Byte> struct place {
    std::span<Byte> bytes;
    std::exception_ptr failed;
    template <class F> std::span<Byte> get(F&& ask) {
      if (failed) std::rethrow_exception(failed);
      if (!bytes.empty()) return bytes;
      try {
        return bytes = ask();
      } catch (...) {
        failed = std::current_exception();
        throw;
      }
    }
  };
  mutex access_; // of both
  place<const std::byte> out_;
  place<std::byte> in_;
};

exchange::exchange(const communicator& ranks, std::string_view codec, const std::source_location& where)
    : ranks_(ranks), where_(where) {
  const std::string text(codec.empty() ? std::string_view(net::node::here().opts()[codec_option]) : codec);
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

std::string exchange::rank_text(std::size_t peer) const {
  return "rank " + std::to_string(ranks_.job_rank(static_cast<int>(peer)));
}

template <class F> bool exchange::attempt(F&& f) {
  try {
    f();
    return true;
  } catch (...) {
    if (!failed_) failed_ = std::current_exception();
    return false;
  }
}

/// What is encoded. A lossy codec that does not decide encodes all.
void exchange::decide() {
  if (!codec_) return;
  const auto n = out_.size(), me = static_cast<std::size_t>(ranks_.rank());
  coder& codes = coder::here();
  all_done<void> samples;
  for (std::size_t peer = 0; peer < n; ++peer) {
    part& p = out_[peer];
    peer_state& state = *peers_[peer];
    if (peer == me || p.empty()) continue;
    if (codec_->decides()) {
      if (p.bytes() < least_encoded) continue;
      const codec_advice::route to{ranks_.job_rank(static_cast<int>(peer)), way::exchange};
      const auto of = coder::element_of(*codec_, p.shape());
      if (codes.ask(*codec_, p.shape(), to) != codec_advice::answer::sample) continue;
      samples.push(async(
          [&p, &state, &codes, to, of, this] {
            const double left = codes.sample(*codec_, p.shape(), state.elements_of(p));
            state.encodes = codes.advice([&](codec_advice& a) { return a.pays(to, of, left); });
          },
          {.name = "alltoall encodes a sample"}));
    } else {
      state.encodes = !codec_->lossless() || p.bytes() >= least_encoded;
    }
  }
  while (samples.size() > 0) {
    try {
      samples.pop();
    } catch (...) { // NOLINT(bugprone-empty-catch): said again where the part is to be sent
    }
  }
}

// In a fiber of its own. Empty: the part stays as it is.
byte_buffer exchange::encoded(std::size_t peer, std::size_t chunk) {
  part& p = out_[peer];
  const array_chunks cut = chunks_of(p);
  const array_shape s = cut.shape(chunk);
  const chunk_place at{static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(cut.count())};
  const std::span<const std::byte> raw = peers_[peer]->elements_of(p).subspan(cut.offset(chunk), s.bytes());
  byte_buffer frame = coder::here().encode(*codec_, s, raw, at);
  const bool may_be_raw = codec_->lossless() || codec_->decides();
  if (!may_be_raw || frame.size() < raw.size()) return frame;
  if (cut.count() == 1) return {}; // the other side tells them by their size
  static const std::shared_ptr<const codec> none = make_codec("none");
  return coder::here().encode(*none, s, raw, at);
}

/// Chunk after chunk, each to all peers in the order of rounds; the first chunks are on the wire
/// while others are encoded.
void exchange::send_all(net::detail::collective_call& all) {
  using namespace net::detail;
  const auto n = static_cast<std::size_t>(all.size()), me = static_cast<std::size_t>(all.place());
  struct job {
    std::size_t to, chunk;
    bool by_fiber;
  };
  std::vector<job> jobs;
  for (std::size_t chunk = 0, more = 1; more > 0; ++chunk) {
    more = 0;
    for (std::size_t round = 1; round < n; ++round) {
      const std::size_t to = (me + round) % n;
      const bool encodes = peers_[to]->encodes;
      const std::size_t count = encodes ? chunks_of(out_[to]).count() : 1;
      if (chunk < count) jobs.push_back({to, chunk, encodes});
      more += chunk + 1 < count;
    }
  }
  all_done<byte_buffer> encoding;
  std::size_t begun = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (; begun < jobs.size() && encoding.size() < fibers_ahead; ++begun)
      if (const job& b = jobs[begun]; b.by_fiber)
        encoding.push(async([this, b] { return encoded(b.to, b.chunk); }, {.name = "alltoall encodes"}));
    const auto [to, chunk, by_fiber] = jobs[i];
    const int place = static_cast<int>(to);
    peer_state& state = *peers_[to];
    byte_buffer frame;
    std::span<const std::byte> raw;
    const bool sends = attempt([&] {
      if (by_fiber) frame = encoding.pop();
      if (frame.empty()) raw = state.elements_of(out_[to]);
    });
    if (state.stopped) continue; // it has been told why
    if (!sends) {
      state.stopped = true;
      std::string text(failure_mark, sizeof failure_mark);
      try {
        std::rethrow_exception(failed_);
      } catch (const std::exception& e) {
        text += std::string(e.what()).substr(0, longest_failure);
      } catch (...) {
        text += "an exception of another type";
      }
      if (text.size() == out_[to].bytes()) text += ' '; // else it would be taken for the part
      all.send(place, std::as_bytes(std::span(text)));
      continue;
    }
    const std::size_t bytes = frame.empty() ? raw.size() : frame.size();
    if (frame.empty()) state.encodes = false;
    state.sent_bytes += bytes;
    if (frame.empty())
      raw.size() < least_body ? all.send(place, raw) : all.lend(place, raw);
    else if (frame.size() < least_body)
      all.send(place, frame.bytes());
    else
      all.give(place, std::move(frame));
  }
  exchange_memory& memory = exchange_memories.get();
  for (std::size_t peer = 0; peer < n; ++peer) {
    if (peer == me) continue;
    memory.parts.fetch_add(1, std::memory_order_relaxed);
    memory.encoded.fetch_add(peers_[peer]->encodes ? 1 : 0, std::memory_order_relaxed);
    memory.bytes.fetch_add(out_[peer].bytes(), std::memory_order_relaxed);
    memory.sent_bytes.fetch_add(peers_[peer]->sent_bytes, std::memory_order_relaxed);
  }
}

void exchange::check_not_failed(std::size_t peer, std::span<const std::byte> came) const {
  if (came.size() >= sizeof failure_mark && std::memcmp(came.data(), failure_mark, sizeof failure_mark) == 0)
    throw error(errc::invalid_state, rank_text(peer) + " could not send its part of an alltoall: " +
                                         std::string(reinterpret_cast<const char*>(came.data()) + sizeof failure_mark,
                                                     came.size() - sizeof failure_mark));
}

void exchange::take_raw(std::size_t peer, std::span<const std::byte> came) {
  part& p = in_[peer];
  if (p.empty()) return;
  std::memcpy(peers_[peer]->room_of(p).data(), came.data(), came.size());
  p.unpack();
  p.release();
}

// In a fiber of its own.
void exchange::decode(std::size_t peer, std::size_t chunk, std::span<const std::byte> frame) {
  part& p = in_[peer];
  peer_state& state = *peers_[peer];
  const array_chunks cut = chunks_of(p);
  const array_shape s = cut.shape(chunk);
  coder::here().decode(frame, s, state.room_of(p).subspan(cut.offset(chunk), s.bytes()),
                       {static_cast<std::uint32_t>(chunk), static_cast<std::uint32_t>(cut.count())});
  // acq_rel: the last one sees what the others have decoded.
  if (state.chunks_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  p.unpack();
  p.release();
}

/// Looks at the first message of a peer: a part as it is, or its first chunk. \return how many
/// chunks there are; 0: it has been taken. Of what is wrong the rest comes too.
std::size_t exchange::take_first(std::size_t peer, std::span<const std::byte> came) {
  const part& p = in_[peer];
  const bool may_be_raw = !codec_ || codec_->lossless() || codec_->decides() || p.empty();
  if (came.size() == p.bytes() && may_be_raw) {
    attempt([&] { take_raw(peer, came); });
    return 0;
  }
  const std::optional<chunk_place> at = place_of_frame(came);
  attempt([&] {
    check_not_failed(peer, came);
    if (!at || p.empty() || !codec_)
      throw error(errc::invalid_data,
                  rank_text(peer) + " has sent " + std::to_string(came.size()) + " bytes in an alltoall, and " +
                      std::to_string(p.bytes()) + " are to come",
                  "let all ranks give the same codec, and parts of the extents that the other rank gets");
    peers_[peer]->chunks_left.store(at->chunks, std::memory_order_relaxed); // before any fiber has one
  });
  return at ? at->chunks : 0;
}

/// In the order in which they are sent. Chunks are decoded while others come.
void exchange::receive_all(net::detail::collective_call& all) {
  const auto n = static_cast<std::size_t>(all.size()), me = static_cast<std::size_t>(all.place());
  std::vector<std::size_t> left(n, 1);
  all_done<void> decoding;
  bool more = n > 1;
  for (std::size_t turn = 0; more; ++turn) {
    more = false;
    for (std::size_t round = 1; round < n; ++round) {
      const std::size_t from = (me + n - round) % n;
      if (left[from] == 0) continue;
      auto came = std::make_shared<net::detail::collective_part>(all.receive(static_cast<int>(from)));
      const std::span<const std::byte> bytes = came->elements();
      if (turn == 0) left[from] = take_first(from, bytes);
      if (left[from] == 0) continue;
      --left[from];
      more = more || left[from] > 0;
      const std::optional<chunk_place> at = place_of_frame(bytes);
      if (!at) left[from] = 0; // it has failed meanwhile, and sends nothing more
      const bool good = attempt([&] {
        check_not_failed(from, bytes);
        if (at && at->chunk < (in_[from].empty() ? 0 : chunks_of(in_[from]).count())) return;
        throw error(errc::invalid_data,
                    rank_text(from) + " has sent a chunk in an alltoall that is none of " + in_[from].shape().text(),
                    "let all ranks give the same codec, and parts of the extents that the other rank gets");
      });
      if (!good || !codec_) continue;
      if (decoding.size() >= fibers_ahead) attempt([&] { decoding.pop(); });
      decoding.push(async([this, from, came, chunk = at->chunk] { decode(from, chunk, came->elements()); },
                          {.name = "alltoall decodes"}));
    }
  }
  while (decoding.size() > 0) attempt([&] { decoding.pop(); });
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

// Parts of all travel at once, by what they share: so it is the exchange that has a pace, as this
// rank has sent all of it. Ranks decide apart, and all come to what is best soon.
void exchange::measure(double seconds) {
  const auto me = static_cast<std::size_t>(ranks_.rank());
  std::size_t raw = 0, encoded = 0;
  for (std::size_t peer = 0; peer < out_.size(); ++peer)
    if (peer != me) (peers_[peer]->encodes ? encoded : raw) += out_[peer].bytes();
  if (raw + encoded < least_encoded || (raw != 0 && encoded != 0)) return;
  coder::here().advice([&](codec_advice& a) {
    for (std::size_t peer = 0; peer < out_.size(); ++peer) {
      if (peer == me || out_[peer].empty()) continue;
      const codec_advice::route to{ranks_.job_rank(static_cast<int>(peer)), way::exchange};
      if (encoded == 0)
        a.sent(to, raw, seconds);
      else
        a.sent_encoded(to, coder::element_of(*codec_, out_[peer].shape()), encoded, seconds);
    }
  });
}

void exchange::run() {
  for (const part& p : out_)
    if (codec_ && !p.empty()) check_codec(*codec_, p.shape());
  using namespace net::detail;
  collective_call all(inner_communicator::context_of(ranks_, "alltoall"), exchange_kind, collective_call::no_root,
                      where_);
  for (std::size_t i = 0; i < out_.size(); ++i) peers_.push_back(std::make_unique<peer_state>());
  const auto began = fiber_clock::now();
  decide();
  send_all(all);
  attempt([&] { keep_own(); });
  receive_all(all);
  if (codec_ && codec_->decides() && !failed_) measure(seconds_since(began));
  all.settle();
  for (part& p : out_) p.release();
  for (part& p : in_) p.release();
  if (failed_) std::rethrow_exception(failed_);
}

} // namespace detail

exchange_counts count_exchanges() {
  const detail::exchange_memory& m = detail::exchange_memories.get();
  const auto get = [](const std::atomic<std::uint64_t>& c) { return c.load(std::memory_order_relaxed); };
  return {.parts = get(m.parts), .encoded = get(m.encoded), .bytes = get(m.bytes), .sent_bytes = get(m.sent_bytes)};
}

} // namespace tern::global
