// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The names that a rank keeps. Internal.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tern/mobile/directory.hpp>
#include <tern/mobile/names.hpp>
#include <tern/task/fiber.hpp>
#include <tern/task/wait/waiting.hpp>

namespace tern::mobile {

namespace detail {

/// What a rank's file of a checkpoint says of a name.
struct saved_name {
  std::string name;
  object_id object;
  std::vector<std::string> types;
  std::int32_t rank = 0;
  template <class A> void serialize(A& ar) { ar(name, object, types, rank); }
};

} // namespace detail

/// A rank's part of the table of names. Thread-safe.
///
/// A name is kept by the rank that its hash says. That rank cannot know whether an object lives:
/// the rank where it was born can, and is asked, in the fiber that publishes or looks for the name.
/// So what was found in the table is looked at once more after that, by its serial number.
class name_table final : net::reported_part {
public:
  name_table();
  ~name_table();
  name_table(const name_table&) = delete;
  name_table& operator=(const name_table&) = delete;
  static name_table& of(net::node& here);

  struct published {
    object_id object;
    std::vector<std::string> types; ///< the one that it was published as, and its bases
    int rank = 0;                   ///< that published it
    std::uint64_t serial = 0;
  };
  struct search {
    int rank = 0;
    std::uint64_t reply = 0;
    std::string wanted; ///< the class's name
    detail::name_query how;
    fiber_clock::time_point over{}; ///< of one that ends by itself
  };

  /// \throws error(already_exists), error(not_found). In a fiber.
  void publish(const std::string& name, published one);
  /// \throws error(not_found).
  void unpublish(const std::string& name);
  /// Answers, now or when the name is published. In a fiber.
  void find(const std::string& name, search one);

  // For checkpoints, when nothing is under way
  std::vector<detail::saved_name> save() const;
  /// Names of an earlier job, whichever rank keeps them.
  void restore(const std::vector<detail::saved_name>& all);
  /// Forgets all names, and those that are waited for. \pre nothing is under way
  void clear();
  /// "'solver', by rank 2": a name that is waited for; empty: none.
  std::string first_search() const;

private:
  std::string describe() override;
  /// The name's entry if its object lives; forgets it otherwise.
  std::optional<published> living(const std::string& name);
  void answer(const std::string& name, const published& one, const search& who) const;
  void drop_expired(std::vector<search>& all) const;

  net::node& node_;
  mutable tern::detail::spin_lock lock_; // a few instructions at a time; reports look, too
  std::uint64_t serial_ = 0;
  std::map<std::string, published> names_;
  std::map<std::string, std::vector<search>> waiting_;
};

} // namespace tern::mobile
