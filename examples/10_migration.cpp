// SPDX-License-Identifier: Apache-2.0
// Objects that move: a walker visits every rank while all ranks send to it.
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

class walker {
public:
  void greet(int from) { greetings_.push_back(from); }
  int greeted() const { return static_cast<int>(greetings_.size()); }
  int whereabouts() const { return tern::rank(); }
  template <class A> void serialize(A& ar) { ar(greetings_); } // all members move

private:
  std::vector<int> greetings_;
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::mobile_ptr<walker> w;
    if (tern::rank() == 0) w = tern::create<walker>();
    w = tern::broadcast(w); // valid wherever the walker is
    if (tern::rank() == 0)
      for (int stop = 1; stop <= tern::size(); ++stop) tern::migrate(w, stop % tern::size()).get();
    for (int i = 0; i < 100; ++i) tern::send<&walker::greet>(w, tern::rank()); // while it moves
    tern::quiesce();
    const int greeted = tern::call<&walker::greeted>(w).get(), where = tern::call<&walker::whereabouts>(w).get();
    if (tern::rank() == 0) std::printf("%d greetings, and back on rank %d\n", greeted, where);
    return greeted == 100 * tern::size() && where == 0 ? 0 : 1;
  });
}
