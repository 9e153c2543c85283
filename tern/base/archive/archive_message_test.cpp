// SPDX-License-Identifier: Apache-2.0
// What archives know of the messages that they become.
#include <tern/base/archive.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <tern/base/error.hpp>

namespace {

using tern::archive_purpose;

/// Notes what becomes of it.
struct token {
  std::string* log;
  char name;
  template <class A> void save(A& ar) const {
    if constexpr (!std::is_same_v<A, tern::size_archive>) {
      log->push_back(ar.purpose() == archive_purpose::message ? name : '-');
      ar.on_abandon([to = log, as = name] { to->push_back(static_cast<char>(as - 'a' + 'A')); });
    } else {
      ar.beside(100);
    }
    ar(name);
  }
};
struct bad {
  template <class A> void save(A& ar) const {
    if constexpr (!std::is_same_v<A, tern::size_archive>) throw tern::error(tern::errc::io, "cannot be packed");
    ar(1);
  }
};

TEST(archive_messages, what_was_packed_is_undone_unless_it_is_delivered) {
  std::string log;
  std::byte room[16];
  {
    tern::packing_undo undo;
    EXPECT_EQ(tern::pack_message_into(room, undo, token{&log, 'a'}, token{&log, 'b'}), 2u);
    EXPECT_FALSE(undo.empty());
    undo.delivered();
  }
  EXPECT_EQ(log, "ab");
  log.clear();
  {
    tern::packing_undo undo;
    tern::pack_message_into(room, undo, token{&log, 'a'}, token{&log, 'b'});
  }
  EXPECT_EQ(log, "abBA"); // the last one first
}

TEST(archive_messages, what_was_packed_is_undone_if_another_value_cannot_be) {
  std::string log;
  std::byte room[16];
  const auto pack = [&] {
    tern::packing_undo undo;
    tern::pack_message_into(room, undo, token{&log, 'a'}, bad(), token{&log, 'b'});
  };
  EXPECT_THROW(pack(), tern::error);
  EXPECT_EQ(log, "aA"); // the other one had not been packed
}

TEST(archive_messages, nothing_is_packed_where_it_does_not_fit) {
  std::string log;
  std::byte room[1];
  tern::packing_undo undo;
  EXPECT_EQ(tern::pack_message_into(room, undo, token{&log, 'a'}, token{&log, 'b'}), 2u);
  EXPECT_TRUE(undo.empty());
  EXPECT_EQ(log, "");
}

TEST(archive_messages, storage_undoes_nothing) {
  std::string log;
  EXPECT_THROW(tern::pack(token{&log, 'a'}, bad()), tern::error);
  EXPECT_EQ(log, "-");
}

TEST(archive_messages, bytes_beside_are_no_bytes_of_the_archive) {
  std::string log;
  tern::size_archive ar(archive_purpose::message);
  ar(token{&log, 'a'}, std::vector<token>(2, token{&log, 'b'}));
  EXPECT_EQ(ar.beside(), 300u);
  EXPECT_EQ(ar.size(), 1u + 8 + 2);
  EXPECT_EQ(ar.purpose(), archive_purpose::message);
  EXPECT_EQ(tern::size_archive().purpose(), archive_purpose::storage);
}

TEST(archive_messages, a_reader_may_discard) {
  const tern::byte_buffer bytes = tern::pack(1);
  EXPECT_FALSE(tern::input_archive(bytes).discards());
  EXPECT_TRUE(tern::input_archive(bytes, true).discards());
}

/// Asks for something when it has been read.
struct asking {
  std::string* log = nullptr;
  template <class A> void load(A& ar) {
    char name = 0;
    ar(name);
    ar.on_complete([to = log, name] { to->push_back(name); });
  }
};

TEST(archive_messages, what_moves_asks_for_nothing_before_all_has_been_unpacked) {
  const tern::byte_buffer bytes = tern::pack('a', 'b');
  std::string log;
  asking a{&log}, b{&log};
  {
    tern::input_archive ar(bytes);
    ar(a, b);
  }
  EXPECT_EQ(log, "ab") << "at once, in a message";
  log.clear();
  tern::unpacking_steps later;
  tern::input_archive ar(bytes, later);
  ar(a, b);
  EXPECT_EQ(log, "");
  later.run();
  EXPECT_EQ(log, "ab");
  later.run();
  EXPECT_EQ(log, "ab") << "once";
  {
    tern::unpacking_steps never;
    tern::input_archive again(bytes, never);
    again(a, b);
    EXPECT_THROW(again(a), tern::error);
  }
  EXPECT_EQ(log, "ab");
}

} // namespace
