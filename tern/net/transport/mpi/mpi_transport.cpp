// SPDX-License-Identifier: Apache-2.0
/// \file
/// The C++ side of the MPI plug-ins: finds and opens one, and makes a `transport` of its C table.
/// Knows no MPI itself.
#include <tern/net/transport/mpi/mpi_transport.hpp>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <unistd.h>

#include <tern/base/log.hpp>
#include <tern/base/options.hpp>
#include <tern/net/failure/host_record.hpp>
#include <tern/net/memory/memory_pool.hpp>
#include <tern/net/memory/shared_memory.hpp>
#include <tern/net/rank/exit_guard.hpp>
#include <tern/net/transport_abi.h>

namespace tern::net {
namespace {

namespace fs = std::filesystem;

const known_environment plugin_dir_variable{"TERN_PLUGIN_DIR"};
const known_environment fragment_variable{"TERN_MPI_FRAGMENT"}, threads_variable{"TERN_MPI_THREADS"},
    rings_variable{"TERN_MPI_RINGS"}, notes_variable{"TERN_MPI_NOTES"};

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

/// Whether TERN_MPI_THREADS asks for a thread level above what the rank needs: to measure what
/// levels cost.
/// \throws error(invalid_option) for another word, and for a level that does not suffice.
bool more_threads_from_environment(bool multithreaded) {
  const char* text = std::getenv("TERN_MPI_THREADS");
  if (!text || !*text) return multithreaded;
  const std::string_view level(text);
  if (level == "funneled") return true;
  if (level != "single")
    throw error(errc::invalid_option, "TERN_MPI_THREADS=" + std::string(level) + " is no thread level",
                "use single or funneled, or leave it out");
  if (multithreaded)
    throw error(errc::invalid_option, "TERN_MPI_THREADS=single, but a rank with several workers needs funneled",
                "run with one worker a rank, or leave TERN_MPI_THREADS out");
  return false;
}

/// What ranks of one host may send each other without MPI, see the plug-ins' settings. Only tests
/// and measurements forbid something.
int rings_from_environment() {
  const char* text = std::getenv("TERN_MPI_RINGS");
  const std::string_view word(text ? text : "");
  if (word.empty() || word == "on") return 5;
  if (word == "unshared") return 3;
  if (word == "reads") return 4;
  if (word == "copies") return 2;
  if (word == "heads") return 1;
  if (word == "off") return 0;
  throw error(errc::invalid_option,
              "TERN_MPI_RINGS=" + std::string(word) + " is none of on, unshared, reads, copies, heads and off",
              "use one of these, or leave it out");
}

/// Whether ranks know the processes of others on their host. Tests go without: then each is as on a
/// host of its own.
bool notes_from_environment() {
  const char* text = std::getenv("TERN_MPI_NOTES");
  return !text || std::string_view(text) != "off";
}

/// Gives the slots of heads back. Never destroyed, like the plug-in: heads may outlive the
/// transport.
class slot_lender final : public byte_lender {
public:
  explicit slot_lender(const tern_transport_plugin& plugin) : give_back_(plugin.give_back) {}
  void take_back(std::byte* data) noexcept override { give_back_(data); } // a slot is known by its head

private:
  void (*const give_back_)(void*);
};

slot_lender& lender_of(const tern_transport_plugin& plugin) {
  static auto* const lender = new slot_lender(plugin); // a process has one MPI, so one plug-in
  return *lender;
}

class mpi_transport final : public transport {
public:
  mpi_transport(const tern_transport_plugin& plugin, int* argc, char*** argv, bool multithreaded, bool preallocate)
      : plugin_(plugin), lender_(lender_of(plugin)), owner_(std::this_thread::get_id()) {
    tern_transport_settings settings{};
    settings.multithreaded = more_threads_from_environment(multithreaded) ? 1 : 0;
    settings.preallocate = preallocate ? 1 : 0;
    settings.rings = rings_from_environment();
    settings.fragment = fragment_from_environment();
    settings.context = this;
    settings.land = [](void* self, int, const void*, std::size_t, std::size_t body_size) {
      void* memory = static_cast<mpi_transport*>(self)->memory_.try_take(body_size);
      if (!memory) static_cast<mpi_transport*>(self)->not_landed_ = body_size;
      return memory;
    };
    settings.segment = [](void*) { return detail::shared_pool::of_process().file(); };
    settings.map = [](void* self, int source, int process, int file) {
      auto& all = static_cast<mpi_transport*>(self)->segments_;
      const auto at = static_cast<std::size_t>(source);
      if (all.size() <= at) all.resize(at + 1);
      all[at].reset(detail::foreign_segment::open(process, file));
      return all[at] ? 1 : 0;
    };
    if (plugin_.init(argc, argv, &settings, &info_) != 0)
      throw error(errc::transport, "cannot start " + std::string(plugin_.name) + ": " + plugin_.last_error());
    if (info_.shares) detail::shared_pool::begin_use();
    if (settings.rings && preallocate && !info_.rings && info_.host_rank == 0 && info_.host_size > 1)
      log_warning(
          "small messages between the " + std::to_string(info_.host_size) +
          " ranks of this host go through MPI, which is slower: there are more than 128 of them, or /dev/shm has "
          "too little room for 128 KiB to 4 MiB each");
  }

  ~mpi_transport() override {
    if (info_.shares) detail::shared_pool::end_use();
  }

  int rank() const noexcept override { return info_.rank; }
  int size() const noexcept override { return info_.size; }
  int host_rank() const noexcept override { return info_.host_rank; }
  int host_size() const noexcept override { return info_.host_size; }
  cpu_sharers sharers() const noexcept override { return {info_.sharer_rank, info_.sharers}; }
  std::string describe() const override {
    return std::string("mpi (") + info_.library + ", " + info_.threads + (info_.rings ? ", rings" : "") +
           (info_.reads ? ", single copies" : "") + (info_.shares ? ", shared bodies)" : ")");
  }
  std::size_t head_limit() const noexcept override { return info_.head_limit; }
  bool any_thread_sends() const noexcept override { return false; }
  std::optional<host_memory> processes() const noexcept override {
    host_memory all;
    all.first = notes_ ? static_cast<std::byte*>(info_.notes) : nullptr;
    all.stride = info_.notes_stride;
    all.mine = info_.host_rank;
    all.ranks = info_.host_size;
    return all;
  }

  bool send(int destination, std::span<const std::byte> head, byte_buffer& body, bool urgent) override {
    require_owner("send");
    if (head.size() > info_.head_limit) [[unlikely]]
      throw error(errc::invalid_argument, "a head of " + std::to_string(head.size()) + " bytes is above the limit of " +
                                              std::to_string(info_.head_limit));
    if (destination == info_.rank) // never through MPI: MPICH hangs on a large message to oneself
      return send_to_self(head, body, urgent);
    if (destination < 0 || destination >= info_.size) [[unlikely]]
      throw error(errc::invalid_argument,
                  "there is no rank " + std::to_string(destination) + " in a job of " + std::to_string(info_.size));
    int sent = 0;
    if (body.empty()) {
      sent = plugin_.send(destination, head.data(), head.size(), nullptr, 0, nullptr, 0, urgent);
      if (sent > 0) body = byte_buffer();
    } else {
      sent = send_with_body(destination, head, body, urgent);
    }
    if (sent < 0) [[unlikely]]
      throw error(errc::transport,
                  "sending to rank " + std::to_string(destination) + " failed: " + plugin_.last_error());
    return sent != 0;
  }

  bool receive(arrival& into) override {
    require_owner("receive");
    obey_abort();
    // What is in there is given back before it could count as kept.
    if (into.head.capacity() > 0) into.head = {};
    if (into.body.capacity() > 0) into.body = {};
    // In turn with what comes from others: a handler may send to its own rank each time.
    if (!to_self_.empty() && (self_in_turn_ = !self_in_turn_)) [[unlikely]]
      return receive_from_self(into);
    tern_transport_arrival got; // written where its kind says
    const int what = plugin_.receive(&got);
    if (what == TERN_TRANSPORT_MESSAGE) {
      into.source = got.source;
      byte_buffer::borrow(static_cast<std::byte*>(got.head), got.head_size, lender_).swap(into.head);
      if (got.body_size != 0) [[unlikely]]
        into.body = got.body ? memory_.wrap(static_cast<std::byte*>(got.body), got.body_size)
                             : shared_body(got.source, got.where, got.body_size);
      return true;
    }
    if (what == TERN_TRANSPORT_SENT) [[unlikely]] {
      auto* const done = static_cast<holder*>(got.token);
      done->body = {};
      done->next = std::exchange(idle_, done);
      --bodies_under_way_;
      // And no more: the fiber that lent it goes on first. To read what has come may take long.
    } else if (what != TERN_TRANSPORT_NOTHING) {
      throw_error();
    }
    return !to_self_.empty() && receive_from_self(into);
  }

  void wait(std::chrono::microseconds at_most) override {
    require_owner("wait");
    obey_abort();
    if (!to_self_.empty()) return;
    // An abort between this check and the sleep has called wake, which ends the sleep at once.
    plugin_.wait(at_most.count());
    obey_abort();
  }

  void wake() noexcept override { plugin_.wake(); }

  bool may_have_input() const noexcept override {
    return !on_owner() || !to_self_.empty() || plugin_.may_have_input() != 0; // only the owner may ask MPI
  }

  void finish() override {
    require_owner("finish");
    to_self_.clear();
    for (arrival dropped; bodies_under_way_ > 0;) // their memory is ours to free
      if (!receive(dropped) && bodies_under_way_ > 0) wait(std::chrono::milliseconds(1));
    if (plugin_.finish() != 0) throw error(errc::transport, plugin_.last_error());
  }

  [[noreturn]] void abort(int code) noexcept override {
    if (!on_owner()) {
      // Under FUNNELED only the owner may call MPI: ask it to. It does not come back from that; if
      // it is stuck outside receive and wait, ending the job from here is better than a hang,
      // whatever the thread level says.
      abort_code_.store(code, std::memory_order_relaxed);
      abort_wanted_.store(true, std::memory_order_release);
      plugin_.wake();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      if (aborting_.load(std::memory_order_acquire)) { // the owner is calling MPI to abort
        std::this_thread::sleep_for(std::chrono::seconds(2));
        _exit(code);
      }
    }
    abort_now(code);
  }

private:
  // Of messages to oneself, as for those of others.
  static constexpr std::size_t space_for_self = 64, urgent_space = 8;
  static constexpr int sent_and_done = 2, sent_shared = 3; // what the plug-in says

  bool on_owner() const noexcept { return std::this_thread::get_id() == owner_; }

  void require_owner(const char* what) const {
    if (!on_owner()) [[unlikely]]
      throw error(errc::invalid_state, std::string("transport::") + what + " called by a thread that is not the owner");
  }

  int send_with_body(int destination, std::span<const std::byte> head, byte_buffer& body, bool urgent) {
    if (!idle_) idle_ = &holders_.emplace_back();
    holder* const mine = idle_;
    detail::shared_pool& pool = detail::shared_pool::of_process();
    const std::uint64_t where = info_.shares ? pool.lend(body) : 0;
    const int sent = plugin_.send(destination, head.data(), head.size(), body.data(), body.size(), mine, where, urgent);
    if (where != 0 && sent != sent_shared) pool.unlend(where);
    if (sent == 0) return sent;
    if (sent == sent_and_done || sent == sent_shared) {
      body = byte_buffer();
      return sent;
    }
    idle_ = mine->next; // after an error too: MPI may be reading a part of it
    mine->body = std::move(body);
    if (sent > 0) ++bodies_under_way_;
    return sent;
  }

  byte_buffer shared_body(int source, std::uint64_t where, std::size_t size) {
    const auto at = static_cast<std::size_t>(source);
    byte_buffer body;
    if (at < segments_.size() && segments_[at]) body = segments_[at]->take(where, size);
    if (body.empty())
      throw error(errc::transport, "rank " + std::to_string(source) + " sent word of a body of " +
                                       std::to_string(size) +
                                       " bytes where it shares none; do all ranks run the same "
                                       "version of Tern?");
    return body;
  }

  bool receive_from_self(arrival& into) {
    into = std::move(to_self_.front());
    to_self_.pop_front();
    return true;
  }

  bool send_to_self(std::span<const std::byte> head, byte_buffer& body, bool urgent) {
    if (to_self_.size() >= (urgent ? space_for_self : space_for_self - urgent_space)) return false;
    to_self_.push_back({info_.rank, byte_buffer::copy_of(head), {}});
    to_self_.back().body = std::move(body);
    return true;
  }

  [[noreturn]] void throw_error() {
    if (const std::size_t size = std::exchange(not_landed_, 0); size != 0)
      throw error(errc::out_of_memory, plugin_.last_error(), "send less at a time, or give the process more memory");
    throw error(errc::transport, plugin_.last_error());
  }

  void obey_abort() noexcept {
    if (abort_wanted_.load(std::memory_order_acquire)) [[unlikely]]
      abort_now(abort_code_.load(std::memory_order_relaxed));
  }

  [[noreturn]] void abort_now(int code) noexcept {
    aborting_.store(true, std::memory_order_release);
    detail::exit_guard::disarm(); // MPI_Abort may call it
    // relaxed: it orders nothing else. A rank that reads it late suspects a failure for a moment.
    if (const auto all = processes(); all->first)
      detail::host_record::of(*all, all->mine).leaving.store(1, std::memory_order_relaxed);
    // Not fflush(nullptr): that waits for a thread that sits in a read of stdin.
    std::fflush(stdout);
    std::fflush(stderr);
    plugin_.abort(code);
    _exit(code);
  }

  const tern_transport_plugin plugin_; // a copy: one load less for each call
  slot_lender& lender_;
  const std::thread::id owner_;
  const bool notes_ = notes_from_environment();
  tern_transport_info info_{};
  struct holder { // of a body that MPI reads; its address is the token
    byte_buffer body;
    holder* next = nullptr;
  };
  std::deque<holder> holders_;
  holder* idle_ = nullptr;
  bool self_in_turn_ = false;
  std::size_t bodies_under_way_ = 0; // sent, token not back
  memory_pool memory_;               // of bodies
  std::size_t not_landed_ = 0;       // bytes that there were not
  struct close_segment {
    void operator()(detail::foreign_segment* s) const noexcept { s->close(); }
  };
  std::vector<std::unique_ptr<detail::foreign_segment, close_segment>> segments_; // by rank, as far as mapped
  std::deque<arrival> to_self_;
  std::atomic<bool> abort_wanted_{false}, aborting_{false};
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

std::unique_ptr<transport> make_mpi(const std::string& implementation, int* argc, char*** argv, bool multithreaded,
                                    bool preallocate) {
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
  // GLOBAL: Open MPI opens components of its own that look for their symbols in the global scope.
  // Never closed: no MPI survives that.
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
  return std::make_unique<mpi_transport>(*plugin, argc, argv, multithreaded, preallocate);
}

std::string detect_mpi(const std::string& preferred) {
  if (!preferred.empty() && preferred != "openmpi" && preferred != "mpich")
    throw error(errc::invalid_option, "no MPI is called \"" + preferred + "\"", "use openmpi or mpich");
  std::string loaded;
  if (dlsym(RTLD_DEFAULT, "MPI_Init")) loaded = dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world") ? "openmpi" : "mpich";
  // Only these two are sure signs. PMI_RANK and PMI_FD also come from Slurm, which starts either;
  // PMIX_RANK alone too.
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
