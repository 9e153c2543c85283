// SPDX-License-Identifier: Apache-2.0
#include <tern/balance/parameters.hpp>

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tern/balance/balance.hpp>
#include <tern/balance/model.hpp>
#include <tern/balance/policy.hpp>
#include <tern/base/error.hpp>

namespace tern::balance {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// "message; hint" of the error(code) that `f` throws.
template <class F> std::string refused(F f, errc code = errc::invalid_option) {
  try {
    f();
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.message() + "; " + e.hint();
  }
  ADD_FAILURE() << "not refused";
  return {};
}

TEST(parameters, reads_what_is_given_and_otherwise_the_default) {
  parameters p("x", "a=1.5,b=7,c=20us,d=far");
  EXPECT_EQ(p.number("a", 3, 0, 10), 1.5);
  EXPECT_EQ(p.number("aa", 3, 0, 10), 3);
  EXPECT_EQ(p.count("b", 3, 0, 10), 7);
  EXPECT_EQ(p.count("bb", 3, 0, 10), 3);
  EXPECT_EQ(p.seconds("c", 1), 20e-6);
  EXPECT_EQ(p.seconds("cc", 1), 1);
  EXPECT_EQ(p.word("d", "near", "near|far"), "far");
  EXPECT_EQ(p.word("dd", "near", "near|far"), "near");
  p.finish();
}

TEST(parameters, seconds_have_units) {
  const auto read = [](const char* text) { return parameters("x", std::string("t=") + text).seconds("t", 0); };
  EXPECT_EQ(read("300ns"), 300e-9);
  EXPECT_EQ(read("0.5us"), 0.5e-6);
  EXPECT_EQ(read("7ms"), 7e-3);
  EXPECT_EQ(read("2s"), 2);
  EXPECT_EQ(read("2.25"), 2.25);
  EXPECT_EQ(read("1e-3"), 1e-3);
  EXPECT_EQ(read("0"), 0);
  for (const char* wrong : {"", "s", "-1s", "1h", "inf", "nan", "1 s", "1sms", "0x1"})
    EXPECT_THAT(refused([&] { read(wrong); }), AllOf(HasSubstr("policy x"), HasSubstr("parameter t"), HasSubstr("ms")))
        << wrong;
}

TEST(parameters, what_is_no_list_is_refused) {
  for (const char* wrong : {"a", "=1", "a=1,", ",", ",a=1", "a=1,,b=2", "a=1,b"})
    EXPECT_THAT(refused([&] { parameters("x", wrong); }), AllOf(HasSubstr("policy x"), HasSubstr("NAME=VALUE")))
        << wrong;
  EXPECT_THAT(refused([] { parameters("x", "a=1,b=2,a=1"); }), AllOf(HasSubstr("parameter a"), HasSubstr("twice")));
  EXPECT_EQ(parameters("x", "a=b=c").word("a", "", "b=c"), "b=c");
  parameters("x", "").finish();
}

TEST(parameters, values_out_of_bounds_name_policy_parameter_and_bounds) {
  const auto number = [](const char* text, double least, double most) {
    parameters("x", std::string("limit=") + text).number("limit", 2, least, most);
  };
  for (const char* wrong : {"0.5", "4.5", "abc", "", "1.5x", "nan", "+2", " 2"})
    EXPECT_THAT(refused([&] { number(wrong, 1, 4); }),
                AllOf(HasSubstr("policy x"), HasSubstr("limit cannot be \"" + std::string(wrong) + "\""),
                      HasSubstr("a number from 1 to 4")))
        << wrong;
  number("1", 1, 4);
  number("4", 1, 4);
  EXPECT_THAT(refused([&] { number("0", 1, std::numeric_limits<double>::infinity()); }), HasSubstr("at least 1"));

  const auto count = [](const char* text) {
    parameters("x", std::string("n=") + text).count("n", 2, 1, std::numeric_limits<int>::max());
  };
  for (const char* wrong : {"0", "1.5", "many", "99999999999", "-3", "0x10"})
    EXPECT_THAT(refused([&] { count(wrong); }),
                AllOf(HasSubstr("parameter n"), HasSubstr("a whole number, at least 1")))
        << wrong;

  for (const char* wrong : {"", "fa", "near|far", "Far"})
    EXPECT_THAT(refused([&] { parameters("x", std::string("d=") + wrong).word("d", "near", "near|far"); }),
                HasSubstr("allowed: near|far"))
        << wrong;
}

TEST(parameters, finish_names_the_unknown_and_the_known) {
  parameters p("x", "limit=2,limmit=3");
  p.number("limit", 1.5, 1, 4);
  p.seconds("every", 0.25);
  p.word("to", "near", "near|far");
  EXPECT_THAT(refused([&] { p.finish(); }),
              AllOf(HasSubstr("policy x has no parameter \"limmit\""),
                    HasSubstr("did you mean limit? it has, by default: every=0.25s, limit=1.5, to=near")));
  EXPECT_EQ(refused([] {
              parameters far("x", "qqqqqq=3");
              far.count("n", 1, 0, 4);
              far.finish();
            }),
            "policy x has no parameter \"qqqqqq\"; it has, by default: n=1");
  EXPECT_THAT(refused([] { parameters("y", "a=1").finish(); }), HasSubstr("it has none"));
}

TEST(parameters, a_policys_text_is_name_and_rest) {
  EXPECT_EQ(split_policy("a:b=1,c=2").name, "a");
  EXPECT_EQ(split_policy("a:b=1,c=2").rest, "b=1,c=2");
  EXPECT_EQ(split_policy("a").rest, "");
  EXPECT_EQ(split_policy("a:").rest, "");
  EXPECT_EQ(split_policy("a:b=:").rest, "b=:");
  EXPECT_EQ(split_policy("").name, "");
}

class with_limit : public policy {
public:
  with_limit(policy_context& h, parameters& p) : policy(h) { p.number("limit", 1.5, 1, 4); }
};
const registered_policy<with_limit> entered("test-with-limit", "is there for tests of parameters");

TEST(policy, is_found_by_name) {
  std::string last;
  bool found = false;
  for (const policy_kind& k : policies()) {
    EXPECT_LT(last, k.name);
    EXPECT_FALSE(k.what.empty()) << k.name;
    last = k.name;
    found = found || (k.name == "test-with-limit" && k.what == "is there for tests of parameters");
  }
  EXPECT_TRUE(found);
  check_policy("none");
  check_policy("test-with-limit");
  check_policy("test-with-limit:limit=2");
}

// The option is looked at before a job starts, with the policies that the program has.
TEST(policy, option_is_read_with_all_policies_of_the_program) {
  const auto given = [](std::string text) {
    std::string program = "app";
    char* arguments[] = {program.data(), text.data(), nullptr};
    int count = 2;
    return options::parse(count, arguments)[balance_option];
  };
  EXPECT_EQ(given("--tern-balance=test-with-limit:limit=2"), "test-with-limit:limit=2");
  EXPECT_EQ(given("--tern-balance=none"), "none");
  EXPECT_THAT(refused([&] { given("--tern-balance=difusion"); }),
              HasSubstr("option balance cannot be \"difusion\" (on the command line): there is no policy \"difusion\"; "
                        "did you mean diffusion? there are: "));
  EXPECT_THAT(refused([&] { given("--tern-balance=diffusion:lmit=2"); }),
              HasSubstr("option balance cannot be \"diffusion:lmit=2\" (on the command line): policy diffusion has no "
                        "parameter \"lmit\"; did you mean limit? it has, by default: "));
  EXPECT_THAT(refused([&] { given("--tern-balance=test-with-limit:limit=9"); }),
              HasSubstr("allowed: a number from 1 to 4"));
}

TEST(policy, wrong_texts_are_refused) {
  EXPECT_THAT(refused([] { check_policy("nonne"); }),
              AllOf(HasSubstr("there is no policy \"nonne\"; did you mean none? there are: "),
                    HasSubstr("refine, steal, test-")));
  EXPECT_THAT(refused([] { check_policy(""); }), HasSubstr("no policy \"\""));
  EXPECT_THAT(refused([] { check_policy("none:limit=2"); }), HasSubstr("policy none has no parameter \"limit\""));
  EXPECT_THAT(refused([] { check_policy("test-with-limit:limit=5"); }), HasSubstr("from 1 to 4"));
  EXPECT_THAT(refused([] { check_policy("test-with-limit:limmit=2"); }), HasSubstr("limit=1.5"));
}

// Sends itself messages that are none of its own.
class confused : public policy {
public:
  confused(policy_context& h, parameters& p) : policy(h), what_(p.word("sends", "other", "other|nothing|garbage")) {
    on(&confused::taken);
  }
  void dist_balance(trigger) override {
    if (what_ == "other") send(here.rank(), 1.5f);
    if (what_ == "nothing") here.post(here.rank(), byte_buffer());
    if (what_ == "garbage") here.post(here.rank(), pack(std::uint8_t{0}, std::uint8_t{1}));
  }

private:
  void taken(int, const double&) {}
  std::string what_;
};
const registered_policy<confused> entered_too("test-confused", "sends what is no message");

TEST(policy, messages_that_are_none_are_refused) {
  workload w;
  w.objects = {{.seconds = {1}}};
  const auto says = [&](const char* what) {
    return run_model(w, {.policy = std::string("test-confused:sends=") + what}).error;
  };
  EXPECT_THAT(says("other"), AllOf(HasSubstr("float"), HasSubstr("constructor")));
  EXPECT_THAT(says("nothing"), HasSubstr("no message of its own"));
  EXPECT_THAT(says("garbage"), HasSubstr("invalid_data"));
}

} // namespace
} // namespace tern::balance
