// SPDX-License-Identifier: Apache-2.0
// Memory of devices: pages that nothing can touch, but while the mock itself works on them. So a
// device's address that the host uses is found, and so is what lies behind the end of a block.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.hpp"

namespace mock {
namespace {

constexpr std::size_t page = 4096, alignment = 256, most_filled = 128 * 1024;

// A block ends where a page ends, as far as its alignment allows, and the page behind it is never
// open.
std::size_t pages_of(std::size_t bytes) { return (bytes + page - 1) / page * page; }
std::uintptr_t first_page(std::uintptr_t at) { return at / page * page; }

void protect(std::uintptr_t at, std::size_t bytes, int how) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address
  if (mprotect(reinterpret_cast<void*>(first_page(at)), pages_of(bytes), how) == 0) return;
  std::perror("mock CUDA: mprotect");
  std::abort();
}

struct sigaction before; // who handled it

// The thread holds the mutex if a kernel or a copy of its own has done it; if not, the state may
// change meanwhile, and the text may be wrong, but the process ends in any case.
void tell(int number, siginfo_t* info, void* context) {
  const std::uintptr_t at = address(info->si_addr);
  char text[400] = "";
  const state& s = global();
  const char* const who = s.runs ? s.runs : "the host";
  for (const auto& [begin, one] : s.memory)
    if (first_page(begin) <= at && at < first_page(begin) + pages_of(one.bytes) + page) {
      const bool beyond = at >= begin + one.bytes;
      std::snprintf(text, sizeof text,
                    "mock CUDA: %s%s%s touches 0x%zx, %s of allocation %zu of device %d, which has %zu bytes%s\n",
                    s.runs ? "the kernel '" : "", who, s.runs ? "'" : "", static_cast<std::size_t>(at),
                    beyond ? "beyond the end" : "the memory", static_cast<std::size_t>(one.serial), one.device,
                    one.bytes, s.runs ? "" : ": it is a device's, only copies and kernels may");
    }
  if (text[0] && write(2, text, std::strlen(text)) < 0) { // nothing can be done
  }
  if ((before.sa_flags & SA_SIGINFO) && before.sa_sigaction) return before.sa_sigaction(number, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_handler)
    return before.sa_handler(number);
  signal(number, SIG_DFL); // it happens again, and ends the process
}

void listen() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == &tell) return;
  before = now;
  struct sigaction mine {};
  mine.sa_sigaction = &tell;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &mine, nullptr);
}

} // namespace

char* map_memory(std::size_t bytes) {
  listen();
  void* const got =
      mmap(nullptr, pages_of(bytes) + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  char* const at = static_cast<char*>(got) + (pages_of(bytes) - bytes) / alignment * alignment;
  protect(address(at), bytes, PROT_READ | PROT_WRITE);
  std::memset(at, 0xa5, std::min(bytes, most_filled)); // pages that are never touched cost nothing
  protect(address(at), bytes, PROT_NONE);
  return at;
}

void unmap_memory(std::uintptr_t at, std::size_t bytes) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address
  munmap(reinterpret_cast<void*>(first_page(at)), pages_of(bytes) + page);
}

void open_memory(state& s, const std::vector<range>& uses) {
  for (const range& r : uses) {
    const auto found = find_memory(s, r.begin);
    if (found == s.memory.end() || std::find(s.opened.begin(), s.opened.end(), found->first) != s.opened.end())
      continue;
    s.opened.push_back(found->first);
    protect(found->first, found->second.bytes, PROT_READ | PROT_WRITE);
  }
}

void close_memory(state& s) {
  for (const std::uintptr_t at : s.opened)
    if (const auto found = s.memory.find(at); found != s.memory.end()) protect(at, found->second.bytes, PROT_NONE);
  s.opened.clear();
}

} // namespace mock
