// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// From records to events, for the records of one part in the order of each track: which slices are
/// open on each track, and which regions in each fiber. Whatever is wrong in that order (records
/// were overwritten, a rank was killed) what comes out is well formed: slices of a track nest, what
/// begins also ends.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tern/trace/merge/json_file.hpp>
#include <tern/trace/part/part.hpp>

namespace tern::trace::detail {

/// What all parts share.
struct canvas {
  explicit canvas(const std::string& path) : file(path) {}
  json_file file;
  std::uint64_t events = 0, sent = 0, handled = 0, forwarded = 0, damaged = 0;
  std::int64_t last = 0;
  struct moves {
    std::uint64_t number = 0, bytes = 0;
  };
  std::map<std::string, moves> moved;                          // by class
  std::unordered_map<std::uint64_t, std::string> object_names; // of all parts, JSON
  std::unordered_map<int, std::uint64_t> latest_message;       // of each rank, of all its messages

  void write(const lines& text) { file.write(text.text()); }
};

/// Numbers of ranks and workers in the file: 0 stands for the kernel's idle process in several
/// versions of Perfetto, which then merge it with another.
inline int shown(int number) noexcept { return number + 1; }

class painter {
public:
  painter(canvas& on, const part& from);
  /// \param ns since the trace's beginning; smaller than before on this track only if clocks are
  /// wrong.
  /// \return false if the record makes no sense.
  bool paint(const record& r, std::int64_t ns);
  /// Ends what is still open.
  void end();
  std::int64_t last() const noexcept { return last_; }

private:
  struct slice { // open on a track
    event what;
    std::uint32_t name = 0;
    std::uint64_t fiber = 0; // of a handler: the rank that sent its message
    std::int64_t begin = 0;
    bool written = false;
    std::uint64_t bytes = 0;    // of a copy
    std::int64_t predicted = 0; // of a kernel, nanoseconds; 0: not known
    std::uint32_t of = 0;       // a name, or 0
    std::uint32_t type = 0;     // of `object`: its class's name
    std::uint64_t object = 0;   // that it works on; 0: none
    bool object_told = false;
  };
  struct track {
    std::string where; // "pid":1,"tid":1
    int rank = 0;
    std::int64_t last = 0, last_arrow = -1;
    std::vector<slice> open;
    lines held; // what has happened inside the innermost slice as long as that is not written
  };
  struct fiber_state {
    std::vector<std::uint32_t> regions; // names
    bool tasklets = false;              // it left in the middle of a batch
    std::uint32_t on = 0;               // the latest track
    std::uint32_t type = 0;             // of `object`
    std::uint64_t object = 0;           // that its handler works on; 0: none
    bool is_empty() const noexcept { return regions.empty() && !tasklets && object == 0; }
  };

  fiber_state* find(const track& t, std::uint64_t fiber);
  fiber_state& state(const track& t, std::uint64_t fiber, std::uint32_t on);
  static std::uint64_t key(const track& t, std::uint64_t fiber) noexcept;
  const std::string& name(std::uint32_t number) const noexcept;
  std::string_view name(const slice& s) const noexcept;

  void append_object(std::uint32_t type, std::uint64_t object);
  lines& line(const char* phase, const track& t, std::int64_t ts);
  void emit(track& t);
  void begin(track& t, slice s);
  void write_begin(track& t, slice& s);
  void finish(track& t, std::int64_t ts, std::string_view why = {});
  void finish_down_to(track& t, std::size_t depth, std::int64_t ts);
  bool finish_kind(track& t, event what, std::int64_t ts, std::string_view why = {});
  void begin_arguments(slice& s, bool& any);
  void region_line(const char* phase, track& t, std::int64_t ts, std::uint64_t fiber, std::uint32_t region);
  void enter_fiber(track& t, const record& r, std::int64_t ts, std::uint32_t on);
  void leave_fiber(track& t, const record& r, event what, std::int64_t ts, std::uint32_t on);
  void end_on_device(track& t, std::int64_t ts, bool failed);
  void end_region(track& t, const record& r, std::int64_t ts);
  void work_on(track& t, std::uint32_t type, std::uint64_t object, std::uint32_t on);
  void depart(track& t, const record& r, std::int64_t ts);
  void land(track& t, const record& r, std::uint32_t on);
  void forward(track& t, const record& r, std::int64_t ts);
  void flow(track& t, const char* phase, int from, std::uint64_t number, std::int64_t ts, const record* sent);
  std::uint64_t whole_number(int from, std::uint64_t low) const;
  void moment(track& t, std::int64_t ts, std::string_view name, const char* category, const char* scope);

  void cut_off(std::string_view why, const track* one, std::int64_t ts);

  canvas& on_;
  const part& part_;
  std::vector<track> tracks_;
  std::vector<std::uint32_t> which_; // of tracks_, by a record's number
  std::unordered_map<std::uint64_t, fiber_state> fibers_;
  lines line_, why_;
  std::int64_t last_ = 0;
};

} // namespace tern::trace::detail
