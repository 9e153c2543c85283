// SPDX-License-Identifier: Apache-2.0
// Run with hardly any memory, and a disk that has no room or is not there.
#include <string>
#include <vector>

#include <tern/mobile/object.hpp>
#include <tern/net/collectives.hpp>
#include <tern/net/runtime.hpp>

#include "rank_test.hpp"

namespace disk_test {

using tern::call;
using tern::mobile_ptr;
using tern::rank;

class page {
public:
  page() = default;
  explicit page(long n) : data_(100, n) {}
  template <class A> void serialize(A& ar) { ar(data_); }
  long update() {
    for (long& n : data_) ++n;
    return data_.front() + data_.back();
  }

private:
  std::vector<long> data_;
};

TERN_RANK_TEST(a_full_disk_loses_nothing) {
  constexpr long objects = 40, rounds = 3;
  std::vector<mobile_ptr<page>> all;
  for (long i = 0; i < objects; ++i)
    all.push_back(tern::create_on<page>((rank() + static_cast<int>(i)) % tern::size(), i).get());
  for (long n = 1; n <= rounds; ++n)
    for (long i = 0; i < objects; ++i)
      TERN_EXPECT_EQ(call<&page::update>(all[static_cast<std::size_t>(i)]).get(), 2 * (i + n));
  long refused = 0;
  for (const auto one : all) {
    try {
      tern::swap_out(one).get();
    } catch (const tern::error& e) {
      ++refused;
      const std::string text = e.what();
      const bool full = text.find("bytes on disk: no more than 8192 bytes may be stored in") != text.npos;
      const bool nowhere = text.find("cannot make a file in \"/nowhere\": No such file or directory") != text.npos;
      TERN_EXPECT(e.code() == tern::errc::io && (full || nowhere));
      TERN_EXPECT(text.find("give --tern-mobile-directory a directory") != text.npos);
    }
  }
  TERN_EXPECT(refused >= objects - 2 * tern::size()); // two blocks each
  for (long i = 0; i < objects; ++i)
    TERN_EXPECT_EQ(call<&page::update>(all[static_cast<std::size_t>(i)]).get(), 2 * (i + rounds + 1));
  tern::barrier();
}

} // namespace disk_test
