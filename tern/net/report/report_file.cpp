// SPDX-License-Identifier: Apache-2.0
#include <tern/net/report/report_file.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tern/base/error.hpp>

namespace tern::net {
namespace {

constexpr std::string_view rank_variables[] = {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK="};
constexpr std::string_view part_begins = "== rank";

constexpr std::string_view report_begins = "Tern report, job ";

std::string first_line(std::uint64_t job) { return std::string(report_begins) + std::to_string(job) + "\n"; }

/// Where that line begins; npos: nowhere.
std::size_t find_line(const std::string& text, const std::string& line) {
  auto at = text.find(line);
  while (at != std::string::npos && at > 0 && text[at - 1] != '\n') at = text.find(line, at + 1);
  return at;
}

std::string contents(int fd) {
  struct stat s {};
  std::string all;
  if (fstat(fd, &s) != 0) return all;
  all.resize(static_cast<std::size_t>(s.st_size));
  const ssize_t n = pread(fd, all.data(), all.size(), 0);
  all.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return all;
}

std::string file_text(const std::filesystem::path& p) {
  std::ifstream in(p, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Fields of /proc/PID/stat: the state, and the parent.
bool state_of(const std::filesystem::path& process, char& state, int& parent) {
  const std::string line = file_text(process / "stat");
  const auto bracket = line.rfind(')'); // the name before it may hold anything
  return bracket != std::string::npos && std::sscanf(line.c_str() + bracket + 1, " %c %d", &state, &parent) == 2;
}

int rank_in(const std::string& environment) {
  for (const auto name : rank_variables)
    for (std::size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
      if (environment.compare(at, name.size(), name) == 0) return std::atoi(environment.c_str() + at + name.size());
      if (environment.find('\0', at) == std::string::npos) break;
    }
  return -1;
}

const char* words_for(char state) {
  switch (state) {
  case 'T':
    return "is stopped (SIGSTOP)";
  case 't':
    return "is stopped by a debugger";
  case 'Z':
    return "has ended";
  case 'D':
    return "waits inside the kernel (disk or network)";
  case 'R':
    return "runs";
  default:
    return "sleeps";
  }
}

} // namespace

report_file::report_file(const std::string& path, std::uint64_t job, const std::string& heading, bool follow) {
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW), 0644);
  path_ = path;
  if (fd_ < 0) go_to_standard_error(errno);
  struct stat mine {};
  stream_ = fstat(fd_, &mine) != 0 || !S_ISREG(mine.st_mode);
  for (const int standard : {STDERR_FILENO, STDOUT_FILENO}) {
    struct stat other {};
    if (standard == fd_ || fstat(standard, &other) != 0 || other.st_dev != mine.st_dev || other.st_ino != mine.st_ino)
      continue;
    // With its position, lest what is written there next overwrites the report.
    const int same = fcntl(standard, F_DUPFD_CLOEXEC, 0);
    if (same < 0) continue;
    close(fd_);
    fd_ = same;
    stream_ = true;
    break;
  }
  const std::string first = first_line(job);
  if (stream_) {
    static std::atomic<std::uint64_t> begun{0};
    if (begun.exchange(job) != job) write(first + heading);
    return;
  }
  // The lock holder writes text that it has ready, or crashes. Without the lock, reports may mix,
  // which is better than no report.
  for (int tries = 0; flock(fd_, LOCK_EX | LOCK_NB) != 0 && tries < 500; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::string there = contents(fd_);
  if (const auto at = find_line(there, first); at != std::string::npos) {
    begin_ = at;
    return;
  }
  if (there.starts_with(report_begins)) { // what it says is over; all else is not ours to empty
    if (ftruncate(fd_, 0) != 0) return;
    there.clear();
  }
  const bool in_line = !there.empty() && there.back() != '\n';
  begin_ = there.size() + (in_line ? 1 : 0);
  write((in_line ? "\n" : "") + first + heading);
}

report_file::~report_file() {
  if (fd_ >= 0) close(fd_);
}

void report_file::go_to_standard_error(int why) {
  std::fprintf(stderr, "tern: cannot write the report %s: %s; it follows here\n", path_.c_str(), std::strerror(why));
  std::fflush(stderr);
  if (fd_ >= 0) close(fd_);
  fd_ = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  stream_ = lost_ = true;
}

void report_file::write(std::string_view text) {
  if (!lost_) written_ += text;
  while (!text.empty()) {
    const ssize_t n = ::write(fd_, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) { // mostly the disk is full
      if (lost_) return;
      go_to_standard_error(errno);
      return write(std::exchange(written_, {}));
    }
  }
}

// == ranks 0-3,5 of 8 at 2026-11-22 12:00:01 UTC: …
std::vector<int> report_file::ranks_within(double seconds) const {
  std::set<int> found;
  if (stream_) return {};
  std::string all = contents(fd_);
  all.erase(0, begin_);
  const std::time_t now = std::time(nullptr); // address: only how old a part is
  for (auto at = all.find(part_begins); at != std::string::npos; at = all.find(part_begins, at + 1)) {
    if (at > 0 && all[at - 1] != '\n') continue;
    const std::string line = all.substr(at, all.find('\n', at) - at);
    const auto time = line.find(" at ");
    std::tm when{};
    if (time == std::string::npos || !strptime(line.c_str() + time + 4, "%Y-%m-%d %H:%M:%S", &when)) continue;
    if (std::difftime(now, timegm(&when)) > seconds) continue;
    const char* p = line.c_str() + line.find_first_of("0123456789");
    for (;;) {
      char* end = nullptr;
      const long low = std::strtol(p, &end, 10);
      const long high = *end == '-' ? std::strtol(end + 1, &end, 10) : low;
      for (long r = low; r <= high && r - low < 1'000'000; ++r) found.insert(static_cast<int>(r));
      if (end[0] != ',' || end[1] != ' ') break;
      p = end + 2;
    }
  }
  return {found.begin(), found.end()};
}

std::string part_heading(const std::vector<int>& ranks, int of, const std::string& who) {
  char when[64] = "";
  const std::time_t now = std::time(nullptr); // address: for people
  std::tm utc{};
  std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", gmtime_r(&now, &utc));
  return "\n" + std::string(part_begins) + (ranks.size() == 1 ? " " : "s ") + ranges(ranks) + " of " +
         std::to_string(of) + " at " + when + " UTC: " + who + "\n";
}

std::vector<neighbour> neighbours(const std::vector<int>& ranks) {
  std::vector<neighbour> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    neighbour n;
    int parent = 0;
    // Launchers start all ranks of a host from one process, with the rank in the environment.
    if (name.find_first_not_of("0123456789") != std::string::npos || !state_of(entry.path(), n.state, parent) ||
        parent != getppid())
      continue;
    n.process = std::atoi(name.c_str());
    n.rank = rank_in(file_text(entry.path() / "environ"));
    if (std::binary_search(ranks.begin(), ranks.end(), n.rank)) found.push_back(n);
  }
  std::sort(found.begin(), found.end(), [](auto& x, auto& y) { return x.rank < y.rank; });
  return found;
}

std::string words_for(const neighbour& n) {
  return "   rank " + std::to_string(n.rank) + ": process " + std::to_string(n.process) + " on this host " +
         words_for(n.state) + "\n";
}

bool ask(const neighbour& n, int signal) {
  // Without a handler the signal would end it.
  const std::string status = file_text("/proc/" + std::to_string(n.process) + "/status");
  const auto caught = status.find("SigCgt:");
  if (caught == std::string::npos) return false;
  const unsigned long long mask = std::strtoull(status.c_str() + caught + 7, nullptr, 16);
  return (mask >> (signal - 1) & 1) != 0 && n.state != 'T' && n.state != 't' && kill(n.process, signal) == 0;
}

} // namespace tern::net
