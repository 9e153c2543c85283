// SPDX-License-Identifier: Apache-2.0
// A mobile object: a pointer that is valid on every rank invokes it.
#include <cstdio>
#include <vector>

#include <tern/tern.hpp>

class account {
public:
  void deposit(long cents) { balance_ += cents; } // not const: exclusive access
  long balance() const { return balance_; }       // const: shared access, beside other const ones
private:
  long balance_ = 0;
};

// Another rank sends this handler a pointer, which is valid wherever the object is.
void pay_in(tern::mobile_ptr<account> to, long cents) { tern::send<&account::deposit>(to, cents); }

int main(int argc, char** argv) {
  return tern::run(argc, argv, [] {
    tern::mobile_ptr<account> shared;
    if (tern::rank() == 0) shared = tern::create_on<account>(tern::size() - 1).get();
    shared = tern::broadcast(shared);
    for (int i = 0; i < 100; ++i) pay_in(shared, 1);                      // every rank, directly
    tern::send<&pay_in>((tern::rank() + 1) % tern::size(), shared, 1000); // and through a handler of another
    tern::quiesce();                                                      // all messages have been handled
    const long expected = tern::size() * 1100L, got = tern::call<&account::balance>(shared).get();
    if (tern::rank() == 0) std::printf("%ld cents on rank %d\n", got, shared.home());
    tern::barrier(); // all ranks have their answer before the account is destroyed
    if (tern::rank() == 0) tern::destroy(shared).get();
    return got == expected ? 0 : 1;
  });
}
