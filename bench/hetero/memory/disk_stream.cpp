// SPDX-License-Identifier: Apache-2.0
/// \file
/// Blocks of four times the host's limit are written, and then summed again and again, by way of a
/// disk; against the same number of bytes written and read past the kernel's cache, with no tasks
/// and no checksums.

#include "bench/hetero/tern.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <tern/hetero/devices.hpp>
#include <tern/hetero/hetero_object.hpp>
#include <tern/hetero/hetero_task.hpp>
#include <tern/hetero/statistics.hpp>
#include <tern/task/scheduler.hpp>

namespace tern::bench::hetero {

namespace {

using clock = std::chrono::steady_clock;
using number = std::uint64_t;

constexpr std::size_t block_numbers = std::size_t{512} << 10, block_bytes = block_numbers * sizeof(number); // 4 MiB
constexpr int passes = 2;

std::string directory() {
  const char* const usual = std::getenv("TMPDIR");
  return usual && *usual ? usual : "/var/tmp";
}
double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

struct outcome {
  double seconds = 0;
  std::uint64_t written = 0, read = 0; ///< blocks
};

void run_tasks(std::size_t blocks, outcome& of) {
  std::vector<tern::hetero_object<number>> all;
  for (std::size_t i = 0; i < blocks; ++i) all.emplace_back(static_cast<std::int64_t>(block_numbers));
  tern::hetero_object<number> sums(static_cast<std::int64_t>(blocks), number{0});
  const auto begin = clock::now();
  for (std::size_t i = 0; i < blocks; ++i)
    tern::submit([i](tern::host_view<number, 1> v) { std::fill(v.begin(), v.end(), i); }, tern::write(all[i]));
  const auto n = static_cast<std::int64_t>(blocks);
  for (int pass = 0; pass < passes; ++pass) {
    tern::wait_all(); // or a block would be summed as soon as it has been written
    for (std::int64_t i = 0; i < n; ++i)
      tern::submit(
          [](tern::host_view<const number, 1> v, tern::host_view<number, 1> to) {
            number sum = 0;
            for (const number x : v) sum += x;
            to(0) += sum;
          },
          tern::read(all[static_cast<std::size_t>(i)]), tern::read_write(sums.rows(i, i + 1)));
  }
  tern::wait_all();
  of.seconds = seconds_since(begin);
  const auto host = sums.host(tern::access_mode::read).get();
  for (std::int64_t i = 0; i < n; ++i)
    if (host(i) != static_cast<number>(i) * block_numbers * passes)
      throw std::runtime_error("the sum of block " + std::to_string(i) + " is wrong");
  const auto done = tern::hetero::count();
  of.written = done.bytes_to_disk / block_bytes;
  of.read = done.bytes_from_disk / block_bytes;
}

/// \param room bytes of the host's memory, of which the blocks take four times as many.
outcome stream(std::size_t room, int workers) {
  outcome of;
  std::exception_ptr failed;
  std::thread([&] { // a scheduler of its own
    try {
      tern::options opts;
      opts.set(tern::hetero::hetero_devices, "host");
      opts.set(tern::hetero::hetero_host_memory, std::to_string(room));
      opts.set(tern::hetero::hetero_disk, directory());
      tern::scheduler s({.workers = workers, .opts = &opts});
      s.run([&] { run_tasks(4 * room / block_bytes, of); });
    } catch (...) {
      failed = std::current_exception();
    }
  })
      .join();
  if (failed) std::rethrow_exception(failed);
  return of;
}

/// Two threads write, then write and read, as many blocks as `of` did.
double raw(const outcome& of) {
  const int fd = open(directory().c_str(), O_TMPFILE | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), directory());
  const std::uint64_t all = of.written + of.read;
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> failed{0};
  const auto work = [&] {
    constexpr std::size_t page = 4096;
    struct to_free {
      void operator()(std::byte* p) const { std::free(p); }
    };
    const std::unique_ptr<std::byte, to_free> memory(static_cast<std::byte*>(std::aligned_alloc(page, block_bytes)));
    if (!memory) throw std::bad_alloc();
    std::fill_n(memory.get(), block_bytes, std::byte{1});
    for (std::uint64_t i = next++; i < all; i = next++) {
      const bool writes = i < of.written;
      const auto at = static_cast<off_t>((writes ? i : (i - of.written) % of.written) * block_bytes);
      for (std::size_t done = 0; done < block_bytes;) {
        const ssize_t n = writes ? pwrite(fd, memory.get() + done, block_bytes - done, at + static_cast<off_t>(done))
                                 : pread(fd, memory.get() + done, block_bytes - done, at + static_cast<off_t>(done));
        if (n <= 0) {
          failed = errno;
          return;
        }
        done += static_cast<std::size_t>(n);
      }
    }
  };
  const auto begin = clock::now();
  std::thread beside(work);
  work();
  beside.join();
  const double seconds = seconds_since(begin);
  close(fd);
  if (failed != 0) throw std::system_error(failed, std::generic_category(), "raw transfers");
  return seconds;
}

} // namespace

measurement disk_stream(const job& j) {
  const std::size_t room = j.size * block_bytes;
  const int workers = j.workers;
  if (j.benchmark == "disk_stream") return [=] { return stream(room, workers).seconds; };
  if (j.benchmark == "disk_stream_raw") return [=] { return raw(stream(room, workers)); };
  return {};
}

} // namespace tern::bench::hetero
