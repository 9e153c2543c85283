// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Devices of CUDA. Internal.
///
/// One primary context for each device, which libraries such as cuBLAS share; it is retained by
/// `open`, so that a process that never uses the device has none, and made the thread's current one
/// by every call that needs one (fibers change threads). It stays current: code that uses CUDA in a
/// worker sets its own.
///
/// A stream takes copies to the device, one copies from it, and some kernels. Of what is over the
/// device learns by few events (cuda_streams.hpp).
///
/// Memory comes from a pool (block_pool.hpp), as cuMemAlloc and cuMemFree wait for the device;
/// copies are asynchronous because the host's memory, too, is from a pool that is page-locked when
/// the device is opened (pinned_memory.hpp).
///
/// What a kernel does wrong (an address that is not there) breaks the context for good: the device
/// is lost, and the error names all kernels that were on it, as CUDA does not say which it was.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/base/options.hpp>
#include <tern/hetero/device/cuda/cuda_api.hpp>
#include <tern/hetero/device/cuda/cuda_streams.hpp>
#include <tern/hetero/device/cuda/cuda_timer.hpp>
#include <tern/hetero/device/cuda/cuda_ways.hpp>
#include <tern/hetero/device/cuda/nvrtc.hpp>
#include <tern/hetero/device/device.hpp>
#include <tern/hetero/device/kernel_cache.hpp>
#include <tern/hetero/memory/block_pool.hpp>

namespace tern::hetero::detail {

class pinned_memory;

/// What makes CUDA fast, to be turned off one by one, for comparisons: a list of no-pinned,
/// no-pool, one-stream, no-graphs, no-peers, no-fuse, no-ahead.
extern const option<std::string> cuda_without;
/// Libraries to open in the place of the usual ones, separated by a colon: the driver's, NVRTC,
/// NVML.
extern const option<std::string> cuda_libraries;
/// Names of the library of NVML, as that option and the machine have them.
std::vector<std::string> nvml_libraries(const options& opts);
/// Names of NVRTC's library, as that option and the machine have them.
std::vector<std::string> nvrtc_libraries(const options& opts);

struct cuda_switches {
  bool pinned = true;  ///< the host's memory is page-locked
  bool pool = true;    ///< memory of the device is kept for later
  bool streams = true; ///< several; else one for all
  bool graphs = true;  ///< of recorded tasks
  bool peers = true;   ///< copies go straight from device to device where they can
  bool fuse = true;    ///< small equal kernels are one launch where that measures faster
  bool ahead = true;   ///< tasks are launched behind others that are under way
};
/// \pre the option's check has passed.
cuda_switches switches_of(const options& opts);

/// Does the context do nothing more after this? It says what went wrong in a kernel, or in the
/// device; other results are about one call.
bool is_for_good(cu::result r) noexcept;

/// A device as its driver knows it, and what has become of it. Threads: as `device`.
struct cuda_target {
  cuda_api api;
  cu::device number = 0;
  device_info info;
  int capability = 0;       ///< 90 is 9.0
  bool cooperative = false; ///< runs kernels with groups that wait for each other
  std::array<std::int64_t, 3> most_groups{};
  std::vector<cu::device> peers; ///< devices with memory that this one can be given access to
  cu::context context = nullptr; ///< null: not opened
  /// Gives unused memory back to the driver. \return whether there was any.
  std::function<bool()> evict;
  std::string lost; ///< why; empty: it works
  /// Its context is this thread's, and nothing but this device's owner has run there since.
  bool is_current = false;
  bool tells_resumption = false; ///< the owner says when that may have changed
  bool own = false;              ///< no other rank of this machine uses it

  cuda_target() = default;
  ~cuda_target();
  cuda_target(const cuda_target&) = delete;
  cuda_target& operator=(const cuda_target&) = delete;

  /// "cuda0 (its maker's name)"
  std::string title() const;
  /// \throws what `r` means, which the driver said to `operation` ("copy to the device", "launch
  /// the kernel 'axpy'").
  [[noreturn]] void fail(cu::result r, const std::string& operation, std::string hint = {});
  /// The same, and whatever it was, the device is lost.
  [[noreturn]] void lose(cu::result r, const std::string& operation);
  /// `f()`, and if it says that there is no memory, once more when there is some.
  template <class F> cu::result with_free_memory(F&& f) {
    const cu::result r = f();
    return r == cu::out_of_memory && evict && evict() ? f() : r;
  }
  void check(cu::result r, const char* operation) {
    if (r != cu::success) [[unlikely]]
      fail(r, operation);
  }
  [[noreturn]] void tell_loss() const;
  bool works() const noexcept { return context && lost.empty(); } ///< else `enter` throws
  /// \throws error(device_lost) if it is.
  void alive() const {
    if (!lost.empty()) [[unlikely]]
      tell_loss();
  }
  /// Makes its context this thread's. \pre it is open. \throws as the others.
  void enter() {
    if (!is_current || !lost.empty()) enter_anew();
  }
  void enter_anew();
  void enter_elsewhere(); ///< the same in a thread that works for the owner, and ends
};

inline cu::pointer address_of(memory_handle m) { return reinterpret_cast<cu::pointer>(m); }

/// A kernel, loaded.
struct cuda_kernel {
  cu::function handle = nullptr;
  int max_items = 0;              ///< of a group
  int shared_bytes = 0;           ///< that it has of its own
  int dynamic_bytes = 0;          ///< that it may be given; grows when it is asked for more
  std::size_t large_bytes = 0;    ///< of TERN_SHARED, that lie at the end of dynamic memory
  bool knows_sizes = false;       ///< older drivers do not tell
  std::vector<std::size_t> sizes; ///< of its parameters
  /// What a launch gives it, where its task wants so much.
  std::size_t dynamic_for(std::size_t wanted) const noexcept {
    return large_bytes == 0 ? wanted : (wanted + 15) / 16 * 16 + large_bytes;
  }
};

/// The kernels of a device, compiled and loaded when they are needed first.
class cuda_programs {
public:
  /// \param ways live as long.
  cuda_programs(cuda_target& target, const cuda_ways& ways) : target_(target), ways_(ways) {}
  ~cuda_programs();
  cuda_programs(const cuda_programs&) = delete;
  cuda_programs& operator=(const cuda_programs&) = delete;

  /// \pre the context is current. \throws error(invalid_data) with what the compiler says, what
  /// `compile_cuda` throws, and error(unsupported) where there is no way to its code.
  cuda_kernel& get(const kernel_code& code) {
    const auto found = kernels_.find(&code);
    return found != kernels_.end() ? found->second : add(code);
  }
  /// The kernel that is several of this one at a time. \pre as `get`. \return null: there is none,
  /// as it does not compile, or needs too much.
  cuda_kernel* fused(const kernel_code& code);
  /// Does the device run such kernels, wherever they come from?
  bool can_fuse() const noexcept;
  int compiled() const noexcept { return compiled_; }
  int from_cache() const noexcept { return from_cache_; }
  int from_program() const noexcept { return from_program_; } ///< as PTX that was made with it

private:
  cuda_kernel& add(const kernel_code& code);
  cu::module load(const kernel_code& code, bool fused);
  cu::module compile(const kernel_code& code, bool fused, cu::result& r, std::string& log);
  cu::module find_compiled(const kernel_code& code, bool fused, cu::result& r, std::string& log);
  bool compiles_fused() const noexcept; ///< is there an NVRTC for such kernels?
  cuda_kernel find(cu::module in, const kernel_code& code, const std::string& name);
  cu::module load_image(const std::string& image, cu::result& r, std::string& log) const;

  cuda_target& target_;
  const cuda_ways& ways_;
  struct fused_kernel {
    bool there = false;
    cuda_kernel code;
  };
  std::unordered_map<const void*, cu::module> modules_, fused_modules_; // address: looked up only
  std::unordered_map<const kernel_code*, cuda_kernel> kernels_;         // address: looked up only
  std::unordered_map<const kernel_code*, fused_kernel> fused_;          // address: looked up only
  int compiled_ = 0, from_cache_ = 0, from_program_ = 0;
};

/// A kernel with its arguments, as it is launched.
struct cuda_launch {
  cu::kernel_node what;
  std::vector<std::uint64_t> words;  ///< the arguments' bytes
  std::vector<std::uint32_t> begins; ///< of each, in `words`
  std::vector<void*> values;         ///< into `words`
  bool cooperative = false;
  bool same_as(const cuda_launch& other) const noexcept;
};

/// What sequences were made of them, in the rounds before.
class cuda_graphs {
public:
  explicit cuda_graphs(cuda_target& target) : target_(target) {}
  ~cuda_graphs();
  cuda_graphs(const cuda_graphs&) = delete;
  cuda_graphs& operator=(const cuda_graphs&) = delete;
  /// Puts the sequence into the stream as a graph. \pre the context is current.
  /// \return false if that is not to be: the first time, or where it does not pay; then nothing has
  /// been done.
  bool launch(cu::stream to, std::uint64_t number, std::vector<cuda_launch>& launches,
              const std::vector<std::uint32_t>& before, const std::vector<std::uint32_t>& begins);
  int made() const noexcept { return made_; } ///< instantiated

private:
  struct entry {
    std::vector<cuda_launch> launches;
    std::vector<std::uint32_t> before, begins;
    cu::graph graph = nullptr;
    cu::graph_exec exec = nullptr;
    std::vector<cu::graph_node> nodes;
    std::uint64_t rounds = 0, made = 0, last_used = 0;
    bool given_up = false;
  };
  void drop(entry& e) noexcept;
  cu::result make(entry& e);
  void evict();

  cuda_target& target_;
  std::unordered_map<std::uint64_t, entry> entries_;
  std::uint64_t clock_ = 0;
  int made_ = 0;
};

/// Threads and errors: as `device`.
class cuda_device final : public device, private slab_source, private launch_fuser {
public:
  /// \param nvrtc empty: there is none, and `why_none` says why.
  /// \param host memory that copies should be quick to and from; page-locked by `open`. May be
  /// null.
  cuda_device(std::unique_ptr<cuda_target> target, const nvrtc_api& nvrtc, const std::string& why_none,
              const options& opts, std::shared_ptr<pinned_memory> host);
  ~cuda_device() override;

  const device_info& info() const noexcept override { return target_->info; }
  void open() override;
  memory_handle allocate(std::size_t bytes) override;
  void free(memory_handle memory, std::size_t bytes) noexcept override;
  std::size_t memory_limit() const noexcept override { return limit_; }
  std::size_t stack_needed() const noexcept override;
  int streams() const noexcept override { return stream_count_; }
  int waiting_stream() const noexcept override { return stream_count_; }
  int waiting_stream_in() const noexcept override { return stream_count_ + 1; }
  bool waits_for(const device& other) const noexcept override;
  event_ref event(ticket t) override;
  ticket copy(int stream, const copy_request& what) override;
  void prepare(const kernel_code& code) override;
  bool takes_sequences() const noexcept override { return true; }
  bool reaches(const device& from) const noexcept override;
  ticket launch(int stream, const launch_request& what) override;
  /// What fails on the device loses it, so nothing is done after a failure.
  bool launches_behind() const noexcept override { return switches_.ahead; }
  launch_fuser* fuser() noexcept override { return switches_.fuse && programs_->can_fuse() ? this : nullptr; }
  void order(int stream, ticket t) override;
  void mark(int stream) override;
  bool done(ticket t) override { return queues_.done(t); }
  void resume(bool new_round) noexcept override;
  bool measures() const noexcept override { return timer_->works(); }
  bool measures_functions() const noexcept override { return timer_->works(); }
  bool measures_on_request() const noexcept override { return true; }
  bool streams_compete() const noexcept override { return true; }
  std::int64_t took() const noexcept override { return queues_.took(); }
  std::shared_ptr<energy_source> energy(std::string& why) const override;
  bool is_selective() const noexcept override { return !ways_.compiles(); }
  bool runs(const kernel_code& code) const noexcept override { return ways_.runs(code); }
  std::string why_not(const kernel_code& code) const override { return ways_.why_not(code); }

  const cuda_programs& programs() const noexcept { return *programs_; }
  const cuda_graphs& graphs() const noexcept { return *graphs_; }
  std::size_t open_tickets() const noexcept { return queues_.open_tickets(); }

private:
  using queue = cuda_streams::stream;

  queue& at(int stream, bool waits = false); ///< waits: it may be the waiting one
  void come_after(queue& q, std::span<const ticket> all, std::span<const event_ref> others);
  void copy_rows(cu::stream s, const copy_request& what);
  void allow_access_to(const cuda_target& other);
  void check(const cuda_kernel& k, const launch_request& what) const;
  void prepare(const launch_request& what, cuda_launch& l);
  void allow_dynamic(cuda_kernel& k, const launch_request& what);
  void put(queue& q, const cuda_launch& l, const char* kernel);
  void call(queue& q, const launch_request& what); ///< a function
  ticket launch_all(queue& q, const launch_sequence& all, const char* task);
  // launch_fuser
  std::size_t fuses(const launch_request& what) const noexcept override;
  bool prepare_fused(const launch_request& what) override;
  ticket launch_fused(int stream, std::span<const launch_request> all) override;
  // slab_source
  std::uintptr_t get(std::size_t bytes) override;
  void give_back(std::uintptr_t at, std::size_t bytes) noexcept override;

  std::unique_ptr<cuda_target> target_;
  const cuda_switches switches_;
  const cuda_ways ways_;
  const std::vector<std::string> nvml_; ///< names of its library
  const std::shared_ptr<pinned_memory> host_;
  std::optional<std::size_t> wanted_; ///< bytes that objects may take
  const std::size_t share_;           ///< of its memory, less a tenth, if others have it, too
  std::atomic<std::size_t> limit_{0}; ///< others ask for it while it is opened
  std::size_t used_ = 0;              ///< without the pool
  std::unique_ptr<block_pool> pool_;
  std::unique_ptr<cuda_programs> programs_;
  std::unique_ptr<cuda_graphs> graphs_;
  std::unique_ptr<cuda_timer> timer_;
  const int stream_count_;
  cuda_streams queues_;             // one, or one for each stream
  std::vector<cu::device> reached_; // their memory may be accessed
  cuda_launch one_;                 // for its memory
};

/// All that there are. Each call makes them anew. Thread-safe.
/// \param host the memory of objects on the host: what of it a device needs pinned, it pins when it
/// is opened.
/// \param notes gets what a user wants to know about devices that were looked for in vain, a line
/// each.
std::vector<std::unique_ptr<device>> open_cuda(const options& opts, const std::shared_ptr<pinned_memory>& host,
                                               std::vector<std::string>& notes);
/// As `open_cuda`, with functions that need not be the driver's. \param nvrtc, why_none as for a
/// device.
std::vector<std::unique_ptr<device>> open_cuda(const cuda_api& api, const nvrtc_api& nvrtc, const std::string& why_none,
                                               const options& opts, const std::shared_ptr<pinned_memory>& host,
                                               std::vector<std::string>& notes);

} // namespace tern::hetero::detail
