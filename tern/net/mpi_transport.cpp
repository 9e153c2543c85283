// SPDX-License-Identifier: Apache-2.0
/// \file
/// The C++ side of the MPI plug-ins: finds and opens one, and makes a `transport` of its C table. Knows no MPI itself.
#include <tern/net/transport.hpp>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>

#include <dlfcn.h>
#include <unistd.h>

#include <tern/base/options.hpp>
#include <tern/net/transport_abi.h>

namespace tern::net {
namespace {

namespace fs = std::filesystem;

const known_environment plugin_dir_variable{"TERN_PLUGIN_DIR"};
const known_environment fragment_variable{"TERN_MPI_FRAGMENT"};

constexpr std::size_t default_fragment = std::size_t{1} << 30;

/// Bytes above which a message travels in pieces. Only tests make it small.
std::size_t fragment_from_environment() {
  const char* text = std::getenv("TERN_MPI_FRAGMENT");
  if (!text || !*text) return default_fragment;
  std::size_t value = 0;
  const std::string_view view(text);
  const auto [end, failed] = std::from_chars(view.data(), view.data() + view.size(), value);
  if (failed != std::errc{} || end != view.data() + view.size() || value == 0)
    throw error(errc::invalid_option, "TERN_MPI_FRAGMENT=" + std::string(view) + " is no number of bytes above 0");
  return value;
}

struct outgoing {
  int destination;
  byte_buffer message;
};

class mpi_transport final : public transport {
public:
  mpi_transport(const tern_transport_plugin& plugin, int* argc, char*** argv, bool multithreaded)
      : plugin_(plugin), owner_(std::this_thread::get_id()) {
    const std::size_t fragment = fragment_from_environment();
    char text[512] = "";
    if (plugin_.init(argc, argv, multithreaded ? 1 : 0, fragment, &info_, text, sizeof text) != 0)
      throw error(errc::transport, "cannot start " + std::string(plugin_.name) + ": " + text);
    sink_.context = this;
    sink_.allocate = [](void*, std::size_t size) { return std::malloc(size ? size : 1); };
    sink_.deliver = [](void* self, int source, void* data, std::size_t size) {
      static_cast<mpi_transport*>(self)->arrived_.push_back({source, byte_buffer::adopt(data, size)});
    };
    sink_.sent = [](void*, void* token) { std::free(token); };
  }

  int rank() const noexcept override { return info_.rank; }
  int size() const noexcept override { return info_.size; }
  int host_rank() const noexcept override { return info_.host_rank; }
  int host_size() const noexcept override { return info_.host_size; }
  std::string describe() const override { return std::string("mpi (") + info_.library + ", " + info_.threads + ")"; }

  void send(int destination, byte_buffer message) override {
    if (destination < 0 || destination >= info_.size)
      throw error(errc::invalid_argument,
                  "there is no rank " + std::to_string(destination) + " in a job of " + std::to_string(info_.size));
    if (on_owner()) {
      flush(); // what other threads sent before goes first
      start(destination, std::move(message));
      return;
    }
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = outbox_.empty();
      outbox_.push_back({destination, std::move(message)});
      // release: with the acquire in flush, a caller that orders "this send, then one on the owner" keeps that order.
      queued_.store(true, std::memory_order_release);
    }
    // Who found messages there leaves the wake-up to the one who put the first: its call is made or about to be.
    if (first) plugin_.wake();
  }

  std::size_t poll(const sink& receive) override {
    require_owner("poll");
    obey_abort();
    flush();
    std::size_t events = 0;
    char text[512] = "";
    if (plugin_.poll(&sink_, &events, text, sizeof text) != 0) throw error(errc::transport, text);
    // The plug-in only fills `arrived_`; the receiver runs outside of it, so it may send and may throw. What arrived
    // through the plug-in is counted there, messages to oneself are counted here.
    std::size_t delivered = 0;
    for (std::size_t n = arrived_.size(); n > 0 && !arrived_.empty(); --n) {
      outgoing next = std::move(arrived_.front());
      arrived_.pop_front();
      ++delivered;
      receive(next.destination, std::move(next.message));
    }
    return events > delivered ? events : delivered;
  }

  void wait(std::chrono::microseconds at_most) override {
    require_owner("wait");
    obey_abort();
    if (!arrived_.empty() || queued_.load(std::memory_order_acquire)) return;
    // A send or an abort between this check and the sleep has called wake, which ends the sleep at once.
    plugin_.wait(at_most.count());
    obey_abort();
  }

  void wake() noexcept override { plugin_.wake(); }

  void finish() override {
    require_owner("finish");
    flush();
    char text[512] = "";
    if (plugin_.finish(&sink_, text, sizeof text) != 0) throw error(errc::transport, text);
  }

  [[noreturn]] void abort(int code) noexcept override {
    if (!on_owner()) {
      // Under FUNNELED only the owner may call MPI: ask it to. It does not come back from that; if it is stuck outside
      // poll and wait, ending the job from here is better than a hang, whatever the thread level says.
      abort_code_.store(code, std::memory_order_relaxed);
      abort_wanted_.store(true, std::memory_order_release);
      plugin_.wake();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    abort_now(code);
  }

private:
  bool on_owner() const noexcept { return std::this_thread::get_id() == owner_; }

  void require_owner(const char* what) const {
    if (!on_owner())
      throw error(errc::invalid_state, std::string("transport::") + what + " called by a thread that is not the owner");
  }

  /// Owner only.
  void start(int destination, byte_buffer message) {
    if (destination == info_.rank) { // never through MPI: MPICH hangs on a large message to oneself
      arrived_.push_back({destination, std::move(message)});
      return;
    }
    const std::size_t size = message.size();
    std::byte* data = message.release(); // the plug-in's until `sent`
    char text[512] = "";
    if (plugin_.send(destination, data, size, data, text, sizeof text) != 0)
      throw error(errc::transport, "sending " + std::to_string(size) + " bytes to rank " + std::to_string(destination) +
                                       " failed: " + text);
  }

  /// Owner only: starts what other threads handed over.
  void flush() {
    if (!queued_.load(std::memory_order_acquire)) return;
    std::deque<outgoing> taken;
    {
      const std::lock_guard lock(mutex_);
      taken.swap(outbox_);
      queued_.store(false, std::memory_order_relaxed); // changed under the mutex only
    }
    for (auto& one : taken) start(one.destination, std::move(one.message));
  }

  void obey_abort() noexcept {
    if (abort_wanted_.load(std::memory_order_acquire)) abort_now(abort_code_.load(std::memory_order_relaxed));
  }

  [[noreturn]] void abort_now(int code) noexcept {
    // Not fflush(nullptr): that waits for a thread that sits in a read of stdin.
    std::fflush(stdout);
    std::fflush(stderr);
    plugin_.abort(code);
    _exit(code);
  }

  const tern_transport_plugin& plugin_;
  const std::thread::id owner_;
  tern_transport_info info_{};
  tern_transport_sink sink_{};
  std::deque<outgoing> arrived_; // source and message; owner only
  std::mutex mutex_;
  std::deque<outgoing> outbox_; // from threads that are not the owner
  std::atomic<bool> queued_{false}, abort_wanted_{false};
  std::atomic<int> abort_code_{1};
};

bool in_environment(const char* name) { return std::getenv(name) != nullptr; }

std::string title(const std::string& implementation) { return implementation == "openmpi" ? "Open MPI" : "MPICH"; }

std::string joined(const std::vector<std::string>& folders) {
  std::string all;
  for (const auto& folder : folders) all += (all.empty() ? "" : ", ") + folder;
  return all;
}

} // namespace

std::unique_ptr<transport> make_mpi(const std::string& implementation, int* argc, char*** argv, bool multithreaded) {
  if (implementation != "openmpi" && implementation != "mpich")
    throw error(errc::invalid_argument, "no MPI is called \"" + implementation + "\"", "use openmpi or mpich");
  const std::string file = "libtern_mpi_" + implementation + ".so";
  const auto folders = plugin_folders();
  std::string path;
  for (const auto& folder : folders) {
    std::error_code ignored;
    if (fs::exists(fs::path(folder) / file, ignored)) {
      path = fs::path(folder) / file;
      break;
    }
  }
  if (path.empty())
    throw error(errc::not_found,
                "this process belongs to " + title(implementation) + ", but its plug-in " + file +
                    " is in none of the folders " + joined(folders),
                "install lib" + implementation + "-dev and build Tern again, or set TERN_PLUGIN_DIR");
  // GLOBAL: Open MPI opens components of its own that look for their symbols in the global scope. Never closed: no MPI
  // survives that.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    const char* why = dlerror();
    throw error(errc::transport, "cannot open the plug-in " + path + ": " + (why ? why : "unknown reason"),
                "is " + title(implementation) + "'s library installed? (lib" + implementation + "-dev)");
  }
  const auto* plugin = static_cast<const tern_transport_plugin*>(dlsym(library, "tern_transport_plugin"));
  if (!plugin) throw error(errc::transport, path + " is no transport plug-in: it lacks tern_transport_plugin");
  if (plugin->abi != TERN_TRANSPORT_ABI)
    throw error(errc::transport,
                path + " was built for interface " + std::to_string(plugin->abi) + " of Tern, this one needs " +
                    std::to_string(static_cast<int>(TERN_TRANSPORT_ABI)),
                "build the plug-in and Tern from the same version");
  if (implementation != plugin->name)
    throw error(errc::transport, path + " holds the plug-in for \"" + plugin->name + "\", not " + implementation);
  return std::make_unique<mpi_transport>(*plugin, argc, argv, multithreaded);
}

std::string detect_mpi(const std::string& preferred) {
  if (!preferred.empty() && preferred != "openmpi" && preferred != "mpich")
    throw error(errc::invalid_option, "no MPI is called \"" + preferred + "\"", "use openmpi or mpich");
  std::string loaded;
  if (dlsym(RTLD_DEFAULT, "MPI_Init")) loaded = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") ? "openmpi" : "mpich";
  // Only these two are sure signs. PMI_RANK and PMI_FD also come from Slurm, which starts either; PMIX_RANK alone too.
  std::string launcher;
  if (in_environment("OMPI_COMM_WORLD_SIZE"))
    launcher = "openmpi";
  else if (in_environment("MPI_LOCALNRANKS"))
    launcher = "mpich";
  const auto& chosen = loaded.empty() ? preferred : loaded;
  if (!chosen.empty()) {
    if (!launcher.empty() && launcher != chosen)
      throw error(errc::transport,
                  "started by " + title(launcher) + "'s launcher, but " +
                      (loaded.empty() ? "the options ask for " : "the program is linked with ") + title(chosen),
                  "start it with mpirun." + chosen + " or with `tern run --mpi " + chosen + "`");
    return chosen;
  }
  if (!launcher.empty()) return launcher;
  if (in_environment("PMI_RANK") || in_environment("PMI_FD")) return "mpich";
  if (in_environment("PMIX_RANK")) return "openmpi";
  return "";
}

std::vector<std::string> plugin_folders() {
  std::vector<std::string> folders;
  const auto add = [&](const fs::path& folder) {
    const std::string text = folder.lexically_normal().string();
    for (const auto& known : folders)
      if (known == text) return;
    folders.push_back(text);
  };
  if (const char* set = std::getenv("TERN_PLUGIN_DIR"); set && *set) add(set);
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&plugin_folders), &here) != 0 && here.dli_fname) {
    std::error_code failed;
    const fs::path file = fs::canonical(here.dli_fname, failed);
    // A static build finds itself in the program, whose libraries are in ../lib.
    if (!failed) {
      add(file.parent_path());
      add(file.parent_path() / "tern");
      add(file.parent_path() / "../lib/tern");
    }
  }
#ifdef TERN_PLUGIN_INSTALL_DIR
  add(TERN_PLUGIN_INSTALL_DIR);
#endif
  return folders;
}

} // namespace tern::net
