// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Devices of OpenCL. Internal.
///
/// PoCL, which makes a device of the CPU, is told to run kernels in the thread that launches them
/// (`hetero-opencl-pocl`): a launch then costs less than a microsecond, and no second pool of
/// threads competes with the workers. So compilers and kernels run on the caller's stack: its owner
/// has as much as `stack_needed` says.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/hetero/device/device.hpp>
#include <tern/hetero/device/kernel_cache.hpp>
#include <tern/hetero/device/opencl/opencl_api.hpp>

namespace tern::hetero::detail {

/// Whether devices that can work in the host's memory do (`auto`), or have buffers like all others
/// (`buffers`).
extern const option<std::string> hetero_opencl_memory;
/// Which of PoCL's devices the CPU is, unless the environment says so by POCL_DEVICES: `basic`,
/// `pthread`.
extern const option<std::string> hetero_opencl_pocl;
/// Whether small equal tasks may be one launch: `auto` (not where kernels run in the thread that
/// launches them), `on`, `off`.
extern const option<std::string> hetero_opencl_fuse;

/// A device as its driver knows it, and what has become of it. Threads: as `device`.
struct opencl_target {
  opencl_api api;
  cl::device_id device = nullptr;
  cl::context context = nullptr;
  device_info info;
  std::string key;                    ///< which driver, in which version: compiled kernels are kept by it
  std::size_t largest_allocation = 0; ///< of one buffer
  std::size_t alignment = 1;          ///< of an address within a buffer that is given to a kernel
  std::size_t parameter_bytes = 0;    ///< of a kernel, at most
  std::string lost;                   ///< why; empty: it works
  std::int64_t patience_ns = 0;
  bool keeps_programs = false; ///< its driver has a cache of its own
  bool runs_at_once = false;   ///< kernels run in the thread that launches them
  bool takes_spirv = false;
  bool fuses = false; ///< puts launches together

  opencl_target() = default;
  ~opencl_target();
  opencl_target(const opencl_target&) = delete;
  opencl_target& operator=(const opencl_target&) = delete;

  /// "opencl0 (its maker's name)"
  std::string title() const;
  /// \throws what `s` means, which the driver said to `operation` ("copy to the device", "launch
  /// the kernel 'axpy'").
  /// \param running it was accepted and failed later: then running out of resources means that it
  /// is lost.
  [[noreturn]] void fail(cl::status s, const std::string& operation, bool running = false, std::string hint = {});
  /// \throws error(device_lost) if it is.
  void alive() const {
    if (!lost.empty()) [[unlikely]]
      throw error(errc::device_lost, lost, "what it alone had is gone; run without it: --tern-hetero-devices");
  }
};

/// A kernel, compiled for a device.
struct opencl_kernel {
  cl::kernel handle = nullptr;
  std::size_t max_items = 0;   ///< of a group
  std::size_t local_bytes = 0; ///< that it has of its own
  cl::uint parameters = 0;     ///< with that of dynamic memory
  mutable bool launched = false;
};

/// A kernel that is several at a time.
struct opencl_fused_kernel {
  opencl_kernel code; ///< its handle is null: there is none
  std::size_t tasks = 0;
  std::size_t set = 0; ///< the parameters of so many may name memory; 0: none has been launched
};

/// The kernels of a device: compiled when they are needed first, taken from the cache where it has
/// them, unless the driver has one itself.
class opencl_programs {
public:
  /// \param contract hetero_fma
  opencl_programs(opencl_target& target, kernel_cache cache, bool contract)
      : target_(target), cache_(std::move(cache)), contract_(contract) {}
  ~opencl_programs();
  opencl_programs(const opencl_programs&) = delete;
  opencl_programs& operator=(const opencl_programs&) = delete;

  /// \throws error(invalid_data) with what the compiler says, error(device_failed),
  /// error(device_lost), and what `text_of` throws.
  const opencl_kernel& get(const kernel_code& code) {
    const auto found = kernels_.find(&code);
    return found != kernels_.end() ? found->second : add(code);
  }
  /// That which takes the arguments of so many launches; made when it is asked for first.
  /// \return its handle is null if there is none, now and later, which the log tells.
  /// \throws error(device_lost).
  opencl_fused_kernel& fused(const kernel_code& code, std::size_t tasks) {
    const auto found = fused_.find(&code);
    return found != fused_.end() ? found->second : add_fused(code, tasks);
  }
  /// Compiles a block, and forgets it. \throws as `get`.
  void check(const source_block& block);
  int compiled() const noexcept { return compiled_; } ///< from source
  int from_cache() const noexcept { return from_cache_; }

private:
  const opencl_kernel& add(const kernel_code& code);
  opencl_fused_kernel& add_fused(const kernel_code& code, std::size_t tasks);
  opencl_kernel find(cl::program in, const kernel_code& code, const std::string& called_there);
  struct text_to_build {
    code_form form;
    std::string what, source; ///< what it is, for errors
    const char* options;
  };
  cl::program build(const kernel_code& code);
  cl::program build(const text_to_build& text);
  text_to_build text_of_block(const source_block& block) const;
  text_to_build text_of_source(const source_block& block, const std::string& source) const;
  cl::program create(const text_to_build& text) const;
  cl::program from_binary(std::string_view key, const char* options);
  void keep(std::string_view key, cl::program program) const;
  std::string log_of(cl::program program) const;

  opencl_target& target_;
  const kernel_cache cache_;
  const bool contract_;
  // Both are only looked up, or released in any order.
  // Of blocks of the dialect, and of other kernels, each for itself.
  std::unordered_map<const void*, cl::program> programs_;             // address: looked up
  std::unordered_map<const kernel_code*, opencl_kernel> kernels_;     // address: looked up
  std::unordered_map<const kernel_code*, opencl_fused_kernel> fused_; // address: looked up
  std::vector<cl::program> fused_programs_;
  int compiled_ = 0, from_cache_ = 0;
};

class opencl_device final : public device, public launch_fuser {
public:
  /// \throws error(device_failed) if its queues cannot be made.
  opencl_device(std::unique_ptr<opencl_target> target, const options& opts);
  ~opencl_device() override; ///< waits for what was put into streams

  const device_info& info() const noexcept override { return target_->info; }
  /// For compilers and kernels below a call: stacks are only taken as far as they are used.
  std::size_t stack_needed() const noexcept override { return std::size_t{8} << 20; }
  memory_handle allocate(std::size_t bytes) override;
  void free(memory_handle memory, std::size_t bytes) noexcept override;
  std::size_t alignment() const noexcept override { return target_->alignment; }
  std::size_t memory_limit() const noexcept override { return limit_; }
  int streams() const noexcept override { return static_cast<int>(queues_.size()) - 1; }
  int waiting_stream() const noexcept override { return streams(); }
  ticket copy(int stream, const copy_request& what) override;
  void prepare(const kernel_code& code) override { programs_.get(code); }
  /// Compiles a block of kernels, to see whether that works. \throws as `prepare`.
  void check(const source_block& block) { programs_.check(block); }
  ticket launch(int stream, const launch_request& what) override;
  launch_fuser* fuser() noexcept override { return target_->fuses ? this : nullptr; }
  // opencl_fused.cpp
  std::size_t fuses(const launch_request& what) const noexcept override;
  bool prepare_fused(const launch_request& what) override;
  ticket launch_fused(int stream, std::span<const launch_request> all) override;
  /// What runs in the thread that launches it is over by then.
  bool launches_behind() const noexcept override { return !target_->runs_at_once; }
  void order(int stream, ticket t) override;
  bool done(ticket t) override;
  bool measures() const noexcept override { return measures_; }
  bool streams_compete() const noexcept override { return true; }
  std::int64_t took() const noexcept override;
  std::int64_t poll_delay() noexcept override { return target_->patience_ns; }

  const opencl_programs& programs() const noexcept { return programs_; }
  std::size_t open_tickets() const noexcept { return slots_.size() - unused_.size(); }

private:
  // A ticket is the number of a slot, and how often it was used: one that was forgotten is
  // recognised.
  struct slot {
    cl::event event = nullptr;
    std::uint32_t uses = 0;
    const char* operation = nullptr;
    const char* kernel = nullptr; // null: none
    bool skipped = false;         // one before it had failed when it was to be launched
  };
  struct side { // of a copy
    std::size_t offset = 0, pitch = 0, slice = 0;
  };
  struct extent {
    std::size_t row_bytes = 0, rows = 1, slices = 1;
  };

  /// The driver keeps what a kernel that was launched needs.
  struct release_parts {
    ~release_parts() {
      for (const cl::memory m : parts) api.ReleaseMemObject(m);
      parts.clear();
    }
    const opencl_api& api;
    std::vector<cl::memory>& parts;
  };

  cl::queue queue(int stream, bool waits = false) const; ///< waits: it may be the waiting one
  /// Begins what was put into the queue. \return the ticket of `event`, which is then the slot's.
  ticket begin(cl::queue q, cl::event event, const char* operation, const char* kernel);
  ticket marker(cl::queue q, const char* operation, const char* kernel);
  /// Events of those that are under way. \return false: one has failed.
  bool events_of(std::span<const ticket> all, std::vector<cl::event>& into);
  slot* find(ticket t);
  void forget(slot& s) noexcept;
  cl::event enqueue(cl::queue q, const copy_request& what, const side& a, const side& b, const extent& e);
  cl::event enqueue_pieces(cl::queue q, const copy_request& what, side a, side b, const extent& e);
  void check(const opencl_kernel& k, const launch_request& what) const;
  /// Those that begin with the parameter `first`.
  void set_arguments(const opencl_kernel& k, const launch_request& what, cl::uint first);
  void set_dynamic(const opencl_kernel& k, const launch_request& what);
  ticket enqueue(cl::queue q, const opencl_kernel& k, const launch_request& what);
  ticket call(cl::queue q, const launch_request& what); ///< a function
  cl::memory part_of(cl::memory whole, std::size_t offset, const std::string& operation);

  std::unique_ptr<opencl_target> target_; // first: the others are released before it
  opencl_programs programs_;
  bool measures_ = false;    ///< queues keep times
  cl::event last_ = nullptr; ///< that was found to be done; null: none, or it keeps none
  std::vector<cl::queue> queues_;
  std::vector<slot> slots_;
  std::vector<std::uint32_t> unused_;
  std::vector<cl::event> pieces_; // of a copy; empty between calls
  std::vector<cl::event> after_;  // of a launch
  std::vector<cl::memory> parts_; // of buffers, given to the kernel that is being launched
  std::size_t limit_ = 0, used_ = 0;
};

/// All that options allow. Each call makes them anew. Thread-safe.
/// \param workers of the scheduler, beside which PoCL's threads run. \param skip_nvidia leaves out
/// those of NVIDIA's OpenCL, which CUDA has as well. \param notes gets what a user wants to know
/// about devices that were looked for in vain, a line each.
std::vector<std::unique_ptr<device>> open_opencl(const options& opts, int workers, bool skip_nvidia,
                                                 std::vector<std::string>& notes);
/// As `open_opencl`, with functions that need not be the driver's.
std::vector<std::unique_ptr<device>> open_opencl(const opencl_api& api, const options& opts, bool skip_nvidia,
                                                 std::vector<std::string>& notes);

} // namespace tern::hetero::detail
