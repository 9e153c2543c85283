// SPDX-License-Identifier: Apache-2.0
#include "tools/tern/launch/launcher.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include <unistd.h>

#include <tern/net/transport/mpi/mpi_transport.hpp>

namespace tern::tool {
namespace {

std::optional<std::filesystem::path> find_launcher(const std::vector<std::string>& own_names,
                                                   const std::vector<std::string>& words) {
  for (const auto& name : own_names)
    if (auto found = look_for_program(name)) return found;
  for (const char* name : {"mpirun", "mpiexec"})
    if (auto found = look_for_program(name)) {
      const auto [status, text] = read_output({found->string(), "--version"});
      for (const auto& word : words)
        if (text.find(word) != std::string::npos) return found;
    }
  return std::nullopt;
}

bool begins(std::string_view text, std::string_view with) { return text.starts_with(with); }

/// Whether `line`, which may go on, can still turn out to begin like `pattern`.
bool may_begin(std::string_view line, std::string_view pattern) {
  const auto n = std::min(line.size(), pattern.size());
  return line.substr(0, n) == pattern.substr(0, n);
}

const std::string dashes(74, '-');
const std::string equals(83, '=');

// First words of Open MPI's blocks that only report the end of the job; mpirun puts its own name
// first.
const std::vector<std::string_view> openmpi_banners = {
    "noticed that process rank",      "Primary job  terminated",
    "MPI_ABORT was invoked on rank",  "detected that one or more processes",
    "has exited due to process rank", "A process has executed an operation involving a call",
    "ORTE has lost communication",
};
// Lines that stand alone.
const std::vector<std::string_view> mpich_lines = {
    "[mpiexec@",
    "[proxy:",
    "application called MPI_Abort(",
    "YOUR APPLICATION TERMINATED WITH THE EXIT STRING",
};
const std::vector<std::string_view> openmpi_tails = {
    "sent help message help-",
    "Set MCA parameter \"orte_base_help_aggregate\"",
    "ORTE_ERROR_LOG: ",
};

bool contains_any(std::string_view text, const std::vector<std::string_view>& words) {
  return std::any_of(words.begin(), words.end(), [&](auto w) { return text.find(w) != std::string_view::npos; });
}

} // namespace

std::vector<mpi_installation> find_mpis() {
  std::vector<mpi_installation> all{{"openmpi", "Open MPI", {}, {}}, {"mpich", "MPICH", {}, {}}};
  all[0].launcher = find_launcher({"mpirun.openmpi", "mpiexec.openmpi", "orterun"}, {"Open MPI", "OpenRTE"});
  all[1].launcher = find_launcher({"mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra"}, {"HYDRA"});
  for (auto& one : all)
    for (const auto& folder : net::plugin_folders()) {
      const auto file = std::filesystem::path(folder) / ("libtern_mpi_" + one.name + ".so");
      std::error_code ignored;
      if (!one.plugin && std::filesystem::exists(file, ignored)) one.plugin = file;
    }
  return all;
}

bool job_stays_here() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_NODEFILE", "LSB_HOSTS", "LSB_MCPU_HOSTS", "PE_HOSTFILE",
                           "HYDRA_HOST_FILE", "OMPI_MCA_orte_default_hostfile"})
    if (std::getenv(name)) return false;
  return true;
}

std::vector<std::string> launcher_command(const mpi_installation& mpi, const placement& where) {
  std::vector<std::string> command{mpi.launcher->string()};
  const auto add = [&](std::initializer_list<std::string> more) { command.insert(command.end(), more); };
  if (mpi.name == "openmpi") {
    // Tern binds its own threads and knows how many ranks share a host, so the launcher must
    // neither bind nor count slots.
    if (geteuid() == 0) add({"--allow-run-as-root"});
    add({"--oversubscribe", "--bind-to", "none"});
    if (where.per == placement::per_what::socket) add({"--map-by", "ppr:1:socket"});
    if (where.per == placement::per_what::node) add({"--map-by", "ppr:1:node"});
    if (where.ranks > 0) add({"-np", std::to_string(where.ranks)});
    // On other hosts only what is named reaches the ranks. MPICH sends everything.
    for (char** one = environ; *one; ++one) {
      const std::string_view entry(*one);
      if (begins(entry, "TERN_") && !begins(entry, "TERN_RANKS="))
        add({"-x", std::string(entry.substr(0, entry.find('=')))});
    }
  } else {
    add({"-bind-to", "none"});
    if (where.per == placement::per_what::node) add({"-ppn", "1"});
    if (where.per == placement::per_what::socket) add({"-map-by", "socket"});
    add({"-np", std::to_string(std::max(1, where.ranks))});
  }
  return command;
}

void launcher_noise::learn(const std::string& text) {
  job_failure& f = *seen_;
  int rank = -1, signal = 0, code = 0;
  long pid = -1;
  const auto at = [&](const char* words) -> const char* {
    const auto found = text.find(words);
    return found == std::string::npos ? nullptr : text.c_str() + found;
  };
  if (const char* p = at("noticed that process rank ");
      p && std::sscanf(p, "noticed that process rank %d with PID %ld", &rank, &pid) >= 1) {
    const char* s = at("exited on signal ");
    if (s && std::sscanf(s, "exited on signal %d", &signal) == 1 && !f.aborted) {
      f.known = true;
      f.rank = rank;
      f.signal = signal;
    }
  }
  if (const char* p = at("MPI_ABORT was invoked on rank ");
      p && std::sscanf(p, "MPI_ABORT was invoked on rank %d", &rank) == 1 && !f.known) {
    f.known = f.aborted = true;
    f.rank = rank;
  }
  if (const char* p = at("with errorcode "); p && std::sscanf(p, "with errorcode %d", &code) == 1) f.code = code;
  if (const char* p = at("Process name: [[");
      p && std::sscanf(p, "Process name: [[%*d,%*d],%d]", &rank) == 1 && !f.known) {
    f.known = true;
    f.rank = rank;
  }
  if (const char* p = at("Exit code: "); p && std::sscanf(p, "Exit code: %d", &code) == 1 && !f.aborted) f.code = code;
  // MPICH. A rank is only told by MPI_Abort; otherwise there is the process number.
  if (const char* p = at("application called MPI_Abort(");
      p && std::sscanf(p, "application called MPI_Abort(%*[^,], %d) - process %d", &code, &rank) == 2 && !f.aborted) {
    f.known = f.aborted = true;
    f.rank = rank;
    f.code = code;
    f.signal = 0;
  }
  if (const char* p = at("=   PID "); p && std::sscanf(p, "=   PID %ld", &pid) == 1 && f.pid < 0) f.pid = pid;
  if (const char* p = at("=   RANK "); p && std::sscanf(p, "=   RANK %d PID %ld", &rank, &pid) == 2 && f.rank < 0) {
    f.rank = rank;
    f.pid = pid;
  }
  if (const char* p = at("=   EXIT CODE: "); p && std::sscanf(p, "=   EXIT CODE: %d", &code) == 1 && !f.known) {
    f.known = true;
    f.code = code;
  }
  if (const char* p = at("THE EXIT STRING: "); p && !f.aborted) {
    if (const char* s = at("(signal "); s && std::sscanf(s, "(signal %d)", &signal) == 1) {
      f.known = true;
      f.signal = signal;
      // Hydra may name a process that it has killed itself when it cleaned up: then its code is
      // another one.
      if (f.code != signal) f.pid = f.rank = -1;
    }
  }
}

/// \return what the user sees of a whole line, line feed included.
std::string launcher_noise::line(const std::string& text) {
  const std::string_view bare(text.data(), text.size() - (text.ends_with('\n') ? 1 : 0));
  switch (where_) {
  case where::maybe_openmpi:
    if (contains_any(bare, openmpi_banners)) {
      where_ = where::in_openmpi;
      held_.clear();
      learn(text);
      return {};
    }
    where_ = where::outside;
    return std::exchange(held_, {}) + line(text);
  case where::in_openmpi:
    learn(text);
    if (bare == dashes) where_ = where::outside;
    return {};
  case where::in_mpich:
    learn(text);
    if (bare == equals) where_ = where::after_mpich;
    return {};
  case where::after_mpich:
    if (begins(bare, "YOUR APPLICATION TERMINATED") || begins(bare, "This typically refers to a problem") ||
        begins(bare, "Please see the FAQ page")) {
      learn(text);
      return {};
    }
    where_ = where::outside;
    break;
  case where::outside:
    break;
  }
  if (bare == dashes) {
    where_ = where::maybe_openmpi;
    held_ += text;
    return {};
  }
  if (bare.empty() && held_.empty()) { // MPICH's banner begins with one
    held_ = text;
    return {};
  }
  if (begins(bare, "=   BAD TERMINATION OF ONE") && held_.ends_with(equals + "\n")) {
    where_ = where::in_mpich;
    held_.clear();
    return {};
  }
  if (bare == equals) {
    std::string before = held_ == "\n" ? std::string{} : std::exchange(held_, {});
    held_ += text;
    return before;
  }
  std::string out = std::exchange(held_, {});
  if (std::any_of(mpich_lines.begin(), mpich_lines.end(), [&](auto w) { return begins(bare, w); }) ||
      (begins(bare, "[") && contains_any(bare, openmpi_tails)) ||
      (begins(bare, "Abort(") && bare.find("application called MPI_Abort(") != std::string_view::npos)) {
    learn(text);
    return out;
  }
  return out + text;
}

std::string launcher_noise::feed(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto feed_at = text.find('\n');
    const bool whole = feed_at != std::string_view::npos;
    const auto piece = text.substr(0, whole ? feed_at + 1 : text.size());
    text.remove_prefix(piece.size());
    if (inside_line_) {
      out += piece;
      inside_line_ = !whole;
      continue;
    }
    partial_ += piece;
    if (whole) {
      out += line(std::exchange(partial_, {}));
      continue;
    }
    // An unfinished line (a prompt, a progress bar) passes unless it may be the beginning of a
    // banner.
    const bool suspicious = where_ != where::outside || may_begin(partial_, dashes) || may_begin(partial_, equals) ||
                            partial_[0] == '[' || may_begin(partial_, "=   BAD") || may_begin(partial_, "Abort(") ||
                            may_begin(partial_, "application called MPI_Abort(") ||
                            may_begin(partial_, mpich_lines.back());
    if (!suspicious || partial_.size() > 4096) {
      out += std::exchange(held_, {}) + std::exchange(partial_, {});
      inside_line_ = true;
    }
  }
  return out;
}

std::string launcher_noise::end() {
  std::string out;
  if (!partial_.empty()) out = line(std::exchange(partial_, {}));
  return out + std::exchange(held_, {});
}

} // namespace tern::tool
