// SPDX-License-Identifier: Apache-2.0
// Mobile objects: talked to through a pointer that is valid on every rank.
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

class account {
public:
  void deposit(long cents) { balance_ += cents; } // not const: alone on its object
  long balance() const { return balance_; }       // const: may run beside other const ones
private:
  long balance_ = 0;
};

// A handler that is given an object's pointer by another rank, and uses it wherever the object is.
void pay_in(tern::mobile_ptr<account> to, long cents) { tern::send<&account::deposit>(to, cents); }

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::mobile_ptr<account> shared;
    if (tern::rank() == 0) shared = tern::create_on<account>(tern::size() - 1).get();
    shared = tern::broadcast(shared);
    for (int i = 0; i < 100; ++i) pay_in(shared, 1);                      // from every rank
    tern::send<&pay_in>((tern::rank() + 1) % tern::size(), shared, 1000); // and through another one
    tern::quiesce();                                                      // everything sent has been done, everywhere
    const long expected = tern::size() * 1100L, got = tern::call<&account::balance>(shared).get();
    if (tern::rank() == 0) std::printf("%ld cents on rank %d\n", got, shared.home());
    tern::barrier(); // so that nobody ends the account while others ask
    if (tern::rank() == 0) tern::destroy(shared).get();
    return got == expected ? 0 : 1;
  });
}
