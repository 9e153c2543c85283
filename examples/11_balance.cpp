// SPDX-License-Identifier: Apache-2.0
// Load balancing: all objects are created on rank 0, and a policy moves them to idle ranks.
#include <chrono>
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

class field {
public:
  field() = default;
  explicit field(int cells) : cells_(cells) {}
  void advance() { // takes a millisecond for each cell: 1 to 10 ms
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(cells_);
    while (std::chrono::steady_clock::now() < end) {
    }
    tern::sim::charge(1e-3 * cells_); // in a simulation: virtual time
    done_on_ = tern::rank();
  }
  int done_on() const { return done_on_; }
  double workload(std::size_t pending) const { return 1e-3 * cells_ * static_cast<double>(pending); } // in seconds
  template <class A> void serialize(A& ar) { ar(cells_, done_on_); }

private:
  int cells_ = 0, done_on_ = -1;
};

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    if (tern::rank() == 0) tern::balance::use("diffusion").get(); // or --tern-balance diffusion
    tern::barrier();
    std::vector<tern::mobile_ptr<field>> fields;
    if (tern::rank() == 0)
      for (int i = 0; i < 40; ++i) fields.push_back(tern::create<field>(1 + i % 10));
    for (const auto& f : fields) tern::send<&field::advance>(f); // may move to a rank with an idle worker
    tern::quiesce();
    std::vector<int> done(static_cast<std::size_t>(tern::size()));
    for (const auto& f : fields) ++done.at(static_cast<std::size_t>(tern::call<&field::done_on>(f).get()));
    if (tern::rank() == 0)
      for (int r = 0; r < tern::size(); ++r) std::printf("rank %d: %d fields\n", r, done[static_cast<std::size_t>(r)]);
  });
}
