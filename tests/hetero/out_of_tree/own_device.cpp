// SPDX-License-Identifier: Apache-2.0
/// \file
/// A kind of devices outside of the tree: it has memory of its own, and does each operation at
/// once, in the thread that asks for it. `inline0` is always there.
#include "tests/hetero/out_of_tree/own_device.hpp"

#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <tern/base/error.hpp>
#include <tern/hetero/device/device_kind.hpp>

std::atomic<int> searches{0};
std::atomic<bool> next_search_fails{false};

namespace {

using namespace tern::hetero::detail;

constexpr std::size_t line = 64;
constexpr std::size_t memory_bytes = std::size_t{64} << 20;

class inline_device final : public device {
public:
  explicit inline_device(tern::hetero::device_kind kind) {
    info_.kind = kind;
    info_.id = "inline0";
    info_.name = "runs at once";
    info_.driver = "1.0";
    info_.memory_bytes = memory_bytes;
    info_.local_memory_bytes = 1 << 16;
  }
  const tern::hetero::device_info& info() const noexcept override { return info_; }

  memory_handle allocate(std::size_t bytes) override {
    if (bytes > memory_bytes - held_) return nullptr;
    std::unique_ptr<std::byte[]> block(new std::byte[bytes]);
    const memory_handle handle = block.get();
    blocks_.emplace(handle, std::move(block));
    held_ += bytes;
    return handle;
  }
  void free(memory_handle memory, std::size_t bytes) noexcept override {
    blocks_.erase(memory);
    held_ -= bytes;
  }
  std::size_t memory_limit() const noexcept override { return memory_bytes; }

  int streams() const noexcept override { return 3; } // to it, from it, kernels
  ticket copy(int, const copy_request& what) override {
    const bool within = what.way == direction::within;
    auto* const here = static_cast<std::byte*>(what.device) + what.offset;
    auto* const there = within ? static_cast<std::byte*>(what.from) + what.from_offset : what.host;
    const std::size_t pitch = within ? what.from_pitch : what.host_pitch,
                      slice = within ? what.from_slice : what.host_slice;
    for (std::size_t z = 0; z < what.slices; ++z)
      for (std::size_t y = 0; y < what.rows; ++y) {
        std::byte* const a = here + z * what.slice + y * what.pitch;
        std::byte* const b = there + z * slice + y * pitch;
        std::memcpy(what.way == direction::from_device ? b : a, what.way == direction::from_device ? a : b,
                    what.row_bytes);
      }
    return 0; // it is done
  }
  ticket launch(int, const launch_request& what) override {
    if (what.call || !what.code->run)
      throw tern::error(tern::errc::unsupported, info_.id + " runs kernels of the dialect only");
    std::vector<void*> addresses(what.arguments.size());
    std::vector<const void*> values(what.arguments.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const argument& a = what.arguments[i];
      if (a.memory) addresses[i] = static_cast<std::byte*>(a.memory) + a.offset;
      values[i] = a.memory ? &addresses[i] : a.value;
    }
    struct alignas(line) chunk {
      char bytes[line];
    };
    std::vector<chunk> dynamic(what.dynamic_bytes / line + 1);
    what.code->run(what.code->kernel, what.shape, 0, what.shape.count(), dynamic.front().bytes, values.data());
    return 0;
  }
  void order(int, ticket) override {}
  bool done(ticket) override { return true; }

private:
  tern::hetero::device_info info_;
  std::map<memory_handle, std::unique_ptr<std::byte[]>> blocks_; // address: looked up only
  std::size_t held_ = 0;
};

const tern::hetero::device_kind_registration inline_kind({.name = "inline",
                                                          .order = 100,
                                                          .in_simulations = true, // it needs no time
                                                          .always = true,
                                                          .find = [](device_search& search) {
                                                            ++searches;
                                                            if (next_search_fails.exchange(false))
                                                              throw tern::error(tern::errc::invalid_option,
                                                                                "inline0 does not start");
                                                            std::vector<std::unique_ptr<device>> all;
                                                            all.push_back(std::make_unique<inline_device>(search.kind));
                                                            return all;
                                                          }});

} // namespace
