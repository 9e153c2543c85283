// SPDX-License-Identifier: Apache-2.0
// The mock driver's modules: libraries of kernels that the mock NVRTC made, loaded from memory. And
// launches.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image.hpp"
#include "state.hpp"

namespace mock {

code::~code() {
  if (library) dlclose(library);
}

namespace {

constexpr int most_shared = 227 * 1024;

// \return its handle, or null with what is wrong
void* open_bytes(const std::string& bytes, std::string& why) {
  const int file = memfd_create("tern_mock_kernels", MFD_CLOEXEC);
  if (file < 0) return why = "no memory for the library", nullptr;
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(file, bytes.data() + done, bytes.size() - done);
    if (n <= 0) return close(file), why = "no memory for the library", nullptr;
    done += static_cast<std::size_t>(n);
  }
  // The loader knows libraries by their names, and numbers of files come again.
  static int opened = 0;
  char name[64];
  std::snprintf(name, sizeof name, "/tmp/tern_mock_kernels.%d.%d", static_cast<int>(getpid()), ++opened);
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  void* library = nullptr;
  if (symlink(path.c_str(), name) == 0) {
    library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    unlink(name);
  } else {
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) why = dlerror();
  close(file);
  return library;
}

std::shared_ptr<code> load(call& c, const char* bytes, std::string& why) {
  const bool machine_code = std::strncmp(bytes,
                                         "\x7f"
                                         "ELF",
                                         4) == 0;
  c.failed = cu::invalid_image;
  if (!machine_code && std::strncmp(bytes, ptx_mark.data(), ptx_mark.size()) != 0)
    return why = "this is neither PTX nor machine code of the mock's", nullptr;
  const auto found = machine_code ? read_cubin(bytes, why) : read_ptx(bytes, why);
  if (!found) return nullptr;
  const int a = found->architecture, mine = c.s.set.capability;
  const std::string names = "sm_" + std::to_string(a) + ", and the device has sm_" + std::to_string(mine);
  if (machine_code && (a / 10 != mine / 10 || a > mine)) {
    c.failed = cu::no_binary_for_gpu;
    return why = "machine code is for " + names, nullptr;
  }
  if (!machine_code && found->ptx_version > c.s.set.driver) {
    c.failed = cu::unsupported_ptx_version;
    return why = "PTX is of CUDA " + std::to_string(found->ptx_version) + ", and the driver is for " +
                 std::to_string(c.s.set.driver),
           nullptr;
  }
  if (!machine_code && a > mine) {
    c.failed = invalid_ptx;
    return why = "PTX is for " + names, nullptr;
  }
  auto made = std::make_shared<code>();
  made->device = c.at;
  made->library = open_bytes(found->library, why);
  if (!made->library) return nullptr;
  made->image = static_cast<const tern_mock_image*>(dlsym(made->library, "tern_mock_image_table"));
  if (!made->image || made->image->version != tern_mock_image_version)
    return why = "the library is of another version of the mock's", nullptr;
  for (const tern_mock_kernel* k = made->image->kernels; k->name; ++k) {
    function f{++c.s.given, made.get(), k};
    for (const tern_mock_shared* v = made->image->shared; v != made->image->shared_end; ++v)
      if (v->kernel && std::strcmp(v->kernel, k->name) == 0) f.shared += v->bytes;
    if (f.shared > usual_shared) {
      c.failed = invalid_ptx;
      return why = too_much_shared(k->name, f.shared), nullptr;
    }
    made->functions.push_back(f);
  }
  c.failed = 0;
  return made;
}

// A module and a function of it; \return nothing, with `failed`, if it is not there.
std::pair<std::shared_ptr<code>, function*> find_function(call& c, cu::function h) {
  const handle number = number_of(h);
  for (const auto& [of, one] : c.s.modules)
    for (function& f : one->functions) {
      if (f.number != number) continue;
      if (c.at < 0 || one->device == c.at) return {one, &f};
      c.failed = c.misuse(invalid_handle, "the kernel '" + std::string(f.kernel->name) + "' is of device " +
                                              std::to_string(one->device) + ", and the context of device " +
                                              std::to_string(c.at) + " is current");
      return {};
    }
  c.failed = c.misuse(invalid_handle, "the function " + hex(number) + " is " +
                                          (number <= c.s.given && number ? "of a module that is unloaded" : "unknown"));
  return {};
}

std::string shape(const tern_mock_index& i) {
  return std::to_string(i.x) + " x " + std::to_string(i.y) + " x " + std::to_string(i.z);
}

/// Of a group: by its launch bounds, for which it is compiled, or by its registers.
int most_items(const call& c, const function& f) {
  return f.kernel->most_items > 0 ? std::min(f.kernel->most_items, 1024) : c.s.set.most_items;
}

cu::result check_shape(call& c, const function& f, const tern_mock_index& groups, const tern_mock_index& items,
                       unsigned dynamic) {
  const std::string what = "the kernel '" + std::string(f.kernel->name) + "' ";
  if (groups.x == 0 || groups.y == 0 || groups.z == 0 || groups.x > 2147483647u || groups.y > 65535 || groups.z > 65535)
    return c.misuse(invalid_value, what + "cannot have " + shape(groups) + " groups");
  const unsigned long n = std::uint64_t{items.x} * items.y * items.z;
  const int most = most_items(c, f);
  if (n > static_cast<unsigned long>(most) && n <= 1024 && c.s.set.most_items < 1024) {
    c.misuse(cu::launch_out_of_resources, what + "has too many registers for groups of " + shape(items) + " items, " +
                                              std::to_string(most) + " at most");
    return cu::launch_out_of_resources;
  }
  if (items.x == 0 || items.y == 0 || items.z == 0 || items.x > 1024 || items.y > 1024 || items.z > 64 ||
      n > static_cast<unsigned long>(most))
    return c.misuse(invalid_value,
                    what + "cannot have groups of " + shape(items) + " items, " + std::to_string(most) + " at most");
  if (f.shared + dynamic > std::max<std::size_t>(usual_shared, f.shared + static_cast<std::size_t>(f.dynamic)))
    return c.misuse(invalid_value, what + "cannot have " + std::to_string(f.shared) + " bytes of shared memory and " +
                                       std::to_string(dynamic) + " dynamic ones; allowed were " +
                                       std::to_string(f.dynamic) + " dynamic ones");
  return 0;
}

// What parameters point to must stay until the kernel has ended.
cu::result take_parameters(call& c, const function& f, void** given, operation& op) {
  const tern_mock_kernel& k = *f.kernel;
  const std::string what = "the kernel '" + std::string(k.name) + "' ";
  if (k.parameters > 0 && !given)
    return c.misuse(invalid_value, what + "has " + std::to_string(k.parameters) + " parameters, and none are given");
  for (unsigned long i = 0; i < k.parameters; ++i) {
    if (!given[i]) return c.misuse(invalid_value, what + "has null as parameter " + std::to_string(i));
    std::vector<std::uint64_t> value((k.sizes[i] + 7) / 8 + 1); // room to align more than a word does
    std::memcpy(value.data(), given[i], k.sizes[i]);
    for (std::size_t w = 0; w < k.sizes[i] / 8; ++w) {
      const auto at = static_cast<std::uintptr_t>(value[w]);
      if (const auto found = find_memory(c.s, at); found != c.s.memory.end()) {
        if (found->second.device != c.at)
          return c.misuse(invalid_value, what + "has memory of device " + std::to_string(found->second.device) +
                                             " as parameter " + std::to_string(i));
        op.uses.push_back({found->first, found->first + found->second.bytes});
        if (k.sizes[i] == 8) op.kernel.points.push_back(at);
      } else if (k.sizes[i] == 8) {
        const auto gone_at = c.s.freed.upper_bound(at);
        if (gone_at != c.s.freed.begin() && at < std::prev(gone_at)->first + std::prev(gone_at)->second)
          return c.misuse(invalid_value,
                          what + "has memory as parameter " + std::to_string(i) + " that has been freed: " + hex(at));
        // Nothing may lie where a block ends; null is no memory, which is the kernel's affair.
        if (k.pointers[i] && at != 0 && find_memory(c.s, at - 1) == c.s.memory.end())
          return c.misuse(invalid_value, what + "has an address as parameter " + std::to_string(i) +
                                             " that is no device's: " + hex(at) + "; is it the host's?");
      }
    }
    op.kernel.values.push_back(std::move(value));
  }
  return 0;
}

} // namespace
} // namespace mock

using namespace mock;

MOCK_EXPORT cu::result cuModuleLoadDataEx(cu::module* made, const void* bytes, unsigned count, int* options,
                                          void** values) {
  call c("cuModuleLoadDataEx", needs::context);
  note_stack(c.s);
  if (c.failed) return c.failed;
  if (!made || !bytes) return c.misuse(invalid_value, "no image, or nowhere to put the module");
  std::string why;
  const auto one = load(c, static_cast<const char*>(bytes), why);
  char* log = nullptr;
  std::size_t room = 0, *used = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == cu::jit_error_log) log = static_cast<char*>(values[i]);
    if (options[i] != cu::jit_error_log_bytes) continue;
    room = address(values[i]); // the value itself, not where it is
    used = reinterpret_cast<std::size_t*>(&values[i]);
  }
  if (log && room > 0) {
    const std::string text = one ? "" : "mock ptxas fatal: " + why + "\n";
    const std::size_t n = std::min(room - 1, text.size());
    std::memcpy(log, text.data(), n);
    log[n] = '\0';
    *used = n;
  }
  if (!one) return c.failed;
  c.s.modules.emplace(++c.s.given, one);
  ++c.s.counted.modules_loaded;
  *made = as_handle<cu::module>(c.s.given);
  return 0;
}

MOCK_EXPORT cu::result cuModuleUnload(cu::module h) {
  call c("cuModuleUnload", needs::context_even_lost);
  if (c.failed) return c.failed;
  const auto found = c.s.modules.find(number_of(h));
  if (found == c.s.modules.end())
    return c.misuse(invalid_handle, "the module " + hex(number_of(h)) + " is " + gone(c.s, number_of(h)));
  for (const auto& [number, one] : c.s.streams)
    for (const operation& op : one->pending)
      if (op.is == work::kernel && op.kernel.owner == found->second && !c.failed)
        c.failed = c.misuse(invalid_value, "the module is unloaded, and " + describe(op) + " is not done", true);
  c.s.modules.erase(found);
  return c.failed ? c.failed : c.status();
}

MOCK_EXPORT cu::result cuModuleGetFunction(cu::function* made, cu::module h, const char* name) {
  call c("cuModuleGetFunction", needs::context);
  if (c.failed) return c.failed;
  const auto found = c.s.modules.find(number_of(h));
  if (found == c.s.modules.end())
    return c.misuse(invalid_handle, "the module " + hex(number_of(h)) + " is " + gone(c.s, number_of(h)));
  for (const function& f : found->second->functions)
    if (std::strcmp(f.kernel->name, name) == 0) return *made = as_handle<cu::function>(f.number), 0;
  return cu::not_found;
}

MOCK_EXPORT cu::result cuModuleGetGlobal_v2(cu::pointer* at, std::size_t* bytes, cu::module h, const char* name) {
  call c("cuModuleGetGlobal", needs::context);
  if (c.failed) return c.failed;
  const auto found = c.s.modules.find(number_of(h));
  if (found == c.s.modules.end())
    return c.misuse(invalid_handle, "the module " + hex(number_of(h)) + " is " + gone(c.s, number_of(h)));
  void* const symbol = dlsym(found->second->library, name);
  Dl_info info{};
  void* entry = nullptr;
  if (!symbol || dladdr1(symbol, &info, &entry, RTLD_DL_SYMENT) == 0 || !entry || info.dli_saddr != symbol)
    return cu::not_found;
  if (at) *at = address(symbol);
  if (bytes) *bytes = static_cast<const ElfW(Sym)*>(entry)->st_size;
  return 0;
}

MOCK_EXPORT cu::result cuFuncGetAttribute(int* to, int attribute, cu::function h) {
  call c("cuFuncGetAttribute", needs::context);
  const function* const f = c.failed ? nullptr : find_function(c, h).second;
  if (!f) return c.failed;
  if (attribute < 0 || attribute > 16) return c.misuse(invalid_value, "attribute " + std::to_string(attribute));
  *to = attribute == cu::function_max_threads    ? most_items(c, *f)
        : attribute == cu::function_shared_bytes ? static_cast<int>(f->shared)
        : attribute == cu::function_max_dynamic_shared
            ? (f->dynamic > 0 ? f->dynamic : static_cast<int>(usual_shared - std::min(usual_shared, f->shared)))
        : attribute == 4                   ? 32 // registers
        : attribute == 5 || attribute == 6 ? c.s.set.capability
                                           : 0;
  return 0;
}

MOCK_EXPORT cu::result cuFuncSetAttribute(cu::function h, int attribute, int value) {
  call c("cuFuncSetAttribute", needs::context);
  function* const f = c.failed ? nullptr : find_function(c, h).second;
  if (!f) return c.failed;
  if (attribute == 9) return 0; // how the cache is shared out
  if (attribute != cu::function_max_dynamic_shared)
    return c.misuse(invalid_value, "attribute " + std::to_string(attribute) + " cannot be set");
  if (value < 0 || static_cast<std::size_t>(value) + f->shared > std::size_t{most_shared})
    return c.misuse(invalid_value, "the kernel '" + std::string(f->kernel->name) + "' cannot have " +
                                       std::to_string(value) + " dynamic bytes");
  f->dynamic = value;
  return 0;
}

MOCK_EXPORT cu::result cuFuncGetParamInfo(cu::function h, std::size_t i, std::size_t* offset, std::size_t* size) {
  call c("cuFuncGetParamInfo", needs::context);
  const function* const f = c.failed ? nullptr : find_function(c, h).second;
  if (!f) return c.failed;
  if (i >= f->kernel->parameters) return invalid_value; // how the number of them is found out
  *offset = f->kernel->offsets[i];
  if (size) *size = f->kernel->sizes[i];
  return 0;
}

cu::result mock::make_kernel(call& c, operation& op, cu::function h, tern_mock_index groups, tern_mock_index items,
                             unsigned dynamic, void** parameters, void** extra) {
  const auto [owner, f] = find_function(c, h);
  if (!f) return c.failed;
  if (extra) return c.misuse(not_supported, "the mock takes parameters as a list of addresses only");
  op.is = work::kernel;
  op.kernel = {owner, f, groups, items, dynamic, {}};
  if (const cu::result r = check_shape(c, *f, op.kernel.groups, op.kernel.items, dynamic)) return r;
  return take_parameters(c, *f, parameters, op);
}

namespace {
cu::result launch(call& c, cu::function h, const tern_mock_index& groups, const tern_mock_index& items,
                  unsigned dynamic, cu::stream stream, void** parameters, void** extra, std::uint64_t most_groups) {
  if (c.failed) return c.failed;
  if (c.here().lost != 0) {
    if (c.here().told) c.misuse(c.here().lost, "a kernel is launched after the context was lost");
    return c.status();
  }
  const auto to = c.find_stream(stream);
  if (!to) return c.failed;
  operation op;
  if (const cu::result r = make_kernel(c, op, h, groups, items, dynamic, parameters, extra)) return r;
  if (std::uint64_t{groups.x} * groups.y * groups.z > most_groups) return cu::cooperative_too_large;
  if (c.s.set.fail_launch > 0 && --c.s.set.fail_launch == 0) return cu::launch_out_of_resources;
  ++c.s.counted.launches;
  c.put(*to, std::move(op));
  return 0;
}
} // namespace

MOCK_EXPORT cu::result cuLaunchKernel(cu::function h, unsigned gx, unsigned gy, unsigned gz, unsigned ix, unsigned iy,
                                      unsigned iz, unsigned dynamic, cu::stream stream, void** parameters,
                                      void** extra) {
  call c("cuLaunchKernel", needs::context_even_lost);
  return launch(c, h, {gx, gy, gz}, {ix, iy, iz}, dynamic, stream, parameters, extra, ~std::uint64_t{0});
}

// Groups run one after the other all the same: what waits for another group waits for ever.
MOCK_EXPORT cu::result cuLaunchCooperativeKernel(cu::function h, unsigned gx, unsigned gy, unsigned gz, unsigned ix,
                                                 unsigned iy, unsigned iz, unsigned dynamic, cu::stream stream,
                                                 void** parameters) {
  constexpr std::uint64_t at_once = 64;
  call c("cuLaunchCooperativeKernel", needs::context_even_lost);
  return launch(c, h, {gx, gy, gz}, {ix, iy, iz}, dynamic, stream, parameters, nullptr, at_once);
}
