// SPDX-License-Identifier: Apache-2.0
#include <tern/hetero/kernel/device_code.hpp>

#include <mutex>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <tern/hetero/kernel.hpp>
#include <tern/hetero/kernel/prelude.hpp>

namespace tern::hetero::detail {
namespace {

struct all_code {
  std::mutex lock;
  std::vector<const made_code*> list; // a few: one for each block of the program, or two
};
// Never destroyed: runtimes may end after static objects have.
all_code& made_in_all() {
  static auto& all = *new all_code;
  return all;
}

} // namespace

text_hash hash_of_text(const source_block& block, bool fused) {
  std::string text = text_of(block);
  text.erase(0, text.find('\n') + 1); // the line that names the file
  text.insert(0, prelude(fused ? language::cuda_clang_fused : language::cuda_clang));
  const XXH128_hash_t h = XXH3_128bits(text.data(), text.size());
  return {h.low64, h.high64};
}

made_code_registration::made_code_registration(const made_code& code) {
  all_code& all = made_in_all();
  const std::lock_guard hold(all.lock);
  all.list.push_back(new made_code(code));
}

found_code find_made_code(std::string_view block, const text_hash& text, int capability, bool contracted, bool fused) {
  found_code found;
  all_code& all = made_in_all();
  const std::lock_guard hold(all.lock);
  for (const made_code* one : all.list) {
    if (block != one->block || fused != one->fused) continue;
    if (one->text != text)
      found.of_another_text = true;
    else if (one->contracted == contracted && one->capability <= capability)
      return {one, false};
  }
  return found;
}

} // namespace tern::hetero::detail
