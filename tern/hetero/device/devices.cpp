// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/devices.hpp>

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <tern/hetero/device/settings.hpp>

namespace tern::hetero {

namespace detail {

std::optional<std::uint64_t> bytes_in(std::string_view text) noexcept {
  std::uint64_t n = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, bad] = std::from_chars(text.data(), end, n);
  if (bad != std::errc() || end - rest > 1) return {};
  if (rest == end) return n;
  constexpr std::string_view units = "KMGT";
  const std::size_t unit = units.find(static_cast<char>(std::toupper(static_cast<unsigned char>(*rest))));
  if (unit == units.npos) return {};
  const unsigned shift = 10 * (static_cast<unsigned>(unit) + 1);
  if (n > ~std::uint64_t{0} >> shift) return {};
  return n << shift;
}

namespace {
constexpr int most_sharing = 1024;

std::optional<int> number_in(std::string_view text) noexcept {
  int n = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, bad] = std::from_chars(text.data(), end, n);
  return bad == std::errc() && rest == end ? std::optional(n) : std::nullopt;
}
// Of Open MPI, or MPICH.
std::optional<int> number_of_launcher(const char* open_mpi, const char* mpich, int least) noexcept {
  for (const char* const name : {open_mpi, mpich})
    if (const char* const text = std::getenv(name))
      if (const auto n = number_in(text); n && *n >= least) return n;
  return {};
}
int ranks_of_launcher() noexcept {
  return number_of_launcher("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", 1).value_or(1);
}
/// "R/N", R below N.
std::optional<local_rank> rank_in(std::string_view text) noexcept {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return {};
  const auto number = number_in(text.substr(0, slash)), of = number_in(text.substr(slash + 1));
  if (!number || !of || *number < 0 || *number >= *of) return {};
  return local_rank{*number, *of};
}
} // namespace

local_rank rank_on_machine(const options& opts) noexcept {
  const std::string how = opts[hetero_own];
  if (how.empty()) return {};
  if (const auto given = rank_in(how)) return *given;
  const int of = ranks_of_launcher();
  const auto number = number_of_launcher("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", 0);
  return number && *number < of ? local_rank{*number, of} : local_rank{};
}

int sharing_ranks(const options& opts) noexcept {
  const int given = opts[hetero_share];
  return given > 0 ? given : ranks_of_launcher();
}

options with_sharers(options opts, int schedulers) {
  if (opts[hetero_share] == 0)
    opts.set(hetero_share, std::min(std::max(schedulers, ranks_of_launcher()), most_sharing));
  return opts;
}

std::size_t share_of_memory(std::size_t bytes, const options& opts, bool own) noexcept {
  return (bytes - bytes / 10) / static_cast<std::size_t>(own ? 1 : sharing_ranks(opts));
}

std::optional<device_power> watts_in(std::string_view text) noexcept {
  device_power watts;
  const char* const end = text.data() + text.size();
  const auto [rest, bad] = std::from_chars(text.data(), end, watts.busy);
  constexpr double most = 1e6;
  if (bad != std::errc() || !(watts.busy >= 0 && watts.busy <= most)) return {};
  if (rest == end) return watts;
  if (*rest != ',') return {};
  const auto [last, bad_too] = std::from_chars(rest + 1, end, watts.idle);
  if (bad_too != std::errc() || last != end || !(watts.idle >= 0 && watts.idle <= watts.busy)) return {};
  return watts;
}

} // namespace detail

const option<std::string> hetero_devices{"hetero-devices",
                                         "all",
                                         "what kernels run on: all that there is, or a list of devices and kinds, as "
                                         "host,opencl0 or host,simulated; tern info "
                                         "names them",
                                         {.verify = detail::verify_devices}};
const option<std::string> hetero_memory{
    "hetero-memory",
    "",
    "how many bytes of objects each device that has its own memory keeps there (512M, 2G); empty: what it has, less a "
    "tenth, or its share of that (hetero-share)",
    {[](const std::string& text) { return text.empty() || detail::bytes_in(text).has_value(); },
     "a number of bytes, such as 4096, 512M or 16G, or nothing"}};
const option<int> hetero_share{
    "hetero-share", 0,
    "between how many ranks or programs the memory of each device is divided, where hetero-memory says nothing, and "
    "that of the host, where hetero-disk names a folder and hetero-host-memory says nothing; 0: between the ranks that "
    "are on this machine, processes or threads of one",
    between<int>(0, detail::most_sharing)};
const option<std::string> hetero_own{
    "hetero-own",
    "",
    "whether ranks on one machine divide its CUDA and simulated devices, where there are as many devices as ranks or "
    "more, in the place of sharing each: auto, by the numbers that the MPI launcher gives them; R/N, this is rank R of "
    "N; empty: they share",
    {[](const std::string& text) { return text.empty() || text == "auto" || detail::rank_in(text).has_value(); },
     "auto, R/N with R from 0 to N - 1, such as 0/4, or nothing"}};
const option<int> hetero_queues{"hetero-queues", 5,
                                "how many kernels each device is given at a time; copies in either direction go on "
                                "beside them",
                                between<int>(1, 64)};
const option<int> hetero_ahead{
    "hetero-ahead", 64,
    "how many tasks each device is given before those that they follow there have ended, where it can see to their "
    "order itself; 0: each task is launched when the host has seen its predecessors end",
    between<int>(0, 4096)};
const option<bool> hetero_threads{
    "hetero-threads", false,
    "whether each device is driven by a thread of its own, so that busy workers do not keep it waiting, rather than by "
    "the workers between their tasks; pays off with several devices and CPUs to spare"};
const option<std::string> hetero_pinned{
    "hetero-pinned",
    "",
    "how many bytes of the host's memory are page-locked where CUDA devices are used, for quick copies (512M, 2G); "
    "empty: a quarter of the machine's",
    {[](const std::string& text) { return text.empty() || detail::bytes_in(text).has_value(); },
     "a number of bytes, such as 0, 512M or 16G, or nothing"}};
const option<bool> hetero_fma{
    "hetero-fma", true,
    "whether kernels on devices may compute a * b + c with one rounding; without, sums and products of floats are the "
    "same on all devices (on the host if it was compiled with -ffp-contract=off)"};
const option<std::string> hetero_host_power{
    "hetero-host-power",
    "",
    "how many watts the CPUs take when all workers compute, and when none does (100 or 100,20), for the policy energy; "
    "empty: measured where hetero-powercap has counters, else not known",
    {[](const std::string& text) { return text.empty() || detail::watts_in(text).has_value(); },
     "BUSY or BUSY,IDLE, watts, IDLE not above BUSY, or nothing"}};
const option<std::string> hetero_powercap{
    "hetero-powercap", "/sys/class/powercap",
    "the folder with counters of the energy that CPUs take, for policies that weigh energy"};
const option<std::string> hetero_cache{
    "hetero-cache", "",
    "the folder where kernels that were compiled for devices are kept from run to run; empty: $XDG_CACHE_HOME/tern or "
    "~/.cache/tern; off: nowhere"};

} // namespace tern::hetero
