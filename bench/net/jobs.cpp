// SPDX-License-Identifier: Apache-2.0
#include "bench/net/jobs.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <unistd.h>

#ifndef BENCH_NET_TERN
#error "define BENCH_NET_TERN, _COUNTING, _MPI_OPENMPI, _MPI_MPICH as the paths of the programs"
#endif

namespace tern::bench::net {
namespace {

namespace fs = std::filesystem;

/// A folder that goes with the object.
class scratch_folder {
public:
  scratch_folder() {
    std::string name = (fs::temp_directory_path() / "bench-net-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder " + name);
    path_ = name;
  }
  ~scratch_folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  const fs::path& path() const noexcept { return path_; }

private:
  fs::path path_;
};

/// The sum in strace's summary: a line "CALLS total".
double total_in(const fs::path& summary) {
  std::ifstream file(summary);
  for (std::string line; std::getline(file, line);) {
    double calls = 0;
    std::string name;
    if (std::istringstream(line) >> calls >> name && name == "total") return calls;
  }
  throw std::runtime_error("strace's summary has no total");
}

} // namespace

nlohmann::json run_raw(mpi library, const std::string& level, const words& arguments, rival_settings how) {
  words line = command_line(library == mpi::open_mpi ? BENCH_NET_MPI_OPENMPI : BENCH_NET_MPI_MPICH, arguments);
  line.insert(line.begin() + 1, level);
  return run_rival_ranks(library, line, how);
}

nlohmann::json run_tern(mpi library, const words& arguments, spinning how, environment more) {
  return run_tern_ranks(library, command_line(BENCH_NET_TERN, arguments), how, std::move(more));
}

nlohmann::json run_tern_inproc(const words& arguments, spinning how) {
  return run_tern_threads(command_line(BENCH_NET_TERN, arguments), how);
}

nlohmann::json run_counting(mpi library, const words& arguments) {
  return run_tern_ranks(library, command_line(BENCH_NET_COUNTING, arguments), spinning::always,
                        {{"TERN_AGGREGATE", "off"}});
}

double system_calls(mpi library, const words& arguments) {
  try {
    run_command({"strace", "-f", "-c", "-U", "calls,name", "-o", "/dev/null", "true"});
  } catch (const absent&) {
    throw;
  } catch (const std::exception&) {
    throw absent("an strace that may trace and knows -U");
  }
  const scratch_folder folder;
  words traced{"sh", "-c", "exec strace -f -c -U calls,name -o \"$0/$$\" \"$@\"", folder.path(), BENCH_NET_TERN};
  traced.insert(traced.end(), arguments.begin(), arguments.end());
  run_tern_ranks(library, traced, spinning::always, {{"TERN_AGGREGATE", "off"}});
  double sum = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) sum += total_in(entry.path());
  return sum;
}

} // namespace tern::bench::net
