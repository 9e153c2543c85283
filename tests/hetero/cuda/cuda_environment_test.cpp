// SPDX-License-Identifier: Apache-2.0
// What the surroundings of CUDA devices are like, with the mock driver: memory that cannot be
// locked, the stacks that the driver is called on, contexts that are broken, kernels with many
// registers.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hetero/support/cuda_device.hpp"
#include "tests/hetero/support/graph_kernels.hpp"
#include "tests/hetero/support/kernels.hpp"
#include "tests/hetero/support/tasks.hpp"
#include <tern/hetero/device/discovery.hpp>
#include <tern/hetero/devices.hpp>
#include <tern/hetero/variants.hpp>

namespace tern::hetero {
namespace {

using testing::AllOf;
using testing::HasSubstr;

machine one_cuda() { return {.devices = "cuda0", .cuda = true}; }

void add_one(const hetero_object<unsigned, 2>& o) {
  submit(graph_kernels::add, items(o.extent(1), o.extent(0)), static_cast<int>(o.extent(1)),
         static_cast<int>(o.extent(0)), 1u, pitch(o), read_write(o));
}

// Page-locking --------------------------------------------------------------------------------------------------------

TEST(cuda_memlock, statistics_tell_what_is_locked_and_what_is_not) {
  for (const bool refused : {false, true}) {
    const mock_cuda driver(refused ? "memlock=1M" : "");
    on(one_cuda(), [&] {
      hetero_object<unsigned, 2> o({100, 100}, 1u);
      add_one(o);
      wait_all();
      const statistics s = count();
      EXPECT_GT(refused ? s.not_locked_bytes : s.locked_bytes, 100 * 100 * 4);
      EXPECT_EQ(refused ? s.locked_bytes : s.not_locked_bytes, 0);
      EXPECT_EQ(o.host(access_mode::read).get()(99, 99), 1u + 99 + 3 * 99 + 1);
    });
    EXPECT_EQ(mock_cuda::counters().pageable_copies > 0, refused);
  }
}

TEST(cuda_memlock, tern_info_says_what_to_do) {
  const auto notes_of = [](const char* how) {
    const mock_cuda driver(how);
    options opts = cuda_options();
    opts.set(hetero_devices, "host,cuda");
    std::vector<device_note> notes;
    const auto all = devices(opts, &notes, true);
    EXPECT_EQ(all.size(), 2u);
    std::string text;
    for (const device_note& n : notes) text += std::string(name_of(n.kind)) + ": " + n.text + "\n";
    return text;
  };
  EXPECT_EQ(notes_of(""), "");
  EXPECT_THAT(notes_of("memlock=1M"), AllOf(HasSubstr("cuda: the host's memory cannot be page-locked: "),
                                            HasSubstr("twice as long"), HasSubstr("ulimit -l unlimited"),
                                            HasSubstr("--ulimit memlock=-1"), HasSubstr("--tern-hetero-pinned")));
}

// Stacks --------------------------------------------------------------------------------------------------------------

TEST(cuda_stacks, the_driver_begins_and_compiles_on_those_of_threads) {
  for (const bool threads : {false, true}) {
    const mock_cuda driver;
    machine m = one_cuda();
    m.threads = threads;
    on(m, [] {
      hetero_object<unsigned, 2> o({10, 10}, 1u);
      add_one(o);
      wait_all();
    });
    EXPECT_GT(mock_cuda::counters().modules_loaded, 0u);
    EXPECT_EQ(mock_cuda::counters().on_fibers, 0u);
  }
}

TEST(cuda_stacks, what_is_thrown_there_arrives) {
  std::string text;
  scheduler s({.workers = 1});
  s.run([&] {
    text = text_of_error([] { detail::on_thread_stack([] { throw error(errc::io, "from the other stack"); }); });
    int done = 0;
    detail::on_thread_stack([&] { done = 1; });
    EXPECT_EQ(done, 1);
  });
  EXPECT_THAT(text, HasSubstr("from the other stack"));
}

// Contexts ------------------------------------------------------------------------------------------------------------

std::string fault_and_then(const char* how) {
  const mock_cuda driver(how);
  on(one_cuda(), [] {
    hetero_object<unsigned, 2> o({10, 10}, 1u);
    add_one(o);
    EXPECT_THAT(text_of_error([] { wait_all(); }), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
  });
  std::string second;
  on(one_cuda(), [&] {
    hetero_object<unsigned, 2> o({10, 10}, 1u);
    add_one(o);
    second = text_of_error([] { wait_all(); });
  });
  return second;
}

TEST(cuda_contexts, a_second_scheduler_is_told_of_what_broke_the_first_ones) {
  EXPECT_THAT(fault_and_then("fault-kernel=1,sticky"),
              AllOf(HasSubstr("cannot be opened: it cannot tell its memory: CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
                    HasSubstr("its context is one for the whole process, and has been broken for good: cuda0 ("),
                    HasSubstr("run the kernel 'add'"), HasSubstr("start the program again to use the device")));
}

TEST(cuda_contexts, one_that_is_made_anew_works) { EXPECT_EQ(fault_and_then("fault-kernel=1"), "nothing was thrown"); }

// Registers -----------------------------------------------------------------------------------------------------------

TEST(cuda_registers, groups_are_as_large_as_the_kernel_allows) {
  const mock_cuda driver("most-items=512");
  on(one_cuda(), [] {
    hetero_object<int> in(5000, 3), out(5000, 0);
    submit(test_kernels::copy_some, items(5000), 5000, read(in), write(out));
    EXPECT_EQ(out.host(access_mode::read).get()[4999], 3);
    hetero_task t(test_kernels::copy_some, items(5120).group(1024), 5000, read(in), write(out));
    t.submit();
    EXPECT_THAT(text_of_error([&] { t.wait(); }),
                AllOf(HasSubstr("its groups are too large: here it can have 512 items in each")));
  });
}

} // namespace
} // namespace tern::hetero
