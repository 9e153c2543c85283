// SPDX-License-Identifier: Apache-2.0
// What a runtime's models predict, and what they store.
#include <tern/hetero/models/performance_models.hpp>

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "child.hpp"
#include "tests/hetero/support/models.hpp"
#include <tern/hetero/devices.hpp>

namespace tern::hetero::detail {
namespace {

std::atomic<std::int64_t> models_date{test::today};
std::int64_t date_of_test() noexcept { return models_date.load(); }

class performance_models_test : public testing::Test {
protected:
  model_file file(model_file::access how = model_file::access::write) const {
    return model_file(top.path, how, "machine");
  }
  static size_class size(std::uint64_t bytes) { return {bytes, bytes, "some"}; }
  static void record(performance_models& into, const model_key& k, std::uint64_t bytes, int n, double time) {
    kernel_model* const m = into.model_of(k, size(bytes));
    ASSERT_NE(m, nullptr);
    for (int i = 0; i < n; ++i) into.record(*m, time);
  }
  static model_key key(std::uint64_t number = 1, const std::string& device = "d") {
    return test::key_of("k", number, device);
  }
  const tern::test::temporary top;
};

TEST_F(performance_models_test, the_first_sample_does_not_count) {
  performance_models m(model_file(), &date_of_test);
  EXPECT_TRUE(m.on());
  EXPECT_FALSE(m.predict(key(), 100));
  record(m, key(), 100, 1, 50'000);
  record(m, key(), 100, 2, 1000);
  EXPECT_FALSE(m.predict(key(), 100)) << "three are needed";
  record(m, key(), 100, 1, 1000);
  const auto p = m.predict(key(), 100);
  ASSERT_TRUE(p);
  EXPECT_EQ(p->nanoseconds, 1000);
  EXPECT_EQ(p->samples, 3u);
  EXPECT_FALSE(p->fitted);
  EXPECT_EQ(p->spread, 0);
}

TEST_F(performance_models_test, an_unknown_size_is_estimated_by_others) {
  performance_models m(model_file(), &date_of_test);
  for (const std::uint64_t n : {1000u, 2000u, 4000u}) record(m, key(n), n, 5, 3 * static_cast<double>(n));
  const auto p = m.predict(key(8000), 8000);
  ASSERT_TRUE(p);
  EXPECT_TRUE(p->fitted);
  EXPECT_NEAR(p->nanoseconds, 24'000, 1);
  EXPECT_FALSE(m.predict(key(64'000), 64'000)) << "too far";
  EXPECT_FALSE(m.predict(key(8000, "other device"), 8000));
  model_key other = key(8000);
  other.kernel.text = 8;
  EXPECT_FALSE(m.predict(other, 8000)) << "its text has changed";
}

TEST_F(performance_models_test, are_there_in_the_next_run) {
  {
    performance_models m(file(), &date_of_test);
    record(m, key(), 100, 4, 1000);
    m.record_copy("a", "b", 1 << 20, 70'000);
    m.record_copy("a", "b", 1 << 20, 70'000);
    m.record_copy("a", "b", 1 << 20, 70'000);
    m.set_power("d", 300, 30);
    m.store();
  }
  performance_models m(file(), &date_of_test);
  EXPECT_EQ(m.predict(key(), 100)->nanoseconds, 1000);
  EXPECT_EQ(m.predict_copy("a", "b", 1 << 20), 70'000);
  EXPECT_FALSE(m.predict_copy("b", "a", 1 << 20));
  EXPECT_NEAR(m.joules("d", 2e9).value(), 540, 1e-9);
  EXPECT_FALSE(m.joules("other", 2e9));
  record(m, key(), 100, 1, 9e9); // the first of this run
  EXPECT_EQ(m.predict(key(), 100)->samples, 3u);
}

TEST_F(performance_models_test, two_runs_at_a_time_keep_both_their_samples) {
  performance_models a(file(), &date_of_test), b(file(), &date_of_test);
  record(a, key(), 100, 11, 1000);
  record(b, key(), 100, 6, 1000);
  a.store();
  b.store();
  record(a, key(), 100, 5, 1000);
  a.store();
  EXPECT_EQ(file().read(date_of_test()).kernels.at(key()).times.size(), 20u);
}

TEST_F(performance_models_test, are_stored_each_minute) {
  performance_models m(file(), &date_of_test);
  record(m, key(), 100, 4, 1000);
  m.store_if_due();
  EXPECT_TRUE(file().read(date_of_test()).empty());
  models_date += performance_models::store_every;
  m.store_if_due();
  EXPECT_EQ(file().read(date_of_test()).kernels.size(), 1u);
}

TEST_F(performance_models_test, simulations_have_no_file) {
  options opts;
  opts.set(hetero_models, top.path.string());
  for (const bool simulated : {true, false}) {
    performance_models m(opts, simulated, &date_of_test);
    EXPECT_TRUE(m.on());
    record(m, key(), 100, 4, 1000);
    m.store();
    EXPECT_EQ(model_file(opts).read(date_of_test()).empty(), simulated);
    EXPECT_TRUE(m.predict(key(), 100));
  }
  opts.set(hetero_models, "off");
  performance_models m(opts, false, &date_of_test);
  EXPECT_FALSE(m.on());
  EXPECT_EQ(m.model_of(key(), size(1)), nullptr);
  m.record_copy("a", "b", 1, 1);
  m.set_power("d", 1, 0);
  EXPECT_TRUE(m.all().empty());
}

TEST_F(performance_models_test, know_what_both_ways_cost) {
  performance_models m(model_file(), &date_of_test);
  for (int i = 0; i < 3; ++i) m.record_copy("a", "b", 1000, 500);
  EXPECT_EQ(m.predict_copy("a", "b", 1000, true), 500);
  for (int i = 0; i < 3; ++i) m.record_copy("a", "b", 1000, 900, true);
  EXPECT_NEAR(m.predict_copy("a", "b", 1000, true).value(), 900, 1e-3);
  EXPECT_EQ(m.predict_copy("a", "b", 1000), 500);
}

TEST_F(performance_models_test, there_is_an_end_to_them) {
  performance_models m(model_file(), &date_of_test);
  for (std::size_t i = 0; i < model_set::kernels_most; ++i) ASSERT_NE(m.model_of(key(i), size(i)), nullptr);
  EXPECT_EQ(m.model_of(key(model_set::kernels_most), size(1)), nullptr);
  EXPECT_NE(m.model_of(key(5), size(5)), nullptr);
}

TEST_F(performance_models_test, threads_may_do_all_at_once) {
  performance_models m(file(), &date_of_test);
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&, n] {
      for (int i = 0; i < 300; ++i) {
        const auto k = key(static_cast<std::uint64_t>(i % 5));
        m.record(*m.model_of(k, size(k.size + 1)), 100);
        m.record_copy("a", "b", 1000, 50);
        static_cast<void>(m.predict(k, 1));
        static_cast<void>(m.predict_copy("a", "b", 1000));
        if (i % 100 == n) m.store();
      }
    });
  for (std::thread& t : threads) t.join();
  m.store();
  EXPECT_EQ(file().read(date_of_test()).kernels.size(), 5u);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(m.predict(key(i), 1)->nanoseconds, 100);
}

} // namespace
} // namespace tern::hetero::detail
