// SPDX-License-Identifier: Apache-2.0
#include "bench/net/jobs.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <unistd.h>

#include "bench/net/side.hpp"

#ifndef BENCH_NET_TERN
#error "define BENCH_NET_TERN, _COUNTING, _OPENMPI, _MPICH as the paths of the programs, and the launchers"
#endif

namespace tern::bench::net {
namespace {

namespace fs = std::filesystem;

words split(const std::string& text) {
  words parts;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, '|');) parts.push_back(one);
  return parts;
}

words job(mpi library, const words& program) {
  const bool open = library == mpi::open_mpi;
  words line = split(open ? BENCH_NET_OPENMPI_LAUNCHER : BENCH_NET_MPICH_LAUNCHER);
  if (line.empty()) throw absent(open ? "Open MPI" : "MPICH");
  if (cores().size() < 2) throw absent("a second core");
  line.insert(line.end(), {"-np", "2"});
  line.insert(line.end(), program.begin(), program.end());
  return line;
}

// Alike on both sides. The limit is what Tern's plug-in sets where the user does not; ranks have a core each.
const environment same{{"OMPI_MCA_btl_vader_eager_limit", "17000"}, {"OMPI_MCA_mpi_yield_when_idle", "0"}};

environment with(environment more) {
  more.insert(more.begin(), same.begin(), same.end());
  more.emplace_back("TERN_WORKERS", "1");
  more.emplace_back("TERN_LOG_LEVEL", "error");
  return more;
}

environment awake(environment more) {
  more.emplace_back("TERN_SPIN_US", "1000000");
  return with(std::move(more));
}

words program(const char* path, const words& arguments) {
  words line{path};
  line.insert(line.end(), arguments.begin(), arguments.end());
  return line;
}

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

nlohmann::json run_raw(mpi library, const std::string& level, const words& arguments) {
  words line = program(library == mpi::open_mpi ? BENCH_NET_OPENMPI : BENCH_NET_MPICH, arguments);
  line.insert(line.begin() + 1, level);
  return run_for_json(job(library, line), {}, same);
}

nlohmann::json run_tern(mpi library, const words& arguments, environment more) {
  return run_for_json(job(library, program(BENCH_NET_TERN, arguments)), {}, awake(std::move(more)));
}

nlohmann::json run_tern_sleepy(mpi library, const words& arguments, environment more) {
  return run_for_json(job(library, program(BENCH_NET_TERN, arguments)), {}, with(std::move(more)));
}

nlohmann::json run_tern_inproc(const words& arguments) {
  if (cores().size() < 2) throw absent("a second core");
  return run_for_json(program(BENCH_NET_TERN, arguments), {},
                      awake({{"TERN_RANKS", "2"}, {"TERN_TRANSPORT", "inproc"}, {"TERN_BIND", "core"}}));
}

nlohmann::json run_counting(mpi library, const words& arguments) {
  return run_for_json(job(library, program(BENCH_NET_COUNTING, arguments)), {}, awake({{"TERN_AGGREGATE", "off"}}));
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
  const words traced{"sh", "-c", "exec strace -f -c -U calls,name -o \"$0/$$\" \"$@\"", folder.path()};
  words line = job(library, traced);
  const words side = program(BENCH_NET_TERN, arguments);
  line.insert(line.end(), side.begin(), side.end());
  run_for_json(line, {}, awake({{"TERN_AGGREGATE", "off"}}));
  double sum = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) sum += total_in(entry.path());
  return sum;
}

} // namespace tern::bench::net
