// SPDX-License-Identifier: Apache-2.0
// expect: this type cannot be
#include <string>

#include <tern/tern.hpp>

class note {
public:
  note() = default;
  explicit note(std::string text) : text_(std::move(text)) {}
#ifdef FINE
  template <class A> void serialize(A& ar) { ar(text_); }
#endif

private:
  std::string text_;
};
void keep(const note& n) { static_cast<void>(n); }

int main() { tern::send<&keep>(0, note("remember")); }
