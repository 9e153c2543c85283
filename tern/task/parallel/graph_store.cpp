// SPDX-License-Identifier: Apache-2.0
#include <tern/task/parallel/graph_store.hpp>

#include <cstdlib>
#include <mutex>

#include <tern/base/error.hpp>
#include <tern/task/fiber/sanitizer.hpp>

namespace tern::detail {
namespace {

constexpr std::size_t line = 64;
constexpr std::size_t large_function = graph_chunks::bytes / 8; // from here on it has memory of its own

#ifdef TERN_ASAN
constexpr std::size_t most_spare = 0; // so that it sees what uses a graph that is gone
#else
constexpr std::size_t most_spare = (std::size_t{8} << 20) / graph_chunks::bytes;
#endif

struct spare_chunk {
  spare_chunk* next;
};

/// Chunks of graphs that are gone. Any thread.
struct {
  std::mutex lock; // never held while a fiber waits
  spare_chunk* first = nullptr;
  std::size_t count = 0;
} spare;

} // namespace

void* graph_chunks::add() {
  all_.push_back(nullptr);
  {
    const std::lock_guard hold(spare.lock);
    if (spare_chunk* const one = spare.first) {
      spare.first = one->next;
      --spare.count;
      return all_.back() = one;
    }
  }
  void* const one = std::aligned_alloc(line, bytes);
  if (!one) {
    all_.pop_back();
    throw std::bad_alloc();
  }
  return all_.back() = one;
}

// The first chunks are given last, and so are the first that the next graph takes.
graph_chunks::~graph_chunks() {
  while (!all_.empty()) {
    void* const one = all_.back();
    all_.pop_back();
    {
      const std::lock_guard hold(spare.lock);
      if (spare.count < most_spare) {
        spare.first = ::new (one) spare_chunk{spare.first};
        ++spare.count;
        continue;
      }
    }
    std::free(one);
  }
}

void throw_too_large() {
  throw error(errc::invalid_argument, "a task_graph has nearly 2^32 nodes or edges, and cannot have more",
              "divide it into several, of which one runs the others");
}

graph_store::~graph_store() {
  if (destroys_)
    for (std::uint32_t i = 0; i < nodes_.size(); ++i)
      if (const auto destroy = nodes_[i].function->destroy) destroy(nodes_[i]);
  for (const large_block& one : large_) ::operator delete (one.at, std::align_val_t{one.alignment});
}

void* graph_store::memory(std::size_t size, std::size_t alignment) {
  if (size >= large_function || alignment > line) {
    large_.push_back({nullptr, alignment});
    return large_.back().at = ::operator new (size, std::align_val_t{alignment});
  }
  for (;;) {
    void* at = free_;
    if (free_ && std::align(alignment, size, at, free_bytes_)) {
      free_ = static_cast<std::byte*>(at) + size;
      free_bytes_ -= size;
      return at;
    }
    free_ = static_cast<std::byte*>(functions_.add());
    free_bytes_ = graph_chunks::bytes;
  }
}

void graph_store::sort_edges() {
  graph_row<graph_edge> lists;
  std::vector<graph_node*> to;
  to.reserve(edges_.size());
  each_edge([&](std::uint32_t, std::uint32_t after) {
    lists.push_back({after, lists.size() + 1});
    to.push_back(&nodes_[after]);
  });
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    graph_node& n = nodes_[i];
    if (n.first == no_edge) continue;
    const std::uint32_t first = at;
    for (std::uint32_t k = n.first; k != no_edge; k = edges_[k].next) ++at;
    n.first = first;
    n.last = at - 1;
    lists[n.last].next = no_edge;
  }
  edges_.swap(lists);
  sorted_.swap(to);
}

} // namespace tern::detail
