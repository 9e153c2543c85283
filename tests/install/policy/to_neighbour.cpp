// SPDX-License-Identifier: Apache-2.0
// An idle rank asks its right neighbour, which gives objects that wait there.
#include <tern/balance/policy.hpp>

namespace {

namespace balance = tern::balance;

struct question {
  template <class A> void serialize(A&) {}
};

class to_neighbour final : public balance::policy {
public:
  to_neighbour(balance::policy_context& rank, balance::parameters& p)
      : policy(rank), most_(p.count("most", 4, 1, 100)) {
    on(&to_neighbour::asked);
  }
  void dist_balance(balance::trigger why) override {
    if (why == balance::trigger::idle && here.size() > 1) send((here.rank() + 1) % here.size(), question());
  }

private:
  void asked(int from, const question&) {
    int given = 0;
    for (const balance::object_info& x : here.objects())
      if (x.movable && x.pending > 0 && given++ < most_) here.move(x.id, from);
  }
  const int most_;
};

const balance::registered_policy<to_neighbour> the_policy("to-neighbour", "an idle rank asks its right neighbour");

} // namespace
