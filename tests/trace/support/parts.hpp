// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For tests: parts made by hand, traces read back, and the checker.

#include "child.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tern/trace/merge.hpp>
#include <tern/trace/part/format.hpp>
#include <tern/trace/recorder.hpp>
#include <tern/trace/trace.hpp>

namespace tern::trace::test {

using namespace tern::trace::detail;
using tern::test::has;
using tern::test::temporary;

/// The bytes of a part.
class made_part {
public:
  explicit made_part(int ranks = 1, int rank = 0) : bytes_(page, '\0') {
    part_header h{};
    std::memcpy(h.magic, part_magic, sizeof part_magic);
    h.order = part_order;
    h.version = part_version;
    h.record_bytes = sizeof(record);
    h.chunk_bytes = page;
    h.clock = clock_kind::simulated;
    h.process = 4711;
    h.ranks = ranks;
    h.rank = rank;
    h.counts_per_ns = 1;
    h.ended = 1;
    std::strcpy(h.host, "nowhere");
    std::memcpy(bytes_.data(), &h, sizeof h);
  }
  part_header& header() { return *reinterpret_cast<part_header*>(bytes_.data()); }
  chunk_header& chunk(std::size_t i) { return *reinterpret_cast<chunk_header*>(bytes_.data() + page * (i + 1)); }
  std::string& bytes() { return bytes_; }

  std::uint32_t name(const std::string& text) {
    entry(table_entry::name, text);
    return ++names_;
  }
  std::uint32_t track(int rank, int worker, std::uint32_t name = 0) {
    const table_track t{rank, worker, name, 0};
    entry(table_entry::track, {reinterpret_cast<const char*>(&t), sizeof t});
    return tracks_++;
  }
  void object(std::uint64_t object, std::uint32_t name) {
    const table_object o{object, name, 0};
    entry(table_entry::object, {reinterpret_cast<const char*>(&o), sizeof o});
  }
  void ring(std::uint32_t number, std::uint64_t sequence, const std::vector<record>& records) {
    finish_table();
    std::string body(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(record));
    add(chunk_kind::ring, number, sequence, records.size(), body);
  }
  void save(const temporary& in, const std::string& name) {
    finish_table();
    static_cast<void>(in.write(name + part_suffix, bytes_));
  }

private:
  void entry(std::uint32_t kind, const std::string& text) {
    const table_entry e{kind, static_cast<std::uint32_t>(text.size())};
    table_.append(reinterpret_cast<const char*>(&e), sizeof e).append(text);
    table_.resize((table_.size() + 7) / 8 * 8);
  }
  void finish_table() {
    if (!table_.empty()) add(chunk_kind::table, ~0u, tables_++, table_.size(), table_);
    table_.clear();
  }
  void add(chunk_kind kind, std::uint32_t ring, std::uint64_t sequence, std::uint64_t used, const std::string& body) {
    chunk_header c{chunk_magic, kind, ring, 0, sequence, used, {}};
    const std::size_t at = bytes_.size();
    bytes_.append(reinterpret_cast<const char*>(&c), sizeof c).append(body);
    bytes_.resize(at + page);
  }

  std::string bytes_, table_;
  std::uint32_t names_ = 0, tracks_ = 0;
  std::uint64_t tables_ = 0;
};

inline record make(event what, std::uint64_t time, std::uint32_t track, std::uint32_t a = 0, std::uint64_t b = 0,
                   std::uint64_t c = 0) {
  return {time, static_cast<std::uint32_t>(what) << 24 | track, a, b, c};
}

inline std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
/// The lines that contain all of `parts`.
inline std::vector<std::string> lines_with(const std::string& text, const std::vector<std::string>& parts) {
  std::vector<std::string> found;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    bool all = true;
    for (const auto& p : parts) all = all && has(line, p);
    if (all) found.push_back(line);
  }
  return found;
}

/// What tools/trace/check_trace.py says; fails the test if that is not pleased.
inline std::string check(const std::string& trace, std::vector<std::string> with = {}) {
  with.insert(with.begin(), {TERN_PYTHON, TERN_CHECK_TRACE, trace});
  const auto checked = tern::test::run(with);
  EXPECT_EQ(checked.code, 0) << checked.all();
  return checked.out;
}

} // namespace tern::trace::test
