// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What the fuzz targets share: how they read their input, and how they say what is wrong. Each
/// target is one function, `LLVMFuzzerTestOneInput`, which libFuzzer's main or replay.cpp calls; it
/// must be the same for the same input.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include <tern/base/bytes.hpp>
#include <tern/base/error.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace fuzz {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort(); // libFuzzer keeps the input then
}
inline void require(bool condition, const char* what) {
  if (!condition) fail(what);
}

/// FUZZ_SAY=1 in the environment prints why bytes are refused: to see what a corpus file does.
inline void say(const char* what) {
  static const bool wanted = std::getenv("FUZZ_SAY") != nullptr;
  if (wanted) std::fprintf(stderr, "  refused: %s\n", what);
}

/// Runs `f`, which may throw a tern::error with one of these codes and nothing else. \return
/// whether it did not.
template <class F> bool accepts(std::initializer_list<tern::errc> codes, F&& f) {
  try {
    f();
    return true;
  } catch (const tern::error& e) {
    if (std::find(codes.begin(), codes.end(), e.code()) == codes.end()) fail(std::string("wrong error: ") + e.what());
    say(e.what());
  } catch (const std::exception& e) {
    fail(std::string("wrong exception: ") + e.what());
  }
  return false;
}

/// The bytes of an input, taken off its front; zeros when there are none left.
class input {
public:
  input(const std::uint8_t* data, std::size_t size) : left_(reinterpret_cast<const std::byte*>(data), size) {}
  bool empty() const { return left_.empty(); }
  template <class T = std::uint8_t> T number() {
    T value{};
    const auto from = bytes(sizeof value);
    if (!from.empty()) std::memcpy(&value, from.data(), from.size());
    return value;
  }
  std::span<const std::byte> bytes(std::size_t most) {
    const auto result = left_.first(std::min(most, left_.size()));
    left_ = left_.subspan(result.size());
    return result;
  }
  std::span<const std::byte> rest() { return bytes(left_.size()); }

private:
  std::span<const std::byte> left_;
};

/// A copy of some bytes that ends where its memory does, so that the address sanitizer sees a byte
/// too many, and begins `offset` bytes after a place that suits every type. Lends itself to one
/// buffer at most.
class placed final : public tern::byte_lender {
public:
  placed(std::span<const std::byte> bytes, std::size_t offset, bool read_only = false)
      : memory_(new std::byte[offset + bytes.size()]), bytes_(memory_.get() + offset, bytes.size()),
        read_only_(read_only) {
    if (!bytes.empty()) std::memcpy(bytes_.data(), bytes.data(), bytes.size());
  }
  std::span<const std::byte> bytes() const { return bytes_; }
  /// A buffer that lives as long as it has to.
  static tern::byte_buffer buffer(std::span<const std::byte> bytes, std::size_t offset, bool read_only = false) {
    if (bytes.empty()) return {};
    auto* const self = new placed(bytes, offset, read_only);
    return tern::byte_buffer::borrow(self->bytes_.data(), self->bytes_.size(), *self);
  }
  void take_back(std::byte*) noexcept override { delete this; }
  bool read_only() const noexcept override { return read_only_; }

private:
  std::unique_ptr<std::byte[]> memory_;
  std::span<std::byte> bytes_;
  bool read_only_;
};

} // namespace fuzz
